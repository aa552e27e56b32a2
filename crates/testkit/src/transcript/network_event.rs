//! Changes of the network in a transcript, published as the applications `topology` and `hosts` would.

use std::time::Instant;

use sluice_openflow::{DatapathId, MacAddr, PortNo, VlanId};
use sluice_sdk::Network;
use sluice_sdk::view::{Fact, Host, HostId, Link, PortInfo, PortRole, SwitchInfo, SwitchPort};

use super::parse::parse_host;

/// A port of a switch that is given by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedPort {
    switch: String,
    port: PortNo,
}

#[derive(Debug)]
pub(super) enum NetworkEvent {
    /// A link, in both directions.
    LinkUp(NamedPort, NamedPort),
    LinkDown(NamedPort, NamedPort),
    /// State or role of ports.
    Ports(Vec<NamedPort>, PortSetting),
    HostAt(HostId, NamedPort),
    HostRemoved(HostId),
    /// The switch of this name is not connected any more.
    SwitchRemoved(String),
}

/// State or role of a port.
#[derive(Debug, Clone, Copy)]
pub(super) enum PortSetting {
    Edge,
    Pending,
    SharedSegment,
    Bundle,
    Down,
}

impl NamedPort {
    fn parse(text: &str) -> Option<Self> {
        let (switch, port) = text.split_once(':')?;
        Some(Self { switch: switch.to_owned(), port: PortNo(port.parse().ok()?) })
    }
}

impl NetworkEvent {
    pub(super) fn parse(words: &[&str]) -> Option<Self> {
        Some(match *words {
            ["link", a, b, "up"] => Self::LinkUp(NamedPort::parse(a)?, NamedPort::parse(b)?),
            ["link", a, b, "down"] => Self::LinkDown(NamedPort::parse(a)?, NamedPort::parse(b)?),
            ["ports", ref ports @ .., state] => {
                let ports: Option<Vec<_>> = ports.iter().map(|at| NamedPort::parse(at)).collect();
                let state = match state {
                    "edge" => PortSetting::Edge,
                    "pending" => PortSetting::Pending,
                    "shared_segment" => PortSetting::SharedSegment,
                    "bundle" => PortSetting::Bundle,
                    "down" => PortSetting::Down,
                    _ => return None,
                };
                Self::Ports(ports.filter(|ports| !ports.is_empty())?, state)
            }
            ["host", host, "at", port] => {
                Self::HostAt(parse_host_id(host)?, NamedPort::parse(port)?)
            }
            ["host", host, "removed"] => Self::HostRemoved(parse_host_id(host)?),
            ["switch", switch, "removed"] => Self::SwitchRemoved(switch.to_owned()),
            _ => return None,
        })
    }

    /// The names of the switches that must be connected for this event.
    pub(super) fn connected_switches(&self) -> Vec<&str> {
        match self {
            Self::LinkUp(a, b) | Self::LinkDown(a, b) => vec![&a.switch, &b.switch],
            Self::Ports(ports, _) => ports.iter().map(|port| &*port.switch).collect(),
            Self::HostAt(_, port) => vec![&port.switch],
            Self::HostRemoved(_) | Self::SwitchRemoved(_) => vec![],
        }
    }

    /// Publishes the facts of this event; `id` gives the datapath id of a switch's name.
    pub(super) fn publish(
        &self,
        id: impl Fn(&str) -> DatapathId,
        now: Instant,
        network: &mut Network,
    ) {
        let resolve = |port: &NamedPort| SwitchPort::new(id(&port.switch), port.port);
        let links: Vec<_> = network.view().links().copied().collect();
        let mut publish = |fact| _ = network.publish(now, fact);
        match self {
            Self::LinkUp(a, b) => {
                for (from, to) in [(resolve(a), resolve(b)), (resolve(b), resolve(a))] {
                    publish(Fact::Port(from, Some(port_info(true, PortRole::Link))));
                    let link = Link { from, to };
                    publish(Fact::Link(to, Some(link)));
                }
            }
            Self::LinkDown(a, b) => {
                for to in [a, b] {
                    publish(Fact::Link(resolve(to), None));
                }
            }
            Self::Ports(ports, state) => {
                let Some(designated) = ports.first().map(resolve) else { return };
                let info = match state {
                    PortSetting::Edge => port_info(true, PortRole::Edge),
                    PortSetting::Pending => port_info(true, PortRole::Pending),
                    PortSetting::SharedSegment => {
                        port_info(true, PortRole::SharedSegment(designated))
                    }
                    PortSetting::Bundle => port_info(true, PortRole::Bundle(designated)),
                    PortSetting::Down => port_info(false, PortRole::Pending),
                };
                for port in ports {
                    publish(Fact::Port(resolve(port), Some(info.clone())));
                }
            }
            Self::HostAt(host, port) => {
                let location = Host { at: resolve(port), addrs: vec![] };
                publish(Fact::Host(*host, Some(location)));
            }
            Self::HostRemoved(host) => publish(Fact::Host(*host, None)),
            Self::SwitchRemoved(switch) => {
                let removed = id(switch);
                publish(Fact::Switch(removed, None));
                let ends_there =
                    |link: &&Link| [link.from, link.to].iter().any(|at| at.switch == removed);
                for link in links.iter().filter(ends_there) {
                    publish(Fact::Link(link.to, None));
                }
            }
        }
    }
}

/// A switch that has just connected, with four ports whose roles are not known yet.
pub(super) fn switch_connected(id: DatapathId) -> Fact {
    let ports = (1..=4).map(|no| (PortNo(no), port_info(true, PortRole::Pending))).collect();
    Fact::Switch(id, Some(SwitchInfo { ports }))
}

fn port_info(is_up: bool, role: PortRole) -> PortInfo {
    PortInfo { name: "port".into(), hw_addr: MacAddr([2, 0, 0, 0, 1, 0]), is_up, role }
}

/// Parses a host, followed by a slash and its VLAN if it has one.
fn parse_host_id(text: &str) -> Option<HostId> {
    let (mac, vlan) = text.split_once('/').unwrap_or((text, "0"));
    Some(HostId { mac: parse_host(mac)?, vlan: VlanId(vlan.parse().ok()?) })
}
