//! Which switches are read at a time: those that never answer do not keep the others from being verified.

use sluice_base::sort_by;

use super::Reconciler;
use crate::status::Now;

/// Switches that are read at a time: their replies may have megabytes.
const READS_MAX: usize = 16;

/// Of these, switches that no reading has succeeded at since they have connected, and unreliable ones.
const UNPROVEN_READS_MAX: usize = READS_MAX / 2;

/// Of these, switches whose last reading has failed, and those that have never answered one in their last session.
const UNRELIABLE_READS_MAX: usize = 4;

/// Which slots a switch may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReadClass {
    /// It was read in this session.
    Read,
    /// It was not read yet in this session.
    Unread,
    /// Its last reading has failed.
    Unreliable,
}

/// The slots that are taken.
#[derive(Debug, Default)]
struct Taken {
    all: usize,
    unproven: usize,
    unreliable: usize,
}

impl Taken {
    fn add(&mut self, class: ReadClass) {
        self.all += 1;
        self.unproven += usize::from(class != ReadClass::Read);
        self.unreliable += usize::from(class == ReadClass::Unreliable);
    }

    fn has_room(&self, class: ReadClass) -> bool {
        let has_unproven = self.unproven < UNPROVEN_READS_MAX;
        self.all < READS_MAX
            && match class {
                ReadClass::Read => true,
                ReadClass::Unread => has_unproven,
                ReadClass::Unreliable => has_unproven && self.unreliable < UNRELIABLE_READS_MAX,
            }
    }
}

impl Reconciler {
    /// Reads the switches that have waited for longest, of each class as many as it has slots.
    pub(super) fn start_readings(&mut self, now: Now) {
        let (mut taken, mut waiting) = (Taken::default(), vec![]);
        for (&id, switch) in &mut self.switches {
            self.out.session = switch.session;
            switch.continue_grant(now, &mut self.out);
            if switch.has_read_slot() {
                taken.add(switch.read_class());
            } else if let Some(since) = switch.waits_to_read(now) {
                waiting.push((since, id, switch.read_class()));
            }
        }
        sort_by(&mut waiting, Ord::cmp);
        for (_, id, class) in waiting {
            if taken.has_room(class)
                && let Some(switch) = self.switches.get_mut(&id)
            {
                self.out.session = switch.session;
                switch.grant_reading(now, &mut self.out);
                taken.add(class);
            }
        }
    }
}
