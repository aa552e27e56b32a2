//! Requests to switches.

use std::time::Duration;

use axum::http::StatusCode;
use sluice_openflow::{
    AggregateStats, DatapathId, FlowDesc, FlowStatsRequest, GroupDescRequest, GroupStatsRequest,
    Message, MeterRequest, Multipart, MultipartReply, MultipartRequest, PortDescRequest,
    PortStatsRequest, QueueRequest,
};
use sluice_sdk::{Answer, LISTED_ENTRIES_MAX, Request};
use tokio::sync::oneshot;

use super::ApiState;
use super::error::ApiError;

/// How long a switch may take to answer: it may have a million flow entries.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The last part of a path, and the request to which it belongs.
type Kind = (&'static str, fn() -> MultipartRequest);

/// What can be read from a switch.
pub(super) const KINDS: [Kind; 9] = [
    ("description", || MultipartRequest::Desc),
    ("tables", || MultipartRequest::TableStats),
    ("port-stats", || MultipartRequest::PortStats(PortStatsRequest::default())),
    ("port-descriptions", || MultipartRequest::PortDesc(PortDescRequest::default())),
    ("queues", || MultipartRequest::QueueStats(QueueRequest::default())),
    ("groups", || MultipartRequest::GroupDesc(GroupDescRequest::default())),
    ("group-stats", || MultipartRequest::GroupStats(GroupStatsRequest::default())),
    ("meters", || MultipartRequest::MeterDesc(MeterRequest::default())),
    ("meter-stats", || MultipartRequest::MeterStats(MeterRequest::default())),
];

/// Reads something from a switch.
pub(crate) async fn read(
    state: &ApiState,
    from: DatapathId,
    request: MultipartRequest,
) -> Result<MultipartReply, ApiError> {
    let permit = state.reads.acquire(from).await;
    let request = Message::MultipartRequest(Multipart::single(request));
    let on_end = move |answer: &Answer| permit.end(answer);
    match ask_until_end(state, from, vec![request], on_end).await {
        Answer::Multipart(reply) => reply.parse().map_err(|error| {
            let message = format!("malformed reply: {error}");
            ApiError::new(StatusCode::BAD_GATEWAY, "switch_reply_malformed", message)
        }),
        other => Err(ApiError::of_answer(&other)),
    }
}

/// Reads flow entries of a switch. They are counted first: a reply that is too long would be sent in vain, since the session discards it.
pub(crate) async fn read_flows(
    state: &ApiState,
    from: DatapathId,
    selected: FlowStatsRequest,
) -> Result<Vec<FlowDesc>, ApiError> {
    // A switch that cannot count is asked all the same.
    let count = count_flows(state, from, selected.clone()).await?;
    if let Some(count) = count.filter(|&count| count > LISTED_ENTRIES_MAX) {
        return Err(too_many_entries(count.into()));
    }
    Ok(match read(state, from, MultipartRequest::FlowDesc(selected)).await? {
        MultipartReply::FlowDesc { flows } => flows,
        _ => vec![],
    })
}

/// Counts flow entries of a switch; `None` if it cannot.
pub(super) async fn count_flows(
    state: &ApiState,
    from: DatapathId,
    selected: FlowStatsRequest,
) -> Result<Option<u32>, ApiError> {
    match read(state, from, MultipartRequest::AggregateStats(selected)).await {
        Ok(MultipartReply::AggregateStats(AggregateStats { stats })) => Ok(stats.flow_count()),
        Ok(_) => Ok(None),
        Err(error) if error.is_refusal() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The error of a request that would read more than [`LISTED_ENTRIES_MAX`] entries.
pub(super) fn too_many_entries(count: u64) -> ApiError {
    let message = format!("it has {count} flow entries: at most {LISTED_ENTRIES_MAX} are read");
    ApiError::new(StatusCode::CONFLICT, "too_many_entries", message)
}

/// Sends messages to a switch and waits for the answer.
pub(crate) async fn ask(state: &ApiState, to: DatapathId, messages: Vec<Message>) -> Answer {
    ask_until_end(state, to, messages, |_| ()).await
}

/// As [`ask`], and calls `on_end` when the switch has answered, even if the client does not wait any more.
async fn ask_until_end(
    state: &ApiState,
    to: DatapathId,
    messages: Vec<Message>,
    on_end: impl FnOnce(&Answer) + Send + 'static,
) -> Answer {
    let (sender, answer) = oneshot::channel();
    let on_answer = Box::new(move |answer| {
        on_end(&answer);
        // Fails if the client does not wait any more.
        let _ = sender.send(answer);
    });
    state.controller.request(to, Request { messages, timeout: TIMEOUT }, on_answer);
    answer.await.unwrap_or(Answer::Disconnected)
}
