//! The switches of this worker: which of them refuse flow entries, and which flow entries of forwarding they had when they
//! connected.
//!
//! Such *old* entries were installed before the controller was restarted or lost the connection. They are listed
//! when a switch connects, in pages if they are many. The hosts to which they send are learned, and entries that are wrong by
//! now are deleted; those to and from ports that are down at once, without being listed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use sluice_openflow::value::Value;
use sluice_openflow::view::flow_stats;
use sluice_openflow::{
    DatapathId, FieldId, FlowDesc, Message, MultipartReply, MultipartRequest, MultipartType, PortNo,
};
use sluice_sdk::view::{Fact, Host, HostId, NetworkView, PortRole, SwitchPort};
use sluice_sdk::{Ctx, LISTED_ENTRIES_MAX, Network, SwitchIndex};

use super::flood::is_edge;
use super::flow_entries::{self, EntryFilter, EntryPage, EntrySelector};
use super::listed_deletions::ListedDeletions;
use super::match_ranks::RefusedMatch;
use super::{Config, debug_assert_encoded};

/// As [`LISTED_ENTRIES_MAX`] in the background, where pages are not urgent: 70 KB.
const BACKGROUND_ENTRIES_MAX: u32 = 512;

/// Time between two pages in the background.
const BACKGROUND_PAUSE: Duration = Duration::from_secs(1);

/// Time after which a request without a reply is given up. A list of [`LISTED_ENTRIES_MAX`] entries takes this long at 1 Mbit/s.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Hosts to which the old flow entries of a switch send that are remembered until the roles of their ports are known. Others
/// are learned from their packets.
const OLD_HOSTS_MAX: usize = 16_384;

/// Most switches of a worker that are queried at the same time, so that their replies fit `session.multipart_total_bytes_max`.
const QUERIES_MAX: usize = 8;

/// A request that has been in flight for longer does not count any more, so that switches that do not answer delay the queries of
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
    /// The pages that are to be requested.
    pages: Vec<EntryPage>,
    pub(super) purpose: QueryPurpose,
    /// When the last query ended, or was due first.
    pub(super) queried_at: Instant,
    /// Hosts to which its old flow entries send, by output port, until the role of that port is known.
    pub(super) hosts_by_port: BTreeMap<PortNo, Vec<HostId>>,
    /// Hosts from which its flow entries match packets, by ingress port, while it is verified.
    pub(super) sources_by_port: BTreeMap<PortNo, Vec<HostId>>,
}

impl LocalSwitch {
    /// Has its flow entries listed, and those that are wrong deleted.
    pub(super) fn verify(&mut self, purpose: QueryPurpose, now: Instant) {
        (self.query, self.purpose) = (EntryQuery::Due(now), purpose);
        self.pages.clear();
        self.hosts_by_port.clear();
        self.sources_by_port.clear();
    }

    /// Requests the number of flow entries of the next page; without another page, the query is done.
    fn count_next_page(&mut self, ctx: &mut Ctx<'_>) {
        (self.query, self.queried_at) = (EntryQuery::Done, ctx.now);
        while self.query == EntryQuery::Done
            && let Some(page) = self.pages.pop()
        {
            self.request(page, Requested::Count, ctx);
        }
    }

    fn request(&mut self, page: EntryPage, requested: Requested, ctx: &mut Ctx<'_>) {
        let entries = self.selector.page_request(page);
        let request = match requested {
            Requested::Count => MultipartRequest::AggregateStats(entries),
            Requested::List => MultipartRequest::FlowDesc(entries),
        };
        let (xid, sent) = (ctx.request(request), ctx.now);
        debug_assert!(xid.is_ok(), "pages are split by what the version can express");
        self.query = xid.map_or(EntryQuery::Done, |xid| {
            EntryQuery::InFlight(QueryRequest { xid, page, requested, sent })
        });
    }

    /// The request in flight, if `xid` is its transaction id.
    fn request_in_flight(&self, xid: u32) -> Option<QueryRequest> {
        match self.query {
            EntryQuery::InFlight(request) if request.xid == xid => Some(request),
            _ => None,
        }
    }

    /// Adds a listed flow entry to the hosts to which entries send, and, if it is verified, to those whose packets they match.
    fn add_entry(&mut self, entry: &FlowDesc) {
        if let Some(host) = flow_entries::host(&entry.matching, FieldId::ETH_DST)
            && let Some(port) = flow_entries::out_port(&entry.instructions)
        {
            self.hosts_by_port.entry(port).or_default().push(host);
        }
        if self.purpose.is_verification()
            && let Some(host) = flow_entries::host(&entry.matching, FieldId::ETH_SRC)
            && let Some(port) = flow_entries::in_port(&entry.matching)
        {
            self.sources_by_port.entry(port).or_default().push(host);
        }
    }
}

/// Why the flow entries of a switch are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueryPurpose {
    /// To learn the hosts to which they send.
    FindHosts,
    /// To find those that are wrong, since changes were lost.
    VerifyNow,
    /// To find those that are wrong for whatever reason: a little at a time.
    VerifyInBackground,
}

impl QueryPurpose {
    pub(super) fn is_verification(self) -> bool {
        self != Self::FindHosts
    }

    /// Most flow entries of a page.
    fn entries_max(self) -> u32 {
        match self {
            Self::FindHosts | Self::VerifyNow => LISTED_ENTRIES_MAX,
            Self::VerifyInBackground => BACKGROUND_ENTRIES_MAX,
        }
    }
}

/// The highest priorities of the flow entries of a switch. Entries above them have a simpler match than is used now.
#[derive(Debug, Clone, Copy)]
pub(super) struct PriorityLimits {
    /// Of entries to or from an edge port.
    pub(super) at_edge: u16,
    /// Of entries from a link to another.
    pub(super) in_transit: u16,
}

impl PriorityLimits {
    /// For an entry of a switch with this ingress and output port.
    fn of(self, switch: DatapathId, ports: [Option<PortNo>; 2], view: &NetworkView) -> u16 {
        let is_link = |port| view.port_role(SwitchPort::new(switch, port)) == PortRole::Link;
        let in_transit = ports.into_iter().all(|port| port.is_some_and(is_link));
        if in_transit { self.in_transit } else { self.at_edge }
    }
}

/// Progress of the query for flow entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryQuery {
    /// Due at this time.
    Due(Instant),
    InFlight(QueryRequest),
    /// The next page is due at this time.
    Paused(Instant),
    Done,
}

/// The request of a query that is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueryRequest {
    /// Transaction id.
    xid: u32,
    page: EntryPage,
    requested: Requested,
    sent: Instant,
}

/// What is requested of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Requested {
    /// The number of its entries.
    Count,
    /// The entries.
    List,
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

/// Most switches that [`LocalSwitches::state`] shows.
const SHOWN_MAX: usize = 1000;

/// How long switches may take to reconnect to a controller that was restarted. Before then, a port to a switch that
/// is not connected yet may be taken for an edge port, and the hosts behind it for hosts at this port.
const RECONNECT_TIME: Duration = Duration::from_secs(10);

/// Most [`conflicting`](LocalSwitches::conflicting) entries. Others stay until they expire.
const CONFLICTING_MAX: usize = 16_384;

impl LocalSwitches {
    /// Adds a switch. Returns the number of deletions sent.
    pub(super) fn on_connected(&mut self, ctx: &mut Ctx<'_>) -> u64 {
        let selector = EntrySelector::of(ctx.switch.version());
        let hosts_by_port = BTreeMap::new();
        let supports_ipv6_match = flow_entries::supports_ipv6_match(ctx.switch.version());
        let has_refused_match = ctx.view().record::<RefusedMatch>(ctx.datapath_id).is_some();
        let (sw, paused_until, query) = (ctx.switch_index, None, EntryQuery::Due(ctx.now));
        let switch = LocalSwitch {
            sw,
            selector,
            supports_ipv6_match,
            paused_until,
            has_refused_match,
            deletions: ListedDeletions::default(),
            query,
            pages: Vec::new(),
            purpose: QueryPurpose::FindHosts,
            queried_at: ctx.now,
            hosts_by_port,
            sources_by_port: BTreeMap::new(),
        };
        self.first_connected.get_or_insert(ctx.now);
        self.all.insert(ctx.datapath_id, switch);
        self.by_index.insert(sw, ctx.datapath_id);
        let deleted = self.delete_down_ports(ctx);
        self.start_query(ctx);
        deleted
    }

    /// Deletes the old flow entries to and from ports that are down, however many entries there are. In OpenFlow 1.0, where
    /// this takes a list for each port, only those of ports for which entries are found. Returns the number of deletions sent.
    fn delete_down_ports(&self, ctx: &mut Ctx<'_>) -> u64 {
        let id = ctx.datapath_id;
        let Some(selector) = self.selector(id).filter(|&by| by == EntrySelector::ByCookie) else {
            return 0;
        };
        let ports = ctx.view().switch(id).into_iter().flat_map(|switch| &switch.ports);
        let down = ports.filter(|(_, port)| !port.is_up).map(|(&port, _)| port).collect::<Vec<_>>();
        let filters =
            down.iter().flat_map(|&at| [EntryFilter::ToPort(at), EntryFilter::FromPort(at)]);
        for filter in filters.clone() {
            debug_assert_encoded(ctx.switch.flow_mod(&selector.delete(filter)));
        }
        filters.count() as u64
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

    /// As [`all`](Self::all), or only this switch.
    pub(super) fn all_or(
        &self,
        only: Option<DatapathId>,
    ) -> impl Iterator<Item = (DatapathId, EntrySelector)> {
        self.all().filter(move |&(id, _)| only.is_none_or(|only| only == id))
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
                    switch.verify(QueryPurpose::VerifyNow, now);
                }
                network.schedule_switch_work(id);
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

    /// Handles an error message about the request `xid` to a switch. Returns the number of deletions sent.
    pub(super) fn on_error(&mut self, xid: u32, ctx: &mut Ctx<'_>) -> u64 {
        let Some(switch) = self.all.get_mut(&ctx.datapath_id) else { return 0 };
        switch.deletions.on_error(xid, ctx);
        if switch.request_in_flight(xid).is_some() { self.end_query(ctx) } else { 0 }
    }

    /// Ends the query of a switch that does not answer it. If changes were lost, all of its flow entries are deleted, as
    /// any may be wrong. Returns the number of deletions sent.
    fn end_query(&mut self, ctx: &mut Ctx<'_>) -> u64 {
        let Some(switch) = self.all.get_mut(&ctx.datapath_id) else { return 0 };
        (switch.query, switch.queried_at) = (EntryQuery::Done, ctx.now);
        switch.pages.clear();
        let purpose = std::mem::replace(&mut switch.purpose, QueryPurpose::FindHosts);
        if purpose != QueryPurpose::VerifyNow {
            return 0;
        }
        let id = ctx.datapath_id;
        ctx.network.report(|| {
            format!("switch does not list its flow entries after changes were lost; all of forwarding are deleted dpid={id}")
        });
        self.delete_all(ctx)
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

    /// For users: what holds flow entries back at each switch.
    pub(super) fn state(&self) -> Value {
        let switch = |(id, switch): (&DatapathId, &LocalSwitch)| {
            let state = [
                ("is_paused", switch.paused_until.is_some()),
                ("has_refused_match", switch.has_refused_match),
                ("are_entries_listed", switch.query == EntryQuery::Done),
            ];
            let state = state.map(|(name, value)| (name.into(), Value::Bool(value)));
            (id.to_string().into(), Value::Map(state.into()))
        };
        Value::Map(self.all.iter().take(SHOWN_MAX).map(switch).collect())
    }

    /// Queries the switches whose entries cannot be selected by cookie (OpenFlow 1.0), or only this one of them, again at
    /// `due`.
    pub(super) fn query_again(&mut self, only: Option<DatapathId>, due: Instant) {
        let all = self.all.iter_mut().filter(|&(&id, _)| only.is_none_or(|only| only == id));
        let listed = all.map(|(_, switch)| switch);
        for switch in listed.filter(|switch| switch.selector == EntrySelector::Listed) {
            (switch.query, switch.purpose) = (EntryQuery::Due(due), QueryPurpose::FindHosts);
            switch.pages.clear();
            switch.hosts_by_port.clear();
        }
    }

    /// Ends pauses that are over and a query without a reply, and starts or continues the query of a switch if that is due.
    /// Returns the number of deletions sent.
    pub(super) fn tick(&mut self, verify_interval: Duration, ctx: &mut Ctx<'_>) -> u64 {
        let Some(switch) = self.all.get_mut(&ctx.datapath_id) else { return 0 };
        switch.paused_until = switch.paused_until.filter(|&until| ctx.now < until);
        switch.deletions.start_next(ctx);
        match switch.query {
            EntryQuery::InFlight(request)
                if ctx.now.saturating_duration_since(request.sent) >= REPLY_TIMEOUT =>
            {
                return self.end_query(ctx);
            }
            EntryQuery::Paused(until) if ctx.now >= until => switch.count_next_page(ctx),
            EntryQuery::Done if !verify_interval.is_zero() => {
                let age = ctx.now.saturating_duration_since(switch.queried_at);
                if age >= verify_interval {
                    switch.verify(QueryPurpose::VerifyInBackground, ctx.now);
                }
            }
            _ => {}
        }
        if matches!(switch.query, EntryQuery::Due(_)) && self.full_at != Some(ctx.now) {
            self.start_query(ctx);
        }
        0
    }

    /// Asks a switch for its number of flow entries, if that is due and not too many other queries are in flight.
    pub(super) fn start_query(&mut self, ctx: &mut Ctx<'_>) {
        let Some(switch) = self.all.get(&ctx.datapath_id) else { return };
        if !matches!(switch.query, EntryQuery::Due(at) if at <= ctx.now) || !self.may_query(ctx.now)
        {
            return;
        }
        let Some(switch) = self.all.get_mut(&ctx.datapath_id) else { return };
        switch.pages = vec![EntryPage::default()];
        switch.count_next_page(ctx);
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
            matches!(query, Some(EntryQuery::InFlight(_)))
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
        (cfg, limits): (&Config, PriorityLimits),
        ctx: &mut Ctx<'_>,
    ) -> u64 {
        let Some(switch) = self.all.get_mut(&ctx.datapath_id) else { return 0 };
        switch.deletions.on_multipart_reply(xid, kind, body, ctx);
        let Some(request) = switch.request_in_flight(xid) else { return 0 };
        let started = self.started_queries.iter_mut().find(|(id, _)| *id == ctx.datapath_id);
        if let Some((_, started)) = started {
            *started = ctx.now;
        }
        match request.requested {
            Requested::Count => {
                let count = match ctx.parse_reply(kind, body) {
                    Ok(MultipartReply::AggregateStats(sum)) => sum.stats.flow_count(),
                    _ => None,
                };
                self.on_count(request, count, ctx)
            }
            Requested::List => {
                let deleted = self.on_list(kind, body, (cfg, limits), ctx);
                self.continue_query(request, ctx);
                deleted
            }
        }
    }

    /// Handles the number of flow entries of a page; `None` if the switch does not say it. Returns the number of deletions
    /// sent.
    fn on_count(&mut self, request: QueryRequest, count: Option<u32>, ctx: &mut Ctx<'_>) -> u64 {
        let page = request.page;
        let Some(switch) = self.all.get_mut(&ctx.datapath_id) else { return 0 };
        let has_more_than = |max| count.is_some_and(|count| count > max);
        let mut split = None;
        if has_more_than(switch.purpose.entries_max()) {
            let view = ctx.network.view().switch(ctx.datapath_id);
            let ports: Vec<_> = view.into_iter().flat_map(|it| it.ports.keys().copied()).collect();
            split = page.split(switch.selector, &ports);
        }
        // If the number is unknown, the entries are listed: the session discards a reply that is too long.
        if split.is_none() && !has_more_than(LISTED_ENTRIES_MAX) && count != Some(0) {
            switch.request(page, Requested::List, ctx);
            return 0;
        }
        let mut deleted = 0;
        match split {
            Some(split) => switch.pages.extend(split),
            None if count != Some(0) && switch.purpose == QueryPurpose::VerifyNow => {
                deleted = self.delete_page(page, ctx);
            }
            None => {}
        }
        self.continue_query(request, ctx);
        deleted
    }

    /// Continues a query after the reply to `request`, unless the query has to start over.
    fn continue_query(&mut self, request: QueryRequest, ctx: &mut Ctx<'_>) {
        let switch = self.all.get_mut(&ctx.datapath_id);
        if let Some(switch) = switch.filter(|it| it.query == EntryQuery::InFlight(request)) {
            let is_listed = request.requested == Requested::List;
            if is_listed
                && switch.purpose == QueryPurpose::VerifyInBackground
                && !switch.pages.is_empty()
            {
                switch.query = EntryQuery::Paused(ctx.now + BACKGROUND_PAUSE);
            } else {
                switch.count_next_page(ctx);
            }
        }
    }

    /// Handles the flow entries of a page. Returns the number of deletions sent.
    fn on_list(
        &mut self,
        kind: MultipartType,
        body: &[u8],
        (cfg, limits): (&Config, PriorityLimits),
        ctx: &mut Ctx<'_>,
    ) -> u64 {
        let Some(switch) = self.all.get_mut(&ctx.datapath_id) else { return 0 };
        let is_verified = switch.purpose.is_verification();
        let (id, now) = (ctx.datapath_id, ctx.now);
        let (mut deleted, mut modified, mut in_ports) = (0, 0u64, BTreeSet::new());
        for entry in flow_stats(ctx.switch.version(), kind, body, 0).map_while(Result::ok) {
            let Ok(entry) = entry.to_flow_desc() else { continue };
            if !flow_entries::is_ours(entry.cookie) {
                continue;
            }
            let ports = [
                flow_entries::in_port(&entry.matching),
                flow_entries::out_port(&entry.instructions),
            ];
            let is_modified = flow_entries::is_modified(&entry)
                || (is_verified && flow_entries::has_other_priority(cfg, &entry));
            modified += u64::from(is_modified);
            // Installed while some switch did not support the current match; it would hide the entries of now.
            let is_too_simple = entry.priority > limits.of(id, ports, ctx.network.view());
            if is_modified || is_too_simple {
                let deletion = flow_entries::delete_listed(entry);
                ctx.network.send_to(id, Message::FlowMod(deletion));
                deleted += 1;
                continue;
            }
            in_ports.extend(flow_entries::in_port(&entry.matching));
            switch.add_entry(&entry);
        }
        if modified > 0 {
            ctx.network.report(|| {
                format!("flow entries of forwarding were modified by another program; they are deleted dpid={id} entries={modified}")
            });
        }
        for hosts in switch.hosts_by_port.values_mut() {
            hosts.sort_unstable();
            hosts.dedup();
        }
        let ports: Vec<_> = switch.hosts_by_port.keys().copied().collect();
        for port in in_ports {
            let at = SwitchPort::new(id, port);
            if ctx.network.view().port(at).is_none_or(|port| !port.is_up) {
                let filter = EntryFilter::FromPort(port);
                deleted += u64::from(self.delete(id, filter, now, ctx.network));
            }
        }
        if is_verified {
            return deleted;
        }
        for port in ports {
            deleted += self.on_port_known(SwitchPort::new(id, port), now, ctx.network);
        }
        let mut left = OLD_HOSTS_MAX;
        for hosts in self.all.get_mut(&id).into_iter().flat_map(|it| it.hosts_by_port.values_mut())
        {
            hosts.truncate(left);
            left -= hosts.len();
        }
        deleted
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
            .filter(|it| !it.purpose.is_verification() && it.hosts_by_port.contains_key(&at.port))
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
        if self.conflicting.is_empty() {
            return 0;
        }
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
