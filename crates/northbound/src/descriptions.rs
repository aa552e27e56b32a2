//! Asks each switch once per session who has made it: manufacturer, hardware, software, name of the datapath.

use std::collections::VecDeque;
use std::time::Duration;

use sluice_openflow::{DatapathId, Message, Multipart, MultipartReply, MultipartRequest};
use sluice_sdk::{Answer, Controller, Request};
use tokio::sync::mpsc;

use crate::events::{EventFilter, EventKind, Events, NextEvent};

/// Requests that wait for an answer.
const REQUESTS_MAX: usize = 16;

/// How long a switch may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Asks the switches that connect. The worker of a switch keeps its answer ([`SwitchSession`](sluice_sdk::SwitchSession)). Never ends.
pub(crate) async fn ask(controller: &dyn Controller, events: &Events) {
    let filter = EventFilter { kinds: vec![EventKind::SwitchConnected], switch: None };
    let mut changed = events.watch();
    // As many as requests at most.
    let (sender, mut answers) = mpsc::unbounded_channel();
    // Those of the first look, and then one for each event.
    let mut next = events.resume(None).from;
    let mut pending = not_described(controller);
    let mut waiting = 0;
    loop {
        changed.mark_unchanged();
        loop {
            match events.next(next, &filter) {
                NextEvent::Event(event, after) => {
                    next = after;
                    pending.extend(event.switch());
                }
                NextEvent::Later(after) => {
                    next = after;
                    break;
                }
                NextEvent::Lost(_) => {
                    next = events.resume(None).from;
                    pending = not_described(controller);
                }
            }
        }
        while waiting < REQUESTS_MAX
            && let Some(id) = pending.pop_front()
        {
            waiting += 1;
            let sender = sender.clone();
            let on_answer = Box::new(move |answer| {
                // Fails when the thread has ended.
                let _ = sender.send((id, answer));
            });
            let body = Message::MultipartRequest(Multipart::single(MultipartRequest::Desc));
            let request = Request { messages: vec![body], timeout: ANSWER_TIMEOUT };
            controller.request(id, request, on_answer);
        }
        tokio::select! {
            Some((id, answer)) = answers.recv() => {
                waiting -= 1;
                learn_name(id, &answer, events);
            }
            // An error means that there are no more events, and the process ends.
            Ok(()) = changed.changed() => {}
        }
    }
}

/// The switches that were not asked in their session.
fn not_described(controller: &dyn Controller) -> VecDeque<DatapathId> {
    let sessions = controller.switches();
    let unknown = sessions.iter().filter(|session| session.description.is_none());
    unknown.map(|session| session.datapath_id).collect()
}

/// A switch without a local port may have a name in its description.
fn learn_name(id: DatapathId, answer: &Answer, events: &Events) {
    if let Answer::Multipart(reply) = answer
        && let Ok(MultipartReply::Desc(desc)) = reply.parse()
    {
        events.learn_name(id, &desc);
    }
}
