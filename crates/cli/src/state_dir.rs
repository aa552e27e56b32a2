//! Where static entries are stored.

use std::env;
use std::path::{Path, PathBuf};

/// The directory of a service of the system.
const SYSTEM_DIR: &str = "/var/lib/sluice";

/// The directory, by default one of the system or else of the user.
pub(crate) fn state_dir(configured: &str) -> PathBuf {
    if !configured.is_empty() {
        return configured.into();
    }
    let var = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    default_dir(Path::new(SYSTEM_DIR), var("XDG_STATE_HOME"), var("HOME"))
}

fn default_dir(system: &Path, xdg_state: Option<PathBuf>, home: Option<PathBuf>) -> PathBuf {
    let of_user = xdg_state.or_else(|| home.map(|home| home.join(".local/state")));
    match of_user {
        Some(of_user) if !is_writable(system) => of_user.join("sluice"),
        _ => system.to_owned(),
    }
}

/// Whether the directory, or the one in which it would be made, can be written.
fn is_writable(dir: &Path) -> bool {
    let existing = dir.ancestors().find(|dir| dir.exists());
    existing.is_some_and(sluice_io::files::is_writable)
}
