//! The context in which an application handles a message of a switch.

use std::time::{Duration, Instant};

use sluice_openflow::{
    DatapathId, EncodeError, Encoder, Message, Multipart, MultipartFlags, MultipartReply,
    MultipartRequest, MultipartType, ParseError,
};

use crate::network::Network;
use crate::view::{AppEvent, AppRecord, Fact, NetworkView};

/// Index of a connected switch of this worker: a small number for tables, reused after the switch has disconnected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SwitchIndex(pub u32);

impl SwitchIndex {
    /// The index for a slice.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The context in which an application handles a message: the time, the switch that sent it, and ways to answer.
#[derive(Debug)]
pub struct Ctx<'t> {
    /// The time at which this event-loop iteration began.
    pub now: Instant,
    /// Index of the switch.
    pub switch_index: SwitchIndex,
    /// Datapath id of the switch.
    pub datapath_id: DatapathId,
    /// Encodes messages into the switch's transmit buffer, without allocation.
    pub switch: Encoder<'t>,
    /// The rest of the network.
    pub network: &'t mut Network,
    urgent: &'t mut Vec<u8>,
    has_room: bool,
}

impl<'t> Ctx<'t> {
    /// For engines: messages go to `switch`, those that overtake its backlog to `urgent`, and all others to `network`.
    #[inline]
    pub fn new(
        now: Instant,
        switch_index: SwitchIndex,
        datapath_id: DatapathId,
        switch: Encoder<'t>,
        urgent: &'t mut Vec<u8>,
        network: &'t mut Network,
    ) -> Self {
        Self { now, switch_index, datapath_id, switch, network, urgent, has_room: true }
    }

    /// For engines: whether the switch has taken all urgent messages that were sent earlier; `true` unless set.
    #[inline]
    #[must_use]
    pub fn with_room(mut self, has_room: bool) -> Self {
        self.has_room = has_room;
        self
    }

    /// Whether the switch takes what is sent: `false` while [urgent](Self::urgent) messages that were sent earlier still
    /// wait. An application that sends periodically waits for room, so that a slow connection determines the rate.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.has_room
    }

    /// Encodes messages that overtake everything that waits to be sent to the switch. For probes of links and the like,
    /// which are useless if they are late.
    pub fn urgent(&mut self) -> Encoder<'_> {
        self.switch.with_buffer(self.urgent)
    }

    /// The view of the whole network.
    #[inline]
    pub fn view(&self) -> &NetworkView {
        self.network.view()
    }

    /// Smoothed round-trip time to the switch. See [`Network::rtt`].
    #[inline]
    pub fn rtt(&self) -> Option<Duration> {
        self.network.rtt(self.switch_index)
    }

    /// Sends a multipart request for statistics or descriptions; returns its transaction id. The reply comes to
    /// [`App::on_multipart_reply`](crate::App::on_multipart_reply).
    ///
    /// # Errors
    /// Names what the version of the switch cannot express.
    pub fn request(&mut self, request: MultipartRequest) -> Result<u32, EncodeError> {
        let request = Multipart { flags: MultipartFlags::default(), body: request };
        self.switch.encode(&Message::MultipartRequest(request))
    }

    /// Parses the body that [`App::on_multipart_reply`](crate::App::on_multipart_reply) is given.
    ///
    /// # Errors
    /// What is malformed, and where.
    ///
    /// # Cost
    /// Allocates the lists in it.
    pub fn parse_reply(
        &self,
        kind: MultipartType,
        body: &[u8],
    ) -> Result<MultipartReply, ParseError> {
        MultipartReply::parse_body(self.switch.version(), kind, body)
    }

    /// Publishes a fact to all applications of all workers. See [`Network::publish`].
    pub fn publish(&mut self, fact: Fact) -> bool {
        self.network.publish(self.now, fact)
    }

    /// Publishes a value of a record of an application. See [`Network::publish_record`].
    pub fn publish_record<T: AppRecord>(&mut self, key: T::Key, value: Option<T>) -> bool {
        self.network.publish_record(self.now, key, value)
    }

    /// Publishes an event of an application. See [`Network::publish_event`].
    pub fn publish_event<E: AppEvent>(&mut self, event: E) {
        self.network.publish_event(self.now, event);
    }

    /// Sends a message to any switch. See [`Network::send_to`].
    pub fn send_to(&mut self, to: DatapathId, message: Message) {
        self.network.send_to(to, message);
    }
}
