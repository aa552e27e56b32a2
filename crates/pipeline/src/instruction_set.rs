//! The instructions of a flow entry. §5.9.

use sluice_openflow::{Action, GroupId, Instruction, PortNo};

/// The instructions of a flow entry, of which none occurs twice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstructionSet {
    /// As the controller sent them.
    instructions: Vec<Instruction>,
    /// The meter that packets pass first.
    pub meter: Option<u32>,
    /// Whether the action set is cleared.
    pub clear: bool,
    /// Value and mask.
    pub metadata: Option<(u64, u64)>,
    /// The table that is next.
    pub goto_table: Option<u8>,
}

impl InstructionSet {
    /// The set of validated instructions.
    pub fn new(instructions: Vec<Instruction>) -> Self {
        let mut set = Self::default();
        for instruction in &instructions {
            match instruction {
                Instruction::Meter { meter_id } => set.meter = Some(*meter_id),
                Instruction::ClearActions => set.clear = true,
                Instruction::WriteMetadata { metadata, metadata_mask } => {
                    set.metadata = Some((*metadata, *metadata_mask));
                }
                Instruction::GotoTable { table_id } => set.goto_table = Some(*table_id),
                _ => {}
            }
        }
        Self { instructions, ..set }
    }

    /// The instructions, as the controller sent them.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The actions that are applied at once.
    pub fn apply(&self) -> &[Action] {
        let apply = self.instructions.iter().find_map(|it| match it {
            Instruction::ApplyActions { actions } => Some(actions.as_slice()),
            _ => None,
        });
        apply.unwrap_or_default()
    }

    /// The actions that are added to the action set.
    pub fn write(&self) -> &[Action] {
        let write = self.instructions.iter().find_map(|it| match it {
            Instruction::WriteActions { actions } => Some(actions.as_slice()),
            _ => None,
        });
        write.unwrap_or_default()
    }

    /// All actions of the instructions.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.apply().iter().chain(self.write())
    }

    /// Whether an action refers to the group.
    pub fn uses_group(&self, id: GroupId) -> bool {
        self.actions().any(|it| matches!(it, Action::Group { group_id } if *group_id == id.0))
    }

    /// Whether the meter is used.
    pub fn uses_meter(&self, id: u32) -> bool {
        self.meter == Some(id)
            || self.actions().any(|it| matches!(it, Action::Meter { meter_id } if *meter_id == id))
    }

    /// Whether an action sends to the port.
    pub fn outputs_to(&self, to: PortNo) -> bool {
        self.actions().any(|it| match it {
            Action::Output { port, .. } | Action::Enqueue { port, .. } => *port == to,
            _ => false,
        })
    }
}
