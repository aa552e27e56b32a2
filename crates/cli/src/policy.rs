//! `sluice policy`: flow entries of a running controller that are replaced for each packet as a whole.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::Value;

use crate::api_client::{ApiArgs, encode};
use crate::declared_file::{DeclaredFile, Format};
use crate::show::{Column, printable, table};
use crate::static_entries::{Report, STATE_COLUMNS, STATE_SINCE_COLUMNS, state};

/// Longer than the controller takes to answer any request.
const TIMEOUT: Duration = Duration::from_secs(65);

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Print the JSON of the API
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Put a policy into effect, in the place of the one with this name
    Apply(ApplyArgs),
    /// List the policies and their state
    List,
    /// Show a policy, and its state in each switch
    Show(NameArg),
    /// Remove a policy
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
struct NameArg {
    /// Name of the policy
    name: String,
}

#[derive(Debug, Args)]
struct ApplyArgs {
    #[command(flatten)]
    policy: NameArg,
    /// File with its flow entries, in TOML, YAML (`.yaml`, `.yml`) or JSON (`.json`); `-` is standard input
    file: PathBuf,
    /// Format of the file, whatever its name
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Change nothing, and print what the switches would get
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
struct RemoveArgs {
    #[command(flatten)]
    policy: NameArg,
    /// Remove all entries at once, whatever packets are in flight and whichever switch is not connected
    #[arg(long)]
    force: bool,
}

const POLICY_COLUMNS: &[Column] = &[
    Column::text("NAME", "/name"),
    Column::new("FLOWS", "/flows"),
    Column::new("STATE", "/state"),
    Column::new("VLAN", "/vlan"),
    Column::new("INGRESS", "/entries/ingress"),
    Column::new("TRANSIT", "/entries/transit"),
    Column::text("REASON", "/reason"),
];

impl PolicyArgs {
    pub(crate) fn run(&self) -> Result<Report, String> {
        let (answer, text) = match &self.command {
            PolicyCommand::Apply(args) => {
                let file = DeclaredFile::read(&args.file, args.format)?;
                let query: &[_] = if args.dry_run { &[("dry_run", "true")] } else { &[] };
                let answer =
                    self.send(&Method::PUT, &args.policy.path(), query, Some(&file.document));
                let answer = answer.map_err(|error| file.locate(error))?;
                let text = applied(&args.policy.name, &answer, args.dry_run);
                let pending = answer.get("pending").and_then(Value::as_array);
                let is_success = pending.is_none_or(Vec::is_empty);
                let text = if self.json { format!("{answer}\n") } else { text };
                return Ok(Report { text, is_success });
            }
            PolicyCommand::List => {
                let answer = self.send(&Method::GET, "/v1/policies", &[], None)?;
                let policies = answer.get("policies").and_then(Value::as_array);
                let text = table(policies.map_or(&[], Vec::as_slice), POLICY_COLUMNS);
                (answer, text)
            }
            PolicyCommand::Show(policy) => {
                let answer = self.send(&Method::GET, &policy.path(), &[], None)?;
                let text = shown(&answer);
                (answer, text)
            }
            PolicyCommand::Remove(args) => {
                let query: &[_] = if args.force { &[("force", "true")] } else { &[] };
                let answer = self.send(&Method::DELETE, &args.policy.path(), query, None)?;
                (answer, format!("{}: removed\n", args.policy.name))
            }
        };
        let text = if self.json { format!("{answer}\n") } else { text };
        Ok(Report { text, is_success: true })
    }

    fn send(
        &self,
        method: &Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Value, String> {
        let client = self.api.client()?.with_timeout(TIMEOUT);
        client.send_json(method, path, query, body)
    }
}

impl NameArg {
    fn path(&self) -> String {
        format!("/v1/policies/{}", encode(&self.name))
    }
}

/// `NAME: in effect at 3 switches, VLAN 4000, 12 ingress and 9 transit entries`.
fn applied(name: &str, answer: &Value, is_dry_run: bool) -> String {
    let number = |at: &str| answer.pointer(at).and_then(Value::as_u64).unwrap_or_default();
    let switches = answer.get("switches").and_then(Value::as_array).map_or(0, Vec::len);
    let is_changed = answer.get("is_changed").and_then(Value::as_bool).unwrap_or_default();
    let what = match (is_changed, is_dry_run) {
        (false, _) => "as before",
        (true, true) => "would be in effect",
        (true, false) => "in effect",
    };
    let text = format!(
        "{name}: {what} at {switches} switches, VLAN {}, {} ingress and {} transit entries\n",
        number("/vlan"),
        number("/entries/ingress"),
        number("/entries/transit")
    );
    let pending = answer.get("pending").and_then(Value::as_array).filter(|it| !it.is_empty());
    text + &pending.map_or_else(String::new, |pending| table(pending, STATE_COLUMNS))
}

/// Its flow entries, its states, and what else is to be known.
fn shown(policy: &Value) -> String {
    let list = |of: &str| policy.get(of).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(printable);
    let flows = list("declared").iter().map(|flow| {
        let [name, text] = ["name", "flow"].map(|of| text(flow, of).unwrap_or_default());
        format!("{name}: {}: {text}\n", printable(&switches(flow)))
    });
    let state = format!("{}\n", state(policy));
    let at = Some(list("at")).filter(|at| !at.is_empty()).map(|at| table(at, STATE_SINCE_COLUMNS));
    let not_connected = list("not_connected").iter().filter_map(Value::as_str);
    let not_connected = not_connected.map(|it| format!("switch {it} is not connected\n"));
    let retired: Vec<_> = list("retired_vlans").iter().map(ToString::to_string).collect();
    let why = text(policy, "retired_reason").map(|why| format!(" ({why})")).unwrap_or_default();
    let retired = (!retired.is_empty())
        .then(|| format!("replaced versions with entries: VLAN {}{why}\n", retired.join(", ")));
    let outdated = text(policy, "outdated").map(|why| format!("to be applied again: {why}\n"));
    flows.chain([state]).chain(at).chain(not_connected).chain(retired).chain(outdated).collect()
}

/// The switches that a flow entry selects.
fn switches(flow: &Value) -> String {
    match flow.get("switch").or_else(|| flow.get("switches")) {
        Some(Value::Array(list)) => {
            list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        one => one.and_then(Value::as_str).unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_applied_is_said_in_one_line() {
        let answer = json!({"is_changed": true, "vlan": 4000, "switches": ["1", "2"],
            "entries": {"ingress": 12, "transit": 9}});
        assert_eq!(
            applied("web", &answer, false),
            "web: in effect at 2 switches, VLAN 4000, 12 ingress and 9 transit entries\n"
        );
        assert!(applied("web", &answer, true).starts_with("web: would be in effect at 2"));
        let same = json!({"is_changed": false, "vlan": 4000, "switches": ["1"], "entries": {}});
        assert!(
            applied("web", &same, false).starts_with("web: as before at 1 switches, VLAN 4000")
        );
    }

    #[test]
    fn a_policy_is_shown_with_what_is_to_be_done_about_it() {
        let policy = json!({
            "name": "web", "state": "pending", "reason": "switch 2 is not connected",
            "declared": [{"name": "a", "switches": ["s1", "s2"], "flow": "priority=9,actions=drop"}],
            "at": [], "not_connected": ["0000000000000002"], "retired_vlans": [4001],
            "outdated": "ports, links or names of switches have changed",
        });
        assert_eq!(
            shown(&policy),
            "a: s1, s2: priority=9,actions=drop\n\
             pending: switch 2 is not connected\n\
             switch 0000000000000002 is not connected\n\
             replaced versions with entries: VLAN 4001\n\
             to be applied again: ports, links or names of switches have changed\n"
        );
    }
}
