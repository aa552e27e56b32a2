//! Whether a controller is installed on this machine, and which version.

use std::collections::BTreeMap;
use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sluice_io::command;

use super::{Placeholders, identity};
use crate::definition::ControllerRow;

/// Time for a version command.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);

/// Longest version that is kept; some programs print their licence as well.
const VERSION_CHARS_MAX: usize = 120;

/// A controller that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Path of its program.
    pub program: PathBuf,
    /// The first line that its version command printed.
    pub version: Option<String>,
    /// Length and hash of its program and of the files that it requires, by their names in the controller's file.
    pub files: BTreeMap<String, String>,
}

/// Looks for a controller.
///
/// # Errors
/// What is missing, as part of a sentence.
pub fn find(row: &ControllerRow, placeholders: &Placeholders) -> Result<Found, String> {
    let program = placeholders.fill(&row.start.program);
    let path = executable(&program).ok_or_else(|| format!("{program} was not found"))?;
    let mut files = BTreeMap::from([(row.start.program.clone(), identity(&path))]);
    for name in &row.start.requires {
        let file = placeholders.fill(name);
        if !Path::new(&file).exists() {
            return Err(format!("{file} was not found"));
        }
        files.insert(name.clone(), identity(Path::new(&file)));
    }
    let version = row.version.as_deref().and_then(|command| version(command, placeholders));
    Ok(Found { program: path, version, files })
}

/// The path of a program, by `PATH` unless it is a path itself.
pub(crate) fn executable(program: &str) -> Option<PathBuf> {
    let is_executable = |path: &PathBuf| {
        path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(is_executable);
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder| folder.join(program)).find(is_executable)
}

fn version(command: &[String], placeholders: &Placeholders) -> Option<String> {
    let words = placeholders.fill_all(command);
    let (program, arguments) = words.split_first()?;
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let output = command::output(program, &arguments, VERSION_TIMEOUT).ok()?;
    let text = if output.stdout.trim().is_empty() { output.stderr } else { output.stdout };
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let characters = line.chars().map(|c| if c.is_control() { ' ' } else { c });
    Some(characters.take(VERSION_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_path_and_by_name() {
        assert!(executable("sh").is_some());
        assert!(executable("/bin/sh").is_some());
        // A folder and a file without the permission are no programs.
        assert_eq!(executable("/etc"), None);
        assert_eq!(executable("/etc/passwd"), None);
        assert_eq!(executable("no-such-program-of-sluice"), None);
    }
}
