//! Users and groups of the system, and what the permissions of a file let them do.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The id of the user root, who may read and write every file.
const ROOT_UID: u32 = 0;

/// A user, and the groups that it belongs to, the primary one first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SystemUser {
    pub(crate) uid: u32,
    pub(crate) gids: Vec<u32>,
}

/// Owner, group and permissions of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileAccess {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u32,
}

impl From<&Metadata> for FileAccess {
    fn from(metadata: &Metadata) -> Self {
        Self { uid: metadata.uid(), gid: metadata.gid(), mode: metadata.mode() & 0o777 }
    }
}

impl SystemUser {
    /// The user of this process, on the system below `root`; `None` without `/proc`.
    pub(crate) fn of_process(root: &Path) -> Option<Self> {
        let status = fs::read_to_string(root.join("proc/self/status")).ok()?;
        let ids = |field: &str| -> Option<Vec<u32>> {
            let line = status.lines().find_map(|line| line.strip_prefix(field))?;
            line.split_whitespace().map(|id| id.parse().ok()).collect()
        };
        // The second id is the effective one.
        let (uid, gid) = (*ids("Uid:")?.get(1)?, *ids("Gid:")?.get(1)?);
        Some(Self { uid, gids: [gid].into_iter().chain(ids("Groups:")?).collect() })
    }

    /// Whether the user is root.
    pub(crate) fn is_root(&self) -> bool {
        self.uid == ROOT_UID
    }

    /// Whether a file permits the user all of `wanted`, the sum of 4 (read), 2 (write) and 1 (search).
    pub(crate) fn may(&self, wanted: u32, file: FileAccess) -> bool {
        let shift = match file {
            FileAccess { uid, .. } if uid == self.uid => 6,
            FileAccess { gid, .. } if self.gids.contains(&gid) => 3,
            _ => 0,
        };
        self.is_root() || (file.mode >> shift) & wanted == wanted
    }
}

/// The users and groups of `/etc/passwd` and `/etc/group`. Other sources, such as LDAP, are not asked: a service has a local user.
#[derive(Debug, Clone, Default)]
pub(crate) struct Accounts {
    passwd: String,
    group: String,
}

impl Accounts {
    /// Those of the system below `root`.
    pub(crate) fn read(root: &Path) -> Self {
        let text = |path| fs::read_to_string(root.join(path)).unwrap_or_default();
        Self { passwd: text("etc/passwd"), group: text("etc/group") }
    }

    /// The name of a user, or its id if it has none.
    pub(crate) fn user_name(&self, uid: u32) -> String {
        name(&self.passwd, uid)
    }

    /// The name of a group, or its id if it has none.
    pub(crate) fn group_name(&self, gid: u32) -> String {
        name(&self.group, gid)
    }

    /// The user with a name.
    pub(crate) fn user_named(&self, name: &str) -> Option<SystemUser> {
        let found = records(&self.passwd).find(|fields| fields.first() == Some(&name));
        Some(self.user(found?.get(2)?.parse().ok()?))
    }

    /// The user with an id.
    pub(crate) fn user(&self, uid: u32) -> SystemUser {
        let user = records(&self.passwd).find(|fields| has_id(fields, uid));
        let primary: Option<u32> = user.and_then(|fields| fields.get(3)?.parse().ok());
        let name = self.user_name(uid);
        let is_member = |fields: &Vec<&str>| {
            fields.get(3).is_some_and(|members| members.split(',').any(|member| member == name))
        };
        let others = records(&self.group).filter(is_member);
        let others = others.filter_map(|fields| fields.get(2)?.parse().ok());
        SystemUser { uid, gids: primary.into_iter().chain(others).collect() }
    }
}

/// The fields of each line of `/etc/passwd` or `/etc/group`: name, password, id, and others.
fn records(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split(':').collect())
}

fn has_id(fields: &[&str], id: u32) -> bool {
    fields.get(2).and_then(|field| field.parse().ok()) == Some(id)
}

/// The name of the record with an id, or the id.
fn name(text: &str, id: u32) -> String {
    let found = records(text).find(|fields| has_id(fields, id));
    let name = found.and_then(|fields| fields.first().map(|name| (*name).to_owned()));
    name.unwrap_or_else(|| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_permissions_of_its_class() {
        let user = SystemUser { uid: 7, gids: vec![8, 9] };
        let file = |uid, gid, mode| FileAccess { uid, gid, mode };
        for (file, may_read_and_write) in [
            (file(7, 0, 0o600), true),
            (file(0, 9, 0o660), true),
            (file(0, 0, 0o666), true),
            (file(0, 0, 0o600), false),
            (file(0, 8, 0o640), false),
            // The first class that fits decides.
            (file(7, 0, 0o466), false),
        ] {
            assert_eq!(user.may(6, file), may_read_and_write, "{file:?}");
        }
        assert!(SystemUser { uid: 0, gids: vec![] }.may(6, file(7, 7, 0)));
    }

    #[test]
    fn names_and_groups_are_those_of_the_files() {
        let accounts = Accounts {
            passwd: "root:x:0:0:root:/root:/bin/sh\nsluice:x:107:115::/:/sbin/nologin\n".into(),
            group: "root:x:0:\nkeys:x:20:alice,sluice\nsluice:x:115:\nadm:x:4:slu\n".into(),
        };
        assert_eq!(accounts.user(107), SystemUser { uid: 107, gids: vec![115, 20] });
        assert_eq!([0, 107, 108].map(|uid| accounts.user_name(uid)), ["root", "sluice", "108"]);
        assert_eq!([115, 116].map(|gid| accounts.group_name(gid)), ["sluice", "116"]);
        assert_eq!(accounts.user(108), SystemUser { uid: 108, gids: vec![] });
    }

    #[test]
    fn the_user_of_the_process_owns_the_files_that_it_makes() {
        let path = std::env::temp_dir().join(format!("sluice-user-{}", std::process::id()));
        fs::write(&path, "").unwrap();
        let metadata = fs::metadata(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let user = SystemUser::of_process(Path::new("/")).unwrap();
        assert_eq!((user.uid, user.gids[0]), (metadata.uid(), metadata.gid()));
    }
}
