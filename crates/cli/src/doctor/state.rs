//! The state directory of the service, and whether its user can use what is there.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::Privileges;
use super::machine::Root;
use super::report::Finding;
use crate::state_dir::{AccessProblem, SYSTEM_DIR, access_problems};
use crate::system_user::Accounts;

const CHECK: &str = "state";

/// Checks the directory that is configured, or else the one of the service. Its user is the owner of the directory: the package, and systemd at
/// each start, make it so.
pub(super) fn check(root: &Root, configured: &str, user: Privileges) -> Vec<Finding> {
    let dir = if configured.is_empty() { SYSTEM_DIR } else { configured };
    // A flag may have given a relative path.
    let path = if Path::new(dir).is_absolute() { root.path(dir) } else { dir.into() };
    let owner = match fs::metadata(&path).and_then(|it| fs::read_dir(&path).map(|_| it.uid())) {
        Ok(owner) => owner,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let message = format!("{dir} does not exist: it is made when something is declared");
            return vec![Finding::ok(CHECK, message)];
        }
        Err(error) if user.is_denied(&error.to_string()) => {
            return vec![Finding::needs_root(CHECK, dir)];
        }
        Err(error) => {
            let message = format!("{dir} cannot be read: {error}");
            let advice = "static entries and names cannot be stored there: choose another one with `state.dir`";
            return vec![Finding::problem(CHECK, message, advice)];
        }
    };
    let accounts = Accounts::read(&root.0);
    let problems = access_problems(&path, &accounts.user(owner), &accounts);
    if problems.is_empty() {
        let message = format!("{dir} can be used by its owner, {}", accounts.user_name(owner));
        return vec![Finding::ok(CHECK, message)];
    }
    let problem = |it: AccessProblem| {
        Finding::problem(CHECK, it.what, format!("`{}`, then restart the controller", it.command))
    };
    problems.into_iter().map(problem).collect()
}
