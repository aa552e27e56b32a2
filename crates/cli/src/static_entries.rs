//! `sluice flow`, `sluice apply` and `sluice diff`: static entries of a running controller, through its API.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Map, Value, json};

use crate::api_client::{ApiArgs, encode};
use crate::declared_file::{DeclaredFile, Format};
use crate::show::{Column, printable, table};
use crate::{EXIT_FAILURE, print_error, write_stdout};

/// The exit code of `diff` after an error: 1 means that there are differences.
const EXIT_TROUBLE: u8 = 2;

/// Entries of each kind that are printed if they are not installed.
const PRINTED_MAX: &str = "100";

/// Entries that are asked for at once.
const PAGE: usize = 10_000;
const PAGE_TEXT: &str = "10000";

#[derive(Debug, Args)]
struct OutputArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Print the JSON of the API.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FlowCommand {
    /// Declare a flow entry, and wait until the switches have it
    Add(AddArgs),
    /// Remove a flow entry
    Del(EntryArgs),
    /// List the declared flow entries and their state
    List(ListArgs),
    /// Show a declared flow entry, its state in each switch, and since when
    Show(EntryArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Name or datapath id of the switch, several with commas, or `all`
    switch: String,
    /// The flow entry, in the syntax of `ovs-ofctl add-flow`
    flow: String,
    /// Name of the entry; an entry with this name is replaced [default: made from the flow entry]
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct EntryArgs {
    /// Name of the entry
    name: String,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only entries of this switch, by name or datapath id
    #[arg(long)]
    switch: Option<String>,
    /// Only entries in this state: installed, pending or refused
    #[arg(long)]
    state: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// File with all static entries and names, in TOML, YAML (`.yaml`, `.yml`) or JSON (`.json`); `-` is standard input
    file: PathBuf,
    /// Format of the file, whatever its name
    #[arg(long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Change all connected switches or none: if one refuses its part, nothing is changed anywhere
    #[arg(long)]
    atomic: bool,
}

/// What is printed, and whether the command has found what it was to find.
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) is_success: bool,
}

/// Prints the result of a command; the exit code of an error is that of a failure.
pub(crate) fn report(result: Result<Report, String>) -> ExitCode {
    report_with(result, EXIT_FAILURE)
}

/// Prints differences; the exit codes are those of `diff`: 0 if there is none, 1 if there are some, 2 after an error.
pub(crate) fn report_differences(result: Result<Report, String>) -> ExitCode {
    report_with(result, EXIT_TROUBLE)
}

fn report_with(result: Result<Report, String>, error_code: u8) -> ExitCode {
    let result = result.and_then(|report| write_stdout(&report.text).map(|()| report.is_success));
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_FAILURE),
        Err(error) => {
            print_error(&error);
            ExitCode::from(error_code)
        }
    }
}

const ENTRY_COLUMNS: &[Column] = &[
    Column::text("NAME", "/name"),
    Column::text("SWITCHES", "/switches"),
    Column::new("STATE", "/state"),
    Column::time("SINCE", "/since_unix_s"),
    Column::text("REASON", "/reason"),
    Column::below("ENTRY", "/flow"),
];

/// The state of something declared just now.
pub(crate) const STATE_COLUMNS: &[Column] = &[
    Column::new("DPID", "/dpid"),
    Column::text("SWITCH", "/switch"),
    Column::new("STATE", "/state"),
    Column::text("REASON", "/reason"),
];

pub(crate) const STATE_SINCE_COLUMNS: &[Column] = &[
    Column::new("DPID", "/dpid"),
    Column::text("SWITCH", "/switch"),
    Column::new("STATE", "/state"),
    Column::time("SINCE", "/since_unix_s"),
    Column::text("REASON", "/reason"),
];

const LEFT_COLUMNS: &[Column] = &[
    Column::new("DPID", "/dpid"),
    Column::new("STATE", "/state"),
    Column::text("REASON", "/reason"),
];

impl FlowCommand {
    pub(crate) fn run(&self) -> Result<Report, String> {
        match self {
            Self::Add(args) => args.run(),
            Self::Del(args) => args.delete(),
            Self::List(args) => args.run(),
            Self::Show(args) => args.show(),
        }
    }
}

impl AddArgs {
    fn run(&self) -> Result<Report, String> {
        let switches = match self.switch.split(',').map(str::trim).collect::<Vec<_>>().as_slice() {
            ["all"] => json!("all"),
            list => json!(list),
        };
        let name = self.name.clone().unwrap_or_else(|| default_name(&self.switch, &self.flow));
        let body = json!({"switches": switches, "flow": self.flow});
        let path = format!("/v1/static/flows/{}", encode(&name));
        let answer = self.output.call(&Method::PUT, &path, &[("wait", "true")], Some(&body))?;
        let is_success = is_accepted(&answer);
        if self.output.json {
            return Ok(Report { text: format!("{answer}\n"), is_success });
        }
        let at = answer.get("at").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut text = format!("{name}: {}\n", state(&answer));
        if at.is_empty() {
            let of = if self.switch == "all" { "" } else { " with this name or datapath id" };
            text.push_str("no switch");
            text.push_str(of);
            text.push_str(" is connected: the entry is installed when one connects\n");
        } else {
            text.push_str(&same_names(&self.switch, at));
            text.push_str(&table(at, STATE_COLUMNS));
        }
        Ok(Report { text, is_success })
    }
}

impl EntryArgs {
    fn path(&self) -> String {
        format!("/v1/static/flows/{}", encode(&self.name))
    }

    fn show(&self) -> Result<Report, String> {
        let entry = self.output.call(&Method::GET, &self.path(), &[], None)?;
        if self.output.json {
            return Ok(Report { text: format!("{entry}\n"), is_success: true });
        }
        let at = entry.get("at").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let flow = entry.get("flow").and_then(Value::as_str).map(printable).unwrap_or_default();
        let mut text = format!("{flow}\n");
        if !at.is_empty() {
            text += &table(at, STATE_SINCE_COLUMNS);
        }
        let others = entry.get("not_connected").and_then(Value::as_array).into_iter().flatten();
        let others: Vec<_> = others.filter_map(Value::as_str).map(printable).collect();
        if at.is_empty() && others.is_empty() {
            text += "no switch is connected\n";
        } else if !others.is_empty() {
            text.extend(["not connected: ", &others.join(", "), "\n"]);
        }
        Ok(Report { text, is_success: true })
    }

    fn delete(&self) -> Result<Report, String> {
        let answer = self.output.call(&Method::DELETE, &self.path(), &[("wait", "true")], None)?;
        let query = [("limit", PAGE_TEXT)];
        let list = self.output.call(&Method::GET, "/v1/static/flows", &query, None)?;
        let removals = list.get("removing").and_then(Value::as_array).into_iter().flatten();
        let is_this = |it: &&Value| it.get("name").and_then(Value::as_str) == Some(&self.name);
        let left: Vec<_> = removals.filter(is_this).cloned().collect();
        let text = match (self.output.json, left.is_empty()) {
            (true, _) => format!("{answer}\n"),
            (false, true) => String::new(),
            (false, false) => {
                format!("{}: not removed everywhere\n{}", self.name, table(&left, LEFT_COLUMNS))
            }
        };
        Ok(Report { text, is_success: left.is_empty() })
    }
}

impl ListArgs {
    fn run(&self) -> Result<Report, String> {
        let mut entries = vec![];
        loop {
            let offset = entries.len().to_string();
            let mut query = vec![("limit", PAGE_TEXT), ("offset", offset.as_str())];
            query.extend(self.switch.iter().map(|it| ("switch", it.as_str())));
            query.extend(self.state.iter().map(|it| ("state", it.as_str())));
            let mut page = self.output.call(&Method::GET, "/v1/static/flows", &query, None)?;
            let Some(Value::Array(list)) = page.get_mut("entries").map(Value::take) else { break };
            let count = list.len();
            entries.extend(list);
            if count < PAGE {
                break;
            }
        }
        if self.output.json {
            let text = format!("{}\n", json!({"entries": entries}));
            return Ok(Report { text, is_success: true });
        }
        for entry in &mut entries {
            let since = since(entry);
            let Some(entry) = entry.as_object_mut() else { continue };
            entry.insert("since_unix_s".to_owned(), since.into());
            if let Some(switch) = entry.remove("switch") {
                entry.insert("switches".to_owned(), switch);
            }
        }
        Ok(Report { text: table(&entries, ENTRY_COLUMNS), is_success: true })
    }
}

impl ApplyArgs {
    pub(crate) fn run(&self) -> Result<Report, String> {
        let how = if self.atomic { "atomic" } else { "wait" };
        let answer = self.file.put(&[(how, "true")])?;
        let is_json = self.file.output.json;
        let text = if is_json { format!("{answer}\n") } else { changes(&answer) };
        let state = answer.get("state").cloned().unwrap_or_default();
        let count = |name| state.get(name).and_then(Value::as_u64).unwrap_or_default();
        for name in ["refused", "pending"].into_iter().filter(|&name| count(name) > 0) {
            self.file.print_entries(name)?;
        }
        let is_settled = state.get("is_settled").and_then(Value::as_bool) == Some(true);
        if !is_settled {
            print_error("not all switches have answered: `sluice flow list --state pending`");
        }
        Ok(Report { text, is_success: is_settled && count("refused") + count("pending") == 0 })
    }
}

impl FileArgs {
    pub(crate) fn diff(&self) -> Result<Report, String> {
        let answer = self.put(&[("dry_run", "true")])?;
        let is_same = answer.get("changes").and_then(Value::as_array).is_none_or(Vec::is_empty);
        let text = if self.output.json { format!("{answer}\n") } else { changes(&answer) };
        Ok(Report { text, is_success: is_same })
    }

    fn put(&self, query: &[(&str, &str)]) -> Result<Value, String> {
        let file = DeclaredFile::read(&self.file, self.format)?;
        let answer = self.output.call(&Method::PUT, "/v1/declared", query, Some(&file.document));
        answer.map_err(|error| file.locate(error))
    }

    /// Prints entries in a state, and why they are in it.
    fn print_entries(&self, in_state: &str) -> Result<(), String> {
        for kind in ["meters", "groups", "flows"] {
            let path = format!("/v1/static/{kind}");
            let query = [("state", in_state), ("limit", PRINTED_MAX)];
            let page = self.output.call(&Method::GET, &path, &query, None)?;
            let entries = page.get("entries").and_then(Value::as_array);
            for entry in entries.into_iter().flatten() {
                let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
                print_error(&format!("{name}: {}", state(entry)));
            }
        }
        Ok(())
    }
}

impl OutputArgs {
    fn call(
        &self,
        method: &Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Value, String> {
        self.api.client()?.send_json(method, path, query, body)
    }
}

/// Whether all switches have an entry that are connected. One that is not gets it when it connects.
fn is_accepted(entry: &Value) -> bool {
    let is = |of: &Value, state| of.get("state").and_then(Value::as_str) == Some(state);
    let at = entry.get("at").and_then(Value::as_array);
    !is(entry, "refused") && at.into_iter().flatten().all(|at| is(at, "installed"))
}

/// What to know if the selected names are those of more switches: an entry is installed in all of them.
fn same_names(selected: &str, at: &[Value]) -> String {
    let names = selected.split(',').count();
    if selected == "all" || at.len() <= names {
        return String::new();
    }
    format!(
        "{selected} selects {} connected switches, since several have the same name: use datapath ids to select fewer\n",
        at.len()
    )
}

/// Since when an entry is in its state as a whole: with `installed` since the last switch has it, otherwise since the first one that
/// is connected has not. `None` if the switches are not connected.
fn since(entry: &Value) -> Option<f64> {
    let state = entry.get("state")?.as_str()?;
    let is_same = |at: &&Value| at.get("state").and_then(Value::as_str) == Some(state);
    let at = entry.get("at")?.as_array()?.iter().filter(is_same);
    let times = at.filter_map(|at| at.get("since_unix_s")?.as_f64());
    times.reduce(if state == "installed" { f64::max } else { f64::min })
}

/// `installed`, or `refused: REASON`.
pub(crate) fn state(entry: &Value) -> String {
    let text = |name| entry.get(name).and_then(Value::as_str);
    let state = text("state").unwrap_or("unknown");
    text("reason").map_or_else(|| state.to_owned(), |reason| format!("{state}: {reason}"))
}

/// One line for each change, or two if something is replaced.
fn changes(answer: &Value) -> String {
    let list = answer.get("changes").and_then(Value::as_array);
    let line = |change: &Map<String, Value>| {
        let text = |name: &str| change.get(name).and_then(Value::as_str);
        let what = [text("kind").unwrap_or_default(), text("name").unwrap_or_default()].join(" ");
        let line = |sign, value: &str| format!("{sign} {what}: {value}\n");
        let before = text("before").map(|it| line('-', it)).unwrap_or_default();
        before + &text("after").map(|it| line('+', it)).unwrap_or_default()
    };
    list.into_iter().flatten().filter_map(Value::as_object).map(line).collect()
}

/// A name for an entry that was given none: the same for the same entry, so that it is not declared twice.
fn default_name(switch: &str, flow: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let text = format!("{switch}-{flow}");
    let name: String = text.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    if name.len() <= NAME_LEN_MAX {
        return name;
    }
    // The beginning, and what tells it from others that begin like it.
    let start: String = name.chars().take(NAME_LEN_MAX - 17).collect();
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{start}-{hash:016x}")
}

/// Characters of a name.
const NAME_LEN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_from_entries() {
        assert_eq!(default_name("s1", "ip,actions=drop"), "s1-ip-actions-drop");
        let long = "priority=200,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_dst=80,actions=";
        let [a, b] =
            ["drop", "output:1"].map(|actions| default_name("s1", &format!("{long}{actions}")));
        assert_ne!(a, b);
        assert_eq!([a.len(), b.len()], [NAME_LEN_MAX; 2]);
    }

    #[test]
    fn an_entry_that_a_connected_switch_does_not_have_is_a_failure() {
        let at = |state: &str| json!({"dpid": "1", "state": state});
        for (state, at, expected) in [
            ("installed", json!([at("installed")]), true),
            ("pending", json!([]), true),
            ("pending", json!([at("installed")]), true),
            ("pending", json!([at("installed"), at("pending")]), false),
            ("refused", json!([at("refused")]), false),
        ] {
            let entry = json!({"state": state, "at": at});
            assert_eq!(is_accepted(&entry), expected, "{entry}");
        }
    }

    #[test]
    fn an_entry_is_in_its_state_since_the_last_switch_has_it_or_the_first_has_not() {
        let at = |state: &str, since: f64| json!({"state": state, "since_unix_s": since});
        for (state, at, expected) in [
            ("installed", json!([at("installed", 3.5), at("installed", 2.0)]), Some(3.5)),
            (
                "refused",
                json!([at("installed", 1.0), at("refused", 5.0), at("refused", 4.0)]),
                Some(4.0),
            ),
            ("pending", json!([at("installed", 1.0)]), None),
            ("pending", json!([]), None),
        ] {
            let entry = json!({"state": state, "at": at});
            assert_eq!(since(&entry), expected, "{entry}");
        }
    }

    #[test]
    fn a_name_of_several_switches_is_reported() {
        let at = ["1", "2"].map(|dpid| json!({"dpid": dpid, "switch": "s1", "state": "installed"}));
        assert!(same_names("s1", &at).starts_with("s1 selects 2 connected switches"));
        for (selected, at) in [("s1", &at[..1]), ("s1,s2", &at), ("all", &at), ("s1", &[])] {
            assert_eq!(same_names(selected, at), "", "{selected}");
        }
    }

    #[test]
    fn changes_are_listed_like_those_of_a_plan() {
        let answer = json!({"changes": [
            {"kind": "flow", "name": "a", "before": null, "after": "s1: actions=drop"},
            {"kind": "flow", "name": "b", "before": "s1: x", "after": "s1: y"},
            {"kind": "group", "name": "c", "before": "all: z", "after": null},
        ]});
        let expected =
            "+ flow a: s1: actions=drop\n- flow b: s1: x\n+ flow b: s1: y\n- group c: all: z\n";
        assert_eq!(changes(&answer), expected);
    }
}
