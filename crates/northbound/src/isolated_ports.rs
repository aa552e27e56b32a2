//! Ports at which a host in quarantine is alone: nothing is flooded to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_base::ordered;
use sluice_declared::Quarantine;
use sluice_openflow::MacAddr;
use sluice_sdk::view::{IsolatedPort, NetworkView, RecordFact, SwitchPort};

/// The records that have to be published so that the view has the ports at which no host is known but those in quarantine.
pub(crate) fn changes(
    view: &NetworkView,
    quarantines: &BTreeMap<MacAddr, Arc<Quarantine>>,
) -> Vec<RecordFact> {
    let is_alone =
        |&at: &SwitchPort| view.hosts_at(at).all(|(id, _)| quarantines.contains_key(&id.mac));
    let wanted = quarantines.values().filter_map(|it| it.info.own_port());
    let wanted: BTreeSet<_> = ordered(wanted.filter(is_alone));
    let present: BTreeSet<_> = ordered(view.records::<IsolatedPort>().map(|(at, _)| at));
    let added = wanted.difference(&present).map(|&at| RecordFact::new(at, Some(IsolatedPort)));
    let removed = present.difference(&wanted);
    let removed = removed.map(|&at| RecordFact::new(at, None::<IsolatedPort>));
    added.chain(removed).collect()
}
