//! A flow table: rules, their counters, their time-outs. §5.2 to §5.5, §6.4.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_openflow::{
    Action, ErrorReason, FlowModFlags, FlowRemovedReason, GroupId, Instruction, Match, PortNo,
    TableConfig,
};

use super::error_reasons;
use super::fields::NormalizedMatch;
use super::lookup::FlowLookup;
use super::packet::PacketInPipeline;

/// What a rule does, in the order in which it is done. §5.9.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct InstructionSet {
    pub(crate) meter: Option<u32>,
    pub(crate) apply: Vec<Action>,
    pub(crate) clear: bool,
    pub(crate) write: Vec<Action>,
    /// Value and mask.
    pub(crate) metadata: Option<(u64, u64)>,
    pub(crate) goto_table: Option<u8>,
}

impl InstructionSet {
    /// The steps of instructions that were checked.
    pub(crate) fn new(instructions: &[Instruction]) -> Self {
        let mut steps = Self::default();
        for instruction in instructions {
            match instruction {
                Instruction::Meter { meter_id } => steps.meter = Some(*meter_id),
                Instruction::ApplyActions { actions } => steps.apply.clone_from(actions),
                Instruction::ClearActions => steps.clear = true,
                Instruction::WriteActions { actions } => steps.write.clone_from(actions),
                Instruction::WriteMetadata { metadata, metadata_mask } => {
                    steps.metadata = Some((*metadata, *metadata_mask));
                }
                Instruction::GotoTable { table_id } => steps.goto_table = Some(*table_id),
                _ => {}
            }
        }
        steps
    }

    /// Every action in it.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &Action> {
        self.apply.iter().chain(&self.write)
    }

    /// Whether it refers to a group.
    pub(crate) fn uses_group(&self, id: GroupId) -> bool {
        self.actions().any(|it| matches!(it, Action::Group { group_id } if *group_id == id.0))
    }

    /// Whether it refers to a meter.
    pub(crate) fn uses_meter(&self, id: u32) -> bool {
        self.meter == Some(id)
            || self.actions().any(|it| matches!(it, Action::Meter { meter_id } if *meter_id == id))
    }

    fn outputs_to(&self, to: PortNo) -> bool {
        self.actions().any(|it| match it {
            Action::Output { port, .. } | Action::Enqueue { port, .. } => *port == to,
            _ => false,
        })
    }
}

/// One rule, and what became of it.
#[derive(Debug, Clone)]
pub struct FlowEntry {
    /// The highest that matches wins.
    pub priority: u16,
    /// What a packet must have, as the controller said it.
    pub matching: Match,
    /// What is done with it, as the controller said it.
    pub instructions: Vec<Instruction>,
    /// The controller's own mark.
    pub cookie: u64,
    /// Seconds without a packet after which it goes; 0 never.
    pub idle_timeout_s: u16,
    /// Seconds after which it goes; 0 never.
    pub hard_timeout_s: u16,
    /// How it is kept.
    pub flags: FlowModFlags,
    /// Of what importance it is.
    pub importance: u16,
    /// Since when it has been there.
    pub added_at: Instant,
    /// When the last packet met it; when it was added, if none did.
    pub last_used_at: Instant,
    /// Packets that met it.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    pub(crate) pattern: NormalizedMatch,
    pub(crate) instruction_set: Arc<InstructionSet>,
    /// When its time-outs are looked at next.
    pub(crate) next_timeout_check: Option<Instant>,
}

impl FlowEntry {
    /// When it goes if nothing happens, and why.
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

    /// Whether it is what packets meet that meet nothing else. §5.4.
    pub fn is_table_miss(&self) -> bool {
        self.priority == 0 && self.pattern.is_empty()
    }
}

/// Which rules a request is about.
#[derive(Debug, Clone)]
pub(crate) struct FlowFilter {
    pub(crate) pattern: NormalizedMatch,
    /// Just the rule with this priority and just the pattern; without it, all that the pattern covers.
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

/// One flow table.
#[derive(Debug, Default)]
pub(crate) struct FlowTable {
    entries: Vec<Option<FlowEntry>>,
    free: Vec<usize>,
    lookup: FlowLookup,
    /// When which rule has to be looked at; it may have been used in the meantime.
    due: BTreeSet<(Instant, usize)>,
    pub(crate) config: TableConfig,
    pub(crate) lookups: u64,
    pub(crate) matched: u64,
}

impl FlowTable {
    /// The rule with just this priority and pattern.
    pub(crate) fn find_identical(
        &self,
        priority: u16,
        pattern: &NormalizedMatch,
    ) -> Option<&FlowEntry> {
        self.at(self.lookup.exact(priority, pattern)?)
    }

    /// Adds a rule, in place of an identical one if there is one.
    ///
    /// # Errors
    /// `OVERLAP` if the rule asks for that check, `TABLE_FULL` beyond `size` rules.
    pub(crate) fn add(&mut self, mut entry: FlowEntry, size: usize) -> Result<(), ErrorReason> {
        let overlaps =
            |it: &FlowEntry| it.priority == entry.priority && it.pattern.overlaps(&entry.pattern);
        if entry.flags.contains(FlowModFlags::CHECK_OVERLAP) && self.iter().any(overlaps) {
            return Err(error_reasons::OVERLAP);
        }
        let same = self.lookup.exact(entry.priority, &entry.pattern);
        let replaced = same.and_then(|place| self.take(place));
        if replaced.is_none() && self.len() >= size {
            return Err(error_reasons::TABLE_FULL);
        }
        let place = self.free.pop().unwrap_or(self.entries.len());
        if place == self.entries.len() {
            self.entries.push(None);
        }
        self.lookup.insert(entry.priority, &entry.pattern, place);
        entry.next_timeout_check = entry.expiry().map(|(at, _)| at);
        self.due.extend(entry.next_timeout_check.map(|at| (at, place)));
        if let Some(slot) = self.entries.get_mut(place) {
            *slot = Some(entry);
        }
        Ok(())
    }

    /// Takes the rule at `place` away.
    pub(crate) fn take(&mut self, place: usize) -> Option<FlowEntry> {
        let entry = self.entries.get_mut(place)?.take()?;
        self.lookup.remove(entry.priority, &entry.pattern);
        if let Some(at) = entry.next_timeout_check {
            self.due.remove(&(at, place));
        }
        self.free.push(place);
        Some(entry)
    }

    /// The places of all rules that `filter` takes, in their order.
    pub(crate) fn select(&self, filter: &FlowFilter) -> Vec<usize> {
        if let Some(priority) = filter.strict {
            let place = self.lookup.exact(priority, &filter.pattern);
            return place
                .filter(|&at| self.at(at).is_some_and(|it| filter.matches(it)))
                .into_iter()
                .collect();
        }
        let taken = |(place, entry): (usize, &Option<FlowEntry>)| {
            entry.as_ref().is_some_and(|it| filter.matches(it)).then_some(place)
        };
        self.entries.iter().enumerate().filter_map(taken).collect()
    }

    /// The places of all rules for which `is_meant`.
    pub(crate) fn indices_where(&self, is_meant: impl Fn(&FlowEntry) -> bool) -> Vec<usize> {
        let all = (0..).zip(&self.entries);
        all.filter(|(_, it)| it.as_ref().is_some_and(&is_meant)).map(|(place, _)| place).collect()
    }

    /// Finds the rule that `packet` meets, and counts.
    pub(crate) fn lookup_packet(
        &mut self,
        now: Instant,
        packet: &PacketInPipeline,
    ) -> Option<&FlowEntry> {
        self.lookups += 1;
        let place = self.lookup.find(&packet.fields)?;
        let entry = self.entries.get_mut(place)?.as_mut()?;
        self.matched += 1;
        if !entry.flags.contains(FlowModFlags::NO_PKT_COUNTS) {
            entry.packets += 1;
        }
        if !entry.flags.contains(FlowModFlags::NO_BYT_COUNTS) {
            entry.bytes += packet.len();
        }
        entry.last_used_at = now;
        Some(entry)
    }

    /// Takes the next rule away whose time is over.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<(FlowEntry, FlowRemovedReason)> {
        loop {
            let (_, place) = self.due.first().copied().filter(|due| due.0 <= now)?;
            self.due.pop_first();
            let entry = self.entries.get_mut(place)?.as_mut()?;
            match entry.expiry() {
                Some((end, reason)) if end <= now => {
                    return self.take(place).map(|entry| (entry, reason));
                }
                later => {
                    entry.next_timeout_check = later.map(|(at, _)| at);
                    self.due.extend(entry.next_timeout_check.map(|at| (at, place)));
                }
            }
        }
    }

    /// When a rule may have to go.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|due| due.0)
    }

    pub(crate) fn at(&self, place: usize) -> Option<&FlowEntry> {
        self.entries.get(place)?.as_ref()
    }

    pub(crate) fn at_mut(&mut self, place: usize) -> Option<&mut FlowEntry> {
        self.entries.get_mut(place)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &FlowEntry> {
        self.entries.iter().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}
