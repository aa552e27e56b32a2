//! What threads other than workers can do with a running controller.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_openflow::value::Value;
use sluice_openflow::{
    DatapathId, ErrorReason, MessageType, PortNo, Role, SwitchDesc, SwitchFeatures, Version,
};

use crate::capture::{Capture, CaptureFilter};
use crate::request::{Answer, Request};
use crate::view::{RecordFact, ViewSubscription};

/// Called with the answer to a request: in any thread, a worker's for example, so that it must neither block nor take long.
pub type OnAnswer = Box<dyn FnOnce(Answer) + Send>;

/// Called with the state of an application on each worker: in any thread, a worker's for example, so that it must neither block nor
/// take long. It is dropped when all workers have answered.
pub type OnState = Arc<dyn Fn(AppState) + Send + Sync>;

/// Values in the state of an application on one worker that are shown: an answer of about 100 KB.
pub const STATE_VALUES_MAX: usize = 4096;

/// What an application shows of itself on one worker.
#[derive(Debug, Clone, PartialEq)]
pub struct AppState {
    /// The number of the worker, from 0.
    pub worker: usize,
    /// What [`App::state`](crate::App::state) has returned; or how many values that were, if there were too many.
    pub state: Result<Option<Value>, usize>,
}

impl AppState {
    /// The state on a worker.
    pub fn new(worker: usize, state: Option<Value>) -> Self {
        let count = state.as_ref().map_or(0, count);
        let state = if count > STATE_VALUES_MAX { Err(count) } else { Ok(state) };
        Self { worker, state }
    }
}

/// The number of values in a value.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::List(values) => values.iter().map(count).sum(),
        Value::Map(entries) => entries.iter().map(|(_, value)| count(value)).sum::<usize>(),
        _ => 0,
    }
}

/// A running controller, for threads other than its workers: to send requests to switches, to follow the network view, and to
/// list the switches. No function blocks, or slows a worker down by more than its own work.
pub trait Controller: Send + Sync {
    /// Sends messages to a switch and calls `on_answer` with the answer, always and once.
    ///
    /// If the controller has too much to do, `on_answer` is called at once with [`Answer::TooMany`], in this thread.
    fn request(&self, to: DatapathId, request: Request, on_answer: OnAnswer);

    /// Subscribes to all facts, from which the thread can keep a [`NetworkView`](crate::view::NetworkView) of its own. `notify` is
    /// called, in any thread, when something can be received and nothing could before; it must neither block nor take long.
    fn subscribe(&self, notify: Box<dyn Fn() + Send + Sync>) -> ViewSubscription;

    /// Publishes records to the applications of all workers, as an application would: they are in the views of all workers a moment
    /// later, and reach the subscribers. A record that repeats what is known changes nothing. Returns whether the controller takes them:
    /// `false` if it has too much to do, or has stopped. The default takes none.
    ///
    /// # Cost
    /// That of [`Network::publish`](crate::Network::publish), for a worker.
    #[must_use]
    fn publish(&self, records: Vec<RecordFact>) -> bool {
        drop(records);
        false
    }

    /// Begins to copy packet-ins, until the [`Capture`] is dropped. `notify` is called, in any thread, when something can be received and
    /// nothing could before; it must neither block nor take long. `None` if the controller has too much to do. The default takes no
    /// captures.
    ///
    /// # Cost
    /// Until it is dropped, a comparison for each packet-in, and a lock and a copy for each that the filter selects.
    fn capture(
        &self,
        filter: CaptureFilter,
        notify: Box<dyn Fn() + Send + Sync>,
    ) -> Option<Capture> {
        let _ = (filter, notify);
        None
    }

    /// The connected switches, in the order of their datapath ids.
    ///
    /// # Cost
    /// A lock for each worker, which it takes only when switches connect and disconnect, and one for each switch.
    fn switches(&self) -> Vec<SwitchSession>;

    /// Calls `on_state` with what an application shows of itself, once for each worker. A worker that has too much to do does not
    /// answer; a controller without applications calls nothing.
    fn read_state(&self, application: &str, on_state: OnState) {
        let _ = (application, on_state);
    }
}

/// A connected switch and its session.
#[derive(Debug, Clone)]
pub struct SwitchSession {
    /// The datapath id.
    pub datapath_id: DatapathId,
    /// The negotiated version.
    pub version: Version,
    /// The address and port from which the switch has connected.
    pub addr: SocketAddr,
    /// The number of the worker that serves it.
    pub worker: usize,
    /// When the handshake was complete, since 1970-01-01 UTC.
    pub connected_at: Duration,
    /// As described in the handshake, with the ports that it has had since a quarter of a second ago or later.
    pub features: Arc<SwitchFeatures>,
    /// The role of this controller, if the switch has stated it.
    pub role: Option<Role>,
    /// Manufacturer and so on, if the switch was asked for it in this session.
    pub description: Option<Arc<SwitchDesc>>,
    /// What was exchanged since it has connected.
    pub statistics: SessionStatistics,
    /// The last `ERROR` messages of the switch in this session, the newest last.
    pub last_errors: Vec<SwitchError>,
}

/// An `ERROR` message of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchError {
    /// When it was received.
    pub at: Instant,
    /// Why. Displayed with its names, such as `FLOW_MOD_FAILED/TABLE_FULL`.
    pub reason: ErrorReason,
    /// The transaction id of the request.
    pub xid: u32,
    /// The type of the request, if the message contains its header.
    pub request: Option<MessageType>,
}

/// The name of a switch: that of its local port, which is the bridge with Open vSwitch, or else the description of its datapath.
pub fn switch_name(features: &SwitchFeatures, description: Option<&SwitchDesc>) -> Option<String> {
    let ports = features.ports.iter();
    let local =
        ports.filter(|port| port.port_no == PortNo::LOCAL).map(|port| port.name.to_string());
    let described = description.iter().map(|it| it.dp.to_string());
    local.chain(described).find(|name| !name.is_empty() && name != "None")
}

impl SwitchSession {
    /// The name of the switch: that of its local port, which is the bridge with Open vSwitch, or else the description of its
    /// datapath.
    pub fn name(&self) -> Option<String> {
        switch_name(&self.features, self.description.as_deref())
    }
}

/// What was exchanged with a switch in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionStatistics {
    /// Messages received, packet-ins included.
    pub messages_received: u64,
    /// Packet-ins received.
    pub packet_ins_received: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// `ERROR` messages received.
    pub errors_received: u64,
    /// Messages that could not be parsed.
    pub malformed_messages: u64,
    /// Packet-ins discarded because the switch was too slow in reading.
    pub packet_ins_shed: u64,
    /// Bytes that wait to be sent.
    pub backlog_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_of_too_many_values_is_not_shown() {
        let list = |n| Value::List(vec![Value::Number(1); n]);
        let state = |value| AppState::new(2, Some(value)).state;
        assert_eq!(state(list(4095)), Ok(Some(list(4095))));
        assert_eq!(state(Value::Map(vec![("x".into(), list(4096))])), Err(4098));
        assert_eq!(AppState::new(2, None).state, Ok(None));
    }
}
