//! How each controller was run.

use super::super::escape::{html, slug};
use super::super::summary::StudySummary;
use crate::record::ControllerRecord;

pub(super) fn section(study: &StudySummary<'_>) -> String {
    let all: String = study.record.controllers.iter().map(controller).collect();
    format!("<h2 id=\"controllers\">How each controller was run</h2>\n{all}")
}

fn controller(controller: &ControllerRecord) -> String {
    let row = &controller.row;
    let code = |text: &str| format!("<code>{}</code>", html(text));
    let mut facts = vec![
        ("Source", html(&row.source)),
        ("Application", html(&row.application)),
        ("Language", html(&row.language)),
        ("OpenFlow", html(&row.openflow.join(", "))),
        ("Command", code(&controller.command)),
    ];
    if let Some(missing) = &controller.missing {
        facts.insert(0, ("Not found", format!("<span class=\"failed\">{}</span>", html(missing))));
    }
    let version = controller.version.as_deref().map(str::trim).filter(|it| !it.is_empty());
    let version =
        version.map_or_else(|| "unknown".to_owned(), |it| format!("<pre>{}</pre>", html(it)));
    facts.push(("Version", version));
    if let Some(then) = &row.start.then {
        facts.push(("After the start", code(then)));
    }
    for (name, variant) in &row.variants {
        let variables = variant.environment.iter().map(|(name, value)| format!("{name}={value}"));
        let words: Vec<_> = variables.chain(variant.arguments.iter().cloned()).collect();
        facts.push(("Variant", format!("{}: {}", html(name), code(&words.join(" ")))));
    }
    let entry = |(name, value)| format!("<dt>{name}</dt><dd>{value}</dd>\n");
    let entries: String = facts.into_iter().map(entry).collect();
    let (id, title) = (slug(&controller.id), html(&row.title));
    format!("<h3 id=\"controller-{id}\">{title}</h3>\n<dl class=\"facts\">\n{entries}</dl>\n")
}
