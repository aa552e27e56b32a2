//! `sluice host`: puts hosts of a running controller's network into quarantine, and releases them.

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use crate::api_client::{ApiArgs, encode};
use crate::show::{printable, table};
use crate::static_entries::{Report, STATE_COLUMNS};

#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    #[command(flatten)]
    api: ApiArgs,
    #[command(subcommand)]
    command: HostCommand,
}

#[derive(Debug, Subcommand)]
enum HostCommand {
    /// Drop at every switch what a host sends, and what is sent to it
    Quarantine(QuarantineArgs),
    /// Release a host from quarantine
    Release(HostArg),
}

#[derive(Debug, Args)]
struct HostArg {
    /// Name, Ethernet address or IP address of the host
    host: String,
}

#[derive(Debug, Args)]
struct QuarantineArgs {
    #[command(flatten)]
    host: HostArg,
    /// Why, for others who read it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl HostArgs {
    pub(crate) fn run(&self) -> Result<Report, String> {
        match &self.command {
            HostCommand::Quarantine(QuarantineArgs { host, reason }) => {
                let body = json!({ "reason": reason });
                let reply = self.send(&Method::POST, host, Some(&body))?;
                Ok(quarantined(&reply))
            }
            HostCommand::Release(host) => {
                let reply = self.send(&Method::DELETE, host, None)?;
                let text = format!("{}: released\n", host_text(&reply));
                Ok(Report { text, is_success: true })
            }
        }
    }

    fn send(&self, method: &Method, at: &HostArg, body: Option<&Value>) -> Result<Value, String> {
        let path = format!("/v1/hosts/{}/quarantine", encode(&at.host));
        self.api.client()?.send_json(method, &path, &[("wait", "true")], body)
    }
}

/// `host MAC (NAME, ADDRESSES)`.
fn host_text(reply: &Value) -> String {
    let text = |at: &str| reply.pointer(at).and_then(Value::as_str);
    let addresses = reply.pointer("/addresses").and_then(Value::as_array).into_iter().flatten();
    let names: Vec<_> =
        text("/name").into_iter().chain(addresses.filter_map(Value::as_str)).collect();
    let mac = text("/mac").unwrap_or_default();
    if names.is_empty() {
        format!("host {mac}")
    } else {
        format!("host {mac} ({})", printable(&names.join(", ")))
    }
}

/// Where the quarantine is in effect; a failure if a switch has refused it.
fn quarantined(reply: &Value) -> Report {
    let text = |at: &str| reply.pointer(at).and_then(Value::as_str);
    let state = match (text("/state"), text("/state_reason")) {
        (Some("installed"), _) => "in quarantine".to_owned(),
        (state, reason) => {
            let reason = reason.map(|it| format!(": {}", printable(it))).unwrap_or_default();
            format!("in quarantine, {}{reason}", state.unwrap_or("unknown"))
        }
    };
    let switches = reply.pointer("/switches").and_then(Value::as_array);
    let mut shown = format!("{}: {state}\n", host_text(reply));
    if let Some(switches) = switches.filter(|it| !it.is_empty()) {
        shown += &table(switches, STATE_COLUMNS);
    }
    Report { text: shown, is_success: text("/state") != Some("refused") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarantine_that_a_switch_has_refused_is_a_failure() {
        let mut reply = json!({ "mac": "00:00:00:00:00:03", "name": "printer",
            "addresses": ["10.0.0.3"], "state": "installed", "state_reason": null, "switches": [
            { "dpid": "0000000000000001", "switch": "s1", "state": "installed", "reason": null }] });
        let report = quarantined(&reply);
        assert!(report.is_success);
        assert_eq!(
            report.text,
            "host 00:00:00:00:00:03 (printer, 10.0.0.3): in quarantine\n\
             DPID              SWITCH  STATE      REASON\n\
             0000000000000001  s1      installed  -\n"
        );
        reply["state"] = json!("refused");
        reply["state_reason"] = json!("TABLE_FULL");
        reply["switches"] = json!([]);
        let report = quarantined(&reply);
        assert!(!report.is_success);
        assert_eq!(
            report.text,
            "host 00:00:00:00:00:03 (printer, 10.0.0.3): in quarantine, refused: TABLE_FULL\n"
        );
    }
}
