//! What the checks have found.

use std::fmt::{Display, Write as _};

use serde::Serialize;

use crate::show::printable;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// Not checked, since this user cannot see it.
    Skipped,
    /// Works, but worse than it could, or only under conditions.
    Warning,
    /// Does not work.
    Problem,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// What was checked.
    pub(super) check: &'static str,
    pub(super) level: Level,
    /// What is the case, and what it means.
    pub(super) message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, message: message.into(), advice: None }
    }

    pub(super) fn warning(
        check: &'static str,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let advice = Some(advice.into());
        Self { check, level: Level::Warning, message: message.into(), advice }
    }

    pub(super) fn problem(
        check: &'static str,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { level: Level::Problem, ..Self::warning(check, message, advice) }
    }

    /// Something that only root can see: `what` says all that is known.
    pub(super) fn needs_root(check: &'static str, what: impl Display) -> Self {
        let message = format!("{what}; not checked: needs root");
        Self { level: Level::Skipped, ..Self::warning(check, message, "`sudo sluice doctor`") }
    }
}

/// All findings.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    problems: usize,
    warnings: usize,
    findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(findings: Vec<Finding>) -> Self {
        let count = |level| findings.iter().filter(|it| it.level == level).count();
        Self { problems: count(Level::Problem), warnings: count(Level::Warning), findings }
    }

    pub(super) fn has_problems(&self) -> bool {
        self.problems > 0
    }

    /// A line for each finding, with what to do below it, and the totals.
    pub(super) fn text(&self) -> String {
        let width = self.findings.iter().map(|it| it.check.len()).max().unwrap_or(0);
        let mut out = String::new();
        for Finding { check, level, message, advice } in &self.findings {
            let level = match level {
                Level::Ok => "ok",
                Level::Skipped => "skipped",
                Level::Warning => "warning",
                Level::Problem => "problem",
            };
            let _ = writeln!(out, "{level:<7}  {check:<width$}  {}", printable(message));
            if let Some(advice) = advice {
                let _ = writeln!(out, "{:7}  {:width$}  → {}", "", "", printable(advice));
            }
        }
        let counted =
            |count: usize, what| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let (problems, warnings) =
            (counted(self.problems, "problem"), counted(self.warnings, "warning"));
        let _ = writeln!(out, "\n{problems}, {warnings}");
        out
    }

    pub(super) fn json(&self) -> String {
        // Fails for maps with keys that are no text, and there are none.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_aligned_and_counted() {
        let report = Report::new(vec![
            Finding::ok("kernel", "Linux 6.1"),
            Finding::problem("open vswitch", "br0: \u{1b}[2J", "do that"),
        ]);
        let text = "ok       kernel        Linux 6.1\n\
                    problem  open vswitch  br0: \u{fffd}[2J\n                       → do that\n\n\
                    1 problem, 0 warnings\n";
        assert_eq!(report.text(), text);
        assert!(report.has_problems());
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(json["findings"][1]["level"], "problem");
        assert_eq!(json["findings"][0].get("advice"), None);
        assert_eq!((&json["problems"], &json["warnings"]), (&1.into(), &0.into()));
        let skipped = Report::new(vec![Finding::needs_root("state", "/x")]);
        assert!(skipped.text().starts_with("skipped  state  /x; not checked: needs root\n"));
        assert!(!skipped.has_problems() && skipped.text().ends_with("0 problems, 0 warnings\n"));
    }
}
