//! Where an application stands when it hears something, and what it can say from there.

use std::time::{Duration, Instant};

use sluice_openflow::model::{Multipart, MultipartFlags, Reply, Request};
use sluice_openflow::{DatapathId, Error, Inexpressible, Message, MultipartKind, Out};

use crate::network::Network;
use crate::view::{Fact, View};

/// A switch of this worker: a small number, used again when the switch is gone. An index for tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sw(pub u32);

impl Sw {
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
    pub sw: Sw,
    /// Its identity.
    pub id: DatapathId,
    /// To that switch. Free: encodes into its transmit buffer.
    pub here: Out<'t>,
    /// All else.
    pub network: &'t mut Network,
    ahead: &'t mut Vec<u8>,
}

impl<'t> Ctx<'t> {
    /// For engines: what is said goes to `here`, before all that waits to `ahead`, and beyond to `network`.
    #[inline]
    pub fn new(
        now: Instant,
        sw: Sw,
        id: DatapathId,
        here: Out<'t>,
        ahead: &'t mut Vec<u8>,
        network: &'t mut Network,
    ) -> Self {
        Self { now, sw, id, here, network, ahead }
    }

    /// To that switch, before all that waits to be sent: for what says whether a link is alive, and for little else.
    pub fn ahead(&mut self) -> Out<'_> {
        self.here.onto(self.ahead)
    }

    /// What is known of the whole network.
    #[inline]
    pub fn view(&self) -> &View {
        self.network.view()
    }

    /// How long the switch takes to answer, there and back: [`Network::rtt`].
    #[inline]
    pub fn rtt(&self) -> Option<Duration> {
        self.network.rtt(self.sw)
    }

    /// Asks the switch for statistics or descriptions; [`App::multipart_reply`](crate::App::multipart_reply) hears the
    /// answer. Returns the transaction id.
    ///
    /// # Errors
    /// Names what the version of the switch cannot say.
    pub fn ask(&mut self, request: Request) -> Result<u32, Inexpressible> {
        let asked = Multipart { flags: MultipartFlags::default(), body: request };
        self.here.say(&Message::MultipartRequest(asked))
    }

    /// Reads what [`App::multipart_reply`](crate::App::multipart_reply) was told.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    ///
    /// # Cost
    /// Allocates what it holds.
    pub fn read_reply(&self, kind: MultipartKind, body: &[u8]) -> Result<Reply, Error> {
        Reply::read(self.here.version(), kind, body)
    }

    /// Says that something is so from now on: [`Network::tell`].
    pub fn tell(&mut self, fact: Fact) -> bool {
        self.network.tell(self.now, fact)
    }

    /// To any switch: [`Network::mail`].
    pub fn mail(&mut self, to: DatapathId, message: Message) {
        self.network.mail(to, message);
    }
}
