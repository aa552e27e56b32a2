//! The switches of this worker: what they refuse, and which rules they had when they came.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_openflow::view::flow_stats;
use sluice_openflow::{
    DatapathId, FieldId, FlowDesc, FlowMod, Message, MultipartReply, MultipartRequest,
    MultipartType, PortNo, VlanId,
};
use sluice_sdk::view::{Fact, Host, HostId, PortRole, SwitchPort};
use sluice_sdk::{Ctx, Network, SwitchIndex};

use super::flood::is_edge;
use super::rules::{self, Named};
use super::simpler::refused_rank;

/// Rules that a switch is asked for; one that has more is not asked. They fit `session.multipart_bytes_max`.
const RULES_MAX: u32 = 16_384;

/// Switches of a worker that are asked at one time, so that what they tell fits `session.multipart_total_bytes_max`.
const ASKED_MAX: usize = 8;

/// A switch of this worker.
#[derive(Debug)]
struct Own {
    sw: SwitchIndex,
    named: Named,
    /// Whether its version can match a conversation of IPv6.
    says_ipv6: bool,
    refuses_until: Option<Instant>,
    /// Whether it could not match what it was asked to.
    is_unable: bool,
    asked: Asked,
    /// Hosts to which its rules send, by port, as long as it is not known what the port leads to.
    claims: BTreeMap<PortNo, Vec<HostId>>,
}

/// How far a switch was asked for its rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Not, and not to be before this.
    Not(Instant),
    HowMany(u32),
    Which(u32),
    Done,
}

/// The switches of this worker.
#[derive(Debug, Default)]
pub(super) struct Switches {
    all: BTreeMap<DatapathId, Own>,
    /// When the first one came up.
    began: Option<Instant>,
    /// Rules to hosts that are known to be elsewhere, which are looked at once all switches are there.
    doubts: Vec<(SwitchPort, HostId)>,
}

/// How long switches may take to find a controller that was started again. Before, a port to one that is not there yet may
/// be taken for one at the edge, and who is behind it for one who is there.
const GATHERED_AFTER: Duration = Duration::from_secs(10);

/// Rules in doubt that are remembered. Others go when they are idle.
const DOUBTS_MAX: usize = 16_384;

impl Switches {
    pub(super) fn up(&mut self, ctx: &mut Ctx<'_>) {
        let named = Named::of(ctx.switch.version());
        let claims = BTreeMap::new();
        let says_ipv6 = rules::says_ipv6(ctx.switch.version());
        let is_unable = refused_rank(ctx.view(), ctx.datapath_id).is_some();
        let (sw, refuses_until, asked) = (ctx.switch_index, None, Asked::Not(ctx.now));
        let own = Own { sw, named, says_ipv6, refuses_until, is_unable, asked, claims };
        self.began.get_or_insert(ctx.now);
        self.all.insert(ctx.datapath_id, own);
        self.ask(ctx);
    }

    pub(super) fn down(&mut self, sw: SwitchIndex) {
        self.all.retain(|_, own| own.sw != sw);
    }

    /// All of them, and how their rules are named.
    pub(super) fn all(&self) -> impl Iterator<Item = (DatapathId, Named)> {
        self.all.iter().map(|(&id, own)| (id, own.named))
    }

    /// How rules of a switch of this worker are named.
    pub(super) fn named(&self, id: DatapathId) -> Option<Named> {
        self.all.get(&id).map(|own| own.named)
    }

    /// Whether a switch of this worker can match a conversation of IPv6.
    pub(super) fn says_ipv6(&self, id: DatapathId) -> bool {
        self.all.get(&id).is_some_and(|own| own.says_ipv6)
    }

    /// Notes that a switch refused a rule. Whether that is news.
    pub(super) fn refused(&mut self, id: DatapathId, now: Instant, retry: Duration) -> bool {
        let is_news = !self.refuses(id, now);
        if let Some(own) = self.all.get_mut(&id) {
            own.refuses_until = Some(now + retry);
        }
        is_news
    }

    /// Whether a switch of this worker refused a rule a while ago.
    pub(super) fn refuses(&self, id: DatapathId, now: Instant) -> bool {
        self.all.get(&id).and_then(|own| own.refuses_until).is_some_and(|until| now < until)
    }

    /// Switches that refused a rule a while ago.
    pub(super) fn refusing(&self) -> usize {
        self.all.values().filter(|own| own.refuses_until.is_some()).count()
    }

    /// Notes whether a switch could not match what it was asked to.
    pub(super) fn set_unable(&mut self, id: DatapathId, is_unable: bool) {
        if let Some(own) = self.all.get_mut(&id) {
            own.is_unable = is_unable;
        }
    }

    /// Switches that could not match what they were asked to.
    pub(super) fn unable(&self) -> usize {
        self.all.values().filter(|own| own.is_unable).count()
    }

    /// Has switches whose rules cannot be named asked for them once more, at `at`.
    pub(super) fn ask_again(&mut self, at: Instant) {
        for own in self.all.values_mut().filter(|own| own.named == Named::ByPort) {
            own.asked = Asked::Not(at);
            own.claims.clear();
        }
    }

    /// Lets time pass for a switch.
    pub(super) fn time_passes(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(own) = self.all.get_mut(&ctx.datapath_id) {
            own.refuses_until = own.refuses_until.filter(|&until| ctx.now < until);
        }
        self.ask(ctx);
    }

    /// Asks a switch how many rules of ours it has, unless it was asked, or too many others are.
    fn ask(&mut self, ctx: &mut Ctx<'_>) {
        let is_open = |own: &&Own| matches!(own.asked, Asked::HowMany(_) | Asked::Which(_));
        let open = self.all.values().filter(is_open).count();
        let Some(own) = self.all.get_mut(&ctx.datapath_id) else { return };
        let is_due = matches!(own.asked, Asked::Not(at) if at <= ctx.now);
        if is_due && open < ASKED_MAX {
            let asked = ctx.request(MultipartRequest::AggregateStats(own.named.request()));
            own.asked = asked.map_or(Asked::Done, Asked::HowMany);
        }
    }

    /// Hears what a switch was asked. Returns how many deletions it led to.
    pub(super) fn reply(
        &mut self,
        xid: u32,
        kind: MultipartType,
        body: &[u8],
        priority: u16,
        ctx: &mut Ctx<'_>,
    ) -> u64 {
        let Some(own) = self.all.get_mut(&ctx.datapath_id) else { return 0 };
        match own.asked {
            Asked::HowMany(asked) if asked == xid => {
                let rules = match ctx.parse_reply(kind, body) {
                    Ok(MultipartReply::AggregateStats(sum)) => sum.stats.flow_count().unwrap_or(0),
                    _ => 0,
                };
                let asked = if (1..=RULES_MAX).contains(&rules) {
                    ctx.request(MultipartRequest::FlowDesc(own.named.request())).ok()
                } else {
                    None
                };
                own.asked = asked.map_or(Asked::Done, Asked::Which);
                0
            }
            Asked::Which(asked) if asked == xid => {
                own.asked = Asked::Done;
                let mut deleted = 0;
                for rule in flow_stats(ctx.switch.version(), kind, body, 0).map_while(Result::ok) {
                    let Ok(rule) = rule.to_flow_desc() else { continue };
                    if !rules::is_ours(rule.cookie) {
                        continue;
                    }
                    // Written when a switch could not match as much as is asked for now; it would hide others.
                    if rule.priority > priority {
                        let FlowDesc { priority, matching, .. } = rule;
                        let rule = FlowMod { priority, matching, ..FlowMod::default() };
                        ctx.network
                            .send_to(ctx.datapath_id, Message::FlowMod(rules::delete_just(rule)));
                        deleted += 1;
                        continue;
                    }
                    let value = |id| rule.matching.get(id).map(|field| field.value);
                    let dst = value(FieldId::ETH_DST).and_then(|value| u64::try_from(value).ok());
                    let vlan = value(FieldId::VLAN_VID).unwrap_or(0) & 0xfff;
                    if let (Some(mac), Some(port)) = (dst, rules::out_port(&rule.instructions)) {
                        let vlan = VlanId(u16::try_from(vlan).unwrap_or(0));
                        let mac = sluice_openflow::MacAddr::from_u64(mac);
                        own.claims.entry(port).or_default().push(HostId { mac, vlan });
                    }
                }
                let ports: Vec<_> = own.claims.keys().copied().collect();
                let (id, now) = (ctx.datapath_id, ctx.now);
                let settle = |port| self.settle(SwitchPort::new(id, port), now, ctx.network);
                deleted + ports.into_iter().map(settle).sum::<u64>()
            }
            _ => 0,
        }
    }

    /// A port is perhaps known by now: hosts that rules send to there are there, if nobody knows otherwise, and rules
    /// that send into nothing go. Returns how many deletions it led to.
    pub(super) fn settle(&mut self, at: SwitchPort, now: Instant, network: &mut Network) -> u64 {
        let Some(own) =
            self.all.get_mut(&at.switch).filter(|own| own.claims.contains_key(&at.port))
        else {
            return 0;
        };
        let is_dead = network.view().port(at).is_none_or(|port| !port.is_up);
        let leads_to = network.view().port_role(at);
        if !is_dead && leads_to == PortRole::Pending {
            return 0;
        }
        let mut claims = own.claims.remove(&at.port).unwrap_or_default();
        if is_dead {
            network.send_to(at.switch, Message::FlowMod(own.named.delete(at.port)));
            return 1;
        }
        if !is_edge(network.view(), at) {
            return 0;
        }
        claims.sort_unstable();
        claims.dedup();
        let mut doubts = Vec::new();
        for host in claims {
            match network.view().host(host) {
                Some(known) if known.at != at => doubts.push((at, host)),
                Some(_) => {}
                None => {
                    let there = Host { at, addrs: Vec::new() };
                    network.publish(now, Fact::Host(host, Some(there)));
                }
            }
        }
        doubts.truncate(DOUBTS_MAX.saturating_sub(self.doubts.len()));
        self.doubts.append(&mut doubts);
        self.resolve(now, network)
    }

    /// Deletes rules to hosts that are elsewhere, unless switches may be missing still. Returns how many deletions it took.
    pub(super) fn resolve(&mut self, now: Instant, network: &mut Network) -> u64 {
        let age = self.began.map(|began| now.saturating_duration_since(began));
        if age.is_none_or(|age| age < GATHERED_AFTER) {
            return 0;
        }
        let mut deleted = 0;
        for (at, host) in std::mem::take(&mut self.doubts) {
            let view = network.view();
            let is_elsewhere = view.host(host).is_some_and(|known| known.at != at);
            if let Some(own) = self.all.get(&at.switch)
                && is_elsewhere
                && is_edge(view, at)
            {
                let rule = own.named.delete_to(host, at.port);
                network.send_to(at.switch, Message::FlowMod(rule));
                deleted += 1;
            }
        }
        deleted
    }
}
