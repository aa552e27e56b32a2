//! Which switches, hosts and links there are: by shape, as Mininet names them, or from a file.

mod builder;
mod error;
mod graphml;
mod miniedit;
mod shape_text;
mod shapes;

use sluice_openflow::{DatapathId, MacAddr, PortNo};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::link::LinkImpairments;

pub use builder::{NodeRef, TopologyBuilder};
pub use error::{ErrorLocation, TopologyError, TopologyErrorKind};

/// Switches of one network.
pub const SWITCHES_MAX: usize = 20_000;

/// Hosts of one network: addresses in 10.0.0.0/8 that are neither the network's nor the broadcast's would be more.
pub const HOSTS_MAX: usize = 1 << 20;

/// Links between switches of one network.
pub const LINKS_MAX: usize = 1 << 20;

/// Ports of one switch: all numbers that `OpenFlow` 1.0 has for them.
pub const PORTS_MAX: u32 = 0xff00 - 1;

/// Bytes of a file that describes a network. The largest of the Topology Zoo has 370 000.
pub const FILE_LEN_MAX: usize = 16 << 20;

/// A network before it runs.
///
/// Ports are numbered from 1 in the order in which links were added, as in Mininet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Topology {
    /// Switches; others name them by their index here.
    pub switches: Vec<SwitchNode>,
    /// Hosts, in the order in which they were added.
    pub hosts: Vec<HostNode>,
    /// Links between switches.
    pub links: Vec<TopologyLink>,
}

/// A switch of a [`Topology`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchNode {
    /// Its identity, unlike all others'.
    pub datapath_id: DatapathId,
    /// Its name, unlike those of all other nodes.
    pub name: String,
    /// How many ports it has, numbered from 1.
    pub n_ports: u32,
}

/// A host of a [`Topology`].
#[derive(Debug, Clone, PartialEq)]
pub struct HostNode {
    /// Its name, unlike those of all other nodes.
    pub name: String,
    /// Its address on the link.
    pub mac: MacAddr,
    /// Its address in 10.0.0.0/8, or what its file says.
    pub ipv4: Ipv4Addr,
    /// Its link-local address, made from the MAC. RFC 4291 appendix A.
    pub ipv6: Ipv6Addr,
    /// Where it is attached.
    pub port: PortRef,
    /// How its link carries frames, each way.
    pub impairments: LinkImpairments,
}

/// A link between two switches, or two ports of one.
#[derive(Debug, Clone, PartialEq)]
pub struct TopologyLink {
    /// Where it begins.
    pub a: PortRef,
    /// Where it ends.
    pub b: PortRef,
    /// How it carries frames, each way.
    pub impairments: LinkImpairments,
}

/// A port of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortRef {
    /// Index of the switch in [`Topology::switches`].
    pub switch: usize,
    /// The port, from 1.
    pub port: PortNo,
}

impl Topology {
    /// The network of a text such as `tree,2,3`; `docs/emu.md` lists them.
    ///
    /// # Errors
    /// An unknown shape, an argument that is missing, no number, too small, too large, or one too many.
    pub fn from_text(text: &str) -> Result<Self, TopologyError> {
        shape_text::parse(text)
    }

    /// The network that a file of `MiniEdit` (`.mn`) or a `GraphML` file (`.graphml`, `.xml`) describes; `name` is
    /// that of the file, `contents` what is in it.
    ///
    /// # Errors
    /// Another kind of file, or one that is too long or malformed, with the line at fault if that is known; nodes and
    /// links that cannot be.
    pub fn from_file(name: &str, contents: &str) -> Result<Self, TopologyError> {
        if contents.len() > FILE_LEN_MAX {
            return Err(TopologyErrorKind::TooMany { what: "bytes", max: FILE_LEN_MAX }.whole());
        }
        match name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("mn") => miniedit::parse(contents),
            Some("graphml" | "xml") => graphml::parse(contents),
            _ => Err(TopologyErrorKind::UnknownFileType(name.into()).whole()),
        }
    }

    /// Gives every link, those of hosts included, the same shape.
    pub fn set_impairments(&mut self, impairments: LinkImpairments) {
        let hosts = self.hosts.iter_mut().map(|host| &mut host.impairments);
        hosts
            .chain(self.links.iter_mut().map(|link| &mut link.impairments))
            .for_each(|s| *s = impairments);
    }
}

/// The link-local address that a station with `mac` gives itself. RFC 4291 appendix A.
pub fn link_local_address(mac: MacAddr) -> Ipv6Addr {
    let bits = mac.to_u64();
    let (vendor, own) = (u128::from(bits >> 24), u128::from(bits & 0xff_ffff));
    Ipv6Addr::from(0xfe80 << 112 | (vendor ^ 0x2_0000) << 40 | 0xff_fe00_0000 | own)
}
