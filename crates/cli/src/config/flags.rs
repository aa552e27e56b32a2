//! The flags that set keys.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use toml::Value;

use super::keys::{ConfigKey, FlagValue, KEYS};

/// The flags of the command line that set keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    /// The file to read.
    pub(crate) config: Option<PathBuf>,
    /// The keys that flags set; a later one overrides an earlier one.
    pub(crate) given: Vec<GivenFlag>,
}

/// A flag on the command line.
#[derive(Debug, Clone)]
pub(crate) struct GivenFlag {
    pub(crate) key: &'static ConfigKey,
    /// The name of the flag.
    pub(crate) name: &'static str,
    /// The value for the key.
    pub(crate) text: String,
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help(format!("Configuration file [default: {} if it exists]", super::DEFAULT_FILE));
        command.arg(config).args(KEYS.iter().flat_map(args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let config = matches.get_one("config").cloned();
        let given = KEYS.iter().flat_map(|key| given(key, matches)).collect();
        Ok(Self { config, given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn args(key: &'static ConfigKey) -> impl Iterator<Item = Arg> {
    key.flags.iter().map(|flag| {
        let arg = Arg::new(flag.name).long(flag.name);
        match flag.value {
            FlagValue::Given(value) => {
                // The flag of a list may be given several times.
                let action =
                    if key.default.is_array() { ArgAction::Append } else { ArgAction::Set };
                let sentence =
                    key.doc.split_once(". ").map_or(key.doc.as_str(), |(first, _)| first);
                let default = to_flag_syntax(&key.default);
                let default = match default.as_str() {
                    "" => String::new(),
                    default => format!(" [default: {default}]"),
                };
                let help = format!("{}{default}", sentence.trim_end_matches('.'));
                arg.value_name(value).action(action).help(help)
            }
            FlagValue::Fixed { help, .. } => arg.action(ArgAction::SetTrue).help(help),
        }
    })
}

/// A value in the syntax of a flag.
pub(super) fn to_flag_syntax(value: &Value) -> String {
    match value {
        Value::Boolean(true) => "on".to_owned(),
        Value::Boolean(false) => "off".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(to_flag_syntax).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn given(key: &'static ConfigKey, matches: &ArgMatches) -> impl Iterator<Item = GivenFlag> {
    key.flags.iter().filter_map(move |flag| {
        let text = match flag.value {
            FlagValue::Given(_) => {
                let parts = matches.get_many::<String>(flag.name)?;
                parts.map(String::as_str).collect::<Vec<_>>().join(",")
            }
            FlagValue::Fixed { text, .. } => {
                matches.get_flag(flag.name).then(|| text.to_owned())?
            }
        };
        Some(GivenFlag { key, name: flag.name, text })
    })
}
