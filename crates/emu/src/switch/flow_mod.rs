//! Adding, modifying, deleting and expiring flow entries: `FLOW_MOD`, `FLOW_REMOVED`. §6.4, §7.3.4.1, §7.4.2.

use std::sync::Arc;
use std::time::Instant;

use sluice_openflow::{
    Elapsed, ErrorReason, FlowMod, FlowModCommand, FlowModFlags, FlowRemoved, FlowRemovedReason,
    Match, Message, MessageType, RawMessage, Stat, Stats, Version,
};

use super::flow_mod_cache::MatchForm;
use super::flow_table::{FlowEntry, FlowFilter, ReplacedCounters};
use super::{EmulatedSwitch, SwitchOutput, error_reasons};
use sluice_pipeline::{InstructionSet, NormalizedMatch};

/// Number of fields in the match of 1.0.
const FIELDS_OF_MATCH_1_0: usize = 12;

/// Offset of the priority in a `FLOW_MOD` of 1.0, and of later versions. §7.3.4.1.
const PRIORITY_AT: [usize; 2] = [62, 30];

impl EmulatedSwitch {
    /// Counts a flow-mod that this switch [ignores](super::EmulatedSwitchConfig::keeps_only_table_miss); `false` for all other
    /// messages.
    pub(super) fn ignore_flow_mod(&mut self, msg: RawMessage<'_>) -> bool {
        if !self.config.keeps_only_table_miss || msg.kind() != MessageType::FLOW_MOD {
            return false;
        }
        let [in_1_0, later] = PRIORITY_AT;
        let at = if msg.version() == Version::V1_0 { in_1_0 } else { later };
        let is_ignored = msg.bytes().get(at..at + 2).is_some_and(|priority| priority != [0, 0]);
        self.counters.flow_mods += u64::from(is_ignored);
        is_ignored
    }

    /// Executes a flow-mod. If it was received as `msg`, others of its form are recognised in future.
    pub(super) fn on_flow_mod(
        &mut self,
        now: Instant,
        flow_mod: FlowMod,
        msg: Option<RawMessage<'_>>,
        out: &mut SwitchOutput,
    ) -> Result<(), ErrorReason> {
        let version = self.session.version();
        let pattern =
            NormalizedMatch::new(&flow_mod.matching, version, &self.config.unsupported_fields)
                .map_err(error_reasons::of_match)?;
        let priority = effective_priority(&flow_mod, version);
        let (buffer_id, new_pattern) = (flow_mod.buffer_id, pattern.clone());
        match flow_mod.command {
            FlowModCommand::ADD => self.add(now, flow_mod, priority, &pattern, msg)?,
            FlowModCommand::MODIFY | FlowModCommand::MODIFY_STRICT => {
                self.modify(now, flow_mod, priority, &pattern)?;
            }
            FlowModCommand::DELETE | FlowModCommand::DELETE_STRICT => {
                self.delete(now, &flow_mod, priority, pattern, out)?;
                self.counters.flow_mods += 1;
                return Ok(());
            }
            _ => return Err(error_reasons::BAD_COMMAND),
        }
        self.counters.flow_mods += 1;
        let released = buffer_id.map_or(Ok(()), |id| self.release_buffered(now, id, out));
        self.release_flow_followers(now, &new_pattern, out);
        released
    }

    fn add(
        &mut self,
        now: Instant,
        mut flow_mod: FlowMod,
        priority: u16,
        pattern: &NormalizedMatch,
        msg: Option<RawMessage<'_>>,
    ) -> Result<(), ErrorReason> {
        self.validate_flow_mod(&flow_mod)?;
        let instructions = std::mem::take(&mut flow_mod.instructions);
        let instructions = Arc::new(InstructionSet::new(instructions));
        let entry = FlowEntry {
            priority,
            ..FlowEntry::new(
                now,
                &flow_mod,
                Arc::new(MatchForm::of(flow_mod.matching.clone())),
                pattern.clone(),
                Arc::clone(&instructions),
            )
        };
        self.add_entry(flow_mod.table_id, entry)?;
        if let Some(msg) = msg {
            self.learn_form(msg, &flow_mod, pattern, &instructions);
        }
        Ok(())
    }

    /// Adds an entry whose match and instructions are valid.
    pub(super) fn add_entry(&mut self, table_id: u8, entry: FlowEntry) -> Result<(), ErrorReason> {
        let is_reset = self.session.version() < Version::V1_2
            || entry.flags.contains(FlowModFlags::RESET_COUNTS);
        let counters = if is_reset { ReplacedCounters::Reset } else { ReplacedCounters::Kept };
        let table = self.tables.get_mut(usize::from(table_id));
        let table = table.ok_or(error_reasons::BAD_TABLE_ID)?;
        table.add(entry, self.config.table_entries_max, counters)
    }

    /// Validates a `FLOW_MOD` that adds or modifies.
    fn validate_flow_mod(&self, flow_mod: &FlowMod) -> Result<(), ErrorReason> {
        if flow_mod.flags.contains(FlowModFlags::EMERG) {
            // There is no emergency flow table. OpenFlow 1.0.0 §5.3.3.
            let is_permanent = flow_mod.idle_timeout == 0 && flow_mod.hard_timeout == 0;
            return Err(if is_permanent {
                error_reasons::TABLE_FULL
            } else {
                error_reasons::BAD_EMERG_TIMEOUT
            });
        }
        if flow_mod.flags.0 > ALL_FLAGS {
            return Err(error_reasons::BAD_FLAGS);
        }
        if usize::from(flow_mod.table_id) >= self.tables.len() {
            return Err(error_reasons::BAD_TABLE_ID);
        }
        self.check_instructions(flow_mod.table_id, &flow_mod.instructions, &flow_mod.matching)
    }

    fn modify(
        &mut self,
        now: Instant,
        flow_mod: FlowMod,
        priority: u16,
        pattern: &NormalizedMatch,
    ) -> Result<(), ErrorReason> {
        self.validate_flow_mod(&flow_mod)?;
        let version = self.session.version();
        let strict = (flow_mod.command == FlowModCommand::MODIFY_STRICT).then_some(priority);
        let filter = FlowFilter::changing(&flow_mod, version, strict, pattern.clone());
        let table = self.tables.get_mut(usize::from(flow_mod.table_id));
        let table = table.ok_or(error_reasons::BAD_TABLE_ID)?;
        let indices = table.select(&filter);
        // OpenFlow 1.0.0 §4.6; in 1.1 only without a cookie mask.
        let adds_if_none =
            version == Version::V1_0 || (version == Version::V1_1 && flow_mod.cookie_mask == 0);
        if indices.is_empty() {
            return if adds_if_none {
                self.add(now, flow_mod, priority, pattern, None)
            } else {
                Ok(())
            };
        }
        let instruction_set = Arc::new(InstructionSet::new(flow_mod.instructions));
        for index in indices {
            let Some(entry) = table.at_mut(index) else { continue };
            entry.instruction_set = Arc::clone(&instruction_set);
            if version == Version::V1_0 {
                entry.cookie = flow_mod.cookie;
            }
            if flow_mod.flags.contains(FlowModFlags::RESET_COUNTS) {
                (entry.packets, entry.bytes) = (0, 0);
            }
        }
        Ok(())
    }

    fn delete(
        &mut self,
        now: Instant,
        flow_mod: &FlowMod,
        priority: u16,
        pattern: NormalizedMatch,
        out: &mut SwitchOutput,
    ) -> Result<(), ErrorReason> {
        let version = self.session.version();
        let strict = (flow_mod.command == FlowModCommand::DELETE_STRICT).then_some(priority);
        let filter = FlowFilter::deleting(flow_mod, version, strict, pattern);
        let every = flow_mod.table_id == FlowMod::TABLE_ALL || version == Version::V1_0;
        if !every && usize::from(flow_mod.table_id) >= self.tables.len() {
            return Err(error_reasons::BAD_TABLE_ID);
        }
        for table_id in 0..=u8::MAX {
            let Some(table) = self.tables.get(usize::from(table_id)) else { break };
            if every || table_id == flow_mod.table_id {
                let indices = table.select(&filter);
                self.remove(now, table_id, &indices, FlowRemovedReason::DELETE, out);
            }
        }
        Ok(())
    }

    /// Removes all entries for which `is_selected` holds, in all tables.
    pub(super) fn remove_entries_where(
        &mut self,
        now: Instant,
        is_selected: impl Fn(&FlowEntry) -> bool,
        reason: FlowRemovedReason,
        out: &mut SwitchOutput,
    ) {
        for table_id in 0..=u8::MAX {
            let Some(table) = self.tables.get(usize::from(table_id)) else { return };
            let indices = table.indices_where(&is_selected);
            self.remove(now, table_id, &indices, reason, out);
        }
    }

    fn remove(
        &mut self,
        now: Instant,
        table_id: u8,
        indices: &[usize],
        reason: FlowRemovedReason,
        out: &mut SwitchOutput,
    ) {
        for &index in indices {
            let table = self.tables.get_mut(usize::from(table_id));
            if let Some(entry) = table.and_then(|table| table.take(index)) {
                self.send_flow_removed(now, table_id, &entry, reason, out);
            }
        }
    }

    /// Removes entries whose timeout has passed.
    pub(super) fn expire_entries(&mut self, now: Instant, out: &mut SwitchOutput) {
        for table_id in 0..=u8::MAX {
            loop {
                let Some(table) = self.tables.get_mut(usize::from(table_id)) else { return };
                let Some((entry, reason)) = table.expire(now) else { break };
                self.send_flow_removed(now, table_id, &entry, reason, out);
            }
        }
    }

    /// Sends `FLOW_REMOVED` for a removed entry, if it asks for it.
    pub(super) fn send_flow_removed(
        &mut self,
        now: Instant,
        table_id: u8,
        entry: &FlowEntry,
        reason: FlowRemovedReason,
        out: &mut SwitchOutput,
    ) {
        let version = self.session.version();
        let reason = match reason {
            FlowRemovedReason::METER_DELETE if version < Version::V1_4 => FlowRemovedReason::DELETE,
            reason => reason,
        };
        let is_requested = entry.flags.contains(FlowModFlags::SEND_FLOW_REM);
        if !is_requested || !self.session.wants_removed(reason) {
            return;
        }
        let removed = FlowRemoved {
            cookie: entry.cookie,
            priority: entry.priority,
            reason,
            table_id: if version > Version::V1_0 { table_id } else { 0 },
            idle_timeout: entry.idle_timeout_s,
            hard_timeout: if version >= Version::V1_2 { entry.hard_timeout_s } else { 0 },
            stats: entry.stats(now),
            matching: entry.matching(),
        };
        self.send_async(&Message::FlowRemoved(removed), out);
    }
}

/// All flags of §7.3.4.1.
const ALL_FLAGS: u32 = 31;

/// The priority of an entry: in 1.0, one without wildcards has the highest. OpenFlow 1.0.0 §3.4.
fn effective_priority(flow_mod: &FlowMod, version: Version) -> u16 {
    let is_exact = |it: &Match| {
        it.fields.len() == FIELDS_OF_MATCH_1_0 && it.iter().all(sluice_openflow::Field::is_exact)
    };
    if version == Version::V1_0 && is_exact(&flow_mod.matching) {
        u16::MAX
    } else {
        flow_mod.priority
    }
}

impl FlowFilter {
    /// The entries that a modification applies to.
    fn changing(
        flow_mod: &FlowMod,
        version: Version,
        strict: Option<u16>,
        pattern: NormalizedMatch,
    ) -> Self {
        Self {
            pattern,
            strict,
            cookie: flow_mod.cookie,
            cookie_mask: if version == Version::V1_0 { 0 } else { flow_mod.cookie_mask },
            out_port: sluice_openflow::PortNo::ANY,
            out_group: sluice_openflow::GroupId::ANY,
        }
    }

    /// The entries that a deletion applies to.
    fn deleting(
        flow_mod: &FlowMod,
        version: Version,
        strict: Option<u16>,
        pattern: NormalizedMatch,
    ) -> Self {
        let (out_port, out_group) = (flow_mod.out_port, flow_mod.out_group);
        Self { out_port, out_group, ..Self::changing(flow_mod, version, strict, pattern) }
    }
}

impl FlowEntry {
    /// The entry that a flow-mod adds, of which match and instructions are given.
    pub(super) fn new(
        now: Instant,
        flow_mod: &FlowMod,
        form: Arc<MatchForm>,
        pattern: NormalizedMatch,
        instruction_set: Arc<InstructionSet>,
    ) -> Self {
        Self {
            priority: flow_mod.priority,
            cookie: flow_mod.cookie,
            idle_timeout_s: flow_mod.idle_timeout,
            hard_timeout_s: flow_mod.hard_timeout,
            flags: flow_mod.flags,
            importance: flow_mod.importance,
            added_at: now,
            last_used_at: now,
            packets: 0,
            bytes: 0,
            form,
            pattern,
            instruction_set,
            next_timeout_check: None,
        }
    }

    /// The counters in the form that all versions encode.
    pub(super) fn stats(&self, now: Instant) -> Stats {
        let age = now.saturating_duration_since(self.added_at);
        let sec = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
        let mut fields = vec![Stat::Duration(Elapsed { sec, nsec: age.subsec_nanos() })];
        if !self.flags.contains(FlowModFlags::NO_PKT_COUNTS) {
            fields.push(Stat::PacketCount(self.packets));
        }
        if !self.flags.contains(FlowModFlags::NO_BYT_COUNTS) {
            fields.push(Stat::ByteCount(self.bytes));
        }
        Stats { fields }
    }
}
