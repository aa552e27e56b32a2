//! The requests that wait for answers of one switch.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use sluice_base::HashMap;
use sluice_openflow::{ErrorReason, Message, MessageType, ParseError, RawMessage};
use sluice_sdk::{Answer, Refusal};

use crate::requests::{Answers, Requester};

/// Numbers the requests to a switch.
type RequestNo = u64;

/// The requests that wait for answers of one switch, found by the transaction ids of their messages. They belong to its session and
/// move with it to another worker.
///
/// A message that has no reply is confirmed by a barrier behind it: one for all that were sent in one iteration of the event loop.
/// Packet-outs are special, since changes of the tables may overtake them while they wait to be sent: their barrier is sent when
/// nothing waits any more.
#[derive(Debug, Default)]
pub(crate) struct OutstandingRequests {
    requests: BTreeMap<RequestNo, OutstandingRequest>,
    last_no: RequestNo,
    messages: HashMap<u32, OutstandingMessage>,
    /// By the transaction id of the barrier request.
    barriers: HashMap<u32, Barrier>,
    deadlines: BTreeSet<(Instant, RequestNo)>,
    /// Requests that were sent since the last barrier and need one.
    unconfirmed: Vec<RequestNo>,
    /// The same for requests with packet-outs.
    unconfirmed_packet_outs: Vec<RequestNo>,
}

#[derive(Debug)]
struct OutstandingRequest {
    requester: Requester,
    first_xid: u32,
    count: usize,
    confirmation: Confirmation,
    deadline: Instant,
    /// Of several messages, the first that was refused so far.
    refusal: Option<Refusal>,
}

/// What answers a request, unless it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Confirmation {
    /// The reply to its only message.
    Reply,
    /// The reply to a barrier request that is still to be sent.
    LaterBarrier,
    /// The reply to the barrier request with this transaction id.
    Barrier(u32),
}

#[derive(Debug, Clone, Copy)]
struct OutstandingMessage {
    request: RequestNo,
    /// The type of its reply, if it has one.
    reply: Option<MessageType>,
}

#[derive(Debug)]
struct Barrier {
    requests: Vec<RequestNo>,
    /// How many of them are still outstanding.
    outstanding: usize,
}

/// The type of the reply to a message; `None` if it has none.
pub(crate) fn reply_type(message: &Message) -> Option<MessageType> {
    Some(match message {
        Message::EchoRequest { .. } => MessageType::ECHO_REPLY,
        Message::FeaturesRequest => MessageType::FEATURES_REPLY,
        Message::GetConfigRequest => MessageType::GET_CONFIG_REPLY,
        Message::BarrierRequest => MessageType::BARRIER_REPLY,
        Message::MultipartRequest(_) => MessageType::MULTIPART_REPLY,
        Message::QueueGetConfigRequest(_) => MessageType::QUEUE_GET_CONFIG_REPLY,
        Message::RoleRequest(_) => MessageType::ROLE_REPLY,
        Message::GetAsyncRequest => MessageType::GET_ASYNC_REPLY,
        Message::BundleControl(_) => MessageType::BUNDLE_CONTROL,
        Message::NxRoleRequest { .. } | Message::NxTlvTableRequest => MessageType::EXPERIMENTER,
        _ => return None,
    })
}

/// A request whose messages were encoded.
#[derive(Debug)]
pub(crate) struct SentRequest {
    pub(crate) requester: Requester,
    /// Of its first message; the others follow.
    pub(crate) first_xid: u32,
    /// The type of the reply to each message.
    pub(crate) replies: Vec<Option<MessageType>>,
    pub(crate) has_packet_outs: bool,
    pub(crate) deadline: Instant,
}

impl OutstandingRequests {
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Number of messages that wait for an answer.
    pub(crate) fn message_count(&self) -> usize {
        self.messages.len()
    }

    /// When [`expire`](Self::expire) has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// Adds a request.
    pub(crate) fn insert(&mut self, sent: SentRequest, answers: &mut Answers) {
        self.last_no += 1;
        let (no, first_xid, count) = (self.last_no, sent.first_xid, sent.replies.len());
        let has_reply = matches!(*sent.replies, [Some(_)]);
        for (xid, reply) in xids(first_xid, count).zip(sent.replies) {
            self.messages.insert(xid, OutstandingMessage { request: no, reply });
        }
        answers.outstanding += count;
        self.deadlines.insert((sent.deadline, no));
        let confirmation = if has_reply { Confirmation::Reply } else { Confirmation::LaterBarrier };
        if !has_reply && sent.has_packet_outs {
            self.unconfirmed_packet_outs.push(no);
        } else if !has_reply {
            self.unconfirmed.push(no);
        }
        let request = OutstandingRequest {
            requester: sent.requester,
            first_xid,
            count,
            confirmation,
            deadline: sent.deadline,
            refusal: None,
        };
        self.requests.insert(no, request);
    }

    /// Whether a barrier request is to be sent, if requests with packet-outs count or not.
    pub(crate) fn needs_barrier(&self, of: BarrierOf) -> bool {
        match of {
            BarrierOf::Changes => !self.unconfirmed.is_empty(),
            BarrierOf::PacketOuts => !self.unconfirmed_packet_outs.is_empty(),
        }
    }

    /// Records that the barrier request `xid` was sent.
    pub(crate) fn record_barrier(&mut self, xid: u32, of: BarrierOf) {
        let mut requests = std::mem::take(match of {
            BarrierOf::Changes => &mut self.unconfirmed,
            BarrierOf::PacketOuts => &mut self.unconfirmed_packet_outs,
        });
        requests.retain(|no| match self.requests.get_mut(no) {
            Some(request) => {
                request.confirmation = Confirmation::Barrier(xid);
                true
            }
            // Refused or timed out meanwhile.
            None => false,
        });
        let outstanding = requests.len();
        if outstanding > 0 {
            self.barriers.insert(xid, Barrier { requests, outstanding });
        }
    }

    /// Handles a message that may be a reply, except for multipart replies. Returns whether it belongs to a request.
    #[must_use]
    pub(crate) fn on_reply(&mut self, msg: RawMessage<'_>, answers: &mut Answers) -> bool {
        let (xid, kind) = (msg.xid(), msg.kind());
        if kind == MessageType::BARRIER_REPLY
            && let Some(barrier) = self.barriers.remove(&xid)
        {
            for no in barrier.requests {
                self.answer(no, answers, |request| {
                    request.refusal.map_or(Answer::Done, Answer::Refused)
                });
            }
            return true;
        }
        self.answer_reply(xid, kind, answers, || match Message::parse_raw(msg) {
            Ok(message) => Answer::Reply(message),
            Err(error) => Answer::Malformed(error),
        })
    }

    /// Handles the end of a multipart reply. Returns whether it belongs to a request.
    #[must_use]
    pub(crate) fn on_multipart_reply(
        &mut self,
        xid: u32,
        answers: &mut Answers,
        reply: impl FnOnce() -> Answer,
    ) -> bool {
        self.answer_reply(xid, MessageType::MULTIPART_REPLY, answers, reply)
    }

    /// Handles a message that could not be parsed.
    pub(crate) fn on_malformed(
        &mut self,
        (xid, kind): (u32, MessageType),
        error: ParseError,
        answers: &mut Answers,
    ) {
        let _ = self.answer_reply(xid, kind, answers, || Answer::Malformed(error));
    }

    fn answer_reply(
        &mut self,
        xid: u32,
        kind: MessageType,
        answers: &mut Answers,
        reply: impl FnOnce() -> Answer,
    ) -> bool {
        let Some(&message) = self.messages.get(&xid).filter(|it| it.reply == Some(kind)) else {
            return false;
        };
        let request = self.requests.get(&message.request);
        if request.is_some_and(|request| request.confirmation == Confirmation::Reply) {
            self.answer(message.request, answers, |_| reply());
        }
        true
    }

    /// Handles an `ERROR` about the message `xid`. Returns whether that belongs to a request.
    ///
    /// A request with one message is answered at once. If there are several, the errors about all of them have arrived when the
    /// barrier is answered.
    #[must_use]
    pub(crate) fn on_error(
        &mut self,
        xid: u32,
        reason: ErrorReason,
        answers: &mut Answers,
    ) -> bool {
        if let Some(barrier) = self.barriers.remove(&xid) {
            for no in barrier.requests {
                self.answer(no, answers, |request| {
                    Answer::Refused(Refusal { index: request.count, reason })
                });
            }
            return true;
        }
        let Some(&OutstandingMessage { request: no, .. }) = self.messages.get(&xid) else {
            return false;
        };
        let Some(request) = self.requests.get_mut(&no) else { return false };
        let index = xid.wrapping_sub(request.first_xid) as usize;
        let refusal = Refusal { index, reason };
        if request.count == 1 {
            self.answer(no, answers, |_| Answer::Refused(refusal));
        } else if request.refusal.is_none_or(|first| index < first.index) {
            request.refusal = Some(refusal);
        }
        true
    }

    /// Answers the requests whose time has passed.
    pub(crate) fn expire(&mut self, now: Instant, answers: &mut Answers) {
        while let Some(&(_, no)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            self.answer(no, answers, |_| Answer::TimedOut);
        }
    }

    /// Answers all requests, since the session has ended.
    pub(crate) fn disconnect(&mut self, answers: &mut Answers) {
        while let Some((&no, _)) = self.requests.first_key_value() {
            self.answer(no, answers, |_| Answer::Disconnected);
        }
    }

    /// Removes a request, unless that was done before, and answers it.
    fn answer(
        &mut self,
        no: RequestNo,
        answers: &mut Answers,
        answer: impl FnOnce(&OutstandingRequest) -> Answer,
    ) {
        let Some(request) = self.requests.remove(&no) else { return };
        for xid in xids(request.first_xid, request.count) {
            self.messages.remove(&xid);
        }
        self.deadlines.remove(&(request.deadline, no));
        if let Confirmation::Barrier(xid) = request.confirmation
            && let Some(barrier) = self.barriers.get_mut(&xid)
        {
            barrier.outstanding -= 1;
            if barrier.outstanding == 0 {
                self.barriers.remove(&xid);
            }
        }
        answers.outstanding -= request.count;
        let answer = answer(&request);
        answers.push(request.requester, answer);
    }
}

/// Which requests a barrier confirms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarrierOf {
    /// Those without packet-outs.
    Changes,
    /// Those with packet-outs.
    PacketOuts,
}

fn xids(first: u32, count: usize) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(first), |xid| Some(xid.wrapping_add(1))).take(count)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_sdk::OnAnswer;

    use super::*;
    use crate::requests::AnswerCallback;

    fn sent(first_xid: u32, replies: Vec<Option<MessageType>>, deadline: Instant) -> SentRequest {
        let on_answer: OnAnswer = Box::new(|_| {});
        let requester = Requester::Thread(AnswerCallback::new(on_answer));
        SentRequest { requester, first_xid, replies, has_packet_outs: false, deadline }
    }

    fn taken(answers: &mut Answers) -> Vec<Answer> {
        answers.ready.drain(..).map(|(_, answer)| answer).collect()
    }

    #[test]
    fn nothing_is_left_of_requests_whose_barrier_is_never_answered() {
        let (mut table, mut answers) = (OutstandingRequests::default(), Answers::default());
        let now = sluice_io::clock::now();
        let later = |s| now + Duration::from_secs(s);
        // The transaction ids wrap around.
        table.insert(sent(u32::MAX, vec![None; 3], later(2)), &mut answers);
        table.insert(sent(2, vec![None], later(1)), &mut answers);
        table.record_barrier(3, BarrierOf::Changes);
        table.insert(sent(4, vec![Some(MessageType::BARRIER_REPLY)], later(3)), &mut answers);
        assert_eq!((table.message_count(), answers.outstanding), (5, 5));
        assert_eq!(table.deadline(), Some(later(1)));
        table.expire(later(2), &mut answers);
        assert_eq!(taken(&mut answers), [Answer::TimedOut, Answer::TimedOut]);
        assert!(!table.on_error(0, ErrorReason::BAD_LEN, &mut answers));
        table.disconnect(&mut answers);
        assert_eq!(taken(&mut answers), [Answer::Disconnected]);
        assert_eq!((table.message_count(), answers.outstanding), (0, 0));
        assert!(table.barriers.is_empty() && table.deadlines.is_empty());
    }

    #[test]
    fn a_refused_barrier_says_nothing_about_the_messages_before_it() {
        let (mut table, mut answers) = (OutstandingRequests::default(), Answers::default());
        let now = sluice_io::clock::now();
        table.insert(sent(7, vec![None; 2], now), &mut answers);
        assert!(table.needs_barrier(BarrierOf::Changes));
        table.record_barrier(9, BarrierOf::Changes);
        assert!(!table.needs_barrier(BarrierOf::Changes));
        assert!(table.on_error(9, ErrorReason::BAD_TYPE, &mut answers));
        let refusal = Refusal { index: 2, reason: ErrorReason::BAD_TYPE };
        assert_eq!(taken(&mut answers), [Answer::Refused(refusal)]);
    }

    /// Asynchronous messages may have any transaction id.
    #[test]
    fn only_a_message_of_the_expected_type_is_a_reply() {
        let (mut table, mut answers) = (OutstandingRequests::default(), Answers::default());
        let reply = Some(MessageType::GET_CONFIG_REPLY);
        table.insert(sent(7, vec![reply], sluice_io::clock::now()), &mut answers);
        let barrier_reply = [4, 21, 0, 8, 0, 0, 0, 7];
        let msg = RawMessage::new(&barrier_reply).unwrap();
        assert!(!table.on_reply(msg, &mut answers));
        let config_reply = [4, 8, 0, 12, 0, 0, 0, 7, 0, 0, 0, 128];
        let msg = RawMessage::new(&config_reply).unwrap();
        assert!(table.on_reply(msg, &mut answers));
        assert!(matches!(*taken(&mut answers), [Answer::Reply(Message::GetConfigReply(_))]));
    }
}
