//! The state directory of the service, and whether its user can use what is there.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Privileges;
use super::machine::Root;
use super::report::Finding;
use crate::state_dir::{
    AccessProblem, Obstacle, SYSTEM_DIR, access_problems, obstacle, unconfigured_dir,
};
use crate::system_user::{Accounts, FileAccess, SystemUser};

const CHECK: &str = "state";

/// The user of the service, as the package makes it.
const SERVICE_USER: &str = "sluice";

/// What is lost without a directory that can be used, and what to do.
const CHOOSE_ANOTHER: &str =
    "static entries and names cannot be stored there: choose another one with `state.dir`";

/// Checks the directory that is configured, or else the one of the service, or without a service the one that this user would get. Its user is the
/// owner of the directory: the package, and systemd at each start, make it so.
pub(super) fn check(root: &Root, configured: &str, user: Privileges) -> Vec<Finding> {
    let path = dir_path(root, configured);
    let dir = path.display();
    let owner = match fs::metadata(&path).and_then(|it| fs::read_dir(&path).map(|_| it.uid())) {
        Ok(owner) => owner,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return vec![missing(root, &path, user)];
        }
        Err(error) if user.is_denied(&error.to_string()) => {
            return vec![Finding::needs_root(CHECK, dir)];
        }
        Err(error) => {
            let message = format!("{dir} cannot be read: {error}");
            return vec![Finding::problem(CHECK, message, CHOOSE_ANOTHER)];
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

fn dir_path(root: &Root, configured: &str) -> PathBuf {
    let system = root.path(SYSTEM_DIR);
    match Path::new(configured) {
        _ if configured.is_empty() && system.exists() => system,
        _ if configured.is_empty() => unconfigured_dir(&system),
        dir if dir.is_absolute() => root.path(dir),
        // A flag may have given a relative path.
        dir => dir.to_owned(),
    }
}

/// Whether the controller can make a directory that does not exist. Its user is that of the service if root asks and there is such a user, or else this user.
fn missing(root: &Root, path: &Path, user: Privileges) -> Finding {
    let dir = path.display();
    let is_root = user == Privileges::Root;
    let service = is_root.then(|| Accounts::read(&root.0).user_named(SERVICE_USER)).flatten();
    if service.is_some() && path.starts_with(root.path(SYSTEM_DIR)) {
        let message =
            format!("{dir} does not exist: systemd makes {SYSTEM_DIR} when the service starts");
        return Finding::ok(CHECK, message);
    }
    let may = |wanted: u32, dir: &Path| {
        let permits = |user: &SystemUser| {
            fs::metadata(dir).is_ok_and(|it| user.may(wanted, FileAccess::from(&it)))
        };
        service.as_ref().is_none_or(permits)
    };
    let is_writable = |dir: &Path| {
        sluice_io::files::is_writable(dir)
            && may(3, dir)
            && dir.ancestors().skip(1).take_while(|it| it.starts_with(&root.0)).all(|it| may(1, it))
    };
    let name =
        if service.is_some() { format!("the user {SERVICE_USER}") } else { "this user".to_owned() };
    match obstacle(path, is_writable) {
        None if service.is_some() => {
            let message = format!(
                "{dir} does not exist: {name} can make it. The unit of the service permits that only with `ReadWritePaths=` of a directory above"
            );
            Finding::ok(CHECK, message)
        }
        None => {
            let message = format!(
                "{dir} does not exist: a controller of this user makes it when something is declared"
            );
            Finding::ok(CHECK, message)
        }
        Some(Obstacle::NotADirectory(file)) => {
            let message = format!("{dir} cannot be made: {} is not a directory", file.display());
            Finding::problem(CHECK, message, CHOOSE_ANOTHER)
        }
        Some(Obstacle::NotWritable(parent)) => {
            let parent = parent.display();
            let message = format!("{dir} cannot be made: {name} cannot write in {parent}");
            let advice = format!(
                "make it for the user of the controller, as root: `install -d -o USER -g GROUP {dir}`, or choose another one with `state.dir`"
            );
            Finding::problem(CHECK, message, advice)
        }
    }
}
