//! Sections 5.3.1 and 5.3.2: the tests of paths and changes with invalid messages, and under attack.

use std::net::SocketAddr;
use std::time::Duration;

use super::change::{cut_first_link, set_or_bound};
use super::invalid_messages::InvalidMessageProxy;
use super::provisioning_rate;
use super::provisioning_time::{PathEnds, provision_reactively};
use super::trial::{Trial, milliseconds};
use crate::measure::{Beside, Measured, is_generator_the_limit};

/// Time between the beginning of an attack and the first measurement.
const ATTACK_LEAD: Duration = Duration::from_secs(1);

/// Path provisioning time, change detection time and path provisioning rate, with switches that connect to `target`.
fn measure_all(trial: &mut Trial<'_, '_>, target: SocketAddr) -> Result<Measured, String> {
    let ends = PathEnds::of(trial)?;
    let mut measured = Measured::default();
    let mut network = trial.connect_to(target, trial.topology.clone())?;
    network.wait_for_discovery()?;
    network.announce([ends.from, ends.to])?;
    let (path, frame) = provision_reactively(&mut network, ends, trial.time())?;
    measured.set("path_ms", milliseconds(path.path));
    measured.set("frame_ms", milliseconds(frame));
    let reaction = cut_first_link(&mut network, None, trial.time())?;
    set_or_bound(&mut measured, "detection_ms", reaction.rediscovery, trial.time());
    drop(network);
    trial.subject.controller.observe();
    let report = provisioning_rate::reactive_rate(trial, target)?;
    measured.set("rate", report.rate.mean);
    if is_generator_the_limit(&report) {
        measured.lower_bounds.push("rate".to_owned());
    }
    measured.warnings.extend(report.warnings);
    Ok(measured)
}

/// Section 5.3.1: exception handling.
pub(super) fn exception_handling(trial: &mut Trial<'_, '_>) -> Result<Measured, String> {
    // Without invalid messages, too, so that the proxy costs the same in all cells.
    let proxy = InvalidMessageProxy::start(trial.subject.target, trial.invalid)?;
    let mut measured = measure_all(trial, proxy.address())?;
    #[expect(clippy::cast_precision_loss, reason = "a number of messages")]
    measured.set("invalid_messages", proxy.inserted() as f64);
    Ok(measured)
}

/// Section 5.3.2: denial-of-service handling.
pub(super) fn denial_of_service(trial: &mut Trial<'_, '_>) -> Result<Measured, String> {
    let target = trial.subject.target;
    if trial.flood == 0 {
        return measure_all(trial, target);
    }
    let version = trial.subject.version;
    let attack = Beside { target, version, flood: trial.flood, churn: 0 };
    let (mut measured, counts) = attack.run_with(|| {
        trial.subject.controller.observe_for(ATTACK_LEAD, trial.is_interrupted);
        measure_all(trial, target)
    })?;
    if let Some(flood) = counts.flood {
        #[expect(clippy::cast_precision_loss, reason = "a number of connections")]
        measured.set("attack_connections", flood.established as f64);
        measured.set("attack_per_s", flood.established_per_s);
    }
    Ok(measured)
}
