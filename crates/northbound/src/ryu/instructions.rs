//! Instructions in requests: beside the actions in the list `actions`, or in a list `instructions` of their own.

use sluice_openflow::{Action, Instruction, Version};

use super::actions;
use super::input::{ApiResult, Object, invalid};
use super::numbers::{INSTRUCTION_TYPES, METERS, TABLES};

/// Reads `instructions`, then `actions`: Ryu has the first since OpenFlow 1.4 and the second before, here both are read always.
pub(super) fn from_entry(flow: &Object<'_>, version: Version) -> ApiResult<Vec<Instruction>> {
    let mut instructions = vec![];
    for it in flow.objects("instructions")? {
        match from_object(&it, version)? {
            // Ryu leaves out an instruction without actions.
            Instruction::ApplyActions { actions } | Instruction::WriteActions { actions }
                if actions.is_empty() => {}
            instruction => instructions.push(instruction),
        }
    }
    let mut applied = vec![];
    for it in flow.objects("actions")? {
        match actions::type_of(&it)? {
            // An instruction up to 1.4, an action in 1.5.
            "METER" if version < Version::V1_5 => instructions.push(meter(&it)?),
            kind if INSTRUCTION_TYPES.has(kind) => {
                instructions.push(from_object(&it, version)?);
            }
            _ => applied.push(actions::from_object(&it, version)?),
        }
    }
    add_applied(&mut instructions, applied);
    Ok(instructions)
}

fn add_applied(instructions: &mut Vec<Instruction>, applied: Vec<Action>) {
    if !applied.is_empty() {
        instructions.push(Instruction::ApplyActions { actions: applied });
    }
}

fn meter(it: &Object<'_>) -> ApiResult<Instruction> {
    Ok(Instruction::Meter { meter_id: it.required_named("meter_id", &METERS)? })
}

fn from_object(it: &Object<'_>, version: Version) -> ApiResult<Instruction> {
    let kind = actions::type_of(it)?;
    Ok(match kind {
        "GOTO_TABLE" => {
            Instruction::GotoTable { table_id: it.required_named("table_id", &TABLES)? }
        }
        "WRITE_METADATA" => Instruction::WriteMetadata {
            metadata: it.required_number("metadata")?,
            metadata_mask: it.number("metadata_mask", u64::MAX)?,
        },
        "WRITE_ACTIONS" => Instruction::WriteActions { actions: actions::from_list(it, version)? },
        "APPLY_ACTIONS" => Instruction::ApplyActions { actions: actions::from_list(it, version)? },
        "CLEAR_ACTIONS" => Instruction::ClearActions,
        "METER" => meter(it)?,
        _ => {
            let expected = format!("one of {}, METER", INSTRUCTION_TYPES.known());
            return Err(invalid(&it.place("type"), &kind.into(), &expected));
        }
    })
}
