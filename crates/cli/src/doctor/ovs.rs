//! The settings of Open vSwitch on this machine, as `ovs-vsctl` lists them.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;
use sluice_openflow::{Version, Versions};

use super::Privileges;
use super::machine::Root;
use super::report::Finding;

const CHECK: &str = "open vswitch";

/// Runs `ovs-vsctl` with these arguments; returns its standard output, or standard error if it fails.
pub(super) type Vsctl<'v> = &'v dyn Fn(&[&str]) -> io::Result<Result<String, String>>;

/// What the controller expects.
#[derive(Debug, Clone)]
pub(super) struct Expected {
    /// Where it listens without TLS and with TLS; `None` if its configuration is invalid.
    pub(super) listen: Option<(Vec<SocketAddr>, Vec<SocketAddr>)>,
    pub(super) versions: Versions,
}

/// A table of the database: a list of rows.
struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<Value>>,
}

/// A row of a table.
#[derive(Clone, Copy)]
struct Row<'t> {
    headings: &'t [String],
    cells: &'t [Value],
}

/// Checks all bridges.
pub(super) fn check(
    root: &Root,
    vsctl: Vsctl<'_>,
    expected: &Expected,
    user: Privileges,
) -> Vec<Finding> {
    let read = |table| read(vsctl, table, user);
    let tables = read("Bridge").and_then(|bridges| {
        let controllers = read("Controller")?;
        Ok((bridges, controllers, read("SSL")?))
    });
    let (bridges, controllers, ssl) = match tables {
        Ok(tables) => tables,
        Err(finding) => return vec![finding],
    };
    let mut findings = Vec::new();
    let mut uses_tls = false;
    for bridge in bridges.rows() {
        let name = bridge.text("name");
        let ids = bridge.set("controller");
        if ids.is_empty() {
            findings.push(Finding::warning(
                CHECK,
                format!("{name} has no controller: it forwards by itself"),
                format!(
                    "`ovs-vsctl set-controller {name} tcp:ADDRESS:PORT`, if Sluice is to control it"
                ),
            ));
            continue;
        }
        findings.extend(versions(&name, bridge, expected.versions));
        findings.push(fail_mode(&name, &bridge.text("fail_mode")));
        let of_bridge = controllers.rows().filter(|it| ids.contains(&it.uuid()));
        for controller in of_bridge {
            let target = controller.text("target");
            uses_tls |= target.starts_with("ssl:");
            // A connection shows that the target is right, whatever this configuration says.
            if !controller.is_true("is_connected") {
                findings.extend(target_of(&name, &target, expected));
            }
            findings.push(connection(&name, &target, controller));
            findings.extend(in_band(&name, &target, bridge, controller));
        }
    }
    if bridges.rows.is_empty() {
        findings.push(Finding::ok(CHECK, "has no bridges"));
    }
    if uses_tls {
        findings.extend(certificates(root, ssl.rows().next(), user));
    }
    findings
}

fn read(vsctl: Vsctl<'_>, table: &str, user: Privileges) -> Result<Table, Finding> {
    let output = match vsctl(&["--timeout=5", "--format=json", "list", table]) {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => {
            let error = error.lines().next().unwrap_or_default().to_owned();
            if user.is_denied(&error) {
                return Err(Finding::needs_root(CHECK, error));
            }
            let advice =
                "start Open vSwitch (`ovs-ctl start`, or `systemctl start openvswitch-switch`)";
            return Err(Finding::warning(CHECK, format!("does not answer: {error}"), advice));
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(Finding::ok(CHECK, "is not installed on this machine"));
        }
        Err(e) => {
            let message = format!("cannot run ovs-vsctl: {e}");
            return Err(Finding::warning(CHECK, message, "run `ovs-vsctl show` by hand"));
        }
    };
    Table::parse(&output).ok_or_else(|| {
        let message =
            format!("`ovs-vsctl --format=json list {table}` answers something unexpected");
        Finding::warning(CHECK, message, "check the version of Open vSwitch: 2.5 or later")
    })
}

/// The versions that the bridge allows, if it restricts them.
fn versions(bridge: &str, row: Row<'_>, offered: Versions) -> Option<Finding> {
    let names = row.set("protocols");
    let is_offered = |name: &String| version(name).is_some_and(|version| offered.contains(version));
    match names.iter().find(|name| is_offered(name)) {
        Some(_) => None,
        None if names.is_empty() => None,
        None => {
            let offered: Vec<_> = offered.iter().map(|version| version.to_string()).collect();
            Some(Finding::problem(
                CHECK,
                format!(
                    "{bridge} allows {} only, and the controller offers OpenFlow {}: they have no version in common",
                    names.join(", "),
                    offered.join(", ")
                ),
                format!(
                    "`ovs-vsctl set bridge {bridge} protocols=OpenFlow13`, or set session.versions"
                ),
            ))
        }
    }
}

/// The version with a name of Open vSwitch, such as `OpenFlow13`.
fn version(name: &str) -> Option<Version> {
    let digits = name.strip_prefix("OpenFlow")?;
    let (major, minor) = digits.split_at_checked(1)?;
    Version::from_text(&format!("{major}.{minor}"))
}

fn fail_mode(bridge: &str, mode: &str) -> Finding {
    if mode == "secure" {
        return Finding::ok(CHECK, format!("{bridge}: fail_mode is secure"));
    }
    Finding::warning(
        CHECK,
        format!(
            "{bridge}: fail_mode is standalone: without a controller it becomes a learning switch, which loops \
             frames if the network has cycles"
        ),
        format!("`ovs-vsctl set-fail-mode {bridge} secure`"),
    )
}

/// Where the bridge connects to, compared with where the controller listens.
fn target_of(bridge: &str, target: &str, expected: &Expected) -> Option<Finding> {
    let (method, address) = target.split_once(':')?;
    let (is_tls, port) = match method {
        "tcp" => (false, port_of(address)),
        "ssl" => (true, port_of(address)),
        _ => {
            let message = format!("{bridge}: {target} is not a connection to a controller on TCP");
            return Some(Finding::ok(CHECK, message));
        }
    };
    let (plain, tls) = expected.listen.as_ref()?;
    let host: IpAddr = address.trim_start_matches('[').split([']', ':']).next()?.parse().ok()?;
    // Elsewhere another configuration holds.
    if !host.to_canonical().is_loopback() {
        return None;
    }
    let (same, other) = if is_tls { (tls, plain) } else { (plain, tls) };
    let has = |addresses: &[SocketAddr]| addresses.iter().any(|it| it.port() == port);
    if has(same) {
        return None;
    }
    let (wrong, right) = if is_tls { ("ssl", "tcp") } else { ("tcp", "ssl") };
    if has(other) {
        return Some(Finding::problem(
            CHECK,
            format!(
                "{bridge}: {target} begins with {wrong}:, but the controller expects {right}: on port {port}"
            ),
            format!("`ovs-vsctl set-controller {bridge} {right}:{address}`"),
        ));
    }
    let ports: Vec<_> = same.iter().map(|it| it.port().to_string()).collect();
    let (message, advice) = match ports.first() {
        Some(first) => (
            format!(
                "{bridge}: {target}: the controller listens on port {}, not {port}",
                ports.join(" and ")
            ),
            format!(
                "`ovs-vsctl set-controller {bridge} {method}:{host}:{first}`, or add the port with --listen"
            ),
        ),
        None => (
            format!("{bridge}: {target}: the controller accepts no connections with {method}:"),
            format!(
                "`ovs-vsctl set-controller {bridge} {right}:{address}`, or configure `tls.listen` and `listen`"
            ),
        ),
    };
    Some(Finding::problem(CHECK, message, advice))
}

/// The port of `ADDRESS:PORT`; the one of OpenFlow if there is none.
fn port_of(address: &str) -> u16 {
    let port = match address.rsplit_once(']') {
        Some((_, rest)) => rest.strip_prefix(':'),
        None => address.rsplit_once(':').map(|(_, port)| port),
    };
    port.and_then(|port| port.parse().ok()).unwrap_or(6653)
}

/// Whether the bridge waits for connections there, as Mininet configures it for `ovs-ofctl`.
fn is_listener(target: &str) -> bool {
    target.starts_with("ptcp:") || target.starts_with("pssl:")
}

fn connection(bridge: &str, target: &str, row: Row<'_>) -> Finding {
    let status = row.map("status");
    let of =
        |name: &str| status.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    if row.is_true("is_connected") {
        let seconds = of("sec_since_connect").unwrap_or("0");
        return Finding::ok(CHECK, format!("{bridge}: connected to {target} for {seconds} s"));
    }
    if is_listener(target) {
        return Finding::ok(CHECK, format!("{bridge}: waits for connections at {target}"));
    }
    let Some(state) = of("state") else {
        return Finding::problem(
            CHECK,
            format!("{bridge}: has not tried to connect to {target}"),
            format!(
                "if the bridge was configured less than 5 s ago, run this again: Open vSwitch reports its connections at that \
                 interval; if the kernel has no Open vSwitch module (`modprobe openvswitch` fails), `ovs-vsctl set bridge \
                 {bridge} datapath_type=netdev`; otherwise see the log of ovs-vswitchd"
            ),
        );
    };
    let error = of("last_error").map(|error| format!(", last error: {error}")).unwrap_or_default();
    Finding::problem(
        CHECK,
        format!("{bridge}: not connected to {target} (state {state}{error})"),
        "start the controller; then compare address, port, firewall and certificates with docs/troubleshooting.md",
    )
}

/// In-band control adds hidden flow entries, unless the controller is on this machine.
fn in_band(bridge: &str, target: &str, row: Row<'_>, controller: Row<'_>) -> Option<Finding> {
    let address = target.split_once(':').map_or("", |(_, address)| address);
    let is_local = address.starts_with("127.") || address.starts_with("[::1]");
    let other_config = row.map("other_config");
    let is_disabled =
        other_config.iter().any(|it| *it == ("disable-in-band".into(), "true".into()));
    let is_out_of_band = controller.text("connection_mode") == "out-of-band";
    if is_local || is_disabled || is_out_of_band || is_listener(target) {
        return None;
    }
    Some(Finding::warning(
        CHECK,
        format!(
            "{bridge}: {target} is in-band: hidden flow entries let ARP and the control connection through, before \
             those of the controller"
        ),
        format!(
            "if the controller is reached by another network: `ovs-vsctl set bridge {bridge} \
             other_config:disable-in-band=true`"
        ),
    ))
}

/// The files of the certificate that Open vSwitch presents.
fn certificates(root: &Root, ssl: Option<Row<'_>>, user: Privileges) -> Vec<Finding> {
    let advice = "`ovs-vsctl set-ssl KEY CERTIFICATE AUTHORITY` with the files of `sluice pki issue` (docs/tls.md)";
    let Some(ssl) = ssl else {
        let message = "a bridge connects with ssl:, but no certificate is set";
        return vec![Finding::problem(CHECK, message, advice)];
    };
    let columns = ["private_key", "certificate", "ca_cert"];
    let missing: Vec<_> = columns
        .iter()
        .map(|column| (column, ssl.text(column)))
        .filter_map(|(column, path)| match fs::metadata(root.path(&path)) {
            Ok(metadata) if metadata.is_file() => None,
            Err(error) if user.is_denied(&error.to_string()) => {
                let what = format!("{column} of ovs-vsctl get-ssl is {path:?}");
                Some(Finding::needs_root(CHECK, what))
            }
            _ => {
                let message = format!("{column} of ovs-vsctl get-ssl: there is no file {path:?}");
                Some(Finding::problem(CHECK, message, advice))
            }
        })
        .collect();
    if missing.is_empty() {
        return vec![Finding::ok(CHECK, "key, certificate and authority for ssl: are there")];
    }
    missing
}

impl Table {
    fn parse(text: &str) -> Option<Self> {
        // No rows at all are an empty output in some versions.
        if text.trim().is_empty() {
            return Some(Self { headings: vec![], rows: vec![] });
        }
        let value: Value = serde_json::from_str(text).ok()?;
        let headings = value.get("headings")?.as_array()?.iter();
        let headings =
            headings.map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?;
        let rows = value.get("data")?.as_array()?.iter();
        let rows = rows.map(|row| row.as_array().cloned()).collect::<Option<_>>()?;
        Some(Self { headings, rows })
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|cells| Row { headings: &self.headings, cells })
    }
}

/// Values are those of RFC 7047 §5.1: atoms, `["set", [...]]`, `["map", [[key, value], ...]]`, `["uuid", "..."]`.
impl<'t> Row<'t> {
    fn cell(self, column: &str) -> Option<&'t Value> {
        let at = self.headings.iter().position(|heading| heading == column)?;
        self.cells.get(at)
    }

    /// A text; empty if it is not set.
    fn text(self, column: &str) -> String {
        self.cell(column).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    fn is_true(self, column: &str) -> bool {
        self.cell(column).and_then(Value::as_bool) == Some(true)
    }

    fn uuid(self) -> String {
        self.cell("_uuid").and_then(atom).unwrap_or_default()
    }

    /// The atoms of a set, or the only one.
    fn set(self, column: &str) -> Vec<String> {
        let Some(cell) = self.cell(column) else { return vec![] };
        match tagged(cell, "set") {
            Some(Value::Array(items)) => items.iter().filter_map(atom).collect(),
            _ => atom(cell).into_iter().collect(),
        }
    }

    fn map(self, column: &str) -> Vec<(String, String)> {
        let entries =
            self.cell(column).and_then(|cell| tagged(cell, "map")).and_then(Value::as_array);
        let pair = |entry: &Value| Some((atom(entry.get(0)?)?, atom(entry.get(1)?)?));
        entries.into_iter().flatten().filter_map(pair).collect()
    }
}

/// What follows the tag.
fn tagged<'v>(value: &'v Value, tag: &str) -> Option<&'v Value> {
    value.get(0).filter(|first| first.as_str() == Some(tag)).and_then(|_| value.get(1))
}

fn atom(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Array(_) => tagged(value, "uuid").and_then(Value::as_str).map(str::to_owned),
        _ => None,
    }
}
