//! `sluice completions` and `sluice man`: completions for shells, and manual pages, from the definition of the command line.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::{Shell, generate};

/// The shells that complete words.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum CompletedShell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: CompletedShell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder into which the pages are written; it is created if it does not exist
    directory: PathBuf,
}

impl CompletionsArgs {
    /// The script that a shell reads.
    pub(crate) fn text(&self, command: &mut Command) -> String {
        let shell = match self.shell {
            CompletedShell::Bash => Shell::Bash,
            CompletedShell::Zsh => Shell::Zsh,
            CompletedShell::Fish => Shell::Fish,
        };
        let (name, mut script) = (command.get_name().to_owned(), Vec::new());
        generate(shell, command, name, &mut script);
        String::from_utf8_lossy(&script).into_owned()
    }
}

impl ManArgs {
    /// Writes a page for the program and for each of its commands.
    pub(crate) fn write(&self, command: Command) -> Result<(), String> {
        let failed = |path: &Path, e: &io::Error| format!("cannot write {}: {e}", path.display());
        fs::create_dir_all(&self.directory).map_err(|e| failed(&self.directory, &e))?;
        clap_mangen::generate_to(command, &self.directory).map_err(|e| failed(&self.directory, &e))
    }
}
