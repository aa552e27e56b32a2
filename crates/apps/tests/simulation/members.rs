//! Hosts that join a group and leave it.

use super::*;

/// 239.1.9.9.
const GROUP: [u8; 4] = [239, 1, 9, 9];

/// The MAC address of the group.
const GROUP_MAC: MacAddr = MacAddr([1, 0, 0x5e, 1, 9, 9]);

/// RFC 2236 §2.1.
const REPORT: u8 = 0x16;
const LEAVE: u8 = 0x17;

/// Longer than a port stays a member after a host has left, of which nobody answers the query.
const LEAVE_TIME: Duration = Duration::from_secs(8);

/// Longer than all ports get every multicast of a VLAN that was not in use before: until hosts have had time to answer a query.
const JOIN_TIME: Duration = Duration::from_secs(15);

/// The hosts of a network that are members of a group, if switches send multicasts to members only.
#[derive(Debug)]
pub(super) struct Members {
    rng: Rng,
    are_planned: bool,
}

impl Members {
    /// In half of the networks with multicast snooping.
    pub(super) fn new(seed: u64, has_snooping: bool) -> Self {
        let mut rng = Rng::new(seed.wrapping_mul(23) ^ 0x166);
        let are_planned = rng.below(2) == 0 && has_snooping;
        Self { rng, are_planned }
    }

    /// Has a host join or leave the group, while faults occur.
    pub(super) fn send(
        &mut self,
        net: &mut ChainSimulation,
    ) -> Result<(), sluice_emu::net::NetworkError> {
        if !self.are_planned {
            return Ok(());
        }
        let host = pick(&mut self.rng, net.data_plane().topology().hosts.len());
        let message = if self.rng.below(3) > 0 { REPORT } else { LEAVE };
        send_igmp(net, host, message)
    }

    /// Checks that each packet to the group is received once by its other members in the VLAN, and if `is_exact` by nobody else; then
    /// the same when one has left.
    pub(super) fn check(
        &mut self,
        net: &mut ChainSimulation,
        conditions: &NetworkConditions,
        is_exact: bool,
    ) -> Result<(), String> {
        if !self.are_planned {
            return Ok(());
        }
        let failed = |e: sluice_emu::net::NetworkError| e.to_string();
        let hosts = net.data_plane().topology().hosts.len();
        // Those who have joined before and do not now are no members after this.
        let (mut members, left): (BTreeSet<_>, Vec<_>) =
            (0..hosts).partition_in_two(|_| self.rng.below(3) > 0);
        left.iter().try_for_each(|&host| send_igmp(net, host, LEAVE)).map_err(failed)?;
        net.run_for(LEAVE_TIME).map_err(failed)?;
        members.iter().try_for_each(|&host| send_igmp(net, host, REPORT)).map_err(failed)?;
        net.run_for(JOIN_TIME).map_err(failed)?;
        let mut number = 10 * TRACED_FRAMES;
        check_delivery(net, &members, &mut number, conditions, is_exact)?;
        // A group without members would be flooded.
        if let (true, Some(&host)) = (members.len() > 1, members.first()) {
            send_igmp(net, host, LEAVE).map_err(failed)?;
            members.remove(&host);
            net.run_for(LEAVE_TIME).map_err(failed)?;
            // The others at its port would have answered the query.
            members.iter().try_for_each(|&host| send_igmp(net, host, REPORT)).map_err(failed)?;
            net.run_for(JOIN_TIME).map_err(failed)?;
            check_delivery(net, &members, &mut number, conditions, is_exact)?;
        }
        Ok(())
    }
}

trait PartitionInTwo: Iterator<Item = usize> + Sized {
    /// Those of which `is_member` is true, and the others.
    fn partition_in_two(
        self,
        mut is_member: impl FnMut(usize) -> bool,
    ) -> (BTreeSet<usize>, Vec<usize>) {
        let (members, others): (Vec<_>, Vec<_>) = self.partition(|&host| is_member(host));
        (members.into_iter().collect(), others)
    }
}

impl<I: Iterator<Item = usize>> PartitionInTwo for I {}

/// Has every host send to the group, and checks who receives it.
fn check_delivery(
    net: &mut ChainSimulation,
    members: &BTreeSet<usize>,
    number: &mut u32,
    conditions: &NetworkConditions,
    is_exact: bool,
) -> Result<(), String> {
    // Hosts without a VLAN may send priority tags.
    let hosts = &net.data_plane().topology().hosts;
    let vlans: Vec<_> = hosts.iter().map(|host| host.vlan.unwrap_or(VlanId(0))).collect();
    let priority_tagged: Vec<_> = hosts.iter().map(|host| host.vlan == Some(VlanId(0))).collect();
    let used: BTreeSet<_> = members.iter().filter_map(|&host| vlans.get(host)).collect();
    for (from, vlan) in vlans.iter().enumerate() {
        // In a VLAN without members the group is flooded.
        if !used.contains(vlan) {
            continue;
        }
        net.apply(NetworkChange::SendTracedMulticast(from, GROUP_MAC, *number))
            .map_err(|e| e.to_string())?;
        net.run_for(conditions.flood_time()).map_err(|e| e.to_string())?;
        let traces = net.data_plane().traces();
        let received: BTreeMap<_, _> =
            traces.deliveries(*number).filter(|&(_, times)| times > 0).collect();
        *number += 1;
        let is_in_vlan = |host: usize| vlans.get(host) == Some(vlan);
        let expected = members.iter().filter(|&&host| host != from && is_in_vlan(host));
        let expected: BTreeSet<_> = expected.copied().collect();
        let missing: Vec<_> =
            expected.iter().filter(|&host| !received.contains_key(host)).collect();
        // A tree carries priority-tagged multicasts to all hosts.
        let is_exact = is_exact && priority_tagged.get(from) == Some(&false);
        let is_wrong = |(&host, &times): (&usize, &u32)| {
            times > 1 || (is_exact && is_in_vlan(host) && !expected.contains(&host))
        };
        if !missing.is_empty() || received.iter().any(is_wrong) {
            return Err(format!(
                "of {expected:?}, {received:?} received a multicast of host {from}: {}",
                metrics(net)
            ));
        }
    }
    Ok(())
}

/// Has a host send an IGMP message about the group.
fn send_igmp(
    net: &mut ChainSimulation,
    host: usize,
    message: u8,
) -> Result<(), sluice_emu::net::NetworkError> {
    let Some(node) = net.data_plane().topology().hosts.get(host).cloned() else { return Ok(()) };
    let (to, to_mac) = match message {
        REPORT => (GROUP, GROUP_MAC),
        _ => ([224, 0, 0, 2], MacAddr([1, 0, 0x5e, 0, 0, 2])),
    };
    let mut ip = [0x46, 0, 0, 32, 0, 0, 0, 0, 1, 2, 0, 0].to_vec();
    ip.extend([node.ipv4.octets(), to, [0x94, 4, 0, 0]].concat());
    set_checksum(&mut ip, 10);
    let mut igmp = [&[message, 0, 0, 0], &GROUP[..]].concat();
    set_checksum(&mut igmp, 2);
    let mut frame = [&to_mac.0[..], &node.mac.0, &[8, 0][..], &ip[..], &igmp].concat();
    frame.resize(60, 0);
    net.send_frame(host, frame)
}

/// Writes the checksum of IP and IGMP at `at`. RFC 1071.
fn set_checksum(bytes: &mut [u8], at: usize) {
    let word = |pair: &[u8]| pair.iter().fold(0, |word, &byte| word << 8 | u32::from(byte));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    #[expect(clippy::cast_possible_truncation, reason = "16 bits are left")]
    let checksum = !(sum as u16);
    bytes.get_mut(at..at + 2).unwrap().copy_from_slice(&checksum.to_be_bytes());
}
