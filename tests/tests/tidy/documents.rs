//! What documents owe their readers.

use std::path::Path;

use crate::checkout::{assert_none, file, files, root};

#[test]
fn links_between_documents_lead_somewhere() {
    let mut faults = Vec::new();
    for file in files().iter().filter(|file| file.is_any(&[".md"])) {
        let folder = Path::new(&file.path).parent().unwrap();
        for (place, line) in file.lines() {
            for after in line.split("](").skip(1) {
                let Some((target, _)) = after.split_once(')') else { continue };
                let is_outside = target.contains("://") || target.starts_with("mailto:");
                let path = target.split('#').next().unwrap_or_default();
                if !is_outside && !path.is_empty() && !root().join(folder).join(path).exists() {
                    faults.push(format!("{place}: {target}"));
                }
            }
        }
    }
    assert_none(&faults, "links that lead nowhere");
}

#[test]
fn every_page_of_the_book_is_in_its_contents() {
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
fn the_changelog_says_what_is_not_released_yet() {
    let log = file("CHANGELOG.md").text;
    let unreleased = log.split("\n## ").find(|section| section.starts_with("[Unreleased]"));
    let unreleased = unreleased.expect("CHANGELOG.md has a section `## [Unreleased]`");
    assert!(unreleased.contains("\n- "), "it lists what a user notices");
}

#[test]
fn the_first_application_of_the_book_is_the_one_that_is_tested() {
    let source = file("crates/sdk/examples/first.rs").text;
    let page = file("docs/first-application.md").text;
    assert!(page.contains(source.trim()), "docs/first-application.md shows another program");
    assert!(source.lines().count() < 60, "it has become a long one");
}
