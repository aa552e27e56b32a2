//! Where an application stands when it hears something, and what it can say from there.

use std::time::Instant;

use sluice_wire::{DatapathId, Message, Out};

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

/// Messages to other switches, carried when the turn is over.
#[derive(Debug, Default)]
pub struct Mail(Vec<(DatapathId, Message)>);

impl Mail {
    /// Takes all that was written.
    pub fn take(&mut self) -> Vec<(DatapathId, Message)> {
        std::mem::take(&mut self.0)
    }

    /// Whether nothing was written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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
    mail: &'t mut Mail,
}

impl<'t> Ctx<'t> {
    /// For engines: what is said goes to `here` and `mail`.
    #[inline]
    pub fn new(now: Instant, sw: Sw, id: DatapathId, here: Out<'t>, mail: &'t mut Mail) -> Self {
        Self { now, sw, id, here, mail }
    }

    /// To any switch, whoever's it is. What a switch of its version cannot express is logged and left out;
    /// a switch that is not there hears nothing.
    ///
    /// # Cost
    /// A copy and, if another worker holds the switch, a hop between cores.
    pub fn mail(&mut self, to: DatapathId, message: Message) {
        self.mail.0.push((to, message));
    }
}
