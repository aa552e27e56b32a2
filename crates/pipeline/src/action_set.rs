//! The action set, executed at the end of the pipeline. §5.10.

use sluice_openflow::Action;

/// The action set: one action of each type.
#[derive(Debug, Default)]
pub struct ActionSet {
    actions: Vec<Action>,
}

/// The position of an action in the execution order of an action set. §5.10.
fn execution_order(action: &Action) -> u8 {
    match action {
        Action::PopVlan | Action::PopMpls { .. } => 1,
        Action::PushMpls { .. } => 2,
        Action::PushVlan { .. } => 3,
        Action::DecNwTtl | Action::DecMplsTtl => 4,
        Action::SetQueue { .. } => 6,
        Action::Meter { .. } => 0,
        Action::Group { .. } => 7,
        Action::Output { .. } | Action::Enqueue { .. } => 8,
        _ => 5,
    }
}

impl ActionSet {
    /// The set of these actions; of one type, the last is kept.
    pub fn from_actions(actions: &[Action]) -> Self {
        let mut set = Self::default();
        set.write(actions);
        set
    }

    /// Adds actions, which replace those of the same type.
    pub fn write(&mut self, actions: &[Action]) {
        for action in actions {
            let is_same = |it: &Action| match (it, action) {
                (Action::SetField { field: a }, Action::SetField { field: b }) => {
                    a.id().same_as(b.id())
                }
                (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
            };
            match self.actions.iter_mut().find(|it| is_same(it)) {
                Some(existing) => existing.clone_from(action),
                None => self.actions.push(action.clone()),
            }
        }
    }

    /// The actions in execution order; a group replaces an output.
    pub fn into_actions(self) -> Vec<Action> {
        let mut actions = self.actions;
        actions.sort_by_key(execution_order);
        if actions.iter().any(|it| matches!(it, Action::Group { .. })) {
            actions.retain(|it| !matches!(it, Action::Output { .. }));
        }
        actions
    }
}
