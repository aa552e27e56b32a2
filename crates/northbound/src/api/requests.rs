//! Requests to switches.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use sluice_io::clock;
use sluice_openflow::{
    AggregateStats, DatapathId, FlowDesc, FlowStatsRequest, GroupDescRequest, GroupStatsRequest,
    Message, MeterRequest, Multipart, MultipartReply, MultipartRequest, PortDescRequest,
    PortStatsRequest, QueueRequest,
};
use sluice_sdk::{Answer, LISTED_ENTRIES_MAX, Request};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::ApiState;
use super::error::ApiError;
use super::reads::{Client, LimitedAnswer, Purpose};

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

/// How long a read may wait for others before it is refused: longer if many clients read at the same time than if one does.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Reads from switches on behalf of a client, as often as it may.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'s> {
    state: &'s ApiState,
    client: Client,
    purpose: Purpose,
    deadline: Option<Instant>,
}

impl ApiState {
    /// Reads what a client asks for.
    pub(crate) fn reader(&self, client: Client) -> Reader<'_> {
        Reader { state: self, client, purpose: Purpose::Query, deadline: None }
    }
}

impl Reader<'_> {
    /// Reads what is to be deleted.
    pub(super) fn for_deletion(self) -> Self {
        Self { purpose: Purpose::Deletion, ..self }
    }

    /// Reads nothing after this time.
    pub(super) fn until(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Reads something from a switch.
    pub(crate) async fn read(
        self,
        from: DatapathId,
        request: MultipartRequest,
    ) -> Result<MultipartReply, ApiError> {
        let request = Message::MultipartRequest(Multipart::single(request));
        let LimitedAnswer { answer, permit, .. } = self.send(from, request).await?;
        let result = match answer {
            Answer::Multipart(reply) => reply.parse().map_err(|error| {
                let message = format!("malformed reply: {error}");
                ApiError::new(StatusCode::BAD_GATEWAY, "switch_reply_malformed", message)
            }),
            other => Err(ApiError::of_answer(&other)),
        };
        // Not before the reply has been parsed.
        drop(permit);
        result
    }

    /// Sends a message that changes nothing and has a reply of one message.
    pub(crate) async fn ask(self, to: DatapathId, message: Message) -> Result<Message, ApiError> {
        match self.send(to, message).await?.answer {
            Answer::Reply(reply) => Ok(reply),
            other => Err(ApiError::of_answer(&other)),
        }
    }

    /// Reads flow entries of a switch. They are counted first: a reply that is too long would be sent in vain, since the session
    /// discards it.
    pub(crate) async fn read_flows(
        self,
        from: DatapathId,
        selected: FlowStatsRequest,
    ) -> Result<Vec<FlowDesc>, ApiError> {
        // A switch that cannot count is asked all the same.
        let count = self.count_flows(from, selected.clone()).await?;
        if let Some(count) = count.filter(|&count| count > LISTED_ENTRIES_MAX) {
            return Err(too_many_entries(count.into()));
        }
        Ok(match self.read(from, MultipartRequest::FlowDesc(selected)).await? {
            MultipartReply::FlowDesc { flows } => flows,
            _ => vec![],
        })
    }

    /// Counts flow entries of a switch; `None` if it cannot.
    pub(super) async fn count_flows(
        self,
        from: DatapathId,
        selected: FlowStatsRequest,
    ) -> Result<Option<u32>, ApiError> {
        match self.read(from, MultipartRequest::AggregateStats(selected)).await {
            Ok(MultipartReply::AggregateStats(AggregateStats { stats })) => Ok(stats.flow_count()),
            Ok(_) => Ok(None),
            Err(error) if error.is_refusal() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a message when there is a place for its reply, and waits for the answer.
    async fn send(self, to: DatapathId, message: Message) -> Result<LimitedAnswer, ApiError> {
        let Self { state, client, purpose, deadline } = self;
        let started = clock::now();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(started));
        let wait_max = left.map_or(WAIT_MAX, |left| left.min(WAIT_MAX));
        let permit = state.reads.acquire_within(client, purpose, to, wait_max).await;
        let permit = permit.ok_or_else(|| not_sent(wait_max))?;
        let request = Request { messages: vec![message], timeout: TIMEOUT };
        let answer = permit.send(&*state.controller, request);
        let answer = match deadline {
            None => answer.await,
            Some(deadline) => {
                let sent_at = clock::now();
                let left = deadline.saturating_duration_since(sent_at);
                timeout(left, answer).await.map_err(|_| not_answered(left))?
            }
        };
        // The task that waits for the answer ends early only if the server stops.
        answer.map_err(|_| ApiError::of_answer(&Answer::Disconnected))
    }
}

/// The error of a read that has waited for others in vain.
fn not_sent(waited: Duration) -> ApiError {
    let message = format!(
        "the switch was not asked: the request has waited {:.0} s for others that read from switches; repeat it",
        waited.as_secs_f32()
    );
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
}

/// The error of a read whose time was over before that of the switch.
fn not_answered(within: Duration) -> ApiError {
    let message = format!("it has not answered within {:.0} s", within.as_secs_f32());
    ApiError::new(StatusCode::GATEWAY_TIMEOUT, "switch_timed_out", message)
}

/// The error of a request that would read more than [`LISTED_ENTRIES_MAX`] entries.
pub(super) fn too_many_entries(count: u64) -> ApiError {
    let message = format!("it has {count} flow entries: at most {LISTED_ENTRIES_MAX} are read");
    ApiError::new(StatusCode::CONFLICT, "too_many_entries", message)
}

/// Sends messages that change something to a switch and waits for the answer. They do not wait for reads.
pub(crate) async fn ask(state: &ApiState, to: DatapathId, messages: Vec<Message>) -> Answer {
    let (sender, answer) = oneshot::channel();
    let on_answer = Box::new(move |answer| {
        // Fails if the client does not wait any more.
        let _ = sender.send(answer);
    });
    state.controller.request(to, Request { messages, timeout: TIMEOUT }, on_answer);
    answer.await.unwrap_or(Answer::Disconnected)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::http::header::RETRY_AFTER;
    use axum::response::IntoResponse as _;
    use sluice_base::metrics::{MetricSample, MetricsSource};
    use sluice_sdk::view::{ViewPublisher, ViewSubscription};
    use sluice_sdk::{Controller, OnAnswer, SwitchSession};

    use super::*;
    use crate::api::access::Access;
    use crate::config::AccessConfig;
    use crate::events::Events;

    /// A controller whose switches do not answer.
    #[derive(Default)]
    struct Silent(Mutex<Vec<OnAnswer>>);

    impl Controller for Silent {
        fn request(&self, _: DatapathId, _: Request, on_answer: OnAnswer) {
            self.0.lock().unwrap().push(on_answer);
        }

        fn subscribe(&self, notify: Box<dyn Fn() + Send + Sync>) -> ViewSubscription {
            ViewPublisher::new(notify).1
        }

        fn switches(&self) -> Vec<SwitchSession> {
            vec![]
        }
    }

    #[derive(Debug)]
    struct NoMetrics;

    impl MetricsSource for NoMetrics {
        fn collect(&self, _: &mut dyn FnMut(MetricSample)) {}
    }

    #[tokio::test]
    async fn an_error_says_whether_the_switch_was_asked() {
        let state = ApiState::new(
            Arc::new(Silent::default()),
            None,
            Arc::default(),
            Arc::new(NoMetrics),
            Arc::new(Events::new(None)),
            clock::now(),
            Access::new(AccessConfig::default()),
        );
        let read = || {
            let reader =
                state.reader(Client::Token(1)).until(clock::now() + Duration::from_millis(20));
            reader.read(DatapathId(1), MultipartRequest::Desc)
        };
        for _ in 0..2 {
            let error = read().await.unwrap_err();
            assert!(error.message().starts_with("it has not answered within"), "{error}");
            assert_eq!(error.into_response().status(), StatusCode::GATEWAY_TIMEOUT);
        }
        // There is no place for a third one.
        let error = read().await.unwrap_err();
        assert!(error.message().starts_with("the switch was not asked"), "{error}");
        let response = error.into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(response.headers().contains_key(RETRY_AFTER));
    }
}
