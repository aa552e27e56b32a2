//! The flags that set keys, read off the rows.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

use super::Row;
use super::rows::{Flag, ROWS};

/// What was said on the command line about the configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    /// The file to read.
    pub(crate) config: Option<PathBuf>,
    /// Keys, and the text that was given for each.
    pub(crate) given: Vec<(&'static Row, String)>,
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help(format!("File to read [default: {} if it is there]", super::FILE));
        command.arg(config).args(ROWS.iter().filter_map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let config = matches.get_one("config").cloned();
        let given = ROWS.iter().filter_map(|row| Some((row, text(row, matches)?))).collect();
        Ok(Self { config, given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn arg(row: &'static Row) -> Option<Arg> {
    match row.flag {
        Flag::None => None,
        Flag::Takes(name, value) => {
            // A list may be given in parts; anything else once.
            let action =
                if row.default.starts_with('[') { ArgAction::Append } else { ArgAction::Set };
            let help = format!("{} [default: {}]", row.doc.trim_end_matches('.'), as_given(row));
            Some(Arg::new(row.key).long(name).value_name(value).action(action).help(help))
        }
        Flag::Off(name, does) => {
            Some(Arg::new(row.key).long(name).action(ArgAction::SetTrue).help(does))
        }
    }
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

fn text(row: &Row, matches: &ArgMatches) -> Option<String> {
    match row.flag {
        Flag::None => None,
        Flag::Takes(..) => {
            let parts: Vec<_> = matches.get_many::<String>(row.key)?.map(String::as_str).collect();
            Some(parts.join(","))
        }
        Flag::Off(..) => matches.get_flag(row.key).then(|| "false".to_owned()),
    }
}
