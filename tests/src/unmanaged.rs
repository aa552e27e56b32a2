//! Devices of an [`OvsNetwork`] that no controller manages: hubs, switches with VLANs, and devices that aggregate links.

use crate::host::Host;
use crate::ovs::OvsNetwork;
use crate::process::output_of;

impl OvsNetwork {
    /// Adds a hub, which no controller manages: it sends each frame out of all other ports, except for those that no bridge
    /// forwards, such as LLDP.
    #[track_caller]
    pub fn hub(&self, name: &str) {
        self.vsctl(&format!(
            "add-br {name} -- set bridge {name} datapath_type=netdev fail_mode=secure"
        ));
        let reserved = "priority=2,dl_dst=01:80:c2:00:00:00/ff:ff:ff:ff:ff:f0,actions=drop";
        for entry in [reserved, "priority=1,actions=flood"] {
            self.ofctl("add-flow", name, &[entry]);
        }
    }

    /// Adds a switch, which no controller manages, with a trunk to `bridge`: frames of its hosts have a VLAN tag there.
    #[track_caller]
    pub fn vlan_switch(&self, name: &str, bridge: &str) {
        self.vsctl(&format!(
            "add-br {name} -- set bridge {name} datapath_type=netdev fail_mode=secure"
        ));
        self.link(name, bridge);
    }

    /// Puts `host`, which is at a port of a [VLAN switch](Self::vlan_switch) with a trunk to `bridge`, into a VLAN.
    #[track_caller]
    pub fn set_vlan(&self, name: &str, bridge: &str, host: &Host, vlan: u16) {
        let (port, trunk) = (host.port(), self.link_port(name, bridge));
        let to_trunk = format!("in_port={port},actions=mod_vlan_vid:{vlan},output:{trunk}");
        let from_trunk = format!("in_port={trunk},dl_vlan={vlan},actions=strip_vlan,output:{port}");
        for entry in [to_trunk, from_trunk] {
            self.ofctl("add-flow", name, &[&entry]);
        }
    }

    /// Adds a device that no controller manages, with a cable to each of `switches` which it aggregates by LACP. Behind it there can
    /// be hosts.
    pub fn aggregating_device(&self, name: &str, switches: &[&str]) {
        self.vsctl(&format!("add-br {name} -- set bridge {name} datapath_type=netdev"));
        let cables = self.add_cables(name, switches);
        self.vsctl(&format!(
            "add-bond {name} {name}-bond {} lacp=active bond_mode=balance-slb other_config:lacp-time=fast",
            cables.join(" ")
        ));
    }

    /// Adds a device that no controller manages, with two cables to `switch` which it aggregates without LACP, and a host behind it.
    /// What that sends to `dst` leaves by the first cable, and everything else by the second, as long as both are up. Returns
    /// the host and the ports of the switch.
    #[track_caller]
    pub fn static_bundle(&self, name: &str, switch: &str, dst: &Host) -> (Host, [u16; 2]) {
        self.vsctl(&format!(
            "add-br {name} -- set bridge {name} datapath_type=netdev fail_mode=secure"
        ));
        for cable in self.add_cables(name, &[switch, switch]) {
            self.vsctl(&format!("add-port {name} {cable}"));
        }
        let host = self.host(name);
        let port = host.port();
        let to_cables =
            |order| format!("actions=bundle(eth_src,0,active_backup,ofport,members:{order})");
        for entry in [
            format!("in_port=1,actions=output:{port}"),
            format!("in_port=2,actions=output:{port}"),
            format!("priority=2,in_port={port},dl_dst={},{}", dst.mac(), to_cables("1,2")),
            format!("priority=1,in_port={port},{}", to_cables("2,1")),
        ] {
            self.ofctl("add-flow", name, &[&entry]);
        }
        (host, [1, 2].map(|cable| self.link_port(&format!("{name}-cable{cable}"), "end")))
    }

    /// Adds cables from a device to switches. Returns the names of their ends at the device.
    fn add_cables(&self, name: &str, switches: &[&str]) -> Vec<String> {
        let cables: Vec<_> = (1..=switches.len()).map(|n| format!("{name}-cable{n}")).collect();
        for (cable, switch) in cables.iter().zip(switches) {
            let port = format!("{cable}-end");
            self.ip(&format!("link add {cable} type veth peer name {port}"));
            self.ip(&format!("link set {cable} up"));
            self.ip(&format!("link set {port} up"));
            self.vsctl(&format!("add-port {switch} {port}"));
        }
        cables
    }

    /// The cables that an [aggregating device](Self::aggregating_device) uses, numbered from 1.
    #[track_caller]
    pub fn cables_in_use(&self, device: &str) -> Vec<usize> {
        let mut appctl = self.env().command("ovs-appctl");
        appctl.arg("-t").arg(self.env().file("ovs-vswitchd"));
        let state = output_of(appctl.arg("bond/show").arg(format!("{device}-bond")));
        let enabled = state.lines().filter_map(|line| line.strip_suffix(": enabled"));
        enabled.filter_map(|cable| cable.rsplit("cable").next()?.parse().ok()).collect()
    }

    /// Sets a cable of an aggregating device down.
    pub fn cut_cable(&self, device: &str, cable: usize) {
        self.ip(&format!("link set {device}-cable{cable} down"));
    }

    /// Puts it back.
    pub fn restore_cable(&self, device: &str, cable: usize) {
        self.ip(&format!("link set {device}-cable{cable} up"));
    }
}
