//! The names by which events call switches, also those that have disconnected.

use std::sync::Arc;

use sluice_base::{HashMap, HashSet};
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
    /// Switches that have disconnected, and still have their names.
    disconnected: HashSet<DatapathId>,
    /// The last other switch that calls itself so: it may replace the one to which the name belongs.
    claims: HashMap<String, DatapathId>,
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
        if self.own.len().max(self.claims.len()) >= NAMES_MAX {
            *self = Self { given: self.given.clone(), ..Self::default() };
        }
        self.disconnected.remove(&switch);
        let Some(name) = name else { return };
        match self.owners.get(&name) {
            Some(&owner) if owner != switch && self.disconnected.remove(&owner) => {
                self.own.remove(&owner);
            }
            Some(&owner) if owner != switch => {
                self.claims.insert(name, switch);
                return;
            }
            _ => {}
        }
        self.owners.insert(name.clone(), switch);
        if let Some(old) = self.own.insert(switch, name.clone()).filter(|old| *old != name) {
            self.owners.remove(&old);
        }
    }

    /// From now on another switch may get the name of this one, as its replacement does.
    pub(super) fn on_disconnect(&mut self, switch: DatapathId) {
        let Some(name) = self.own.get(&switch).cloned() else { return };
        self.disconnected.insert(switch);
        if let Some(other) = self.claims.remove(&name).filter(|other| *other != switch) {
            self.set_own(other, Some(name));
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
    fn a_switch_that_replaces_another_one_is_called_as_it_was() {
        let some = |name: &str| Some(name.to_owned());
        // The old one disconnects before the new one connects, or after that.
        for is_before in [true, false] {
            let mut names = SwitchNames::default();
            let [old, new] = [DatapathId(1), DatapathId(2)];
            names.set_own(old, some("core"));
            if is_before {
                names.on_disconnect(old);
                assert_eq!(names.of(old), Some("core"), "events call it so for now");
            }
            names.set_own(new, some("core"));
            if !is_before {
                assert_eq!(names.of(new), None);
                names.on_disconnect(old);
            }
            assert_eq!([old, new].map(|id| names.of(id)), [None, Some("core")]);
            names.set_own(old, some("core"));
            assert_eq!([old, new].map(|id| names.of(id)), [None, Some("core")]);
        }
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
