//! The options that describe an emulated network.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use sluice_emu::link::{ImpairmentChange, LinkImpairments};
use sluice_emu::net::NetworkOptions;
use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_emu::topology::{FILE_LEN_MAX, Topology};
use sluice_openflow::{Version, Versions};

/// The topology, its links and its switches.
#[derive(Debug, clap::Args)]
pub(super) struct NetworkArgs {
    /// Topology: a shape with its numbers, or a file
    ///
    /// Shapes: minimal; single,HOSTS; linear,SWITCHES[,HOSTS each]; tree,DEPTH,FANOUT; ring,SWITCHES[,HOSTS each];
    /// mesh,SWITCHES[,HOSTS each]; leafspine,SPINES,LEAVES[,HOSTS each]; fattree,PORTS[,HOSTS each]; torus,ROWS,COLUMNS[,HOSTS each].
    /// Files: .mn (written by the editor of Mininet), .graphml or .xml.
    #[arg(long, default_value = "tree,2,3", value_name = "SHAPE|FILE")]
    topo: String,
    /// One-way delay of every link, such as 5ms
    #[arg(long, value_name = "TIME")]
    link_delay: Option<String>,
    /// Rate of every link in each direction, such as 100Mbit
    #[arg(long, value_name = "RATE")]
    link_rate: Option<String>,
    /// Percentage of frames that every link loses in each direction, such as 0.1%
    #[arg(long, value_name = "PERCENT")]
    link_loss: Option<String>,
    /// OpenFlow versions that the switches offer, such as 1.0,1.3 [default: all]
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    protocols: Vec<String>,
    /// Packets that each switch can buffer; with 0, packet-ins contain the whole frame
    #[arg(long, default_value_t = 256, value_name = "N")]
    buffers: usize,
    /// Let switches buffer further packets of a flow until the controller has answered its first packet-in
    #[arg(long, alias = "waiting-flows")]
    flow_buffering: bool,
}

/// A topology, and the other options of a network.
pub(super) type NetworkConfig = (Topology, NetworkOptions);

impl NetworkArgs {
    /// Checks the options and builds the network.
    pub(super) fn network(&self) -> Result<NetworkConfig, String> {
        Ok((self.topology()?, self.options()?))
    }

    fn topology(&self) -> Result<Topology, String> {
        let error = |e: &dyn std::fmt::Display| format!("--topo {}: {e}", self.topo);
        let is_file = Path::new(&self.topo).extension().is_some();
        let mut topology = if is_file {
            let mut text = String::new();
            let file = File::open(&self.topo).map_err(|e| error(&e))?;
            // One byte more than the limit is enough to reject the file.
            let mut limited = file.take(FILE_LEN_MAX as u64 + 1);
            limited.read_to_string(&mut text).map_err(|e| error(&e))?;
            Topology::from_file(&self.topo, &text).map_err(|e| error(&e))?
        } else {
            Topology::from_text(&self.topo).map_err(|e| error(&e))?
        };
        let options = [
            ("delay", self.link_delay.as_deref()),
            ("rate", self.link_rate.as_deref()),
            ("loss", self.link_loss.as_deref()),
        ];
        let given: Vec<_> =
            options.into_iter().filter_map(|(name, text)| Some((name, text?))).collect();
        if !given.is_empty() {
            let mut impairments = LinkImpairments::default();
            for (name, text) in given {
                let change = ImpairmentChange::parse(name, text).transpose();
                let change = change.map_err(|e| format!("--link-{name}: {e}"))?;
                impairments = change.map_or(impairments, |change| impairments.with(change));
            }
            topology.set_impairments(impairments);
        }
        Ok(topology)
    }

    fn options(&self) -> Result<NetworkOptions, String> {
        let versions = self.protocols.iter().map(|text| {
            let version = Version::from_text(text).filter(|&v| Versions::SUPPORTED.contains(v));
            version.ok_or_else(|| {
                format!("--protocols: {text:?} is not a version of OpenFlow (expected 1.0 to 1.5)")
            })
        });
        let versions = versions.collect::<Result<Vec<_>, _>>()?;
        let versions =
            if versions.is_empty() { Versions::SUPPORTED } else { Versions::of(&versions) };
        let switch = EmulatedSwitchConfig {
            versions,
            n_buffers: self.buffers,
            flow_buffering: self.flow_buffering,
            ..EmulatedSwitchConfig::default()
        };
        Ok(NetworkOptions { switch, ..NetworkOptions::default() })
    }
}
