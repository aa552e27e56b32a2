//! The flags that set keys, read off the rows.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

use super::rows::{ROWS, Row};

/// What was said on the command line about the configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    /// The file to read.
    pub(crate) config: Option<PathBuf>,
    /// The keys that flags set.
    pub(crate) given: Vec<Given>,
}

/// A key with the value that a flag sets.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    pub(crate) row: &'static Row,
    /// The name of the flag.
    pub(crate) flag: &'static str,
    pub(crate) text: String,
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help(format!("File to read [default: {} if it is there]", super::FILE));
        command.arg(config).args(ROWS.iter().flat_map(args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let config = matches.get_one("config").cloned();
        let given = ROWS.iter().flat_map(|row| given(row, matches)).collect();
        Ok(Self { config, given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flags of a key, if it has any.
fn args(row: &'static Row) -> impl Iterator<Item = Arg> {
    let takes = row.flag.map(|flag| {
        // A list may be given in parts; anything else once.
        let action = if row.default.starts_with('[') { ArgAction::Append } else { ArgAction::Set };
        let help = format!("{} [default: {}]", row.doc.trim_end_matches('.'), as_given(row));
        Arg::new(flag.name).long(flag.name).value_name(flag.value).action(action).help(help)
    });
    let sets = row.switch.map(|switch| {
        Arg::new(switch.name).long(switch.name).action(ArgAction::SetTrue).help(switch.help)
    });
    takes.into_iter().chain(sets)
}

/// The default of a key as its flag takes it.
pub(super) fn as_given(row: &Row) -> String {
    match row.default {
        "true" => "on".to_owned(),
        "false" => "off".to_owned(),
        list if list.starts_with('[') => {
            let list = list.trim_start_matches('[').trim_end_matches(']');
            list.replace('"', "").replace(", ", ",")
        }
        other => other.trim_matches('"').to_owned(),
    }
}

/// What the flags of a key set; the one without a value counts last.
fn given(row: &'static Row, matches: &ArgMatches) -> impl Iterator<Item = Given> {
    let takes = row.flag.and_then(|flag| {
        let parts: Vec<_> = matches.get_many::<String>(flag.name)?.map(String::as_str).collect();
        Some(Given { row, flag: flag.name, text: parts.join(",") })
    });
    let sets = row.switch.filter(|switch| matches.get_flag(switch.name));
    let sets = sets.map(|switch| Given { row, flag: switch.name, text: switch.sets.to_owned() });
    takes.into_iter().chain(sets)
}
