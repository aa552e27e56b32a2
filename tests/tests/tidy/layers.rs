//! A crate uses only the layers below it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::checkout::{assert_none, file, files, packages, text};

/// The crates of this workspace that a crate may use, by their short names.
enum Allowed {
    Only(BTreeSet<String>),
    /// All but `testkit`.
    Everything,
}

/// Crates that turn values into text that others parse: only these may serialise.
const SERIALISERS: [&str; 8] =
    ["bench", "cli", "decode", "declared", "emu", "northbound", "store", "study"];

/// Dependencies that the codec may have; `serde` is an optional feature of it.
const CODEC_DEPENDENCIES: [&str; 3] = ["bitflags", "serde", "zerocopy"];

/// Prefix of the package names of this workspace.
const PREFIX: &str = "sluice-";

/// The table in `ARCHITECTURE.md`: crates in the first column, what they may use in the second.
fn table() -> BTreeMap<String, Allowed> {
    let map = file("ARCHITECTURE.md");
    let (_, rest) = map
        .text
        .split_once("<!-- layers -->")
        .expect("ARCHITECTURE.md marks the start of the table of layers");
    let (table, _) = rest
        .split_once("<!-- end of layers -->")
        .expect("ARCHITECTURE.md marks the end of the table of layers");
    let mut rows = BTreeMap::new();
    for line in table.lines() {
        let mut cells = line.split('|').skip(1);
        let (Some(names), Some(allowed)) = (cells.next(), cells.next()) else { continue };
        for name in quoted(names) {
            let allowed = if allowed.trim() == "everything" {
                Allowed::Everything
            } else {
                Allowed::Only(quoted(allowed).collect())
            };
            rows.insert(name, allowed);
        }
    }
    assert!(rows.len() > 5, "ARCHITECTURE.md has a table of layers with a row for each crate");
    rows
}

/// The words in backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// Short name and package of each crate in `crates/`.
fn crates() -> Vec<(String, Value)> {
    let all = packages("Cargo.toml").into_iter();
    let own = all.filter(|package| text(package, "manifest_path").contains("/crates/"));
    let own = own.filter(|package| package["source"].is_null());
    let named = own.map(|p| (text(&p, "name").trim_start_matches(PREFIX).to_owned(), p));
    let all: Vec<_> = named.collect();
    assert!(all.len() > 5, "cargo knows the crates in crates/");
    all
}

/// Names of the dependencies of a package, and whether each is for tests only.
fn dependencies(package: &Value) -> impl Iterator<Item = (&str, bool)> {
    let all = package["dependencies"].as_array().into_iter().flatten();
    all.map(|dependency| (text(dependency, "name"), text(dependency, "kind") == "dev"))
}

#[test]
fn every_crate_uses_only_the_layers_below_it() {
    let table = table();
    let mut faults = Vec::new();
    for (name, package) in crates() {
        let Some(allowed) = table.get(&name) else {
            faults.push(format!("{name} has no row in the table of ARCHITECTURE.md"));
            continue;
        };
        for (used, for_tests) in dependencies(&package) {
            let Some(used) = used.strip_prefix(PREFIX) else { continue };
            let is_allowed = match allowed {
                _ if for_tests => true,
                _ if used == "testkit" => false,
                Allowed::Everything => true,
                Allowed::Only(below) => below.contains(used),
            };
            if !is_allowed {
                faults.push(format!("{name} → {used}"));
            }
        }
    }
    assert_none(&faults, "dependencies that the table of layers in ARCHITECTURE.md does not allow");
}

#[test]
fn bench_and_emulator_do_not_use_the_engine_that_they_measure() {
    for (name, package) in crates() {
        if name == "bench" || name == "emu" {
            let engine = dependencies(&package).find(|(used, _)| *used == "sluice-engine");
            assert_eq!(engine, None, "{name} must not use the engine, not even in tests");
        }
    }
}

#[test]
fn the_codec_has_few_dependencies_and_only_outer_crates_serialise() {
    let mut faults = Vec::new();
    for (name, package) in crates() {
        for (used, for_tests) in dependencies(&package) {
            let is_own = used.starts_with(PREFIX);
            let is_allowed = match name.as_str() {
                "openflow" => is_own || CODEC_DEPENDENCIES.contains(&used),
                "base" => false,
                _ => true,
            };
            let serialises = ["serde", "serde_json", "toml"].contains(&used);
            let may_serialise = name == "openflow" || SERIALISERS.contains(&name.as_str());
            if !for_tests && (!is_allowed || (serialises && !may_serialise)) {
                faults.push(format!("{name} → {used}"));
            }
        }
    }
    assert_none(&faults, "dependencies that a crate must not have");
}

#[test]
fn every_package_uses_the_lints_of_the_workspace() {
    let manifests = files().into_iter().filter(|file| {
        file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml")
            || file.path == "tests/Cargo.toml"
    });
    let without = manifests.filter(|file| !file.text.contains("[lints]\nworkspace = true"));
    let faults: Vec<_> = without.map(|file| file.path).collect();
    assert_none(&faults, "packages without `[lints] workspace = true`");
}

#[test]
fn applications_do_not_use_each_other() {
    let sources: Vec<_> = files().into_iter().filter(|f| f.is_any(&[".rs"])).collect();
    let app = |path: &str| {
        let (app, _) = path.strip_prefix("crates/apps/src/")?.split_once('/')?;
        Some(app.to_owned())
    };
    let apps: BTreeSet<_> = sources.iter().filter_map(|file| app(&file.path)).collect();
    assert!(apps.len() > 1, "the applications are folders of crates/apps/src");
    let mut faults = Vec::new();
    for file in &sources {
        let Some(own) = app(&file.path) else { continue };
        for (location, line) in file.lines() {
            let names = |other: &&String| {
                let paths = [format!("{other}::"), format!("crate::{other}")];
                **other != own && paths.iter().any(|path| line.contains(path))
            };
            faults.extend(apps.iter().find(names).map(|other| format!("{location}: {other}")));
        }
    }
    assert_none(&faults, "applications that use another one");
}
