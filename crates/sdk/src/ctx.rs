//! Where an application stands when it hears something, and what it can say from there.

use std::time::{Duration, Instant};

use sluice_openflow::model::{Multipart, MultipartFlags, MultipartReply, MultipartRequest};
use sluice_openflow::{DatapathId, EncodeError, Encoder, Message, MultipartType, ParseError};

use crate::network::Network;
use crate::view::{Fact, NetworkView};

/// A switch of this worker: a small number, used again when the switch is gone. An index for tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SwitchIndex(pub u32);

impl SwitchIndex {
    /// The number as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where an application stands when it hears something: when, from which switch, and how to answer.
#[derive(Debug)]
pub struct Ctx<'t> {
    /// The time of this turn.
    pub now: Instant,
    /// The switch that was heard.
    pub switch_index: SwitchIndex,
    /// Its identity.
    pub datapath_id: DatapathId,
    /// To that switch. Free: encodes into its transmit buffer.
    pub switch: Encoder<'t>,
    /// All else.
    pub network: &'t mut Network,
    ahead: &'t mut Vec<u8>,
}

impl<'t> Ctx<'t> {
    /// For engines: what is said goes to `here`, before all that waits to `ahead`, and beyond to `network`.
    #[inline]
    pub fn new(
        now: Instant,
        switch_index: SwitchIndex,
        datapath_id: DatapathId,
        switch: Encoder<'t>,
        ahead: &'t mut Vec<u8>,
        network: &'t mut Network,
    ) -> Self {
        Self { now, switch_index, datapath_id, switch, network, ahead }
    }

    /// To that switch, before all that waits to be sent: for what says whether a link is alive, and for little else.
    pub fn urgent(&mut self) -> Encoder<'_> {
        self.switch.with_buffer(self.ahead)
    }

    /// What is known of the whole network.
    #[inline]
    pub fn view(&self) -> &NetworkView {
        self.network.view()
    }

    /// How long the switch takes to answer, there and back: [`Network::rtt`].
    #[inline]
    pub fn rtt(&self) -> Option<Duration> {
        self.network.rtt(self.switch_index)
    }

    /// Asks the switch for statistics or descriptions; [`App::on_multipart_reply`](crate::App::on_multipart_reply) hears the
    /// answer. Returns the transaction id.
    ///
    /// # Errors
    /// Names what the version of the switch cannot say.
    pub fn request(&mut self, request: MultipartRequest) -> Result<u32, EncodeError> {
        let asked = Multipart { flags: MultipartFlags::default(), body: request };
        self.switch.encode(&Message::MultipartRequest(asked))
    }

    /// Reads what [`App::on_multipart_reply`](crate::App::on_multipart_reply) was told.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    ///
    /// # Cost
    /// Allocates what it holds.
    pub fn parse_reply(
        &self,
        kind: MultipartType,
        body: &[u8],
    ) -> Result<MultipartReply, ParseError> {
        MultipartReply::read(self.switch.version(), kind, body)
    }

    /// Says that something is so from now on: [`Network::publish`].
    pub fn publish(&mut self, fact: Fact) -> bool {
        self.network.publish(self.now, fact)
    }

    /// To any switch: [`Network::send_to`].
    pub fn send_to(&mut self, to: DatapathId, message: Message) {
        self.network.send_to(to, message);
    }
}
