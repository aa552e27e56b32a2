//! A flow table with its entries, counters and timeouts. §5.2 to §5.5, §6.4.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_openflow::{
    ErrorReason, FieldId, FlowModFlags, FlowRemovedReason, GroupId, Instruction, Match, PortNo,
    TableConfig,
};
use sluice_pipeline::{InstructionSet, NormalizedMatch, PacketInPipeline};

use super::error_reasons;
use super::flow_mod_cache::MatchForm;
use super::lookup::FlowLookup;
use super::timeout_checks::TimeoutChecks;

/// A flow entry.
#[derive(Debug, Clone)]
pub struct FlowEntry {
    /// Priority: of the entries that match a packet, the one with the highest priority is used.
    pub priority: u16,
    /// Opaque value of the controller.
    pub cookie: u64,
    /// Seconds without a packet after which the entry expires; 0 disables.
    pub idle_timeout_s: u16,
    /// Seconds after which the entry expires; 0 disables.
    pub hard_timeout_s: u16,
    /// Flags of the `FLOW_MOD`.
    pub flags: FlowModFlags,
    /// Importance for eviction, which this switch does not do.
    pub importance: u16,
    /// When the entry was added.
    pub added_at: Instant,
    /// When the last packet matched; without one, when the entry was added.
    pub last_used_at: Instant,
    /// Packets that matched.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    pub(super) form: Arc<MatchForm>,
    pub(crate) pattern: NormalizedMatch,
    pub(crate) instruction_set: Arc<InstructionSet>,
    /// When the timeouts are checked next.
    pub(crate) next_timeout_check: Option<Instant>,
}

impl FlowEntry {
    /// When the entry expires if no packet matches, and why.
    fn expiry(&self) -> Option<(Instant, FlowRemovedReason)> {
        let after = |from: Instant, timeout_s: u16| {
            let timeout = Duration::from_secs(timeout_s.into());
            from.checked_add(timeout).filter(|_| timeout_s > 0)
        };
        let hard = after(self.added_at, self.hard_timeout_s);
        let idle = after(self.last_used_at, self.idle_timeout_s);
        let hard = hard.map(|at| (at, FlowRemovedReason::HARD_TIMEOUT));
        let idle = idle.map(|at| (at, FlowRemovedReason::IDLE_TIMEOUT));
        [hard, idle].into_iter().flatten().min_by_key(|end| end.0)
    }

    /// The match, as the controller sent it.
    ///
    /// # Cost
    /// Allocates.
    pub fn matching(&self) -> Match {
        self.form.matching(&self.pattern)
    }

    /// Whether the match has an exact `value` of the canonical field `id`.
    pub fn has_exact(&self, id: FieldId, value: u128) -> bool {
        self.pattern.has_exact(id, value)
    }

    /// The instructions, as the controller sent them.
    pub fn instructions(&self) -> &[Instruction] {
        self.instruction_set.instructions()
    }

    /// Whether this is the table-miss entry. §5.4.
    pub fn is_table_miss(&self) -> bool {
        self.priority == 0 && self.pattern.is_empty()
    }
}

/// Selects the entries that a request applies to.
#[derive(Debug, Clone)]
pub(crate) struct FlowFilter {
    pub(crate) pattern: NormalizedMatch,
    /// Only the entry with this priority and exactly this match; `None` selects all that the match covers.
    pub(crate) strict: Option<u16>,
    pub(crate) cookie: u64,
    pub(crate) cookie_mask: u64,
    pub(crate) out_port: PortNo,
    pub(crate) out_group: GroupId,
}

impl FlowFilter {
    fn matches(&self, entry: &FlowEntry) -> bool {
        let covered = match self.strict {
            Some(priority) => priority == entry.priority && self.pattern == entry.pattern,
            None => self.pattern.covers(&entry.pattern),
        };
        covered
            && (entry.cookie ^ self.cookie) & self.cookie_mask == 0
            && (self.out_port == PortNo::ANY || entry.instruction_set.outputs_to(self.out_port))
            && (self.out_group == GroupId::ANY || entry.instruction_set.uses_group(self.out_group))
    }
}

/// What becomes of the counters of an entry that is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplacedCounters {
    /// The new entry continues them.
    Kept,
    /// The new entry starts at zero.
    Reset,
}

/// A flow table.
#[derive(Debug, Default)]
pub(crate) struct FlowTable {
    entries: Vec<Option<FlowEntry>>,
    free: Vec<usize>,
    lookup: FlowLookup,
    /// When the timeouts of each entry are checked. An entry that matched a packet in the meantime does not expire then.
    timeout_checks: TimeoutChecks,
    pub(crate) config: TableConfig,
    pub(crate) lookups: u64,
    pub(crate) matched: u64,
}

impl FlowTable {
    /// Adds an entry, replacing one with the same priority and match, whose counters it may inherit.
    ///
    /// # Errors
    /// `OVERLAP` if the entry requests that check, `TABLE_FULL` if the table has `size` entries.
    pub(crate) fn add(
        &mut self,
        mut entry: FlowEntry,
        size: usize,
        counters: ReplacedCounters,
    ) -> Result<(), ErrorReason> {
        let overlaps =
            |it: &FlowEntry| it.priority == entry.priority && it.pattern.overlaps(&entry.pattern);
        if entry.flags.contains(FlowModFlags::CHECK_OVERLAP) && self.iter().any(overlaps) {
            return Err(error_reasons::OVERLAP);
        }
        let new = self.free.last().copied().unwrap_or(self.entries.len());
        let index = self.lookup.get_or_insert(entry.priority, &entry.pattern, new);
        if index != new {
            if let Some(old) = self.at(index).filter(|_| counters == ReplacedCounters::Kept) {
                (entry.packets, entry.bytes) = (old.packets, old.bytes);
            }
        } else if self.len() >= size {
            self.lookup.remove(entry.priority, &entry.pattern);
            return Err(error_reasons::TABLE_FULL);
        } else if self.free.pop().is_none() {
            self.entries.push(None);
        }
        entry.next_timeout_check = entry.expiry().map(|(at, _)| at);
        if let Some(at) = entry.next_timeout_check {
            self.timeout_checks.add(at, index);
        }
        let old = self.entries.get_mut(index).and_then(|slot| slot.replace(entry));
        self.cancel_timeout_check(old.as_ref());
        Ok(())
    }

    /// The timeouts of an entry that was removed are not checked any more.
    fn cancel_timeout_check(&mut self, removed: Option<&FlowEntry>) {
        if removed.is_some_and(|entry| entry.next_timeout_check.is_some()) {
            let entries = &self.entries;
            self.timeout_checks.cancelled(|at, index| {
                let entry = entries.get(index).and_then(Option::as_ref);
                entry.is_some_and(|entry| entry.next_timeout_check == Some(at))
            });
        }
    }

    /// Removes the entry at index `index`.
    pub(crate) fn take(&mut self, index: usize) -> Option<FlowEntry> {
        let entry = self.entries.get_mut(index)?.take()?;
        self.cancel_timeout_check(Some(&entry));
        self.lookup.remove(entry.priority, &entry.pattern);
        self.free.push(index);
        Some(entry)
    }

    /// Indices of all entries that `filter` selects, in ascending order.
    pub(crate) fn select(&self, filter: &FlowFilter) -> Vec<usize> {
        if let Some(priority) = filter.strict {
            let index = self.lookup.exact(priority, &filter.pattern);
            return index
                .filter(|&at| self.at(at).is_some_and(|it| filter.matches(it)))
                .into_iter()
                .collect();
        }
        let selected = |(index, entry): (usize, &Option<FlowEntry>)| {
            entry.as_ref().is_some_and(|it| filter.matches(it)).then_some(index)
        };
        self.entries.iter().enumerate().filter_map(selected).collect()
    }

    /// Indices of all entries for which `is_selected` holds.
    pub(crate) fn indices_where(&self, is_selected: impl Fn(&FlowEntry) -> bool) -> Vec<usize> {
        let all = (0..).zip(&self.entries);
        all.filter(|(_, it)| it.as_ref().is_some_and(&is_selected))
            .map(|(index, _)| index)
            .collect()
    }

    /// Finds the entry that matches a packet, with its index, and updates counters.
    pub(crate) fn lookup_packet(
        &mut self,
        now: Instant,
        packet: &PacketInPipeline,
    ) -> Option<(usize, &FlowEntry)> {
        self.lookups += 1;
        let index = self.lookup.find(&packet.fields)?;
        let entry = self.entries.get_mut(index)?.as_mut()?;
        self.matched += 1;
        if !entry.flags.contains(FlowModFlags::NO_PKT_COUNTS) {
            entry.packets += 1;
        }
        if !entry.flags.contains(FlowModFlags::NO_BYT_COUNTS) {
            entry.bytes += packet.len();
        }
        entry.last_used_at = now;
        Some((index, entry))
    }

    /// Removes the next entry whose timeout has passed.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<(FlowEntry, FlowRemovedReason)> {
        loop {
            let (checked_at, index) = self.timeout_checks.pop_due(now)?;
            let Some(entry) = self.entries.get_mut(index).and_then(Option::as_mut) else {
                continue;
            };
            if entry.next_timeout_check != Some(checked_at) {
                continue;
            }
            let expiry = entry.expiry();
            entry.next_timeout_check = expiry.map(|(at, _)| at).filter(|&at| at > now);
            match (expiry, entry.next_timeout_check) {
                (_, Some(later)) => self.timeout_checks.add(later, index),
                (Some((_, reason)), None) => {
                    return self.take(index).map(|entry| (entry, reason));
                }
                (None, None) => {}
            }
        }
    }

    /// When an entry may expire next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timeout_checks.first().map(|(at, _)| at)
    }

    pub(crate) fn at(&self, index: usize) -> Option<&FlowEntry> {
        self.entries.get(index)?.as_ref()
    }

    pub(crate) fn at_mut(&mut self, index: usize) -> Option<&mut FlowEntry> {
        self.entries.get_mut(index)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &FlowEntry> {
        self.entries.iter().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}
