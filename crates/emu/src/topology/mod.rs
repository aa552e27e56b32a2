//! Topologies: switches, hosts and links, from a named shape or a file.

mod builder;
mod error;
mod graphml;
mod miniedit;
mod shape_text;
mod shapes;

use sluice_openflow::{DatapathId, MacAddr, PortNo, VlanId};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::link::LinkImpairments;

pub use builder::{NodeRef, TopologyBuilder};
pub use error::{ErrorLocation, TopologyError, TopologyErrorKind};

/// Most switches of a topology.
pub const SWITCHES_MAX: usize = 20_000;

/// Most hosts of a topology; 10.0.0.0/8 has addresses for more.
pub const HOSTS_MAX: usize = 1 << 20;

/// Most links between switches of a topology.
pub const LINKS_MAX: usize = 1 << 20;

/// Most ports of a switch: the port numbers that OpenFlow 1.0 has.
pub const PORTS_MAX: u32 = 0xff00 - 1;

/// Largest topology file in bytes. The largest of the Topology Zoo has 370 000.
pub const FILE_LEN_MAX: usize = 16 << 20;

/// Switches, hosts and links.
///
/// Ports are numbered from 1 in the order in which links were added, as in Mininet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Topology {
    /// Switches; other fields refer to them by index.
    pub switches: Vec<SwitchNode>,
    /// Hosts, in the order in which they were added.
    pub hosts: Vec<HostNode>,
    /// Links between switches.
    pub links: Vec<TopologyLink>,
}

/// A switch of a [`Topology`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchNode {
    /// Its unique datapath id.
    pub datapath_id: DatapathId,
    /// Its name, unique among all nodes.
    pub name: String,
    /// Number of ports, which are numbered from 1.
    pub n_ports: u32,
}

/// A host of a [`Topology`].
#[derive(Debug, Clone, PartialEq)]
pub struct HostNode {
    /// Its name, unique among all nodes.
    pub name: String,
    /// Its MAC address.
    pub mac: MacAddr,
    /// Its IPv4 address, in 10.0.0.0/8 unless the file has another.
    pub ipv4: Ipv4Addr,
    /// Its IPv6 link-local address, derived from the MAC address (RFC 4291 appendix A).
    pub ipv6: Ipv6Addr,
    /// The switch port to which it is attached.
    pub port: PortRef,
    /// The VLAN with which its frames are tagged; 0 for priority tags, `None` for a host without tags.
    pub vlan: Option<VlanId>,
    /// Impairments of its link, in each direction.
    pub impairments: LinkImpairments,
}

/// A link between two switches, or two ports of one.
#[derive(Debug, Clone, PartialEq)]
pub struct TopologyLink {
    /// One end.
    pub a: PortRef,
    /// The other end.
    pub b: PortRef,
    /// Its impairments in each direction.
    pub impairments: LinkImpairments,
}

/// A port of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortRef {
    /// Index of the switch in [`Topology::switches`].
    pub switch: usize,
    /// Port number, from 1.
    pub port: PortNo,
}

impl Topology {
    /// Builds a named shape, such as `tree,2,3`; `docs/emu.md` lists them.
    ///
    /// # Errors
    /// An unknown shape; a missing, unexpected or invalid argument.
    pub fn from_text(text: &str) -> Result<Self, TopologyError> {
        shape_text::parse(text)
    }

    /// Parses a file of Mininet's editor (`.mn`) or a `GraphML` file (`.graphml`, `.xml`); `name` is the file's name.
    ///
    /// # Errors
    /// An unknown file type, a file that is too large or malformed (with the line, if known), invalid nodes or links.
    pub fn from_file(name: &str, contents: &str) -> Result<Self, TopologyError> {
        if contents.len() > FILE_LEN_MAX {
            return Err(
                TopologyErrorKind::TooMany { what: "bytes", max: FILE_LEN_MAX }.without_location()
            );
        }
        match name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("mn") => miniedit::parse(contents),
            Some("graphml" | "xml") => graphml::parse(contents),
            _ => Err(TopologyErrorKind::UnknownFileType(name.into()).without_location()),
        }
    }

    /// Whether the links between switches form a loop.
    pub fn has_loops(&self) -> bool {
        // Union-find: a link within one component closes a loop.
        let mut parents: Vec<usize> = (0..self.switches.len()).collect();
        self.links.iter().any(|link| {
            let [a, b] = [link.a, link.b].map(|port| find_root(&mut parents, port.switch));
            if let Some(parent) = parents.get_mut(a) {
                *parent = b;
            }
            a == b
        })
    }

    /// Gives every link, including those of hosts, the same impairments.
    pub fn set_impairments(&mut self, impairments: LinkImpairments) {
        let hosts = self.hosts.iter_mut().map(|host| &mut host.impairments);
        hosts
            .chain(self.links.iter_mut().map(|link| &mut link.impairments))
            .for_each(|s| *s = impairments);
    }
}

/// The root of the component of `switch`; shortens the path to it.
fn find_root(parents: &mut [usize], switch: usize) -> usize {
    let mut root = switch;
    while let Some(&parent) = parents.get(root).filter(|&&parent| parent != root) {
        root = parent;
    }
    if let Some(parent) = parents.get_mut(switch) {
        *parent = root;
    }
    root
}

/// The IPv6 link-local address derived from a MAC address. RFC 4291 appendix A.
pub fn link_local_address(mac: MacAddr) -> Ipv6Addr {
    let bits = mac.to_u64();
    let (vendor, own) = (u128::from(bits >> 24), u128::from(bits & 0xff_ffff));
    Ipv6Addr::from(0xfe80 << 112 | (vendor ^ 0x2_0000) << 40 | 0xff_fe00_0000 | own)
}
