//! Measures how fast a controller installs paths through a network.
//!
//! The switches are model switches with flow tables and groups, connected by links. Hosts announce themselves, and then send
//! first packets to the hosts farthest away. A path counts as installed when the packet has arrived, sent by the
//! controller, and the flow tables alone send further packets the same way: whichever flow entries, tables and groups the
//! controller uses, and whether it installs the path at once or hop by hop. Its flow entries then expire, so that
//! the two hosts can request it again.

mod connections;
mod frames;
mod generator;
mod measurement;
mod network;
mod outcome;
mod pairs;
mod report;
mod requests;
mod wiring;

use std::sync::Arc;

use sluice_emu::topology::{Topology, TopologyError};

use crate::plan::Load;
use crate::requests::Buffering;
use crate::{Error, Plan};

pub(crate) use generator::PathsGenerator;
pub(crate) use outcome::{NetworkLoopCounts, NetworkTotals};
use pairs::HostPairSequence;
pub use report::PathFigures;
pub(crate) use report::{nothing_installed, warnings};
use wiring::Wiring;

/// Maximum number of switches of the network: their distances from each other are kept in a table.
pub const NETWORK_SWITCHES_MAX: usize = 1000;

/// The directions of a path that must be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    /// None: a request is answered as soon as its packet has arrived. The switches keep no flow entries but those of priority 0.
    None,
    /// That of the first packet.
    One,
    /// Also that of the answers to it.
    Both,
}

/// The network through which paths are requested.
#[derive(Debug, Clone)]
pub struct NetworkPlan {
    /// The shape as given, such as `leafspine,4,16,64`.
    pub shape: String,
    /// Switches, links and hosts.
    pub topology: Arc<Topology>,
    /// The directions that must be installed.
    pub directions: Directions,
    /// Switches on each requested path: the longest distance between two hosts.
    pub path_len: usize,
    /// Different pairs of hosts at that distance.
    pub pairs: usize,
    /// Maximum number of outstanding requests, so that the hosts of each are free for it alone.
    pub outstanding_max: u32,
}

impl NetworkPlan {
    /// A network of a shape of `sluice emu`.
    ///
    /// # Errors
    /// An unknown shape or invalid numbers; a network with too many switches, or without two hosts between which there is a path.
    pub fn from_shape(shape: &str, directions: Directions) -> Result<Self, Error> {
        let invalid = |why: &dyn std::fmt::Display| {
            Error::Plan(format!("invalid value {shape} for --topo: {why}"))
        };
        let topology = Topology::from_text(shape).map_err(|e: TopologyError| invalid(&e))?;
        let switches = topology.switches.len();
        if switches > NETWORK_SWITCHES_MAX {
            let expected = format!("{switches} switches (expected at most {NETWORK_SWITCHES_MAX})");
            return Err(invalid(&expected));
        }
        let wiring = Wiring::new(&topology);
        let sequence = HostPairSequence::new(&wiring);
        if sequence.pairs() == 0 {
            return Err(invalid(&"expected at least two hosts"));
        }
        Ok(Self {
            shape: shape.to_owned(),
            topology: Arc::new(topology),
            directions,
            path_len: wiring.path_len(),
            pairs: sequence.pairs(),
            outstanding_max: u32::try_from(sequence.outstanding_max()).unwrap_or(u32::MAX),
        })
    }

    /// The outstanding requests of `load` that the network has hosts for.
    pub(crate) fn window(&self, load: Load) -> u32 {
        match load {
            Load::Window(n) | Load::WindowTotal(n) => n.min(self.outstanding_max),
            Load::Unlimited | Load::Rate(_) => self.outstanding_max,
        }
    }
}

impl Plan {
    /// A plan for paths through `network`, with `window` outstanding requests, by one thread.
    pub fn for_network(network: NetworkPlan, window: u32) -> Self {
        Self {
            switches: u32::try_from(network.topology.switches.len()).unwrap_or(u32::MAX),
            threads: 1,
            load: Load::WindowTotal(window),
            buffering: Buffering::Unbuffered,
            network: Some(network),
            ..Self::default()
        }
    }
}
