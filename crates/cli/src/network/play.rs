//! `sluice play`: a controller and an emulated network in one process.

use std::io::{IsTerminal as _, stderr};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use sluice_emu::topology::Topology;
use tracing_subscriber::filter::LevelFilter;

use super::{NetworkArgs, OutputArgs, emulate, exit_code, usage_error};
use crate::Registry;
use crate::config::{ConfigSources, Flags};
use crate::log::Logging;
use crate::{print, print_config_errors, run};

const EXAMPLES: &str = "\
Examples:
  sluice play                                   A tree of 4 switches with 9 hosts
  sluice play --topo ring,5 --link-delay 5ms    A ring, with a delay of 5 ms on every link
  sluice play --topo tree,2,3 --app learning    The application `learning` instead of the default ones

`hub` and `learning` flood into loops: use them with `tree`, `linear` or `single`, since a broadcast storm ends the
emulation with an error.

docs/emu.md describes topologies, keys and output.";

/// Run the controller and an emulated network together
///
/// Starts the controller and an emulated network of switches and hosts in one process; every host pings every other host,
/// round after round. Keys: q quit, arrow keys select a link, l cut or restore it. Needs no privileges.
///
/// All options of `sluice run` are accepted, except those of the API, which is not served, and neither are metrics. Unless
/// --listen or a configuration file sets an address, the controller listens on a free port of this machine.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlayArgs {
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    flags: Flags,
}

impl PlayArgs {
    /// Runs controller and network until they are stopped.
    pub(crate) fn run(self, registry: &Registry) -> ExitCode {
        let Self { network, output, flags } = self;
        let network = match network.network() {
            Ok(network) => network,
            Err(error) => return usage_error(&error),
        };
        if let Some(error) = api_option_error(&flags) {
            return usage_error(&error);
        }
        let mut loaded = match ConfigSources::new(flags, registry.clone()).load() {
            Ok(loaded) => loaded,
            Err(errors) => return print_config_errors(&errors),
        };
        if loaded.is_default("listen") {
            loaded.config.engine.listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
        }
        // Log lines would corrupt the full-screen display.
        if output.is_full_screen() && stderr().is_terminal() {
            loaded.config.log.level = LevelFilter::OFF;
        } else if loaded.is_default("log.level") {
            loaded.config.log.level = LevelFilter::WARN;
        }
        let start = || {
            let logging = Logging::start(loaded.config.log);
            let engine = run::engine(registry, &loaded)?;
            let address = engine.addresses().first();
            let address = *address.ok_or("the controller listens on no address")?;
            let apps = &loaded.config.app_names;
            if let Some(warning) = storm_warning(&network.0, apps) {
                print(&warning);
            }
            let title = format!("controller {address}, apps: {}", apps.join(", "));
            let result = emulate(address, &title, network, &output);
            engine.stop();
            drop(logging);
            result
        };
        exit_code(start())
    }
}

/// An error if an option is given for the API, which is not served. `--no-api` is none: it says what is the case.
fn api_option_error(flags: &Flags) -> Option<String> {
    let is_of_api = |name: &str| name == "api" || name.starts_with("api-");
    let given = flags.given.iter().find(|flag| is_of_api(flag.name))?;
    Some(format!(
        "--{}: `sluice play` serves no API; start `sluice run` and `sluice emu` in two terminals instead",
        given.name
    ))
}

/// A warning if the applications flood and the topology has loops.
fn storm_warning(topology: &Topology, apps: &[String]) -> Option<String> {
    let has = |name: &str| apps.iter().any(|app| app == name);
    let app = if has("hub") {
        "hub"
    } else if has("learning") {
        "learning"
    } else {
        return None;
    };
    topology.has_loops().then(|| {
        format!(
            "warning: this topology has loops and `{app}` floods into them: a broadcast storm may end the emulation \
             (choose a topology without loops, such as tree,2,3, or the default applications)\n"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_that_flood_into_loops_cause_a_warning() {
        let warning = |shape: &str, apps: &[&str]| {
            let apps: Vec<_> = apps.iter().map(|&app| app.to_owned()).collect();
            storm_warning(&Topology::from_text(shape).unwrap(), &apps)
        };
        assert!(warning("leafspine,2,4,2", &["hub"]).unwrap().contains("`hub` floods"));
        assert!(warning("ring,4", &["learning"]).unwrap().contains("`learning` floods"));
        assert!(
            warning("ring,4", &["topology", "learning"]).unwrap().contains("`learning` floods")
        );
        assert_eq!(warning("ring,4", &["topology", "hosts", "forwarding"]), None);
        assert_eq!(warning("tree,2,3", &["hub"]), None);
    }
}
