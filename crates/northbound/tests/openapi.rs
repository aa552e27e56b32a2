//! `docs/openapi.json` describes every route.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sluice_northbound::openapi_document;

fn document() -> Value {
    serde_json::from_str(&openapi_document()).unwrap()
}

#[test]
fn the_committed_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let text = openapi_document();
    if std::env::var_os("SLUICE_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/openapi.json is out of date: `SLUICE_BLESS=1 cargo test -p sluice-northbound --test openapi` rewrites it"
    );
}

#[test]
fn it_is_openapi_3_1_and_every_operation_has_a_summary_and_its_errors() {
    let document = document();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 23, "{:?}", paths.keys());
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            let place = format!("{method} {path}");
            assert!(operation["summary"].is_string(), "{place} has no summary");
            for (status, response) in operation["responses"].as_object().unwrap() {
                assert!(response["description"].is_string(), "{place} {status} has no description");
            }
            for status in ["400", "401", "403", "408", "413", "415", "429", "503", "504"] {
                let schema =
                    &operation["responses"][status]["content"]["application/json"]["schema"];
                let name = "#/components/schemas/ErrorDocument";
                assert_eq!(schema["$ref"], name, "{place} {status}");
            }
        }
    }
}

/// The files below a folder of `src`, and their texts without white space.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder)];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                sources.push((path, text.split_whitespace().collect()));
            }
        }
    }
    sources
}

#[test]
fn every_code_of_an_error_is_documented() {
    let docs = ["api.md", "api-access.md"].map(|name| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        fs::read_to_string(path).unwrap()
    });
    let mut codes = BTreeSet::new();
    for (_, text) in sources("api").iter().chain(&sources("ryu")) {
        for start in [
            "not_found(\"",
            "forbidden(\"",
            "TokenRefusal::Unknown=>(\"",
            "TokenRefusal::Expired=>(\"",
        ] {
            codes.extend(
                text.split(start)
                    .skip(1)
                    .filter_map(|rest| rest.split('"').next())
                    .map(str::to_owned),
            );
        }
        // Behind a status or a variable with one.
        for rest in text.split("StatusCode::").chain(text.split("ApiError::new(")).skip(1) {
            let is_name = |c: char| c.is_ascii_alphabetic() || c == '_';
            if let Some(code) = rest.trim_start_matches(is_name).strip_prefix(",\"") {
                codes.extend(code.split('"').next().map(str::to_owned));
            }
        }
    }
    assert!(codes.len() > 40, "{codes:?}");
    for code in codes {
        let quoted = format!("`{code}`");
        assert!(docs.iter().any(|text| text.contains(&quoted)), "docs/api.md lacks {code}");
    }
}

/// Routes of axum alone would work, and be missing in the document.
#[test]
fn every_route_of_the_api_is_in_the_document() {
    let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api");
    let mut folders = vec![api];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for (number, line) in (1..).zip(text.lines()) {
                let line = line.replace("OpenApiRouter::", "");
                for forbidden in ["Router::new()", ".route(", ".route_service(", ".nest_service("] {
                    assert!(
                        !line.contains(forbidden),
                        "{}:{number}: use .routes(routes!(handler)), so that the OpenAPI document has it",
                        path.display()
                    );
                }
            }
        }
    }
}
