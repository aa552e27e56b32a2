//! Arrows point down: a crate knows the layers below it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::checkout::{assert_none, file, files, packages, text};

/// What a crate of ours may use: ours by their short names, or everything but `testkit`.
enum May {
    Use(BTreeSet<String>),
    Everything,
}

/// Where values become text that others parse. All else is below.
const RIM: [&str; 7] = ["api", "bench", "cli", "decode", "emu", "store", "study"];

/// Prefix of the names of our packages.
const OURS: &str = "sluice-";

/// The table in `ARCHITECTURE.md`: a crate in its first column, what it may use in its second.
fn table() -> BTreeMap<String, May> {
    let map = file("ARCHITECTURE.md");
    let (_, rest) = map.text.split_once("<!-- arrows -->").expect("the table of arrows begins");
    let (table, _) = rest.split_once("<!-- end of arrows -->").expect("the table of arrows ends");
    let mut rows = BTreeMap::new();
    for line in table.lines() {
        let mut cells = line.split('|').skip(1);
        let (Some(names), Some(may)) = (cells.next(), cells.next()) else { continue };
        for name in quoted(names) {
            let may = if may.trim() == "everything" {
                May::Everything
            } else {
                May::Use(quoted(may).collect())
            };
            rows.insert(name, may);
        }
    }
    assert!(rows.len() > 5, "ARCHITECTURE.md has a table of arrows with a row for each crate");
    rows
}

/// The words between backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// The crates in `crates/`: short name and package.
fn crates() -> Vec<(String, Value)> {
    let all = packages("Cargo.toml").into_iter();
    let ours = all.filter(|package| text(package, "manifest_path").contains("/crates/"));
    let ours = ours.filter(|package| package["source"].is_null());
    let named = ours.map(|p| (text(&p, "name").trim_start_matches(OURS).to_owned(), p));
    let all: Vec<_> = named.collect();
    assert!(all.len() > 5, "cargo knows the crates in crates/");
    all
}

/// What a package depends on: names, and whether for tests only.
fn dependencies(package: &Value) -> impl Iterator<Item = (&str, bool)> {
    let all = package["dependencies"].as_array().into_iter().flatten();
    all.map(|dependency| (text(dependency, "name"), text(dependency, "kind") == "dev"))
}

#[test]
fn every_crate_uses_only_what_is_below_it() {
    let table = table();
    let mut faults = Vec::new();
    for (name, package) in crates() {
        let Some(may) = table.get(&name) else {
            faults.push(format!("{name} has no row in the table of ARCHITECTURE.md"));
            continue;
        };
        for (used, for_tests) in dependencies(&package) {
            let Some(used) = used.strip_prefix(OURS) else { continue };
            let allowed = match may {
                _ if for_tests => true,
                _ if used == "testkit" => false,
                May::Everything => true,
                May::Use(below) => below.contains(used),
            };
            if !allowed {
                faults.push(format!("{name} → {used}"));
            }
        }
    }
    assert_none(&faults, "arrows that are not in the table of ARCHITECTURE.md");
}

#[test]
fn a_ruler_is_not_made_of_what_it_measures() {
    for (name, package) in crates() {
        if name == "bench" || name == "emu" {
            let engine = dependencies(&package).find(|(used, _)| *used == "sluice-engine");
            assert_eq!(engine, None, "{name} uses the engine, be it in its tests");
        }
    }
}

#[test]
fn bytes_are_read_without_help_and_serialisation_stays_at_the_rim() {
    let mut faults = Vec::new();
    for (name, package) in crates() {
        for (used, for_tests) in dependencies(&package) {
            let ours = used.starts_with(OURS);
            let bare = match name.as_str() {
                "wire" => ours || used == "zerocopy",
                "base" => false,
                _ => true,
            };
            let serialises = ["serde", "serde_json", "toml"].contains(&used);
            if !for_tests && (!bare || (serialises && !RIM.contains(&name.as_str()))) {
                faults.push(format!("{name} → {used}"));
            }
        }
    }
    assert_none(&faults, "dependencies that do not belong there");
}

#[test]
fn every_package_has_the_lints_of_the_workspace() {
    let manifests = files().into_iter().filter(|file| {
        file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml")
            || file.path == "tests/Cargo.toml"
    });
    let without = manifests.filter(|file| !file.text.contains("[lints]\nworkspace = true"));
    let faults: Vec<_> = without.map(|file| file.path).collect();
    assert_none(&faults, "packages without `[lints] workspace = true`");
}

#[test]
fn applications_do_not_name_one_another() {
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
        for (place, line) in file.lines() {
            let names = |other: &&String| {
                let paths = [format!("{other}::"), format!("crate::{other}")];
                **other != own && paths.iter().any(|path| line.contains(path))
            };
            faults.extend(apps.iter().find(names).map(|other| format!("{place}: {other}")));
        }
    }
    assert_none(&faults, "applications that name another one");
}
