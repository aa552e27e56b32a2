//! Completions and manual pages: that shells and `groff` accept them.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::fs;
use std::process::{Command, Output};

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");

fn sluice(arguments: &[&str]) -> Output {
    Command::new(SLUICE).args(arguments).output().unwrap()
}

/// Runs a script of bash in which the completions are loaded; returns its lines.
fn bash(script: &str) -> Vec<String> {
    let script = format!("set -u; source <(\"$0\" completions bash) || exit; {script}");
    let output = Command::new("bash").args(["--norc", "-c", &script, SLUICE]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{stderr}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// What bash offers after these words.
fn completed(words: &[&str]) -> Vec<String> {
    let line: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    let at = words.len() - 1;
    let (last, before) = (words[at], words[at - 1]);
    bash(&format!(
        "COMP_WORDS=({}); COMP_CWORD={at}; _sluice sluice '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        line.join(" ")
    ))
}

#[test]
fn bash_completes_commands_and_options() {
    assert!(bash("complete -p sluice")[0].contains("_sluice"));
    assert_eq!(completed(&["sluice", "doc"]), ["doctor"]);
    let options = completed(&["sluice", "run", "--log"]);
    assert!(options.contains(&"--log-level".to_owned()), "{options:?}");
    assert_eq!(completed(&["sluice", "show", "lin"]), ["links"]);
}

#[test]
fn each_shell_has_completions_and_another_one_is_refused() {
    for (shell, line) in [("zsh", "#compdef sluice"), ("fish", "complete -c sluice")] {
        let output = sluice(&["completions", shell]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains(line), "{shell}: {text}");
        assert!(text.contains("doctor") && text.contains("log-level"), "{shell}: {text}");
    }
    assert_eq!(sluice(&["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn every_command_has_a_manual_page_without_warnings() {
    let folder = std::env::temp_dir().join(format!("sluice-man-{}", std::process::id()));
    let pages = folder.join("new");
    assert!(sluice(&["man", pages.to_str().unwrap()]).status.success());
    let mut names: Vec<_> = fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in ["sluice.1", "sluice-run.1", "sluice-doctor.1", "sluice-show-flows.1"] {
        assert!(names.iter().any(|page| page == name), "{name}: {names:?}");
    }
    for name in &names {
        let page = pages.join(name);
        let mut groff = Command::new("groff");
        let output = groff.args(["-man", "-ww", "-Tutf8", "-k"]).arg(&page).output().unwrap();
        let warnings = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && warnings.is_empty(), "{name}: {warnings}");
    }
    let run = fs::read_to_string(pages.join("sluice-run.1")).unwrap();
    assert!(run.contains("\\-\\-log\\-level"), "{run}");
    let file = pages.join("sluice.1");
    let below = file.join("x");
    let output = sluice(&["man", below.to_str().unwrap()]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains("cannot write"), "{error}");
    fs::remove_dir_all(folder).unwrap();
}
