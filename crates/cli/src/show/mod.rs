//! `sluice show`: the network of a running controller, from its API.

mod flows;
mod paths;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::api_client::{ApiArgs, of_switch, parse_answer};
use crate::show_events::{EventArgs, utc};
use crate::watch::{self, WatchInterval};
use crate::write_stdout;

/// The owner of a flow entry that another program has written.
const FOREIGN: &str = "foreign";

/// Between two columns.
const GAP: &str = "  ";

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) api: ApiArgs,
    /// Show it again every two seconds, or as often as is said, until Ctrl-C
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        global = true
    )]
    watch: Option<WatchInterval>,
    /// Print the JSON of the API instead of a table.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The connected switches
    Switches,
    /// The ports of a switch, and what they are connected to
    Ports(SwitchArg),
    /// The links between switches, each direction on its own
    Links,
    /// The links that are taken out of service, and what still uses them
    Drains,
    /// The hosts, and where they are attached
    Hosts(HostArgs),
    /// The hosts in quarantine, since when and why
    Quarantines,
    /// What has happened: switches, ports, links, hosts, the newest last
    Events(EventArgs),
    /// The applications, in the order of the chain; with --json, their settings and metrics
    #[command(visible_alias = "applications")]
    Apps,
    /// The limits of the configuration, and what is in use
    Limits,
    /// The flow entries of a switch, read from it now, in the syntax of ovs-ofctl, with their owners and counters as comments
    Flows(FlowArgs),
    /// The groups of a switch, read from it now, as JSON
    Groups(SwitchArg),
    /// The meters of a switch, read from it now, as JSON
    Meters(SwitchArg),
    /// The paths between two hosts: as the flow tables are now, and the shortest ones
    Paths(PathArgs),
}

#[derive(Debug, Args)]
struct PathArgs {
    /// IP or Ethernet address of the host that sends
    from: String,
    /// IP or Ethernet address of the other host
    to: String,
}

#[derive(Debug, Args)]
struct SwitchArg {
    /// Name or datapath id of the switch
    switch: String,
}

#[derive(Debug, Args)]
struct HostArgs {
    /// Only hosts at this switch, by name or datapath id
    #[arg(long)]
    switch: Option<String>,
    /// Only hosts with this IP address
    #[arg(long)]
    ip: Option<String>,
    /// Only hosts with this Ethernet address
    #[arg(long)]
    mac: Option<String>,
}

#[derive(Debug, Args)]
struct FlowArgs {
    #[command(flatten)]
    switch: SwitchArg,
    /// Only flow entries of this table
    #[arg(long)]
    table: Option<u8>,
}

/// A column: its title, and the place of its value in an item.
type Column = (&'static str, &'static str);

const SWITCH_COLUMNS: &[Column] = &[
    ("DPID", "/dpid"),
    ("NAME", "/name"),
    ("OPENFLOW", "/openflow"),
    ("ADDRESS", "/address"),
    ("PORTS", "/ports"),
    ("PACKET-INS", "/session/packet_ins_received"),
];

const PORT_COLUMNS: &[Column] = &[
    ("PORT", "/port"),
    ("NAME", "/name"),
    ("UP", "/is_up"),
    ("ROLE", "/role"),
    ("HOSTS", "/hosts"),
    ("PEER", "/peer/dpid"),
    ("SWITCH", "/peer/switch"),
    ("PORT", "/peer/port"),
    ("NAME", "/peer/port_name"),
    ("RX-BIT/S", "/rates/rx_bits_per_s"),
    ("TX-BIT/S", "/rates/tx_bits_per_s"),
    ("RX-PACKETS", "/statistics/rx_packets"),
    ("TX-PACKETS", "/statistics/tx_packets"),
    ("RX-DROPPED", "/statistics/rx_dropped"),
    ("TX-DROPPED", "/statistics/tx_dropped"),
];

const LINK_COLUMNS: &[Column] = &[
    ("FROM", "/from/dpid"),
    ("PORT", "/from/port"),
    ("NAME", "/from/port_name"),
    ("TO", "/to/dpid"),
    ("PORT", "/to/port"),
    ("NAME", "/to/port_name"),
    ("SWITCHES", "/switches"),
    ("DRAINED", "/is_drained"),
];

const DRAIN_COLUMNS: &[Column] = &[
    ("STATE", "/state"),
    ("UP", "/is_up"),
    ("DPID", "/ends/0/at/dpid"),
    ("SWITCH", "/ends/0/at/switch"),
    ("PORT", "/ends/0/at/port"),
    ("ENTRIES", "/ends/0/progress/entries"),
    ("QUIET", "/ends/0/progress/is_quiet"),
    ("DPID", "/ends/1/at/dpid"),
    ("SWITCH", "/ends/1/at/switch"),
    ("PORT", "/ends/1/at/port"),
    ("ENTRIES", "/ends/1/progress/entries"),
    ("QUIET", "/ends/1/progress/is_quiet"),
];

const APPLICATION_COLUMNS: &[Column] = &[("NAME", "/name"), ("SETTINGS", "/settings")];

const LIMIT_COLUMNS: &[Column] =
    &[("LIMIT", "/name"), ("VALUE", "/value"), ("IN USE", "/in_use"), ("MEANING", "/help")];

const HOST_COLUMNS: &[Column] = &[
    ("MAC", "/mac"),
    ("VLAN", "/vlan"),
    ("DPID", "/at/dpid"),
    ("SWITCH", "/at/switch"),
    ("PORT", "/at/port"),
    ("NAME", "/at/port_name"),
    ("ADDRESSES", "/addresses"),
    ("HOST", "/name"),
    ("QUARANTINED", "/is_quarantined"),
];

const QUARANTINE_COLUMNS: &[Column] = &[
    ("MAC", "/mac"),
    ("HOST", "/name"),
    ("ADDRESSES", "/addresses"),
    ("DPID", "/at/dpid"),
    ("SWITCH", "/at/switch"),
    ("PORT", "/at/port"),
    ("STATE", "/state"),
    ("SINCE", "/since"),
    ("BY", "/by"),
    ("REASON", "/reason"),
];

impl ShowArgs {
    /// Prints it.
    pub(crate) fn run(&self) -> Result<(), String> {
        match &self.what {
            What::Events(_) if self.watch.is_some() => {
                Err("events are shown as they happen by --follow, not by --watch".to_owned())
            }
            What::Events(events) => events.run(&self.api, self.json),
            _ => match self.watch {
                Some(interval) => watch::show_repeatedly(interval, || self.text()),
                None => write_stdout(&self.text()?),
            },
        }
    }

    /// What is to be printed.
    fn text(&self) -> Result<String, String> {
        match &self.what {
            What::Events(_) => Ok(String::new()),
            What::Switches => self.list("/v1/switches", &[], "switches", SWITCH_COLUMNS),
            What::Ports(at) => {
                self.list(&of_switch(&at.switch, "ports"), &[], "ports", PORT_COLUMNS)
            }
            What::Apps => self.list("/v1/applications", &[], "applications", APPLICATION_COLUMNS),
            What::Limits => self.list("/v1/limits", &[], "limits", LIMIT_COLUMNS),
            What::Links => self.list_of("/v1/links", &[], "links", LINK_COLUMNS, add_switches),
            What::Drains => self.list("/v1/drains", &[], "drains", DRAIN_COLUMNS),
            What::Hosts(HostArgs { switch, ip, mac }) => {
                let query = [("switch", switch), ("ip", ip), ("mac", mac)];
                let query: Vec<_> =
                    query.iter().filter_map(|(key, it)| Some((*key, it.as_deref()?))).collect();
                self.list("/v1/hosts", &query, "hosts", HOST_COLUMNS)
            }
            What::Quarantines => {
                let (path, list) = ("/v1/quarantines", "quarantines");
                self.list_of(path, &[], list, QUARANTINE_COLUMNS, add_since)
            }
            What::Flows(FlowArgs { switch, table }) => {
                let table = table.map(|table| table.to_string());
                let query: Vec<_> = table.iter().map(|it| ("table", it.as_str())).collect();
                let path = of_switch(&switch.switch, "flows");
                let body = self.get(&path, &query)?;
                if self.json {
                    return Ok(with_newline(body));
                }
                Ok(flows::text(&parse_answer(&path, &body)?, flows::Layout::of_stdout()))
            }
            What::Groups(at) => self.get(&of_switch(&at.switch, "groups"), &[]).map(with_newline),
            What::Paths(PathArgs { from, to }) => {
                let body = self.get("/v1/paths", &[("from", from), ("to", to)])?;
                if self.json {
                    return Ok(with_newline(body));
                }
                Ok(paths::text(&parse_answer("/v1/paths", &body)?))
            }
            What::Meters(at) => self.get(&of_switch(&at.switch, "meters"), &[]).map(with_newline),
        }
    }

    /// The items of a list as a table, or the JSON.
    fn list(
        &self,
        path: &str,
        query: &[(&str, &str)],
        list: &str,
        columns: &[Column],
    ) -> Result<String, String> {
        self.list_of(path, query, list, columns, |_| {})
    }

    /// The items of a list as a table, after each was completed, or the JSON.
    fn list_of(
        &self,
        path: &str,
        query: &[(&str, &str)],
        list: &str,
        columns: &[Column],
        complete: impl Fn(&mut Value),
    ) -> Result<String, String> {
        let body = self.get(path, query)?;
        if self.json {
            return Ok(with_newline(body));
        }
        let mut document = parse_answer(path, &body)?;
        let items = document.get_mut(list).and_then(Value::as_array_mut);
        let items = items.map(Vec::as_mut_slice).unwrap_or_default();
        items.iter_mut().for_each(complete);
        Ok(table(items, columns))
    }

    fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<String, String> {
        Ok(self.api.client()?.get(path, query)?)
    }
}

/// The time at which a quarantine has begun, for people.
fn add_since(quarantine: &mut Value) {
    let since = quarantine.get("since_unix_s").and_then(Value::as_f64).map(utc);
    if let Some(fields) = quarantine.as_object_mut() {
        fields.insert("since".to_owned(), since.into());
    }
}

/// The names of the switches at both ends of a link.
fn add_switches(link: &mut Value) {
    let name = |at: &str| link.pointer(at).and_then(Value::as_str);
    let (from, to) = (name("/from/switch"), name("/to/switch"));
    let switches = (from.is_some() || to.is_some())
        .then(|| format!("{} -> {}", from.unwrap_or("-"), to.unwrap_or("-")));
    if let Some(fields) = link.as_object_mut() {
        fields.insert("switches".to_owned(), switches.into());
    }
}

fn with_newline(text: String) -> String {
    text + "\n"
}

/// Rows with aligned columns below their titles.
pub(crate) fn table(items: &[Value], columns: &[Column]) -> String {
    let titles = columns.iter().map(|(title, _)| (*title).to_owned()).collect();
    let row = |item: &Value| columns.iter().map(|(_, at)| cell(item.pointer(at))).collect();
    let rows: Vec<Vec<String>> = std::iter::once(titles).chain(items.iter().map(row)).collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|it| it.chars().count()).max()
    };
    let widths: Vec<_> = (0..columns.len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// What a switch or another program has chosen, in one line, without characters that control the terminal.
pub(crate) fn printable(text: &str) -> String {
    let printable = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(printable).collect()
}

/// The owner of a flow entry: `static entry NAME`, the application that has written it, or `foreign` if Sluice has not.
pub(crate) fn owner(entry: &Value) -> String {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).map(printable);
    let static_entry = text("static_entry").map(|name| format!("static entry {name}"));
    static_entry.or_else(|| text("owner")).unwrap_or_else(|| FOREIGN.to_owned())
}

/// A value for people.
fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => printable(text),
        Some(Value::Bool(is)) => if *is { "yes" } else { "no" }.to_owned(),
        Some(Value::Array(items)) if items.is_empty() => "-".to_owned(),
        Some(Value::Array(items)) => {
            items.iter().map(|item| cell(Some(item))).collect::<Vec<_>>().join(", ")
        }
        Some(Value::Object(items)) if items.is_empty() => "-".to_owned(),
        Some(Value::Object(items)) => {
            let items = items.iter().map(|(key, item)| format!("{key}={}", cell(Some(item))));
            items.collect::<Vec<_>>().join(" ")
        }
        // A rate.
        Some(Value::Number(number)) if number.is_f64() => {
            format!("{:.0}", number.as_f64().unwrap_or_default())
        }
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_aligned_and_missing_values_are_dashes() {
        let items =
            [json!({"a": "long text", "b": [1, "x"]}), json!({"a": null, "b": [], "c": true})];
        let text = table(&items, &[("A", "/a"), ("B", "/b"), ("C", "/c")]);
        assert_eq!(text, "A          B     C\nlong text  1, x  -\n-          -     yes\n");
    }

    #[test]
    fn lists_have_the_names_of_switches_and_hosts() {
        let at = |dpid: &str, name: Option<&str>| json!({"dpid": dpid, "switch": name, "port": 1});
        let mut link = json!({"from": at("01", Some("core")), "to": at("02", None)});
        add_switches(&mut link);
        assert_eq!(link["switches"], "core -> -");
        let mut unnamed = json!({"from": at("01", None), "to": at("02", None)});
        add_switches(&mut unnamed);
        assert_eq!(unnamed["switches"], Value::Null);
        let (peer, ends) = (at("02", Some("peer")), [at("01", Some("a")), at("02", Some("b"))]);
        let ends = ends.map(|at| json!({ "at": at }));
        for (columns, item, names) in [
            (LINK_COLUMNS, link, &["core -> -"][..]),
            (PORT_COLUMNS, json!({ "peer": peer }), &["peer"]),
            (
                HOST_COLUMNS,
                json!({"name": "printer", "at": at("01", Some("core"))}),
                &["core", "printer"],
            ),
            (
                QUARANTINE_COLUMNS,
                json!({"name": "printer", "at": at("01", Some("core"))}),
                &["core", "printer"],
            ),
            (DRAIN_COLUMNS, json!({ "ends": ends }), &["  a  ", "  b  "]),
        ] {
            let text = table(&[item], columns);
            assert!(names.iter().all(|name| text.contains(name)), "{text}");
        }
    }

    #[test]
    fn names_of_switches_do_not_control_the_terminal() {
        assert_eq!(
            table(&[json!("\u{1b}[2J\n\u{9b}x")], &[("A", "")]),
            "A\n\u{fffd}[2J \u{fffd}x\n"
        );
    }
}
