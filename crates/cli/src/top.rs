//! `sluice top`: the busiest switches and ports of a running controller, from its API.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use clap::Args;
use serde_json::Value;
use sluice_base::{ordered, sort_by};
use sluice_io::clock;

use crate::api_client::ApiArgs;
use crate::show::printable;
use crate::watch::{self, WatchInterval};
use crate::write_stdout;

/// Characters of a line, and lines of a frame with the time above: those of a small terminal.
const COLUMNS_MAX: usize = 80;
const SWITCHES_MAX: usize = 7;
const PORTS_MAX: usize = 10;

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Print one frame, measured over an interval, and end
    #[arg(long)]
    once: bool,
    /// Seconds between two readings
    #[arg(long, value_name = "SECONDS", default_value = "2")]
    interval: WatchInterval,
}

/// Packet-ins that each switch has sent, when they were read.
#[derive(Debug)]
struct PacketIns {
    at: Instant,
    by_dpid: BTreeMap<String, u64>,
}

impl TopArgs {
    /// Shows the network until Ctrl-C, or once.
    pub(crate) fn run(&self) -> Result<(), String> {
        let mut before = None;
        // The first reading makes the controller read the ports, whose rates need two.
        let first = self.frame(&mut before)?;
        if self.once {
            clock::sleep(self.interval.0);
            return write_stdout(&self.measured_frame(&mut before)?);
        }
        let mut first = Some(first);
        watch::show_repeatedly(self.interval, || match first.take() {
            Some(first) => Ok(first),
            None => self.frame(&mut before),
        })
    }

    /// A frame with the rates of ports: the controller reads them twice for it.
    fn measured_frame(&self, before: &mut Option<PacketIns>) -> Result<String, String> {
        let deadline = clock::now() + 4 * self.interval.0;
        let has_switches = self.document("/v1/switches")?.pointer("/switches/0").is_some();
        while has_switches
            && self.document("/v1/ports/busiest")?.pointer("/ports/0").is_none()
            && clock::now() < deadline
        {
            clock::sleep(self.interval.0 / 4);
        }
        self.frame(before)
    }

    fn frame(&self, before: &mut Option<PacketIns>) -> Result<String, String> {
        let controller = self.document("/v1/controller")?;
        let switches = self.document("/v1/switches")?;
        let ports = self.document("/v1/ports/busiest")?;
        let now = PacketIns { at: clock::now(), by_dpid: packet_ins(&switches) };
        let text = frame(&controller, &switches, &ports, &now, before.as_ref());
        *before = Some(now);
        Ok(text)
    }

    fn document(&self, path: &str) -> Result<Value, String> {
        self.api.client()?.get_json(path, &[])
    }
}

fn list<'d>(document: &'d Value, name: &str) -> &'d [Value] {
    document.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'d>(document: &'d Value, pointer: &str) -> Option<&'d str> {
    document.pointer(pointer).and_then(Value::as_str)
}

fn packet_ins(switches: &Value) -> BTreeMap<String, u64> {
    let counted = list(switches, "switches").iter().filter_map(|switch| {
        let count = switch.pointer("/session/packet_ins_received")?.as_u64()?;
        Some((text(switch, "/dpid")?.to_owned(), count))
    });
    ordered(counted)
}

/// What is shown at a time.
fn frame(
    controller: &Value,
    switches: &Value,
    ports: &Value,
    now: &PacketIns,
    before: Option<&PacketIns>,
) -> String {
    let given = |name| controller.get(name).and_then(Value::as_u64);
    let count = |name| given(name).unwrap_or_default();
    // An older controller does not count cables.
    let connections = given("cables")
        .map_or_else(|| format!("links {}", count("links")), |cables| format!("cables {cables}"));
    let mut lines = vec![
        format!(
            "sluice {}  up {}  switches {}  {connections}  hosts {}",
            text(controller, "/version").unwrap_or_default(),
            duration(count("uptime_s")),
            count("switches"),
            count("hosts"),
        ),
        String::new(),
    ];
    let ambiguous = ambiguous_names(switches);
    lines.push(switch_row(["SWITCH", "OPENFLOW", "PORTS", "PACKET-INS/S", "PACKET-INS", "ERRORS"]));
    let mut rows: Vec<_> =
        list(switches, "switches").iter().map(|it| (rate_of(it, now, before), it)).collect();
    // Without rates, in the order of the API.
    sort_by(&mut rows, |(a, _), (b, _)| b.unwrap_or(0.0).total_cmp(&a.unwrap_or(0.0)));
    for (rate, switch) in rows.iter().take(SWITCHES_MAX) {
        let number = |pointer| switch.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
        lines.push(switch_row([
            label(text(switch, "/name"), text(switch, "/dpid"), &ambiguous),
            text(switch, "/openflow").unwrap_or("-"),
            &number("/ports").to_string(),
            &rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")),
            &number("/session/packet_ins_received").to_string(),
            &number("/session/errors_received").to_string(),
        ]));
    }
    lines.push(String::new());
    lines.push(port_row(["PORT", "RX-BIT/S", "TX-BIT/S", "RX-PKT/S", "TX-PKT/S", "HOSTS"]));
    for port in list(ports, "ports").iter().take(PORTS_MAX) {
        let rate = |name| {
            let rate = port.pointer(&format!("/rates/{name}")).and_then(Value::as_f64);
            rate.map_or_else(|| "-".to_owned(), with_unit)
        };
        let switch = label(text(port, "/at/switch"), text(port, "/at/dpid"), &ambiguous);
        let number = port.pointer("/at/port").and_then(Value::as_u64).unwrap_or_default();
        let name = text(port, "/at/port_name").unwrap_or_default();
        let hosts: Vec<_> = list(port, "hosts").iter().filter_map(Value::as_str).collect();
        lines.push(port_row([
            &format!("{switch} {number} {name}"),
            &rate("rx_bits_per_s"),
            &rate("tx_bits_per_s"),
            &rate("rx_packets_per_s"),
            &rate("tx_packets_per_s"),
            &hosts.join(" "),
        ]));
    }
    lines.into_iter().map(|line| fitted(&line) + "\n").collect()
}

/// Names that several switches have.
pub(crate) fn ambiguous_names(switches: &Value) -> BTreeSet<&str> {
    let mut seen = BTreeSet::new();
    let names = list(switches, "switches").iter().filter_map(|switch| text(switch, "/name"));
    names.filter(|name| !seen.insert(*name)).collect()
}

/// The name of a switch, or its datapath id if it has none, or not for itself.
fn label<'s>(name: Option<&'s str>, dpid: Option<&'s str>, ambiguous: &BTreeSet<&str>) -> &'s str {
    name.filter(|name| !ambiguous.contains(name)).or(dpid).unwrap_or("-")
}

fn switch_row([name, openflow, ports, rate, count, errors]: [&str; 6]) -> String {
    let name: String = printable(name).chars().take(24).collect();
    format!("{name:<24} {openflow:<8} {ports:>6} {rate:>13} {count:>12} {errors:>9}")
}

fn port_row([name, rx_bits, tx_bits, rx_packets, tx_packets, hosts]: [&str; 6]) -> String {
    let name: String = printable(name).chars().take(24).collect();
    format!("{name:<24} {rx_bits:>8} {tx_bits:>8} {rx_packets:>8} {tx_packets:>8}  {hosts}")
}

/// A line without what does not fit.
fn fitted(line: &str) -> String {
    line.chars().take(COLUMNS_MAX).collect::<String>().trim_end().to_owned()
}

/// Packet-ins per second of a switch since the last reading; `None` if it was not connected then.
#[expect(clippy::cast_precision_loss, reason = "a rate has fewer than 53 significant bits")]
fn rate_of(switch: &Value, now: &PacketIns, before: Option<&PacketIns>) -> Option<f64> {
    let (dpid, before) = (text(switch, "/dpid")?, before?);
    let difference = now.by_dpid.get(dpid)?.checked_sub(*before.by_dpid.get(dpid)?)?;
    let time = now.at.saturating_duration_since(before.at).as_secs_f64();
    (time > 0.0).then(|| difference as f64 / time)
}

/// A number with four digits and a unit at most.
pub(crate) fn with_unit(value: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = units.into_iter().find(|&(size, _)| value >= size);
    unit.map_or_else(|| format!("{value:.0}"), |(size, unit)| format!("{:.1}{unit}", value / size))
}

fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes} min {} s", seconds % 60),
        (0, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn switches(count: usize) -> Value {
        let switch = |n: usize| {
            json!({"dpid": n.to_string(), "name": "a switch with a name that is very long".repeat(n),
                   "openflow": "1.3", "ports": 4096,
                   "session": {"packet_ins_received": 1_000_000_000 + 20 * n, "errors_received": 3}})
        };
        json!({"switches": (0..count).map(switch).collect::<Vec<_>>()})
    }

    #[test]
    fn a_frame_fits_a_small_terminal_and_the_busiest_come_first() {
        let controller = json!({"version": "0.1.0", "uptime_s": 1_000_000_000_u64, "switches": 30,
                                "links": 100, "cables": 50, "hosts": 1_000_000});
        let port = json!({"at": {"dpid": "1", "switch": "s1", "port": 4, "port_name": "s1-eth4"},
                          "rates": {"rx_bits_per_s": 1.25e9, "tx_bits_per_s": null},
                          "hosts": ["00:00:00:00:00:01", "00:00:00:00:00:02"]});
        let ports = json!({ "ports": vec![port; 30] });
        let (switches, at) = (switches(30), clock::now());
        let now = PacketIns { at: at + Duration::from_secs(2), by_dpid: packet_ins(&switches) };
        let by_dpid = now.by_dpid.keys().map(|dpid| (dpid.clone(), 1_000_000_000)).collect();
        let before = PacketIns { at, by_dpid };
        let text = frame(&controller, &switches, &ports, &now, Some(&before));
        let lines: Vec<_> = text.lines().collect();
        // With the time above.
        assert!(lines.len() < 24, "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS_MAX), "{text}");
        assert!(lines[0].ends_with("  switches 30  cables 50  hosts 1000000"), "{text}");
        let rates: Vec<_> = lines.iter().skip(3).take(2).map(|line| &line[41..54]).collect();
        assert_eq!(
            rates.iter().map(|rate| rate.trim()).collect::<Vec<_>>(),
            ["290", "280"],
            "{text}"
        );
        assert!(text.contains("s1 4 s1-eth4                 1.2G        -"), "{text}");
        let twins = json!({"switches": [{"dpid": "a", "name": "s1"}, {"dpid": "b", "name": "s1"}]});
        let of_twins = frame(&controller, &twins, &ports, &now, None);
        assert!(of_twins.lines().nth(3).unwrap().starts_with("a  "), "{of_twins}");
        let older = json!({"switches": 30, "links": 100, "hosts": 7});
        let of_older = frame(&older, &switches, &ports, &now, None);
        assert!(of_older.lines().next().unwrap().ends_with("  links 100  hosts 7"), "{of_older}");
        let first = frame(&controller, &switches, &ports, &now, None);
        assert!(first.lines().nth(3).unwrap()[41..54].ends_with('-'), "{first}");
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 999.4, 1000.0, 12_345_678.0, 3.2e12].map(with_unit);
        assert_eq!(texts, ["0", "999", "1.0k", "12.3M", "3.2T"]);
        let texts = [59, 3_600, 90_061].map(duration);
        assert_eq!(texts, ["0 min 59 s", "1 h 0 min", "1 d 1 h"]);
    }
}
