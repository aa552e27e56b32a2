//! Which network is played.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use sluice_emu::link::{ImpairmentChange, LinkImpairments};
use sluice_emu::net::NetworkOptions;
use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_emu::topology::{FILE_LEN_MAX, Topology};
use sluice_openflow::{Version, Versions};

/// Which network is played, and what its switches are.
#[derive(Debug, clap::Args)]
pub(super) struct Shape {
    /// A shape and its numbers: tree,2,3 (depth, fanout), ring,4 or linear,4 or mesh,4 (switches), leafspine,2,4, torus,3,3,
    /// single,4 (hosts); or a file: .mn as Mininet's editor saves it, .graphml or .xml.
    #[arg(long, default_value = "tree,2,3", value_name = "SHAPE")]
    topo: String,
    /// Delay of every link in each direction, those of hosts included, such as 5ms.
    #[arg(long, value_name = "TIME")]
    link_delay: Option<String>,
    /// Rate of every link in each direction, such as 100Mbit.
    #[arg(long, value_name = "RATE")]
    link_rate: Option<String>,
    /// Share of frames that every link loses in each direction, such as 0.1%.
    #[arg(long, value_name = "SHARE")]
    link_loss: Option<String>,
    /// Versions of OpenFlow that switches offer, such as 1.0,1.3 [default: all].
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    protocols: Vec<String>,
    /// Packets that each switch keeps until the controller answers; 0: it sends all of them up whole.
    #[arg(long, default_value_t = 256, value_name = "N")]
    buffers: usize,
    /// A switch that waits for the answer to the first packet of a flow keeps those that follow, and asks for none of them.
    #[arg(long)]
    waiting_flows: bool,
}

/// A network before it runs.
pub(super) type Network = (Topology, NetworkOptions);

impl Shape {
    /// The network, or why there cannot be one.
    pub(super) fn network(&self) -> Result<Network, String> {
        Ok((self.topology()?, self.options()?))
    }

    fn topology(&self) -> Result<Topology, String> {
        let wrong = |e: &dyn std::fmt::Display| format!("--topo {}: {e}", self.topo);
        let is_file = Path::new(&self.topo).extension().is_some();
        let mut topology = if is_file {
            let mut text = String::new();
            let file = File::open(&self.topo).map_err(|e| wrong(&e))?;
            // One byte more than may be is enough to be refused.
            let mut start = file.take(FILE_LEN_MAX as u64 + 1);
            start.read_to_string(&mut text).map_err(|e| wrong(&e))?;
            Topology::from_file(&self.topo, &text).map_err(|e| wrong(&e))?
        } else {
            Topology::from_text(&self.topo).map_err(|e| wrong(&e))?
        };
        let asked = [
            ("delay", self.link_delay.as_deref()),
            ("rate", self.link_rate.as_deref()),
            ("loss", self.link_loss.as_deref()),
        ];
        let asked: Vec<_> =
            asked.into_iter().filter_map(|(name, text)| Some((name, text?))).collect();
        if !asked.is_empty() {
            let mut shape = LinkImpairments::default();
            for (name, text) in asked {
                let change = ImpairmentChange::parse(name, text).transpose();
                let change = change.map_err(|e| format!("--link-{name}: {e}"))?;
                shape = change.map_or(shape, |change| shape.with(change));
            }
            topology.set_impairments(shape);
        }
        Ok(topology)
    }

    /// What is not in the topology.
    fn options(&self) -> Result<NetworkOptions, String> {
        let versions = self.protocols.iter().map(|text| {
            let version = Version::from_text(text).filter(|&v| Versions::SPOKEN.contains(v));
            version.ok_or_else(|| format!("--protocols: {text:?} is no version of OpenFlow"))
        });
        let versions = versions.collect::<Result<Vec<_>, _>>()?;
        let versions = if versions.is_empty() { Versions::SPOKEN } else { Versions::of(&versions) };
        let switch = EmulatedSwitchConfig {
            versions,
            n_buffers: self.buffers,
            flow_buffering: self.waiting_flows,
            ..EmulatedSwitchConfig::default()
        };
        Ok(NetworkOptions { switch, ..NetworkOptions::default() })
    }
}
