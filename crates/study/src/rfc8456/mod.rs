//! The fifteen tests of RFC 8456 (terms in RFC 8455), sections 5.1 to 5.4. `docs/rfc8456.md` describes each of them.
//!
//! All points of measurement are at the forwarding plane emulator (interface I1 of the RFC), which runs in this process: control messages
//! get their time stamps where emulated switches send and receive them, data frames where they arrive at emulated hosts. Requests to the
//! northbound interface (I2) get theirs before they are sent and after their response has been received.

mod asynchronous;
mod capacity;
mod change;
mod discovery;
mod expiry;
mod frames;
mod invalid_messages;
mod northbound;
mod path;
mod path_requests;
mod provisioning_rate;
mod provisioning_time;
mod reliability;
mod security;
mod trial;

use crate::definition::{Axis, AxisValue, Cell, Rfc8456Settings};
use crate::measure::{Measured, Subject};
pub(crate) use change::NORTHBOUND_INTERVAL;
pub(crate) use frames::{FRAME_BYTES_MAX, FRAME_BYTES_MIN};
pub(crate) use reliability::FAILOVER_INTERVAL;
use trial::Trial;

/// Carries out one trial of a test.
type Test = fn(&mut Trial<'_, '_>) -> Result<Measured, String>;

/// All tests by section, with the seconds that a trial takes with a fast controller, and how many times its duration is added.
const TESTS: [(&str, Test, f64, f64); 15] = [
    ("5.1.1", discovery::topology_discovery_time, 3.0, 0.0),
    ("5.1.2", asynchronous::processing_time, 1.0, 1.0),
    ("5.1.3", asynchronous::processing_rate, 13.0, 6.0),
    ("5.1.4", provisioning_time::reactive, 5.0, 0.0),
    ("5.1.5", provisioning_time::proactive, 5.0, 0.0),
    ("5.1.6", provisioning_rate::reactive, 6.0, 1.0),
    ("5.1.7", provisioning_rate::proactive, 6.0, 1.0),
    ("5.1.8", change::change_detection_time, 5.0, 0.0),
    ("5.2.1", capacity::control_sessions, 35.0, 0.0),
    ("5.2.2", discovery::network_discovery_size, 200.0, 0.0),
    ("5.2.3", capacity::forwarding_table, 17.0, 2.0),
    ("5.3.1", security::exception_handling, 12.0, 2.0),
    ("5.3.2", security::denial_of_service, 12.0, 2.0),
    ("5.4.1", reliability::controller_failover, 10.0, 0.0),
    ("5.4.2", reliability::network_reprovisioning, 8.0, 0.0),
];

/// Whether there is a test of this section.
pub fn is_known(section: &str) -> bool {
    test(section).is_some()
}

fn test(section: &str) -> Option<Test> {
    TESTS.iter().find(|(name, ..)| *name == section).map(|(_, test, ..)| *test)
}

/// Seconds that a trial takes with a fast controller.
pub(crate) fn estimate_s(settings: &Rfc8456Settings) -> f64 {
    let test = TESTS.iter().find(|(name, ..)| *name == settings.test);
    test.map_or(0.0, |(_, _, fixed, factor)| fixed + factor * settings.seconds)
}

/// What can be varied in a test, besides the controller.
pub(crate) fn axes(section: &str) -> &'static [Axis] {
    use Axis::{Flood, FrameBytes, Invalid, Topology};
    match section {
        "5.1.1" | "5.1.6" | "5.1.8" => &[Topology],
        "5.1.2" | "5.1.3" | "5.1.4" | "5.1.5" | "5.1.7" | "5.2.3" | "5.4.1" | "5.4.2" => {
            &[Topology, FrameBytes]
        }
        "5.3.1" => &[Topology, FrameBytes, Invalid],
        "5.3.2" => &[Topology, FrameBytes, Flood],
        // 5.2.1 and 5.2.2 have networks of their own.
        _ => &[],
    }
}

/// The settings of a cell.
pub(crate) fn resolve(settings: &Rfc8456Settings, cell: &Cell) -> Rfc8456Settings {
    let mut resolved = settings.clone();
    if let Some(AxisValue::Text(topology)) = cell.get(&Axis::Topology) {
        resolved.topology.clone_from(topology);
    }
    if let Some(AxisValue::Integer(bytes)) = cell.get(&Axis::FrameBytes) {
        resolved.frame_bytes = u32::try_from(*bytes).unwrap_or(u32::MAX);
    }
    resolved
}

/// Carries out one trial.
pub(crate) fn measure(
    settings: &Rfc8456Settings,
    cell: &Cell,
    subject: &mut Subject<'_>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Measured, String> {
    let settings = resolve(settings, cell);
    let test = test(&settings.test).ok_or_else(|| {
        format!("RFC 8456 has no test {:?} (expected 5.1.1 to 5.4.2)", settings.test)
    })?;
    test(&mut Trial::new(settings, cell, subject, is_interrupted)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_known_and_unique() {
        let sections: std::collections::BTreeSet<_> = TESTS.iter().map(|(name, ..)| name).collect();
        assert_eq!(sections.len(), TESTS.len());
        assert!(is_known("5.2.3"));
        assert!(!is_known("5.2.4"));
    }
}
