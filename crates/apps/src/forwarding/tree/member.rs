//! The switches of this worker, and which flow entries of trees each has confirmed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use sluice_openflow::view::{ErrorMsg, flow_stats};
use sluice_openflow::{
    DatapathId, ErrorType, FlowMod, FlowModCommand, MultipartRequest, MultipartType, PortNo,
};
use sluice_sdk::view::{Fact, IsolatedPort, SwitchPort};
use sluice_sdk::{Ctx, Network, SwitchIndex};

use super::super::multicast::Multicast;
use super::Flooding;
use super::coordinator::{FORGET_AFTER, WAIT_FOR_SWITCHES};
use super::flow_entries::{self, LIFETIME, TreeEntries};
use super::member_backoffs::{Backoffs, KeptBackoffs};
use super::ports::TreePorts;
use super::state::{SpanningTree, StaleTreePort, SwitchTreeState, TreePhase, TreeTraffic};

/// Interval at which flow entries are refreshed while their tree is active.
const REFRESH: Duration = Duration::from_secs(3);

/// Time limit for a switch to confirm its flow entries. If it takes longer, they may expire before anybody notices,
/// and the tree is removed.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(4);

/// Time after which a switch that has not confirmed a refresh loses its entries for groups, in the hope that it confirms the others
/// within [`CONFIRM_TIMEOUT`].
const SLOW_AFTER: Duration = Duration::from_secs(3);

/// Time limit for a switch to list the flow entries of earlier trees.
const LIST_TIMEOUT: Duration = Duration::from_secs(4);

const _: () = assert!(REFRESH.as_secs() + CONFIRM_TIMEOUT.as_secs() < LIFETIME.as_secs());

/// How long a switch must have had no flow entries and no changed links before it gets entries of a new tree: all
/// packets in flight along an older tree have arrived by then.
const QUIET_TIME: Duration = Duration::from_secs(1);

/// The switches of this worker.
#[derive(Debug, Default)]
pub(super) struct Members {
    all: BTreeMap<DatapathId, Member>,
    /// Of switches that have disconnected: a switch that refused entries is not tried again just because it has reconnected.
    backoffs: KeptBackoffs,
    started: Option<Instant>,
    timeouts: u64,
}

/// A switch of this worker.
#[derive(Debug)]
struct Member {
    sw: SwitchIndex,
    traffic: TreeTraffic,
    state: MemberState,
    /// When its flow entries were removed, or one of its links changed last.
    changed: Instant,
    backoffs: Backoffs,
    /// The query for old flow entries in flight: its transaction id, and when it was sent.
    list_request: Option<(u32, Instant)>,
    stale_ports: Vec<SwitchPort>,
    /// The flow entries that were written last, and what they were derived from.
    entries: TreeEntries,
    derived_from: Option<EntriesBasis>,
}

/// What the flow entries of a switch depend on, besides its ports at links of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EntriesBasis {
    generation: u64,
    /// The versions of the switch with its ports, and of the ports of hosts in quarantine.
    switch: u64,
    isolated_ports: u64,
    /// The version of the groups; `None` if it gets no entries for groups.
    groups: Option<(u64, u64)>,
}

/// The flow entries of a switch.
///
/// ```text
///  Unknown ─▶ Clearing ─▶ Cleared ─▶ Ready ─▶ Installing ─▶ Installed
///                ▲                                │             │
///                └────────────────────────────────┴─────────────┘
/// ```
#[derive(Debug, Clone, Copy)]
enum MemberState {
    /// It may have entries of any tree, even of an earlier run of the controller.
    Unknown,
    /// The deletion of its entries has been sent but not confirmed. `is_reported` says whether a delay was logged.
    Clearing { xid: u32, since: Instant, is_reported: bool },
    /// It has had no entries for a short time.
    Cleared,
    /// It has had no entries for long enough to get new ones.
    Ready,
    /// The entries of this tree have been sent but not confirmed.
    Installing { generation: u64, xid: u32, since: Instant },
    /// It has the entries of this tree, all of them refreshed at `since` or later; a refresh that is not confirmed yet.
    Installed { generation: u64, since: Instant, refresh: Option<Refresh> },
}

/// Entries that a switch does not get for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WithheldEntries {
    /// Those for groups.
    Groups,
    /// All: the switch is not part of a tree.
    All,
}

impl WithheldEntries {
    /// What follows from it, for log lines.
    pub(super) fn consequence(self) -> &'static str {
        match self {
            Self::Groups => "it gets none for single multicast groups for a while",
            Self::All => "the controller floods to it for a while",
        }
    }
}

/// Entries that have been sent to a switch which has some of the same tree.
#[derive(Debug, Clone, Copy)]
struct Refresh {
    xid: u32,
    sent_at: Instant,
    /// When all entries were refreshed, once this is confirmed.
    since: Instant,
    /// Whether some of the entries were for groups, which are withdrawn before the switch is too late.
    had_groups: bool,
}

impl Members {
    pub(super) fn on_iteration(&mut self, now: Instant) {
        self.started.get_or_insert(now);
    }

    pub(super) fn on_connected(&mut self, flooding: Flooding, ctx: &mut Ctx<'_>) {
        let traffic = flow_entries::supported_traffic(ctx.switch.version());
        let is_early = self.is_early(ctx.now);
        let list_xid = (flooding != Flooding::Controller && is_early).then(|| {
            ctx.request(MultipartRequest::FlowDesc(flow_entries::stats_request(traffic))).ok()
        });
        let backoffs = if let Some(mut before) = self.all.remove(&ctx.datapath_id) {
            // Its connection was lost without notice.
            before.on_disconnected(ctx.now);
            for at in before.stale_ports {
                ctx.publish_record::<StaleTreePort>(at, None);
            }
            Some(before.backoffs)
        } else {
            self.backoffs.take(ctx.datapath_id)
        };
        let member = Member {
            sw: ctx.switch_index,
            traffic,
            state: MemberState::Unknown,
            changed: ctx.now,
            backoffs: backoffs.unwrap_or_default(),
            list_request: list_xid.flatten().map(|xid| (xid, ctx.now)),
            stale_ports: vec![],
            entries: TreeEntries::new(),
            derived_from: None,
        };
        self.all.insert(ctx.datapath_id, member);
        ctx.publish_record::<SwitchTreeState>(ctx.datapath_id, None);
    }

    /// Switches that have not confirmed the deletion of their flow entries in time. The next tree waits for them for a while.
    pub(super) fn unconfirmed(&self) -> usize {
        let is_unconfirmed = |member: &&Member| {
            matches!(member.state, MemberState::Clearing { is_reported: true, .. })
        };
        self.all.values().filter(is_unconfirmed).count()
    }

    /// How often a switch did not confirm or list flow entries in time.
    pub(super) fn timeouts(&self) -> u64 {
        self.timeouts
    }

    /// Whether switches that have not reconnected yet may have entries of an earlier run of the controller.
    fn is_early(&self, now: Instant) -> bool {
        self.started.is_none_or(|started| now.saturating_duration_since(started) < LIFETIME)
    }

    /// Handles the list of old flow entries of a switch: the switches behind these ports may still have such entries,
    /// too.
    pub(super) fn on_multipart_reply(
        &mut self,
        xid: u32,
        kind: MultipartType,
        body: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        let Some(member) = self.all.get_mut(&ctx.datapath_id) else { return };
        if member.list_request.take_if(|(list_xid, _)| *list_xid == xid).is_none() {
            return;
        }
        for entry in flow_stats(ctx.switch.version(), kind, body, 0).map_while(Result::ok) {
            let Ok(entry) = entry.to_flow_desc() else { continue };
            if let Some(port) =
                entry.matching.in_port().filter(|_| flow_entries::is_ours(entry.cookie))
            {
                let at = SwitchPort::new(ctx.datapath_id, port);
                member.stale_ports.push(at);
                ctx.network.publish_record(ctx.now, at, Some(StaleTreePort));
            }
        }
    }

    /// Handles an error message, which may be about the list of old flow entries: they are deleted without it.
    pub(super) fn on_error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
        let Some(member) = self.all.get_mut(&ctx.datapath_id) else { return };
        if member.list_request.take_if(|(xid, _)| *xid == error.xid).is_some() {
            self.timeouts += 1;
            let (id, reason) = (ctx.datapath_id, error.reason);
            ctx.network.report(|| {
                format!("switch does not list the flow entries of an earlier spanning tree; they are deleted nevertheless dpid={id} reason=\"{reason}\"")
            });
        }
    }

    pub(super) fn on_disconnected(
        &mut self,
        id: DatapathId,
        sw: SwitchIndex,
        now: Instant,
        network: &mut Network,
    ) {
        if self.all.get(&id).is_none_or(|member| member.sw != sw) {
            return;
        }
        let Some(mut member) = self.all.remove(&id) else { return };
        member.on_disconnected(now);
        network.publish_record::<SwitchTreeState>(now, id, None);
        for at in member.stale_ports {
            network.publish_record::<StaleTreePort>(now, at, None);
        }
        self.backoffs.keep(id, member.backoffs, now);
    }

    /// Performs what is due for a switch.
    pub(super) fn tick(
        &mut self,
        is_wanted: bool,
        multicast: &Multicast,
        ports: &mut TreePorts,
        ctx: &mut Ctx<'_>,
    ) {
        let is_early = self.is_early(ctx.now);
        let tree = SpanningTree::of(ctx.network.view());
        if let Some(tree) = tree {
            ports.follow(tree);
        }
        let ports = ports.of(ctx.datapath_id);
        let mine = tree.filter(|tree| tree.is_in_use() && !ports.is_empty());
        let mine = mine.cloned();
        let generation = tree.map_or(0, |tree| tree.generation);
        let Some(member) = self.all.get_mut(&ctx.datapath_id) else { return };
        if !is_early {
            for at in member.stale_ports.drain(..) {
                ctx.publish_record::<StaleTreePort>(at, None);
            }
        }
        self.timeouts += u64::from(member.check_timeouts(ctx));
        match member.state {
            MemberState::Unknown if is_wanted && member.list_request.is_none() => {
                member.clear(ctx);
            }
            MemberState::Clearing { since, .. }
                if ctx.now.saturating_duration_since(since) >= FORGET_AFTER =>
            {
                // Its entries have expired, as those of a disconnected switch.
                ctx.publish_record(ctx.datapath_id, Some(SwitchTreeState::left_out(generation)));
            }
            MemberState::Unknown | MemberState::Clearing { .. } => {}
            MemberState::Cleared => {
                let is_quiet = ctx.now.saturating_duration_since(member.changed) >= QUIET_TIME;
                if is_quiet && !is_early && mine.is_none() {
                    member.state = MemberState::Ready;
                    member.publish_ready(generation, ctx);
                }
            }
            MemberState::Ready => match mine {
                Some(tree) if tree.phase == TreePhase::Installing => {
                    member.install((&tree, ports), multicast, ctx);
                }
                Some(_) => {}
                None => member.publish_ready(generation, ctx),
            },
            MemberState::Installing { generation, .. } => {
                if mine.is_none_or(|tree| tree.generation != generation) {
                    member.clear(ctx);
                }
            }
            MemberState::Installed { generation, since, refresh } => {
                match mine.filter(|tree| tree.generation == generation) {
                    Some(tree) => {
                        member.refresh_entries((&tree, ports), multicast, (since, refresh), ctx);
                    }
                    None => member.clear(ctx),
                }
            }
        }
    }

    pub(super) fn on_fact(&mut self, fact: &Fact, now: Instant, network: &mut Network) {
        let Fact::Link(to, link) = fact else { return };
        let ends = [Some(to.switch), link.map(|link| link.from.switch)];
        for id in ends.into_iter().flatten() {
            let Some(member) = self.all.get_mut(&id) else { continue };
            member.changed = now;
            if matches!(member.state, MemberState::Ready) {
                member.state = MemberState::Cleared;
                network.publish_record::<SwitchTreeState>(now, id, None);
            }
        }
    }

    pub(super) fn on_barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        let Some(member) = self.all.get_mut(&ctx.datapath_id) else { return };
        match member.state {
            MemberState::Clearing { xid: barrier_xid, is_reported, .. } if barrier_xid == xid => {
                if is_reported {
                    member.backoffs.unconfirmed.on_failure(ctx.now);
                }
                (member.state, member.changed) = (MemberState::Cleared, ctx.now);
            }
            MemberState::Installing { generation, xid: barrier_xid, since }
                if barrier_xid == xid =>
            {
                member.state = MemberState::Installed { generation, since, refresh: None };
                ctx.publish_record(ctx.datapath_id, Some(SwitchTreeState::Installed(generation)));
            }
            MemberState::Installed { generation, refresh: Some(refresh), .. }
                if refresh.xid == xid =>
            {
                let since = refresh.since;
                member.state = MemberState::Installed { generation, since, refresh: None };
            }
            _ => {}
        }
    }

    /// Handles a refused flow entry. Returns which entries the switch gets no more, if it had entries of a tree.
    pub(super) fn on_refused(
        &mut self,
        error: &ErrorMsg<'_>,
        ctx: &mut Ctx<'_>,
    ) -> Option<WithheldEntries> {
        let member = self.all.get_mut(&ctx.datapath_id)?;
        if !matches!(member.state, MemberState::Installing { .. } | MemberState::Installed { .. }) {
            return None;
        }
        // If the table is full, entries for groups may have filled it.
        let is_of_groups = error.cookie().is_some_and(flow_entries::is_of_groups)
            || error.reason.kind() == ErrorType::FLOW_MOD_FAILED;
        let withheld = member.back_off(is_of_groups, ctx.now);
        member.clear(ctx);
        Some(withheld)
    }
}

impl Member {
    /// Logs that the switch is late, if it is now, and has it get fewer entries. Returns whether it is.
    fn check_timeouts(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let id = ctx.datapath_id;
        let is_over = |since: Instant, limit| ctx.now.saturating_duration_since(since) >= limit;
        if self.list_request.take_if(|(_, sent_at)| is_over(*sent_at, LIST_TIMEOUT)).is_some() {
            ctx.network.report(|| {
                format!("switch does not list the flow entries of an earlier spanning tree; they are deleted nevertheless dpid={id}")
            });
            return true;
        }
        match &mut self.state {
            MemberState::Clearing { since, is_reported, .. }
                if !*is_reported && is_over(*since, CONFIRM_TIMEOUT) =>
            {
                *is_reported = true;
                let (minutes, seconds) = (FORGET_AFTER.as_secs() / 60, WAIT_FOR_SWITCHES.as_secs());
                ctx.network.report(|| {
                    format!("switch does not answer BARRIER_REQUEST; the next spanning tree waits for it, {minutes} minutes at most if it was part of the last one, otherwise {seconds} seconds; it is then left out, and the controller floods to it dpid={id}")
                });
                true
            }
            &mut MemberState::Installing { since, .. } if is_over(since, CONFIRM_TIMEOUT) => {
                self.on_late(ctx);
                self.clear(ctx);
                true
            }
            &mut MemberState::Installed { refresh: Some(refresh), .. } => {
                let is_late = is_over(refresh.sent_at, CONFIRM_TIMEOUT);
                let is_slow =
                    is_over(refresh.sent_at, SLOW_AFTER) && flow_entries::has_groups(&self.entries);
                if is_slow {
                    self.on_late(ctx);
                    let deletion = flow_entries::withdraw_groups(&mut self.entries);
                    send_entries([&deletion], ctx);
                } else if is_late {
                    if !refresh.had_groups {
                        self.on_late(ctx);
                    }
                    self.clear(ctx);
                }
                is_slow || is_late
            }
            _ => false,
        }
    }

    /// The switch has not confirmed its entries in time.
    fn on_late(&mut self, ctx: &mut Ctx<'_>) {
        let consequence = self.back_off(true, ctx.now).consequence();
        let id = ctx.datapath_id;
        ctx.network.report(|| {
            format!("switch confirms flow entries of the spanning tree too late; {consequence} dpid={id}")
        });
    }

    /// The switch gets no entries for groups for a while, if it has some and these may be the cause, and otherwise none at all.
    fn back_off(&mut self, may_be_groups: bool, now: Instant) -> WithheldEntries {
        if may_be_groups && flow_entries::has_groups(&self.entries) {
            self.backoffs.without_groups.on_failure(now);
            WithheldEntries::Groups
        } else {
            self.backoffs.left_out.on_failure(now);
            WithheldEntries::All
        }
    }

    /// Deletes all entries of the switch except for markers, which show a restarted controller where a tree was.
    fn clear(&mut self, ctx: &mut Ctx<'_>) {
        ctx.publish_record::<SwitchTreeState>(ctx.datapath_id, None);
        let mut entries = flow_entries::delete(ctx.network.view(), ctx.datapath_id, self.traffic);
        let ports = self.entries.values().filter_map(|entry| entry.matching.in_port());
        let ports: BTreeSet<_> = ports.chain(self.stale_ports.iter().map(|at| at.port)).collect();
        entries.extend(ports.into_iter().map(|port| flow_entries::marker(port, self.traffic)));
        let xid = send_entries(&entries, ctx);
        self.state = MemberState::Clearing { xid, since: ctx.now, is_reported: false };
        self.entries.clear();
        self.derived_from = None;
    }

    /// Notes that the switch has not confirmed the deletion of its entries, if it has not.
    fn on_disconnected(&mut self, now: Instant) {
        if matches!(self.state, MemberState::Clearing { .. }) {
            self.backoffs.unconfirmed.on_failure(now);
        }
    }

    /// Publishes that the switch has no entries, and gets none of this generation or an earlier one.
    fn publish_ready(&self, generation: u64, ctx: &mut Ctx<'_>) {
        let Backoffs { left_out, unconfirmed, .. } = &self.backoffs;
        let is_left_out = left_out.is_active(ctx.now) || unconfirmed.is_active(ctx.now);
        let traffic = (!is_left_out).then_some(self.traffic);
        let state = SwitchTreeState::Clear { generation, traffic };
        ctx.publish_record(ctx.datapath_id, Some(state));
    }

    /// Sends the entries of a tree.
    fn install(
        &mut self,
        (tree, ports): (&SpanningTree, &[PortNo]),
        multicast: &Multicast,
        ctx: &mut Ctx<'_>,
    ) {
        self.derive_entries((tree, ports), multicast, ctx);
        let xid = send_entries(self.entries.values(), ctx);
        self.state = MemberState::Installing { generation: tree.generation, xid, since: ctx.now };
    }

    /// Refreshes the entries if they are about to expire, and those that have changed.
    fn refresh_entries(
        &mut self,
        (tree, ports): (&SpanningTree, &[PortNo]),
        multicast: &Multicast,
        (since, refresh): (Instant, Option<Refresh>),
        ctx: &mut Ctx<'_>,
    ) {
        let is_due = ctx.now.saturating_duration_since(since) >= REFRESH;
        if let Some(refresh) = refresh {
            // A refresh of all entries does not wait for that of some.
            let is_partial = refresh.since == since;
            if !(is_partial && is_due) {
                return;
            }
        }
        let changes = self.derive_entries((tree, ports), multicast, ctx);
        let (generation, sent_at) = (tree.generation, ctx.now);
        let had_groups = flow_entries::has_groups(&self.entries);
        let refresh = if is_due {
            let deletions = changes.iter().filter(|change| change.command != FlowModCommand::ADD);
            let xid = send_entries(deletions.chain(self.entries.values()), ctx);
            Refresh { xid, sent_at, since: sent_at, had_groups }
        } else if changes.is_empty() {
            return;
        } else {
            Refresh { xid: send_entries(&changes, ctx), sent_at, since, had_groups }
        };
        self.state = MemberState::Installed { generation, since, refresh: Some(refresh) };
    }

    /// Derives the flow entries of the tree. Returns the changes: deletions first.
    fn derive_entries(
        &mut self,
        (tree, ports): (&SpanningTree, &[PortNo]),
        multicast: &Multicast,
        ctx: &Ctx<'_>,
    ) -> Vec<FlowMod> {
        let (view, id) = (ctx.view(), ctx.datapath_id);
        let groups = Some(multicast).filter(|_| !self.backoffs.without_groups.is_active(ctx.now));
        let from = EntriesBasis {
            generation: tree.generation,
            switch: view.switch_version(id),
            isolated_ports: view.records_version::<IsolatedPort>(),
            groups: groups.map(Multicast::tree_groups_version),
        };
        if self.derived_from.replace(from) == Some(from) {
            return Vec::new();
        }
        let entries = flow_entries::entries_of(view, tree.traffic, (id, ports), groups);
        let changes = flow_entries::changes(&self.entries, &entries);
        self.entries = entries;
        changes
    }
}

/// Sends flow entries and a barrier request. Returns the transaction id of the latter.
fn send_entries<'a>(entries: impl IntoIterator<Item = &'a FlowMod>, ctx: &mut Ctx<'_>) -> u32 {
    for entry in entries {
        super::super::debug_assert_encoded(ctx.switch.flow_mod(entry));
    }
    ctx.switch.barrier_request()
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{Action, Encoder, Instruction, MacAddr, Version};
    use sluice_sdk::App;
    use sluice_sdk::view::{Link, PortInfo, PortRole, PublishedFact, RecordFact, SwitchInfo};

    use super::super::member_backoffs::RETRY;
    use super::super::state::tree_state;
    use super::*;

    const ID: DatapathId = DatapathId(1);

    struct OneSwitch {
        members: Members,
        network: Network,
        now: Instant,
        next_xid: u32,
    }

    /// Collects the facts that are delivered.
    #[derive(Default)]
    struct Facts(Vec<PublishedFact>);

    impl App for Facts {
        fn on_fact(&mut self, published: &PublishedFact, _: Instant, _: &mut Network) {
            self.0.push(published.clone());
        }
    }

    impl OneSwitch {
        fn call<T>(&mut self, call: impl FnOnce(&mut Members, &mut Ctx<'_>) -> T) -> T {
            let (mut tx, mut urgent) = (Vec::new(), Vec::new());
            let encoder = Encoder::new(&mut tx, Version::V1_3, &mut self.next_xid);
            let sw = SwitchIndex(0);
            let mut ctx = Ctx::new(self.now, sw, ID, encoder, &mut urgent, &mut self.network);
            call(&mut self.members, &mut ctx)
        }

        /// It has connected, and its entries were removed.
        fn cleared() -> Self {
            let start = {
                #[expect(clippy::disallowed_methods, reason = "any instant will do")]
                Instant::now()
            };
            let (members, network) = (Members::default(), Network::new(0));
            let mut switch = Self { members, network, now: start, next_xid: 1 };
            switch.members.on_iteration(start);
            switch.now = start + LIFETIME;
            switch.connect();
            switch
        }

        fn connect(&mut self) {
            let xid = self.begin_deletion();
            self.call(|members, ctx| members.on_barrier_reply(xid, ctx));
        }

        /// It connects, and has not confirmed the deletion of its entries.
        fn begin_deletion(&mut self) -> u32 {
            self.call(|members, ctx| members.on_connected(Flooding::Tree, ctx));
            self.tick();
            let state = self.members.all.get(&ID).map(|member| member.state);
            let Some(MemberState::Clearing { xid, .. }) = state else { panic!("{state:?}") };
            xid
        }

        /// Its links have not changed for long enough.
        fn changed_long_ago(&mut self) {
            let start = self.members.started.unwrap();
            self.members.all.get_mut(&ID).unwrap().changed = start;
        }

        /// Checks that it is left out for so many seconds after it has failed.
        fn check_left_out(&mut self, failed_at: Instant, seconds: u64) {
            self.now = failed_at + Duration::from_millis(1000 * seconds - 1);
            self.changed_long_ago();
            self.tick();
            assert_eq!(self.traffic(), None, "{seconds}");
            self.now = failed_at + Duration::from_secs(seconds);
            self.tick();
            assert_eq!(self.traffic(), Some(TreeTraffic::Groups), "{seconds}");
        }

        /// What its entries of the next tree can match; `None` if it is left out.
        fn traffic(&self) -> Option<TreeTraffic> {
            match tree_state(self.network.view(), ID) {
                Some(SwitchTreeState::Clear { traffic, .. }) => traffic,
                other => panic!("{other:?}"),
            }
        }

        fn tick(&mut self) {
            self.call(|members, ctx| {
                members.tick(true, &Multicast::new(None, 0), &mut TreePorts::default(), ctx);
            });
        }

        /// The ports out of which the last entries that were written send.
        fn outputs(&self) -> Vec<u32> {
            let entries = self.members.all.get(&ID).into_iter().flat_map(|it| it.entries.values());
            let ports = entries.flat_map(|entry| output_ports(&entry.instructions));
            ports.map(|port| port.0).collect()
        }

        fn set_link(&mut self, link: Option<Link>) {
            self.publish(Fact::Link(SwitchPort::new(ID, PortNo(1)), link));
        }

        fn publish(&mut self, fact: Fact) {
            self.network.publish(self.now, fact);
            let mut facts = Facts::default();
            self.network.deliver(&mut facts, self.now, |_| {});
            for published in facts.0 {
                self.members.on_fact(&published.fact, self.now, &mut self.network);
            }
        }

        /// Whether the switch can get the flow entries of a tree.
        fn is_ready(&self) -> bool {
            matches!(tree_state(self.network.view(), ID), Some(SwitchTreeState::Clear { .. }))
        }
    }

    fn output_ports(instructions: &[Instruction]) -> impl Iterator<Item = PortNo> {
        let actions = instructions.iter().flat_map(|instruction| match instruction {
            Instruction::ApplyActions { actions } => actions.as_slice(),
            _ => &[],
        });
        actions.filter_map(|action| match action {
            Action::Output { port, .. } => Some(*port),
            _ => None,
        })
    }

    #[test]
    fn a_switch_waits_for_quiet_links_if_one_has_changed() {
        let mut switch = OneSwitch::cleared();
        let [from, to] = [2, 1].map(|id| SwitchPort::new(DatapathId(id), PortNo(1)));
        let link = Some(Link { from, to });
        for change in [link, None, link] {
            switch.now += QUIET_TIME;
            switch.tick();
            assert!(switch.is_ready());
            switch.set_link(change);
            assert!(!switch.is_ready(), "{change:?}");
        }
    }

    /// Otherwise, one switch could have a tree removed as often as it reconnects.
    #[test]
    fn reconnecting_does_not_end_the_time_for_which_a_switch_is_left_out() {
        let mut switch = OneSwitch::cleared();
        switch.now += QUIET_TIME;
        switch.tick();
        assert_eq!(switch.traffic(), Some(TreeTraffic::Groups));
        let now = switch.now;
        let member = switch.members.all.get_mut(&ID).unwrap();
        member.backoffs.left_out.on_failure(now);
        for is_noticed in [true, false] {
            if is_noticed {
                switch.members.on_disconnected(ID, SwitchIndex(0), now, &mut switch.network);
                assert_eq!(switch.members.backoffs.len(), 1);
            }
            switch.connect();
            assert_eq!(switch.members.backoffs.len(), 0);
            switch.now += QUIET_TIME;
            switch.tick();
            assert_eq!(switch.traffic(), None);
        }
        switch.members.on_disconnected(ID, SwitchIndex(0), now, &mut switch.network);
        switch.now += RETRY;
        switch.connect();
        switch.now += QUIET_TIME;
        switch.tick();
        assert_eq!(switch.traffic(), Some(TreeTraffic::Groups));
    }

    /// Each time may have cost the others their tree for two minutes.
    #[test]
    fn a_switch_that_does_not_confirm_the_deletion_before_it_disconnects_is_left_out_longer_each_time()
     {
        let mut switch = OneSwitch::cleared();
        for seconds in [1, 2, 4, 8] {
            // Once the loss of its connection is noticed, and once it is not.
            if seconds % 3 == 1 {
                switch.begin_deletion();
                let (sw, now) = (SwitchIndex(0), switch.now);
                switch.members.on_disconnected(ID, sw, now, &mut switch.network);
            } else {
                switch.begin_deletion();
            }
            let failed_at = switch.now;
            switch.connect();
            switch.check_left_out(failed_at, seconds);
        }
    }

    #[test]
    fn a_switch_that_confirms_the_deletion_late_is_left_out_longer_each_time() {
        let mut switch = OneSwitch::cleared();
        for seconds in [1, 2, 4, 8] {
            let xid = switch.begin_deletion();
            switch.now += CONFIRM_TIMEOUT;
            switch.tick();
            switch.call(|members, ctx| members.on_barrier_reply(xid, ctx));
            switch.check_left_out(switch.now, seconds);
        }
    }

    /// It follows changes of the switch itself, and of what is known about its ports.
    #[test]
    fn entries_follow_the_edge_ports_of_the_switch() {
        let mut switch = OneSwitch::cleared();
        switch.now += QUIET_TIME;
        let edge = |is_up| PortInfo {
            name: "edge".into(),
            hw_addr: MacAddr::default(),
            is_up,
            role: PortRole::Edge,
        };
        let ports = [(PortNo(1), PortInfo { role: PortRole::Link, ..edge(true) })];
        let edges = [2, 3].map(|no| (PortNo(no), edge(true)));
        let ports = ports.into_iter().chain(edges).collect();
        switch.publish(Fact::Switch(ID, Some(SwitchInfo { ports })));
        switch.tick();
        let tree = SpanningTree {
            generation: 1,
            phase: TreePhase::Installing,
            traffic: TreeTraffic::Broadcast,
            links: [[1, 2].map(|id| SwitchPort::new(DatapathId(id), PortNo(1)))].into(),
        };
        switch.publish(Fact::Record(RecordFact::new((), Some(tree))));
        switch.tick();
        let state = switch.members.all.get(&ID).map(|member| member.state);
        let Some(MemberState::Installing { xid, .. }) = state else { panic!("{state:?}") };
        switch.call(|members, ctx| members.on_barrier_reply(xid, ctx));
        let at = |no| SwitchPort::new(ID, PortNo(no));
        let isolated = |value| Fact::Record(RecordFact::new(at(2), value));
        assert_eq!(switch.outputs(), [2, 3]);
        let soon = Duration::from_millis(250);
        for (fact, after, outputs) in [
            (isolated(Some(IsolatedPort)), soon, &[3][..]),
            (isolated(None), soon, &[2, 3]),
            (isolated(Some(IsolatedPort)), REFRESH, &[3]),
            (isolated(None), soon, &[2, 3]),
            (Fact::Port(at(3), Some(edge(false))), soon, &[2]),
            (Fact::Port(at(3), Some(edge(true))), soon, &[2, 3]),
        ] {
            switch.publish(fact.clone());
            switch.now += after;
            switch.tick();
            assert_eq!(switch.outputs(), outputs, "{fact:?}");
            let state = switch.members.all.get(&ID).map(|member| member.state);
            let Some(MemberState::Installed { refresh: Some(refresh), .. }) = state else {
                panic!("{state:?}")
            };
            switch.call(|members, ctx| members.on_barrier_reply(refresh.xid, ctx));
        }
    }
}
