//! Patches of experiments apply to the current sources.

use std::process::Command;

use crate::checkout::{assert_none, paths, root};

#[test]
fn every_patch_of_the_laboratory_applies() {
    let patches: Vec<_> = paths().into_iter().filter(|path| path.ends_with(".patch")).collect();
    assert!(!patches.is_empty(), "lab/variant.sh has patches");
    let does_not_apply = |patch: &String| {
        let mut check = Command::new("git");
        let output =
            check.current_dir(root()).args(["apply", "--check"]).arg(patch).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
        (!output.status.success()).then(|| format!("{patch}: {error}"))
    };
    let faults: Vec<_> = patches.iter().filter_map(does_not_apply).collect();
    assert_none(&faults, "patches that do not apply: change them like the sources that they patch");
}
