//! Relative paths in a configuration file.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The line with `state.dir` that `sluice config show` prints in `folder` for the file `config`, which it may read from a pipe.
fn state_dir(folder: &Path, config: &str, pipe: &str) -> String {
    let mut sluice = Command::new(env!("CARGO_BIN_EXE_sluice"));
    sluice.args(["config", "show", "--config", config]).current_dir(folder);
    let mut child = sluice.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(pipe.as_bytes()).unwrap();
    let shown = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let line = shown.lines().find(|line| line.starts_with("dir = "));
    line.and_then(|line| line.split("  #").next()).unwrap_or(&shown).trim_end().to_owned()
}

#[test]
fn a_relative_path_starts_at_the_folder_of_the_file_wherever_the_program_is_started() {
    let folder = std::env::temp_dir().join(format!("sluice-config-paths-{}", std::process::id()));
    fs::create_dir_all(folder.join("conf")).unwrap();
    let text = "[state]\ndir = \"state\"\n";
    let file = folder.join("conf/sluice.toml");
    fs::write(&file, text).unwrap();
    let absolute = format!("dir = \"{}\"", folder.join("conf/state").display());
    assert_eq!(state_dir(Path::new("/"), &file.to_string_lossy(), ""), absolute);
    assert_eq!(state_dir(&folder, "conf/sluice.toml", ""), "dir = \"conf/state\"");
    assert_eq!(state_dir(&folder.join("conf"), "sluice.toml", ""), "dir = \"state\"");
    // A pipe is in no folder.
    assert_eq!(state_dir(&folder, "/dev/stdin", text), "dir = \"state\"");
    fs::remove_dir_all(folder).unwrap();
}
