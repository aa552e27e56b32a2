//! What a transcript says of the network, as topology and hosts would tell it.

use std::time::{Duration, Instant};

use sluice_openflow::{DatapathId, MacAddr, PortNo, VlanId};
use sluice_sdk::Network;
use sluice_sdk::view::{Fact, Host, HostId, Link, PortInfo, PortRole, SwitchInfo, SwitchPort};

use super::parse::station;

/// A port of a switch, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct At {
    pub(super) switch: String,
    port: PortNo,
}

/// A line about the network.
#[derive(Debug)]
pub(super) enum Known {
    /// There is a link, in both directions.
    Link(At, At),
    /// There is none any more.
    Cut(At, At),
    /// These ports lead to hosts.
    Edge(Vec<At>),
    /// These lead to one network of others, for which the first one speaks.
    Shared(Vec<At>),
    /// It is not known where these lead to.
    Settling(Vec<At>),
    /// These are down.
    Down(Vec<At>),
    /// A host is there.
    Host(HostId, At),
    /// It is nowhere any more.
    Gone(HostId),
    /// A switch is not connected any more.
    Lost(String),
}

impl At {
    fn parse(text: &str) -> Option<Self> {
        let (switch, port) = text.split_once(':')?;
        Some(Self { switch: switch.to_owned(), port: PortNo(port.parse().ok()?) })
    }
}

impl Known {
    /// Reads what stands behind `know`.
    pub(super) fn parse(words: &[&str]) -> Option<Self> {
        let all = |words: &[&str]| words.iter().map(|at| At::parse(at)).collect::<Option<Vec<_>>>();
        Some(match *words {
            ["link", a, b] => Self::Link(At::parse(a)?, At::parse(b)?),
            ["cut", a, b] => Self::Cut(At::parse(a)?, At::parse(b)?),
            ["edge", ref ports @ ..] => Self::Edge(all(ports)?),
            ["shared", ref ports @ ..] => Self::Shared(all(ports)?),
            ["settling", ref ports @ ..] => Self::Settling(all(ports)?),
            ["down", ref ports @ ..] => Self::Down(all(ports)?),
            ["host", host, at] => Self::Host(host_id(host)?, At::parse(at)?),
            ["gone", host] => Self::Gone(host_id(host)?),
            ["lost", switch] => Self::Lost(switch.to_owned()),
            _ => return None,
        })
    }

    /// The switches that it names.
    pub(super) fn switches(&self) -> Vec<&str> {
        match self {
            Self::Link(a, b) | Self::Cut(a, b) => vec![&a.switch, &b.switch],
            Self::Edge(all) | Self::Shared(all) | Self::Settling(all) | Self::Down(all) => {
                all.iter().map(|at| &*at.switch).collect()
            }
            Self::Host(_, at) => vec![&at.switch],
            Self::Gone(_) | Self::Lost(_) => vec![],
        }
    }

    /// Tells it.
    pub(super) fn tell(
        &self,
        id: impl Fn(&str) -> DatapathId,
        now: Instant,
        network: &mut Network,
    ) {
        let place = |at: &At| SwitchPort::new(id(&at.switch), at.port);
        let links: Vec<_> = network.view().links().copied().collect();
        let mut tell = |fact| _ = network.publish(now, fact);
        let set = |at: &At, is_up, role| Fact::Port(place(at), Some(port(is_up, role)));
        match self {
            Self::Link(a, b) => {
                for (from, to) in [(a, b), (b, a)] {
                    tell(set(from, true, PortRole::Link));
                    let (from, to) = (place(from), place(to));
                    let link = Link { from, to, delay: Duration::ZERO };
                    tell(Fact::Link(to, Some(link)));
                }
            }
            Self::Cut(a, b) => {
                for at in [a, b] {
                    tell(Fact::Link(place(at), None));
                }
            }
            Self::Edge(all) => all.iter().map(|at| set(at, true, PortRole::Edge)).for_each(tell),
            Self::Settling(all) => {
                all.iter().map(|at| set(at, true, PortRole::Pending)).for_each(tell);
            }
            Self::Down(all) => {
                all.iter().map(|at| set(at, false, PortRole::Pending)).for_each(tell);
            }
            Self::Shared(all) => {
                let Some(speaks) = all.first().map(place) else { return };
                all.iter().map(|at| set(at, true, PortRole::SharedSegment(speaks))).for_each(tell);
            }
            Self::Host(host, at) => {
                let there = Host { at: place(at), addrs: vec![] };
                tell(Fact::Host(*host, Some(there)));
            }
            Self::Gone(host) => tell(Fact::Host(*host, None)),
            Self::Lost(switch) => {
                let lost = id(switch);
                tell(Fact::Switch(lost, None));
                // Nobody hears of its links any more.
                let is_of_it =
                    |link: &&Link| [link.from, link.to].iter().any(|at| at.switch == lost);
                links.iter().filter(is_of_it).for_each(|link| tell(Fact::Link(link.to, None)));
            }
        }
    }
}

/// A switch that has just connected, with four ports that nothing is known of.
pub(super) fn switch(id: DatapathId) -> Fact {
    let ports = (1..=4).map(|no| (PortNo(no), port(true, PortRole::Pending))).collect();
    Fact::Switch(id, Some(SwitchInfo { ports }))
}

fn port(is_up: bool, role: PortRole) -> PortInfo {
    PortInfo { name: "port".into(), hw_addr: MacAddr([2, 0, 0, 0, 1, 0]), is_up, role }
}

/// A station, and its VLAN behind a slash if it has one.
fn host_id(text: &str) -> Option<HostId> {
    let (mac, vlan) = text.split_once('/').unwrap_or((text, "0"));
    Some(HostId { mac: station(mac)?, vlan: VlanId(vlan.parse().ok()?) })
}
