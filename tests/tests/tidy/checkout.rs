//! The files of the checkout, as git lists them, and the packages, as cargo lists them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Root folder of the checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A text file and its path from the root.
#[derive(Debug)]
pub(crate) struct CheckoutFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl CheckoutFile {
    /// Whether its name ends with one of `endings`.
    pub(crate) fn is_any(&self, endings: &[&str]) -> bool {
        endings.iter().any(|ending| self.path.ends_with(ending))
    }

    /// Its lines, each with its location, for example `src/lib.rs:12`.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (String, &str)> {
        let location = |(n, line)| (format!("{}:{}", self.path, n + 1), line);
        self.text.lines().enumerate().map(location)
    }
}

/// Paths that git tracks, and untracked ones that it does not ignore.
pub(crate) fn paths() -> Vec<String> {
    let listing = output_of(Command::new("git").current_dir(root()).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]));
    listing.lines().map(str::to_owned).collect()
}

/// All text files (UTF-8) that exist.
pub(crate) fn files() -> Vec<CheckoutFile> {
    let read = |path: String| fs::read_to_string(root().join(&path)).ok().map(|text| (path, text));
    paths().into_iter().filter_map(read).map(|(path, text)| CheckoutFile { path, text }).collect()
}

/// One text file.
///
/// # Panics
/// When it does not exist.
pub(crate) fn file(path: &str) -> CheckoutFile {
    let text = fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    CheckoutFile { path: path.to_owned(), text }
}

/// All packages in the dependency tree of `manifest`, for any platform.
pub(crate) fn packages(manifest: &str) -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = root().join(manifest);
    let json = output_of(
        Command::new(cargo)
            .args(["metadata", "--locked", "--format-version", "1", "--manifest-path"])
            .arg(manifest),
    );
    let metadata: Value = serde_json::from_str(&json).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// A string field.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Fails if there are `faults`, and prints them, one per line.
#[track_caller]
pub(crate) fn assert_none(faults: &[String], rule: &str) {
    assert!(faults.is_empty(), "{rule}:\n  {}", faults.join("\n  "));
}
