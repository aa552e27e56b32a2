//! Patches of experiments, and those with bugs that the simulation must find, apply to the current sources.

use std::process::Command;

use crate::checkout::{CheckoutFile, assert_none, files, root};

#[test]
fn every_patch_applies() {
    let files = files();
    let patches: Vec<_> = files.iter().filter(|file| file.is_any(&[".patch"])).collect();
    for folder in ["lab/", "crates/testkit/bugs/"] {
        let is_found = patches.iter().any(|patch| patch.path.starts_with(folder));
        assert!(is_found, "no patches found in {folder}");
    }
    let fault = |patch: &&CheckoutFile| {
        let mut check = Command::new("git");
        check.current_dir(root()).args(["apply", "--check", &patch.path]);
        let output = check.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
        (!output.status.success()).then(|| format!("{}: {error}", patch.path))
    };
    let faults: Vec<_> = patches.iter().filter_map(fault).collect();
    assert_none(
        &faults,
        "patches that no longer apply; change them like the sources that they patch",
    );
}
