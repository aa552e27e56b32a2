//! How each controller was run.

use super::super::escape::{html, slug};
use super::super::names::unique;
use super::super::summary::StudySummary;
use crate::definition::{Ready, Stop, StopSignal};
use crate::record::ControllerRecord;

pub(super) fn section(study: &StudySummary<'_>) -> String {
    let all = &study.record.controllers;
    let names = unique(all.iter().map(|it| slug(&it.id)));
    let all: String = all.iter().zip(&names).map(|(it, name)| controller(it, name)).collect();
    format!("<h2 id=\"controllers\">How each controller was run</h2>\n{all}")
}

/// How a controller was run; `name` is unique among them.
fn controller(controller: &ControllerRecord, name: &str) -> String {
    let row = &controller.row;
    let code = |text: &str| format!("<code>{}</code>", html(text));
    let mut facts = vec![
        ("Source", html(&row.source)),
        ("Application", html(&row.application)),
        ("Language", html(&row.language)),
        ("OpenFlow", html(&row.openflow.join(", "))),
    ];
    // Studies of older versions have the command without them.
    let is_new = |(name, _): &(&String, &String)| !controller.command.contains(&format!("{name}="));
    let variables = row.start.environment.iter().filter(is_new);
    let variables: Vec<_> = variables.map(assignment).collect();
    if !variables.is_empty() {
        facts.push(("Environment", code(&variables.join(" "))));
    }
    facts.push(("Command", code(&controller.command)));
    let inherited: Vec<_> = controller.environment.iter().map(assignment).collect();
    if !inherited.is_empty() {
        facts.push(("Inherited variables", code(&inherited.join(" "))));
    }
    facts.extend(row.start.files.iter().map(file));
    if let Some(missing) = &controller.missing {
        facts.insert(0, ("Not found", format!("<span class=\"failed\">{}</span>", html(missing))));
    }
    let version = controller.version.as_deref().map(str::trim).filter(|it| !it.is_empty());
    let version =
        version.map_or_else(|| "unknown".to_owned(), |it| format!("<pre>{}</pre>", html(it)));
    facts.push(("Version", version));
    facts.push(("Ready", ready(&row.ready)));
    if let Some(then) = &row.start.then {
        facts.push(("After the start", code(then)));
    }
    facts.push(("Stop", stop(&row.stop)));
    for (name, variant) in &row.variants {
        let variables = variant.environment.iter().map(assignment);
        let words: Vec<_> = variables.chain(variant.arguments.iter().cloned()).collect();
        facts.push(("Variant", format!("{}: {}", html(name), code(&words.join(" ")))));
    }
    let entry = |(name, value)| format!("<dt>{name}</dt><dd>{value}</dd>\n");
    let entries: String = facts.into_iter().map(entry).collect();
    let title = html(&row.title);
    format!("<h3 id=\"controller-{name}\">{title}</h3>\n<dl class=\"facts\">\n{entries}</dl>\n")
}

/// A variable, as `NAME=value`.
fn assignment((name, value): (&String, &String)) -> String {
    format!("{name}={value}")
}

/// A file that is written before the start.
fn file((name, content): (&String, &String)) -> (&'static str, String) {
    let (name, content) = (html(name), html(content));
    ("File", format!("<details><summary>{name}</summary><pre>{content}</pre></details>"))
}

/// When it is ready.
fn ready(ready: &Ready) -> String {
    let condition = if ready.probe {
        "its port accepts, a handshake completes and a packet-in is answered"
    } else {
        "its port accepts and a handshake completes"
    };
    let pause = if ready.settle_s > 0.0 {
        format!("; measured {} s later", ready.settle_s)
    } else {
        String::new()
    };
    format!("When {condition}, within {} s{pause}", ready.timeout_s)
}

/// How it is stopped.
fn stop(stop: &Stop) -> String {
    let signal = match stop.signal {
        StopSignal::Term => "SIGTERM",
        StopSignal::Int => "SIGINT",
    };
    format!("{signal}; SIGKILL after {} s", stop.grace_s)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn variables_files_and_the_conditions_of_start_and_stop_are_listed_as_text() {
        let row = r#"
            title = "C"
            source = "a package"
            application = "learning switch"
            language = "C"
            openflow = ["1.3"]
            [start]
            program = "c"
            environment = { JAVA_OPTS = "-Xmx1g <&>" }
            files = { "c.conf" = "<switch>\nport = {port}" }
            [ready]
            timeout_s = 90
            settle_s = 1.5
            [stop]
            signal = "INT"
        "#;
        let record = ControllerRecord {
            id: "c".to_owned(),
            row: toml::from_str(row).unwrap(),
            missing: None,
            version: None,
            files: BTreeMap::new(),
            environment: BTreeMap::from([("LD_PRELOAD".to_owned(), "x.so".to_owned())]),
            command: "c --port PORT".to_owned(),
        };
        let page = controller(&record, "c");
        let expected = [
            "<dt>Inherited variables</dt><dd><code>LD_PRELOAD=x.so</code></dd>",
            "<dt>Environment</dt><dd><code>JAVA_OPTS=-Xmx1g &lt;&amp;&gt;</code></dd>\n<dt>Command</dt>",
            "<details><summary>c.conf</summary><pre>&lt;switch&gt;\nport = {port}</pre></details>",
            "a packet-in is answered, within 90 s; measured 1.5 s later",
            "<dt>Stop</dt><dd>SIGINT; SIGKILL after 5 s</dd>",
        ];
        for text in expected {
            assert!(page.contains(text), "{text}: {page}");
        }
    }
}
