//! Pairs requests with their replies.
//!
//! A reply has the transaction id of its request and comes from the other end of the same connection. A `FLOW_MOD` or
//! `PACKET_OUT` answers the `PACKET_IN` whose buffer it names. An `ERROR` answers any request.

use std::collections::VecDeque;
use std::time::Duration;

use sluice_base::HashMap;
use sluice_openflow::view::{FlowMod, Multipart, PacketIn, PacketOut};
use sluice_openflow::{MessageType, RawMessage};

use crate::connections::End;

/// Requests that wait for their reply, of all connections together. A controller has at most a few hundred outstanding; beyond
/// the limit the oldest counts as not answered.
const PENDING_MAX: usize = 65_536;

/// Requests and their replies. Both ends of an exchange of `BUNDLE_CONTROL` have the same type.
const PAIRS: [(MessageType, MessageType); 9] = [
    (MessageType::ECHO_REQUEST, MessageType::ECHO_REPLY),
    (MessageType::FEATURES_REQUEST, MessageType::FEATURES_REPLY),
    (MessageType::GET_CONFIG_REQUEST, MessageType::GET_CONFIG_REPLY),
    (MessageType::MULTIPART_REQUEST, MessageType::MULTIPART_REPLY),
    (MessageType::BARRIER_REQUEST, MessageType::BARRIER_REPLY),
    (MessageType::QUEUE_GET_CONFIG_REQUEST, MessageType::QUEUE_GET_CONFIG_REPLY),
    (MessageType::ROLE_REQUEST, MessageType::ROLE_REPLY),
    (MessageType::GET_ASYNC_REQUEST, MessageType::GET_ASYNC_REPLY),
    (MessageType::BUNDLE_CONTROL, MessageType::BUNDLE_CONTROL),
];

/// The request that a message answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnsweredRequest {
    pub(crate) request: MessageType,
    pub(crate) latency: Duration,
}

/// What identifies a request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RequestKey {
    connection: u64,
    sender: End,
    request: u16,
    /// Transaction id, or buffer id of a `PACKET_IN`.
    id: u32,
}

/// Requests that wait for their reply.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    /// The time of each request.
    pending: HashMap<RequestKey, Duration>,
    /// Keys in the order of their requests, some of which have been answered.
    order: VecDeque<(RequestKey, Duration)>,
}

impl Pairing {
    /// Notes a request, or returns the request that a message answers.
    pub(crate) fn observe(
        &mut self,
        connection: u64,
        sender: End,
        message: RawMessage<'_>,
        time: Duration,
    ) -> Option<AnsweredRequest> {
        let (kind, xid) = (message.kind(), message.xid());
        let mut answered = |request: MessageType, id| {
            let sender = sender.other();
            let key = RequestKey { connection, sender, request: request.0, id };
            let sent = self.pending.remove(&key)?;
            Some(AnsweredRequest { request, latency: time.saturating_sub(sent) })
        };
        match kind {
            MessageType::PACKET_OUT => {
                return answered(MessageType::PACKET_IN, PacketOut::new(message).ok()?.buffer_id?);
            }
            MessageType::FLOW_MOD => {
                return answered(MessageType::PACKET_IN, FlowMod::new(message).ok()?.buffer_id?);
            }
            MessageType::ERROR => {
                return PAIRS.iter().find_map(|&(request, _)| answered(request, xid));
            }
            // The last message of a reply answers the request.
            MessageType::MULTIPART_REPLY if Multipart::new(message).ok()?.more => return None,
            _ => {}
        }
        let pair = PAIRS.iter().find(|&&(_, reply)| reply == kind);
        if let Some(answer) = pair.and_then(|&(request, _)| answered(request, xid)) {
            return Some(answer);
        }
        let id = match kind {
            MessageType::PACKET_IN => PacketIn::new(message).ok()?.buffer_id?,
            _ if PAIRS.iter().any(|&(request, _)| request == kind) => xid,
            _ => return None,
        };
        self.insert(RequestKey { connection, sender, request: kind.0, id }, time);
        None
    }

    fn insert(&mut self, key: RequestKey, time: Duration) {
        self.pending.insert(key, time);
        self.order.push_back((key, time));
        if self.pending.len() > PENDING_MAX {
            // Those that have been answered come first.
            while let Some((oldest, sent)) = self.order.pop_front() {
                if self.pending.get(&oldest) == Some(&sent) {
                    self.pending.remove(&oldest);
                    break;
                }
            }
        }
        if self.order.len() > 2 * PENDING_MAX {
            self.order.retain(|(key, sent)| self.pending.get(key) == Some(sent));
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{FlowMod, NO_BUFFER, Version};

    use super::*;

    const CONNECTION: u64 = 1;

    /// Observes a message of type `kind` of 1.3 with that body, `ms` milliseconds after the start.
    fn observe(
        pairing: &mut Pairing,
        sender: End,
        kind: MessageType,
        (xid, body, ms): (u32, &[u8], u64),
    ) -> Option<(MessageType, u64)> {
        let len = u16::try_from(8 + body.len()).unwrap().to_be_bytes();
        let header = [4, kind.to_wire(Version::V1_3), len[0], len[1]];
        let bytes = [&header[..], &xid.to_be_bytes(), body].concat();
        let message = RawMessage::new(&bytes).unwrap();
        let answer = pairing.observe(CONNECTION, sender, message, Duration::from_millis(ms))?;
        Some((answer.request, u64::try_from(answer.latency.as_millis()).unwrap()))
    }

    #[test]
    fn a_reply_is_paired_by_its_transaction_id_with_a_request_of_the_other_end() {
        let mut pairing = Pairing::default();
        let (request, reply) = (MessageType::BARRIER_REQUEST, MessageType::BARRIER_REPLY);
        assert_eq!(observe(&mut pairing, End::A, request, (7, &[], 10)), None);
        assert_eq!(observe(&mut pairing, End::A, reply, (7, &[], 11)), None, "the same end");
        assert_eq!(observe(&mut pairing, End::B, reply, (8, &[], 11)), None, "another id");
        assert_eq!(observe(&mut pairing, End::B, reply, (7, &[], 15)), Some((request, 5)));
        assert_eq!(observe(&mut pairing, End::B, reply, (7, &[], 16)), None, "paired already");
    }

    #[test]
    fn the_last_part_of_a_multipart_reply_answers_the_request() {
        let mut pairing = Pairing::default();
        let (request, reply) = (MessageType::MULTIPART_REQUEST, MessageType::MULTIPART_REPLY);
        observe(&mut pairing, End::A, request, (7, &[0, 1, 0, 0, 0, 0, 0, 0], 0));
        let parts = [[0, 1, 0, 1, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0, 0]];
        assert_eq!(observe(&mut pairing, End::B, reply, (7, &parts[0], 1)), None);
        assert_eq!(observe(&mut pairing, End::B, reply, (7, &parts[1], 2)), Some((request, 2)));
    }

    #[test]
    fn both_messages_of_a_bundle_exchange_have_the_same_type() {
        let mut pairing = Pairing::default();
        let kind = MessageType::BUNDLE_CONTROL;
        assert_eq!(observe(&mut pairing, End::A, kind, (7, &[], 0)), None);
        assert_eq!(observe(&mut pairing, End::B, kind, (7, &[], 3)), Some((kind, 3)));
    }

    #[test]
    fn an_error_answers_any_request() {
        let mut pairing = Pairing::default();
        observe(&mut pairing, End::A, MessageType::ROLE_REQUEST, (7, &[], 0));
        let answer = observe(&mut pairing, End::B, MessageType::ERROR, (7, &[0, 1, 0, 1], 4));
        assert_eq!(answer, Some((MessageType::ROLE_REQUEST, 4)));
    }

    #[test]
    fn the_first_message_that_names_the_buffer_answers_a_packet_in() {
        let mut pairing = Pairing::default();
        let packet_in = |buffer_id: u32| {
            let mut body = buffer_id.to_be_bytes().to_vec();
            body.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            body.extend([0, 1, 0, 12, 0x80, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
            body
        };
        for buffer_id in [256, NO_BUFFER] {
            observe(&mut pairing, End::A, MessageType::PACKET_IN, (0, &packet_in(buffer_id), 0));
        }
        assert_eq!(pairing.pending.len(), 1, "only one packet is buffered");
        let flow = FlowMod { buffer_id: Some(256), ..FlowMod::default() };
        let bytes = flow.to_vec(Version::V1_3, 9).unwrap();
        let mut answer =
            |ms| observe(&mut pairing, End::B, MessageType::FLOW_MOD, (9, &bytes[8..], ms));
        assert_eq!(answer(2), Some((MessageType::PACKET_IN, 2)));
        assert_eq!(answer(3), None);
    }

    #[test]
    fn requests_without_a_reply_are_bounded_and_the_oldest_are_forgotten() {
        let mut pairing = Pairing::default();
        let (request, reply) = (MessageType::ECHO_REQUEST, MessageType::ECHO_REPLY);
        let max = u32::try_from(PENDING_MAX).unwrap();
        for xid in 0..3 * max {
            observe(&mut pairing, End::A, request, (xid, &[], u64::from(xid)));
            assert!(pairing.pending.len() <= PENDING_MAX && pairing.order.len() <= 2 * PENDING_MAX);
        }
        assert_eq!(observe(&mut pairing, End::B, reply, (2 * max - 1, &[], 0)), None);
        assert!(observe(&mut pairing, End::B, reply, (2 * max, &[], 0)).is_some());
        // Requests that are answered leave no trace behind.
        for xid in 0..3 * max {
            observe(&mut pairing, End::A, request, (xid, &[], 0));
            observe(&mut pairing, End::B, reply, (xid, &[], 0));
            assert!(pairing.order.len() <= 2 * PENDING_MAX);
        }
    }
}
