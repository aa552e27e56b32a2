//! A network, node by node and link by link.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::net::Ipv4Addr;

use sluice_openflow::{DatapathId, MacAddr, PortNo};

use super::{
    Fault, HOSTS_MAX, HostNode, LINKS_MAX, Link, PORTS_MAX, Place, SWITCHES_MAX, SwitchNode,
    Topology, link_local,
};
use crate::link::Settings;

/// The first address of a network of 2²⁴, from which hosts without one get theirs.
const FIRST_IPV4: u32 = 0x0a00_0001;

/// A node that was added to a [`Builder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// A switch: its index.
    Switch(usize),
    /// A host: its index.
    Host(usize),
}

/// Builds a [`Topology`] in the order of Mininet's: a link takes the next port of each of its switches.
#[derive(Debug, Default)]
pub struct Builder {
    switches: Vec<SwitchNode>,
    hosts: Vec<Unattached>,
    links: Vec<Link>,
    names: HashSet<String>,
    datapath_ids: HashSet<DatapathId>,
}

/// A host whose place and address may not be known yet.
#[derive(Debug)]
struct Unattached {
    name: String,
    ipv4: Option<Ipv4Addr>,
    at: Option<(Place, Settings)>,
}

impl Builder {
    /// An empty network.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a switch.
    ///
    /// # Errors
    /// The name or the datapath id is taken, or there are too many.
    pub fn switch(
        &mut self,
        name: impl Into<String>,
        datapath_id: DatapathId,
    ) -> Result<Node, Fault> {
        let name = name.into();
        if self.switches.len() >= SWITCHES_MAX {
            return Err(Fault::TooMany { what: "switches", max: SWITCHES_MAX });
        }
        if !self.datapath_ids.insert(datapath_id) {
            return Err(Fault::Twice(format!("datapath {datapath_id}")));
        }
        self.claim(&name)?;
        self.switches.push(SwitchNode { datapath_id, name, n_ports: 0 });
        Ok(Node::Switch(self.switches.len() - 1))
    }

    /// Adds a host. Without an address it gets one when all are there, in the natural order of their names.
    ///
    /// # Errors
    /// The name is taken, or there are too many.
    pub fn host(&mut self, name: impl Into<String>, ipv4: Option<Ipv4Addr>) -> Result<Node, Fault> {
        let name = name.into();
        if self.hosts.len() >= HOSTS_MAX {
            return Err(Fault::TooMany { what: "hosts", max: HOSTS_MAX });
        }
        self.claim(&name)?;
        self.hosts.push(Unattached { name, ipv4, at: None });
        Ok(Node::Host(self.hosts.len() - 1))
    }

    /// Adds a link, which takes the next port of each of its switches.
    ///
    /// # Errors
    /// A host with a second link, or with one to a host; too many links or ports.
    pub fn link(&mut self, a: Node, b: Node, shape: Settings) -> Result<(), Fault> {
        match (a, b) {
            (Node::Switch(a), Node::Switch(b)) => {
                if self.links.len() >= LINKS_MAX {
                    return Err(Fault::TooMany { what: "links", max: LINKS_MAX });
                }
                let (a, b) = (self.port(a)?, self.port(b)?);
                self.links.push(Link { a, b, shape });
                Ok(())
            }
            (Node::Switch(switch), Node::Host(host)) | (Node::Host(host), Node::Switch(switch)) => {
                let is_attached = self.hosts.get(host).is_none_or(|host| host.at.is_some());
                if is_attached {
                    return Err(self.host_links(host));
                }
                let place = self.port(switch)?;
                if let Some(host) = self.hosts.get_mut(host) {
                    host.at = Some((place, shape));
                }
                Ok(())
            }
            (Node::Host(host), Node::Host(_)) => Err(self.host_links(host)),
        }
    }

    /// Whether a node has this name.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// The network, if every host has its place.
    ///
    /// # Errors
    /// A host without a link, or an address that two hosts have.
    pub fn build(self) -> Result<Topology, Fault> {
        let mut order: Vec<usize> = (0..self.hosts.len()).collect();
        let name = |&n: &usize| self.hosts.get(n).map_or("", |host| host.name.as_str());
        order.sort_by(|a, b| natural(name(a), name(b)));
        let mut taken: HashSet<_> = self.hosts.iter().filter_map(|host| host.ipv4).collect();
        if taken.len() < self.hosts.iter().filter(|host| host.ipv4.is_some()).count() {
            return Err(Fault::Twice("the address of a host".into()));
        }
        let mut numbers = vec![0; order.len()];
        for (number, host) in (1u32..).zip(order) {
            if let Some(slot) = numbers.get_mut(host) {
                *slot = number;
            }
        }
        let mut hosts = Vec::with_capacity(self.hosts.len());
        for (host, number) in self.hosts.into_iter().zip(numbers) {
            let (at, shape) = host.at.ok_or_else(|| Fault::HostLinks(host.name.clone()))?;
            let mac = MacAddr::from_u64(number.into());
            let ipv4 = host.ipv4.unwrap_or_else(|| free(&mut taken, number));
            let ipv6 = link_local(mac);
            hosts.push(HostNode { name: host.name, mac, ipv4, ipv6, at, shape });
        }
        Ok(Topology { switches: self.switches, hosts, links: self.links })
    }

    fn claim(&mut self, name: &str) -> Result<(), Fault> {
        self.names.insert(name.into()).then_some(()).ok_or_else(|| Fault::Twice(name.into()))
    }

    fn host_links(&self, host: usize) -> Fault {
        Fault::HostLinks(self.hosts.get(host).map(|host| host.name.clone()).unwrap_or_default())
    }

    fn port(&mut self, index: usize) -> Result<Place, Fault> {
        let switch = self.switches.get_mut(index);
        let switch = switch.ok_or_else(|| Fault::UnknownNode(index.to_string()))?;
        if switch.n_ports >= PORTS_MAX {
            return Err(Fault::TooMany { what: "ports of one switch", max: PORTS_MAX as usize });
        }
        switch.n_ports += 1;
        Ok(Place { switch: index, port: PortNo(switch.n_ports) })
    }
}

/// The address of host `number`, or the next that is free.
fn free(taken: &mut HashSet<Ipv4Addr>, number: u32) -> Ipv4Addr {
    let mut address = Ipv4Addr::from(FIRST_IPV4 + (number - 1));
    while !taken.insert(address) {
        address = Ipv4Addr::from(u32::from(address).wrapping_add(1));
    }
    address
}

/// The order in which people count: `h2` comes before `h10`. Mininet gives out addresses in it.
fn natural(a: &str, b: &str) -> Ordering {
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

/// What comes before the first character of a kind, and what begins with it.
fn split(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_the_order_in_which_people_count() {
        let mut b = Builder::new();
        let s = b.switch("s1", DatapathId(1)).unwrap();
        for name in ["h10", "h2", "h1s10", "h1s9", "a"] {
            let h = b.host(name, None).unwrap();
            b.link(h, s, Settings::default()).unwrap();
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
    fn what_cannot_be_is_refused_by_name() {
        let mut b = Builder::new();
        let s = b.switch("s1", DatapathId(1)).unwrap();
        assert_eq!(
            b.switch("s2", DatapathId(1)).unwrap_err().to_string(),
            "datapath 0000000000000001 is there twice"
        );
        assert_eq!(b.switch("s1", DatapathId(2)), Err(Fault::Twice("s1".into())));
        let h1 = b.host("h1", None).unwrap();
        let h2 = b.host("h2", None).unwrap();
        assert_eq!(b.link(h1, h2, Settings::default()), Err(Fault::HostLinks("h1".into())));
        b.link(s, h1, Settings::default()).unwrap();
        assert_eq!(b.link(s, h1, Settings::default()), Err(Fault::HostLinks("h1".into())));
        assert_eq!(b.build(), Err(Fault::HostLinks("h2".into())));
    }

    #[test]
    fn an_address_that_is_asked_for_is_nobody_elses() {
        let mut b = Builder::new();
        let s = b.switch("s1", DatapathId(1)).unwrap();
        for (name, ipv4) in [("h1", None), ("h2", Some(Ipv4Addr::new(10, 0, 0, 1)))] {
            let h = b.host(name, ipv4).unwrap();
            b.link(h, s, Settings::default()).unwrap();
        }
        let hosts = b.build().unwrap().hosts;
        assert_eq!(hosts[0].ipv4, Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(hosts[1].ipv4, Ipv4Addr::new(10, 0, 0, 1));
    }
}
