//! `sluice trace`: how a packet would travel through the flow tables of all switches, from the API of a running controller.

use clap::Args;
use serde_json::{Value, json};

use crate::api_client::{ApiArgs, parse_answer};
use crate::show::{owner, printable};

/// Columns of the output.
const WIDTH: usize = 80;

/// Fewest digits of a packet: those of an Ethernet header.
const PACKET_DIGITS_MIN: usize = 28;

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Print the JSON of the API instead of text.
    #[arg(long)]
    json: bool,
    /// Two hosts by their IP or Ethernet addresses: FROM TO; or SWITCH PORT PACKET, the packet in the syntax of
    /// ovs-ofctl, such as 'arp' or 'icmp', or as hexadecimal digits
    #[arg(required = true, num_args = 2..=3, value_name = "FROM TO | SWITCH PORT PACKET")]
    what: Vec<String>,
}

impl TraceArgs {
    /// What is to be printed.
    pub(crate) fn run(&self) -> Result<String, String> {
        let request = request(&self.what)?;
        let body = self.api.client()?.post("/v1/trace", &request)?;
        if self.json {
            return Ok(body + "\n");
        }
        Ok(text(&parse_answer("/v1/trace", &body)?))
    }
}

/// The body of the request.
fn request(what: &[String]) -> Result<Value, String> {
    match what {
        [from, to] => Ok(json!({ "from": from, "to": to })),
        [switch, port, packet] => {
            let port: u32 = port.parse().map_err(|_| {
                format!("{port:?} is no port number (sluice trace SWITCH PORT PACKET)")
            })?;
            let is_hex = packet.len() >= PACKET_DIGITS_MIN
                && packet.bytes().all(|byte| byte.is_ascii_hexdigit());
            let key = if is_hex { "packet" } else { "flow" };
            Ok(json!({ "at": { "switch": switch, "port": port }, key: packet }))
        }
        _ => Err("expected FROM TO, or SWITCH PORT PACKET".to_owned()),
    }
}

/// The trace for people: hop by hop, like `ofproto/trace`.
fn text(document: &Value) -> String {
    let mut out = String::new();
    let list = |key: &str| document.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let ends = list("ends");
    for hop in list("hops") {
        hop_text(&mut out, &hop, &ends);
    }
    let summary = string(document, "/summary");
    line(&mut out, 0, &format!("Result: {summary}"));
    out
}

fn hop_text(out: &mut String, hop: &Value, ends: &[Value]) {
    let number = hop.get("hop").and_then(Value::as_u64).unwrap_or_default() + 1;
    let after = hop.get("after").and_then(Value::as_u64);
    let after = after.filter(|after| after + 2 != number);
    let after = after.map_or_else(String::new, |after| format!(", from hop {}", after + 1));
    line(out, 0, &format!("{number}. {}{after}", place(hop.get("at"))));
    line(out, 3, &string(hop, "/packet/text"));
    for step in hop.get("steps").and_then(Value::as_array).into_iter().flatten() {
        let depth =
            step.get("depth").and_then(Value::as_u64).and_then(|it| usize::try_from(it).ok());
        let indent = 3 + 3 * depth.unwrap_or_default().min(8);
        step_text(out, step, indent, ends);
    }
    out.push('\n');
}

fn step_text(out: &mut String, step: &Value, indent: usize, ends: &[Value]) {
    let number = |at: &str| step.pointer(at).map(Value::to_string).unwrap_or_default();
    match string(step, "/step").as_str() {
        "entry" => {
            let owner = owner(step);
            let title =
                format!("table {}, priority {} ({owner})", number("/table"), number("/priority"));
            line(out, indent, &title);
            line(out, indent + 3, &string(step, "/text"));
        }
        "miss" => {
            let result = match string(step, "/result").as_str() {
                "to-controller" => "no flow entry matches, the controller gets it",
                "next-table" => "no flow entry matches, the next table is tried",
                _ => "no flow entry matches",
            };
            line(out, indent, &format!("table {}: {result}", number("/table")));
        }
        "action-set" => line(out, indent, "action set:"),
        "action" => line(out, indent, &string(step, "/text")),
        "bucket" => {
            let one_of = step.get("one_of").and_then(Value::as_bool).unwrap_or_default();
            let one_of = if one_of { ", one of several" } else { "" };
            let (group, bucket) = (number("/group"), number("/bucket"));
            let kind = string(step, "/kind");
            line(out, indent - 3, &format!("group {group} ({kind}), bucket {bucket}{one_of}"));
        }
        "forward" => {
            let (port, to) = (number("/port/port"), place(step.get("to")));
            line(out, indent, &format!("-> port {port}, to {to}"));
        }
        "end" => {
            let end =
                step.get("end").and_then(Value::as_u64).and_then(|it| usize::try_from(it).ok());
            let end = end.and_then(|end| ends.get(end));
            line(
                out,
                indent,
                &format!("-> {}", end.map(|it| string(it, "/text")).unwrap_or_default()),
            );
        }
        _ => line(out, indent, &format!("({})", string(step, "/text"))),
    }
}

fn string(value: &Value, at: &str) -> String {
    value.pointer(at).and_then(Value::as_str).map(printable).unwrap_or_default()
}

/// A port: `s1 port 2 (s1-eth2)`.
fn place(value: Option<&Value>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let switch = [string(value, "/switch"), string(value, "/dpid")];
    let switch = switch.iter().find(|name| !name.is_empty()).cloned().unwrap_or_default();
    let port = value.get("port").map(Value::to_string).unwrap_or_default();
    match string(value, "/port_name").as_str() {
        "" => format!("{switch} port {port}"),
        name => format!("{switch} port {port} ({name})"),
    }
}

/// Adds a line, broken behind commas and spaces where it is too long.
fn line(out: &mut String, indent: usize, text: &str) {
    let room = WIDTH.saturating_sub(indent);
    let mut rest = text;
    while let Some((end, _)) = rest.char_indices().nth(room) {
        let head = rest.get(..end).unwrap_or(rest);
        let at = head.rfind([',', ' ']).map_or(end, |at| at + 1);
        let (head, tail) = rest.split_at_checked(at).unwrap_or((rest, ""));
        push_line(out, indent, head);
        rest = tail;
    }
    push_line(out, indent, rest);
}

fn push_line(out: &mut String, indent: usize, text: &str) {
    out.push_str(&" ".repeat(indent));
    out.push_str(text.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_hosts_or_a_packet_at_a_port() {
        let request = |text: &str| {
            let words: Vec<_> = text.split(' ').map(str::to_owned).collect();
            request(&words).map(|it| it.to_string())
        };
        assert_eq!(request("10.0.0.1 10.0.0.2").unwrap(), r#"{"from":"10.0.0.1","to":"10.0.0.2"}"#);
        assert_eq!(
            request("s1 1 icmp").unwrap(),
            r#"{"at":{"port":1,"switch":"s1"},"flow":"icmp"}"#
        );
        let packet = "0".repeat(28);
        assert!(request(&format!("s1 1 {packet}")).unwrap().contains(r#""packet":"00"#));
        assert!(request("s1 eth1 icmp").unwrap_err().contains("eth1"));
    }

    #[test]
    fn traces_fit_80_columns_and_do_not_control_the_terminal() {
        let entry = format!("cookie=0x1,{}actions=output:2", "nw_src=10.0.0.1,".repeat(9));
        let at = json!({"switch": "s1\u{1b}[2J", "dpid": "1", "port": 1, "port_name": "s1-eth1"});
        let document = json!({
            "outcome": "delivered", "summary": "delivered at s1 port 2",
            "hops": [{
                "hop": 0, "after": null, "at": at, "packet": {"text": "icmp"},
                "steps": [
                    {"depth": 0, "step": "entry", "table": 0, "priority": 5, "owner": "forwarding",
                     "text": entry},
                    {"depth": 0, "step": "entry", "table": 0, "priority": 9, "owner": null,
                     "static_entry": null, "text": "actions=output:2"},
                    {"depth": 0, "step": "entry", "table": 1, "priority": 8, "owner": "static",
                     "static_entry": "block-h3", "text": "actions=drop"},
                    {"depth": 0, "step": "action", "text": "group:1"},
                    {"depth": 1, "step": "bucket", "group": 1, "kind": "select", "bucket": 0,
                     "one_of": true},
                    {"depth": 1, "step": "action", "text": "output:2"},
                    {"depth": 1, "step": "end", "end": 0},
                ],
            }],
            "ends": [{"text": "delivered at s1 port 2"}],
        });
        let text = text(&document);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        let expected = "   group:1\n   group 1 (select), bucket 0, one of several\n      output:2\n      \
                        -> delivered at s1 port 2\n\nResult: delivered at s1 port 2\n";
        assert!(text.ends_with(expected), "{text}");
        assert!(text.contains("   table 0, priority 5 (forwarding)\n      cookie=0x1,"), "{text}");
        assert!(text.contains("   table 1, priority 8 (static entry block-h3)\n"), "{text}");
        assert!(
            text.contains("   table 0, priority 9 (foreign)\n      actions=output:2\n"),
            "{text}"
        );
    }
}
