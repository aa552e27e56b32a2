//! The start of an emulated network.

use std::time::Duration;

use sluice_emu::live::{LiveNetwork, StartupTest};
use sluice_emu::net::NetworkOptions;
use sluice_emu::topology::Topology;
use sluice_io::clock;
use sluice_openflow::Version;

use super::control_link::{self, ControlLink, link_command};
use super::{Measured, Subject, resolve_network};
use crate::definition::{Cell, StartupSettings};
use crate::network::{RECONNECT_DELAY, switch_config};

/// Interval at which the use of resources is read.
const OBSERVE_INTERVAL: Duration = Duration::from_millis(100);

/// The settings of a cell.
pub(super) fn resolve(settings: &StartupSettings, cell: &Cell) -> StartupSettings {
    let mut resolved = settings.clone();
    resolve_network(&mut resolved.topology, &mut resolved.link, cell);
    resolved
}

/// The command line of the same measurement.
pub(super) fn command(settings: &StartupSettings, version: Version) -> String {
    let controller = if settings.link.is_ideal() {
        String::new()
    } else {
        format!(" --controller localhost:{}", control_link::PORT)
    };
    let link = link_command(&settings.link);
    format!(
        "{link}sluice emu --topo {} --protocols {version} --start{controller}",
        settings.topology
    )
}

/// Starts the network and waits until every host has reached another.
pub(super) fn measure(
    settings: &StartupSettings,
    cell: &Cell,
    subject: &mut Subject<'_>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Measured, String> {
    let settings = resolve(settings, cell);
    let topology = Topology::from_text(&settings.topology).map_err(|error| error.to_string())?;
    let link = ControlLink::open(&settings.link, subject.target)?;
    let options = NetworkOptions {
        switch: switch_config(subject.version),
        reconnect_delay: RECONNECT_DELAY,
        ..NetworkOptions::default()
    };
    let network = LiveNetwork::connect(link.target(), topology, &options)
        .map_err(|error| error.to_string())?;
    let mut test = StartupTest::new(network).map_err(|error| error.to_string())?;
    let start = clock::now();
    let timeout = Duration::try_from_secs_f64(settings.timeout_s).unwrap_or_default();
    while !test.progress().is_complete() {
        let now = test
            .run_once(clock::now() + OBSERVE_INTERVAL)
            .map_err(|error| format!("the emulated network failed: {error}"))?;
        subject.controller.observe();
        if now - start > timeout || is_interrupted() {
            break;
        }
    }
    let progress = test.progress();
    let mut measured = Measured::default();
    let limit = timeout.as_secs_f64();
    let times = [
        ("connected_s", progress.all_connected),
        ("half_reached_s", progress.half()),
        ("all_reached_s", progress.all()),
    ];
    for (name, time) in times {
        measured.set(name, time.map_or(limit, |time| time.as_secs_f64()));
        if time.is_none() {
            measured.lower_bounds.push(name.to_owned());
        }
    }
    if progress.first_replies.is_empty() {
        return Err(format!("no host reached another within {limit} s"));
    }
    Ok(measured)
}
