//! The body of the reply to a capture: packets as they are received, and an end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use futures_util::task::AtomicWaker;
use hyper::body::{Body, Frame};
use sluice_io::clock;
use sluice_sdk::view::SwitchPort;
use sluice_sdk::{Capture, CapturedPacket};
use tokio::time::{Instant, Sleep, sleep_until};

use super::super::ApiState;
use super::super::access::Permission;
use super::super::names::switch_name;
use crate::source_limit::SourcePermit;
use crate::streaming::StreamGuard;

/// Bytes of one part of the body.
const PART_LEN: usize = 64 << 10;

/// Bytes of a body, after which the capture ends.
const BYTES_MAX: u64 = 4 << 30;

/// How often the connection shows that its client reads.
const INTERVAL: Duration = Duration::from_secs(1);

/// When a capture ends, besides when its client closes the connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct CaptureLimits {
    pub(super) packets: u64,
    pub(super) time: Duration,
}

/// Why a capture has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaptureEnd {
    Packets,
    Bytes,
    Time,
    /// The client would not be permitted to capture any more.
    AccessRevoked,
}

impl CaptureEnd {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Packets => "limit",
            Self::Bytes => "bytes",
            Self::Time => "time",
            Self::AccessRevoked => "access-revoked",
        }
    }
}

/// A captured packet, with what describes it.
pub(super) struct DescribedPacket {
    pub(super) packet: CapturedPacket,
    /// Since 1970-01-01 UTC.
    pub(super) at: Duration,
    pub(super) switch_name: Option<String>,
    pub(super) port_name: Option<String>,
}

/// How many packets were captured.
#[derive(Debug, Clone, Copy)]
pub(super) struct CaptureSummary {
    pub(super) packets: u64,
    pub(super) dropped: u64,
    pub(super) end: CaptureEnd,
}

/// A format.
pub(super) trait PacketWriter: Send {
    fn start(&mut self, out: &mut Vec<u8>);

    fn packet(&mut self, packet: &DescribedPacket, out: &mut Vec<u8>);

    fn end(&mut self, summary: CaptureSummary, out: &mut Vec<u8>);
}

/// Wakes the connection when a worker has captured something.
#[derive(Default)]
pub(super) struct CaptureWaker(AtomicWaker);

impl CaptureWaker {
    /// Does not wait, since a worker calls it.
    pub(super) fn wake(&self) {
        self.0.wake();
    }
}

pub(super) struct CaptureBody {
    state: ApiState,
    capture: Capture,
    writer: Box<dyn PacketWriter>,
    packets_left: u64,
    packets: u64,
    bytes: u64,
    ends_at: Instant,
    next_wake: Pin<Box<Sleep>>,
    waker: Arc<CaptureWaker>,
    guard: StreamGuard,
    permission: Permission,
    /// Names of the ports seen so far.
    names: std::collections::BTreeMap<SwitchPort, [Option<String>; 2]>,
    has_started: bool,
    has_ended: bool,
    _permit: SourcePermit,
}

impl CaptureBody {
    pub(super) fn new(
        state: ApiState,
        capture: Capture,
        writer: Box<dyn PacketWriter>,
        limits: CaptureLimits,
        (waker, guard, permission, permit): (
            Arc<CaptureWaker>,
            StreamGuard,
            Permission,
            SourcePermit,
        ),
    ) -> Self {
        let now = Instant::from_std(clock::now());
        guard.record_progress(clock::now());
        Self {
            state,
            capture,
            writer,
            packets_left: limits.packets,
            packets: 0,
            bytes: 0,
            ends_at: now + limits.time,
            next_wake: Box::pin(sleep_until(now)),
            waker,
            guard,
            permission,
            names: std::collections::BTreeMap::new(),
            has_started: false,
            has_ended: false,
            _permit: permit,
        }
    }

    /// Writes packets that wait; returns why the capture ends, if it does.
    fn write_packets(&mut self, out: &mut Vec<u8>) -> Option<CaptureEnd> {
        if !std::mem::replace(&mut self.has_started, true) {
            self.writer.start(out);
        }
        if self.permission.is_revoked(clock::now()) {
            return Some(CaptureEnd::AccessRevoked);
        }
        while out.len() < PART_LEN && self.packets_left > 0 {
            let Some(packet) = self.capture.try_next() else { break };
            let age = clock::now().saturating_duration_since(packet.at);
            let [switch_name, port_name] = self.names_of(packet.from);
            let at = clock::since_epoch().saturating_sub(age);
            self.writer.packet(&DescribedPacket { packet, at, switch_name, port_name }, out);
            self.packets_left -= 1;
            self.packets += 1;
        }
        if self.packets_left == 0 {
            return Some(CaptureEnd::Packets);
        }
        if self.bytes + out.len() as u64 >= BYTES_MAX {
            return Some(CaptureEnd::Bytes);
        }
        (Instant::from_std(clock::now()) >= self.ends_at).then_some(CaptureEnd::Time)
    }

    /// The names of a switch and of its port.
    fn names_of(&mut self, at: SwitchPort) -> [Option<String>; 2] {
        let state = &self.state;
        let names = self.names.entry(at).or_insert_with(|| {
            let sessions = state.controller.switches();
            let session = sessions.iter().find(|session| session.datapath_id == at.switch);
            let ports = session.into_iter().flat_map(|session| &session.features.ports);
            let mut ports = ports.filter(|port| port.port_no == at.port);
            [
                session.and_then(|it| switch_name(it, &state.given_names())),
                ports.next().map(sluice_openflow::Port::name),
            ]
        });
        names.clone()
    }
}

impl Body for CaptureBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        if this.has_ended {
            return Poll::Ready(None);
        }
        this.guard.record_progress(clock::now());
        // Before looking for packets, so that none is missed.
        this.waker.0.register(cx.waker());
        let mut out = Vec::new();
        let end = this.write_packets(&mut out);
        if let Some(end) = end {
            let (packets, dropped) = (this.packets, this.capture.dropped());
            this.writer.end(CaptureSummary { packets, dropped, end }, &mut out);
            this.has_ended = true;
        }
        if !out.is_empty() {
            this.bytes += out.len() as u64;
            return Poll::Ready(Some(Ok(Frame::data(out.into()))));
        }
        if this.has_ended {
            return Poll::Ready(None);
        }
        let now = Instant::from_std(clock::now());
        while this.next_wake.as_mut().poll(cx).is_ready() {
            this.next_wake.as_mut().reset((now + INTERVAL).min(this.ends_at.max(now)));
            if now >= this.ends_at {
                cx.waker().wake_by_ref();
                break;
            }
        }
        Poll::Pending
    }
}
