//! Maps by port.

use std::collections::BTreeMap;

use sluice_openflow::DatapathId;
use sluice_sdk::view::SwitchPort;

/// Removes the ports of a switch.
///
/// # Cost
/// Visits only these ports, so that many switches that disconnect together cost no more for each.
pub(crate) fn remove_switch<V>(map: &mut BTreeMap<SwitchPort, V>, switch: DatapathId) {
    while let Some((&at, _)) = map.range(SwitchPort::all_of(switch)).next() {
        map.remove(&at);
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::PortNo;

    use super::*;

    #[test]
    fn the_ports_of_other_switches_stay() {
        let at = |switch, port| SwitchPort::new(DatapathId(switch), PortNo(port));
        let ports = [at(1, u32::MAX), at(2, 0), at(2, 7), at(2, u32::MAX), at(3, 0)];
        let mut map: BTreeMap<_, _> = ports.into_iter().map(|at| (at, at)).collect();
        remove_switch(&mut map, DatapathId(2));
        assert!(map.into_values().eq([at(1, u32::MAX), at(3, 0)]));
    }
}
