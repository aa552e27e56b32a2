//! `sluice show`: the network of a running controller, from its API.

mod flows;
mod groups;
mod paths;
mod table;

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::api_client::{ApiArgs, of_switch, parse_answer};
use crate::show_events::EventArgs;
use crate::top::ambiguous_names;
use crate::watch::{self, WatchInterval};
use crate::write_stdout;

pub(crate) use table::{Column, table};

/// The owner of a flow entry that another program has written.
const FOREIGN: &str = "foreign";

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
    Ports(PortsArgs),
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
    Limits(WideArg),
    /// The flow entries of a switch, read from it now, in the syntax of ovs-ofctl, with their owners and counters as comments
    Flows(FlowArgs),
    /// The groups of a switch, read from it now, in the syntax of ovs-ofctl, with their counters as comments
    Groups(SwitchArg),
    /// The meters of a switch, read from it now, in the syntax of ovs-ofctl, with their counters as comments
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
struct PortsArgs {
    #[command(flatten)]
    switch: SwitchArg,
    #[command(flatten)]
    wide: WideArg,
}

#[derive(Debug, Args)]
struct WideArg {
    /// Print all columns, also those that do not fit 80 characters
    #[arg(long)]
    wide: bool,
}

impl WideArg {
    fn of(&self, columns: &[Column], more: &[Column]) -> Vec<Column> {
        let more = if self.wide { more } else { &[] };
        columns.iter().chain(more).copied().collect()
    }
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
    /// Only flow entries of this owner: forwarding, static and so on, or foreign for those of other programs
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Only flow entries with this cookie
    #[arg(long, value_name = "VALUE[/MASK]")]
    cookie: Option<String>,
}

impl FlowArgs {
    fn query(&self) -> Vec<(&'static str, String)> {
        let table = self.table.map(|table| table.to_string());
        let pairs =
            [("table", table), ("owner", self.owner.clone()), ("cookie", self.cookie.clone())];
        pairs.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }
}

const SWITCH_COLUMNS: &[Column] = &[
    Column::new("DPID", "/dpid"),
    Column::text("NAME", "/name"),
    Column::new("OPENFLOW", "/openflow"),
    Column::new("ADDRESS", "/address"),
    Column::new("PORTS", "/ports"),
    Column::new("PACKET-INS", "/session/packet_ins_received"),
];

const PORT_COLUMNS: &[Column] = &[
    Column::new("PORT", "/port"),
    Column::text("NAME", "/name"),
    Column::new("UP", "/is_up"),
    Column::new("ROLE", "/role"),
    Column::new("HOSTS", "/hosts"),
    Column::port("PEER", "/peer"),
    Column::rate("RX-BIT/S", "/rates/rx_bits_per_s"),
    Column::rate("TX-BIT/S", "/rates/tx_bits_per_s"),
];

/// With `--wide`, behind the others.
const PORT_COUNTERS: &[Column] = &[
    Column::new("RX-PACKETS", "/statistics/rx_packets"),
    Column::new("TX-PACKETS", "/statistics/tx_packets"),
    Column::new("RX-ERRORS", "/statistics/rx_errors"),
    Column::new("TX-ERRORS", "/statistics/tx_errors"),
    Column::new("RX-DROPPED", "/statistics/rx_dropped"),
    Column::new("TX-DROPPED", "/statistics/tx_dropped"),
];

const LINK_COLUMNS: &[Column] = &[
    Column::port("FROM", "/from"),
    Column::text("NAME", "/from/port_name"),
    Column::port("TO", "/to"),
    Column::text("NAME", "/to/port_name"),
    Column::new("DRAINED", "/is_drained"),
];

const DRAIN_COLUMNS: &[Column] = &[
    Column::new("STATE", "/state"),
    Column::new("UP", "/is_up"),
    Column::port("PORT", "/ends/0/at"),
    Column::new("ENTRIES", "/ends/0/progress/entries"),
    Column::new("QUIET", "/ends/0/progress/is_quiet"),
    Column::port("PORT", "/ends/1/at"),
    Column::new("ENTRIES", "/ends/1/progress/entries"),
    Column::new("QUIET", "/ends/1/progress/is_quiet"),
    Column::time("SINCE", "/requested_at_unix_s"),
];

const APPLICATION_COLUMNS: &[Column] =
    &[Column::new("NAME", "/name"), Column::keys("SETTINGS", "/settings")];

const LIMIT_COLUMNS: &[Column] = &[
    Column::new("LIMIT", "/name"),
    Column::new("VALUE", "/value"),
    Column::new("IN USE", "/in_use"),
];

/// With `--wide`, behind the others.
const LIMIT_MEANING: &[Column] = &[Column::new("MEANING", "/help")];

const HOST_COLUMNS: &[Column] = &[
    Column::new("MAC", "/mac"),
    Column::new("VLAN", "/vlan"),
    Column::port("PORT", "/at"),
    Column::new("NAME", "/at/port_name").optional(),
    Column::items("ADDRESSES", "/addresses"),
    Column::text("HOST", "/name"),
    Column::new("QUARANTINED", "/is_quarantined"),
];

const QUARANTINE_COLUMNS: &[Column] = &[
    Column::new("MAC", "/mac"),
    Column::text("HOST", "/name"),
    Column::items("ADDRESSES", "/addresses"),
    Column::port("PORT", "/at"),
    Column::new("STATE", "/state"),
    Column::time("SINCE", "/since_unix_s"),
    Column::text("BY", "/by"),
    Column::text("REASON", "/reason"),
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
            What::Ports(PortsArgs { switch, wide }) => {
                let columns = wide.of(PORT_COLUMNS, PORT_COUNTERS);
                self.list(&of_switch(&switch.switch, "ports"), &[], "ports", &columns)
            }
            What::Apps => self.list("/v1/applications", &[], "applications", APPLICATION_COLUMNS),
            What::Limits(wide) => {
                self.list("/v1/limits", &[], "limits", &wide.of(LIMIT_COLUMNS, LIMIT_MEANING))
            }
            What::Links => self.list("/v1/links", &[], "links", LINK_COLUMNS),
            What::Drains => self.list("/v1/drains", &[], "drains", DRAIN_COLUMNS),
            What::Hosts(HostArgs { switch, ip, mac }) => {
                let query = [("switch", switch), ("ip", ip), ("mac", mac)];
                let query: Vec<_> =
                    query.iter().filter_map(|(key, it)| Some((*key, it.as_deref()?))).collect();
                self.list("/v1/hosts", &query, "hosts", HOST_COLUMNS)
            }
            What::Quarantines => {
                self.list("/v1/quarantines", &[], "quarantines", QUARANTINE_COLUMNS)
            }
            What::Flows(flows) => {
                let path = of_switch(&flows.switch.switch, "flows");
                let query = flows.query();
                let query: Vec<_> = query.iter().map(|(key, it)| (*key, it.as_str())).collect();
                let body = self.get(&path, &query)?;
                if self.json {
                    return Ok(with_newline(body));
                }
                Ok(flows::text(&parse_answer(&path, &body)?, flows::Layout::of_stdout()))
            }
            What::Groups(at) => self.entries(&at.switch, &groups::GROUPS),
            What::Meters(at) => self.entries(&at.switch, &groups::METERS),
            What::Paths(PathArgs { from, to }) => {
                let body = self.get("/v1/paths", &[("from", from), ("to", to)])?;
                if self.json {
                    return Ok(with_newline(body));
                }
                Ok(paths::text(&parse_answer("/v1/paths", &body)?))
            }
        }
    }

    /// Groups or meters with their counters, or the JSON.
    fn entries(&self, switch: &str, kind: &groups::Kind) -> Result<String, String> {
        let path = of_switch(switch, kind.path);
        if self.json {
            return self.get(&path, &[]).map(with_newline);
        }
        let texts = self.get(&path, &[("format", "ovs-ofctl")])?;
        let path = of_switch(switch, kind.statistics_path);
        let statistics = parse_answer(&path, &self.get(&path, &[])?)?;
        Ok(groups::text(&texts, &statistics, kind, flows::Layout::of_stdout()))
    }

    /// The items of a list as a table, or the JSON.
    fn list(
        &self,
        path: &str,
        query: &[(&str, &str)],
        list: &str,
        columns: &[Column],
    ) -> Result<String, String> {
        let body = self.get(path, query)?;
        if self.json {
            return Ok(with_newline(body));
        }
        let mut document = parse_answer(path, &body)?;
        let items = document.get_mut(list).and_then(Value::as_array_mut);
        let items = items.map(Vec::as_mut_slice).unwrap_or_default();
        if !items.is_empty() && columns.iter().any(|column| column.port_at().is_some()) {
            let switches = self.api.client()?.get_json("/v1/switches", &[])?;
            remove_ambiguous_names(items, columns, &ambiguous_names(&switches));
        }
        Ok(table(items, columns))
    }

    fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<String, String> {
        Ok(self.api.client()?.get(path, query)?)
    }
}

/// Removes the names of switches that several have: their ports are written with datapath ids.
fn remove_ambiguous_names(items: &mut [Value], columns: &[Column], names: &BTreeSet<&str>) {
    for item in items {
        for at in columns.iter().filter_map(Column::port_at) {
            let name = item.pointer_mut(at).and_then(|port| port.get_mut("switch"));
            if let Some(name) = name.filter(|it| it.as_str().is_some_and(|it| names.contains(it))) {
                *name = Value::Null;
            }
        }
    }
}

fn with_newline(text: String) -> String {
    text + "\n"
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_have_the_names_of_switches_and_hosts_and_datapath_ids_instead_of_ambiguous_names() {
        let at = |dpid: &str, name: &str| json!({"dpid": dpid, "switch": name, "port": 1});
        let [core, twin] = [at("01", "core"), at("02", "twin")];
        let host = json!({"name": "printer", "at": core});
        for (columns, item, shown) in [
            (LINK_COLUMNS, json!({"from": core, "to": twin}), &["core:1", "02:1"][..]),
            (PORT_COLUMNS, json!({ "peer": twin }), &["02:1"]),
            (HOST_COLUMNS, host.clone(), &["core:1", "printer"]),
            (QUARANTINE_COLUMNS, host, &["core:1", "printer"]),
            (DRAIN_COLUMNS, json!({"ends": [{"at": core}, {"at": twin}]}), &["core:1", "02:1"]),
        ] {
            let mut items = [item];
            remove_ambiguous_names(&mut items, columns, &BTreeSet::from(["twin"]));
            let text = table(&items, columns);
            let row: Vec<_> = text.lines().skip(1).flat_map(str::split_whitespace).collect();
            assert!(shown.iter().all(|it| row.contains(it)), "{text}");
        }
    }
}
