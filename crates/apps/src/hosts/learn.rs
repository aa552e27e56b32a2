//! Hosts that come, move, and say which addresses they have.

use std::net::IpAddr;
use std::time::Instant;

use sluice_openflow::{Action, Field, MacAddr, Message, PacketOut, PortNo};
use sluice_sdk::Network;
use sluice_sdk::view::{Fact, Host, HostId, NetworkView, SwitchPort};

use super::contest::{Claim, Claimed, May};
use super::speech::{self, Ends};
use super::table::Trust;
use super::{Guard, Hosts, is_attachment, is_reachable};

/// What a frame of a host leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// The host is known where the frame came in.
    Here,
    /// It is not learnt. What it sends is forwarded all the same.
    Unlearnt,
    /// It says to be who it perhaps is not: what it sends is dropped.
    Refused,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Obeyed,
    Refused,
}

impl Hosts {
    /// A frame came from `id` at `at`, where hosts may be.
    pub(super) fn meet(
        &mut self,
        id: HostId,
        at: SwitchPort,
        now: Instant,
        network: &mut Network,
    ) -> Met {
        let (view, residents) = network.view_and_fast_path_hosts();
        match view.host(id) {
            Some(host) if host.at == at => {
                if self.table.get(id).is_none() {
                    self.table.put(id, host, (now, self.cfg.timeout), None, residents);
                }
                Met::Here
            }
            Some(host) => {
                let from = host.at;
                self.come_from(from, id, at, now, network)
            }
            None => self.come(id, at, now, network),
        }
    }

    /// A host that is not known.
    fn come(&mut self, id: HostId, at: SwitchPort, now: Instant, network: &mut Network) -> Met {
        let view = network.view();
        if id.mac.is_group() || id.mac == MacAddr::default() || is_ours(id.mac) {
            return Met::Unlearnt;
        }
        // A port of the switch itself may be a host's: then it is that port where it speaks.
        if view.is_port_addr(id.mac) && view.port(at).is_none_or(|port| port.hw_addr != id.mac) {
            self.counts.own.report(now, network, || {
                format!("{at}: {id} is the address of a port of a switch; frames from it come in")
            });
            return Met::Unlearnt;
        }
        let max = self.cfg.hosts_max as usize;
        // Those that are gone are remembered for a while, and need memory as well.
        if view.host_count() >= max || view.host_entry_count() >= max.saturating_mul(2) {
            self.counts.full.report(now, network, || {
                format!("{at}: {id} is not learnt, as {max} hosts are known: hosts.hosts_max")
            });
            return Met::Unlearnt;
        }
        if !self.has_room(id, at, now, network) {
            return Met::Unlearnt;
        }
        self.say(id, Host { at, addrs: Vec::new() }, None, now, network);
        Met::Here
    }

    fn has_room(
        &mut self,
        id: HostId,
        at: SwitchPort,
        now: Instant,
        network: &mut Network,
    ) -> bool {
        let max = self.cfg.per_port_max as usize;
        if max == 0 || network.view().hosts_at(at).take(max).count() < max {
            return true;
        }
        self.counts.port_full.report(now, network, || {
            format!("{at}: {id} is not learnt, as {max} hosts are there: hosts.per_port_max")
        });
        false
    }

    /// A host that was at `from`, or somebody with its address.
    fn come_from(
        &mut self,
        from: SwitchPort,
        id: HostId,
        at: SwitchPort,
        now: Instant,
        network: &mut Network,
    ) -> Met {
        let is_free = !is_reachable(network.view(), from);
        if !is_free && self.is_held((id, None)) {
            self.counts.refused.count();
            return Met::Refused;
        }
        if !self.may_move((id, None), (from, at), now, network) {
            return Met::Unlearnt;
        }
        if !self.has_room(id, at, now, network) {
            return Met::Unlearnt;
        }
        let claim = (id, None);
        if !is_free && self.contest(claim, id, (from, at), now, network) == Verdict::Refused {
            return Met::Refused;
        }
        self.go(id, at, now, network);
        Met::Here
    }

    /// Whether a host or an address may go from place to place once more.
    fn may_move(
        &mut self,
        what: Claimed,
        (from, to): (SwitchPort, SwitchPort),
        now: Instant,
        network: &mut Network,
    ) -> bool {
        match self.moves.count(what, now, self.cfg.moves_per_s_max) {
            May::Move => return true,
            May::NoMore => self.counts.held.report(now, network, || {
                let what = what.1.map_or_else(|| what.0.to_string(), |addr| addr.to_string());
                format!("{what} moves too often, now to {to}; it is held at {from}")
            }),
            May::Not => self.counts.held.count(),
        }
        false
    }

    /// A host is at `at` from now on, with the addresses that it still has.
    fn go(&mut self, id: HostId, at: SwitchPort, now: Instant, network: &mut Network) {
        let addrs = addrs_of(id, network.view());
        self.counts.moved.count();
        self.say(id, Host { at, addrs }, None, now, network);
    }

    /// A packet came from `id` with `addr` as its source. That is believed only of a host of which no address of this
    /// family is known, as routers send packets of others, and only if nobody else has it.
    pub(super) fn guess(
        &mut self,
        id: HostId,
        addr: IpAddr,
        now: Instant,
        network: &mut Network,
    ) -> Met {
        let is_open = self.table.get(id).is_some_and(|known| known.trust(addr) == Trust::None);
        if is_open && network.view().host_by_addr(addr, id.vlan).is_none() {
            self.add(id, addr, Trust::Guessed, now, network);
        }
        Met::Here
    }

    /// `id` says that it has `addr`, or a DHCP server says so.
    pub(super) fn believe(
        &mut self,
        id: HostId,
        addr: IpAddr,
        now: Instant,
        network: &mut Network,
    ) -> Met {
        let Some(host) = network.view().host(id) else { return Met::Here };
        let at = host.at;
        let (view, residents) = network.view_and_fast_path_hosts();
        match view.host_by_addr(addr, id.vlan) {
            Some((owner, host)) if owner == id => {
                if self.table.get(id).is_some_and(|known| known.trust(addr) == Trust::Guessed) {
                    let stated = Some((addr, Trust::Stated));
                    self.table.put(id, host, (now, self.cfg.timeout), stated, residents);
                }
                return Met::Here;
            }
            Some((owner, host)) if is_reachable(view, host.at) => {
                let (claim, from) = ((owner, Some(addr)), host.at);
                if self.is_held(claim) {
                    self.counts.refused.count();
                    return Met::Refused;
                }
                // Whoever has it, it is one address.
                let nobody = HostId { mac: MacAddr::default(), vlan: id.vlan };
                if !self.may_move((nobody, Some(addr)), (from, at), now, network) {
                    return Met::Here;
                }
                if self.contest(claim, id, (from, at), now, network) == Verdict::Refused {
                    return Met::Refused;
                }
            }
            _ => {}
        }
        self.add(id, addr, Trust::Stated, now, network);
        Met::Here
    }

    /// A host has one more address.
    fn add(&mut self, id: HostId, addr: IpAddr, trust: Trust, now: Instant, network: &mut Network) {
        let Some(at) = network.view().host(id).map(|host| host.at) else { return };
        let mut addrs = addrs_of(id, network.view());
        if self.table.get(id).is_some_and(|known| known.trust(addr) == Trust::Guessed) {
            addrs.retain(|known| known.is_ipv4() != addr.is_ipv4());
        }
        let max = usize::from(self.cfg.addrs_max);
        if addrs.contains(&addr) {
            return;
        }
        if addrs.len() >= max {
            return self.counts.addrs_full.report(now, network, || {
                format!("{at}: {addr} of {id} is not learnt, as it has {max} addresses, the limit")
            });
        }
        addrs.push(addr);
        self.say(id, Host { at, addrs }, Some((addr, trust)), now, network);
    }

    /// Tells all where a host is and which addresses it has.
    fn say(
        &mut self,
        id: HostId,
        host: Host,
        trust: Option<(IpAddr, Trust)>,
        now: Instant,
        network: &mut Network,
    ) {
        network.publish(now, Fact::Host(id, Some(host)));
        let (view, residents) = network.view_and_fast_path_hosts();
        match view.host(id) {
            Some(host) if self.is_mine(host.at.switch) => {
                self.table.put(id, host, (now, self.cfg.timeout), trust, residents);
            }
            _ => self.table.remove(id, residents),
        }
    }

    /// Whether a claim is not even looked at: it waits for an answer, or was refused a moment ago.
    fn is_held(&self, claimed: Claimed) -> bool {
        match self.cfg.guard {
            Guard::Off => false,
            Guard::Report => self.claims.is_refused(claimed),
            Guard::Refuse => self.claims.is_open(claimed),
        }
    }

    /// Somebody at `to` claims what a host at `from` has: that one is asked whether it is there.
    fn contest(
        &mut self,
        claimed: Claimed,
        by: HostId,
        (from, to): (SwitchPort, SwitchPort),
        now: Instant,
        network: &mut Network,
    ) -> Verdict {
        let (owner, addr) = claimed;
        let obeyed = match self.cfg.guard {
            Guard::Off => return Verdict::Obeyed,
            Guard::Report => Verdict::Obeyed,
            Guard::Refuse => Verdict::Refused,
        };
        let last = || network.view().host(owner).and_then(|host| host.addrs.last().copied());
        // Who has no address cannot be asked.
        let Some(asked) = addr.or_else(last) else { return Verdict::Obeyed };
        // Who takes back what it had is asked about that already.
        let is_return = addr.is_some() && self.claims.is_open((by, addr));
        if is_return || self.claims.is_open(claimed) || self.claims.is_full() {
            return obeyed;
        }
        let until = now + super::VERIFY_TIMEOUT;
        self.claims.open(claimed, Claim { by, from, to, until, is_refused: false });
        self.question(speech::VERIFY, (owner, from), asked, network);
        obeyed
    }

    /// A host answered at the place where it was when somebody claimed to have what it has: it has it again, if the claim
    /// was obeyed.
    pub(super) fn answered(
        &mut self,
        id: HostId,
        answer: (SwitchPort, IpAddr),
        now: Instant,
        network: &mut Network,
    ) {
        let then = match self.cfg.guard {
            Guard::Refuse => "not obeyed",
            Guard::Report | Guard::Off => "obeyed no longer",
        };
        let contested = &mut self.counts.contested;
        let mut refused = Vec::new();
        self.claims.answered(id, answer, now, |(owner, addr), claim| {
            let &Claim { by, from, to, .. } = claim;
            contested.report(now, network, || match addr {
                Some(addr) => {
                    format!("{to}: {by} claims {addr}, which {owner} has at {from}; {then}")
                }
                None => format!("{to}: somebody claims to be {owner}, who is at {from}; {then}"),
            });
            refused.push((addr, *claim));
        });
        for (addr, claim) in refused {
            let view = network.view();
            match addr {
                None if view.host(id).is_some_and(|host| host.at == claim.to) => {
                    self.go(id, claim.from, now, network);
                }
                Some(addr)
                    if view.host_by_addr(addr, id.vlan).is_some_and(|(by, _)| by == claim.by) =>
                {
                    self.drop_addr(claim.by, addr, now, network);
                    self.add(id, addr, Trust::Stated, now, network);
                }
                _ => {}
            }
        }
    }

    /// A host has an address no longer.
    fn drop_addr(&mut self, id: HostId, addr: IpAddr, now: Instant, network: &mut Network) {
        let Some(host) = network.view().host(id) else { return };
        let (at, mut addrs) = (host.at, host.addrs.clone());
        addrs.retain(|&known| known != addr);
        self.say(id, Host { at, addrs }, None, now, network);
    }

    /// Nobody said that what was claimed is elsewhere: so be it.
    pub(super) fn end_claims(&mut self, now: Instant, network: &mut Network) {
        for ((owner, addr), claim) in self.claims.take_over(now) {
            let view = network.view();
            let is_at = |id, at| view.host(id).is_some_and(|host| host.at == at);
            let is_there = is_at(claim.by, claim.to);
            if claim.is_refused
                || self.cfg.guard != Guard::Refuse
                || !is_at(owner, claim.from)
                || !is_attachment(view, claim.to)
            {
                continue;
            }
            match addr {
                None if self.has_room(owner, claim.to, now, network) => {
                    self.go(owner, claim.to, now, network);
                }
                Some(addr) if is_there => {
                    self.add(claim.by, addr, Trust::Stated, now, network);
                }
                _ => {}
            }
        }
    }

    /// Asks the host `id` at `at` whether it has `addr`.
    pub(super) fn question(
        &mut self,
        from: MacAddr,
        (id, at): (HostId, SwitchPort),
        addr: IpAddr,
        network: &mut Network,
    ) {
        let tag = speech::tag(id.vlan.0);
        let data = speech::question(Ends { from, to: id.mac, tag: &tag }, addr).to_vec();
        let matching = [Field::in_port(PortNo::CONTROLLER)].into();
        let actions = vec![Action::output(at.port)];
        let message = Message::PacketOut(PacketOut { buffer_id: None, matching, actions, data });
        self.counts.probes.count();
        network.send_to(at.switch, message);
    }
}

/// Whether an address is one with which the controller asks.
fn is_ours(mac: MacAddr) -> bool {
    [speech::PROBE, speech::VERIFY].contains(&mac)
}

/// The addresses of a host, without those that another one has said since to have.
fn addrs_of(id: HostId, view: &NetworkView) -> Vec<IpAddr> {
    let addrs = view.host(id).into_iter().flat_map(|host| host.addrs.iter().copied());
    addrs
        .filter(|&addr| view.host_by_addr(addr, id.vlan).is_some_and(|(owner, _)| owner == id))
        .collect()
}
