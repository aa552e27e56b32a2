//! Links, contents and examples of the documents.

use std::path::Path;

use crate::checkout::{assert_none, file, files, root};

#[test]
fn links_between_documents_point_to_existing_files() {
    let mut faults = Vec::new();
    for file in files().iter().filter(|file| file.is_any(&[".md"])) {
        let folder = Path::new(&file.path).parent().unwrap();
        for (location, line) in file.lines() {
            for after in line.split("](").skip(1) {
                let Some((target, _)) = after.split_once(')') else { continue };
                let is_outside = target.contains("://") || target.starts_with("mailto:");
                let path = target.split('#').next().unwrap_or_default();
                if !is_outside && !path.is_empty() && !root().join(folder).join(path).exists() {
                    faults.push(format!("{location}: {target}"));
                }
            }
        }
    }
    assert_none(&faults, "links to files that do not exist");
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let contents = file("docs/README.md").text;
    let pages = files().into_iter().filter(|file| file.is_any(&[".md"])).map(|file| file.path);
    let pages = pages.filter(|page| page.starts_with("docs/"));
    let listed = |page: &String| {
        let page = page.trim_start_matches("docs/");
        page == "README.md" || contents.contains(&format!("({page})"))
    };
    let faults: Vec<_> = pages.filter(|page| !listed(page)).collect();
    assert_none(&faults, "pages that docs/README.md does not list");
}

#[test]
fn the_changelog_lists_unreleased_changes() {
    let log = file("CHANGELOG.md").text;
    let unreleased = log.split("\n## ").find(|section| section.starts_with("[Unreleased]"));
    let unreleased = unreleased.expect("CHANGELOG.md has a section `## [Unreleased]`");
    assert!(unreleased.contains("\n- "), "it lists changes that a user notices");
}

#[test]
fn the_first_application_in_the_docs_is_the_tested_example() {
    let source = file("examples/access-list/examples/port_security.rs").text;
    let page = file("docs/first-application.md").text;
    assert!(page.contains(source.trim()), "docs/first-application.md shows another program");
    assert!(source.lines().count() < 100, "the example is too long for the page");
}
