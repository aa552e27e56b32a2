//! The groups and routers at a port of this worker, and when each expires.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_openflow::VlanId;

use super::group_index::{PortGroups, RouterSign};
use super::messages::{ChangeKind, LAST_MEMBER_TIME, MembershipChange};
use super::querier::PortQueries;
use super::{IpGroup, Timing};
use crate::rate_limit::RateLimit;

/// Groups at one port. If there are more, the port gets every multicast for a while.
pub(super) const GROUPS_PER_PORT_MAX: usize = 1024;

/// Groups that may be added to a port within a second. If there are more, the port gets every multicast for a while.
const NEW_GROUPS_PER_S_MAX: u32 = 256;

/// Changes that are published at once within a second; further ones are collected until the next tick, as each costs every worker
/// a comparison of all groups of the port.
const PUBLICATIONS_PER_S_MAX: u32 = 8;

/// Queries for one group that a port may cause within a second. Whoever leaves more groups stays a member until it expires.
const GROUP_QUERIES_PER_S_MAX: u32 = 64;

/// Queries for a group that somebody has left, [`LAST_MEMBER_TIME`] apart. RFC 3376 §8.9.
const LEAVE_QUERIES: u32 = 2;

/// A port of this worker.
#[derive(Debug, Default)]
pub(super) struct MemberPort {
    groups: BTreeMap<IpGroup, Membership>,
    routers: BTreeMap<(VlanId, RouterSign), Instant>,
    /// By VLAN.
    queries: BTreeMap<VlanId, PortQueries>,
    /// When the next of them is due.
    queries_due: Option<Instant>,
    unfiltered_until: Option<Instant>,
    messages: RateLimit,
    new_groups: RateLimit,
    group_queries: RateLimit,
    publications: RateLimit,
    /// Whether it has changed since it was published.
    is_unpublished: bool,
    /// When the next of these times is.
    due: Option<Instant>,
    /// When it was logged that the port gets every multicast.
    pub(super) logged_at: Option<Instant>,
}

#[derive(Debug)]
struct Membership {
    expires: Instant,
    leave: Option<Leave>,
}

/// Somebody has left the group; others are asked.
#[derive(Debug)]
struct Leave {
    queries: u32,
    next: Instant,
}

/// Why some of the groups at a port may not be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnknownGroups {
    TooManyGroups,
    TooManyMessages,
    TruncatedReport,
}

/// What is due at a port.
#[derive(Debug, Default)]
pub(super) struct DueWork {
    /// Groups for which a query is to be sent.
    pub(super) queries: Vec<IpGroup>,
    pub(super) has_changed: bool,
}

impl MemberPort {
    /// A port that another worker has served before, or this one on an earlier connection. Everything is kept for its full time.
    pub(super) fn adopt(known: &PortGroups, timing: Timing, now: Instant) -> Self {
        let member = |&group| (group, Membership { expires: now + timing.membership, leave: None });
        let router = |&router| (router, now + timing.router());
        Self {
            groups: known.groups.iter().map(member).collect(),
            routers: known.routers.iter().map(router).collect(),
            unfiltered_until: known.is_unfiltered.then_some(now + timing.membership),
            due: Some(now + timing.router()),
            ..Self::default()
        }
    }

    /// What is to be published of it, which counts as published.
    pub(super) fn take_record(&mut self, now: Instant) -> PortGroups {
        self.is_unpublished = false;
        let queried = self.queries.iter().filter(|(_, queries)| queries.is_answered(now));
        PortGroups {
            groups: Arc::new(self.groups.keys().copied().collect()),
            routers: self.routers.keys().copied().collect(),
            queried: queried.map(|(&vlan, _)| vlan).collect(),
            is_unfiltered: self.unfiltered_until.is_some(),
        }
    }

    /// Whether a change is published at once; otherwise it is published in the next tick.
    pub(super) fn admit_publication(&mut self, now: Instant) -> bool {
        self.is_unpublished = true;
        self.publications.admit(PUBLICATIONS_PER_S_MAX, now)
    }

    pub(super) fn is_unpublished(&self) -> bool {
        self.is_unpublished
    }

    pub(super) fn group_count(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn has_router(&self) -> bool {
        !self.routers.is_empty()
    }

    pub(super) fn is_unfiltered(&self) -> bool {
        self.unfiltered_until.is_some()
    }

    /// Counts a message. Returns `false` if there were `max` in this second before.
    pub(super) fn admit_message(&mut self, max: u32, now: Instant) -> bool {
        self.messages.admit(max, now)
    }

    /// Some groups may not be known: the port gets every multicast until those that are there have been reported again. Returns
    /// whether this is new.
    pub(super) fn set_unfiltered(&mut self, timing: Timing, now: Instant) -> bool {
        let until = now + timing.membership;
        self.wake_at(until);
        self.unfiltered_until.replace(until).is_none()
    }

    /// A router is there.
    pub(super) fn on_router(
        &mut self,
        vlan: VlanId,
        sign: RouterSign,
        timing: Timing,
        now: Instant,
    ) -> bool {
        let until = now + timing.router();
        self.wake_at(until);
        self.routers.insert((vlan, sign), until).is_none()
    }

    /// Applies a report; `room` is the number of groups that the network may have in addition. Queries become due.
    ///
    /// # Errors
    /// There are too many groups; some were not added.
    pub(super) fn on_report(
        &mut self,
        vlan: VlanId,
        changes: &[MembershipChange],
        room: usize,
        (timing, now): (Timing, Instant),
    ) -> Result<(), UnknownGroups> {
        let (mut added, mut result) = (0, Ok(()));
        for change in changes {
            let id = (vlan, change.group);
            let known = self.groups.get_mut(&id);
            match (change.kind, known) {
                (ChangeKind::Join, Some(member)) => {
                    *member = Membership { expires: now + timing.membership, leave: None };
                }
                (ChangeKind::Join, None) => {
                    let has_room = self.groups.len() < GROUPS_PER_PORT_MAX && added < room;
                    if !has_room || !self.new_groups.admit(NEW_GROUPS_PER_S_MAX, now) {
                        result = Err(UnknownGroups::TooManyGroups);
                        continue;
                    }
                    added += 1;
                    let expires = now + timing.membership;
                    self.groups.insert(id, Membership { expires, leave: None });
                    self.wake_at(expires);
                }
                (ChangeKind::Leave, Some(member)) => {
                    if member.leave.is_none()
                        && self.group_queries.admit(GROUP_QUERIES_PER_S_MAX, now)
                    {
                        member.leave = Some(Leave { queries: 0, next: now });
                        self.wake_at(now);
                    }
                }
                (ChangeKind::Leave, None) => {}
            }
        }
        result
    }

    /// Queries are sent in these VLANs only.
    pub(super) fn set_vlans(&mut self, vlans: &BTreeSet<VlanId>, now: Instant) {
        let before = self.queries.len();
        self.queries.retain(|vlan, _| vlans.contains(vlan));
        self.is_unpublished |= self.queries.len() != before;
        if self.queries.len() < vlans.len() {
            self.queries_due = Some(now);
        }
    }

    /// A host has appeared in a VLAN.
    pub(super) fn on_host(&mut self, vlan: VlanId) {
        if let Some(queries) = self.queries.get_mut(&vlan) {
            queries.on_host();
            self.queries_due = self.queries_due.min(Some(queries.due()));
        }
    }

    /// The VLANs of those in `vlans` in which a general query is due; it counts as sent. `delay` is the time that a query needs to
    /// the switch and the answers back.
    pub(super) fn take_due_queries(
        &mut self,
        vlans: &BTreeSet<VlanId>,
        (delay, timing): (Duration, Timing),
        now: Instant,
    ) -> Vec<VlanId> {
        let mut due = Vec::new();
        if self.queries_due.is_none_or(|at| now < at) {
            return due;
        }
        for &vlan in vlans {
            match self.queries.get_mut(&vlan) {
                None => {
                    self.queries.insert(vlan, PortQueries::start(delay, timing, now));
                    due.push(vlan);
                }
                Some(queries) => {
                    self.is_unpublished |= queries.take_answered(now);
                    if queries.take_due(timing, now) {
                        due.push(vlan);
                    }
                }
            }
        }
        self.queries_due = self.queries.values().map(PortQueries::due).min();
        due
    }

    /// For this time no queries could be sent: everything is kept for as much longer.
    pub(super) fn postpone(&mut self, time: Duration) {
        for member in self.groups.values_mut() {
            member.expires += time;
            if let Some(leave) = &mut member.leave {
                leave.next += time;
            }
        }
        self.routers.values_mut().for_each(|until| *until += time);
        for at in [&mut self.unfiltered_until, &mut self.due].into_iter().flatten() {
            *at += time;
        }
    }

    /// What is due now. `delay` is the time that a query needs to the switch and the answer back.
    pub(super) fn take_due(&mut self, delay: Duration, now: Instant) -> DueWork {
        let mut work = DueWork::default();
        if self.due.is_none_or(|due| now < due) {
            return work;
        }
        let before = (self.groups.len(), self.routers.len(), self.is_unfiltered());
        self.groups.retain(|&group, member| {
            if let Some(leave) = &mut member.leave
                && leave.next <= now
            {
                if leave.queries == LEAVE_QUERIES {
                    return false;
                }
                leave.queries += 1;
                let wait = if leave.queries == LEAVE_QUERIES { delay } else { Duration::ZERO };
                leave.next = now + LAST_MEMBER_TIME + wait;
                work.queries.push(group);
            }
            now < member.expires
        });
        self.routers.retain(|_, until| now < *until);
        self.unfiltered_until = self.unfiltered_until.filter(|until| now < *until);
        let after = (self.groups.len(), self.routers.len(), self.is_unfiltered());
        work.has_changed = before != after;
        let leaves = self.groups.values().filter_map(|member| member.leave.as_ref());
        let times = leaves.map(|leave| leave.next);
        let times = times.chain(self.groups.values().map(|member| member.expires));
        let times = times.chain(self.routers.values().copied()).chain(self.unfiltered_until);
        self.due = times.min();
        work
    }

    fn wake_at(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}
