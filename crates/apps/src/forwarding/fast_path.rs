//! The fast path for common packets between two hosts of one switch. It sends, byte for byte, what the general path
//! would send; `crates/apps/tests/applications/fast_path.rs` compares both.

use sluice_fastpath::{ForwardingDecision, PathTemplates, install_paths_v1_0, install_paths_v1_3};
use sluice_openflow::view::PacketIns;
use sluice_openflow::{DatapathId, EncodeError, Encoder, EthHeader, MacAddr, PortNo};
use sluice_sdk::view::{NetworkView, SwitchPort};
use sluice_sdk::{CoarseTime, Ctx, FAST_PATH_PORTS_MAX, SwitchHosts};

use super::answers::PublishedAnswers;
use super::flood::is_edge;
use super::flow::Flow;
use super::match_ranks::MatchRanks;
use super::pending::PendingBurst;
use super::{Config, Forwarding, Matching, flow_entries, pending};

/// What the fast path needs for one switch of this worker.
#[derive(Debug)]
pub(super) struct SwitchFastPath {
    pub(super) switch: DatapathId,
    /// What its flow entries match.
    pub(super) matching: Matching,
    pub(super) templates: PathTemplates,
    pub(super) edges: EdgePortBits,
    pub(super) published: PublishedAnswers,
}

/// The edge ports of a switch, cached until the switch or one of its ports changes.
#[derive(Debug, Clone)]
pub(super) struct EdgePortBits {
    /// The version of the view that was looked at last, which is read faster than that of the switch.
    view: Option<u64>,
    version: Option<u64>,
    /// One bit per port.
    bits: [u64; FAST_PATH_PORTS_MAX as usize / 64],
}

impl SwitchFastPath {
    /// For the switch that `out` writes to.
    ///
    /// # Errors
    /// If the version of the switch cannot express the flow entry.
    pub(super) fn new(
        switch: DatapathId,
        cfg: &Config,
        ranks: &MatchRanks,
        out: &Encoder<'_>,
    ) -> Result<Self, EncodeError> {
        let matching = ranks.at(switch);
        let templates = PathTemplates::new(out, &flow_entry(cfg, matching), cfg.both_directions)?;
        Ok(Self {
            switch,
            matching,
            templates,
            edges: EdgePortBits {
                view: None,
                version: None,
                bits: [0; FAST_PATH_PORTS_MAX as usize / 64],
            },
            published: PublishedAnswers::default(),
        })
    }

    /// Applies a new configuration, or a change of what flow entries match.
    pub(super) fn configure(&mut self, cfg: &Config, ranks: &MatchRanks) {
        self.matching = ranks.at(self.switch);
        self.published.forget_form();
        let entry = flow_entry(cfg, self.matching);
        let encoded = self.templates.set_flow(&entry, cfg.both_directions);
        debug_assert!(encoded.is_ok(), "every version can express it");
    }
}

/// A flow entry between two hosts; addresses and ports are placeholders.
fn flow_entry(cfg: &Config, matching: Matching) -> sluice_openflow::FlowMod {
    let flow = Flow::pair(MacAddr::BROADCAST, MacAddr::BROADCAST);
    flow_entries::flow_entry(cfg, matching, flow, [PortNo(1), PortNo(2)])
}

impl EdgePortBits {
    pub(super) fn refresh(&mut self, view: &NetworkView, id: DatapathId) {
        let of_view = Some(view.version());
        if std::mem::replace(&mut self.view, of_view) == of_view {
            return;
        }
        let of_switch = Some(view.switch_version(id));
        if std::mem::replace(&mut self.version, of_switch) == of_switch {
            return;
        }
        self.bits.fill(0);
        let ports = view.switch(id).into_iter().flat_map(|switch| switch.ports.keys());
        let low = ports.filter(|port| port.0 < FAST_PATH_PORTS_MAX);
        for port in low.filter(|&&port| is_edge(view, SwitchPort::new(id, port))) {
            if let Some(bits) = self.bits.get_mut(port.0 as usize / 64) {
                *bits |= 1 << (port.0 % 64);
            }
        }
    }

    /// Whether both have the same ports.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.bits == other.bits
    }

    #[inline]
    pub(super) fn contains(&self, port: PortNo) -> bool {
        self.bits.get(port.0 as usize / 64).is_some_and(|bits| bits >> (port.0 % 64) & 1 == 1)
    }
}

impl Forwarding {
    /// Handles common packets until the first that is not: from a host at its known port to a host at another port of
    /// the same switch, with flow entries that match both addresses.
    pub(super) fn handle_fast_path(&mut self, packets: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        let Some(Some(fast_path)) = self.fast_paths.get_mut(ctx.switch_index.index()) else {
            return;
        };
        if fast_path.matching != Matching::Pair || self.switches.is_paused(ctx.datapath_id, ctx.now)
        {
            return;
        }
        let time = pending::installation_time(self.cfg.path_pending, ctx.rtt());
        let (view, hosts) = ctx.network.view_and_fast_path_hosts();
        let Some(hosts) = hosts.switch(ctx.switch_index) else { return };
        fast_path.edges.refresh(view, ctx.datapath_id);
        let (pending, both) =
            (self.pending.burst_of(ctx.switch_index, ctx.now, time), self.cfg.both_directions);
        let (now, edges) = (hosts.coarse_time(ctx.now), &fast_path.edges);
        let mut burst = Burst { hosts, edges, pending, both, now, installed: 0, sent_only: 0 };
        let (out, templates) = (&mut ctx.switch, &fast_path.templates);
        let decide = |burst: &mut Burst<'_>, port, eth: &EthHeader, frame: &[u8]| {
            burst.decide(port, eth, frame)
        };
        install_paths_v1_0(packets, out, templates, &mut burst, decide);
        let decide = |burst: &mut Burst<'_>, port, eth: &EthHeader, frame: &[u8]| {
            burst.decide(port, eth, frame)
        };
        install_paths_v1_3(packets, out, templates, &mut burst, decide);
        let Burst { installed, sent_only, .. } = burst;
        if installed > 0 {
            self.pending.record_begun(ctx.now);
        }
        self.counters.paths_installed += installed;
        self.counters.flow_entries_written += if both { 2 * installed } else { installed };
        self.counters.packets_during_installation += sent_only;
    }
}

/// What decides about the packets of a burst.
struct Burst<'a> {
    hosts: &'a mut SwitchHosts,
    edges: &'a EdgePortBits,
    pending: PendingBurst<'a>,
    both: bool,
    now: CoarseTime,
    installed: u64,
    sent_only: u64,
}

impl Burst<'_> {
    /// The decision about a packet; `None` if the general path must handle it.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn decide(
        &mut self,
        in_port: PortNo,
        eth: &EthHeader,
        frame: &[u8],
    ) -> Option<ForwardingDecision> {
        let mut from = self.hosts.find(eth.src_bits())?;
        let entry = from.entry();
        if entry.port() != in_port
            || !entry.is_ordinary(eth, frame)
            || !self.edges.contains(in_port)
        {
            return None;
        }
        from.mark_seen(self.now);
        let to = self.hosts.find(eth.dst_bits())?.entry().port();
        if to == in_port || !self.edges.contains(to) {
            return None;
        }
        if self.pending.check_or_begin(eth, self.both) {
            self.sent_only += 1;
            return Some(ForwardingDecision::SendOnly(to));
        }
        self.installed += 1;
        Some(ForwardingDecision::Install(to))
    }
}
