//! The names by which events call switches, also those that have disconnected.

use std::sync::Arc;

use sluice_base::HashMap;
use sluice_declared::Names as GivenNames;
use sluice_openflow::DatapathId;

/// Names of switches that are remembered, those that have disconnected included. If there are more, they are forgotten.
const NAMES_MAX: usize = 65_536;

/// Names of switches.
#[derive(Debug, Default)]
pub(super) struct SwitchNames {
    /// What switches call themselves.
    own: HashMap<DatapathId, String>,
    /// The switch to which a name belongs: others with the same name are called by their datapath ids.
    owners: HashMap<String, DatapathId>,
    /// The names that an operator has given, which go first.
    given: Arc<GivenNames>,
}

impl SwitchNames {
    /// The name of a switch, if it has one.
    pub(super) fn of(&self, switch: DatapathId) -> Option<&str> {
        self.given.switch(switch).or_else(|| self.own.get(&switch).map(String::as_str))
    }

    /// Whether it is known what a switch calls itself.
    pub(super) fn has_own(&self, switch: DatapathId) -> bool {
        self.own.contains_key(&switch)
    }

    /// Records what a switch calls itself.
    pub(super) fn set_own(&mut self, switch: DatapathId, name: Option<String>) {
        if self.own.len() >= NAMES_MAX {
            self.own.clear();
            self.owners.clear();
        }
        let Some(name) = name else { return };
        if *self.owners.entry(name.clone()).or_insert(switch) != switch {
            return;
        }
        if let Some(old) = self.own.insert(switch, name.clone()).filter(|old| *old != name) {
            self.owners.remove(&old);
        }
    }

    /// Replaces the names that an operator has given.
    pub(super) fn set_given(&mut self, given: Arc<GivenNames>) {
        self.given = given;
    }
}

#[cfg(test)]
mod tests {
    use sluice_declared::NameOf;

    use super::*;

    #[test]
    fn of_switches_with_one_name_only_the_first_is_called_by_it() {
        let mut names = SwitchNames::default();
        let mut set = |id, name: &str| {
            names.set_own(DatapathId(id), Some(name.to_owned()));
            [1, 2].map(|id| names.of(DatapathId(id)).map(str::to_owned))
        };
        let some = |name: &str| Some(name.to_owned());
        set(1, "switch");
        assert_eq!(set(2, "switch"), [some("switch"), None]);
        set(1, "s1");
        assert_eq!(set(2, "switch"), [some("s1"), some("switch")]);
    }

    #[test]
    fn names_that_an_operator_has_given_go_first() {
        let mut names = SwitchNames::default();
        names.set_own(DatapathId(1), Some("br0".to_owned()));
        names.set_own(DatapathId(2), Some("br1".to_owned()));
        let given = GivenNames::new([(NameOf::Switch(DatapathId(1)), "core".to_owned())]).unwrap();
        names.set_given(Arc::new(given));
        assert_eq!([1, 2].map(|id| names.of(DatapathId(id))), [Some("core"), Some("br1")]);
    }
}
