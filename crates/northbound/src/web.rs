//! The web page: files that are embedded in the program. They hold no data of the network, so they need no token.

use std::sync::OnceLock;

use axum::Router;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;

use crate::packed::unpack;

/// A file of the page.
#[derive(Debug)]
struct WebFile {
    /// Where it is served.
    path: &'static str,
    media_type: &'static str,
    /// Value of `ETag`.
    tag: &'static str,
    /// Its content, compressed by gzip.
    packed: &'static [u8],
    /// The same, uncompressed, for clients that do not accept gzip. Filled on first use.
    plain: OnceLock<Vec<u8>>,
}

include!(concat!(env!("OUT_DIR"), "/web_files.rs"));

/// The path of the page itself.
const PAGE: &str = "/";

/// Below this, files have the hash of their content in their names.
const HASHED: &str = "/assets/";

/// Everything comes from this server; no script and no style is in the page itself; no other page may show this one in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// With every file.
const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (VARY, "accept-encoding"),
];

/// The routes of all files.
pub(crate) fn routes() -> Router {
    let mut router = Router::new();
    for file in &FILES {
        router = router
            .route(file.path, get(move |headers: HeaderMap| async move { answer(file, &headers) }));
    }
    if FILES.iter().any(|file| file.path == PAGE) {
        return router;
    }
    router.route(PAGE, get(async || Html(WITHOUT_PAGE)))
}

/// What is at `/` of a program that was built without the page.
const WITHOUT_PAGE: &str = concat!(
    "<!doctype html><html lang=\"en\"><title>Sluice</title>\n",
    "<p>Sluice ",
    env!("CARGO_PKG_VERSION"),
    ", an OpenFlow controller, built without its web page: <code>make release</code> builds it, with Node.js and npm.</p>\n",
    "<p><a href=\"/metrics\">/metrics</a>: the metrics, for Prometheus.</p>\n",
    "<p><a href=\"/v1/switches\">/v1/switches</a>, <a href=\"/v1/links\">/v1/links</a>, ",
    "<a href=\"/v1/hosts\">/v1/hosts</a>: the network, as JSON.</p>\n",
    "<p><a href=\"/v1/openapi.json\">/v1/openapi.json</a>: the description of the API.</p>\n",
);

fn answer(file: &'static WebFile, request: &HeaderMap) -> Response {
    let is_packed = accepts_gzip(request);
    let is_hashed = file.path.starts_with(HASHED);
    let caching = if is_hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
    let is_known =
        request.get(IF_NONE_MATCH).is_some_and(|tag| tag.as_bytes() == file.tag.as_bytes());
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let plain = || file.plain.get_or_init(|| unpack(file.packed)).as_slice();
        let body = if is_packed { file.packed } else { plain() };
        ([(CONTENT_TYPE, file.media_type)], body).into_response()
    };
    let headers = response.headers_mut();
    headers.extend(HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value))));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(ETAG, HeaderValue::from_static(file.tag));
    if is_packed && !is_known {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// Whether the client takes compressed bodies; `gzip;q=0` says that it does not.
fn accepts_gzip(request: &HeaderMap) -> bool {
    let values = request.get_all(ACCEPT_ENCODING).into_iter().filter_map(|it| it.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = quality.split_once('=').is_some_and(|(_, q)| q.trim().parse() == Ok(0.0));
        ["gzip", "*"].contains(&name.trim()) && !is_refused
    })
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use http_body_util::BodyExt as _;

    use super::*;

    static FILE: WebFile = WebFile {
        path: "/assets/x.js",
        media_type: "text/javascript",
        tag: "\"1\"",
        // What `printf 'let x' | gzip -n` writes.
        packed: &[
            0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xcb, 0x49, 0x2d, 0x51, 0xa8, 0, 0, 0x40, 0x77,
            0xba, 0x0e, 5, 0, 0, 0,
        ],
        plain: OnceLock::new(),
    };

    fn answer_to(headers: &[(HeaderName, &'static str)]) -> Response {
        let headers = headers.iter().map(|(n, v)| (n.clone(), HeaderValue::from_static(v)));
        answer(&FILE, &headers.collect())
    }

    #[test]
    fn a_file_is_compressed_for_clients_that_accept_it() {
        for (accepted, is_packed) in [
            ("gzip, deflate", true),
            ("br;q=1.0, gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("br", false),
        ] {
            let response = answer_to(&[(ACCEPT_ENCODING, accepted)]);
            assert_eq!(response.headers().contains_key(CONTENT_ENCODING), is_packed, "{accepted}");
            let body = response.into_body().collect().now_or_never().unwrap().unwrap().to_bytes();
            let expected: &[u8] = if is_packed { FILE.packed } else { b"let x" };
            assert_eq!(body, expected, "{accepted}");
        }
    }

    #[test]
    fn a_file_that_the_client_has_is_not_sent_again() {
        let response = answer_to(&[(IF_NONE_MATCH, "\"1\"")]);
        assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
        assert!(response.headers().contains_key(CONTENT_SECURITY_POLICY));
        assert_eq!(answer_to(&[(IF_NONE_MATCH, "\"2\"")]).status(), StatusCode::OK);
    }
}
