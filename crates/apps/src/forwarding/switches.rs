//! The switches of this worker: which of them refuse flow entries, and which flow entries of forwarding they had when they
//! connected.
//!
//! Such *old* entries were installed before the controller was restarted or lost the connection. They are listed
//! when a switch connects. The hosts to which they send are learned, and entries that are wrong by now are deleted.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_openflow::view::flow_stats;
use sluice_openflow::{
    DatapathId, FieldId, Message, MultipartReply, MultipartRequest, MultipartType, PortNo,
};
use sluice_sdk::view::{Fact, Host, HostId, PortRole, SwitchPort};
use sluice_sdk::{Ctx, Network, SwitchIndex};

use super::flood::is_edge;
use super::flow_entries::{self, EntryFilter, EntrySelector};
use super::listed_deletions::ListedDeletions;
use super::match_fallback::refused_rank;

/// Most flow entries of a switch that are listed; those of a switch with more are not requested. A reply with as many fits
/// `session.multipart_bytes_max`.
const ENTRIES_MAX: u32 = 16_384;

/// Most switches of a worker that are queried at the same time, so that their replies fit `session.multipart_total_bytes_max`.
const QUERIES_MAX: usize = 8;

/// A query that has been in flight for longer does not count any more, so that switches that do not answer delay the queries of
/// others only for a while. Its reply is still awaited.
const QUERY_TIME: Duration = Duration::from_secs(2);

/// A switch of this worker.
#[derive(Debug)]
pub(super) struct LocalSwitch {
    sw: SwitchIndex,
    pub(super) selector: EntrySelector,
    /// Whether its version can match IPv6 addresses.
    supports_ipv6_match: bool,
    /// Until when no flow entries are installed, as it has refused one.
    paused_until: Option<Instant>,
    /// Whether it has refused the match of a flow entry.
    has_refused_match: bool,
    deletions: ListedDeletions,
    pub(super) query: EntryQuery,
    /// Whether the query is to find entries that are wrong, and not hosts.
    pub(super) is_verified: bool,
    /// Hosts to which its old flow entries send, by output port, until the role of that port is known.
    pub(super) hosts_by_port: BTreeMap<PortNo, Vec<HostId>>,
    /// Hosts from which its flow entries match packets, by ingress port, while it is verified.
    pub(super) sources_by_port: BTreeMap<PortNo, Vec<HostId>>,
}

impl LocalSwitch {
    /// Has its flow entries listed, and those that are wrong deleted.
    pub(super) fn verify(&mut self, now: Instant) {
        (self.query, self.is_verified) = (EntryQuery::Due(now), true);
        self.hosts_by_port.clear();
        self.sources_by_port.clear();
    }
}

/// Progress of the query for old flow entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryQuery {
    /// Due at this time.
    Due(Instant),
    /// The number of entries was requested with this transaction id.
    Counting(u32),
    /// The entries were requested with this transaction id.
    Listing(u32),
    Done,
}

/// The switches of this worker.
#[derive(Debug, Default)]
pub(super) struct LocalSwitches {
    pub(super) all: BTreeMap<DatapathId, LocalSwitch>,
    by_index: BTreeMap<SwitchIndex, DatapathId>,
    /// When the first switch connected.
    first_connected: Option<Instant>,
    /// The last queries that were started, and when; at most [`QUERIES_MAX`].
    started_queries: Vec<(DatapathId, Instant)>,
    /// When there was no place for another query last.
    full_at: Option<Instant>,
    /// Old flow entries to hosts that are known at another port. They are deleted once all switches have had time to
    /// reconnect.
    conflicting: Vec<(SwitchPort, HostId)>,
}

/// How long switches may take to reconnect to a controller that was restarted. Before then, a port to a switch that
/// is not connected yet may be taken for an edge port, and the hosts behind it for hosts at this port.
const RECONNECT_TIME: Duration = Duration::from_secs(10);

/// Most [`conflicting`](LocalSwitches::conflicting) entries. Others stay until they expire.
const CONFLICTING_MAX: usize = 16_384;

impl LocalSwitches {
    pub(super) fn on_connected(&mut self, ctx: &mut Ctx<'_>) {
        let selector = EntrySelector::of(ctx.switch.version());
        let hosts_by_port = BTreeMap::new();
        let supports_ipv6_match = flow_entries::supports_ipv6_match(ctx.switch.version());
        let has_refused_match = refused_rank(ctx.view(), ctx.datapath_id).is_some();
        let (sw, paused_until, query) = (ctx.switch_index, None, EntryQuery::Due(ctx.now));
        let switch = LocalSwitch {
            sw,
            selector,
            supports_ipv6_match,
            paused_until,
            has_refused_match,
            deletions: ListedDeletions::default(),
            query,
            is_verified: false,
            hosts_by_port,
            sources_by_port: BTreeMap::new(),
        };
        self.first_connected.get_or_insert(ctx.now);
        self.all.insert(ctx.datapath_id, switch);
        self.by_index.insert(sw, ctx.datapath_id);
        self.start_query(ctx);
    }

    /// Removes the index of a switch; returns the switch's id. If it has reconnected with another index, it is not removed.
    pub(super) fn on_disconnected(&mut self, sw: SwitchIndex) -> Option<DatapathId> {
        let id = self.by_index.remove(&sw)?;
        if self.all.get(&id).is_some_and(|switch| switch.sw == sw) {
            self.all.remove(&id);
        }
        Some(id)
    }

    /// All switches, and how their flow entries are selected.
    pub(super) fn all(&self) -> impl Iterator<Item = (DatapathId, EntrySelector)> {
        self.all.iter().map(|(&id, switch)| (id, switch.selector))
    }

    /// How the flow entries of a switch of this worker are selected.
    pub(super) fn selector(&self, id: DatapathId) -> Option<EntrySelector> {
        self.all.get(&id).map(|switch| switch.selector)
    }

    /// Whether a switch of this worker can match IPv6 addresses.
    pub(super) fn supports_ipv6_match(&self, id: DatapathId) -> bool {
        self.all.get(&id).is_some_and(|switch| switch.supports_ipv6_match)
    }

    /// Deletes flow entries of forwarding on a switch of this worker. Returns whether it is one.
    pub(super) fn delete(
        &mut self,
        id: DatapathId,
        filter: EntryFilter,
        now: Instant,
        network: &mut Network,
    ) -> bool {
        let Some(switch) = self.all.get_mut(&id) else { return false };
        match switch.selector {
            EntrySelector::ByCookie => {
                network.send_to(id, Message::FlowMod(switch.selector.delete(filter)));
            }
            EntrySelector::Listed => {
                if !switch.deletions.add(filter) {
                    switch.verify(now);
                }
            }
        }
        true
    }

    /// Starts deletions that were added for a switch.
    pub(super) fn start_deletions(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(switch) = self.all.get_mut(&ctx.datapath_id) {
            switch.deletions.start_next(ctx);
        }
    }

    /// Handles an error message about the request `xid` to a switch.
    pub(super) fn on_error(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        let Some(switch) = self.all.get_mut(&ctx.datapath_id) else { return };
        switch.deletions.on_error(xid, ctx);
        if matches!(switch.query, EntryQuery::Counting(query) | EntryQuery::Listing(query) if query == xid)
        {
            switch.query = EntryQuery::Done;
        }
    }

    /// Installs no flow entries on a switch for the time `retry`, as it has refused one. Returns whether the switch was
    /// not paused before.
    pub(super) fn pause(&mut self, id: DatapathId, now: Instant, retry: Duration) -> bool {
        let is_new = !self.is_paused(id, now);
        if let Some(switch) = self.all.get_mut(&id) {
            switch.paused_until = Some(now + retry);
        }
        is_new
    }

    /// Whether no flow entries are installed on a switch of this worker, as it has refused one.
    pub(super) fn is_paused(&self, id: DatapathId, now: Instant) -> bool {
        self.all.get(&id).and_then(|switch| switch.paused_until).is_some_and(|until| now < until)
    }

    /// Number of switches on which no flow entries are installed, as they have refused one.
    pub(super) fn paused_count(&self) -> usize {
        self.all.values().filter(|switch| switch.paused_until.is_some()).count()
    }

    /// Records whether a switch has refused a match.
    pub(super) fn set_refused_match(&mut self, id: DatapathId, has_refused_match: bool) {
        if let Some(switch) = self.all.get_mut(&id) {
            switch.has_refused_match = has_refused_match;
        }
    }

    /// Number of switches that have refused a match.
    pub(super) fn refused_match_count(&self) -> usize {
        self.all.values().filter(|switch| switch.has_refused_match).count()
    }

    /// Queries the switches whose entries cannot be selected by cookie (OpenFlow 1.0) again at `at`.
    pub(super) fn query_again(&mut self, at: Instant) {
        for switch in
            self.all.values_mut().filter(|switch| switch.selector == EntrySelector::Listed)
        {
            (switch.query, switch.is_verified) = (EntryQuery::Due(at), false);
            switch.hosts_by_port.clear();
        }
    }

    /// Ends pauses that are over, and starts the query of a switch if it is due.
    pub(super) fn tick(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(switch) = self.all.get_mut(&ctx.datapath_id) {
            switch.paused_until = switch.paused_until.filter(|&until| ctx.now < until);
            switch.deletions.start_next(ctx);
        }
        self.start_query(ctx);
    }

    /// Asks a switch for its number of flow entries, if that is due and not too many other queries are in flight.
    pub(super) fn start_query(&mut self, ctx: &mut Ctx<'_>) {
        let Some(switch) = self.all.get(&ctx.datapath_id) else { return };
        if !matches!(switch.query, EntryQuery::Due(at) if at <= ctx.now) || !self.may_query(ctx.now)
        {
            return;
        }
        let Some(switch) = self.all.get_mut(&ctx.datapath_id) else { return };
        let query = ctx.request(MultipartRequest::AggregateStats(switch.selector.stats_request()));
        switch.query = query.map_or(EntryQuery::Done, EntryQuery::Counting);
        self.started_queries.push((ctx.datapath_id, ctx.now));
    }

    /// Whether fewer than [`QUERIES_MAX`] queries are in flight. Checked once at a time, however many switches wait.
    fn may_query(&mut self, now: Instant) -> bool {
        if self.full_at == Some(now) {
            return false;
        }
        let all = &self.all;
        self.started_queries.retain(|(id, started)| {
            let query = all.get(id).map(|switch| switch.query);
            matches!(query, Some(EntryQuery::Counting(_) | EntryQuery::Listing(_)))
                && now.saturating_duration_since(*started) < QUERY_TIME
        });
        let has_place = self.started_queries.len() < QUERIES_MAX;
        self.full_at = (!has_place).then_some(now);
        has_place
    }

    /// Handles the reply to a query. Returns the number of deletions sent.
    pub(super) fn on_multipart_reply(
        &mut self,
        xid: u32,
        kind: MultipartType,
        body: &[u8],
        priority: u16,
        ctx: &mut Ctx<'_>,
    ) -> u64 {
        let Some(switch) = self.all.get_mut(&ctx.datapath_id) else { return 0 };
        switch.deletions.on_multipart_reply(xid, kind, body, ctx);
        match switch.query {
            EntryQuery::Counting(query) if query == xid => {
                let entries = match ctx.parse_reply(kind, body) {
                    Ok(MultipartReply::AggregateStats(sum)) => sum.stats.flow_count().unwrap_or(0),
                    _ => 0,
                };
                let query = if (1..=ENTRIES_MAX).contains(&entries) {
                    ctx.request(MultipartRequest::FlowDesc(switch.selector.stats_request())).ok()
                } else {
                    None
                };
                switch.query = query.map_or(EntryQuery::Done, EntryQuery::Listing);
                if switch.is_verified && entries > ENTRIES_MAX {
                    return self.delete_all(ctx);
                }
                0
            }
            EntryQuery::Listing(query) if query == xid => {
                switch.query = EntryQuery::Done;
                let mut deleted = 0;
                for entry in flow_stats(ctx.switch.version(), kind, body, 0).map_while(Result::ok) {
                    let Ok(entry) = entry.to_flow_desc() else { continue };
                    if !flow_entries::is_ours(entry.cookie) {
                        continue;
                    }
                    // Installed while some switch did not support the current match; it would hide the entries of now.
                    if entry.priority > priority {
                        let deletion = flow_entries::delete_listed(entry);
                        ctx.network.send_to(ctx.datapath_id, Message::FlowMod(deletion));
                        deleted += 1;
                        continue;
                    }
                    if let (Some(host), Some(port)) = (
                        flow_entries::host(&entry.matching, FieldId::ETH_DST),
                        flow_entries::out_port(&entry.instructions),
                    ) {
                        switch.hosts_by_port.entry(port).or_default().push(host);
                    }
                    if let (true, Some(host), Some(port)) = (
                        switch.is_verified,
                        flow_entries::host(&entry.matching, FieldId::ETH_SRC),
                        flow_entries::in_port(&entry.matching),
                    ) {
                        switch.sources_by_port.entry(port).or_default().push(host);
                    }
                }
                if switch.is_verified {
                    return deleted;
                }
                let ports: Vec<_> = switch.hosts_by_port.keys().copied().collect();
                let (id, now) = (ctx.datapath_id, ctx.now);
                let handle_port =
                    |port| self.on_port_known(SwitchPort::new(id, port), now, ctx.network);
                deleted + ports.into_iter().map(handle_port).sum::<u64>()
            }
            _ => 0,
        }
    }

    /// Handles a port whose role may be known by now. If it is down, deletes the old entries that output to it; if it is an
    /// edge port, learns the hosts to which they send, unless these are known at another port. Returns the number of
    /// deletions sent.
    pub(super) fn on_port_known(
        &mut self,
        at: SwitchPort,
        now: Instant,
        network: &mut Network,
    ) -> u64 {
        let Some(switch) = self
            .all
            .get_mut(&at.switch)
            .filter(|switch| !switch.is_verified && switch.hosts_by_port.contains_key(&at.port))
        else {
            return 0;
        };
        let is_down = network.view().port(at).is_none_or(|port| !port.is_up);
        let role = network.view().port_role(at);
        if !is_down && role == PortRole::Pending {
            return 0;
        }
        let mut hosts = switch.hosts_by_port.remove(&at.port).unwrap_or_default();
        if is_down {
            self.delete(at.switch, EntryFilter::ToPort(at.port), now, network);
            return 1;
        }
        if !is_edge(network.view(), at) {
            return 0;
        }
        hosts.sort_unstable();
        hosts.dedup();
        let mut conflicting = Vec::new();
        for host in hosts {
            match network.view().host(host) {
                Some(known) if known.at != at => conflicting.push((at, host)),
                Some(_) => {}
                None => {
                    let learned = Host { at, addrs: Vec::new() };
                    network.publish(now, Fact::Host(host, Some(learned)));
                }
            }
        }
        conflicting.truncate(CONFLICTING_MAX.saturating_sub(self.conflicting.len()));
        self.conflicting.append(&mut conflicting);
        self.delete_conflicting(now, network)
    }

    /// Deletes old entries to hosts that are known at another port, unless switches may still be missing. Returns the
    /// number of deletions sent.
    pub(super) fn delete_conflicting(&mut self, now: Instant, network: &mut Network) -> u64 {
        let age = self.first_connected.map(|first| now.saturating_duration_since(first));
        if age.is_none_or(|age| age < RECONNECT_TIME) {
            return 0;
        }
        let mut deleted = 0;
        for (at, host) in std::mem::take(&mut self.conflicting) {
            let view = network.view();
            let is_elsewhere = view.host(host).is_some_and(|known| known.at != at);
            if is_elsewhere && is_edge(view, at) {
                let filter = EntryFilter::ToHost(host, at.port);
                deleted += u64::from(self.delete(at.switch, filter, now, network));
            }
        }
        deleted
    }
}
