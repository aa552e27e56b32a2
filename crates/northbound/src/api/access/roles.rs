//! Which role a request needs: the one table.

use axum::http::Method;

use crate::tokens::Role;

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Everybody may do it, also from other machines and without a token.
    Nothing,
    Role(Role),
}

use Need::Nothing;

const READ: Need = Need::Role(Role::Read);
const OPERATE: Need = Need::Role(Role::Operate);
const ADMINISTER: Need = Need::Role(Role::Administer);

/// Requests whose role does not follow from the method. `*` is one segment of the path.
const EXCEPTIONS: &[(Method, &str, Need)] = &[
    (Method::GET, "/", Nothing),
    (Method::GET, "/metrics", Nothing),
    // These ask a question whose text is in the body.
    (Method::POST, "/v1/trace", READ),
    (Method::POST, "/stats/flow/*", READ),
    (Method::POST, "/stats/aggregateflow/*", READ),
    (Method::GET, "/v1/tokens", ADMINISTER),
];

/// What a request needs. Whatever has no row: reading methods need the role `read`, all others `operate`.
pub(crate) fn needed(method: &Method, path: &str) -> Need {
    let asked = if method == Method::HEAD { &Method::GET } else { method };
    let found = EXCEPTIONS.iter().find(|(of, pattern, _)| of == asked && matches(pattern, path));
    match found {
        Some(&(_, _, need)) => need,
        None if [Method::GET, Method::OPTIONS].contains(asked) => READ,
        None => OPERATE,
    }
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
            (Method::POST, "/stats/flow/1", READ),
            (Method::POST, "/stats/flow/1/../../flowentry/add", OPERATE),
            (Method::POST, "/stats/flow/", OPERATE),
            (Method::POST, "/stats/flow%2f1", OPERATE),
            (Method::POST, "/stats/aggregateflow/1", READ),
            (Method::POST, "/stats/flowentry/add", OPERATE),
            (Method::DELETE, "/stats/flowentry/clear/1", OPERATE),
            (Method::GET, "/stats/switches", READ),
            (Method::GET, "/v1/tokens", ADMINISTER),
            (Method::HEAD, "/v1/tokens", ADMINISTER),
        ] {
            assert_eq!(needed(&method, path), need, "{method} {path}");
        }
    }
}
