//! `sluice token`: the tokens with which programs of other machines use the API.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use sluice_io::clock;
use sluice_northbound::tokens::{Role, Token, TokenFile};

use crate::Registry;
use crate::config::{ConfigKey, ConfigSources, Flags};
use crate::write_stdout;

/// The key that names the file.
const KEY: &str = "api.tokens";

const DAY: Duration = Duration::from_secs(86_400);

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it; only its hash is stored
    Add(AddArgs),
    /// List the tokens, without their values
    List(FileArgs),
    /// Remove a token: the controller refuses it within a second
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// File of the tokens [default: `api.tokens` of the configuration]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Configuration file that names it
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Name of the program or person that gets the token
    name: String,
    /// What it permits: read (see the network), operate (also change it) or administer (also see who has tokens)
    #[arg(long)]
    role: Role,
    /// Time after which it is refused, such as 90d or 12h [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    expires: Option<Duration>,
    #[command(flatten)]
    file: FileArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Name of the token
    name: String,
    #[command(flatten)]
    file: FileArgs,
}

/// A number of days or hours.
fn duration(text: &str) -> Result<Duration, String> {
    let hour = Duration::from_secs(3600);
    let parsed = text.strip_suffix('d').map(|count| (count, DAY));
    let parsed = parsed.or_else(|| text.strip_suffix('h').map(|count| (count, hour)));
    let time = parsed.and_then(|(count, unit)| unit.checked_mul(count.parse().ok()?));
    time.filter(|time| !time.is_zero())
        .ok_or_else(|| "expected a number of days or hours, such as 90d or 12h".to_owned())
}

impl FileArgs {
    fn path(&self, registry: &Registry) -> Result<PathBuf, String> {
        if let Some(path) = &self.file {
            return Ok(path.clone());
        }
        let flags = Flags { config: self.config.clone(), ..Flags::default() };
        let loaded = ConfigSources::new(flags, registry.clone()).load().map_err(|errors| {
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        })?;
        let mut values = loaded.values();
        let value =
            values.find(|(key, ..)| key.path == KEY).and_then(|(_, value, _)| value.as_str());
        value.filter(|path| !path.is_empty()).map(Into::into).ok_or_else(|| {
            let variable = ConfigKey::find(KEY).map(ConfigKey::env).unwrap_or_default();
            format!("no file of tokens: set {KEY} in the configuration ({variable}), or name it with --file")
        })
    }
}

impl TokenCommand {
    pub(crate) fn run(&self, registry: &Registry) -> Result<(), String> {
        match self {
            Self::Add(args) => args.run(registry),
            Self::List(file) => list(file, registry),
            Self::Remove(args) => args.run(registry),
        }
    }
}

impl AddArgs {
    fn run(&self, registry: &Registry) -> Result<(), String> {
        let path = self.file.path(registry)?;
        let now = clock::since_epoch();
        let (text, token) = Token::generate(&self.name, self.role, now, self.expires)?;
        TokenFile::update(&path, |tokens| {
            if tokens.iter().any(|other| other.name == token.name) {
                return Err(format!("there is a token {:?}: remove it first", token.name));
            }
            tokens.push(token);
            Ok(())
        })?;
        write_stdout(&format!("{text}\n"))
    }
}

impl RemoveArgs {
    fn run(&self, registry: &Registry) -> Result<(), String> {
        let path = self.file.path(registry)?;
        TokenFile::update(&path, |tokens| {
            let before = tokens.len();
            tokens.retain(|token| token.name != self.name);
            if tokens.len() < before {
                return Ok(());
            }
            Err(format!("{} has no token {:?}", path.display(), self.name))
        })
    }
}

fn list(file: &FileArgs, registry: &Registry) -> Result<(), String> {
    let path = file.path(registry)?;
    let file = TokenFile::load(&path).map_err(|error| error.to_string())?;
    let now = clock::since_epoch();
    let mut text = format!("{:<24}  {:<10}  EXPIRES\n", "NAME", "ROLE");
    for token in file.tokens() {
        let expires = match token.expires_unix_s {
            None => "never".to_owned(),
            Some(_) if token.is_expired(now) => "has expired".to_owned(),
            Some(at) => {
                let left = at.saturating_sub(now.as_secs());
                format!("in {} d {} h", left / 86_400, left % 86_400 / 3600)
            }
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<24}  {:<10}  {expires}", token.name, token.role.to_string());
    }
    write_stdout(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_of_days_or_hours() {
        assert_eq!(duration("90d"), Ok(90 * DAY));
        assert_eq!(duration("12h"), Ok(DAY / 2));
        for text in ["", "d", "90", "0d", "-1d", "1.5h", "99999999999d", "4294967295m"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
