//! Requests to switches on their way to the worker of the switch, and their answers.

use std::fmt;

use sluice_openflow::DatapathId;
use sluice_sdk::{Answer, OnAnswer, Request, Ticket};

/// Messages of requests that wait for answers of one switch. Each request of an application or client is a few; a switch that answers
/// none until they time out costs about a megabyte.
pub(crate) const OUTSTANDING_PER_SWITCH_MAX: usize = 1024;

/// Messages of requests that wait for answers of all switches of a worker.
pub(crate) const OUTSTANDING_PER_WORKER_MAX: usize = 16_384;

/// A request to a switch, and who is answered.
#[derive(Debug)]
pub(crate) struct RoutedRequest {
    pub(crate) to: DatapathId,
    pub(crate) requester: Requester,
    pub(crate) request: Request,
}

/// Who is answered.
#[derive(Debug)]
pub(crate) enum Requester {
    /// The applications of a worker.
    App(Ticket),
    /// A thread that is no worker.
    Thread(AnswerCallback),
}

/// A function to be called with an answer. If it is dropped, because threads end, it is called as if the switch had disconnected.
pub(crate) struct AnswerCallback(Option<OnAnswer>);

impl AnswerCallback {
    pub(crate) fn new(on_answer: OnAnswer) -> Self {
        Self(Some(on_answer))
    }

    pub(crate) fn call(mut self, answer: Answer) {
        if let Some(on_answer) = self.0.take() {
            on_answer(answer);
        }
    }
}

impl Drop for AnswerCallback {
    fn drop(&mut self) {
        if let Some(on_answer) = self.0.take() {
            on_answer(Answer::Disconnected);
        }
    }
}

impl fmt::Debug for AnswerCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnswerCallback").finish_non_exhaustive()
    }
}

/// The answers that a worker has to deliver, and how many messages wait for one.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) ready: Vec<(Requester, Answer)>,
    /// Messages of requests in the tables of all switches of the worker.
    pub(crate) outstanding: usize,
}

impl Answers {
    pub(crate) fn push(&mut self, requester: Requester, answer: Answer) {
        self.ready.push((requester, answer));
    }
}
