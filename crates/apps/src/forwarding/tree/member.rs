//! The switches of this worker: what each has of trees, as far as it has confirmed it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use sluice_openflow::view::flow_stats;
use sluice_openflow::{DatapathId, FlowMod, MultipartRequest, MultipartType};
use sluice_sdk::view::{Fact, SwitchPort};
use sluice_sdk::{Ctx, Network, SwitchIndex};

use super::Flooding;
use super::rules::{self, LIFE};
use super::state::{SpanningTree, StaleTreePort, SwitchTreeState, TreePhase, TreeTraffic};

/// How often rules are written anew while their tree stands.
const REFRESH: Duration = Duration::from_secs(3);

/// A switch that takes longer to confirm its rules may lose them before anybody hears of it: the tree goes.
const OVERDUE: Duration = Duration::from_secs(4);

const _: () = assert!(REFRESH.as_secs() + OVERDUE.as_secs() < LIFE.as_secs());

/// How long a switch has no rules, and its links stay as they are, before it gets others: all that was on its way along
/// an older tree has arrived.
const CALM: Duration = Duration::from_secs(1);

/// After which a switch that refused a rule of a tree is tried again.
const RETRY: Duration = Duration::from_secs(60);

/// The switches of this worker.
#[derive(Debug, Default)]
pub(super) struct Members {
    all: BTreeMap<DatapathId, Member>,
    started: Option<Instant>,
}

/// One of them.
#[derive(Debug)]
struct Member {
    sw: SwitchIndex,
    groups: TreeTraffic,
    state: State,
    /// When its last rules went, or a link of it changed last.
    changed: Instant,
    refused: Option<Instant>,
    /// Which question for what it came with is open, and the ports from which it passed on frames then.
    asked: Option<u32>,
    old: Vec<SwitchPort>,
    /// What was written to it last, and from which view.
    rules: Vec<FlowMod>,
    drawn: Option<u64>,
}

/// What it has.
///
/// ```text
///  Unknown ─▶ Clearing ─▶ Clear ─▶ Bare ─▶ Opening ─▶ Open
///                ▲                            │         │
///                └────────────────────────────┴─────────┘
/// ```
#[derive(Debug, Clone, Copy)]
enum State {
    /// Perhaps rules of some tree, of an earlier process even.
    Unknown,
    /// It was told to have none, and has yet to confirm it. Whether people were told how long that takes.
    Clearing { xid: u32, since: Instant, is_told: bool },
    /// None for a while.
    Clear,
    /// None for long enough.
    Bare,
    /// It was told to have those of this tree, and has yet to confirm it.
    Opening { nth: u64, xid: u32, since: Instant },
    /// It has those of this tree, at least as they were at `since`; they were written once more and are to be confirmed.
    Open { nth: u64, since: Instant, again: Option<(u32, Instant)> },
}

impl Members {
    pub(super) fn on_time(&mut self, now: Instant) {
        self.started.get_or_insert(now);
    }

    pub(super) fn up(&mut self, flooding: Flooding, ctx: &mut Ctx<'_>) {
        let groups = rules::groups(ctx.switch.version());
        let is_early = self.is_early(ctx.now);
        let asked = (flooding == Flooding::Tree && is_early)
            .then(|| ctx.request(MultipartRequest::FlowDesc(rules::request(groups))).ok());
        let member = Member {
            sw: ctx.switch_index,
            groups,
            state: State::Unknown,
            changed: ctx.now,
            refused: None,
            asked: asked.flatten(),
            old: vec![],
            rules: vec![],
            drawn: None,
        };
        self.all.insert(ctx.datapath_id, member);
        ctx.publish_record::<SwitchTreeState>(ctx.datapath_id, None);
    }

    /// Switches that keep a tree from standing, since they do not confirm what they were told.
    pub(super) fn silent(&self) -> usize {
        let is_silent =
            |member: &&Member| matches!(member.state, State::Clearing { is_told: true, .. });
        self.all.values().filter(is_silent).count()
    }

    /// Whether what an earlier process wrote may be left in switches that are not back yet.
    fn is_early(&self, now: Instant) -> bool {
        self.started.is_none_or(|started| now.saturating_duration_since(started) < LIFE)
    }

    /// Hears which rules a switch came with: what is behind their ports may have such rules still.
    pub(super) fn reply(&mut self, xid: u32, kind: MultipartType, body: &[u8], ctx: &mut Ctx<'_>) {
        let Some(member) = self.all.get_mut(&ctx.datapath_id) else { return };
        if member.asked != Some(xid) {
            return;
        }
        member.asked = None;
        for rule in flow_stats(ctx.switch.version(), kind, body, 0).map_while(Result::ok) {
            let Ok(rule) = rule.to_flow_desc() else { continue };
            if let Some(port) = rule.matching.in_port().filter(|_| rules::is_ours(rule.cookie)) {
                let at = SwitchPort::new(ctx.datapath_id, port);
                member.old.push(at);
                ctx.network.publish_record(ctx.now, at, Some(StaleTreePort));
            }
        }
    }

    pub(super) fn down(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
        self.all.retain(|&id, member| {
            let is_gone = member.sw == sw;
            if is_gone {
                network.publish_record::<SwitchTreeState>(now, id, None);
                for at in member.old.drain(..) {
                    network.publish_record::<StaleTreePort>(now, at, None);
                }
            }
            !is_gone
        });
    }

    /// Lets time pass for a switch.
    pub(super) fn time_passes(&mut self, flooding: Flooding, ctx: &mut Ctx<'_>) {
        let is_early = self.is_early(ctx.now);
        let Some(member) = self.all.get_mut(&ctx.datapath_id) else { return };
        if !is_early {
            for at in member.old.drain(..) {
                ctx.publish_record::<StaleTreePort>(at, None);
            }
        }
        let tree = SpanningTree::of(ctx.view());
        let nth = tree.map_or(0, |tree| tree.generation);
        let mine = tree.filter(|tree| {
            let is_open = matches!(tree.phase, TreePhase::Installing | TreePhase::Active);
            is_open && tree.members().any(|id| id == ctx.datapath_id)
        });
        let mine = mine.cloned();
        match member.state {
            State::Unknown if flooding == Flooding::Tree && member.asked.is_none() => {
                member.clear(ctx);
            }
            State::Clearing { xid, since, is_told: false }
                if ctx.now.saturating_duration_since(since) >= OVERDUE =>
            {
                member.state = State::Clearing { xid, since, is_told: true };
                let id = ctx.datapath_id;
                ctx.network.report(|| {
                    format!("{id} does not answer BARRIER_REQUEST: no spanning tree until it does, the controller sends broadcasts to each switch")
                });
            }
            State::Unknown | State::Clearing { .. } => {}
            State::Clear => {
                let is_calm = ctx.now.saturating_duration_since(member.changed) >= CALM;
                if is_calm && !is_early && mine.is_none() {
                    member.state = State::Bare;
                    member.show_bare(nth, ctx);
                }
            }
            State::Bare => match mine {
                Some(tree) if tree.phase == TreePhase::Installing => member.open(&tree, ctx),
                Some(_) => {}
                None => member.show_bare(nth, ctx),
            },
            State::Opening { nth, since, .. } => {
                let is_late = ctx.now.saturating_duration_since(since) >= OVERDUE;
                if is_late || mine.is_none_or(|tree| tree.generation != nth) {
                    member.clear(ctx);
                }
            }
            State::Open { nth, since, again } => match mine.filter(|tree| tree.generation == nth) {
                Some(tree) => member.stay_open(&tree, since, again, ctx),
                None => member.clear(ctx),
            },
        }
    }

    pub(super) fn told(&mut self, fact: &Fact, now: Instant, network: &mut Network) {
        let Fact::Link(to, link) = fact else { return };
        let ends = [Some(to.switch), link.map(|link| link.from.switch)];
        for id in ends.into_iter().flatten() {
            let Some(member) = self.all.get_mut(&id) else { continue };
            member.changed = now;
            if matches!(member.state, State::Bare) {
                member.state = State::Clear;
                network.publish_record::<SwitchTreeState>(now, id, None);
            }
        }
    }

    pub(super) fn barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        let Some(member) = self.all.get_mut(&ctx.datapath_id) else { return };
        match member.state {
            State::Clearing { xid: asked, .. } if asked == xid => {
                (member.state, member.changed) = (State::Clear, ctx.now);
            }
            State::Opening { nth, xid: asked, since } if asked == xid => {
                member.state = State::Open { nth, since, again: None };
                ctx.publish_record(ctx.datapath_id, Some(SwitchTreeState::Installed(nth)));
            }
            State::Open { nth, again: Some((asked, since)), .. } if asked == xid => {
                member.state = State::Open { nth, since, again: None };
            }
            _ => {}
        }
    }

    /// A switch refused a rule. Whether that is news.
    pub(super) fn refused(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let Some(member) = self.all.get_mut(&ctx.datapath_id) else { return false };
        let is_news = matches!(member.state, State::Opening { .. } | State::Open { .. });
        if is_news {
            member.refused = Some(ctx.now);
            member.clear(ctx);
        }
        is_news
    }
}

impl Member {
    /// Tells the switch to have no rules but marks: whoever starts the controller again sees where a tree was.
    fn clear(&mut self, ctx: &mut Ctx<'_>) {
        ctx.publish_record::<SwitchTreeState>(ctx.datapath_id, None);
        let mut rules = rules::delete(ctx.network.view(), ctx.datapath_id, self.groups);
        let ports = self.rules.iter().filter_map(|rule| rule.matching.in_port());
        let ports: BTreeSet<_> = ports.chain(self.old.iter().map(|at| at.port)).collect();
        rules.extend(ports.into_iter().map(|port| rules::mark(port, self.groups)));
        let xid = say(&rules, ctx);
        self.state = State::Clearing { xid, since: ctx.now, is_told: false };
        self.rules.clear();
        self.drawn = None;
    }

    /// Shows that it has none, and gets none of the `nth` tree.
    fn show_bare(&mut self, nth: u64, ctx: &mut Ctx<'_>) {
        let is_over = |&at: &Instant| ctx.now.saturating_duration_since(at) < RETRY;
        self.refused = self.refused.filter(is_over);
        let groups = self.refused.is_none().then_some(self.groups);
        let state = SwitchTreeState::Clear { generation: nth, traffic: groups };
        ctx.publish_record(ctx.datapath_id, Some(state));
    }

    /// Tells the switch to have the rules of a tree.
    fn open(&mut self, tree: &SpanningTree, ctx: &mut Ctx<'_>) {
        self.draw(tree, ctx);
        let xid = say(&self.rules, ctx);
        self.state = State::Opening { nth: tree.generation, xid, since: ctx.now };
    }

    /// Writes them once more, for their time is short or hosts are elsewhere.
    fn stay_open(
        &mut self,
        tree: &SpanningTree,
        since: Instant,
        again: Option<(u32, Instant)>,
        ctx: &mut Ctx<'_>,
    ) {
        if let Some((_, said)) = again {
            if ctx.now.saturating_duration_since(said) >= OVERDUE {
                ctx.publish_record::<SwitchTreeState>(ctx.datapath_id, None);
            }
            return;
        }
        let is_other = self.draw(tree, ctx);
        if is_other || ctx.now.saturating_duration_since(since) >= REFRESH {
            let xid = say(&self.rules, ctx);
            self.state = State::Open { nth: tree.generation, since, again: Some((xid, ctx.now)) };
        }
    }

    /// Derives the flow entries of the tree from the view. `true` if they have changed.
    fn draw(&mut self, tree: &SpanningTree, ctx: &Ctx<'_>) -> bool {
        let version = ctx.view().version();
        if self.drawn.replace(version) == Some(version) {
            return false;
        }
        let rules = rules::of(ctx.view(), tree, ctx.datapath_id);
        let is_other = rules != self.rules;
        self.rules = rules;
        is_other
    }
}

/// Says `rules` and asks for a confirmation: its transaction id.
fn say(rules: &[FlowMod], ctx: &mut Ctx<'_>) -> u32 {
    for rule in rules {
        super::super::say(ctx.switch.flow_mod(rule));
    }
    ctx.switch.barrier_request()
}
