//! Where static entries are stored, and who can use what is there.

use std::env;
use std::fs::{self, DirEntry};
use std::path::{self, Path, PathBuf};

use sluice_base::sort_by;
use tracing::{error, warn};

use crate::system_user::{Accounts, FileAccess, SystemUser};

/// The directory of a service of the system.
pub(crate) const SYSTEM_DIR: &str = "/var/lib/sluice";

/// How the names of the files of the store begin.
const STORE: &str = "static.redb";

/// The directory, by default one of the system or else of the user.
pub(crate) fn state_dir(configured: &str) -> PathBuf {
    if configured.is_empty() { unconfigured_dir(Path::new(SYSTEM_DIR)) } else { configured.into() }
}

/// The directory if none is configured: `system`, or else one of the user.
pub(crate) fn unconfigured_dir(system: &Path) -> PathBuf {
    let var = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    default_dir(system, var("XDG_STATE_HOME"), var("HOME"))
}

fn default_dir(system: &Path, xdg_state: Option<PathBuf>, home: Option<PathBuf>) -> PathBuf {
    let of_user = xdg_state.or_else(|| home.map(|home| home.join(".local/state")));
    match of_user {
        Some(of_user) if obstacle(system, sluice_io::files::is_writable).is_some() => {
            of_user.join("sluice")
        }
        _ => system.to_owned(),
    }
}

/// What keeps this process from making a directory, or files in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A part of the path exists, and is not a directory.
    NotADirectory(PathBuf),
    /// The nearest directory that exists cannot be written.
    NotWritable(PathBuf),
}

/// What keeps this process from making a directory, or files in it if it exists. `is_writable` says in which directories it may make files.
pub(crate) fn obstacle(dir: &Path, is_writable: impl Fn(&Path) -> bool) -> Option<Obstacle> {
    let dir = path::absolute(dir).ok()?;
    // A symbolic link to nothing is in the way, too.
    let existing = dir.ancestors().find(|it| it.symlink_metadata().is_ok())?;
    if !existing.is_dir() {
        Some(Obstacle::NotADirectory(existing.to_owned()))
    } else if !is_writable(existing) {
        Some(Obstacle::NotWritable(existing.to_owned()))
    } else {
        None
    }
}

/// What keeps a user from using the state directory, and the command that mends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccessProblem {
    pub(crate) what: String,
    pub(crate) command: String,
}

/// The state directory, or a file of the store in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StateFile {
    path: PathBuf,
    is_dir: bool,
    access: FileAccess,
}

impl StateFile {
    /// `None` if it does not exist.
    fn at(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let access = FileAccess::from(&metadata);
        Some(Self { path: path.to_owned(), is_dir: metadata.is_dir(), access })
    }

    /// What keeps the user from using it.
    fn problem(&self, user: &SystemUser, accounts: &Accounts) -> Option<AccessProblem> {
        let (wanted, verb, missing) = if self.is_dir {
            (7, "make files in it", "u+rwx")
        } else {
            (6, "read and write it", "u+rw")
        };
        if user.may(wanted, self.access) {
            return None;
        }
        let (path, FileAccess { uid, mode, .. }) = (self.path.display(), self.access);
        let (owner, name) = (accounts.user_name(uid), accounts.user_name(user.uid));
        let what = format!(
            "{path} belongs to {owner} and has the permissions {mode:o}: the user {name} cannot {verb}"
        );
        let command = if uid == user.uid {
            format!("chmod {missing} {path}")
        } else {
            let group = user.gids.first().map(|gid| format!(":{}", accounts.group_name(*gid)));
            format!("chown {name}{} {path}", group.unwrap_or_default())
        };
        Some(AccessProblem { what, command })
    }

    /// A warning if the user is root and the directory belongs to another user, who could not open the files that root makes there.
    fn warning(&self, user: &SystemUser, accounts: &Accounts) -> Option<String> {
        let FileAccess { uid, gid, .. } = self.access;
        if !user.is_root() || uid == user.uid {
            return None;
        }
        let (path, owner, group) =
            (self.path.display(), accounts.user_name(uid), accounts.group_name(gid));
        Some(format!(
            "this process runs as root, and the state directory {path} belongs to {owner}, who cannot open the files that root makes \
             there: start it as {owner} (`setpriv --reuid={owner} --regid={group} --clear-groups sluice run`), or choose another \
             directory with --state-dir"
        ))
    }
}

/// What keeps a user from using the state directory and the files of the store in it, as far as this process can list them.
pub(crate) fn access_problems(
    dir: &Path,
    user: &SystemUser,
    accounts: &Accounts,
) -> Vec<AccessProblem> {
    let is_store = |entry: &DirEntry| entry.file_name().to_string_lossy().starts_with(STORE);
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().filter(is_store);
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    sort_by(&mut paths, Ord::cmp);
    let files = [dir.to_owned()].into_iter().chain(paths);
    files.filter_map(|path| StateFile::at(&path)?.problem(user, accounts)).collect()
}

/// Logs what keeps this process from using the state directory, and whether others cannot use what it makes there.
pub(crate) fn log_access(dir: &Path) {
    let root = Path::new("/");
    let Some(user) = SystemUser::of_process(root) else { return };
    let accounts = Accounts::read(root);
    let dir_access = StateFile::at(dir);
    if let Some(warning) = dir_access.and_then(|dir| dir.warning(&user, &accounts)) {
        warn!("{warning}");
    }
    for AccessProblem { what, command } in access_problems(dir, &user, &accounts) {
        error!("the state directory cannot be used: {what}; as root: `{command}`");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const SLUICE: u32 = 107;

    /// The users root and sluice. `test` is a name that no other test has.
    fn accounts(test: &str) -> Accounts {
        let root = env::temp_dir().join(format!("sluice-{test}-{}", std::process::id()));
        fs::create_dir_all(root.join("etc")).unwrap();
        let passwd = "root:x:0:0:root:/root:/bin/sh\nsluice:x:107:115::/:/sbin/nologin\n";
        fs::write(root.join("etc/passwd"), passwd).unwrap();
        fs::write(root.join("etc/group"), "root:x:0:\nsluice:x:115:\n").unwrap();
        let accounts = Accounts::read(&root);
        fs::remove_dir_all(root).unwrap();
        accounts
    }

    fn file(path: &str, uid: u32, mode: u32) -> StateFile {
        let access = FileAccess { uid, gid: uid, mode };
        StateFile { path: path.into(), is_dir: path == SYSTEM_DIR, access }
    }

    #[test]
    fn a_file_that_the_user_cannot_use_is_named_with_its_owner_and_the_command() {
        let accounts = accounts("access-problem");
        let user = accounts.user(SLUICE);
        let problem = |file: StateFile| file.problem(&user, &accounts);
        let store = "/var/lib/sluice/static.redb";
        let AccessProblem { what, command } = problem(file(store, 0, 0o644)).unwrap();
        assert_eq!(
            what,
            "/var/lib/sluice/static.redb belongs to root and has the permissions 644: the user sluice cannot read and write it"
        );
        assert_eq!(command, "chown sluice:sluice /var/lib/sluice/static.redb");
        let AccessProblem { what, command } = problem(file(SYSTEM_DIR, SLUICE, 0o500)).unwrap();
        assert!(what.ends_with("the user sluice cannot make files in it"), "{what}");
        assert_eq!(command, "chmod u+rwx /var/lib/sluice");
        assert_eq!(problem(file(store, SLUICE, 0o600)), None);
        assert_eq!(file(store, SLUICE, 0o600).problem(&accounts.user(0), &accounts), None);
    }

    #[test]
    fn root_is_warned_of_a_directory_of_another_user() {
        let accounts = accounts("access-warning");
        let warning = |owner, user| {
            let user = accounts.user(user);
            file(SYSTEM_DIR, owner, 0o750).warning(&user, &accounts)
        };
        let text = warning(SLUICE, 0).unwrap();
        assert!(text.contains("runs as root") && text.contains("belongs to sluice"), "{text}");
        assert!(!text.contains('\n'), "{text}");
        for (owner, user) in [(0, 0), (SLUICE, SLUICE), (0, SLUICE)] {
            assert_eq!(warning(owner, user), None);
        }
    }

    #[test]
    fn a_directory_can_be_made_below_a_directory_that_can_be_written() {
        let dir = env::temp_dir().join(format!("sluice-obstacle-{}", std::process::id()));
        fs::create_dir_all(dir.join("locked")).unwrap();
        fs::write(dir.join("file"), "").unwrap();
        symlink("nothing", dir.join("dangling")).unwrap();
        let is_writable = |path: &Path| path == dir;
        let obstacle = |path: &str| obstacle(&dir.join(path), is_writable);
        assert_eq!(obstacle("a/b"), None);
        for path in ["file", "dangling"] {
            let expected = Obstacle::NotADirectory(dir.join(path));
            assert_eq!(obstacle(&format!("{path}/a/b")), Some(expected));
        }
        assert_eq!(obstacle("locked/a/b"), Some(Obstacle::NotWritable(dir.join("locked"))));
        assert!(!dir.join("a").exists());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_relative_path_is_below_the_working_directory() {
        let here = env::current_dir().unwrap();
        assert_eq!(obstacle("no/such/directory".as_ref(), |path| path == here), None);
    }

    #[test]
    fn only_the_directory_and_the_store_in_it_are_looked_at() {
        let dir = env::temp_dir().join(format!("sluice-access-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        for name in ["other", "static.redb", "static.redb.new"] {
            fs::write(dir.join(name), "").unwrap();
        }
        let nobody = SystemUser { uid: u32::MAX - 1, gids: vec![] };
        let problems = access_problems(&dir, &nobody, &Accounts::default());
        let paths = [dir.clone(), dir.join("static.redb"), dir.join("static.redb.new")];
        assert_eq!(problems.len(), paths.len(), "{problems:?}");
        for (problem, path) in problems.iter().zip(&paths) {
            assert!(problem.what.starts_with(&format!("{} ", path.display())), "{problem:?}");
        }
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(access_problems(&dir, &nobody, &Accounts::default()), []);
    }
}
