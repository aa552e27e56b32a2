//! What an application of the controller is written against.
//!
//! An application implements [`App`]: a function for each kind of event, all of them optional. It answers through the
//! [`Ctx`] that it is given: by messages to the switch, by messages to other switches, and by facts about the network
//! that it publishes to all other applications.
//!
//! Applications run on worker threads. Each worker serves some of the switches and has an instance of its own of every
//! application, which is called for these switches only and for one event at a time, so an application needs no locks.
//! What all workers must know is in the [`view`], of which each worker has a copy.
//!
//! ```
//! use sluice_sdk::{App, Ctx, Verdict};
//! use sluice_openflow::view::PacketIn;
//! use sluice_openflow::{Action, PacketOutRef, PortNo};
//!
//! /// Floods every frame.
//! #[derive(Debug)]
//! struct Hub;
//!
//! impl App for Hub {
//!     fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
//!         let actions = [Action::output(PortNo::FLOOD)];
//!         let flood = PacketOutRef { actions: &actions, ..PacketOutRef::answer(p) };
//!         // Fails only if the version of the switch cannot express it, and every version can flood.
//!         let _ = ctx.switch.packet_out(&flood);
//!         Verdict::Stop
//!     }
//! }
//! ```

pub mod allocation;
mod answers;
mod app;
mod application;
mod capture;
mod chain;
mod controller;
mod ctx;
mod delivery;
mod fast_path_hosts;
pub mod flow_space;
mod metric;
mod named_chain;
mod network;
mod notification;
mod permanent;
mod registry;
mod request;
pub mod routes;
mod switch_hosts;
mod timer;
pub mod view;

use sluice_openflow::{EtherType, Ethernet};

pub use answers::{AnswerCache, AnswerForm, AnswerRule, AnsweredPacket};
pub use app::{App, Verdict};
pub use application::{AppConfig, AppConfigs, Application};
pub use capture::{Capture, CaptureFilter, CaptureSender, CapturedPacket};
pub use controller::{
    AppState, Controller, OnAnswer, OnState, STATE_VALUES_MAX, SessionStatistics, SwitchError,
    SwitchSession, switch_name,
};
pub use ctx::{Ctx, SwitchIndex};
pub use fast_path_hosts::{FastPathHost, FastPathHosts, HostChanges};
pub use metric::{AppMetric, AppMetricKind};
pub use named_chain::Chain;
pub use network::{Network, QueuedRequest};
pub use notification::{Notification, PortBlock};
pub use permanent::{permanent, restore_tables, send_misses_up};
pub use registry::{ChainError, Registration, Registry, RegistryError};
pub use request::{
    Answer, LISTED_ENTRIES_MAX, ReceivedMultipart, Refusal, Request, TIMEOUT_MAX, Ticket,
};
pub use switch_hosts::{CoarseTime, FAST_PATH_PORTS_MAX, HostEntry, HostSlot, SwitchHosts};
pub use timer::{TIMERS_MAX, TimerId, TooManyTimers};

/// Types of the frames that probe links: LLDP, and the type of probes that cross unmanaged segments. They are processed
/// even when other frames of a switch are dropped.
pub const LINK_PROBE_TYPES: [EtherType; 2] = [EtherType::LLDP, EtherType::EXPERIMENT_2];

/// Whether a frame is of one of the [`LINK_PROBE_TYPES`].
pub fn is_link_probe(frame: &[u8]) -> bool {
    Ethernet::new(frame).is_some_and(|eth| LINK_PROBE_TYPES.contains(&eth.ethertype))
}
