//! The OpenAPI document: what the routes themselves do not say.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ContentBuilder, SecurityRequirement};
use utoipa::openapi::{OpenApi, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, OpenApi as _, ToSchema as _};

use crate::packed::unpack;

pub(super) use super::error::ErrorDocument;

/// The name of the scheme of tokens.
const TOKEN: &str = "token";

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Sluice",
        description = "The network as the controller sees it, and the tables of its switches.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(ErrorDocument)),
    servers((url = "http://localhost:8653", description = "The default address"))
)]
struct Base;

/// The document without routes.
pub(super) fn base() -> OpenApi {
    Base::openapi()
}

/// Any request: it is refused before it reaches its handler.
const OF_ALL: [(&str, &str); 9] = [
    ("400", "A parameter or a header is not known, or its value is invalid"),
    ("401", "No token, or one that is not accepted"),
    ("403", "The role is not sufficient, or the request comes from the web page of somebody else"),
    ("408", "The body was not received in time"),
    ("413", "The body is too large"),
    ("415", "The body is not JSON"),
    ("429", "Too many refused tokens"),
    ("503", "Too much is being processed or sent, or the audit log cannot be written"),
    ("504", "The request has taken too long"),
];

/// Adds what all requests have in common.
pub(super) fn complete(mut document: OpenApi) -> OpenApi {
    let schemes = &mut document.components.get_or_insert_default().security_schemes;
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    schemes.insert(TOKEN.to_owned(), scheme.into());
    // Programs on this machine need none.
    let none = SecurityRequirement::default();
    document.security = Some(vec![none, SecurityRequirement::new(TOKEN, [] as [&str; 0])]);
    for item in document.paths.paths.values_mut() {
        let PathItem { get, post, put, delete, patch, .. } = item;
        for operation in [get, post, put, delete, patch].into_iter().flatten() {
            add(operation, &OF_ALL);
        }
    }
    document
}

fn add(operation: &mut Operation, answers: &[(&str, &str)]) {
    // Required by the specification.
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(Response { description, .. }) = response
            && description.is_empty()
        {
            "Success".clone_into(description);
        }
    }
    for (status, description) in answers {
        let responses = &mut operation.responses.responses;
        responses.entry((*status).to_owned()).or_insert_with(|| error(description));
    }
}

fn error(description: &str) -> RefOr<Response> {
    let schema = Ref::from_schema_name(ErrorDocument::name());
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let response = ResponseBuilder::new().description(description);
    RefOr::T(response.content("application/json", content).build())
}

fn errors(all: &[(&str, &str)]) -> BTreeMap<String, RefOr<Response>> {
    all.iter().map(|(status, description)| ((*status).to_owned(), error(description))).collect()
}

/// The errors of requests that name a switch.
pub(super) struct OfSwitch;

impl IntoResponses for OfSwitch {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        errors(&[
            ("404", "No such switch is connected"),
            ("409", "Several switches have this name, or the switch has too many entries"),
        ])
    }
}

/// The errors of requests that a switch answers.
pub(super) struct BySwitch;

impl IntoResponses for BySwitch {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut all = OfSwitch::responses();
        all.extend(errors(&[
            ("501", "The OpenFlow version of the switch has no such request"),
            ("502", "The switch has answered with an ERROR, or with something else"),
            ("503", "Too many requests wait for this switch or for others"),
            ("504", "The switch did not answer in time"),
        ]));
        all
    }
}

const NO_PORT: (&str, &str) =
    ("404", "No such switch is connected, or it has no such port, or the port no such link");

/// The errors of requests that name a port of a switch.
pub(super) struct OfPort;

impl IntoResponses for OfPort {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        errors(&[NO_PORT, ("409", "Several switches have this name, or there are too many")])
    }
}

/// The errors of requests that name a port, and that its switch answers.
pub(super) struct ByPort;

impl IntoResponses for ByPort {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut all = BySwitch::responses();
        all.extend(OfPort::responses());
        all
    }
}

/// The errors of requests that name two hosts.
pub(super) struct OfHosts;

impl IntoResponses for OfHosts {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        errors(&[("404", "A host is not known"), ("409", "Several hosts have an address")])
    }
}

/// The errors of requests that name a port or two hosts.
pub(super) struct OfTrace;

impl IntoResponses for OfTrace {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        errors(&[
            ("404", "The switch is not connected or has no such port, or a host is not known"),
            ("409", "Several switches have this name, or several hosts an address"),
        ])
    }
}

/// The errors of requests that read what is stored.
pub(super) struct OfStore;

impl IntoResponses for OfStore {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        errors(&[
            ("404", "There is no such kind of entries, no such entry, or no such switch"),
            ("503", "There is no store, or it cannot be read or written"),
        ])
    }
}

/// The errors of requests that change what is stored.
pub(super) struct OfStoreWrites;

impl IntoResponses for OfStoreWrites {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut all = OfStore::responses();
        all.extend(errors(&[
            ("409", "There are too many entries; or a switch has refused a change with `atomic=true`, and nothing was changed"),
            ("500", "The change was not made: a bug, which the message describes"),
        ]));
        all
    }
}

/// The errors of requests about policies.
pub(super) struct OfPolicies;

impl IntoResponses for OfPolicies {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut all = OfStoreWrites::responses();
        all.extend(errors(&[
            ("404", "There is no such policy"),
            (
                "409",
                "There are too many policies or entries, no VLAN id is free, a switch is not connected or has no bundles, or has refused its part",
            ),
        ]));
        all
    }
}

/// The errors of requests about the quarantine of a host.
pub(super) struct OfQuarantine;

impl IntoResponses for OfQuarantine {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut all = OfStoreWrites::responses();
        all.extend(errors(&[
            ("404", "No such host is known, or it is not in quarantine"),
            (
                "409",
                "Several hosts have this IP address, the host is in quarantine already, or there are too many",
            ),
        ]));
        all
    }
}

/// The committed document, compressed by `build.rs`. A test compares it with the one of [`super::openapi_document`].
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.gz"));

/// The text of the document.
static TEXT: LazyLock<Vec<u8>> = LazyLock::new(|| unpack(PACKED));

/// The description of the API, as OpenAPI 3.1.
#[utoipa::path(
    get,
    path = "/v1/openapi.json",
    responses((status = 200, description = "This document", body = Object))
)]
pub(super) async fn document() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], TEXT.as_slice())
}
