//! The running engine, for threads that are not its own.

use std::fmt;
use std::sync::Arc;

use sluice_io::Wake;
use sluice_openflow::DatapathId;
use sluice_sdk::view::{RecordFact, SubscriptionEnd, ViewPublisher, ViewSubscription};
use sluice_sdk::{
    Answer, Capture, CaptureFilter, CaptureSender, Controller, OnAnswer, OnState, Request,
    SwitchSession,
};

use crate::counters::CounterRegistry;
use crate::messages::ToWorker;
use crate::queue::{Sender, TrySendError};
use crate::requests::{AnswerCallback, Requester, RoutedRequest};

/// The worker that sends its view to subscribers, publishes the records of other threads, and finds the worker of a switch that is
/// moving. There is one for all records, so that they are published in order.
const FIRST_WORKER: usize = 0;

/// A running engine, for threads that are not its own. Any thread may use it, also when the engine has stopped: requests are answered
/// then with [`Answer::NotConnected`].
#[derive(Clone)]
pub struct EngineHandle {
    workers: Arc<dyn WorkerQueues>,
    registry: Arc<CounterRegistry>,
}

impl EngineHandle {
    pub(crate) fn new<C, A, W>(
        workers: Vec<Sender<ToWorker<C, A>, W>>,
        registry: Arc<CounterRegistry>,
    ) -> Self
    where
        C: Send + 'static,
        A: 'static,
        W: Wake + Send + Sync + 'static,
    {
        Self { workers: Arc::new(workers), registry }
    }
}

impl fmt::Debug for EngineHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineHandle").finish_non_exhaustive()
    }
}

impl Controller for EngineHandle {
    fn request(&self, to: DatapathId, request: Request, on_answer: OnAnswer) {
        let requester = Requester::Thread(AnswerCallback::new(on_answer));
        let request = RoutedRequest { to, requester, request };
        let worker = self.registry.worker_of(to).unwrap_or(FIRST_WORKER);
        self.workers.send_request(worker, request);
    }

    fn subscribe(&self, notify: Box<dyn Fn() + Send + Sync>) -> ViewSubscription {
        let (publisher, subscription) = ViewPublisher::new(notify);
        self.workers.subscribe(FIRST_WORKER, publisher);
        subscription
    }

    fn publish(&self, records: Vec<RecordFact>) -> bool {
        self.workers.publish(FIRST_WORKER, records)
    }

    fn capture(
        &self,
        filter: CaptureFilter,
        notify: Box<dyn Fn() + Send + Sync>,
    ) -> Option<Capture> {
        let (sender, capture) = CaptureSender::new(filter, notify);
        self.workers.capture(&sender).then_some(capture)
    }

    fn switches(&self) -> Vec<SwitchSession> {
        self.registry.sessions()
    }

    fn read_state(&self, application: &str, on_state: OnState) {
        self.workers.read_state(&application.into(), &on_state);
    }
}

/// The queues of all workers, whatever their applications and connections are.
trait WorkerQueues: Send + Sync {
    fn send_request(&self, worker: usize, request: RoutedRequest);

    fn subscribe(&self, worker: usize, publisher: ViewPublisher);

    /// Returns whether the worker gets the records.
    fn publish(&self, worker: usize, records: Vec<RecordFact>) -> bool;

    /// Returns whether all workers get the capture.
    fn capture(&self, capture: &CaptureSender) -> bool;

    fn read_state(&self, application: &Arc<str>, on_state: &OnState);
}

impl<C: Send, A, W: Wake + Send + Sync> WorkerQueues for Vec<Sender<ToWorker<C, A>, W>> {
    fn send_request(&self, worker: usize, request: RoutedRequest) {
        let Some(sender) = self.get(worker) else { return };
        let (rejected, answer) = match sender.try_send(ToWorker::Requests(vec![request])) {
            Ok(()) => return,
            Err(TrySendError::Full(rejected)) => (rejected, Answer::TooMany),
            Err(TrySendError::Closed(rejected)) => (rejected, Answer::NotConnected),
        };
        let ToWorker::Requests(requests) = rejected else { return };
        for RoutedRequest { requester, .. } in requests {
            if let Requester::Thread(callback) = requester {
                callback.call(answer.clone());
            }
        }
    }

    fn subscribe(&self, worker: usize, publisher: ViewPublisher) {
        let Some(sender) = self.get(worker) else { return };
        if let Err(TrySendError::Full(ToWorker::Subscribe(publisher))) =
            sender.try_send(ToWorker::Subscribe(publisher))
        {
            publisher.end(SubscriptionEnd::Refused);
        }
    }

    fn publish(&self, worker: usize, records: Vec<RecordFact>) -> bool {
        self.get(worker).is_some_and(|sender| sender.try_send(ToWorker::Publish(records)).is_ok())
    }

    fn capture(&self, capture: &CaptureSender) -> bool {
        self.iter().all(|sender| sender.try_send(ToWorker::Capture(capture.clone())).is_ok())
    }

    fn read_state(&self, application: &Arc<str>, on_state: &OnState) {
        for sender in self {
            // A worker whose queue is full does not answer.
            let _ = sender.try_send(ToWorker::ReadState(application.clone(), on_state.clone()));
        }
    }
}
