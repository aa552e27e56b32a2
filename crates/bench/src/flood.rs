//! Connections that are no switches: opened at a rate, held, and closed.

use std::collections::VecDeque;
use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use sluice_base::Rng;
use sluice_io::{ConnId, Epoll, Io, IoEvent, WaitStrategy, clock, limits, sock};

use crate::Error;
use crate::latency::histogram;
use crate::schedule::Schedule;

/// Bytes of a burst of rubbish.
const RUBBISH_LEN: usize = 512;

/// Between two bytes of a peer that is slow.
const SLOW: Duration = Duration::from_millis(500);

/// Descriptors needed beside one per connection.
const FILES_SPARE: u64 = 64;

/// A header of 1.0 that says `HELLO`, and nothing else.
const HELLO: [u8; 8] = [1, 0, 0, 8, 0, 0, 0, 1];

/// What a connection says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// Nothing at all.
    Nothing,
    /// Random bytes.
    Rubbish,
    /// `HELLO`, and then nothing.
    Hello,
    /// `HELLO`, a byte every half second.
    Slowly,
}

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where the controller listens.
    pub target: SocketAddr,
    /// Connections opened per second.
    pub rate: f64,
    /// For how long.
    pub time: Duration,
    /// How long each is held before it is closed; `None` until the end.
    pub hold: Option<Duration>,
    /// Connections held at most; the oldest one goes first.
    pub held_max: usize,
    /// What each says.
    pub say: Payload,
    /// What the rubbish comes from.
    pub seed: u64,
    /// What is set on the sockets.
    pub socket: sock::Options,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Report {
    /// Connections begun.
    pub begun: u64,
    /// Of those, how many stood.
    pub accepted: u64,
    /// Of those, how many the controller closed.
    pub closed: u64,
    /// How long those had stood, nanoseconds.
    pub closed_after_ns: Histogram<u64>,
    /// How many this end closed, because they had been held long enough or there were too many.
    pub let_go: u64,
    /// How many still stood at the end.
    pub held: u64,
    /// How many were refused.
    pub refused: u64,
    /// How many failed in another way, or still had no answer at the end.
    pub failed: u64,
    /// Bytes that the controller said to them.
    pub heard: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// Carries out `plan`.
///
/// # Errors
/// Where it could not begin.
pub fn run(plan: &Plan) -> Result<Report, Error> {
    if !(plan.rate > 0.0 && plan.rate <= 1e6) {
        let what = "a rate of connections is above 0 and at most 1e6 a second: change --rate";
        return Err(Error::Plan(what.into()));
    }
    let needed = plan.held_max as u64 + FILES_SPARE;
    let allowed = limits::raise_open_files(needed);
    if allowed < needed {
        return Err(Error::OpenFiles { needed, allowed });
    }
    Flood::new(plan)?.run()
}

struct Flood<'p> {
    plan: &'p Plan,
    io: Epoll,
    peers: Vec<Option<Peer>>,
    /// In the order in which they were begun; some are gone.
    order: VecDeque<(Instant, ConnId)>,
    open: usize,
    rubbish: Vec<u8>,
    report: Report,
}

#[derive(Debug, Clone, Copy)]
struct Peer {
    id: ConnId,
    since: Option<Instant>,
    said: usize,
}

impl<'p> Flood<'p> {
    fn new(plan: &'p Plan) -> Result<Self, Error> {
        let mut rng = Rng::new(plan.seed);
        let words = std::iter::repeat_with(|| rng.next_u64().to_ne_bytes());
        Ok(Self {
            plan,
            io: Epoll::new(WaitStrategy::default())?,
            peers: Vec::new(),
            order: VecDeque::new(),
            open: 0,
            rubbish: words.take(RUBBISH_LEN / 8).flatten().collect(),
            report: Report {
                begun: 0,
                accepted: 0,
                closed: 0,
                closed_after_ns: histogram(),
                let_go: 0,
                held: 0,
                refused: 0,
                failed: 0,
                heard: 0,
                elapsed: Duration::ZERO,
            },
        })
    }

    fn run(mut self) -> Result<Report, Error> {
        let start = clock::now();
        let schedule = Schedule::new(start, self.plan.rate, 1);
        let end = start + self.plan.time;
        let mut now = start;
        let mut slow = start;
        while now < end {
            while self.report.begun < schedule.due(now) {
                self.begin(now)?;
            }
            self.let_go(now);
            if self.plan.say == Payload::Slowly && now >= slow {
                self.say_slowly();
                slow = now + SLOW;
            }
            let due = schedule.due_at(self.report.begun);
            let held = self.plan.hold.and_then(|hold| Some(self.order.front()?.0 + hold));
            let next = [
                Some(end),
                Some(due),
                held,
                Some(slow).filter(|_| self.plan.say == Payload::Slowly),
            ];
            now = self.io.wait(next.into_iter().flatten().min())?;
            while self.one_event() {}
        }
        let standing = self.peers.iter().flatten().filter(|peer| peer.since.is_some()).count();
        self.report.held = standing as u64;
        self.report.failed += (self.open - standing) as u64;
        self.report.elapsed = clock::now() - start;
        for (_, id) in std::mem::take(&mut self.order) {
            self.close(id);
        }
        Ok(self.report)
    }

    fn begin(&mut self, now: Instant) -> Result<(), Error> {
        self.report.begun += 1;
        while self.open >= self.plan.held_max {
            let Some((_, oldest)) = self.order.pop_front() else { break };
            self.report.let_go += u64::from(self.close(oldest));
        }
        let stream = match sock::start_connect(self.plan.target, &self.plan.socket) {
            Ok(stream) => stream,
            Err(e) => {
                self.report.refused += u64::from(e.kind() == ErrorKind::ConnectionRefused);
                self.report.failed += u64::from(e.kind() != ErrorKind::ConnectionRefused);
                return Ok(());
            }
        };
        let id = self.io.adopt_connecting(stream)?;
        if self.peers.len() <= id.slot() {
            self.peers.resize(id.slot() + 1, None);
        }
        if let Some(place) = self.peers.get_mut(id.slot()) {
            *place = Some(Peer { id, since: None, said: 0 });
        }
        self.order.push_back((now, id));
        self.open += 1;
        Ok(())
    }

    /// Closes what was held long enough.
    fn let_go(&mut self, now: Instant) {
        let Some(hold) = self.plan.hold else { return };
        while let Some(&(begun, id)) = self.order.front() {
            if now < begun + hold {
                return;
            }
            self.order.pop_front();
            self.report.let_go += u64::from(self.close(id));
        }
    }

    /// Closes a connection by a reset, which leaves nothing behind; whether it was still there.
    fn close(&mut self, id: ConnId) -> bool {
        if self.forget(id).is_none() {
            return false;
        }
        if let Some(stream) = self.io.release(id) {
            sock::reset(&stream);
        }
        true
    }

    fn forget(&mut self, id: ConnId) -> Option<Peer> {
        let place = self.peers.get_mut(id.slot())?;
        let peer = place.filter(|peer| peer.id == id)?;
        *place = None;
        self.open -= 1;
        Some(peer)
    }

    fn one_event(&mut self) -> bool {
        let Some(event) = self.io.next_event() else { return false };
        match event {
            IoEvent::Connected(id) => {
                self.report.accepted += 1;
                if let Some(Some(peer)) = self.peers.get_mut(id.slot()) {
                    peer.since = Some(clock::now());
                }
                match self.plan.say {
                    Payload::Nothing | Payload::Slowly => {}
                    Payload::Hello => _ = self.io.send(id, &HELLO),
                    Payload::Rubbish => _ = self.io.send(id, &self.rubbish),
                }
            }
            IoEvent::Data(_, bytes) => self.report.heard += bytes.len() as u64,
            IoEvent::Closed(id, why) => {
                let peer = self.forget(id);
                match peer.and_then(|peer| peer.since) {
                    Some(since) => {
                        self.report.closed += 1;
                        let ns = (clock::now() - since).as_nanos();
                        let ns = u64::try_from(ns).unwrap_or(u64::MAX);
                        self.report.closed_after_ns.saturating_record(ns);
                    }
                    None if why == Some(ErrorKind::ConnectionRefused) => self.report.refused += 1,
                    None => self.report.failed += 1,
                }
            }
            _ => {}
        }
        true
    }

    /// Lets everybody say another byte of a `HELLO`; of which one is never finished.
    fn say_slowly(&mut self) {
        for peer in self.peers.iter_mut().flatten().filter(|peer| peer.since.is_some()) {
            if let Some(byte) = HELLO.get(peer.said..peer.said + 1) {
                peer.said += self.io.send(peer.id, byte);
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = crate::statistics::ratio(self.begun, self.elapsed);
        let after = |q| Duration::from_nanos(self.closed_after_ns.value_at_quantile(q));
        writeln!(f, "begun          {} in {:.1?}, {rate:.0} a second", self.begun, self.elapsed)?;
        writeln!(f, "accepted       {}", self.accepted)?;
        writeln!(f, "refused        {}, failed in another way {}", self.refused, self.failed)?;
        write!(f, "closed         {} by the controller", self.closed)?;
        if self.closed > 0 {
            let (half, all) = (after(0.5), after(1.0));
            write!(f, ", half of them within {half:.1?}, all within {all:.1?}")?;
        }
        writeln!(f, "; {} by this end; {} held at the end", self.let_go, self.held)?;
        writeln!(f, "heard          {} bytes", self.heard)
    }
}
