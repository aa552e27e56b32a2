//! Validation of instructions and actions before they are stored or executed. §7.2.4, §7.2.5.

use sluice_openflow::{
    Action, ErrorReason, FieldId, GroupId, Instruction, Match, PortNo, TableActions, Version,
};

use super::{EmulatedSwitch, error_reasons};
use sluice_pipeline::{can_set, field_bits, field_slot};

/// The place in which actions are used, which decides what they may contain.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ActionContext<'a> {
    /// In a flow entry with this match.
    FlowEntry(&'a Match),
    /// In a bucket of a group.
    Bucket,
    /// In a `PACKET_OUT`.
    PacketOut,
}

/// The capability flag of an action; empty for one that is always supported, `None` for an unsupported one.
fn capability(action: &Action) -> Option<TableActions> {
    Some(match action {
        Action::Output { .. } => TableActions::OUTPUT,
        Action::Enqueue { .. } | Action::SetQueue { .. } => TableActions::SET_QUEUE,
        Action::SetMplsTtl { .. } => TableActions::SET_MPLS_TTL,
        Action::DecMplsTtl => TableActions::DEC_MPLS_TTL,
        Action::PushVlan { .. } => TableActions::PUSH_VLAN,
        Action::PopVlan => TableActions::POP_VLAN,
        Action::PushMpls { .. } => TableActions::PUSH_MPLS,
        Action::PopMpls { .. } => TableActions::POP_MPLS,
        Action::Group { .. } => TableActions::GROUP,
        Action::SetNwTtl { .. } => TableActions::SET_NW_TTL,
        Action::DecNwTtl => TableActions::DEC_NW_TTL,
        Action::SetField { .. } => TableActions::SET_FIELD,
        Action::Meter { .. } => TableActions::default(),
        _ => return None,
    })
}

impl EmulatedSwitch {
    /// Validates the instructions of a flow entry in table `table_id`.
    pub(super) fn check_instructions(
        &self,
        table_id: u8,
        instructions: &[Instruction],
        matching: &Match,
    ) -> Result<(), ErrorReason> {
        for (n, instruction) in instructions.iter().enumerate() {
            let kind = std::mem::discriminant(instruction);
            let before = instructions.iter().take(n);
            if before.map(std::mem::discriminant).any(|it| it == kind) {
                return Err(error_reasons::DUP_INST);
            }
            match instruction {
                Instruction::GotoTable { table_id: to } => {
                    if *to <= table_id || usize::from(*to) >= self.tables.len() {
                        return Err(error_reasons::BAD_GOTO);
                    }
                }
                Instruction::WriteActions { actions } | Instruction::ApplyActions { actions } => {
                    self.check_actions(actions, ActionContext::FlowEntry(matching))?;
                }
                Instruction::Meter { meter_id } => {
                    if !self.meters.contains(*meter_id) {
                        return Err(error_reasons::UNKNOWN_METER);
                    }
                }
                Instruction::WriteMetadata { .. } | Instruction::ClearActions => {}
                Instruction::StatTrigger { .. } => return Err(error_reasons::UNSUP_INST),
                Instruction::Experimenter { .. } => {
                    return Err(error_reasons::BAD_INSTRUCTION_EXPERIMENTER);
                }
                Instruction::Other { .. } => return Err(error_reasons::UNKNOWN_INST),
            }
        }
        Ok(())
    }

    /// Validates a list of actions.
    pub(super) fn check_actions(
        &self,
        actions: &[Action],
        context: ActionContext<'_>,
    ) -> Result<(), ErrorReason> {
        actions.iter().enumerate().try_for_each(|(n, action)| {
            let before = actions.get(..n).unwrap_or_default();
            self.check_action(action, before, context)
        })
    }

    fn check_action(
        &self,
        action: &Action,
        before: &[Action],
        context: ActionContext<'_>,
    ) -> Result<(), ErrorReason> {
        let Some(capability) = capability(action) else { return Err(unsupported_error(action)) };
        if self.config.unsupported_actions.0 & capability.0 != 0 {
            return Err(error_reasons::BAD_ACTION_TYPE);
        }
        match action {
            Action::Output { port, .. } | Action::Enqueue { port, .. } => {
                self.check_port(*port, context)
            }
            Action::Group { group_id } => {
                let known = self.groups.contains(GroupId(*group_id));
                if known { Ok(()) } else { Err(error_reasons::BAD_OUT_GROUP) }
            }
            Action::PushVlan { ethertype } if ![0x8100, 0x88a8].contains(ethertype) => {
                Err(error_reasons::BAD_ARGUMENT)
            }
            Action::PushMpls { ethertype } if ![0x8847, 0x8848].contains(ethertype) => {
                Err(error_reasons::BAD_ARGUMENT)
            }
            Action::Meter { meter_id } if !self.meters.contains(*meter_id) => {
                Err(error_reasons::BAD_METER)
            }
            Action::SetField { field } => {
                let field = field.field().ok_or(error_reasons::BAD_SET_TYPE)?;
                let is_unsupported =
                    self.config.unsupported_set_fields.iter().any(|id| id.same_as(field.id));
                if is_unsupported || field_slot(field.id).is_none() || !can_set(field.id) {
                    return Err(error_reasons::BAD_SET_TYPE);
                }
                if field.value & !field_bits(field.id) != 0 {
                    return Err(error_reasons::BAD_SET_ARGUMENT);
                }
                self.check_prerequisites(field.id, before, context)
            }
            _ => Ok(()),
        }
    }

    /// A field can be set only if the match guarantees it (§7.2.5); before 1.2 there is no such check.
    fn check_prerequisites(
        &self,
        id: FieldId,
        before: &[Action],
        context: ActionContext<'_>,
    ) -> Result<(), ErrorReason> {
        let ActionContext::FlowEntry(matching) = context else { return Ok(()) };
        let changes = |it: &Action| {
            matches!(it, Action::PushVlan { .. } | Action::PushMpls { .. } | Action::PopMpls { .. })
        };
        if self.session.version() < Version::V1_2 || before.iter().any(changes) {
            return Ok(());
        }
        let mut prerequisites = id.row().map_or(&[][..], |row| row.prerequisites).to_vec();
        if id.same_as(FieldId::VLAN_VID) {
            prerequisites.extend(FieldId::VLAN_PCP.row().map_or(&[][..], |row| row.prerequisites));
        }
        let is_met = prerequisites
            .iter()
            .all(|prerequisite| matching.iter().any(|field| prerequisite.is_met_by(field)));
        if is_met { Ok(()) } else { Err(error_reasons::MATCH_INCONSISTENT) }
    }

    fn check_port(&self, port: PortNo, context: ActionContext<'_>) -> Result<(), ErrorReason> {
        let known = match port {
            PortNo::IN_PORT | PortNo::ALL | PortNo::FLOOD | PortNo::CONTROLLER => true,
            PortNo::TABLE => matches!(context, ActionContext::PacketOut),
            port => self.ports.contains(port),
        };
        if known { Ok(()) } else { Err(error_reasons::BAD_OUT_PORT) }
    }
}

/// The error for an unsupported action.
fn unsupported_error(action: &Action) -> ErrorReason {
    /// Actions of 1.0 that set one field; parsing keeps them in this form only if their value is invalid.
    const SETS_OF_1_0: std::ops::RangeInclusive<u64> = 1..=15;
    match action {
        Action::Other { code, .. } if SETS_OF_1_0.contains(code) => error_reasons::BAD_ARGUMENT,
        Action::Other { code, .. } if u16::try_from(*code).is_ok() => {
            error_reasons::BAD_ACTION_TYPE
        }
        Action::CopyTtlOut
        | Action::CopyTtlIn
        | Action::PushPbb { .. }
        | Action::PopPbb
        | Action::CopyField { .. } => error_reasons::BAD_ACTION_TYPE,
        _ => error_reasons::BAD_ACTION_EXPERIMENTER,
    }
}
