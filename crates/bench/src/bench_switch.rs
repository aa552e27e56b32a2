//! One emulated switch: parses what the controller sends, sends requests.

use std::fmt;
use std::time::Instant;

use sluice_io::{ConnId, Io};
use sluice_openflow::{DatapathId, HEADER_LEN, ParseError, ParseErrorKind, RawMessage, Version};
use sluice_proto::{SessionError, SwitchEvent, SwitchProfile, SwitchSession};

use crate::base_entries::BaseEntries;
use crate::counts::{ErrorCounts, NotSentReason, RequestCounts};
use crate::host_pairs::HostPairs;
use crate::latency::{LatencyBatch, SwitchLatencies};
use crate::lifecycle::Lifecycle;
use crate::outstanding::{OutstandingRequests, ReplyOutcome};
use crate::plan::{Plan, ReplyCounting};
use crate::reply::{FLOW_MOD, PACKET_OUT, ParsedReply};
use crate::request_records::RequestRecorder;
use crate::requests::{Buffering, RequestTemplates};
use crate::timestamp::Timestamp;

/// Bytes of unsent replies at which a switch disconnects, since the controller does not read them. Some dozen of the
/// longest messages; controllers ask for a few.
pub(crate) const UNSENT_MAX: usize = 4 << 20;

/// One emulated switch.
#[derive(Debug)]
pub(crate) struct BenchSwitch {
    /// `None` before it connects and after it disconnects.
    pub(crate) conn: Option<ConnId>,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) counts: RequestCounts,
    pub(crate) latencies: SwitchLatencies,
    pub(crate) host_pairs: HostPairs,
    /// Index among all switches of the run.
    pub(crate) index: u32,
    /// Hosts that have announced themselves.
    pub(crate) hosts_announced: u32,
    /// Those received before the first host announced itself or the first request was sent.
    base_entries: BaseEntries,
    is_prepared: bool,
    requests: OutstandingRequests,
    /// Maximum number of outstanding requests with the hosts that have announced themselves.
    outstanding_max: u32,
    session: SwitchSession,
    version: Version,
    counting: ReplyCounting,
    /// Outstanding requests where replies are only counted.
    counted_outstanding: u32,
    /// Bytes to send before anything else: the rest of a request, or replies of the session.
    unsent: Vec<u8>,
    /// The start of a message that has not been received completely.
    partial: Vec<u8>,
}

/// Why a switch closes its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DisconnectReason {
    /// The controller violated the protocol.
    Protocol(SessionError),
    /// The controller sends requests but does not read the replies.
    RepliesNotRead,
}

impl fmt::Display for DisconnectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(error) => error.fmt(f),
            Self::RepliesNotRead => f.write_str("the controller does not read replies"),
        }
    }
}

/// State of a thread's sessions that changes rarely.
#[derive(Debug, Default)]
pub(crate) struct SessionCounts {
    /// Switches that are connected and have completed the handshake.
    pub(crate) ready_switches: u64,
    pub(crate) errors: ErrorCounts,
}

/// What [`BenchSwitch::receive`] needs from its thread.
#[derive(Debug)]
pub(crate) struct ReceiveContext<'t> {
    pub(crate) now: Instant,
    /// The last one of the recorder.
    pub(crate) timestamp: Timestamp,
    pub(crate) recorder: &'t mut RequestRecorder,
    pub(crate) sessions: &'t mut SessionCounts,
}

impl BenchSwitch {
    /// The switch with this index, counted from 0; not connected yet.
    pub(crate) fn new(plan: &Plan, index: u32) -> Self {
        let profile = SwitchProfile {
            datapath_id: DatapathId(plan.dpid_offset.wrapping_add(index.into())),
            version: plan.version,
            n_ports: plan.ports,
            n_buffers: if plan.buffering == Buffering::Buffered { 256 } else { 0 },
        };
        let mut unsent = Vec::new();
        Self {
            conn: None,
            lifecycle: Lifecycle::default(),
            counts: RequestCounts::default(),
            latencies: SwitchLatencies::new(),
            host_pairs: host_pairs(plan, index, plan.hosts),
            index,
            hosts_announced: 0,
            base_entries: BaseEntries::default(),
            is_prepared: false,
            requests: OutstandingRequests::new(1, 0, 0),
            outstanding_max: 0,
            session: SwitchSession::open(profile, &mut unsent),
            version: plan.version,
            counting: plan.counting,
            counted_outstanding: 0,
            unsent,
            partial: Vec::new(),
        }
    }

    /// Prepares for the measurement: resets the counts, and uses the hosts that have announced themselves.
    pub(crate) fn prepare(&mut self, plan: &Plan, timeout_ticks: u32) {
        let hosts = match self.hosts_announced {
            0 => plan.hosts,
            // With two ports, the number of hosts must stay even.
            n => if plan.ports == 2 { n & !1 } else { n }.max(2),
        };
        let plan = &Plan { hosts, ..plan.clone() };
        self.is_prepared = true;
        self.counts = RequestCounts::default();
        self.host_pairs = host_pairs(plan, self.index, hosts);
        self.outstanding_max = plan.outstanding_max();
        let len = if self.counting == ReplyCounting::Answers { plan.ring_len() } else { 1 };
        self.requests = OutstandingRequests::new(len, plan.overtaken_max(), timeout_ticks);
    }

    /// Processes bytes received from the controller.
    ///
    /// # Errors
    /// Why the switch must close the connection.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        ctx: &mut ReceiveContext<'_>,
    ) -> Result<(), DisconnectReason> {
        let mut rest = bytes;
        while !self.partial.is_empty() {
            let wanted = match *self.partial.as_slice() {
                [_, _, high, low, ..] => usize::from(u16::from_be_bytes([high, low])),
                _ => 4,
            }
            .max(HEADER_LEN);
            let missing = wanted.saturating_sub(self.partial.len());
            let (more, after) = rest.split_at(missing.min(rest.len()));
            self.partial.extend_from_slice(more);
            rest = after;
            if more.len() < missing {
                return Ok(());
            }
            let partial = std::mem::take(&mut self.partial);
            let used = self.process_messages(&partial, ctx);
            self.partial = partial;
            if used? == self.partial.len() {
                self.partial.clear();
            }
        }
        let used = self.process_messages(rest, ctx)?;
        self.partial.extend_from_slice(rest.get(used..).unwrap_or_default());
        Ok(())
    }

    /// Processes the complete messages at the start of `bytes`; returns their length.
    fn process_messages(
        &mut self,
        bytes: &[u8],
        ctx: &mut ReceiveContext<'_>,
    ) -> Result<usize, DisconnectReason> {
        if self.counting == ReplyCounting::Messages {
            return self.count_messages(bytes, ctx);
        }
        let mut batch = LatencyBatch::new(ctx.timestamp);
        let (mut rest, version) = (bytes, self.version);
        let mut result = Ok(());
        while let Some((message_type, msg, after)) = split_message(rest, version) {
            rest = after;
            let reply = match message_type {
                FLOW_MOD => ParsedReply::flow_mod(version, msg),
                PACKET_OUT => ParsedReply::packet_out(version, msg),
                _ => {
                    result = self.handle_other(msg, ctx);
                    if result.is_err() {
                        break;
                    }
                    continue;
                }
            };
            let outcome = match reply {
                ParsedReply::Buffer(id, kind) => self.requests.match_reply(id, kind),
                _ => match self.match_unbuffered(reply, msg) {
                    Some(outcome) => outcome,
                    None => continue,
                },
            };
            if let ReplyOutcome::Answered(sent_at) = outcome {
                self.counts.answered += 1;
                batch.add(sent_at, &mut self.latencies, ctx.recorder);
            } else {
                self.count_outcome(outcome);
            }
        }
        batch.flush(&mut self.latencies, ctx.recorder);
        result.map(|()| bytes.len() - rest.len())
    }

    /// Matches a reply by the addresses of its packet; counts it and returns `None` if it has none.
    fn match_unbuffered(&mut self, reply: ParsedReply, msg: &[u8]) -> Option<ReplyOutcome> {
        match reply {
            ParsedReply::Addresses(dst, src, kind) => {
                let next = self.requests.next();
                let equal = self.host_pairs.equal_requests(dst, src, next);
                return Some(equal.map_or(ReplyOutcome::Unsolicited, |it| {
                    self.requests.match_equal_requests(it.age, it.period, kind)
                }));
            }
            ParsedReply::Buffer(id, kind) => return Some(self.requests.match_reply(id, kind)),
            ParsedReply::Unmatched => self.count_unmatched(msg),
            ParsedReply::Broadcast => self.counts.broadcasts += 1,
            ParsedReply::Other => self.counts.other += 1,
            ParsedReply::Malformed => self.counts.malformed += 1,
        }
        None
    }

    /// Counts a flow entry that matches no single request.
    #[cold]
    fn count_unmatched(&mut self, flow_mod: &[u8]) {
        if !self.is_prepared && self.hosts_announced == 0 {
            self.base_entries.add(flow_mod);
        }
        if self.base_entries.contains(flow_mod) {
            self.counts.other += 1;
        } else {
            self.counts.unmatched += 1;
        }
    }

    fn count_outcome(&mut self, outcome: ReplyOutcome) {
        match outcome {
            ReplyOutcome::Answered(_) => self.counts.answered += 1,
            ReplyOutcome::Late => self.counts.late += 1,
            ReplyOutcome::SecondPart => self.counts.two_part += 1,
            ReplyOutcome::Duplicate => self.counts.duplicate += 1,
            ReplyOutcome::Unsolicited => self.counts.unsolicited += 1,
        }
    }

    /// Counts replies by message type alone, without parsing them.
    fn count_messages(
        &mut self,
        bytes: &[u8],
        ctx: &mut ReceiveContext<'_>,
    ) -> Result<usize, DisconnectReason> {
        let (mut rest, mut n) = (bytes, 0);
        while let Some((message_type, msg, after)) = split_message(rest, self.version) {
            rest = after;
            match message_type {
                FLOW_MOD | PACKET_OUT => n += 1,
                _ => self.handle_other(msg, ctx)?,
            }
        }
        self.counts.answered += u64::from(n);
        self.counted_outstanding = self.counted_outstanding.saturating_sub(n);
        Ok(bytes.len() - rest.len())
    }

    /// Handles a message that is neither `FLOW_MOD` nor `PACKET_OUT`.
    #[cold]
    fn handle_other(
        &mut self,
        msg: &[u8],
        ctx: &mut ReceiveContext<'_>,
    ) -> Result<(), DisconnectReason> {
        let malformed = |error| DisconnectReason::Protocol(SessionError::Malformed(error));
        if msg.len() < HEADER_LEN {
            return Err(malformed(ParseError::new("header", 2, ParseErrorKind::Length)));
        }
        let msg = RawMessage::new(msg).map_err(malformed)?;
        match self.session.on_message(msg, &mut self.unsent).map_err(DisconnectReason::Protocol)? {
            SwitchEvent::Ready => {
                self.lifecycle.ready = Some(ctx.now);
                ctx.sessions.ready_switches += 1;
            }
            SwitchEvent::Error(error) => ctx.sessions.errors.add(error.reason, 1),
            // Of another version than the negotiated one.
            SwitchEvent::FlowMod(_) | SwitchEvent::PacketOut(_) => self.counts.malformed += 1,
            SwitchEvent::Handled => {}
        }
        if self.unsent.len() > UNSENT_MAX {
            self.unsent = Vec::new();
            return Err(DisconnectReason::RepliesNotRead);
        }
        Ok(())
    }

    /// Sends what must be sent before anything else; `true` if nothing of it is left.
    #[inline]
    pub(crate) fn flush(&mut self, io: &mut impl Io) -> bool {
        if self.unsent.is_empty() {
            return true;
        }
        let Some(conn) = self.conn else { return false };
        let sent = io.send(conn, &self.unsent);
        self.unsent.drain(..sent.min(self.unsent.len()));
        self.unsent.is_empty()
    }

    /// How many requests may be sent now without exceeding `limit` outstanding ones; expires requests that timed out.
    #[inline]
    pub(crate) fn available(
        &mut self,
        now: Timestamp,
        limit: u32,
        recorder: &mut RequestRecorder,
    ) -> u32 {
        if self.counting == ReplyCounting::Messages {
            return limit.saturating_sub(self.counted_outstanding);
        }
        let unanswered = &mut self.latencies.unanswered;
        let mut on_timeout =
            |sent_at| *unanswered += u64::from(recorder.record_unanswered(sent_at));
        if self.requests.next() == u32::MAX {
            // This sequence number as a buffer id means "no buffer".
            self.requests.skip(&mut on_timeout);
            self.host_pairs.advance(1);
        }
        let limit = limit.min(self.outstanding_max);
        let available = self.requests.available(now, limit, &mut on_timeout);
        available.min(u32::MAX - self.requests.next())
    }

    /// Sends up to `n` requests, at most one batch of templates; returns how many were sent. The rest of a request that was
    /// sent partially is sent before anything else. The caller then calls [`record_sent`](Self::record_sent).
    #[inline]
    pub(crate) fn send_requests(
        &mut self,
        io: &mut impl Io,
        templates: &mut RequestTemplates,
        buffering: Buffering,
        n: u32,
    ) -> u32 {
        let Some(conn) = self.conn else { return 0 };
        let len = templates.request_len();
        let n = (n as usize).min(templates.batch_size());
        let bytes = templates.fill(n, self.requests.next(), buffering, self.host_pairs);
        let sent = io.send(conn, bytes);
        let whole = sent.div_ceil(len);
        self.unsent.extend_from_slice(bytes.get(sent..whole * len).unwrap_or_default());
        let whole = u32::try_from(whole).unwrap_or(0);
        self.host_pairs.advance(whole);
        self.counts.sent += u64::from(whole);
        whole
    }

    /// Records that the next `n` requests are outstanding since `sent_at`.
    #[inline]
    pub(crate) fn record_sent(&mut self, n: u32, sent_at: Timestamp) {
        match self.counting {
            ReplyCounting::Answers => self.requests.insert(n, sent_at),
            ReplyCounting::Messages => {
                self.counted_outstanding = self.counted_outstanding.saturating_add(n);
            }
        }
    }

    /// Sends the announcements of the next `n` hosts; `true` if all of them were sent.
    pub(crate) fn announce_hosts(
        &mut self,
        io: &mut impl Io,
        templates: &mut RequestTemplates,
        n: u32,
        hosts: u32,
    ) -> bool {
        let Some(conn) = self.conn else { return false };
        let end = hosts.min(self.hosts_announced.saturating_add(n));
        let len = templates.announcement_len();
        let (bytes, n) = templates.announcements(self.hosts_announced, end, &self.host_pairs);
        let sent = io.send(conn, bytes);
        let whole = sent.div_ceil(len);
        self.unsent.extend_from_slice(bytes.get(sent..whole * len).unwrap_or_default());
        let whole = u32::try_from(whole).unwrap_or(0);
        self.hosts_announced += whole;
        whole == n && self.unsent.is_empty()
    }

    /// Whether bytes wait to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Expires requests that timed out.
    pub(crate) fn expire(&mut self, now: Timestamp, recorder: &mut RequestRecorder) {
        let unanswered = &mut self.latencies.unanswered;
        self.requests.expire(now, &mut |sent_at| {
            *unanswered += u64::from(recorder.record_unanswered(sent_at));
        });
    }

    /// Records the requests that still wait for an answer as unanswered, at the end of the run.
    pub(crate) fn give_up(&mut self, recorder: &mut RequestRecorder) {
        let unanswered = &mut self.latencies.unanswered;
        self.requests.for_each_waiting(|sent_at| {
            *unanswered += u64::from(recorder.record_unanswered(sent_at));
        });
    }

    /// Forgets all requests, so that replies to them count as duplicates. The caller has [given them up](Self::give_up).
    pub(crate) fn forget_requests(&mut self) {
        self.counts.never_answered += self.requests.forget();
        self.counted_outstanding = 0;
    }

    /// Records that a request which was due at `due` is not sent.
    #[cold]
    pub(crate) fn record_not_sent(
        &mut self,
        due: Timestamp,
        reason: NotSentReason,
        recorder: &mut RequestRecorder,
    ) {
        self.counts.not_sent.add(reason, 1);
        self.latencies.unanswered += u64::from(recorder.record_not_sent(due, reason));
    }

    /// Whether an answer may still come in time.
    pub(crate) fn is_waiting(&self) -> bool {
        self.counted_outstanding > 0 || self.requests.is_waiting()
    }

    /// Number of outstanding requests.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        match self.counting {
            ReplyCounting::Answers => self.requests.outstanding(),
            ReplyCounting::Messages => self.counted_outstanding,
        }
    }

    /// The counts at the end: outstanding requests count as never answered.
    pub(crate) fn final_counts(&self) -> RequestCounts {
        let never_answered = match self.counting {
            ReplyCounting::Answers => self.requests.unanswered(),
            ReplyCounting::Messages => self.counted_outstanding.into(),
        };
        let never_answered = self.counts.never_answered + never_answered;
        RequestCounts { never_answered, ..self.counts }
    }
}

/// Splits off one message: its type byte (0xff if it is of another version), its bytes, the bytes after it.
///
/// A message whose length field is below that of a header is returned with that length, so that
/// [`BenchSwitch::handle_other`] rejects it.
#[inline]
fn split_message(bytes: &[u8], version: Version) -> Option<(u8, &[u8], &[u8])> {
    let head = bytes.first_chunk::<8>()?;
    let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let (msg, rest) = bytes.split_at_checked(len)?;
    let message_type = if head[0] == version.0 && len >= HEADER_LEN { head[1] } else { 0xff };
    Some((message_type, msg, rest))
}

fn host_pairs(plan: &Plan, index: u32, hosts: u32) -> HostPairs {
    // Switches are numbered from 1 in MAC addresses; 10 000 of them fit.
    let switch = u16::try_from(index + 1).unwrap_or(u16::MAX);
    HostPairs::new(switch, hosts, plan.ports, plan.new_sources, plan.seed)
}
