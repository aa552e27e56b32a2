//! A controller as a file: where it comes from, how it is started, asked and stopped.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::axis::{Axis, AxisValue, Cell};

/// A controller that a study measures. `study/controllers/NAME.toml`.
///
/// Texts of [`Start`], [`Northbound`] and `version` may contain placeholders, which [`crate::process`] replaces: `{port}`, `{api_port}`,
/// `{threads}`, `{cores}` (a list such as `0,1`), `{directory}` (an empty directory, in which the controller runs), `{home}` (where
/// controllers are installed) and `{sluice}` (this program).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerRow {
    /// Name in figures and tables.
    pub title: String,
    /// Where it comes from, and how one gets it.
    pub source: String,
    /// The application that answers packet-ins, and after a colon what it does.
    pub application: String,
    /// Programming language.
    pub language: String,
    /// OpenFlow versions that it speaks, `1.0` to `1.5`; the first is measured, except by cbench.
    pub openflow: Vec<String>,
    /// The greatest number of threads that handle messages; `None` if an option sets it.
    #[serde(default)]
    pub threads_max: Option<u32>,
    /// Seconds of load after which it has its full speed, as programs with a just-in-time compiler need them.
    #[serde(default)]
    pub warm_up_s: f64,
    /// Command that prints the version.
    #[serde(default)]
    pub version: Option<Vec<String>>,
    /// How it is started.
    pub start: Start,
    /// When it is ready.
    #[serde(default)]
    pub ready: Ready,
    /// How it is stopped.
    #[serde(default)]
    pub stop: Stop,
    /// How it is asked for its topology, and for paths.
    #[serde(default)]
    pub northbound: Option<Northbound>,
    /// Its other configurations by name, for experiments that compare these.
    #[serde(default)]
    pub variants: BTreeMap<String, Variant>,
}

/// Another configuration of a controller. In a file, a list of arguments, or a table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "VariantInFile")]
pub struct Variant {
    /// Further arguments.
    pub arguments: Vec<String>,
    /// Further environment variables. They replace those of [`Start::environment`] with the same name.
    pub environment: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "neither a list of arguments nor a table of `arguments` and `environment`"
)]
enum VariantInFile {
    Arguments(Vec<String>),
    Table(VariantTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VariantTable {
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
}

impl From<VariantInFile> for Variant {
    fn from(from: VariantInFile) -> Self {
        match from {
            VariantInFile::Arguments(arguments) => Self { arguments, ..Self::default() },
            VariantInFile::Table(VariantTable { arguments, environment }) => {
                Self { arguments, environment }
            }
        }
    }
}

impl ControllerRow {
    /// The application without what it does.
    pub fn application_name(&self) -> &str {
        self.application.split_once(':').map_or(&*self.application, |(name, _)| name)
    }

    /// Whether its start depends on the number of threads that a cell asks for.
    pub(crate) fn sets_threads(&self, variant: &Variant) -> bool {
        let start = &self.start;
        let mut texts = [&start.program]
            .into_iter()
            .chain(&start.arguments)
            .chain(start.environment.values())
            .chain(start.files.values())
            .chain(&start.then)
            .chain(&variant.arguments)
            .chain(variant.environment.values());
        texts.any(|text| text.contains("{threads}"))
    }

    /// The variant that a cell names; the empty one if it names none.
    pub fn variant(&self, cell: &Cell) -> Variant {
        match cell.get(&Axis::Variant) {
            Some(AxisValue::Text(name)) => self.variants.get(name).cloned().unwrap_or_default(),
            _ => Variant::default(),
        }
    }
}

fn two() -> u32 {
    2
}

/// How a controller is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: String,
    /// Fixed port on which it accepts switches; without it, `{port}` in the arguments sets the port.
    #[serde(default)]
    pub port: Option<u16>,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Environment variables in addition to those of the study.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Files without which it does not start. The controller counts as not found if one is missing.
    #[serde(default)]
    pub requires: Vec<String>,
    /// Files that are written into `{directory}` before the start, by name.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Command of the shell that is run once in `{directory}` after the controller has got ready, for example to activate an application.
    #[serde(default)]
    pub then: Option<String>,
}

/// When a controller is ready: its port accepts, a handshake completes, and a probe packet is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ready {
    /// Seconds after which the start has failed.
    pub timeout_s: f64,
    /// Whether a packet-in of a single switch must be answered.
    pub probe: bool,
    /// Seconds between the answer and the first measurement.
    pub settle_s: f64,
}

impl Default for Ready {
    fn default() -> Self {
        Self { timeout_s: 30.0, probe: true, settle_s: 0.0 }
    }
}

/// How a controller is stopped: by a signal, and after a time limit by `SIGKILL` to all its processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stop {
    /// The signal: `TERM` or `INT`.
    pub signal: StopSignal,
    /// Seconds until all processes are killed.
    pub grace_s: f64,
}

impl Default for Stop {
    fn default() -> Self {
        Self { signal: StopSignal::Term, grace_s: 5.0 }
    }
}

/// The signal that asks a controller to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StopSignal {
    /// `SIGTERM`.
    Term,
    /// `SIGINT`.
    Int,
}

/// How a controller is asked over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Northbound {
    /// The request that lists its switches.
    pub switches: HttpCount,
    /// The request that lists its links.
    pub links: HttpCount,
    /// Members of that list for one link: 2 if it has each direction apart, 1 if it has both together.
    #[serde(default = "two")]
    pub members_per_link: u32,
    /// The request that installs a path, if there is one.
    #[serde(default)]
    pub path: Option<PathRequest>,
}

/// A request whose answer is counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpCount {
    /// The address, of a `GET`.
    pub url: String,
    /// JSON pointer (RFC 6901) to the array or object whose members are counted; empty for the whole answer.
    #[serde(default)]
    pub at: String,
    /// User and password, as `user:password`.
    #[serde(default)]
    pub login: Option<String>,
}

/// A request that installs a path, or one or all of its flow entries.
///
/// Address, body and entry may also contain `{name}` (letters, digits and hyphens, unique to the switch and the path), `{dpid}`
/// (decimal), `{dpid_hex}` (16 digits), `{dpid_colons}` (in pairs), `{in_port}`, `{out_port}`, `{src_mac}` and `{dst_mac}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathRequest {
    /// What one request is about.
    pub per: PathRequestScope,
    /// The method, such as `POST`.
    pub method: String,
    /// The address.
    pub url: String,
    /// The body, JSON.
    #[serde(default)]
    pub body: String,
    /// One flow entry, for [`PathRequestScope::Entries`].
    #[serde(default)]
    pub entry: String,
    /// User and password, as `user:password`.
    #[serde(default)]
    pub login: Option<String>,
}

/// What one request for a path is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathRequestScope {
    /// The flow entry of one switch in one direction.
    Entry,
    /// The flow entries of all switches in one direction. `{entries}` in the body stands for all of them, separated by commas.
    Entries,
    /// The whole path in both directions; the placeholders of switches and ports are those of the first host.
    Path,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(text: &str) -> Result<Variant, String> {
        let parsed = toml::from_str::<BTreeMap<String, Variant>>(text);
        parsed.map(|mut all| all.remove("v").unwrap()).map_err(|e| e.message().to_owned())
    }

    #[test]
    fn a_variant_is_a_list_of_arguments_or_a_table() {
        let arguments = vec!["--pin".to_owned(), "off".to_owned()];
        let of_arguments = Variant { arguments, ..Variant::default() };
        assert_eq!(variant("v = [\"--pin\", \"off\"]").as_ref(), Ok(&of_arguments));
        let environment = BTreeMap::from([("A".to_owned(), "b".to_owned())]);
        let both = Variant { environment, ..of_arguments };
        let table = "v = { arguments = [\"--pin\", \"off\"], environment = { A = \"b\" } }";
        assert_eq!(variant(table).as_ref(), Ok(&both));
        // As in the record of a study.
        let recorded = serde_json::to_string(&both).unwrap();
        assert_eq!(serde_json::from_str::<Variant>(&recorded).unwrap(), both);
        for text in ["v = 1", "v = { argument = [] }"] {
            let error = variant(text).unwrap_err();
            assert_eq!(
                error,
                "neither a list of arguments nor a table of `arguments` and `environment`"
            );
        }
    }
}
