//! What `sluice --version` prints.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_long_version_has_commit_target_and_features() {
    let sluice = env!("CARGO_BIN_EXE_sluice");
    let first = format!("sluice {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(output_of(sluice, &["-V"]), first);
    let long = output_of(sluice, &["--version"]);
    assert!(long.starts_with(&first), "{long}");
    let keys: Vec<_> = long.lines().skip(1).filter_map(|line| line.split_once(": ")).collect();
    let names: Vec<_> = keys.iter().map(|&(name, _)| name).collect();
    assert_eq!(names, ["commit", "target", "features"]);
    assert!(keys.iter().all(|(_, value)| !value.is_empty()), "{long}");
}
