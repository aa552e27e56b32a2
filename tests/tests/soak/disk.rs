//! The disk with the store is full, and has room again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sluice_system_tests::output_of;

use crate::subject::request;

/// Size of the file system.
const DISK_BYTES: usize = 4 << 20;

/// A file system of a few megabytes, unmounted at the end.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    pub(crate) fn new(dir: PathBuf) -> Self {
        fs::create_dir_all(&dir).unwrap();
        let size = format!("size={DISK_BYTES}");
        output_of(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&dir));
        Self(dir)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, since the controller has a file open there.
        _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A disk without room, until this is dropped.
pub(crate) struct FullDisk {
    filler: PathBuf,
}

impl FullDisk {
    pub(crate) fn begin(disk: &SmallDisk) -> Self {
        let filler = disk.dir().join("filler");
        let error = fs::write(&filler, vec![0; 2 * DISK_BYTES]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        Self { filler }
    }

    /// Checks that a change is refused with an error that names the file, and that what is declared stays.
    pub(crate) fn check_that_changes_are_refused() {
        let before = declared();
        let (status, body) = request("POST", "/v1/static", &large_change()).unwrap();
        assert_eq!(status, 503, "{body}");
        for words in ["cannot be written, nothing was changed", "static.redb"] {
            assert!(body.contains(words), "{body}");
        }
        assert_eq!(declared(), before);
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        fs::remove_file(&self.filler).unwrap();
    }
}

/// Declares an entry for a switch that never connects. It has the same name each time, so that the store does not grow.
#[track_caller]
pub(crate) fn declare(name: &str, port: usize) {
    let body = json!({"switches": ["00000000000000ff"], "flow": flow(port)});
    let (status, answer) =
        request("PUT", &format!("/v1/static/flows/{name}"), &body.to_string()).unwrap();
    assert_eq!(status, 200, "{answer}");
}

pub(crate) fn flow(port: usize) -> String {
    format!("priority=200,in_port={port},actions=drop")
}

/// The names of the declared entries and their flow entries.
#[track_caller]
pub(crate) fn declared() -> Vec<(String, String)> {
    let (status, body) = request("GET", "/v1/static/flows", "").unwrap();
    assert_eq!(status, 200, "{body}");
    let document: Value = serde_json::from_str(&body).unwrap();
    let entries = document.get("entries").and_then(Value::as_array).unwrap();
    let text = |entry: &Value, key: &str| entry.get(key).unwrap().as_str().unwrap().to_owned();
    entries.iter().map(|entry| (text(entry, "name"), text(entry, "flow"))).collect()
}

/// A change that needs more room than the store has in its file, and no more, since the API needs 60 times as much memory for a moment.
fn large_change() -> String {
    let actions = "output:1,".repeat(800);
    let entry = |n: u32| {
        json!({
            "name": format!("large{n}"), "switches": ["00000000000000ff"],
            "flow": format!("priority=200,in_port={},actions={actions}output:2", 10_000 + n),
        })
    };
    json!({"set": (1..=15).map(entry).collect::<Vec<_>>()}).to_string()
}
