//! Who may use the API. `docs/adr/0032-who-may-use-the-api.md` has the reasons.

mod body;
mod failures;
mod origin;
mod permission;
mod recording;
mod responses;
mod roles;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use sluice_io::{TlsServer, clock};
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

pub(crate) use permission::{CHECK_INTERVAL, Permission};

use failures::Failures;
use recording::{Audit, begun};
use responses::{OfRequest, Responses};
use roles::{Need, Requirement};

use super::error::ApiError;
use crate::audit::AuditLog;
use crate::config::AccessConfig;
use crate::peer::Peer;
use crate::source_limit::SourceLimit;
use crate::tokens::{self, Role, Token, TokenFile, TokenFileError, TokenRefusal};

/// How often the file of tokens is looked at.
const TOKENS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long a request may take, with its body: longer than switches may take to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Decides who may do what, and records what was done. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Access(Arc<AccessState>);

#[derive(Debug)]
struct AccessState {
    settings: Mutex<AccessConfig>,
    failures: Mutex<Failures>,
    large_bodies: SourceLimit,
    responses: Responses,
    audit: AuditLog,
    refused: AtomicU64,
}

/// Who sends a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// For people: `token NAME`, `uid 1000` or `local`.
    pub(crate) who: String,
    role: Role,
    /// The token that was presented.
    token: Option<Box<Token>>,
}

impl Identity {
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// When the token expires, if there is one that does.
    pub(crate) fn expires_unix_s(&self) -> Option<u64> {
        self.token.as_ref()?.expires_unix_s
    }
}

impl Access {
    pub(crate) fn new(config: AccessConfig) -> Self {
        let audit = AuditLog::default();
        audit.reopen(&config.audit);
        Self(Arc::new(AccessState {
            settings: Mutex::new(config),
            failures: Mutex::default(),
            large_bodies: SourceLimit::new(body::LARGE_BODIES_MAX),
            responses: Responses::default(),
            audit,
            refused: AtomicU64::new(0),
        }))
    }

    /// Applies a new configuration; the file of the audit log is opened anew.
    pub(crate) fn apply(&self, config: AccessConfig) {
        self.0.audit.reopen(&config.audit);
        *self.settings() = config;
    }

    /// Certificate and key for the connections that are accepted from now on.
    pub(crate) fn tls(&self) -> Option<TlsServer> {
        self.settings().tls.clone()
    }

    /// Requests that were refused because of who sent them.
    pub(crate) fn refused(&self) -> u64 {
        self.0.refused.load(Relaxed)
    }

    /// Lines of the audit log that could not be written.
    pub(crate) fn audit_lost(&self) -> u64 {
        self.0.audit.lost()
    }

    /// Writes the lines that wait for the disk, and ends the audit log.
    pub(crate) fn close_audit(&self) {
        self.0.audit.close();
    }

    /// The tokens of the file, for a list of them.
    pub(crate) fn tokens(&self) -> Vec<Token> {
        let settings = self.settings();
        settings.tokens.as_ref().map(|file| file.tokens().to_vec()).unwrap_or_default()
    }

    /// Reads the file of tokens again whenever it has changed. One that is wrong changes nothing. Never ends.
    pub(crate) async fn follow_tokens(&self) {
        loop {
            sleep(TOKENS_CHECK_INTERVAL).await;
            let file = self.settings().tokens.clone();
            let Some(file) = file.filter(TokenFile::has_changed) else { continue };
            let path = file.path().to_owned();
            // The disk takes its time, in a thread of its own. A panic has been reported already.
            let load = move || TokenFile::load(&path);
            if let Ok(loaded) = tokio::task::spawn_blocking(load).await {
                self.replace_tokens(loaded, file.path());
            }
        }
    }

    fn replace_tokens(&self, loaded: Result<TokenFile, TokenFileError>, path: &Path) {
        let mut settings = self.settings();
        // Another configuration may have been applied meanwhile.
        let Some(file) = settings.tokens.as_mut().filter(|it| it.path() == path) else { return };
        match loaded {
            Ok(new) => {
                info!(tokens = new.tokens().len(), "API tokens reloaded");
                *file = new;
            }
            Err(why) => {
                error!("API tokens not reloaded, the previous ones stay in effect: {why}");
                file.ignore(&why);
            }
        }
    }

    fn settings(&self) -> MutexGuard<'_, AccessConfig> {
        self.0.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds out who sends a request.
    fn identify(&self, peer: Peer, headers: &HeaderMap) -> Result<Identity, ApiError> {
        let Some(token) = bearer_token(headers)? else {
            return self.identify_local(peer, headers);
        };
        let settings = self.settings();
        if peer.is_exposed() && !settings.tokens_without_tls {
            let message =
                "a token was sent in clear text, so others may know it: replace it, and use https";
            return Err(ApiError::forbidden("token_without_tls", message));
        }
        let known = settings.tokens.as_ref().map(TokenFile::tokens).unwrap_or_default();
        match tokens::find(known, token, clock::since_epoch()) {
            Ok(token) => Ok(Identity {
                who: format!("token {}", token.name),
                role: token.role,
                token: Some(Box::new(token.clone())),
            }),
            Err(refusal) => {
                drop(settings);
                Err(self.refuse_token(peer, refusal))
            }
        }
    }

    /// A program on this machine that presents no token.
    fn identify_local(&self, peer: Peer, headers: &HeaderMap) -> Result<Identity, ApiError> {
        let local_role = self.settings().local_role;
        let Some(role) = local_role.filter(|_| peer.is_local() && !origin::is_forwarded(headers))
        else {
            let message =
                "a token is needed: Authorization: Bearer TOKEN (`sluice token add` makes one)";
            return Err(ApiError::new(StatusCode::UNAUTHORIZED, "token_missing", message));
        };
        let who = match peer {
            Peer::Unix { uid: Some(uid) } => format!("uid {uid}"),
            // A browser cannot reach a Unix socket.
            Peer::Unix { uid: None } => "local".to_owned(),
            Peer::Tcp { has_tls, .. } => {
                origin::check(headers, has_tls)?;
                "local".to_owned()
            }
        };
        Ok(Identity { who, role, token: None })
    }

    /// Whether a client would still have a role that it had.
    fn still_permits(&self, peer: Peer, identity: &Identity, need: Role) -> bool {
        let settings = self.settings();
        let Some(token) = &identity.token else {
            return settings.local_role.is_some_and(|role| role >= need);
        };
        let is_exposed = peer.is_exposed() && !settings.tokens_without_tls;
        let known = settings.tokens.as_ref().map(TokenFile::tokens).unwrap_or_default();
        let is_valid = known.contains(token) && !token.is_expired(clock::since_epoch());
        is_valid && !is_exposed && token.role >= need
    }

    fn refuse_token(&self, peer: Peer, refusal: TokenRefusal) -> ApiError {
        let mut failures = self.0.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.count(peer.source(), clock::now()) {
            let message =
                format!("too many refused tokens: wait for {} s", failures::WINDOW.as_secs());
            return ApiError::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_refused_tokens",
                message,
            );
        }
        let (code, message) = match refusal {
            TokenRefusal::Unknown => ("token_unknown", "the token is not known"),
            TokenRefusal::Expired => ("token_expired", "the token has expired"),
        };
        warn!(from = %peer, reason = code, "API token refused");
        ApiError::new(StatusCode::UNAUTHORIZED, code, message)
    }

    /// Refuses the request, or finds out who sends it.
    fn authorize(
        &self,
        peer: Peer,
        parts: &Parts,
        need: Role,
    ) -> Result<Identity, (ApiError, Option<Identity>)> {
        check_headers(parts).map_err(|error| (error, None))?;
        let identity = self.identify(peer, &parts.headers).map_err(|error| (error, None))?;
        if identity.role >= need {
            return Ok(identity);
        }
        let message = format!(
            "{} {} needs the role {need}, and {} has the role {}",
            parts.method,
            parts.uri.path(),
            identity.who,
            identity.role
        );
        Err((ApiError::forbidden("role_insufficient", message), Some(identity)))
    }
}

/// The token of a request. A token in the query is not read: addresses are logged, and stay in the history of browsers.
fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let token = value.to_str().ok().and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    let message = "the header Authorization is not \"Bearer TOKEN\"";
    token
        .map(Some)
        .ok_or_else(|| ApiError::new(StatusCode::UNAUTHORIZED, "token_malformed", message))
}

/// Refuses what different programs would understand differently.
fn check_headers(parts: &Parts) -> Result<(), ApiError> {
    for name in [HOST, AUTHORIZATION] {
        if parts.headers.get_all(&name).iter().nth(1).is_some() {
            let message = format!("the header {name} is given twice");
            return Err(ApiError::new(StatusCode::BAD_REQUEST, "header_repeated", message));
        }
    }
    // An address in the request line replaces the header (RFC 9112, section 3.2.2).
    let host = parts.headers.get(HOST).map(axum::http::HeaderValue::as_bytes);
    match parts.uri.authority() {
        Some(authority) if host != Some(authority.as_str().as_bytes()) => {
            let message = "the request line and the header Host name different hosts";
            Err(ApiError::new(StatusCode::BAD_REQUEST, "host_ambiguous", message))
        }
        _ => Ok(()),
    }
}

/// Passes on requests that are allowed, with their whole bodies, and records writes.
pub(crate) async fn check(State(access): State<Access>, request: Request, next: Next) -> Response {
    let Requirement { need, is_recorded } = roles::needed(request.method(), request.uri().path());
    let started = clock::now();
    // Every connection has one; without it a request would come from nowhere, and have no rights.
    let nowhere = Peer::Tcp { address: ([0, 0, 0, 0], 0).into(), has_tls: false };
    let peer = request.extensions().get::<Peer>().copied().unwrap_or(nowhere);
    let Need::Role(need) = need else {
        let response = answer(next, request, started).await;
        return access.0.responses.admit(response, peer.source(), OfRequest::Question);
    };
    let (mut parts, body) = request.into_parts();
    let identity = match access.authorize(peer, &parts, need) {
        Ok(identity) => identity,
        Err((error, identity)) => {
            access.0.refused.fetch_add(1, Relaxed);
            let response = error.into_response();
            if let Some(identity) = identity.filter(|_| is_recorded) {
                let audit = Audit::new(&access, &parts, peer, &identity, &Bytes::new(), started);
                audit.end(response.status());
            }
            return response;
        }
    };
    let path = parts.uri.path();
    let body = body::read(body, &parts.headers, path, peer.source(), &access.0.large_bodies).await;
    let (body, _permit) = match body {
        Ok(body) => body,
        Err(error) => return error.into_response(),
    };
    let audit = is_recorded.then(|| Audit::new(&access, &parts, peer, &identity, &body, started));
    let audit = match begun(audit).await {
        Ok(audit) => audit,
        Err(response) => return response,
    };
    let is_question = parts.method.is_safe() || !is_recorded;
    parts.extensions.insert(identity.clone());
    parts.extensions.insert(Permission::new(access.clone(), peer, identity, need));
    let response = answer(next, Request::from_parts(parts, Body::from(body)), started).await;
    if let Some(audit) = audit {
        audit.end(response.status());
    }
    let of = if is_question { OfRequest::Question } else { OfRequest::Write };
    access.0.responses.admit(response, peer.source(), of)
}

/// The answer of a handler, or an error if it takes too long.
async fn answer(next: Next, request: Request, started: Instant) -> Response {
    let left = REQUEST_TIMEOUT.saturating_sub(clock::now().saturating_duration_since(started));
    timeout(left, next.run(request)).await.unwrap_or_else(|_| {
        let message = format!(
            "not done within {} s; if the request changes something, that may have been done",
            REQUEST_TIMEOUT.as_secs()
        );
        ApiError::new(StatusCode::GATEWAY_TIMEOUT, "request_timed_out", message).into_response()
    })
}
