//! Limits how many replies of switches are read at a time, and per second: reading costs the workers time that switches need.

mod budget;
mod schedule;
mod slow_switches;

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use sluice_base::HashMap;
use sluice_io::clock;
use sluice_openflow::DatapathId;
use sluice_sdk::{Answer, Controller, Request};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

pub(crate) use schedule::Purpose;

use super::access::Permission;
use crate::peer::Source;
use budget::UNITS_MAX;
pub(super) use budget::UNITS_PER_SECOND as READS_PER_SECOND;
pub(super) use schedule::READS_MAX;
use schedule::{AnswerSpeed, READS_PER_CLIENT_MAX, ReadId, ReadResult, SLOW_AFTER, Schedule};

/// Bytes of a reply that cost another unit: copying them takes as long as reading a short reply.
const BYTES_PER_UNIT: usize = 64 << 10;

/// Units of a reply that was discarded as too long: it had at least 4 MiB.
const UNITS_OF_DISCARDED: u32 = 64;

/// On whose behalf switches are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// All that present the same token, wherever they are.
    Token(u64),
    /// A program without a token.
    Peer(Source),
    /// The controller itself, for the statistics of ports at which somebody looks.
    PortStatistics,
}

impl<S: Send + Sync> FromRequestParts<S> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // Every request that needs a role has one.
        let nowhere = Self::Peer(Source::Address(Ipv4Addr::UNSPECIFIED.into()));
        Ok(parts.extensions.get().map_or(nowhere, Permission::client))
    }
}

/// Which replies are being read, and which reads wait.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    state: Mutex<State>,
    /// Reads wait for another time than before.
    changed: Notify,
    /// Reads that have waited too long.
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    schedule: Schedule,
    /// The reads that wait; each is notified when it may begin.
    waiting: HashMap<ReadId, oneshot::Sender<()>>,
}

/// How much is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadsUsage {
    pub(crate) waiting: usize,
    pub(crate) queries: usize,
    pub(crate) deletions: usize,
    pub(crate) units_per_second: u32,
    pub(crate) refused: u64,
}

/// What the limit on queries means, for people.
pub(super) fn queries_help() -> String {
    format!("Replies of switches that are read at a time, {READS_PER_CLIENT_MAX} for one client.")
}

/// What the limit on reads per second means, for people.
pub(super) fn rate_help() -> String {
    let kib = BYTES_PER_UNIT >> 10;
    format!(
        "Reads of switches per second, after {UNITS_MAX} at once; each {kib} KiB of a reply count as one more. Clients have equal shares."
    )
}

impl Reads {
    /// Starts reads when their time has come. Never ends.
    pub(crate) async fn run(&self) {
        loop {
            let due_at = self.start_due();
            let changed = self.changed.notified();
            match due_at {
                None => changed.await,
                Some(at) => tokio::select! {
                    () = sleep(at.saturating_duration_since(clock::now())) => {}
                    () = changed => {}
                },
            }
        }
    }

    /// Waits until a reply of a switch may be read.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        client: Client,
        purpose: Purpose,
        from: DatapathId,
    ) -> ReadPermit {
        let (permit, begins) = self.enqueue(client, purpose, from);
        self.start_due();
        self.changed.notify_one();
        // The sender is dropped only after it has sent.
        let _ = begins.await;
        permit
    }

    /// As [`acquire`](Self::acquire), but `None` if that takes longer than `time`.
    pub(crate) async fn acquire_within(
        self: &Arc<Self>,
        client: Client,
        purpose: Purpose,
        from: DatapathId,
        time: Duration,
    ) -> Option<ReadPermit> {
        let permit = timeout(time, self.acquire(client, purpose, from)).await.ok();
        if permit.is_none() {
            self.refused.fetch_add(1, Relaxed);
        }
        permit
    }

    pub(crate) fn usage(&self) -> ReadsUsage {
        self.start_due();
        let state = self.lock();
        let schedule = &state.schedule;
        ReadsUsage {
            waiting: schedule.waiting(),
            queries: schedule.in_progress(Purpose::Query),
            deletions: schedule.in_progress(Purpose::Deletion),
            units_per_second: schedule.units_per_second(),
            refused: self.refused.load(Relaxed),
        }
    }

    fn enqueue(
        self: &Arc<Self>,
        client: Client,
        purpose: Purpose,
        from: DatapathId,
    ) -> (ReadPermit, oneshot::Receiver<()>) {
        let (begin, begins) = oneshot::channel();
        let mut state = self.lock();
        let id = state.schedule.enqueue(client, purpose, from);
        state.waiting.insert(id, begin);
        (ReadPermit { reads: Arc::clone(self), id, from }, begins)
    }

    /// Starts the reads that may begin. Returns when more may.
    fn start_due(&self) -> Option<Instant> {
        let mut state = self.lock();
        for id in state.schedule.start_due(clock::now()) {
            if let Some(begin) = state.waiting.remove(&id) {
                // Fails if the client leaves just now: then the permit is dropped, too.
                let _ = begin.send(());
            }
        }
        state.schedule.next_due_at()
    }

    fn remove(&self, id: ReadId) {
        let mut state = self.lock();
        state.waiting.remove(&id);
        state.schedule.remove(id);
        drop(state);
        self.start_due();
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place for a reply, until this is dropped.
#[derive(Debug)]
pub(crate) struct ReadPermit {
    reads: Arc<Reads>,
    id: ReadId,
    from: DatapathId,
}

/// What a switch has answered. Whoever parses a reply keeps the permit until that is done: so no more replies are in memory than may be
/// read at a time.
#[derive(Debug)]
pub(crate) struct LimitedAnswer {
    pub(crate) answer: Answer,
    /// When it was received.
    pub(crate) at: Instant,
    pub(crate) permit: ReadPermit,
}

impl ReadPermit {
    /// Sends a request to the switch for which the permit is. The read keeps its place until the switch has answered, even if nobody
    /// waits for the answer any more.
    pub(crate) fn send(
        self,
        controller: &dyn Controller,
        request: Request,
    ) -> JoinHandle<LimitedAnswer> {
        let (sender, answered) = oneshot::channel();
        let sent_at = clock::now();
        let on_answer = Box::new(move |answer| {
            // Fails when the thread has ended.
            let _ = sender.send((answer, clock::now()));
        });
        controller.request(self.from, request, on_answer);
        // Not in the thread of the worker, which calls `on_answer`.
        tokio::spawn(async move {
            let none = |_| (Answer::Disconnected, clock::now());
            let (answer, at) = answered.await.unwrap_or_else(none);
            let result = result_of(&answer, at.saturating_duration_since(sent_at));
            self.reads.lock().schedule.end(self.id, result, at);
            LimitedAnswer { answer, at, permit: self }
        })
    }
}

/// What an answer says of its switch, and what it has cost.
fn result_of(answer: &Answer, took: Duration) -> ReadResult {
    let speed = match answer {
        _ if answer.is_unsent() => AnswerSpeed::Unknown,
        Answer::TimedOut => AnswerSpeed::Slow,
        _ if took >= SLOW_AFTER => AnswerSpeed::Slow,
        _ => AnswerSpeed::Fast,
    };
    let more_units = match answer {
        Answer::Multipart(reply) => {
            u32::try_from(reply.body().len() / BYTES_PER_UNIT).unwrap_or(u32::MAX)
        }
        Answer::TooLarge => UNITS_OF_DISCARDED,
        _ => 0,
    };
    ReadResult { speed, more_units }
}

impl Drop for ReadPermit {
    fn drop(&mut self) {
        self.reads.remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};

    use sluice_openflow::{
        Message, MeterRequest, Multipart, MultipartRequest, MultipartType, Version,
    };
    use sluice_sdk::view::{ViewPublisher, ViewSubscription};
    use sluice_sdk::{OnAnswer, ReceivedMultipart, SwitchSession};

    use super::*;

    const CLIENT: Client = Client::Token(1);

    /// A controller that leaves requests unanswered.
    struct Silent(mpsc::Sender<OnAnswer>);

    impl Controller for Silent {
        fn request(&self, _: DatapathId, _: Request, on_answer: OnAnswer) {
            self.0.send(on_answer).unwrap();
        }

        fn subscribe(&self, notify: Box<dyn Fn() + Send + Sync>) -> ViewSubscription {
            ViewPublisher::new(notify).1
        }

        fn switches(&self) -> Vec<SwitchSession> {
            vec![]
        }
    }

    fn request() -> Request {
        Request { messages: vec![], timeout: Duration::from_secs(30) }
    }

    fn reply(bytes: usize) -> Answer {
        let (version, kind) = (Version::V1_3, MultipartType::FLOW);
        Answer::Multipart(ReceivedMultipart::new(version, kind, vec![0; bytes]))
    }

    /// The permit, if there is no need to wait for it.
    fn try_acquire(reads: &Arc<Reads>, purpose: Purpose, from: u64) -> Option<ReadPermit> {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(reads.acquire(CLIENT, purpose, DatapathId(from))).poll(&mut context) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn a_reply_keeps_its_place_until_it_is_parsed() {
        let (sender, requests) = mpsc::channel();
        let (controller, reads) = (Silent(sender), Arc::new(Reads::default()));
        let permit = try_acquire(&reads, Purpose::Query, 1).unwrap();
        let answer = permit.send(&controller, request());
        requests.recv().unwrap()(reply(100));
        let answer = answer.await.unwrap();
        assert_eq!(reads.usage().queries, 1);
        drop(answer);
        assert_eq!(reads.usage().queries, 0);
    }

    #[tokio::test]
    async fn a_read_keeps_its_place_although_its_client_has_left() {
        let (sender, requests) = mpsc::channel();
        let (controller, reads) = (Silent(sender), Arc::new(Reads::default()));
        let permit = try_acquire(&reads, Purpose::Query, 1).unwrap();
        drop(permit.send(&controller, request()));
        assert_eq!(reads.usage().queries, 1);
        requests.recv().unwrap()(reply(100));
        while reads.usage().queries > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn reads_that_wait_begin_when_units_are_added() {
        let reads = Arc::new(Reads::default());
        let count = async {
            for _ in 0..UNITS_MAX + 5 {
                let (sender, requests) = mpsc::channel();
                let permit = reads.acquire(CLIENT, Purpose::Query, DatapathId(1)).await;
                let answer = permit.send(&Silent(sender), request());
                requests.recv().unwrap()(reply(100));
                answer.await.unwrap();
            }
        };
        tokio::select! {
            () = reads.run() => {}
            () = count => {}
        }
    }

    #[tokio::test]
    async fn a_read_that_waits_too_long_is_given_up() {
        let reads = Arc::new(Reads::default());
        let held: Vec<_> =
            (0..8).filter_map(|from| try_acquire(&reads, Purpose::Query, from)).collect();
        assert_eq!(held.len(), 8);
        let time = Duration::from_millis(1);
        let waited = reads.acquire_within(CLIENT, Purpose::Query, DatapathId(9), time).await;
        assert!(waited.is_none());
        let usage = reads.usage();
        assert_eq!((usage.waiting, usage.queries, usage.refused), (0, 8, 1));
        assert!(try_acquire(&reads, Purpose::Deletion, 9).is_some());
    }

    #[test]
    fn what_an_answer_says_of_its_switch_and_what_it_costs() {
        let (fast, slow) = (Duration::from_millis(900), Duration::from_secs(20));
        let meters = MultipartRequest::MeterDesc(MeterRequest::default());
        let message = Message::MultipartRequest(Multipart::single(meters));
        let error = message.to_vec(Version::V1_0, 1).unwrap_err();
        let unsupported = Answer::Unsupported { index: 0, error };
        for (answer, took, speed, more_units) in [
            (reply(100), fast, AnswerSpeed::Fast, 0),
            (reply(3 << 20), fast, AnswerSpeed::Fast, 48),
            (reply(100), slow, AnswerSpeed::Slow, 0),
            (Answer::TooLarge, fast, AnswerSpeed::Fast, 64),
            (Answer::TimedOut, fast, AnswerSpeed::Slow, 0),
            (Answer::Disconnected, fast, AnswerSpeed::Fast, 0),
            (unsupported, slow, AnswerSpeed::Unknown, 0),
            (Answer::Paused, fast, AnswerSpeed::Unknown, 0),
            (Answer::TooMany, fast, AnswerSpeed::Unknown, 0),
            (Answer::NotConnected, fast, AnswerSpeed::Unknown, 0),
        ] {
            let result = result_of(&answer, took);
            assert_eq!((result.speed, result.more_units), (speed, more_units), "{answer:?}");
        }
    }
}
