//! `sluice doctor`: checks what a controller on this machine needs, and says what to do about what is wrong.
//!
//! The checks read from a folder, commands and an HTTP client that they are given, so that tests give them others.

mod controller;
mod machine;
mod ovs;
mod ports;
mod report;
mod service;
mod state;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use sluice_io::{clock, command};
use sluice_openflow::Versions;

use crate::api_client::ApiClient;
use crate::config::{ConfigError, ConfigSources, Flags, LoadedConfig};
use crate::system_user::SystemUser;
use crate::{EXIT_FAILURE, Registry, write_stdout};
use machine::Root;
use ovs::Expected;
use report::{Finding, Report};

/// How long the API may take to answer.
const API_TIMEOUT: Duration = Duration::from_secs(5);

/// How long `ovs-vsctl` may take; it gives up by itself before.
const VSCTL_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a command of systemd may take.
const SYSTEMD_TIMEOUT: Duration = Duration::from_secs(15);

/// Checks the machine, the configuration, the service, the running controller and Open vSwitch.
///
/// All options of `sluice run` are accepted: the check is for a controller that is started with them.
#[derive(Debug, clap::Args)]
#[command(after_help = "The exit code is 1 if there is a problem; warnings do not change it.")]
pub(crate) struct DoctorArgs {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: Flags,
}

impl DoctorArgs {
    pub(crate) fn run(self, registry: Registry) -> ExitCode {
        let loaded = ConfigSources::new(self.flags, registry).load();
        let inputs = Inputs {
            root: Root("/".into()),
            vsctl: &run_vsctl,
            systemd: &run_systemd,
            get: &get,
            now: clock::since_epoch(),
            user: Privileges::of_process(),
        };
        let report = Report::new(check(&inputs, loaded));
        let text = if self.json { report.json() } else { report.text() };
        match write_stdout(&text) {
            Ok(()) if !report.has_problems() => ExitCode::SUCCESS,
            Ok(()) => ExitCode::from(EXIT_FAILURE),
            Err(error) => crate::exit_code(Err(error)),
        }
    }
}

/// What the checks read.
struct Inputs<'i> {
    root: Root,
    vsctl: ovs::Vsctl<'i>,
    systemd: service::Systemd<'i>,
    get: controller::Get<'i>,
    /// Since 1970.
    now: Duration,
    user: Privileges,
}

/// Whether the checks run as root: others do not see everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Privileges {
    Root,
    User,
}

impl Privileges {
    fn of_process() -> Self {
        let user = SystemUser::of_process("/".as_ref());
        if user.is_none_or(|user| user.is_root()) { Self::Root } else { Self::User }
    }

    /// Whether an error is one that root would not have.
    fn is_denied(self, error: &str) -> bool {
        self == Self::User && error.to_lowercase().contains("permission denied")
    }
}

/// All checks, in the order in which a reader wants them.
fn check(inputs: &Inputs<'_>, loaded: Result<LoadedConfig, Vec<ConfigError>>) -> Vec<Finding> {
    let user = inputs.user;
    let mut findings = configuration(&loaded, user);
    let loaded = loaded.ok();
    findings.extend(machine::check(&inputs.root, loaded.as_ref(), inputs.now, user));
    let config = loaded.as_ref().map(|loaded| &loaded.config);
    findings.extend(service::check(inputs.systemd, config, user));
    if let Some(config) = config {
        findings.extend(state::check(&inputs.root, &config.state_dir, user));
        findings.extend(ports::check(&inputs.root, &addresses(config), user));
        findings.extend(match config.api.listen {
            Some(address) if config.api.access.tls.is_some() => {
                let message = format!(
                    "the API at {address} has TLS: ask it with `sluice show switches --api https://NAME:PORT`"
                );
                vec![Finding::ok("controller", message)]
            }
            listen => controller::check(inputs.get, listen),
        });
    }
    let listen = config.map(|config| {
        let tls = config.engine.tls.iter().flat_map(|tls| &tls.listen);
        (config.engine.listen.clone(), tls.copied().collect())
    });
    let versions = config.map_or_else(all_versions, |config| config.engine.session.versions);
    let expected = Expected { listen, versions };
    findings.extend(ovs::check(&inputs.root, inputs.vsctl, &expected, user));
    findings
}

fn all_versions() -> Versions {
    Versions::SUPPORTED
}

fn configuration(
    loaded: &Result<LoadedConfig, Vec<ConfigError>>,
    user: Privileges,
) -> Vec<Finding> {
    match loaded {
        Ok(LoadedConfig { file: Some(file), .. }) => {
            vec![Finding::ok("configuration", format!("{} is valid", file.display()))]
        }
        Ok(_) => vec![Finding::ok("configuration", "no file, so the defaults are used")],
        Err(errors) => {
            let finding = |error: &ConfigError| {
                if user.is_denied(&error.to_string()) {
                    return Finding::needs_root("configuration", error);
                }
                let advice = "correct it; `sluice config example` shows all keys. Ports and the running controller are \
                              not checked until then";
                Finding::problem("configuration", error.to_string(), advice)
            };
            errors.iter().map(finding).collect()
        }
    }
}

/// The addresses on which the controller listens, with their keys.
fn addresses(config: &crate::config::RunConfig) -> Vec<(&'static str, SocketAddr)> {
    let plain = config.engine.listen.iter().map(|address| ("listen", *address));
    let tls = config.engine.tls.iter().flat_map(|tls| &tls.listen);
    let tls = tls.map(|address| ("tls.listen", *address));
    plain.chain(tls).chain(config.api.listen.map(|address| ("api.listen", address))).collect()
}

fn run_vsctl(arguments: &[&str]) -> std::io::Result<Result<String, String>> {
    let output = command::output("ovs-vsctl", arguments, VSCTL_TIMEOUT)?;
    Ok(if output.is_success { Ok(output.stdout) } else { Err(output.stderr) })
}

fn run_systemd(program: &str, arguments: &[&str]) -> std::io::Result<Result<String, String>> {
    let output = command::output(program, arguments, SYSTEMD_TIMEOUT)?;
    Ok(if output.is_success { Ok(output.stdout) } else { Err(output.stderr) })
}

fn get(address: SocketAddr, path: &str) -> Result<String, String> {
    ApiClient::at(address, API_TIMEOUT).get(path, &[]).map_err(|failure| failure.message)
}
