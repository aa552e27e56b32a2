//! Which role a request needs, and whether it is recorded: the one table.

use axum::http::Method;

use crate::tokens::Role;

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Everybody may do it, also from other machines and without a token.
    Nothing,
    Role(Role),
}

/// What a request needs, and whether the audit log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Requirement {
    pub(crate) need: Need,
    pub(crate) is_recorded: bool,
}

use Need::Nothing;

const READ: Need = Need::Role(Role::Read);
const OPERATE: Need = Need::Role(Role::Operate);
const ADMINISTER: Need = Need::Role(Role::Administer);

const RECORDED: bool = true;
const NOT_RECORDED: bool = false;

/// Requests for which the method does not tell. `*` is one segment of the path.
const EXCEPTIONS: &[(Method, &str, Need, bool)] = &[
    (Method::GET, "/", Nothing, NOT_RECORDED),
    (Method::GET, "/metrics", Nothing, NOT_RECORDED),
    // The files of the web page.
    (Method::GET, "/assets/*", Nothing, NOT_RECORDED),
    (Method::GET, "/licences.txt", Nothing, NOT_RECORDED),
    // These ask a question whose text is in the body.
    (Method::POST, "/v1/trace", READ, NOT_RECORDED),
    (Method::POST, "/stats/flow/*", READ, NOT_RECORDED),
    (Method::POST, "/stats/flowdesc/*", READ, NOT_RECORDED),
    (Method::POST, "/stats/aggregateflow/*", READ, NOT_RECORDED),
    // Each second, while a bench runs.
    (Method::PUT, "/v1/bench", OPERATE, NOT_RECORDED),
    // The packets of users.
    (Method::GET, "/v1/capture", OPERATE, RECORDED),
    (Method::GET, "/v1/tokens", ADMINISTER, NOT_RECORDED),
];

/// What a request needs. Whatever has no row: reading methods need the role `read`, all others `operate`, and are recorded.
pub(crate) fn needed(method: &Method, path: &str) -> Requirement {
    let asked = if method == Method::HEAD { &Method::GET } else { method };
    let mut rows = EXCEPTIONS.iter();
    let found = rows.find(|(of, pattern, ..)| of == asked && matches(pattern, path));
    let (need, is_recorded) = match found {
        Some(&(_, _, need, is_recorded)) => (need, is_recorded),
        None if [Method::GET, Method::OPTIONS].contains(asked) => (READ, NOT_RECORDED),
        None => (OPERATE, RECORDED),
    };
    Requirement { need, is_recorded }
}

/// Whether a path as it was received, not decoded, has the form of a pattern.
fn matches(pattern: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return true,
            (Some("*"), Some(segment)) if !segment.is_empty() => {}
            (Some(expected), Some(segment)) if expected == segment => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_follows_from_method_and_path() {
        for (method, path, need) in [
            (Method::GET, "/", Nothing),
            (Method::HEAD, "/metrics", Nothing),
            (Method::GET, "/metrics/", READ),
            (Method::GET, "/assets/page.js", Nothing),
            (Method::GET, "/assets/../v1/switches", READ),
            (Method::POST, "/assets/page.js", OPERATE),
            (Method::POST, "/metrics", OPERATE),
            (Method::GET, "/v1/switches", READ),
            (Method::HEAD, "/v1/switches", READ),
            (Method::OPTIONS, "/v1/switches", READ),
            (Method::POST, "/v1/switches/1/flows", OPERATE),
            (Method::PUT, "/v1/x", OPERATE),
            (Method::DELETE, "/v1/x", OPERATE),
            (Method::PATCH, "/v1/x", OPERATE),
            (Method::from_bytes(b"WHATEVER").unwrap(), "/v1/x", OPERATE),
            (Method::POST, "/v1/trace", READ),
            (Method::PUT, "/v1/trace", OPERATE),
            (Method::PUT, "/v1/bench", OPERATE),
            (Method::POST, "/stats/flow/1", READ),
            (Method::POST, "/stats/flow/1/../../flowentry/add", OPERATE),
            (Method::POST, "/stats/flow/", OPERATE),
            (Method::POST, "/stats/flow%2f1", OPERATE),
            (Method::POST, "/stats/flowdesc/1", READ),
            (Method::POST, "/stats/aggregateflow/1", READ),
            (Method::GET, "/v1/capture", OPERATE),
            (Method::HEAD, "/v1/capture", OPERATE),
            (Method::POST, "/stats/flowentry/add", OPERATE),
            (Method::DELETE, "/stats/flowentry/clear/1", OPERATE),
            (Method::GET, "/stats/switches", READ),
            (Method::GET, "/v1/tokens", ADMINISTER),
            (Method::HEAD, "/v1/tokens", ADMINISTER),
        ] {
            assert_eq!(needed(&method, path).need, need, "{method} {path}");
        }
    }

    #[test]
    fn changes_and_captures_are_recorded_and_questions_are_not() {
        for (method, path, is_recorded) in [
            (Method::GET, "/v1/switches", false),
            (Method::OPTIONS, "/v1/switches", false),
            (Method::GET, "/v1/tokens", false),
            (Method::GET, "/v1/capture", true),
            (Method::POST, "/v1/trace", false),
            (Method::PUT, "/v1/bench", false),
            (Method::POST, "/stats/flowdesc/1", false),
            (Method::POST, "/stats/flowentry/add", true),
            (Method::DELETE, "/v1/x", true),
        ] {
            assert_eq!(needed(&method, path).is_recorded, is_recorded, "{method} {path}");
        }
    }
}
