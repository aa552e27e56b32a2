//! `sluice play`: a controller and a network in one process.

use std::io::{IsTerminal as _, stderr};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use tracing_subscriber::filter::LevelFilter;

use super::{Seen, Shape, ended, refused, watch};
use crate::config::{Flags, Inputs};
use crate::log::Logging;
use crate::{print_problems, run};

/// Starts the controller and a network of switches and hosts, in which every pair pings.
///
/// The options of `sluice run` are taken, too. Switches are accepted at a port of this machine that the system chooses,
/// unless --listen or a file says otherwise; no metrics are served.
#[derive(Debug, clap::Args)]
pub(crate) struct Play {
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    seen: Seen,
    #[command(flatten)]
    flags: Flags,
}

impl Play {
    /// Plays until it is told to stop.
    pub(crate) fn run(self) -> ExitCode {
        let Self { shape, seen, flags } = self;
        let network = match shape.network() {
            Ok(network) => network,
            Err(why) => return refused(&why),
        };
        let mut loaded = match Inputs::new(flags).load() {
            Ok(loaded) => loaded,
            Err(problems) => return print_problems(&problems),
        };
        if loaded.is_default("listen") {
            loaded.config.engine.listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
        }
        // Lines of the log would tear the screen.
        if seen.draws() && stderr().is_terminal() {
            loaded.config.log.level = LevelFilter::OFF;
        } else if loaded.is_default("log.level") {
            loaded.config.log.level = LevelFilter::WARN;
        }
        let start = || {
            let logging = Logging::start(loaded.config.log);
            let engine = run::engine(&loaded)?;
            let at = engine.addresses().first().copied().ok_or("nowhere to connect to")?;
            let apps = loaded.config.app_names.join(", ");
            let done = watch(at, &format!("controller {at}, apps: {apps}"), network, &seen);
            engine.stop();
            drop(logging);
            done
        };
        ended(start())
    }
}
