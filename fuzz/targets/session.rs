//! Any stream, cut anywhere, with any pauses, into either end of a conversation, before the handshake and after it:
//! no panic, no more said than a multiple of what was heard, no more held than the limits allow.
#![no_main]

use std::alloc::System;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use sluice_openflow::view::PacketIns;
use sluice_openflow::{DatapathId, RawMessage, Version, split_message};
use sluice_proto::{
    Config, ControllerEvent, ControllerSession, SessionError, SwitchProfile, SwitchSession,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What replies in parts may hold; small, so that an input can get there.
const MULTIPART_BYTES_MAX: usize = 1024;

/// What a session says without being asked: `HELLO`, the questions of the handshake.
const UNASKED: usize = 256;

/// A session's longest answer to a message is an `ERROR` of 20 bytes about one of eight.
const SESSION_GAIN: usize = 3;

/// A switch's is its description: 1 068 bytes for twelve.
const SWITCH_GAIN: usize = 90;

/// What either end may hold: replies in parts, a message of the handshake in its owned form, and as much again while
/// a list grows.
const HELD_MAX: usize = 16 << 10;

fuzz_target!(|input: &[u8]| {
    // What is played, how long a pause is, how long a piece is; then the stream.
    let [mode, pause, len, stream_bytes @ ..] = input else { return };
    let version = if mode & 1 == 0 { Version::V1_0 } else { Version::V1_3 };
    let mut stream = Stream::new(version, if mode & 2 == 0 { End::Session } else { End::Switch });
    if mode & 4 != 0 {
        stream.shake_hands();
    }
    let region = Region::new(ALLOCATOR);
    let (mut torn, mut heard) = (Vec::with_capacity(input.len()), 0);
    for piece in stream_bytes.chunks(usize::from(*len) + 1) {
        heard += piece.len();
        torn.extend_from_slice(piece);
        let on = stream.wait(*pause).and_then(|()| stream.hear(&mut torn));
        stream.check(heard);
        let change = region.change();
        let held = change.bytes_allocated.saturating_sub(change.bytes_deallocated);
        let ours = 2 * stream.tx.capacity();
        assert!(held <= HELD_MAX + ours + 16 * heard, "{held} bytes held after {heard}");
        if on.is_err() {
            return;
        }
    }
});

/// Which end is tested.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Session,
    Switch,
}

struct Stream {
    end: End,
    cfg: Config,
    now: Instant,
    session: ControllerSession,
    switch: SwitchSession,
    /// What the tested end says.
    tx: Vec<u8>,
    /// What the other said when it was opened.
    other: Vec<u8>,
    said: usize,
    pauses: usize,
}

impl Stream {
    fn new(version: Version, end: End) -> Self {
        let now = Instant::now();
        let cfg = Config {
            multipart_bytes_max: MULTIPART_BYTES_MAX,
            malformed_max: 10,
            ..Config::default()
        };
        let plan =
            SwitchProfile { datapath_id: DatapathId(1), version, n_ports: 4, n_buffers: 256 };
        let (mut to_switch, mut to_controller) = (Vec::new(), Vec::new());
        let session = ControllerSession::open(&cfg, 1, now, &mut to_switch);
        let switch = SwitchSession::open(plan, &mut to_controller);
        let (tx, other) = match end {
            End::Session => (to_switch, to_controller),
            End::Switch => (to_controller, to_switch),
        };
        Self { end, cfg, now, session, switch, tx, other, said: 0, pauses: 0 }
    }

    /// Lets the two ends talk until the session is up.
    fn shake_hands(&mut self) {
        let (mut to_switch, mut to_controller) = match self.end {
            End::Session => (std::mem::take(&mut self.tx), std::mem::take(&mut self.other)),
            End::Switch => (std::mem::take(&mut self.other), std::mem::take(&mut self.tx)),
        };
        while !self.session.is_up() {
            for msg in messages(&std::mem::take(&mut to_controller)) {
                self.session.on_message(&self.cfg, msg, &mut to_switch).expect("a handshake");
            }
            for msg in messages(&std::mem::take(&mut to_switch)) {
                self.switch.on_message(msg, &mut to_controller).expect("a handshake");
            }
        }
    }

    fn wait(&mut self, pause: u8) -> Result<(), SessionError> {
        self.now += Duration::from_millis(u64::from(pause) * 100);
        self.pauses += 1;
        match self.end {
            End::Session => self.session.handle_timeouts(&self.cfg, self.now, &mut self.tx),
            End::Switch => Ok(()),
        }
    }

    /// Hears all whole messages of `torn`, which keeps the rest.
    fn hear(&mut self, torn: &mut Vec<u8>) -> Result<(), SessionError> {
        let mut rest = &torn[..];
        self.session.record_activity(self.now);
        while let Some((msg, after)) = split_message(rest).map_err(SessionError::Malformed)? {
            rest = after;
            match self.end {
                End::Session => self.session_hears(msg)?,
                End::Switch => _ = self.switch.on_message(msg, &mut self.tx)?,
            }
        }
        let used = torn.len() - rest.len();
        torn.drain(..used);
        Ok(())
    }

    fn session_hears(&mut self, msg: RawMessage<'_>) -> Result<(), SessionError> {
        // As the engine reads the frames of a session that is up.
        let mut frames = PacketIns::new(self.session.version(), msg.bytes());
        let frame = frames.next().filter(|_| self.session.is_up());
        match self.session.on_message(&self.cfg, msg, &mut self.tx)? {
            Some(ControllerEvent::PacketIn(p)) => assert_eq!(frame, Some(p)),
            Some(ControllerEvent::MultipartReply(_, _, body)) => {
                assert!(frame.is_none() && body.len() <= MULTIPART_BYTES_MAX + msg.bytes().len());
            }
            Some(ControllerEvent::SwitchConnected(_)) => assert!(self.session.is_up()),
            _ => assert!(frame.is_none()),
        }
        Ok(())
    }

    /// Takes what was said away, and checks that it is not too much after so many bytes `heard`.
    fn check(&mut self, heard: usize) {
        self.said += self.tx.len();
        assert_eq!(
            messages(&self.tx).iter().map(|msg| msg.bytes().len()).sum::<usize>(),
            self.tx.len()
        );
        self.tx.clear();
        // An ECHO_REQUEST after each pause.
        let gain = if self.end == End::Session { SESSION_GAIN } else { SWITCH_GAIN };
        let most = UNASKED + gain * heard + 8 * self.pauses;
        assert!(self.said <= most, "{} bytes said after {heard}", self.said);
    }
}

fn messages(mut bytes: &[u8]) -> Vec<RawMessage<'_>> {
    let mut all = Vec::new();
    while let Ok(Some((msg, rest))) = split_message(bytes) {
        all.push(msg);
        bytes = rest;
    }
    all
}
