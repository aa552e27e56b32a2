//! The records of requests in the audit log.

use std::time::Instant;

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use ring::digest::{SHA256, digest};
use sluice_io::clock;

use super::{Access, Identity};
use crate::api::error::ApiError;
use crate::audit::AuditRecord;
use crate::config::AuditTarget;
use crate::peer::Peer;
use crate::tokens::hex;

/// Bytes of a body in the audit log.
const AUDIT_BODY_BYTES: usize = 1024;

/// The record of one write. If the client closes the connection before the end, the end is recorded without a status.
pub(super) struct Audit<'a> {
    access: &'a Access,
    target: AuditTarget,
    is_required: bool,
    /// Taken when it was written.
    record: Option<AuditRecord>,
    started: Instant,
}

impl<'a> Audit<'a> {
    pub(super) fn new(
        access: &'a Access,
        parts: &Parts,
        peer: Peer,
        identity: &Identity,
        body: &Bytes,
        started: Instant,
    ) -> Self {
        let settings = access.settings();
        let (target, is_required) = (settings.audit.clone(), settings.audit_required);
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

    pub(super) fn end(mut self, status: StatusCode) {
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

/// A record, which is begun if that is required; the response if that fails.
pub(super) async fn begun(audit: Option<Audit<'_>>) -> Result<Option<Audit<'_>>, Response> {
    let Some(audit) = audit else { return Ok(None) };
    match audit.begin().await {
        Ok(()) => Ok(Some(audit)),
        Err(error) => {
            let response = error.into_response();
            audit.end(response.status());
            Err(response)
        }
    }
}
