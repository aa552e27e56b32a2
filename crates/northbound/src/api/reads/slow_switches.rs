//! The switches that answer slowly, or not at all.

use std::time::Instant;

use sluice_base::HashMap;
use sluice_openflow::DatapathId;

/// Switches that are known as slow. For one more, the one is forgotten that has been known for longest.
const SWITCHES_MAX: usize = 1024;

/// Switches whose last answer was late or missing, and since when that is known.
#[derive(Debug, Default)]
pub(super) struct SlowSwitches(HashMap<DatapathId, Instant>);

impl SlowSwitches {
    pub(super) fn contains(&self, id: DatapathId) -> bool {
        self.0.contains_key(&id)
    }

    pub(super) fn insert(&mut self, id: DatapathId, now: Instant) {
        if self.0.contains_key(&id) {
            return;
        }
        if self.0.len() >= SWITCHES_MAX {
            let oldest = self.0.iter().min_by_key(|(id, since)| (**since, id.0));
            if let Some(oldest) = oldest.map(|(&id, _)| id) {
                self.0.remove(&oldest);
            }
        }
        self.0.insert(id, now);
    }

    pub(super) fn remove(&mut self, id: DatapathId) {
        self.0.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_io::clock;

    use super::*;

    #[test]
    fn switches_that_come_and_go_without_an_answer_are_forgotten() {
        let (mut slow, start) = (SlowSwitches::default(), clock::now());
        for n in 0..5000 {
            slow.insert(DatapathId(n), start + Duration::from_secs(n));
        }
        assert_eq!(slow.0.len(), SWITCHES_MAX);
        assert!(slow.contains(DatapathId(4999)) && !slow.contains(DatapathId(0)));
        slow.remove(DatapathId(4999));
        assert!(!slow.contains(DatapathId(4999)));
    }
}
