//! Who may use the API: programs on this machine. There are no users yet.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request};
use axum::http::HeaderMap;
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::error::ApiError;

/// Passes on requests of programs on this machine. A web page of somebody else that a browser on this machine shows is none: neither if
/// it asks for another site (`Origin`), nor if its own name leads to this address (`Host`).
pub(super) async fn check(request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    match check_request(peer, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

fn check_request(peer: Option<IpAddr>, headers: &HeaderMap) -> Result<(), ApiError> {
    if !peer.is_some_and(|peer| peer.to_canonical().is_loopback()) {
        let message = "the API answers programs on the same machine only; /metrics answers all";
        return Err(ApiError::forbidden("not_local", message));
    }
    let host = header(headers, &HOST).unwrap_or_default();
    if !is_address(host) {
        let message = format!("the header Host is {host:?}: expected localhost or an IP address");
        return Err(ApiError::forbidden("host_not_allowed", message));
    }
    match header(headers, &ORIGIN) {
        Some(origin) if origin.strip_prefix("http://") != Some(host) => {
            let message = format!("the header Origin is {origin:?}: expected \"http://{host}\"");
            Err(ApiError::forbidden("origin_not_allowed", message))
        }
        _ => Ok(()),
    }
}

/// The value of a header; an empty one if it is not text.
fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

/// Whether a host with an optional port is `localhost` or an IP address, which no name server can redirect.
fn is_address(host: &str) -> bool {
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = without_port.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    without_port == "localhost" || name.unwrap_or(without_port).parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn result(peer: &str, host: &str, origin: Option<&'static str>) -> Result<(), String> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        headers.extend(origin.map(|origin| (ORIGIN, HeaderValue::from_static(origin))));
        check_request(Some(peer.parse().unwrap()), &headers).map_err(|e| format!("{e:?}"))
    }

    #[test]
    fn programs_of_this_machine_are_answered() {
        for host in ["localhost", "localhost:8653", "127.0.0.1:8653", "[::1]:8653", "10.0.0.1"] {
            assert_eq!(result("127.0.0.1", host, None), Ok(()), "{host}");
        }
        assert_eq!(result("::1", "[::1]:8653", Some("http://[::1]:8653")), Ok(()));
        assert_eq!(result("::ffff:127.0.0.1", "localhost", None), Ok(()));
    }

    #[test]
    fn other_machines_and_pages_of_others_are_not() {
        for (peer, host, origin, code) in [
            ("10.0.0.9", "10.0.0.1:8653", None, "not_local"),
            ("127.0.0.1", "evil.example:8653", None, "host_not_allowed"),
            ("127.0.0.1", "127.0.0.1.evil.example", None, "host_not_allowed"),
            ("127.0.0.1", "", None, "host_not_allowed"),
            ("127.0.0.1", "localhost:8653", Some("http://evil.example"), "origin_not_allowed"),
            ("127.0.0.1", "localhost:8653", Some("null"), "origin_not_allowed"),
        ] {
            let error = result(peer, host, origin).unwrap_err();
            assert!(error.contains(code), "{peer} {host} {origin:?}: {error}");
        }
        assert!(check_request(None, &HeaderMap::new()).is_err());
    }
}
