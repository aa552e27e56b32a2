//! `FEATURES_REPLY`: who a switch is and what it can do. §7.3.1.

use core::fmt;

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Frame, Inexpressible, Kind, Out, Port, Result, Version, port};

/// Identity of a datapath: 48 bits of address, 16 bits of the maker's choice. §7.3.1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct DatapathId(pub u64);

impl fmt::Display for DatapathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for DatapathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `struct ofp_switch_features`; in 1.0 to 1.2 descriptions of the ports follow.
///
/// `auxiliary_id` is padding before 1.3, `more` is a bit set of actions in 1.0 and reserved later.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    datapath_id: U64,
    n_buffers: U32,
    n_tables: u8,
    auxiliary_id: u8,
    pad: [u8; 2],
    capabilities: U32,
    more: U32,
}

const _: () = assert!(size_of::<Fixed>() == 24);

/// Who a switch is and what it can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// Its identity.
    pub datapath_id: DatapathId,
    /// Frames it can keep.
    pub n_buffers: u32,
    /// Its tables.
    pub n_tables: u8,
    /// Which of its connections this is; 0 the main one.
    pub auxiliary_id: u8,
    /// `OFPC_*` bits.
    pub capabilities: u32,
    /// Actions it can do, a bit per type; 1.0 only.
    pub actions: u32,
    /// Its ports; since 1.3 `PORT_DESC` tells them instead.
    pub ports: Vec<Port>,
}

impl Features {
    /// Whether `version` tells the ports here.
    pub const fn has_ports(version: Version) -> bool {
        version.0 < Version::V1_3.0
    }

    /// Reads `msg`.
    ///
    /// # Errors
    /// `Short` if the fixed part is cut off, `Length` if the ports are not whole.
    ///
    /// # Cost
    /// Allocates the list of ports.
    pub fn parse(msg: Frame<'_>) -> Result<Self> {
        let (fixed, rest) = msg.fixed::<Fixed>("features_reply")?;
        let version = msg.version();
        let has_ports = Self::has_ports(version);
        let ports = if has_ports { port::ports(version, rest, 32)? } else { Vec::new() };
        Ok(Self {
            datapath_id: DatapathId(fixed.datapath_id.get()),
            n_buffers: fixed.n_buffers.get(),
            n_tables: fixed.n_tables,
            auxiliary_id: if has_ports { 0 } else { fixed.auxiliary_id },
            capabilities: fixed.capabilities.get(),
            actions: if version == Version::V1_0 { fixed.more.get() } else { 0 },
            ports,
        })
    }
}

impl Out<'_> {
    /// Writes a `FEATURES_REPLY` to request `xid`; the ports only where the version tells them here.
    ///
    /// # Errors
    /// Names what the version cannot say.
    pub fn features_reply(&mut self, xid: u32, f: &Features) -> Result<(), Inexpressible> {
        self.message_with_xid(Kind::FEATURES_REPLY, xid, |out| {
            let version = out.version();
            out.put(&Fixed {
                datapath_id: f.datapath_id.0.into(),
                n_buffers: f.n_buffers.into(),
                n_tables: f.n_tables,
                auxiliary_id: if Features::has_ports(version) { 0 } else { f.auxiliary_id },
                pad: [0; 2],
                capabilities: f.capabilities.into(),
                more: if version == Version::V1_0 { f.actions } else { 0 }.into(),
            });
            if Features::has_ports(version) {
                f.ports.iter().try_for_each(|port| port.emit(out))?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MacAddr, PortNo};

    #[test]
    fn ports_are_told_in_1_0_and_left_out_in_1_3() {
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"eth1");
        let port = Port {
            port_no: PortNo(1),
            hw_addr: MacAddr([2, 0, 0, 0, 0, 1]),
            name,
            config: 0,
            state: Port::LINK_DOWN,
            features: [1, 2, 3, 4],
            speed_kbps: [0, 0],
        };
        assert_eq!((port.name(), port.is_up()), ("eth1".to_owned(), false));
        let f = Features {
            datapath_id: DatapathId(0xabcd),
            n_buffers: 256,
            n_tables: 1,
            auxiliary_id: 0,
            capabilities: 0xc7,
            actions: 0,
            ports: vec![port, port],
        };
        for (version, ports) in [(Version::V1_0, 2), (Version::V1_3, 0)] {
            let (mut tx, mut xid) = (vec![], 1);
            Out::new(&mut tx, version, &mut xid).features_reply(3, &f).unwrap();
            let read = Features::parse(Frame::new(&tx).unwrap()).unwrap();
            assert_eq!(read.ports, f.ports[..ports]);
            assert_eq!(Features { ports: vec![], ..read }, Features { ports: vec![], ..f.clone() });
        }
        assert_eq!(f.datapath_id.to_string(), "000000000000abcd");
    }
}
