//! What was written is read again, or an error says why not.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sluice_openflow::{DatapathId, MacAddr, PortNo};
use sluice_sdk::view::{Cable, DrainedLink, SwitchPort};

use super::file::{NEW_FILE, builder};
use super::{Contents, Store};
use crate::change::{AppliedChange, Change, ChangeError, Present, check, quarantine, release};
use crate::entry::{Declaration, Entry, Key, Kind, Reserved, Selector};
use crate::names::{NameOf, Names};
use crate::quarantine::QuarantineInfo;
use crate::reconcile::Owned;

/// A directory that is removed at the end.
pub(super) struct TempDir(pub(super) PathBuf);

impl TempDir {
    pub(super) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("sluice-store-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        Self(dir)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn checked(contents: &Contents, change: Change) -> Result<AppliedChange, ChangeError> {
    let present = Present {
        entries: &contents.entries,
        names: &contents.names,
        reserved: &Reserved::default(),
        revision: contents.revision,
        now: Duration::from_secs(9),
    };
    check(change, present)
}

fn change(contents: &Contents, count: usize) -> AppliedChange {
    let declaration = |n| Declaration {
        key: Key { kind: Kind::Flow, name: format!("e{n}") },
        switches: Selector::All,
        text: format!("in_port={n},actions=drop"),
    };
    let names = Names::new([(NameOf::Switch(DatapathId(7)), "core".to_owned())]).unwrap();
    let set = (1..=count).map(declaration).collect();
    let change = Change { set, names: Some(names), ..Change::default() };
    checked(contents, change).unwrap()
}

#[test]
fn what_was_written_is_read_again() {
    let dir = TempDir::new("read");
    let (mut store, empty) = Store::open(&dir.0).unwrap();
    assert!(empty.entries.is_empty() && !dir.0.exists());
    store.commit(&change(&empty, 3)).unwrap();
    let owned = Owned { switch: DatapathId(7), kind: Kind::Meter, number: 5 };
    store.record_owned(&[owned], &[]).unwrap();
    let error = Store::open(&dir.0).map(|_| ()).unwrap_err().to_string();
    assert!(error.ends_with("in use by another process"), "{error}");
    drop(store);
    let (mut store, read) = Store::open(&dir.0).unwrap();
    assert_eq!((read.revision, read.entries.len()), (1, 3));
    assert_eq!(read.names.switch(DatapathId(7)), Some("core"));
    assert_eq!(read.owned, [owned]);
    store.record_owned(&[], &[owned]).unwrap();
    drop(store);
    assert_eq!(Store::open(&dir.0).unwrap().1.owned, []);
}

#[test]
fn quarantines_and_drained_links_are_read_again() {
    let dir = TempDir::new("operations");
    let (mut store, empty) = Store::open(&dir.0).unwrap();
    let since = Duration::from_secs(1_700_000_000);
    let info = QuarantineInfo::new("uid 0".to_owned(), Some("scans".to_owned()), since);
    let macs = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
    for (mac, revision) in macs.into_iter().zip(1..) {
        let change = quarantine(mac, info.clone(), &empty.quarantines, revision).unwrap();
        store.commit(&change).unwrap();
    }
    let end = |n| SwitchPort::new(DatapathId(n), PortNo(1));
    let cables = [Cable::new(end(1), end(2)), Cable::new(end(u64::MAX), end(3))];
    let drained = DrainedLink { requested_at: Duration::from_millis(1_700_000_000_123) };
    for cable in cables {
        store.record_drain(cable, Some(drained)).unwrap();
    }
    drop(store);
    let (mut store, read) = Store::open(&dir.0).unwrap();
    assert_eq!((read.revision, read.entries.len(), read.quarantines.len()), (2, 0, 2));
    let [_, second] = macs.map(|mac| read.quarantines[&mac].clone());
    assert_eq!((&second.info, second.entries[0].revision), (&info, 2));
    assert_eq!(read.drains, cables.map(|cable| (cable, drained)));
    store.commit(&release(macs[0], &read.quarantines, 3).unwrap().0).unwrap();
    store.record_drain(cables[0], None).unwrap();
    drop(store);
    let (_, read) = Store::open(&dir.0).unwrap();
    assert_eq!(read.quarantines.keys().collect::<Vec<_>>(), [&macs[1]]);
    assert_eq!(read.drains, [(cables[1], drained)]);
}

/// Any damage is an error or does not show; none is a panic, and nothing else than what was written is ever read. Above all not
/// nothing: the entries would be removed from all switches.
#[test]
fn damage_is_an_error() {
    let dir = TempDir::new("damage");
    let (mut store, empty) = Store::open(&dir.0).unwrap();
    let written = change(&empty, 100);
    store.commit(&written).unwrap();
    let path = store.path();
    // As after `kill -9`, and after the database was closed.
    let killed = fs::read(&path).unwrap();
    drop(store);
    let good = fs::read(&path).unwrap();
    let mut errors = 0;
    // What was written is at the beginning.
    let (start, all) = (0..32_768, 0..good.len());
    for (file, places, step) in [(&killed, start, 700), (&good, all, good.len() / 50)] {
        for at in places.step_by(step) {
            let mut bad = file.clone();
            let end = (at + 700).min(bad.len());
            bad[at..end].fill(0xa5);
            fs::write(&path, &bad).unwrap();
            match Store::open(&dir.0) {
                Ok((_, read)) => assert_eq!(read.entries.len(), 100, "{at}"),
                Err(_) => errors += 1,
            }
        }
    }
    for len in [0, 1, 100, good.len() / 2, good.len() - 1] {
        fs::write(&path, &good[..len]).unwrap();
        assert!(Store::open(&dir.0).is_err(), "{len} bytes");
    }
    assert!(errors > 0);
}

/// The process is killed, or the disk is full, before the file is complete.
#[test]
fn a_store_whose_creation_was_interrupted_is_created_again() {
    let dir = TempDir::new("interrupted");
    let (mut store, empty) = Store::open(&dir.0).unwrap();
    fs::create_dir_all(&dir.0).unwrap();
    let unformatted = builder().create(dir.0.join("other")).unwrap();
    drop(unformatted);
    let unformatted = fs::read(dir.0.join("other")).unwrap();
    for left in [&[][..], &[0xa5; 5000], &unformatted[..unformatted.len() / 2], &unformatted] {
        let _ = fs::remove_file(store.path());
        drop(store);
        fs::write(dir.0.join(NEW_FILE), left).unwrap();
        let contents;
        (store, contents) = Store::open(&dir.0).unwrap();
        assert!(contents.entries.is_empty());
        store.commit(&change(&empty, 3)).unwrap();
        drop(store);
        (store, _) = Store::open(&dir.0).unwrap();
        assert!(!fs::exists(dir.0.join(NEW_FILE)).unwrap());
    }
    store.commit(&change(&empty, 2)).unwrap();
}

/// An error while the file is made leaves no file that could not be opened, and the next change makes it.
#[test]
fn the_first_change_can_be_made_again_after_an_error() {
    let dir = TempDir::new("first");
    let (mut store, empty) = Store::open(&dir.0).unwrap();
    // The file cannot be opened.
    fs::create_dir_all(dir.0.join(NEW_FILE)).unwrap();
    store.commit(&change(&empty, 3)).unwrap_err();
    assert!(Store::open(&dir.0).unwrap().1.entries.is_empty());
    fs::remove_dir(dir.0.join(NEW_FILE)).unwrap();
    store.commit(&change(&empty, 3)).unwrap();
    drop(store);
    assert_eq!(Store::open(&dir.0).unwrap().1.entries.len(), 3);
}

#[test]
fn two_processes_do_not_make_the_file_at_the_same_time() {
    let dir = TempDir::new("two");
    let [(mut a, empty), (mut b, _)] = [(); 2].map(|()| Store::open(&dir.0).unwrap());
    a.commit(&change(&empty, 3)).unwrap();
    let error = b.commit(&change(&empty, 2)).unwrap_err().to_string();
    assert!(error.ends_with("in use by another process"), "{error}");
    drop(a);
    assert_eq!(Store::open(&dir.0).unwrap().1.entries.len(), 3);
}

/// As after an update whose parser is stricter.
#[test]
fn an_entry_that_is_no_longer_valid_is_read_nevertheless() {
    let dir = TempDir::new("invalid");
    let (mut store, empty) = Store::open(&dir.0).unwrap();
    let mut applied = change(&empty, 3);
    let declaration = Declaration {
        key: Key { kind: Kind::Flow, name: "old".to_owned() },
        switches: Selector::All,
        text: "in_port=1,actions=teleport".to_owned(),
    };
    let invalid = Entry::stored(declaration.clone(), 1, Duration::from_secs(9));
    applied.added.push(Arc::new(invalid));
    store.commit(&applied).unwrap();
    drop(store);
    let (_, contents) = Store::open(&dir.0).unwrap();
    let entry = &contents.entries[&declaration.key];
    assert_eq!((contents.entries.len(), &entry.declaration), (4, &declaration));
    let error = entry.form(sluice_openflow::Version::V1_3).unwrap_err();
    assert!(error.contains("teleport"), "{error}");
    // Declared once more, the error is reported.
    let again = Change { set: vec![declaration], ..Change::default() };
    checked(&contents, again).unwrap_err();
}
