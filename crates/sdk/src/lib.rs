//! What an application is: its ears, and what it can say.
//!
//! An application is single-threaded to write. Every worker has an instance of its own, which hears only of the
//! switches of that worker, one thing at a time; there is nothing to lock.
//!
//! ```
//! use sluice_sdk::{App, Ctx, Then};
//! use sluice_openflow::{Action, PacketIn, PacketOut, PortNo};
//!
//! /// Sends every frame out of every port.
//! #[derive(Debug)]
//! struct Repeater;
//!
//! impl App for Repeater {
//!     fn packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Then {
//!         let actions = [Action::output(PortNo::FLOOD)];
//!         let sent = PacketOut { actions: &actions, ..PacketOut::answer(p) };
//!         // Every version can say this.
//!         let _ = ctx.here.packet_out(&sent);
//!         Then::Done
//!     }
//! }
//! ```

mod ctx;
mod household;
mod network;
mod residents;
pub mod view;

use std::time::Instant;

use sluice_openflow::{
    ErrorMsg, EtherType, Ethernet, Features, FlowRemovedView, MultipartKind, Out, PacketIn,
    PacketIns, PortStatus,
};

pub use ctx::{Ctx, Sw};
pub use household::{Abode, Household, PORTS_MAX, Seat, Tick};
pub use network::Network;
pub use residents::{Resident, Residents};
use view::Told;

/// Types of frames that show links: LLDP, and what goes through networks of others. They go before all else.
pub const PROBES: [EtherType; 2] = [EtherType::LLDP, EtherType::EXPERIMENT_2];

/// Whether a frame shows links.
pub fn is_probe(frame: &[u8]) -> bool {
    Ethernet::new(frame).is_some_and(|eth| PROBES.contains(&eth.ethertype))
}

/// Whether the next application in the row hears of a frame as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It does.
    PassOn,
    /// It does not: the frame is answered.
    Done,
}

/// A number that an application shows to people: name, one sentence without full stop, value.
pub type Gauge = (&'static str, &'static str, u64);

/// What an application hears. All of it is optional.
pub trait App {
    /// A turn begins: it is `now`, once for all that is heard in it. At least once a second.
    fn on_time(&mut self, now: Instant) {
        let _ = now;
    }

    /// Says what any switch is to have from the first moment, whoever it is: it goes out together with the question who
    /// that is, a round trip before [`switch_up`](Self::switch_up). Whether the switch will ever be up is not known, nor
    /// whether this instance will hear of it, so it follows from the configuration alone. Once for a session.
    fn greet(&self, out: &mut Out<'_>) {
        let _ = out;
    }

    /// A switch is there. Its tables are as it left them: empty them only for a reason.
    fn switch_up(&mut self, features: &Features, ctx: &mut Ctx<'_>) {
        let _ = (features, ctx);
    }

    /// A switch is gone; its number will be another's.
    fn switch_down(&mut self, sw: Sw, now: Instant, network: &mut Network) {
        let _ = (sw, now, network);
    }

    /// About four times a second for every switch: what is to be done once in a while is done here.
    fn time_passes(&mut self, ctx: &mut Ctx<'_>) {
        let _ = ctx;
    }

    /// Something is otherwise than before in the view of the network; an application of this worker or of another
    /// said so. It is heard when all switches of the turn are, once for each fact, in the order in which they came.
    fn told(&mut self, told: &Told, now: Instant, network: &mut Network) {
        let _ = (told, now, network);
    }

    /// Answers frames at the front of `frames` as far as they are of the usual kind: those that every application
    /// before this one in the row would pass on and learn nothing from. The next frame after them is heard by all.
    #[inline]
    fn usual(&mut self, frames: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        let _ = (frames, ctx);
    }

    /// Whether it must hear of every frame itself, so that none behind it in the row may answer the
    /// [`usual`](Self::usual) ones before.
    fn watches(&self) -> bool {
        false
    }

    /// A frame came up from `ctx.sw`.
    fn packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Then {
        let _ = (p, ctx);
        Then::PassOn
    }

    /// Frames came up from `ctx.sw`, in this order: all of a burst until something else comes.
    ///
    /// An application that has to look something up for each may look for many of them before it answers the
    /// first, so that the waits for memory overlap. What is left in `frames` is answered by nobody.
    fn packet_ins(&mut self, frames: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        loop {
            self.usual(frames, ctx);
            let Some(p) = frames.next() else { break };
            self.packet_in(&p, ctx);
        }
    }

    /// A rule is gone that was to be reported.
    fn flow_removed(&mut self, removed: &FlowRemovedView<'_>, ctx: &mut Ctx<'_>) {
        let _ = (removed, ctx);
    }

    /// A port came, went or changed.
    fn port_status(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
        let _ = (status, ctx);
    }

    /// A request failed; `error` gives back the start of it.
    fn error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
        let _ = (error, ctx);
    }

    /// All that was said before the barrier `xid` is done.
    fn barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        let _ = (xid, ctx);
    }

    /// The whole reply to the request `xid`.
    fn multipart_reply(&mut self, xid: u32, kind: MultipartKind, body: &[u8], ctx: &mut Ctx<'_>) {
        let _ = (xid, kind, body, ctx);
    }

    /// Hands the numbers that people may want to see to `put`. About once a second.
    fn gauges(&self, put: &mut dyn FnMut(Gauge)) {
        let _ = put;
    }
}

/// Two in a row are one again: the second hears of the frames that the first passed on, and of all else.
impl<A: App, B: App> App for (A, B) {
    fn on_time(&mut self, now: Instant) {
        self.0.on_time(now);
        self.1.on_time(now);
    }

    fn greet(&self, out: &mut Out<'_>) {
        self.0.greet(out);
        self.1.greet(out);
    }

    fn switch_up(&mut self, features: &Features, ctx: &mut Ctx<'_>) {
        self.0.switch_up(features, ctx);
        self.1.switch_up(features, ctx);
    }

    fn switch_down(&mut self, sw: Sw, now: Instant, network: &mut Network) {
        self.0.switch_down(sw, now, network);
        self.1.switch_down(sw, now, network);
    }

    fn time_passes(&mut self, ctx: &mut Ctx<'_>) {
        self.0.time_passes(ctx);
        self.1.time_passes(ctx);
    }

    fn told(&mut self, told: &Told, now: Instant, network: &mut Network) {
        self.0.told(told, now, network);
        self.1.told(told, now, network);
    }

    #[inline]
    fn usual(&mut self, frames: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        self.0.usual(frames, ctx);
        if !self.0.watches() {
            self.1.usual(frames, ctx);
        }
    }

    fn watches(&self) -> bool {
        self.0.watches() || self.1.watches()
    }

    #[inline]
    fn packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Then {
        match self.0.packet_in(p, ctx) {
            Then::PassOn => self.1.packet_in(p, ctx),
            Then::Done => Then::Done,
        }
    }

    fn flow_removed(&mut self, removed: &FlowRemovedView<'_>, ctx: &mut Ctx<'_>) {
        self.0.flow_removed(removed, ctx);
        self.1.flow_removed(removed, ctx);
    }

    fn port_status(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
        self.0.port_status(status, ctx);
        self.1.port_status(status, ctx);
    }

    fn error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
        self.0.error(error, ctx);
        self.1.error(error, ctx);
    }

    fn barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        self.0.barrier_reply(xid, ctx);
        self.1.barrier_reply(xid, ctx);
    }

    fn multipart_reply(&mut self, xid: u32, kind: MultipartKind, body: &[u8], ctx: &mut Ctx<'_>) {
        self.0.multipart_reply(xid, kind, body, ctx);
        self.1.multipart_reply(xid, kind, body, ctx);
    }

    fn gauges(&self, put: &mut dyn FnMut(Gauge)) {
        self.0.gauges(put);
        self.1.gauges(put);
    }
}
