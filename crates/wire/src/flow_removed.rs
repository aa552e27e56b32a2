//! `FLOW_REMOVED`: a rule is gone. §7.4.2.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::match10::Match10;
use crate::{Error, Frame, Inexpressible, Kind, Match, Out, Result, Version, Why, matching};

/// What follows the match in 1.0. OpenFlow 1.0.0 §5.4.2.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed10 {
    matching: Match10,
    cookie: U64,
    priority: U16,
    reason: u8,
    pad: u8,
    duration_sec: U32,
    duration_nsec: U32,
    idle_timeout: U16,
    pad2: [u8; 2],
    packet_count: U64,
    byte_count: U64,
}

/// The fixed part of 1.1 to 1.4; then the match.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed13 {
    cookie: U64,
    priority: U16,
    reason: u8,
    table_id: u8,
    duration_sec: U32,
    duration_nsec: U32,
    idle_timeout: U16,
    hard_timeout: U16,
    packet_count: U64,
    byte_count: U64,
}

const _: () = assert!(size_of::<Fixed10>() == 80);
const _: () = assert!(size_of::<Fixed13>() == 40);

/// A rule that is gone, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlowRemoved {
    /// The controller's own mark.
    pub cookie: u64,
    /// Priority of the rule.
    pub priority: u16,
    /// `OFPRR_*`: 0 idle, 1 hard timeout, 2 deleted, 3 group deleted.
    pub reason: u8,
    /// Its table; 0 in 1.0.
    pub table_id: u8,
    /// How long it lived, seconds.
    pub duration_s: u32,
    /// And nanoseconds beyond.
    pub duration_nsec: u32,
    /// Its idle timeout, seconds.
    pub idle_timeout_s: u16,
    /// Its hard timeout, seconds; 0 in 1.0.
    pub hard_timeout_s: u16,
    /// Packets it matched.
    pub packet_count: u64,
    /// Octets it matched.
    pub byte_count: u64,
    /// What it matched.
    pub matching: Match,
}

impl FlowRemoved {
    /// Reads `msg`.
    ///
    /// # Errors
    /// `Short` if the fixed part is cut off, `Version` for the other form that 1.5 has; as for any match.
    ///
    /// # Cost
    /// Allocates the list of fields.
    pub fn parse(msg: Frame<'_>) -> Result<Self> {
        if msg.version() == Version::V1_0 {
            let (r, _) = msg.fixed::<Fixed10>("flow_removed")?;
            return Ok(Self {
                cookie: r.cookie.get(),
                priority: r.priority.get(),
                reason: r.reason,
                table_id: 0,
                duration_s: r.duration_sec.get(),
                duration_nsec: r.duration_nsec.get(),
                idle_timeout_s: r.idle_timeout.get(),
                hard_timeout_s: 0,
                packet_count: r.packet_count.get(),
                byte_count: r.byte_count.get(),
                matching: r.matching.to_match(),
            });
        }
        if msg.version() >= Version::V1_5 {
            return Err(Error::new("flow_removed", 8, Why::Version));
        }
        let (r, _) = msg.fixed::<Fixed13>("flow_removed")?;
        Ok(Self {
            cookie: r.cookie.get(),
            priority: r.priority.get(),
            reason: r.reason,
            table_id: r.table_id,
            duration_s: r.duration_sec.get(),
            duration_nsec: r.duration_nsec.get(),
            idle_timeout_s: r.idle_timeout.get(),
            hard_timeout_s: r.hard_timeout.get(),
            packet_count: r.packet_count.get(),
            byte_count: r.byte_count.get(),
            matching: matching::parse_oxm(msg, 48)?.0,
        })
    }

    /// Writes the message, as a switch would.
    ///
    /// # Errors
    /// Names what the version cannot say.
    pub fn emit(&self, out: &mut Out<'_>) -> Result<(), Inexpressible> {
        if out.version() >= Version::V1_5 {
            let version = out.version();
            return Err(Inexpressible { what: "flow_removed", version, needs: None });
        }
        out.message_with_xid(Kind::FLOW_REMOVED, 0, |out| {
            let old = out.version() == Version::V1_0;
            if old {
                matching::emit(&self.matching.fields, out)?;
            }
            out.put(&U64::new(self.cookie));
            out.put(&U16::new(self.priority));
            out.put(&[self.reason, if old { 0 } else { self.table_id }]);
            out.put(&U32::new(self.duration_s));
            out.put(&U32::new(self.duration_nsec));
            out.put(&U16::new(self.idle_timeout_s));
            out.put(&U16::new(if old { 0 } else { self.hard_timeout_s }));
            out.put(&U64::new(self.packet_count));
            out.put(&U64::new(self.byte_count));
            if old { Ok(()) } else { matching::emit(&self.matching.fields, out) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Field, PortNo};

    #[test]
    fn both_forms_come_back_as_written() {
        for version in [Version::V1_0, Version::V1_3] {
            let r = FlowRemoved {
                cookie: 9,
                priority: 10,
                duration_s: 3,
                idle_timeout_s: 60,
                packet_count: 5,
                byte_count: 500,
                matching: Match { fields: vec![Field::in_port(PortNo(2))] },
                ..FlowRemoved::default()
            };
            let (mut tx, mut xid) = (vec![], 1);
            r.emit(&mut Out::new(&mut tx, version, &mut xid)).unwrap();
            assert_eq!(FlowRemoved::parse(Frame::new(&tx).unwrap()), Ok(r));
        }
    }
}
