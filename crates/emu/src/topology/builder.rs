//! Builds a topology node by node and link by link.

use std::cmp::Ordering;
use std::net::Ipv4Addr;

use sluice_base::HashSet;
use sluice_openflow::{DatapathId, MacAddr, PortNo};

use super::{
    HOSTS_MAX, HostNode, LINKS_MAX, PORTS_MAX, PortRef, SWITCHES_MAX, SwitchNode, Topology,
    TopologyErrorKind, TopologyLink, link_local_address,
};
use crate::link::LinkImpairments;

/// First IPv4 address given to hosts without one, in 10.0.0.0/8.
const FIRST_IPV4: u32 = 0x0a00_0001;

/// A node added to a [`TopologyBuilder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeRef {
    /// A switch, by its index.
    Switch(usize),
    /// A host, by its index.
    Host(usize),
}

/// Builds a [`Topology`]. As in Mininet, each link takes the next free port of its switches.
#[derive(Debug, Default)]
pub struct TopologyBuilder {
    switches: Vec<SwitchNode>,
    hosts: Vec<PendingHost>,
    links: Vec<TopologyLink>,
    names: HashSet<String>,
    datapath_ids: HashSet<DatapathId>,
}

/// A host whose port and address may not be known yet.
#[derive(Debug)]
struct PendingHost {
    name: String,
    ipv4: Option<Ipv4Addr>,
    attached: Option<(PortRef, LinkImpairments)>,
}

impl TopologyBuilder {
    /// An empty topology.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a switch.
    ///
    /// # Errors
    /// The name or the datapath id is in use, or there are too many switches.
    pub fn add_switch(
        &mut self,
        name: impl Into<String>,
        datapath_id: DatapathId,
    ) -> Result<NodeRef, TopologyErrorKind> {
        let name = name.into();
        if self.switches.len() >= SWITCHES_MAX {
            return Err(TopologyErrorKind::TooMany { what: "switches", max: SWITCHES_MAX });
        }
        if !self.datapath_ids.insert(datapath_id) {
            return Err(TopologyErrorKind::Duplicate(format!("datapath id {datapath_id}")));
        }
        self.reserve_name(&name)?;
        self.switches.push(SwitchNode { datapath_id, name, n_ports: 0 });
        Ok(NodeRef::Switch(self.switches.len() - 1))
    }

    /// Adds a host. Without an address it gets one in [`build`](Self::build), in the natural order of host names.
    ///
    /// # Errors
    /// The name is in use, or there are too many hosts.
    pub fn add_host(
        &mut self,
        name: impl Into<String>,
        ipv4: Option<Ipv4Addr>,
    ) -> Result<NodeRef, TopologyErrorKind> {
        let name = name.into();
        if self.hosts.len() >= HOSTS_MAX {
            return Err(TopologyErrorKind::TooMany { what: "hosts", max: HOSTS_MAX });
        }
        self.reserve_name(&name)?;
        self.hosts.push(PendingHost { name, ipv4, attached: None });
        Ok(NodeRef::Host(self.hosts.len() - 1))
    }

    /// Adds a link, which takes the next free port of each of its switches.
    ///
    /// # Errors
    /// A second link of a host, a link between hosts, too many links or ports.
    pub fn add_link(
        &mut self,
        a: NodeRef,
        b: NodeRef,
        impairments: LinkImpairments,
    ) -> Result<(), TopologyErrorKind> {
        match (a, b) {
            (NodeRef::Switch(a), NodeRef::Switch(b)) => {
                if self.links.len() >= LINKS_MAX {
                    return Err(TopologyErrorKind::TooMany { what: "links", max: LINKS_MAX });
                }
                let (a, b) = (self.next_port(a)?, self.next_port(b)?);
                self.links.push(TopologyLink { a, b, impairments });
                Ok(())
            }
            (NodeRef::Switch(switch), NodeRef::Host(host))
            | (NodeRef::Host(host), NodeRef::Switch(switch)) => {
                let is_attached = self.hosts.get(host).is_none_or(|host| host.attached.is_some());
                if is_attached {
                    return Err(self.host_link_error(host));
                }
                let port = self.next_port(switch)?;
                if let Some(host) = self.hosts.get_mut(host) {
                    host.attached = Some((port, impairments));
                }
                Ok(())
            }
            (NodeRef::Host(host), NodeRef::Host(_)) => Err(self.host_link_error(host)),
        }
    }

    /// Whether a node has this name.
    pub fn has_name(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Completes the topology.
    ///
    /// # Errors
    /// A host without a link, or two hosts with one address.
    pub fn build(self) -> Result<Topology, TopologyErrorKind> {
        let mut order: Vec<usize> = (0..self.hosts.len()).collect();
        let name = |&n: &usize| self.hosts.get(n).map_or("", |host| host.name.as_str());
        order.sort_by(|a, b| natural_order(name(a), name(b)));
        let mut taken: HashSet<_> = self.hosts.iter().filter_map(|host| host.ipv4).collect();
        if taken.len() < self.hosts.iter().filter(|host| host.ipv4.is_some()).count() {
            return Err(TopologyErrorKind::Duplicate("IPv4 address of a host".into()));
        }
        let mut numbers = vec![0; order.len()];
        for (number, host) in (1u32..).zip(order) {
            if let Some(slot) = numbers.get_mut(host) {
                *slot = number;
            }
        }
        let mut hosts = Vec::with_capacity(self.hosts.len());
        for (host, number) in self.hosts.into_iter().zip(numbers) {
            let (attached_to, impairments) =
                host.attached.ok_or_else(|| TopologyErrorKind::HostLinkCount(host.name.clone()))?;
            let mac = MacAddr::from_u64(number.into());
            let ipv4 = host.ipv4.unwrap_or_else(|| free_address(&mut taken, number));
            let ipv6 = link_local_address(mac);
            hosts.push(HostNode {
                name: host.name,
                mac,
                ipv4,
                ipv6,
                port: attached_to,
                vlan: None,
                impairments,
            });
        }
        Ok(Topology { switches: self.switches, hosts, links: self.links })
    }

    fn reserve_name(&mut self, name: &str) -> Result<(), TopologyErrorKind> {
        self.names
            .insert(name.into())
            .then_some(())
            .ok_or_else(|| TopologyErrorKind::Duplicate(name.into()))
    }

    fn host_link_error(&self, host: usize) -> TopologyErrorKind {
        TopologyErrorKind::HostLinkCount(
            self.hosts.get(host).map(|host| host.name.clone()).unwrap_or_default(),
        )
    }

    fn next_port(&mut self, index: usize) -> Result<PortRef, TopologyErrorKind> {
        let switch = self.switches.get_mut(index);
        let switch = switch.ok_or_else(|| TopologyErrorKind::UnknownNode(index.to_string()))?;
        if switch.n_ports >= PORTS_MAX {
            return Err(TopologyErrorKind::TooMany {
                what: "ports of one switch",
                max: PORTS_MAX as usize,
            });
        }
        switch.n_ports += 1;
        Ok(PortRef { switch: index, port: PortNo(switch.n_ports) })
    }
}

/// The address of host `number`, or the next free one.
fn free_address(taken: &mut HashSet<Ipv4Addr>, number: u32) -> Ipv4Addr {
    let mut address = Ipv4Addr::from(FIRST_IPV4 + (number - 1));
    while !taken.insert(address) {
        address = Ipv4Addr::from(u32::from(address).wrapping_add(1));
    }
    address
}

/// Natural order: `h2` comes before `h10`. Mininet assigns addresses in this order.
fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let (words, numbers) = (split(a, char::is_numeric), split(b, char::is_numeric));
        let by_word = words.0.cmp(numbers.0);
        if by_word != Ordering::Equal {
            return by_word;
        }
        let is_word = |c: char| !c.is_numeric();
        let ((x, a_rest), (y, b_rest)) = (split(words.1, is_word), split(numbers.1, is_word));
        let value = |digits: &str| digits.parse::<u128>().unwrap_or(u128::MAX);
        let by_number = x.is_empty().cmp(&y.is_empty()).reverse().then(value(x).cmp(&value(y)));
        if by_number != Ordering::Equal || (a_rest.is_empty() && b_rest.is_empty()) {
            return by_number.then(a_rest.cmp(b_rest));
        }
        (a, b) = (a_rest, b_rest);
    }
}

/// Splits the text before the first character for which `ends` is true.
fn split(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_assigned_in_natural_order_of_host_names() {
        let mut b = TopologyBuilder::new();
        let s = b.add_switch("s1", DatapathId(1)).unwrap();
        for name in ["h10", "h2", "h1s10", "h1s9", "a"] {
            let h = b.add_host(name, None).unwrap();
            b.add_link(h, s, LinkImpairments::default()).unwrap();
        }
        let topology = b.build().unwrap();
        let mut hosts = topology.hosts;
        hosts.sort_by_key(|host| host.ipv4);
        let names: Vec<_> = hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["a", "h1s9", "h1s10", "h2", "h10"]);
        assert_eq!(hosts[0].mac.to_string(), "00:00:00:00:00:01");
        assert_eq!(hosts[0].ipv6.to_string(), "fe80::200:ff:fe00:1");
        assert_eq!(hosts[4].ipv4.to_string(), "10.0.0.5");
    }

    #[test]
    fn duplicates_and_invalid_links_are_rejected_by_name() {
        let mut b = TopologyBuilder::new();
        let s = b.add_switch("s1", DatapathId(1)).unwrap();
        assert_eq!(
            b.add_switch("s2", DatapathId(1)).unwrap_err().to_string(),
            "duplicate datapath id 0000000000000001"
        );
        assert_eq!(
            b.add_switch("s1", DatapathId(2)),
            Err(TopologyErrorKind::Duplicate("s1".into()))
        );
        let h1 = b.add_host("h1", None).unwrap();
        let h2 = b.add_host("h2", None).unwrap();
        assert_eq!(
            b.add_link(h1, h2, LinkImpairments::default()),
            Err(TopologyErrorKind::HostLinkCount("h1".into()))
        );
        b.add_link(s, h1, LinkImpairments::default()).unwrap();
        assert_eq!(
            b.add_link(s, h1, LinkImpairments::default()),
            Err(TopologyErrorKind::HostLinkCount("h1".into()))
        );
        assert_eq!(b.build(), Err(TopologyErrorKind::HostLinkCount("h2".into())));
    }

    #[test]
    fn an_explicit_address_is_not_assigned_to_another_host() {
        let mut b = TopologyBuilder::new();
        let s = b.add_switch("s1", DatapathId(1)).unwrap();
        for (name, ipv4) in [("h1", None), ("h2", Some(Ipv4Addr::new(10, 0, 0, 1)))] {
            let h = b.add_host(name, ipv4).unwrap();
            b.add_link(h, s, LinkImpairments::default()).unwrap();
        }
        let hosts = b.build().unwrap().hosts;
        assert_eq!(hosts[0].ipv4, Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(hosts[1].ipv4, Ipv4Addr::new(10, 0, 0, 1));
    }
}
