//! The service of systemd: whether it runs, and whether its socket units listen where the configuration says.

use std::io;
use std::net::SocketAddr;

use super::Privileges;
use super::report::Finding;
use crate::config::RunConfig;
use crate::passed_listeners::{API, OPENFLOW, OPENFLOW_TLS, is_same};

/// The unit of the Debian package, and a pattern for those of its sockets.
const SERVICE: &str = "sluice.service";
const SOCKETS: &str = "sluice*.socket";

/// Lines of the log of the service in which an error is looked for.
const LOG_LINES: &str = "200";

/// Runs a program of systemd with these arguments; returns its standard output, or standard error if it fails.
pub(super) type Systemd<'s> = &'s dyn Fn(&str, &[&str]) -> io::Result<Result<String, String>>;

/// The properties of a unit, as `systemctl show` prints them.
#[derive(Debug, Default)]
struct Unit(Vec<(String, String)>);

impl Unit {
    fn parse(text: &str) -> Self {
        let properties = text.lines().filter_map(|line| line.split_once('='));
        Self(properties.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// All values of a property that may be there several times.
    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The value of a property; empty if the unit has none.
    fn get(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }
}

/// Checks the service, and its socket units if the configuration is valid; nothing if it is not installed.
pub(super) fn check(
    systemd: Systemd<'_>,
    config: Option<&RunConfig>,
    user: Privileges,
) -> Vec<Finding> {
    let properties = "LoadState,ActiveState,SubState,Result,NRestarts";
    let services = show(systemd, SERVICE, properties);
    let Some(service) = services.first().filter(|unit| unit.get("LoadState") == "loaded") else {
        return vec![];
    };
    let mut findings = vec![state(systemd, service, user)];
    findings.extend(config.map(|config| sockets(systemd, config)).unwrap_or_default());
    findings
}

/// The units that `names` selects; none where systemd does not run.
fn show(systemd: Systemd<'_>, names: &str, properties: &str) -> Vec<Unit> {
    let output = systemd("systemctl", &["show", "--property", properties, "--", names]);
    let text = output.ok().and_then(Result::ok).unwrap_or_default();
    text.split("\n\n").filter(|unit| !unit.trim().is_empty()).map(Unit::parse).collect()
}

/// Whether the service runs, has failed, or is started again and again.
fn state(systemd: Systemd<'_>, service: &Unit, user: Privileges) -> Finding {
    const CHECK: &str = "service";
    let restarts: u64 = service.get("NRestarts").parse().unwrap_or(0);
    let result = service.get("Result");
    let failed = |how: String| {
        let error = match last_error(systemd) {
            Some(error) => format!(": {error}"),
            None if user == Privileges::User => "; its log: not checked: needs root".to_owned(),
            None => String::new(),
        };
        let advice = "`journalctl --unit sluice --lines 50` shows more";
        Finding::problem(CHECK, format!("{SERVICE} {how} (result: {result}){error}"), advice)
    };
    match (service.get("ActiveState"), restarts) {
        ("active" | "reloading", 0) => Finding::ok(CHECK, format!("{SERVICE} runs")),
        ("active" | "reloading", _) => Finding::warning(
            CHECK,
            format!("{SERVICE} runs, and systemd has restarted it {restarts} times after failures"),
            "`journalctl --unit sluice` shows why",
        ),
        ("failed", _) => failed("has failed".to_owned()),
        ("activating" | "deactivating", 1..) => {
            failed(format!("restarts in a loop, {restarts} times so far"))
        }
        (active, _) => {
            let sub = service.get("SubState");
            Finding::ok(CHECK, format!("{SERVICE} is {active} ({sub})"))
        }
    }
}

/// The last line of the log of the service that is about an error.
fn last_error(systemd: Systemd<'_>) -> Option<String> {
    let arguments =
        ["--unit", SERVICE, "--lines", LOG_LINES, "--output", "cat", "--no-pager", "--quiet"];
    let text = systemd("journalctl", &arguments).ok()?.ok()?;
    let is_error = |line: &&str| line.starts_with("error: ") || line.contains("ERROR");
    text.lines().rfind(is_error).map(str::to_owned)
}

/// Compares the listeners of the socket units with the configuration: with one at another address, the service does not start.
fn sockets(systemd: Systemd<'_>, config: &RunConfig) -> Vec<Finding> {
    const CHECK: &str = "socket units";
    let properties = "Id,ActiveState,UnitFileState,Triggers,FileDescriptorName,Listen";
    let mut units = show(systemd, SOCKETS, properties);
    units.retain(|unit| {
        let is_used = unit.get("ActiveState") == "active" || unit.get("UnitFileState") == "enabled";
        is_used && unit.get("Triggers").split_whitespace().any(|other| other == SERVICE)
    });
    let differing = |unit: &Unit| -> Vec<Finding> {
        let (id, name) = (unit.get("Id"), unit.get("FileDescriptorName"));
        // Such as `[::]:6653 (Stream)`.
        let addresses = unit.all("Listen").filter_map(|listen| listen.split_whitespace().next());
        let wrong = addresses.filter_map(|address| {
            let keys = key_without(name, address, config)?;
            Some(Finding::problem(
                CHECK,
                format!("{id} listens on {address}, which is not in {keys}: the service cannot start"),
                format!(
                    "set the same address in the configuration and with `systemctl edit {id}`; then `systemctl stop sluice`, \
                     `systemctl restart {id}`, `systemctl start sluice`"
                ),
            ))
        });
        wrong.collect()
    };
    let findings: Vec<_> = units.iter().flat_map(differing).collect();
    if findings.is_empty() && !units.is_empty() {
        let ids: Vec<_> = units.iter().map(|unit| unit.get("Id")).collect();
        let message = format!("{} listen where the configuration says", ids.join(", "));
        return vec![Finding::ok(CHECK, message)];
    }
    findings
}

/// The keys that should have an address of a socket with this name, and do not.
fn key_without(name: &str, address: &str, config: &RunConfig) -> Option<&'static str> {
    let is_path = address.starts_with('/');
    let (key, is_configured) = match name {
        OPENFLOW => ("listen", has(&config.engine.listen, address)),
        OPENFLOW_TLS => {
            let mut listeners = config.engine.tls.iter();
            let is_configured = listeners.any(|tls| has(&tls.listen, address));
            ("tls.listen or tls.listeners", is_configured)
        }
        API if is_path => {
            let socket = config.api.socket.as_deref();
            ("api.socket", socket.is_some_and(|path| path.as_os_str() == address))
        }
        API => ("api.listen", has(config.api.listen.as_slice(), address)),
        _ => ("any key: its FileDescriptorName must be openflow, openflow-tls or api", false),
    };
    (!is_configured).then_some(key)
}

/// Whether one of the addresses is that of a socket unit.
fn has(configured: &[SocketAddr], address: &str) -> bool {
    let Ok(address) = address.parse() else { return false };
    configured.iter().any(|it| is_same(*it, address))
}

#[cfg(test)]
mod tests {
    use super::super::report::Level;
    use super::*;
    use crate::config::{ConfigSources, Flags};

    /// What the programs of systemd print.
    struct Printed {
        service: &'static str,
        sockets: &'static str,
        log: &'static str,
    }

    const RUNNING: &str =
        "NRestarts=0\nResult=success\nLoadState=loaded\nActiveState=active\nSubState=running\n";

    const LOOP: &str = "NRestarts=17\nResult=exit-code\nLoadState=loaded\nActiveState=activating\nSubState=auto-restart\n";

    const SOCKET_UNITS: &str = "Listen=[::]:6653 (Stream)\nListen=[::]:6633 (Stream)\nFileDescriptorName=openflow\n\
        Id=sluice.socket\nTriggers=sluice.service\nActiveState=active\nUnitFileState=enabled\n\n\
        Listen=127.0.0.1:8653 (Stream)\nFileDescriptorName=api\n\
        Id=sluice-api.socket\nTriggers=sluice.service\nActiveState=active\nUnitFileState=enabled\n";

    /// Level and message of each finding, with a configuration that has this list of `listen`.
    fn found(printed: &Printed, listen: &[&str], user: Privileges) -> Vec<(Level, String)> {
        let flags = Flags { config: Some("/dev/null".into()), ..Flags::default() };
        let sources = ConfigSources { flags, ..ConfigSources::default() };
        let mut config = sources.load().unwrap().config;
        config.engine.listen = listen.iter().map(|it| it.parse().unwrap()).collect();
        let systemd = |program: &str, arguments: &[&str]| {
            Ok(Ok(match (program, arguments) {
                ("systemctl", [.., "sluice.service"]) => printed.service.to_owned(),
                ("systemctl", [.., "sluice*.socket"]) => printed.sockets.to_owned(),
                ("journalctl", _) => printed.log.to_owned(),
                other => panic!("{other:?}"),
            }))
        };
        let findings = check(&systemd, Some(&config), user);
        findings.into_iter().map(|it| (it.level, it.message)).collect()
    }

    const BOTH: [&str; 2] = ["[::]:6653", "[::]:6633"];

    #[test]
    fn a_service_that_listens_where_the_configuration_says_is_ok() {
        let printed = Printed { service: RUNNING, sockets: SOCKET_UNITS, log: "" };
        let expected = [
            (Level::Ok, "sluice.service runs".to_owned()),
            (
                Level::Ok,
                "sluice.socket, sluice-api.socket listen where the configuration says".to_owned(),
            ),
        ];
        assert_eq!(found(&printed, &BOTH, Privileges::Root), expected);
        // Without sockets, the service opens its listeners itself.
        let none = found(&Printed { sockets: "", ..printed }, &BOTH, Privileges::Root);
        assert_eq!(none, expected[..1]);
    }

    #[test]
    fn a_socket_unit_at_another_address_is_a_problem() {
        let printed = Printed { service: RUNNING, sockets: SOCKET_UNITS, log: "" };
        let found = found(&printed, &["10.0.0.1:6653", "[::]:6633"], Privileges::Root);
        let message =
            "sluice.socket listens on [::]:6653, which is not in listen: the service cannot start";
        assert_eq!(found[1..], [(Level::Problem, message.to_owned())]);
    }

    #[test]
    fn socket_units_that_are_not_used_are_not_compared() {
        let sockets = "Listen=[::]:1 (Stream)\nFileDescriptorName=openflow\nId=sluice.socket\n\
            Triggers=sluice.service\nActiveState=inactive\nUnitFileState=disabled\n\n\
            Listen=[::]:2 (Stream)\nFileDescriptorName=x\nId=sluice-x.socket\nTriggers=x.service\nActiveState=active\n";
        let printed = Printed { service: RUNNING, sockets, log: "" };
        assert_eq!(found(&printed, &BOTH, Privileges::Root).len(), 1);
    }

    #[test]
    fn a_service_that_restarts_in_a_loop_is_a_problem_with_its_last_error() {
        let log = "sluice 0.1.0\nerror: the first\nerror: the last\nsluice.service: Failed with result 'exit-code'.\n";
        let printed = Printed { service: LOOP, sockets: "", log };
        let start = "sluice.service restarts in a loop, 17 times so far (result: exit-code)";
        let expected = (Level::Problem, format!("{start}: error: the last"));
        assert_eq!(found(&printed, &BOTH, Privileges::Root), [expected]);
        let unreadable = found(&Printed { log: "", ..printed }, &BOTH, Privileges::User);
        let expected = (Level::Problem, format!("{start}; its log: not checked: needs root"));
        assert_eq!(unreadable, [expected]);
    }

    #[test]
    fn a_service_that_has_failed_before_or_is_not_installed_is_told_apart() {
        let state = |service| {
            let printed = Printed { service, sockets: "", log: "" };
            found(&printed, &BOTH, Privileges::Root)
        };
        let restarted = state("LoadState=loaded\nActiveState=active\nNRestarts=3\n");
        assert_eq!(restarted[0].0, Level::Warning, "{restarted:?}");
        let failed = state("LoadState=loaded\nActiveState=failed\nNRestarts=0\nResult=signal\n");
        assert_eq!(failed[0].0, Level::Problem, "{failed:?}");
        let stopped = state("LoadState=loaded\nActiveState=inactive\nSubState=dead\nNRestarts=0\n");
        assert_eq!(stopped[0].0, Level::Ok, "{stopped:?}");
        assert_eq!(state("LoadState=not-found\nActiveState=inactive\nNRestarts=0\n"), []);
    }
}
