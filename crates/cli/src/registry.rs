//! The applications of a controller: those that come with Sluice, and those of other crates.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sluice_sdk::{AppConfig, Application, RegistryError};
use toml::Table;

/// The applications of a controller. The default are those that come with Sluice.
///
/// ```no_run
/// # use sluice_sdk::{App, Application};
/// # struct Firewall;
/// # impl App for Firewall {}
/// # impl Application for Firewall {
/// #     const NAME: &'static str = "firewall";
/// #     const DESCRIPTION: &'static str = "drops packets by their addresses";
/// #     type Config = ();
/// #     fn new((): &()) -> Self { Self }
/// #     fn configure(&mut self, (): &()) {}
/// # }
/// fn main() -> std::process::ExitCode {
///     sluice_cli::main(sluice_cli::Registry::default().with::<Firewall>())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Registry {
    all: sluice_sdk::Registry,
    /// Of applications of other crates.
    sections: Vec<AppSection>,
    errors: Vec<RegistryError>,
}

impl Default for Registry {
    fn default() -> Self {
        Self { all: sluice_apps::registry(), sections: vec![], errors: vec![] }
    }
}

impl Registry {
    /// Adds an application. It can be part of the chain (`apps` in the configuration, `--app`), and its configuration is the section
    /// `[app.NAME]`. If it cannot be added, [`main`](crate::main) prints why and ends with an error.
    ///
    /// The configuration needs a default for each key: `#[serde(default)]` on the type.
    #[must_use]
    pub fn with<A: Application>(mut self) -> Self
    where
        A::Config: Serialize + DeserializeOwned,
    {
        match self.all.register::<A>() {
            Ok(()) => self.sections.push(AppSection::of::<A>()),
            Err(error) => self.errors.push(error),
        }
        self
    }

    /// All applications, whatever crate they are of.
    pub(crate) fn all(&self) -> &sluice_sdk::Registry {
        &self.all
    }

    /// The sections of the configuration of applications of other crates.
    pub(crate) fn sections(&self) -> &[AppSection] {
        &self.sections
    }

    /// Applications that could not be added.
    pub(crate) fn errors(&self) -> &[RegistryError] {
        &self.errors
    }
}

/// The section of the configuration of an application of another crate: `[app.NAME]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppSection {
    pub(crate) name: &'static str,
    parse: fn(&Table) -> Result<AppConfig, SectionError>,
    to_table: fn(&AppConfig) -> Table,
    default: fn() -> AppConfig,
}

/// An invalid section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SectionError {
    /// Names of keys and indices of lists, from the outermost inwards.
    pub(crate) path: Vec<String>,
    pub(crate) kind: SectionErrorKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SectionErrorKind {
    /// The key at the end of the path does not exist.
    UnknownKey,
    /// The message of the deserializer about the value at the path.
    Invalid(String),
}

impl AppSection {
    fn of<A: Application>() -> Self
    where
        A::Config: Serialize + DeserializeOwned,
    {
        Self {
            name: A::NAME,
            parse: parse::<A::Config>,
            to_table: |config| {
                let table = config.get::<A::Config>().map(Table::try_from);
                table.and_then(Result::ok).unwrap_or_default()
            },
            default: || AppConfig::new(A::Config::default()),
        }
    }

    pub(crate) fn parse(&self, table: &Table) -> Result<AppConfig, SectionError> {
        (self.parse)(table)
    }

    /// The keys of a configuration with their values.
    pub(crate) fn to_table(self, config: &AppConfig) -> Table {
        (self.to_table)(config)
    }

    /// The keys with their defaults.
    pub(crate) fn defaults(&self) -> Table {
        self.to_table(&(self.default)())
    }

    /// The name in the configuration: `app.NAME`.
    pub(crate) fn path(&self) -> String {
        format!("app.{}", self.name)
    }
}

/// Deserializes a section; a key that the type does not have is an error, whether or not the type says so.
fn parse<C>(table: &Table) -> Result<AppConfig, SectionError>
where
    C: DeserializeOwned + PartialEq + std::fmt::Debug + Send + Sync + 'static,
{
    let (mut track, mut ignored) = (serde_path_to_error::Track::new(), None);
    let deserializer = serde_path_to_error::Deserializer::new(table.clone(), &mut track);
    let config: Result<C, _> = serde_ignored::deserialize(deserializer, |path| {
        ignored.get_or_insert_with(|| path_of_ignored(&path));
    });
    match (config, ignored) {
        (Ok(config), None) => Ok(AppConfig::new(config)),
        (Ok(_), Some(path)) => Err(SectionError { path, kind: SectionErrorKind::UnknownKey }),
        (Err(error), _) => Err(section_error(path_of_error(&track.path()), error.message())),
    }
}

fn section_error(mut path: Vec<String>, message: &str) -> SectionError {
    let named = |prefix: &str| {
        let rest = message.strip_prefix(prefix)?.strip_prefix('`')?;
        rest.split_once('`').map(|(name, _)| name.to_owned())
    };
    if let Some(name) = named("unknown field ") {
        if path.last() != Some(&name) {
            path.push(name);
        }
        return SectionError { path, kind: SectionErrorKind::UnknownKey };
    }
    if let Some(name) = named("missing field ") {
        path.push(name);
        let message = "no value (expected one, since it has no default)".to_owned();
        return SectionError { path, kind: SectionErrorKind::Invalid(message) };
    }
    SectionError { path, kind: SectionErrorKind::Invalid(message.to_owned()) }
}

fn path_of_error(path: &serde_path_to_error::Path) -> Vec<String> {
    use serde_path_to_error::Segment;
    let name = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { variant } => Some(variant.clone()),
        Segment::Unknown => None,
    };
    path.iter().filter_map(name).collect()
}

fn path_of_ignored(path: &serde_ignored::Path<'_>) -> Vec<String> {
    use serde_ignored::Path;
    let (mut names, mut at) = (Vec::new(), path);
    loop {
        at = match at {
            Path::Root => break,
            Path::Seq { parent, index } => {
                names.push(index.to_string());
                parent
            }
            Path::Map { parent, key } => {
                names.push(key.clone());
                parent
            }
            Path::Some { parent }
            | Path::NewtypeStruct { parent }
            | Path::NewtypeVariant { parent } => parent,
        };
    }
    names.reverse();
    names
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
    #[serde(default)]
    struct Lax {
        rate: u32,
        rules: Vec<Rule>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Rule {
        prefix: String,
    }

    fn error<C>(text: &str) -> (String, SectionErrorKind)
    where
        C: DeserializeOwned + PartialEq + std::fmt::Debug + Send + Sync + 'static,
    {
        let SectionError { path, kind } = parse::<C>(&text.parse().unwrap()).unwrap_err();
        (path.join("."), kind)
    }

    #[test]
    fn errors_name_the_key() {
        let unknown = SectionErrorKind::UnknownKey;
        assert_eq!(error::<Lax>("rat = 1"), ("rat".to_owned(), unknown.clone()));
        let rule = "rules = [{ prefix = \"a\" }, { prefix = \"a\", x = 1 }]";
        assert_eq!(error::<Lax>(rule), ("rules.1.x".to_owned(), unknown));
        let (path, kind) = error::<Lax>("rate = \"x\"");
        assert_eq!(path, "rate");
        let SectionErrorKind::Invalid(message) = kind else { panic!("{kind:?}") };
        assert!(message.starts_with("invalid type: string \"x\", expected u32"), "{message}");
        let (path, kind) = error::<Lax>("rules = [{}]");
        assert_eq!(path, "rules.0.prefix");
        assert!(
            matches!(kind, SectionErrorKind::Invalid(message) if message.starts_with("no value"))
        );
    }

    #[test]
    fn a_valid_section_is_the_configuration() {
        let config = parse::<Lax>(&"rate = 3".parse().unwrap()).unwrap();
        assert_eq!(config.get::<Lax>().unwrap().rate, 3);
        assert!(config == AppConfig::new(Lax { rate: 3, rules: vec![] }));
    }
}
