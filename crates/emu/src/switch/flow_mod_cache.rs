//! Recognises `FLOW_MOD`s that differ from an earlier one only in addresses, ports and the cookie, so that they need not be
//! parsed and validated again. Controllers send most flow entries in a few forms. OpenFlow 1.2 and later. §7.3.4.1.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use sluice_base::HashMap;
use sluice_openflow::{
    Field, FieldId, FlowMod, FlowModCommand, Match, MessageType, Oxm, RawMessage, Version,
};

use super::EmulatedSwitch;
use super::flow_table::FlowEntry;
use sluice_pipeline::{InstructionSet, NormalizedMatch};

/// Most forms of flow-mods that are remembered.
const FORMS_MAX: usize = 8;

/// Most lists of instructions that are remembered for one form: more than a switch has ports.
const INSTRUCTIONS_MAX: usize = 1024;

/// Offsets of the cookie, of what follows it, and of the match.
const COOKIE: Range<usize> = 8..16;
const FIXED: Range<usize> = 16..48;
const MATCH_AT: usize = 48;

/// Length of the header of a match, and of that of a field. §7.2.3.1, §7.2.3.2.
const HEADER_LEN: usize = 4;

/// Fields of which every value is valid, whatever the others are.
const VARIABLE_FIELDS: [FieldId; 10] = [
    FieldId::IN_PORT,
    FieldId::METADATA,
    FieldId::ETH_DST,
    FieldId::ETH_SRC,
    FieldId::IPV4_SRC,
    FieldId::IPV4_DST,
    FieldId::TCP_SRC,
    FieldId::TCP_DST,
    FieldId::UDP_SRC,
    FieldId::UDP_DST,
];

/// Forms of flow-mods that were accepted.
#[derive(Debug, Default)]
pub(super) struct FlowModCache {
    forms: Vec<FlowModForm>,
}

/// What flow-mods have in common that differ only in cookie, values of some match fields, and instructions.
#[derive(Debug)]
struct FlowModForm {
    /// The bytes from the cookie mask to the end of the match, of which those of variable values are not compared.
    bytes: Vec<u8>,
    form: Arc<MatchForm>,
    /// The parsed flow-mod, of which cookie, match and instructions are not used.
    flow_mod: FlowMod,
    pattern: NormalizedMatch,
    /// By their bytes.
    instructions: HashMap<Box<[u8]>, Arc<InstructionSet>>,
}

/// The match of flow entries that differ only in values of some fields. Each entry has its values in its pattern.
#[derive(Debug)]
pub(super) struct MatchForm {
    /// As the controller sent it for the first of these entries.
    matching: Match,
    variables: Vec<VariableValue>,
}

/// A value in the match that differs from message to message.
#[derive(Debug, Clone)]
struct VariableValue {
    /// Its bytes, relative to those of the form.
    bytes: Range<usize>,
    /// Index of the field in the match.
    field: usize,
    /// Index of the value in the normalized match.
    value: usize,
}

impl FlowModCache {
    /// Forgets everything: what flow entries refer to has changed.
    pub(super) fn clear(&mut self) {
        self.forms.clear();
    }

    /// The flow entry that `msg` adds, if it has a known form.
    pub(super) fn entry(&self, now: Instant, msg: RawMessage<'_>) -> Option<(u8, FlowEntry)> {
        let bytes = msg.bytes();
        let (form, instructions) = self.forms.iter().find_map(|form| {
            let (own, instructions) =
                bytes.get(FIXED.start..)?.split_at_checked(form.bytes.len())?;
            form.matches(own).then_some((form, instructions))
        })?;
        let instruction_set = Arc::clone(form.instructions.get(instructions)?);
        let cookie = u64::from_be_bytes(*bytes.get(COOKIE)?.first_chunk()?);
        let own = bytes.get(FIXED.start..)?;
        let mut values: Arc<[u128]> = Arc::from(&*form.pattern.values);
        let new = Arc::get_mut(&mut values)?;
        for variable in &form.form.variables {
            let value = own.get(variable.bytes.clone())?.iter();
            let value = value.fold(0u64, |value, &byte| value << 8 | u64::from(byte));
            *new.get_mut(variable.value)? = value.into();
        }
        let pattern = NormalizedMatch { mask: form.pattern.mask.clone(), values };
        let matching = Arc::clone(&form.form);
        let entry = FlowEntry::new(now, &form.flow_mod, matching, pattern, instruction_set);
        Some((form.flow_mod.table_id, FlowEntry { cookie, ..entry }))
    }

    /// Remembers the form of a flow-mod that was accepted.
    fn learn(
        &mut self,
        msg: RawMessage<'_>,
        flow_mod: &FlowMod,
        pattern: &NormalizedMatch,
        instructions: &Arc<InstructionSet>,
    ) -> Option<()> {
        let bytes = msg.bytes().get(FIXED.start..)?;
        let known = self
            .forms
            .iter()
            .position(|form| bytes.get(..form.bytes.len()).is_some_and(|own| form.matches(own)));
        let at = if let Some(at) = known {
            at
        } else {
            if self.forms.len() >= FORMS_MAX {
                self.forms.clear();
            }
            self.forms.push(FlowModForm::new(bytes, flow_mod, pattern)?);
            self.forms.len() - 1
        };
        let form = self.forms.get_mut(at)?;
        if form.instructions.len() >= INSTRUCTIONS_MAX {
            form.instructions.clear();
        }
        let instruction_bytes = bytes.get(form.bytes.len()..)?.into();
        form.instructions.insert(instruction_bytes, Arc::clone(instructions));
        Some(())
    }
}

impl MatchForm {
    /// The form of a single match.
    pub(super) fn of(matching: Match) -> Self {
        Self { matching, variables: vec![] }
    }

    /// The match of the entry with this pattern.
    pub(super) fn matching(&self, pattern: &NormalizedMatch) -> Match {
        let mut matching = self.matching.clone();
        for variable in &self.variables {
            let oxm = matching.fields.get_mut(variable.field);
            if let (Some(oxm), Some(&value)) = (oxm, pattern.values.get(variable.value))
                && let Some(&field) = oxm.field()
            {
                *oxm = Oxm::from(Field { value, ..field });
            }
        }
        matching
    }
}

impl FlowModForm {
    /// The form of a flow-mod whose bytes from the cookie mask on are given; `None` if its match is malformed.
    fn new(bytes: &[u8], flow_mod: &FlowMod, pattern: &NormalizedMatch) -> Option<Self> {
        let match_at = MATCH_AT - FIXED.start;
        let [_, _, high, low] = *bytes.get(match_at..)?.first_chunk()?;
        let match_len = usize::from(u16::from_be_bytes([high, low]));
        let (mut at, mut variables) = (match_at + HEADER_LEN, vec![]);
        for (field, oxm) in flow_mod.matching.fields.iter().enumerate() {
            let [_, _, _, len] = *bytes.get(at..)?.first_chunk()?;
            let value_bytes = at + HEADER_LEN..at + HEADER_LEN + usize::from(len);
            at = value_bytes.end;
            if VARIABLE_FIELDS.contains(&oxm.id()) && !oxm.is_masked() {
                let value = pattern.position(oxm.id())?;
                variables.push(VariableValue { bytes: value_bytes, field, value });
            }
        }
        Some(Self {
            bytes: bytes.get(..match_at + match_len.next_multiple_of(8))?.to_vec(),
            form: Arc::new(MatchForm { matching: flow_mod.matching.clone(), variables }),
            flow_mod: FlowMod {
                matching: Match::default(),
                instructions: vec![],
                ..flow_mod.clone()
            },
            pattern: pattern.clone(),
            instructions: HashMap::default(),
        })
    }

    /// Whether bytes of the same length differ only in variable values.
    fn matches(&self, bytes: &[u8]) -> bool {
        let mut at = 0;
        for VariableValue { bytes: Range { start, end }, .. } in &self.form.variables {
            if self.bytes.get(at..*start) != bytes.get(at..*start) {
                return false;
            }
            at = *end;
        }
        self.bytes.get(at..) == bytes.get(at..)
    }
}

impl EmulatedSwitch {
    /// Adds the flow entry of a `FLOW_MOD` of a known form; `false` if the form is not known.
    pub(super) fn add_by_form(&mut self, now: Instant, msg: RawMessage<'_>) -> bool {
        if msg.kind() != MessageType::FLOW_MOD || self.config.flow_buffering {
            return false;
        }
        let Some((table_id, entry)) = self.flow_mod_cache.entry(now, msg) else { return false };
        let is_added = self.add_entry(table_id, entry).is_ok();
        self.counters.changes += u64::from(is_added);
        self.counters.flow_mods += u64::from(is_added);
        is_added
    }

    /// Remembers the form of a flow-mod that added `entry`.
    pub(super) fn learn_form(
        &mut self,
        msg: RawMessage<'_>,
        flow_mod: &FlowMod,
        pattern: &NormalizedMatch,
        instructions: &Arc<InstructionSet>,
    ) {
        let is_addition = flow_mod.command == FlowModCommand::ADD && flow_mod.buffer_id.is_none();
        if self.session.version() >= Version::V1_2 && is_addition {
            self.flow_mod_cache.learn(msg, flow_mod, pattern, instructions);
        }
    }
}
