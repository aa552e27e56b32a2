//! `/v1/events`: a stream of server-sent events, and the last events as a document.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as SseEvent, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use sluice_io::clock;
use tokio::sync::watch;
use tokio::time::timeout;
use utoipa::ToSchema;

use super::access::{CHECK_INTERVAL, Permission};
use super::error::ApiError;
use super::extract::ApiQuery;
use super::{ApiState, names};
use crate::events::{
    EventDocument, EventFilter, EventId, EventKind, Events, HISTORY_MAX, LastEvents, NextEvent,
    Resumption, ResumptionNotice,
};
use crate::routes::{Routes, routes};
use crate::source_limit::SourcePermit;
use crate::streaming::{CLOSE_AFTERWARDS, PROGRESS_INTERVAL, StreamGuard};

/// Streams of events at a time: they do not count as connections, of which browsers need some.
pub(super) const STREAMS_MAX: usize = 16;

/// Events of a document, unless the request says how many.
const EVENTS_DEFAULT: usize = 1000;

/// A comment is sent after this time without an event, so that both ends notice if the other one is gone.
const KEEP_ALIVE_INTERVAL: Duration = PROGRESS_INTERVAL;

/// The name of the header with which browsers resume a stream.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(event_stream)).routes(routes!(event_history))
}

/// Which events are sent, and from where on.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct StreamQuery {
    /// Names of kinds, separated by commas.
    kind: Option<String>,
    /// A switch by datapath id or name.
    switch: Option<String>,
    /// As the header `Last-Event-ID`, for clients that cannot set it.
    after: Option<String>,
}

/// Which of the last events are listed.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct HistoryQuery {
    /// Names of kinds, separated by commas.
    kind: Option<String>,
    /// A switch by datapath id or name.
    switch: Option<String>,
    /// How many of the last ones.
    #[param(maximum = 4096, default = 1000)]
    limit: Option<usize>,
    /// Only those after the event with this id, such as the `last_id` of an earlier answer. If it is of an earlier run of the controller, all.
    after: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct HistoryDocument {
    /// The oldest first.
    events: Vec<EventDocument>,
    /// The id of the newest event, whether it is listed or not: a stream that resumes after it continues the list.
    last_id: String,
    /// Number of events after `after` that are missing: they are no longer kept, or `limit` is too low. `null` without `after`, or if that is of
    /// another run of the controller.
    lost: Option<u64>,
}

/// What a stream says of itself; it is no event of the network.
#[derive(Debug, Serialize)]
struct NoticeDocument {
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
    text: String,
}

fn filter(
    state: &ApiState,
    kind: Option<&str>,
    switch: Option<String>,
) -> Result<EventFilter, ApiError> {
    // A switch may have two names, of which events have one; one that is not connected is found by that one.
    let switch = switch.map(|text| {
        let sessions = state.controller.switches();
        let found = names::find(&sessions, &state.given_names(), &text);
        found.map(|session| session.datapath_id.to_string()).unwrap_or(text)
    });
    let names = kind.into_iter().flat_map(|names| names.split(','));
    let kinds = names.map(|name| {
        EventKind::parse(name.trim()).ok_or_else(|| {
            let known: Vec<_> = EventKind::NAMES.iter().map(|&(_, name)| name).collect();
            ApiError::invalid(format!("unknown kind {name:?}: expected {}", known.join(", ")))
        })
    });
    Ok(EventFilter { kinds: kinds.collect::<Result<_, _>>()?, switch })
}

/// The id that a request names; an empty one is none.
fn event_id(text: Option<String>) -> Result<Option<EventId>, ApiError> {
    let id = text.filter(|id| !id.is_empty()).map(|id| {
        let message = format!("the last event id is {id:?}: expected one that this API has sent");
        id.parse::<EventId>().map_err(|()| ApiError::invalid(message))
    });
    id.transpose()
}

/// The last events.
#[utoipa::path(
    get,
    path = "/v1/events/history",
    params(HistoryQuery),
    responses((status = 200, body = HistoryDocument))
)]
async fn event_history(
    State(state): State<ApiState>,
    ApiQuery(query): ApiQuery<HistoryQuery>,
) -> Result<Json<HistoryDocument>, ApiError> {
    let limit = query.limit.unwrap_or(EVENTS_DEFAULT);
    if limit > HISTORY_MAX {
        return Err(ApiError::invalid(format!("limit is {limit}: expected at most {HISTORY_MAX}")));
    }
    let filter = filter(&state, query.kind.as_deref(), query.switch)?;
    let after = event_id(query.after)?;
    let LastEvents { events, last_id, lost } = state.events.last(&filter, after, limit);
    Ok(Json(HistoryDocument { events, last_id: last_id.to_string(), lost }))
}

/// Events as they happen, as server-sent events, until the client closes the connection.
#[utoipa::path(
    get,
    path = "/v1/events",
    params(
        StreamQuery,
        ("last-event-id" = Option<String>, Header, description = "The id of the last event that was received")
    ),
    responses(
        (
            status = 200,
            description = "`data` is an event as in `/v1/events/history`, or a notice with `reason` and `text`",
            content_type = "text/event-stream",
            body = String
        ),
        (
            status = 503,
            description = "Too many streams are open",
            body = super::error::ErrorDocument
        )
    )
)]
async fn event_stream(
    State(state): State<ApiState>,
    Extension(guard): Extension<StreamGuard>,
    Extension(permission): Extension<Permission>,
    headers: HeaderMap,
    ApiQuery(query): ApiQuery<StreamQuery>,
) -> Result<Response, ApiError> {
    let filter = filter(&state, query.kind.as_deref(), query.switch)?;
    let header = headers.get(LAST_EVENT_ID).map(|id| id.to_str().unwrap_or_default().to_owned());
    let after = event_id(header.or(query.after))?;
    let permit = state.streams.try_admit(permission.source()).map_err(|error| {
        let message = format!("too many streams of events: {error}, close one");
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams", message)
    })?;
    guard.record_progress(clock::now());
    let Resumption { from, notice } = state.events.resume(after);
    let stream = EventStream {
        filter,
        next: from,
        notice,
        has_ended: false,
        changed: state.events.watch(),
        events: state.events,
        guard,
        permission,
        _permit: permit,
    };
    let events = Sse::new(stream::unfold(stream, EventStream::next));
    Ok(([CLOSE_AFTERWARDS], events).into_response())
}

/// A stream of events to one client. It has no queue: it reads from the common history as fast as the client takes.
struct EventStream {
    events: Arc<Events>,
    filter: EventFilter,
    /// The number of the event from which it looks for the next one.
    next: u64,
    /// What it says first.
    notice: Option<ResumptionNotice>,
    has_ended: bool,
    changed: watch::Receiver<u64>,
    guard: StreamGuard,
    permission: Permission,
    _permit: SourcePermit,
}

impl EventStream {
    async fn next(mut self) -> Option<(Result<SseEvent, Infallible>, Self)> {
        let event = self.next_event().await?;
        Some((Ok(event), self))
    }

    async fn next_event(&mut self) -> Option<SseEvent> {
        self.guard.record_progress(clock::now());
        if self.has_ended {
            return None;
        }
        // After it, the stream continues with `self.next`.
        let last_id = |next: u64| self.events.id(next - 1).to_string();
        if let Some(notice) = self.notice.take() {
            return Some(notice_event(notice).id(last_id(self.next)));
        }
        let keep_alive_at = clock::now() + KEEP_ALIVE_INTERVAL;
        loop {
            if self.permission.is_revoked(clock::now()) {
                self.has_ended = true;
                let text = "the stream ends: its token or role is not valid any more".to_owned();
                let notice = NoticeDocument { reason: "access-revoked", lost: None, text };
                return Some(with_data(SseEvent::default().event("end"), &notice));
            }
            // Before the look, so that no event comes between the two.
            self.changed.mark_unchanged();
            match self.events.next(self.next, &self.filter) {
                NextEvent::Event(document, next) => {
                    self.next = next;
                    let event = SseEvent::default().event(document.kind().name());
                    return Some(with_data(event, &*document).id(last_id(next)));
                }
                NextEvent::Lost(lost) => {
                    self.has_ended = true;
                    let text = format!("the stream ends: {lost} events were not read in time");
                    let notice = NoticeDocument { reason: "too-slow", lost: Some(lost), text };
                    return Some(with_data(SseEvent::default().event("end"), &notice));
                }
                NextEvent::Later(next) => self.next = next,
            }
            // Events that the filter does not select keep nothing alive.
            let _ = timeout(CHECK_INTERVAL, self.changed.changed()).await;
            if clock::now() >= keep_alive_at {
                // With the id, a client that resumes does not miss events that its filter does not select.
                return Some(SseEvent::default().comment("keep-alive").id(last_id(self.next)));
            }
        }
    }
}

fn notice_event(notice: ResumptionNotice) -> SseEvent {
    let (name, reason, lost, text) = match notice {
        ResumptionNotice::Gap(lost) => {
            let text = format!("{lost} events were missed: they are no longer kept");
            ("gap", "too-old", Some(lost), text)
        }
        ResumptionNotice::Reset => {
            let text = "the controller was started again: all of its events follow";
            ("reset", "another-run", None, text.to_owned())
        }
    };
    with_data(SseEvent::default().event(name), &NoticeDocument { reason, lost, text })
}

/// An event with a document.
fn with_data(event: SseEvent, document: &impl Serialize) -> SseEvent {
    // Documents have texts as keys, and so can be written.
    event.json_data(document).unwrap_or_default()
}
