//! Quarantined hosts and drained links: made durable, then put into effect.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_openflow::MacAddr;
use sluice_sdk::view::{Cable, DrainedLink, RecordFact};

use crate::change;
use crate::quarantine::{Quarantine, QuarantineInfo};
use crate::service::{Declared, Event, WriteError, lock};

impl Declared {
    /// The hosts in quarantine.
    pub fn quarantines(&self) -> BTreeMap<MacAddr, Arc<Quarantine>> {
        lock(&self.shared.core).quarantines.clone()
    }

    /// Puts a host into quarantine. Returns the number of the change.
    ///
    /// # Errors
    /// It is in quarantine already, the address is not that of a host, or the change cannot be stored.
    ///
    /// # Cost
    /// Blocks until the disk has written the change.
    pub fn quarantine(&self, mac: MacAddr, info: QuarantineInfo) -> Result<u64, WriteError> {
        let _changing = lock(&self.shared.changing);
        let applied = {
            let core = lock(&self.shared.core);
            change::quarantine(mac, info, &core.quarantines, core.revision + 1)
                .map_err(WriteError::Quarantine)?
        };
        self.shared.commit(&applied)?;
        Ok(applied.revision)
    }

    /// Releases a host from quarantine. Returns the number of the change, and the quarantine that has ended.
    ///
    /// # Errors
    /// It is not in quarantine, or the change cannot be stored.
    ///
    /// # Cost
    /// Blocks until the disk has written the change.
    pub fn release(&self, mac: MacAddr) -> Result<(u64, Arc<Quarantine>), WriteError> {
        let _changing = lock(&self.shared.changing);
        let (applied, ended) = {
            let core = lock(&self.shared.core);
            change::release(mac, &core.quarantines, core.revision + 1)
                .map_err(WriteError::Quarantine)?
        };
        self.shared.commit(&applied)?;
        Ok((applied.revision, ended))
    }

    /// Takes a link out of service, or puts it back. The workers learn of it after this has returned.
    ///
    /// # Errors
    /// It cannot be stored; nothing was changed.
    ///
    /// # Cost
    /// Blocks until the disk has written the change.
    pub fn set_drained(
        &self,
        cable: Cable,
        drained: Option<DrainedLink>,
    ) -> Result<(), WriteError> {
        let mut store = lock(&self.shared.store);
        store.open()?.record_drain(cable, drained).map_err(WriteError::Store)?;
        lock(&self.shared.unpublished).push(RecordFact::new(cable, drained));
        // Fails if the thread has ended: then nothing is published any more.
        let _ = self.shared.events.send(Event::Changed);
        Ok(())
    }
}
