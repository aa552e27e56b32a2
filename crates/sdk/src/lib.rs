//! What an application is: its ears, and what it can say.
//!
//! An application is single-threaded to write. Every worker has an instance of its own, which hears only of the
//! switches of that worker, one thing at a time; there is nothing to lock.
//!
//! ```
//! use sluice_sdk::{App, Ctx, Verdict};
//! use sluice_openflow::{Action, PacketIn, PacketOut, PortNo};
//!
//! /// Sends every frame out of every port.
//! #[derive(Debug)]
//! struct Repeater;
//!
//! impl App for Repeater {
//!     fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
//!         let actions = [Action::output(PortNo::FLOOD)];
//!         let sent = PacketOut { actions: &actions, ..PacketOut::answer(p) };
//!         // Every version can say this.
//!         let _ = ctx.switch.packet_out(&sent);
//!         Verdict::Stop
//!     }
//! }
//! ```

mod ctx;
mod fast_path_hosts;
mod network;
mod switch_hosts;
pub mod view;

use std::time::Instant;

use sluice_openflow::view::{ErrorMsg, FlowRemoved, PacketIn, PacketIns};
use sluice_openflow::{Encoder, EtherType, Ethernet, MultipartType, PortStatus, SwitchFeatures};

pub use ctx::{Ctx, SwitchIndex};
pub use fast_path_hosts::{FastPathHost, FastPathHosts};
pub use network::Network;
pub use switch_hosts::{CoarseTime, HostEntry, HostSlot, PORTS_MAX, SwitchHosts};
use view::PublishedFact;

/// Types of frames that show links: LLDP, and what goes through networks of others. They go before all else.
pub const PROBES: [EtherType; 2] = [EtherType::LLDP, EtherType::EXPERIMENT_2];

/// Whether a frame shows links.
pub fn is_probe(frame: &[u8]) -> bool {
    Ethernet::new(frame).is_some_and(|eth| PROBES.contains(&eth.ethertype))
}

/// Whether the next application in the row hears of a frame as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Continue,
    /// It does not: the frame is answered.
    Stop,
}

/// A number that an application shows to people: name, one sentence without full stop, value.
pub type Gauge = (&'static str, &'static str, u64);

/// What an application hears. All of it is optional.
pub trait App {
    /// A turn begins: it is `now`, once for all that is heard in it. At least once a second.
    fn on_iteration(&mut self, now: Instant) {
        let _ = now;
    }

    /// Says what any switch is to have from the first moment, whoever it is: it goes out together with the question who
    /// that is, a round trip before [`on_switch_connected`](Self::on_switch_connected). Whether the switch will ever be up is not known, nor
    /// whether this instance will hear of it, so it follows from the configuration alone. Once for a session.
    fn initial_messages(&self, out: &mut Encoder<'_>) {
        let _ = out;
    }

    /// A switch is there. Its tables are as it left them: empty them only for a reason.
    fn on_switch_connected(&mut self, features: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        let _ = (features, ctx);
    }

    /// A switch is gone; its number will be another's.
    fn on_switch_disconnected(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
        let _ = (sw, now, network);
    }

    /// About four times a second for every switch: what is to be done once in a while is done here.
    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        let _ = ctx;
    }

    /// Something is otherwise than before in the view of the network; an application of this worker or of another
    /// said so. It is heard when all switches of the turn are, once for each fact, in the order in which they came.
    fn on_fact(&mut self, told: &PublishedFact, now: Instant, network: &mut Network) {
        let _ = (told, now, network);
    }

    /// Answers frames at the front of `frames` as far as they are of the usual kind: those that every application
    /// before this one in the row would pass on and learn nothing from. The next frame after them is heard by all.
    #[inline]
    fn fast_path(&mut self, frames: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        let _ = (frames, ctx);
    }

    /// Whether it must hear of every frame itself, so that none behind it in the row may answer the
    /// [`fast_path`](Self::fast_path) ones before.
    fn inspects_every_packet(&self) -> bool {
        false
    }

    /// A frame came up from `ctx.switch_index`.
    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let _ = (p, ctx);
        Verdict::Continue
    }

    /// Frames came up from `ctx.switch_index`, in this order: all of a burst until something else comes.
    ///
    /// An application that has to look something up for each may look for many of them before it answers the
    /// first, so that the waits for memory overlap. What is left in `frames` is answered by nobody.
    fn on_packet_ins(&mut self, frames: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        loop {
            self.fast_path(frames, ctx);
            let Some(p) = frames.next() else { break };
            self.on_packet_in(&p, ctx);
        }
    }

    /// A rule is gone that was to be reported.
    fn on_flow_removed(&mut self, removed: &FlowRemoved<'_>, ctx: &mut Ctx<'_>) {
        let _ = (removed, ctx);
    }

    /// A port came, went or changed.
    fn on_port_status(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
        let _ = (status, ctx);
    }

    /// A request failed; `error` gives back the start of it.
    fn on_error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
        let _ = (error, ctx);
    }

    /// All that was said before the barrier `xid` is done.
    fn on_barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        let _ = (xid, ctx);
    }

    /// The whole reply to the request `xid`.
    fn on_multipart_reply(
        &mut self,
        xid: u32,
        kind: MultipartType,
        body: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        let _ = (xid, kind, body, ctx);
    }

    /// Hands the numbers that people may want to see to `put`. About once a second.
    fn gauges(&self, put: &mut dyn FnMut(Gauge)) {
        let _ = put;
    }
}

/// Two in a row are one again: the second hears of the frames that the first passed on, and of all else.
impl<A: App, B: App> App for (A, B) {
    fn on_iteration(&mut self, now: Instant) {
        self.0.on_iteration(now);
        self.1.on_iteration(now);
    }

    fn initial_messages(&self, out: &mut Encoder<'_>) {
        self.0.initial_messages(out);
        self.1.initial_messages(out);
    }

    fn on_switch_connected(&mut self, features: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        self.0.on_switch_connected(features, ctx);
        self.1.on_switch_connected(features, ctx);
    }

    fn on_switch_disconnected(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
        self.0.on_switch_disconnected(sw, now, network);
        self.1.on_switch_disconnected(sw, now, network);
    }

    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        self.0.on_tick(ctx);
        self.1.on_tick(ctx);
    }

    fn on_fact(&mut self, told: &PublishedFact, now: Instant, network: &mut Network) {
        self.0.on_fact(told, now, network);
        self.1.on_fact(told, now, network);
    }

    #[inline]
    fn fast_path(&mut self, frames: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        self.0.fast_path(frames, ctx);
        if !self.0.inspects_every_packet() {
            self.1.fast_path(frames, ctx);
        }
    }

    fn inspects_every_packet(&self) -> bool {
        self.0.inspects_every_packet() || self.1.inspects_every_packet()
    }

    #[inline]
    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        match self.0.on_packet_in(p, ctx) {
            Verdict::Continue => self.1.on_packet_in(p, ctx),
            Verdict::Stop => Verdict::Stop,
        }
    }

    fn on_flow_removed(&mut self, removed: &FlowRemoved<'_>, ctx: &mut Ctx<'_>) {
        self.0.on_flow_removed(removed, ctx);
        self.1.on_flow_removed(removed, ctx);
    }

    fn on_port_status(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
        self.0.on_port_status(status, ctx);
        self.1.on_port_status(status, ctx);
    }

    fn on_error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
        self.0.on_error(error, ctx);
        self.1.on_error(error, ctx);
    }

    fn on_barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        self.0.on_barrier_reply(xid, ctx);
        self.1.on_barrier_reply(xid, ctx);
    }

    fn on_multipart_reply(
        &mut self,
        xid: u32,
        kind: MultipartType,
        body: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        self.0.on_multipart_reply(xid, kind, body, ctx);
        self.1.on_multipart_reply(xid, kind, body, ctx);
    }

    fn gauges(&self, put: &mut dyn FnMut(Gauge)) {
        self.0.gauges(put);
        self.1.gauges(put);
    }
}
