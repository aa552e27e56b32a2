//! `docs/metrics.md` lists the metrics that the binary exports.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sluice_io::clock;
use sluice_openflow::{DatapathId, RawMessage, Version};
use sluice_proto::{SwitchProfile, SwitchSession};

const APPS: &str = "limiter,topology,hosts,forwarding,learning,hub";

const INTRODUCTION: &str = "\
# Metrics

Sluice exports metrics in the OpenMetrics text format, which Prometheus reads, at `http://127.0.0.1:8653/metrics` by
default (`--api`). [Running the controller](running.md#metrics) says which of them to watch.

All names begin with `sluice_`. Counters end in `_total` and start at 0 when Sluice starts. Times are in seconds. The
label `worker` is the number of a worker thread from 0, `version` an OpenFlow version and `type` the name of a message
or error type in the specification. Metrics of an application are exported only while it is in use; their values are the
sum over all workers.

The metrics `sluice_switch_…` have one series per connected switch, with its datapath id as in log lines as the label
`dpid`. Their counters start at 0 when the switch has completed the handshake, and the series are removed when it
disconnects.

This page is generated: `SLUICE_BLESS=1 cargo test -p sluice-cli --test metrics_page` rewrites it.

## Prometheus and Grafana

In `prometheus.yml`, with the [alerts](../packaging/prometheus/alerts.yml), which the Debian package has in
`/usr/share/doc/sluice-openflow/examples`:

```yaml
rule_files: [alerts.yml]
scrape_configs:
  - job_name: sluice
    static_configs: [{targets: ['127.0.0.1:8653']}]
```

`promtool check rules alerts.yml` checks the alerts after a change. The [dashboard](../packaging/grafana/sluice.json) is
imported in Grafana under *Dashboards → New → Import*; it asks for the data source.
";

const REASONS: &str = "
## Why connections are closed

The label `reason` of `sluice_connections_closed_total`, and the field `reason` of log lines:

| reason | meaning |
| --- | --- |
| `closed_by_peer`, `connection_reset` | the peer closed or reset the connection, as switches do when they stop |
| `connection_error` | the operating system reported another error of the connection |
| `tls_expected` | plain TCP on a TLS port |
| `tls_on_tcp_port` | TLS on a port for plain TCP |
| `http_on_openflow_port` | a request of HTTP on a port for OpenFlow: the API and the web page have another port |
| `tls_version_not_supported` | the peer offers no TLS version from 1.2 on |
| `tls_no_certificate` | the peer has no certificate, and one is required |
| `tls_unknown_ca` | the peer's certificate was issued by another authority than those of `tls.client_ca` |
| `tls_certificate_expired`, `tls_certificate_not_yet_valid` | the validity of the peer's certificate is over, or has not begun |
| `tls_certificate_invalid` | the peer's certificate is malformed, or may not be used for this purpose |
| `certificate_mismatch` | the switch's certificate does not name its datapath id, and `tls.bind_datapath_id` is set |
| `tls_key_limit` | over TLS 1.2 with AES-GCM, as many records were sent as its keys may encrypt; the switch connects again |
| `tls_rejected_by_peer` | the peer ended the TLS connection with an alert, for example because it does not trust the controller's certificate |
| `tls_truncated` | the stream ended without the `close_notify` alert, for example because the switch was killed |
| `tls_protocol_error` | another violation of TLS, records without data all the time, or no cipher suite in common |
| `shutdown` | the controller stopped |
| `echo_timeout` | no answer to an echo request |
| `answer_lost` | the kernel answered packet-ins (`--engine kernel` or `auto`) and had no memory for one of the answers |
| `send_timeout` | the switch took less than 4 KiB in 30 s though more was queued for it |
| `malformed_message` | the byte stream cannot be split into messages, or a message of the handshake cannot be parsed |
| `too_many_malformed` | more than 1000 malformed messages |
| `multipart_reply_too_large` | the list of the ports of the switch exceeded 4 MiB |
| `too_many_multipart_replies` | more than eight multipart replies of the switch were incomplete at a time |
| `multipart_memory_limit` | incomplete multipart replies of all switches of a worker together exceeded 64 MiB, and this switch was the oldest holder of the address with the most bytes |
| `multipart_timeout` | a multipart reply was not continued for 30 s |
| `no_common_version` | the peer supports none of the configured OpenFlow versions |
| `wrong_version` | a message has another version than the negotiated one |
| `unexpected_message` | a message that is not allowed there, or that only controllers send |
| `handshake_rejected` | the peer answered the handshake with an error |
| `handshake_timeout` | the handshake was not complete in 10 s |
| `handshake_too_large` | more than 256 KiB received before the handshake was complete, or more than 128 KiB before that of TLS was |
| `too_many_handshakes` | `limits.handshakes_max` reached, or no file descriptor left. Of the listener with the most handshakes, and there of the address with the most, the peer was closed that had been silent for longest, or else the one with the oldest HELLO; or the new one was refused |
| `too_many_switches` | `limits.switches_max` reached: the new switch was refused, or replaced the newest of the address with the most |
| `too_many_ports` | `limits.ports_max` reached: the new switch was refused, or a switch with many ports of the address with the most was closed |
| `duplicate_datapath_id` | another connection has the same datapath id and is alive |
| `replaced_by_new_connection` | a new connection has the same datapath id, and this one did not answer a probe |
| `datapath_id_reserved` | only a switch whose certificate names this datapath id may have it, since one has connected to a listener with `bind_datapath_id`; this one has no such certificate, or another listener |
| `auxiliary_connection` | an auxiliary connection, which Sluice does not support |
";

/// A running `sluice run`, killed at the end.
struct ControllerProcess(Child);

impl Drop for ControllerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Connects a switch and completes the handshake.
fn connect_switch(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let version = Version::V1_3;
    let profile = SwitchProfile { datapath_id: DatapathId(1), version, n_ports: 2, n_buffers: 0 };
    let (mut tx, mut message) = (Vec::new(), Vec::new());
    let mut session = SwitchSession::open(profile, &mut tx);
    while !session.is_ready() || !tx.is_empty() {
        stream.write_all(&tx).unwrap();
        tx.clear();
        message.resize(8, 0);
        stream.read_exact(&mut message).unwrap();
        let Some(&[_, _, high, low]) = message.first_chunk() else { continue };
        message.resize(u16::from_be_bytes([high, low]).into(), 0);
        stream.read_exact(message.get_mut(8..).unwrap()).unwrap();
        session.on_message(RawMessage::new(&message).unwrap(), &mut tx).unwrap();
    }
    stream
}

fn scrape(url: &str) -> String {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    write!(client, "GET /{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    text
}

/// The metrics of a controller that runs all applications and has one switch.
fn all_metrics() -> String {
    let mut sluice = Command::new(env!("CARGO_BIN_EXE_sluice"));
    sluice.args([
        "run",
        "--config",
        "/dev/null",
        "--listen",
        "127.0.0.1:0",
        "--api",
        "127.0.0.1:0",
    ]);
    sluice.args(["--threads", "1", "--app", APPS]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut controller = ControllerProcess(sluice.spawn().unwrap());
    let mut stdout = BufReader::new(controller.0.stdout.take().unwrap()).lines();
    let mut value_of = |name: &str| {
        let mut lines = stdout.by_ref().map(Result::unwrap);
        lines.find_map(|line| line.strip_prefix(name).map(str::to_owned)).unwrap()
    };
    let (listen, url) = (value_of("listening on "), value_of("metrics: "));
    let _switch = connect_switch(&listen);
    let deadline = clock::now() + Duration::from_secs(20);
    // Applications update their metrics once a second, and the worker takes over the switch a little later.
    loop {
        let text = scrape(&url);
        if text.contains("\nsluice_learning_hosts ") && text.contains("\nsluice_switch_info{") {
            return text;
        }
        assert!(clock::now() < deadline, "no metrics of applications or of the switch in\n{text}");
        clock::sleep(Duration::from_millis(50));
    }
}

/// Names of the labels of the samples of `name`; of those with a fixed set of values, the values too.
fn labels(text: &str, name: &str) -> String {
    let mut described = Vec::new();
    for label in ["dpid", "version", "type", "worker", "address", "reason", "role"] {
        let mark = format!("{label}=\"");
        let samples = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
        let values: BTreeSet<_> = samples
            .filter_map(|sample| Some(sample.split_once(&mark)?.1.split_once('"')?.0))
            .collect();
        if values.is_empty() {
            continue;
        }
        let values: Vec<_> = values.into_iter().map(|value| format!("`{value}`")).collect();
        described.push(match label {
            "reason" | "role" => format!("`{label}`: {}", values.join(", ")),
            _ => format!("`{label}`"),
        });
    }
    described.join(", ")
}

fn page(text: &str) -> String {
    let reasons = labels(text, "sluice_connections_closed_total");
    for reason in reasons.split('`').skip(3).step_by(2) {
        assert!(REASONS.contains(&format!("`{reason}`")), "{reason} is not explained");
    }
    let mut page = INTRODUCTION.to_owned();
    let mut section = "";
    for line in text.lines() {
        let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' '))
        else {
            continue;
        };
        let type_line = format!("# TYPE {name} ");
        let kind = text.lines().find_map(|line| line.strip_prefix(&type_line)).unwrap();
        let short = name.strip_prefix("sluice_").unwrap();
        let is_of = |app: &&str| short == *app || short.starts_with(&format!("{app}_"));
        let app = APPS.split(',').find(is_of).unwrap_or("controller");
        if app != section {
            section = app;
            let title = if app == "controller" {
                "The controller".to_owned()
            } else {
                format!("The application `{app}`")
            };
            write!(page, "\n## {title}\n\n| metric | type | labels | meaning |\n").unwrap();
            page.push_str("| --- | --- | --- | --- |\n");
        }
        let suffix = if kind == "counter" { "_total" } else { "" };
        let series =
            if kind == "histogram" { format!("{name}_bucket") } else { format!("{name}{suffix}") };
        let (labels, help) = (labels(text, &series), help.trim_end_matches('.'));
        writeln!(page, "| `{name}{suffix}` | {kind} | {labels} | {help} |").unwrap();
    }
    page.push_str(REASONS);
    page
}

#[test]
fn the_page_lists_every_metric() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = page(&all_metrics());
    if std::env::var_os("SLUICE_BLESS").is_some() {
        std::fs::write(path, page).unwrap();
        return;
    }
    let Ok(found) = std::fs::read_to_string(path) else { panic!("docs/metrics.md is missing") };
    assert!(found == page, "docs/metrics.md is stale; expected:\n{page}");
}

/// The words in `text` that are names of metrics.
fn metric_names(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_part(c)).filter(|word| word.starts_with("sluice_")).collect()
}

#[test]
fn every_metric_of_the_dashboard_and_the_alerts_is_exported() {
    let text = all_metrics();
    let exported: BTreeSet<_> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let shipped = ["grafana/sluice.json", "prometheus/alerts.yml", "prometheus/alerts_test.yml"];
    for file in shipped {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file);
        let names = std::fs::read_to_string(path).unwrap();
        let names = metric_names(&names);
        let unknown: Vec<_> = names.difference(&exported).collect();
        assert!(!names.is_empty() && unknown.is_empty(), "{file}: {unknown:?} are not exported");
    }
}
