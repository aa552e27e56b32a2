//! Requests without a token must not come from a web page of somebody else, which a browser on this machine shows.

use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::{FORWARDED, HOST, HeaderName, ORIGIN};

use crate::api::error::ApiError;

/// What proxies add to the requests that they pass on.
const OF_PROXIES: [HeaderName; 2] = [FORWARDED, HeaderName::from_static("x-forwarded-for")];

/// Browsers say in it whether the page that sends a request is of the same site. Images and scripts have no `Origin`.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a proxy on this machine passes the request on, so that its client may be on another one.
pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    OF_PROXIES.iter().any(|name| headers.contains_key(name))
}

/// Refuses requests of web pages: neither may the page ask for another site (`Origin`, `Sec-Fetch-Site`), nor may its own name lead to this address
/// (`Host`), as with DNS rebinding.
pub(super) fn check(headers: &HeaderMap, has_tls: bool) -> Result<(), ApiError> {
    let host = header(headers, &HOST).unwrap_or_default();
    if !is_address(host) {
        let message = format!("the header Host is {host:?}: expected localhost or an IP address");
        return Err(ApiError::forbidden("host_not_allowed", message));
    }
    let site = header(headers, &SEC_FETCH_SITE);
    if let Some(site) = site.filter(|site| !["same-origin", "none"].contains(site)) {
        let message = format!("the header Sec-Fetch-Site is {site:?}: the page is of another site");
        return Err(ApiError::forbidden("origin_not_allowed", message));
    }
    let scheme = if has_tls { "https" } else { "http" };
    match header(headers, &ORIGIN) {
        Some(origin) if origin != format!("{scheme}://{host}") => {
            let message =
                format!("the header Origin is {origin:?}: expected \"{scheme}://{host}\"");
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

    fn result(host: &str, origin: Option<&'static str>, has_tls: bool) -> Result<(), String> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        headers.extend(origin.map(|origin| (ORIGIN, HeaderValue::from_static(origin))));
        check(&headers, has_tls).map_err(|e| format!("{e:?}"))
    }

    #[test]
    fn programs_and_own_pages_are_answered() {
        for host in ["localhost", "localhost:8653", "127.0.0.1:8653", "[::1]:8653", "10.0.0.1"] {
            assert_eq!(result(host, None, false), Ok(()), "{host}");
        }
        assert_eq!(result("[::1]:8653", Some("http://[::1]:8653"), false), Ok(()));
        assert_eq!(result("localhost", Some("https://localhost"), true), Ok(()));
    }

    #[test]
    fn pages_of_others_do_not_even_load_an_image() {
        for (site, is_allowed) in [
            ("same-origin", true),
            ("none", true),
            ("same-site", false),
            ("cross-site", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("localhost"));
            headers.insert(SEC_FETCH_SITE, HeaderValue::from_static(site));
            assert_eq!(check(&headers, false).is_ok(), is_allowed, "{site}");
        }
    }

    #[test]
    fn pages_of_others_are_not() {
        for (host, origin, code) in [
            ("evil.example:8653", None, "host_not_allowed"),
            ("127.0.0.1.evil.example", None, "host_not_allowed"),
            ("", None, "host_not_allowed"),
            ("localhost:8653", Some("http://evil.example"), "origin_not_allowed"),
            ("localhost:8653", Some("null"), "origin_not_allowed"),
            ("localhost:8653", Some("https://localhost:8653"), "origin_not_allowed"),
        ] {
            let error = result(host, origin, false).unwrap_err();
            assert!(error.contains(code), "{host} {origin:?}: {error}");
        }
        assert!(check(&HeaderMap::new(), false).is_err());
    }
}
