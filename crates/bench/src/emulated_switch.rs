//! One switch as the bench plays it: what it hears, what it sends.

use std::fmt;
use std::time::Instant;

use sluice_io::{ConnId, Io};
use sluice_openflow::{DatapathId, HEADER_LEN, ParseError, ParseErrorKind, RawMessage, Version};
use sluice_proto::{SessionError, SwitchEvent, SwitchProfile, SwitchSession};

use crate::counts::{ErrorCounts, RequestCounts};
use crate::host_pairs::HostPairs;
use crate::latency::{CoarseHistogram, LatencyBatch, LatencyRecorder};
use crate::outstanding::{OutstandingRequests, ReplyOutcome, Timestamp};
use crate::plan::{Plan, ReplyCounting};
use crate::reply::{FLOW_MOD, PACKET_OUT, ParsedReply};
use crate::requests::{Buffering, RequestTemplates};

/// Bytes of answers that a controller may leave unread: some dozen of the longest messages, of which it asks for a few.
const PENDING_MAX: usize = 4 << 20;

/// One switch as the bench plays it.
#[derive(Debug)]
pub(crate) struct EmulatedSwitch {
    /// Its connection; `None` before and after.
    pub(crate) conn: Option<ConnId>,
    pub(crate) life: Lifecycle,
    pub(crate) counts: RequestCounts,
    pub(crate) coarse: CoarseHistogram,
    pub(crate) pairs: HostPairs,
    /// Number among all switches, from 0.
    pub(crate) number: u32,
    /// Hosts that announced themselves.
    pub(crate) announced: u32,
    /// Requests sent of those that the schedule has for it.
    pub(crate) asked: u64,
    ledger: OutstandingRequests,
    session: SwitchSession,
    version: Version,
    count: ReplyCounting,
    /// Open requests where replies are only counted.
    outstanding: u32,
    /// What must be sent before anything else: the rest of a request, or answers of the session.
    pending: Vec<u8>,
    /// The start of a message whose rest has not come.
    torn: Vec<u8>,
}

/// When a switch got how far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lifecycle {
    pub(crate) started: Option<Instant>,
    pub(crate) connected: Option<Instant>,
    pub(crate) known: Option<Instant>,
    /// Why the connection ended, if it did.
    pub(crate) ended: Option<String>,
}

/// Why a switch hangs up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DisconnectReason {
    /// The conversation could not go on.
    Fault(SessionError),
    /// The controller asks, and takes no answers.
    NotTaken,
}

impl fmt::Display for DisconnectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => fault.fmt(f),
            Self::NotTaken => f.write_str("the controller asks, and takes no answers"),
        }
    }
}

/// What hearing needs from the thread.
#[derive(Debug)]
pub(crate) struct ReceiveContext<'t> {
    pub(crate) now: Instant,
    pub(crate) stamp: Timestamp,
    pub(crate) latencies: &'t mut LatencyRecorder,
    pub(crate) errors: &'t mut ErrorCounts,
}

impl EmulatedSwitch {
    /// Switch number `number`, from 0, not connected yet.
    pub(crate) fn new(plan: &Plan, number: u32) -> Self {
        let switch_plan = SwitchProfile {
            datapath_id: DatapathId(plan.dpid_offset.wrapping_add(number.into())),
            version: plan.version,
            n_ports: plan.ports,
            n_buffers: if plan.kept == Buffering::Buffered { 256 } else { 0 },
        };
        let mut pending = Vec::new();
        Self {
            conn: None,
            life: Lifecycle::default(),
            counts: RequestCounts::default(),
            coarse: CoarseHistogram::new(),
            pairs: pairs(plan, number, plan.hosts),
            number,
            announced: 0,
            asked: 0,
            ledger: OutstandingRequests::new(1, 0),
            session: SwitchSession::open(switch_plan, &mut pending),
            version: plan.version,
            count: plan.count,
            outstanding: 0,
            pending,
            torn: Vec::new(),
        }
    }

    /// Makes ready for requests: counts anew, with as many hosts as have announced themselves.
    pub(crate) fn begin(&mut self, plan: &Plan, patience: u32) {
        let hosts = match self.announced {
            0 => plan.hosts,
            // With two ports their number stays even.
            n => if plan.ports == 2 { n & !1 } else { n }.max(2),
        };
        let plan = &Plan { hosts, ..plan.clone() };
        self.counts = RequestCounts::default();
        self.pairs = pairs(plan, self.number, hosts);
        let len = if self.count == ReplyCounting::Answers { plan.ledger_len() } else { 1 };
        self.ledger = OutstandingRequests::new(len, patience);
    }

    /// Reads bytes as they came.
    ///
    /// # Errors
    /// The reason to hang up.
    pub(crate) fn hear(
        &mut self,
        bytes: &[u8],
        ears: &mut ReceiveContext<'_>,
    ) -> Result<(), DisconnectReason> {
        let mut rest = bytes;
        while !self.torn.is_empty() {
            let wanted = match *self.torn.as_slice() {
                [_, _, high, low, ..] => usize::from(u16::from_be_bytes([high, low])),
                _ => 4,
            }
            .max(HEADER_LEN);
            let missing = wanted.saturating_sub(self.torn.len());
            let (more, after) = rest.split_at(missing.min(rest.len()));
            self.torn.extend_from_slice(more);
            rest = after;
            if more.len() < missing {
                return Ok(());
            }
            let torn = std::mem::take(&mut self.torn);
            let used = self.walk(&torn, ears);
            self.torn = torn;
            if used? == self.torn.len() {
                self.torn.clear();
            }
        }
        let used = self.walk(rest, ears)?;
        self.torn.extend_from_slice(rest.get(used..).unwrap_or_default());
        Ok(())
    }

    /// Reads whole messages; returns how many bytes they have.
    fn walk(
        &mut self,
        bytes: &[u8],
        ears: &mut ReceiveContext<'_>,
    ) -> Result<usize, DisconnectReason> {
        if self.count == ReplyCounting::Messages {
            return self.count_messages(bytes, ears);
        }
        let mut run = LatencyBatch::new(ears.stamp);
        let (mut rest, version) = (bytes, self.version);
        let mut ended = Ok(());
        while let Some((kind, msg, after)) = cut(rest, version) {
            rest = after;
            let reply = match kind {
                FLOW_MOD => ParsedReply::flow_mod(version, msg),
                PACKET_OUT => ParsedReply::packet_out(version, msg),
                _ => {
                    ended = self.hear_rare(msg, ears);
                    if ended.is_err() {
                        break;
                    }
                    continue;
                }
            };
            let verdict = match reply {
                ParsedReply::Buffer(id, what) => self.ledger.answer(id, what),
                _ => match self.tie(reply) {
                    Some(verdict) => verdict,
                    None => continue,
                },
            };
            if let ReplyOutcome::Answered(stamp) = verdict {
                self.counts.answered += 1;
                run.add(stamp, &mut self.coarse, ears.latencies);
            } else {
                self.note(verdict);
            }
        }
        run.flush(&mut self.coarse, ears.latencies);
        ended.map(|()| bytes.len() - rest.len())
    }

    /// Ties a reply by what it says of the frame; what cannot be tied is counted.
    fn tie(&mut self, reply: ParsedReply) -> Option<ReplyOutcome> {
        match reply {
            ParsedReply::Addresses(dst, src, what) => {
                let age = self.pairs.age(dst, src, self.ledger.next());
                return Some(
                    age.map_or(ReplyOutcome::Unasked, |age| self.ledger.answer_by_age(age, what)),
                );
            }
            ParsedReply::Buffer(id, what) => return Some(self.ledger.answer(id, what)),
            ParsedReply::Untied => self.counts.untied += 1,
            ParsedReply::Announcement => self.counts.announcements += 1,
            ParsedReply::Other => self.counts.other += 1,
            ParsedReply::Malformed => self.counts.malformed += 1,
        }
        None
    }

    fn note(&mut self, verdict: ReplyOutcome) {
        match verdict {
            ReplyOutcome::Answered(_) => self.counts.answered += 1,
            ReplyOutcome::Late => self.counts.late += 1,
            ReplyOutcome::Paired => self.counts.paired += 1,
            ReplyOutcome::Twice => self.counts.twice += 1,
            ReplyOutcome::Unasked => self.counts.unasked += 1,
        }
    }

    /// Counts messages by their lengths and types.
    fn count_messages(
        &mut self,
        bytes: &[u8],
        ears: &mut ReceiveContext<'_>,
    ) -> Result<usize, DisconnectReason> {
        let (mut rest, mut n) = (bytes, 0);
        while let Some((kind, msg, after)) = cut(rest, self.version) {
            rest = after;
            match kind {
                FLOW_MOD | PACKET_OUT => n += 1,
                _ => self.hear_rare(msg, ears)?,
            }
        }
        self.counts.answered += u64::from(n);
        self.outstanding = self.outstanding.saturating_sub(n);
        Ok(bytes.len() - rest.len())
    }

    #[cold]
    fn hear_rare(
        &mut self,
        msg: &[u8],
        ears: &mut ReceiveContext<'_>,
    ) -> Result<(), DisconnectReason> {
        if msg.len() < HEADER_LEN {
            let error = ParseError::new("header length", 2, ParseErrorKind::Length);
            return Err(DisconnectReason::Fault(SessionError::Malformed(error)));
        }
        let frame = RawMessage::new(msg)
            .map_err(|error| DisconnectReason::Fault(SessionError::Malformed(error)))?;
        match self.session.on_message(frame, &mut self.pending).map_err(DisconnectReason::Fault)? {
            SwitchEvent::Ready => self.life.known = Some(ears.now),
            SwitchEvent::Error(error) => ears.errors.add(error.reason, 1),
            // Of another version than agreed on.
            SwitchEvent::FlowMod(_) | SwitchEvent::PacketOut(_) => self.counts.malformed += 1,
            SwitchEvent::Handled => {}
        }
        if self.pending.len() > PENDING_MAX {
            self.pending = Vec::new();
            return Err(DisconnectReason::NotTaken);
        }
        Ok(())
    }

    /// Sends what must go before anything else; whether nothing of it is left.
    #[inline]
    pub(crate) fn flush(&mut self, io: &mut impl Io) -> bool {
        if self.pending.is_empty() {
            return true;
        }
        let Some(conn) = self.conn else { return false };
        let sent = io.send(conn, &self.pending);
        self.pending.drain(..sent.min(self.pending.len()));
        self.pending.is_empty()
    }

    /// How many requests may go now so that at most `limit` are open.
    #[inline]
    pub(crate) fn room(&mut self, now: Timestamp, limit: u32) -> u32 {
        if self.count == ReplyCounting::Messages {
            return limit.saturating_sub(self.outstanding);
        }
        if self.ledger.next() == u32::MAX {
            // That number means "no buffer".
            self.ledger.skip();
            self.pairs.advance(1);
        }
        self.ledger.room(now, limit).min(u32::MAX - self.ledger.next())
    }

    /// Sends up to `n` requests, at most a chunk; returns how many went. The last may have gone in part: the rest of it
    /// is sent before anything else. They are open only when [`issue`](Self::issue) says so.
    #[inline]
    pub(crate) fn send(
        &mut self,
        io: &mut impl Io,
        requests: &mut RequestTemplates,
        kept: Buffering,
        n: u32,
    ) -> u32 {
        let Some(conn) = self.conn else { return 0 };
        let len = requests.len();
        let n = (n as usize).min(requests.per_chunk());
        let bytes = requests.fill(n, self.ledger.next(), kept, self.pairs);
        let sent = io.send(conn, bytes);
        let whole = sent.div_ceil(len);
        self.pending.extend_from_slice(bytes.get(sent..whole * len).unwrap_or_default());
        let whole = u32::try_from(whole).unwrap_or(0);
        self.pairs.advance(whole);
        self.counts.sent += u64::from(whole);
        whole
    }

    /// Opens the next `n` requests as of `stamp`.
    #[inline]
    pub(crate) fn issue(&mut self, n: u32, stamp: Timestamp) {
        match self.count {
            ReplyCounting::Answers => self.ledger.issue(n, stamp),
            ReplyCounting::Messages => self.outstanding = self.outstanding.saturating_add(n),
        }
    }

    /// Sends the next announcements, `n` at most; whether all of those went.
    pub(crate) fn announce(
        &mut self,
        io: &mut impl Io,
        requests: &mut RequestTemplates,
        n: u32,
        hosts: u32,
    ) -> bool {
        let Some(conn) = self.conn else { return false };
        let end = hosts.min(self.announced.saturating_add(n));
        let len = requests.announcement_len();
        let (bytes, n) = requests.announce(self.announced, end, &self.pairs);
        let sent = io.send(conn, bytes);
        let whole = sent.div_ceil(len);
        self.pending.extend_from_slice(bytes.get(sent..whole * len).unwrap_or_default());
        let whole = u32::try_from(whole).unwrap_or(0);
        self.announced += whole;
        whole == n && self.pending.is_empty()
    }

    /// Whether a part of something waits to be sent.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Requests that are open.
    #[inline]
    pub(crate) fn open(&self) -> u32 {
        match self.count {
            ReplyCounting::Answers => self.ledger.open(),
            ReplyCounting::Messages => self.outstanding,
        }
    }

    /// All counts, as if nothing more came.
    pub(crate) fn final_counts(&self) -> RequestCounts {
        let never_answered = match self.count {
            ReplyCounting::Answers => self.ledger.unanswered(),
            ReplyCounting::Messages => self.outstanding.into(),
        };
        RequestCounts { never_answered, ..self.counts }
    }
}

/// Cuts off one message: its type byte (one that is nothing here if the version is another), all of it, what follows.
///
/// A length below that of a header comes out as a message of that length, and an empty one as one byte, so that
/// [`Player::hear_rare`] refuses it.
#[inline]
fn cut(bytes: &[u8], version: Version) -> Option<(u8, &[u8], &[u8])> {
    let head = bytes.first_chunk::<8>()?;
    let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let (msg, rest) = bytes.split_at_checked(len)?;
    let kind = if head[0] == version.0 && len >= HEADER_LEN { head[1] } else { 0xff };
    Some((kind, msg, rest))
}

fn pairs(plan: &Plan, number: u32, hosts: u32) -> HostPairs {
    // Switches are numbered from 1 in addresses; 10 000 of them fit.
    let switch = u16::try_from(number + 1).unwrap_or(u16::MAX);
    HostPairs::new(switch, hosts, plan.ports, plan.new_sources, plan.seed)
}
