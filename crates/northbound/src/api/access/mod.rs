//! Who may use the API. `docs/adr/0032-who-may-use-the-api.md` has the reasons.

mod body;
mod failures;
mod origin;
mod roles;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use ring::digest::{SHA256, digest};
use sluice_io::{TlsServer, clock};
use tokio::sync::Semaphore;
use tracing::{error, info, warn};

use failures::Failures;
use roles::Need;

use super::error::ApiError;
use crate::audit::{AuditLog, AuditRecord};
use crate::config::{AccessConfig, AuditTarget};
use crate::peer::Peer;
use crate::tokens::{self, Role, Token, TokenFile, TokenRefusal, hex};

/// How often the file of tokens is looked at, while tokens are presented.
const TOKENS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes of a body in the audit log.
const AUDIT_BODY_BYTES: usize = 1024;

/// Decides who may do what, and records what was done. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Access(Arc<AccessState>);

#[derive(Debug)]
struct AccessState {
    settings: Mutex<Settings>,
    failures: Mutex<Failures>,
    large_bodies: Semaphore,
    audit: AuditLog,
    refused: AtomicU64,
}

#[derive(Debug)]
struct Settings {
    config: AccessConfig,
    tokens_checked_at: Instant,
}

/// Who sends a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// For people: `token NAME`, `uid 1000` or `local`.
    pub(crate) who: String,
    role: Role,
}

impl Access {
    pub(crate) fn new(config: AccessConfig) -> Self {
        let audit = AuditLog::default();
        audit.reopen(&config.audit);
        Self(Arc::new(AccessState {
            settings: Mutex::new(Settings { config, tokens_checked_at: clock::now() }),
            failures: Mutex::default(),
            large_bodies: Semaphore::new(body::LARGE_BODIES_MAX),
            audit,
            refused: AtomicU64::new(0),
        }))
    }

    /// Applies a new configuration; the file of the audit log is opened anew.
    pub(crate) fn apply(&self, config: AccessConfig) {
        self.0.audit.reopen(&config.audit);
        self.settings().config = config;
    }

    /// Certificate and key for the connections that are accepted from now on.
    pub(crate) fn tls(&self) -> Option<TlsServer> {
        self.settings().config.tls.clone()
    }

    /// Requests that were refused because of who sent them.
    pub(crate) fn refused(&self) -> u64 {
        self.0.refused.load(Relaxed)
    }

    /// Lines of the audit log that could not be written.
    pub(crate) fn audit_lost(&self) -> u64 {
        self.0.audit.lost()
    }

    /// The tokens of the file, for a list of them.
    pub(crate) fn tokens(&self) -> Vec<Token> {
        let mut settings = self.settings();
        settings.reload_tokens(clock::now());
        settings.config.tokens.as_ref().map(|file| file.tokens().to_vec()).unwrap_or_default()
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.0.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds out who sends a request.
    fn identify(&self, peer: Peer, headers: &HeaderMap) -> Result<Identity, ApiError> {
        let Some(token) = bearer_token(headers)? else {
            return self.identify_local(peer, headers);
        };
        let mut settings = self.settings();
        if peer.is_exposed() && !settings.config.tokens_without_tls {
            let message =
                "a token was sent in clear text, so others may know it: replace it, and use https";
            return Err(ApiError::forbidden("token_without_tls", message));
        }
        settings.reload_tokens(clock::now());
        let known = settings.config.tokens.as_ref().map(TokenFile::tokens).unwrap_or_default();
        match tokens::find(known, token, clock::since_epoch()) {
            Ok(token) => Ok(Identity { who: format!("token {}", token.name), role: token.role }),
            Err(refusal) => {
                drop(settings);
                Err(self.refuse_token(peer, refusal))
            }
        }
    }

    /// A program on this machine that presents no token.
    fn identify_local(&self, peer: Peer, headers: &HeaderMap) -> Result<Identity, ApiError> {
        let local_role = self.settings().config.local_role;
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
        Ok(Identity { who, role })
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

impl Settings {
    /// Reads the file of tokens again if it has changed. One that is wrong changes nothing.
    fn reload_tokens(&mut self, now: Instant) {
        if now.saturating_duration_since(self.tokens_checked_at) < TOKENS_CHECK_INTERVAL {
            return;
        }
        self.tokens_checked_at = now;
        let Some(file) = self.config.tokens.as_mut().filter(|file| file.has_changed()) else {
            return;
        };
        match TokenFile::load(file.path()) {
            Ok(new) => {
                info!(tokens = new.tokens().len(), "API tokens reloaded");
                *file = new;
            }
            Err(why) => {
                error!("API tokens not reloaded, the previous ones stay in effect: {why}");
                file.ignore_change();
            }
        }
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
    let need = roles::needed(request.method(), request.uri().path());
    let Need::Role(need) = need else { return next.run(request).await };
    let started = clock::now();
    let (mut parts, body) = request.into_parts();
    // Every connection has one; without it a request would come from nowhere, and have no rights.
    let nowhere = Peer::Tcp { address: ([0, 0, 0, 0], 0).into(), has_tls: false };
    let peer = parts.extensions.get::<Peer>().copied().unwrap_or(nowhere);
    let identity = match access.authorize(peer, &parts, need) {
        Ok(identity) => identity,
        Err((error, identity)) => {
            access.0.refused.fetch_add(1, Relaxed);
            let response = error.into_response();
            if let Some(identity) = identity.filter(|_| is_write(&parts.method, need)) {
                let audit = Audit::new(&access, &parts, peer, &identity, &Bytes::new(), started);
                audit.end(response.status());
            }
            return response;
        }
    };
    let path = parts.uri.path();
    let body = match body::read(body, &parts.headers, path, &access.0.large_bodies).await {
        Ok(body) => body,
        Err(error) => return error.into_response(),
    };
    if !is_write(&parts.method, need) {
        return next.run(Request::from_parts(parts, Body::from(body))).await;
    }
    let audit = Audit::new(&access, &parts, peer, &identity, &body, started);
    if let Err(error) = audit.begin().await {
        return error.into_response();
    }
    parts.extensions.insert(identity);
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    audit.end(response.status());
    response
}

fn is_write(method: &Method, need: Role) -> bool {
    need > Role::Read && !method.is_safe()
}

/// The record of one write. If the client closes the connection before the end, the end is recorded without a status.
struct Audit<'a> {
    access: &'a Access,
    target: AuditTarget,
    is_required: bool,
    /// Taken when it was written.
    record: Option<AuditRecord>,
    started: Instant,
}

impl<'a> Audit<'a> {
    fn new(
        access: &'a Access,
        parts: &Parts,
        peer: Peer,
        identity: &Identity,
        body: &Bytes,
        started: Instant,
    ) -> Self {
        let settings = access.settings();
        let (target, is_required) = (settings.config.audit.clone(), settings.config.audit_required);
        drop(settings);
        let shown = body.get(..AUDIT_BODY_BYTES);
        let record = AuditRecord {
            time_unix_s: clock::since_epoch().as_secs_f64(),
            event: "end",
            who: identity.who.clone(),
            from: peer.to_string(),
            role: identity.role.to_string(),
            method: parts.method.to_string(),
            path: parts.uri.to_string(),
            body: String::from_utf8_lossy(shown.unwrap_or(body)).into_owned(),
            body_sha256: shown.map(|_| hex(digest(&SHA256, body).as_ref())),
            status: None,
            duration_ms: None,
        };
        Self { access, target, is_required, record: Some(record), started }
    }

    /// Makes sure that the write is on record before it is made, if that is configured.
    async fn begin(&self) -> Result<(), ApiError> {
        let Some(record) = self.record.as_ref().filter(|_| self.is_required) else {
            return Ok(());
        };
        let begin = AuditRecord { event: "begin", ..record.clone() };
        if self.access.0.audit.record_surely(&self.target, &begin).await {
            return Ok(());
        }
        let message =
            "the audit log cannot be written, so nothing may be changed (`api.audit_required`)";
        Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "audit_unavailable", message))
    }

    fn end(mut self, status: StatusCode) {
        self.write(Some(status.as_u16()));
    }

    fn write(&mut self, status: Option<u16>) {
        let Some(record) = self.record.take() else { return };
        let took = clock::now().saturating_duration_since(self.started);
        let duration_ms = Some(took.as_secs_f64() * 1000.0);
        let record = AuditRecord { status, duration_ms, ..record };
        self.access.0.audit.record(&self.target, &record);
    }
}

impl Drop for Audit<'_> {
    fn drop(&mut self) {
        self.write(None);
    }
}
