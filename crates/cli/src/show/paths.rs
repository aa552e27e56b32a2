//! `sluice show paths` as text.

use std::fmt::Write as _;

use serde_json::Value;

use super::printable;

/// The paths for people.
pub(super) fn text(document: &Value) -> String {
    let at = |pointer: &str| document.pointer(pointer).cloned().unwrap_or_default();
    let mut out = String::new();
    let path = at("/installed/path");
    if path.as_array().is_some_and(|path| !path.is_empty()) {
        _ = writeln!(out, "installed  {}", line(&path));
    } else {
        let summary = at("/installed/summary");
        let summary = printable(summary.as_str().unwrap_or_default());
        _ = writeln!(out, "installed  none: {summary}");
    }
    let computed = at("/computed/paths");
    let computed = computed.as_array().map(Vec::as_slice).unwrap_or_default();
    for path in computed {
        _ = writeln!(out, "computed   {}", line(path));
    }
    if computed.is_empty() {
        out.push_str("computed   none: no links are known that connect the two\n");
    }
    if at("/computed/is_truncated") == true {
        out.push_str("computed   and more\n");
    }
    if at("/agrees") == false {
        out.push_str("The installed path is none of the shortest ones.\n");
    }
    out
}

/// The switches of a path, each between its two ports.
fn line(path: &Value) -> String {
    let hops = path.as_array().map(Vec::as_slice).unwrap_or_default();
    let hop = |hop: &Value| {
        let text = |key: &str| hop.get(key).and_then(Value::as_str).map(printable);
        let port = |key: &str| match hop.get(key) {
            Some(Value::Number(number)) => number.to_string(),
            _ => "?".to_owned(),
        };
        let name = text("switch").or_else(|| text("dpid")).unwrap_or_default();
        format!("{}:{name}:{}", port("in_port"), port("out_port"))
    };
    hops.iter().map(hop).collect::<Vec<_>>().join(" -> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_their_switches_between_their_ports() {
        let path = r#"[{"dpid":"1","switch":"s1","in_port":3,"out_port":1},{"dpid":"2","switch":null,"in_port":1,"out_port":2}]"#;
        let body = format!(
            r#"{{"installed":{{"path":{path},"summary":""}},"computed":{{"paths":[{path}],"is_truncated":false}},"agrees":true}}"#
        );
        assert_eq!(
            text(&serde_json::from_str(&body).unwrap()),
            "installed  3:s1:1 -> 1:2:2\ncomputed   3:s1:1 -> 1:2:2\n"
        );
        let body = r#"{"installed":{"path":[],"summary":"no\u001b"},"computed":{"paths":[],"is_truncated":false},"agrees":null}"#;
        assert_eq!(
            text(&serde_json::from_str(body).unwrap()),
            "installed  none: no\u{fffd}\ncomputed   none: no links are known that connect the two\n"
        );
    }
}
