//! Verifies claims: a host that is seen at a second port, or states an address of another host.
//!
//! The network view contains only what is verified. A claim changes it when the owner has not answered a probe at its own port in
//! time, or cannot answer because that port is down. So no sequence of claims makes another claim look right.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use sluice_openflow::view::PacketIn;
use sluice_openflow::{Action, Field, Message, PacketOut, PortNo};
use sluice_sdk::view::{HostId, HostInDoubt, SuspectedConnection, SwitchPort};
use sluice_sdk::{Network, Notification};

use super::conflicts::{CLAIMS_PER_PORT_MAX, Claim, ClaimId, ClaimState};
use super::counters::{HostFields, PortFields};
use super::frames::{self, CONFLICT_PROBE_MAC};
use super::host_table::AddrSource;
use super::learn::LearnOutcome;
use super::{ConflictPolicy, Hosts, can_have_hosts, control_delay, is_attachment_port};
use crate::packet::is_complete;

/// How long the owner may take to answer the probes, in addition to the time that these need to its switch and back: longer than a
/// round trip to a host at a switch, and short enough for a host that has moved. The second probe follows after half of it.
const VERIFY_TIMEOUT: Duration = Duration::from_millis(100);

/// The same for an owner without a known IP address, which shows by its next packet that it is there: with OpenFlow 1.0, the flow
/// entries that keep its packets from the controller have to be listed before they can be deleted.
const DOUBT_TIMEOUT: Duration = Duration::from_millis(500);

/// The same for the owner of an address that a DHCP server has assigned to it: its lease counts more than the claim.
const LEASED_TIMEOUT: Duration = Duration::from_secs(1);

/// Claims whose state changes in one event-loop iteration.
const CLAIMS_PER_ITERATION_MAX: usize = 256;

/// Longest frame that is kept until a claim is accepted.
const HELD_FRAME_BYTES_MAX: usize = 1600;

impl Hosts {
    /// Whether claims against a host at `from` are verified: not if it cannot be there any more.
    pub(super) fn needs_verification(&self, from: SwitchPort, network: &Network) -> bool {
        self.cfg.address_conflicts != ConflictPolicy::Off
            && can_have_hosts(from, network.view().port(from))
    }

    /// What becomes of a packet with a claim that will not be verified; `forwarded` if such packets are forwarded.
    pub(super) fn outcome_unverified(&self, forwarded: LearnOutcome) -> LearnOutcome {
        match self.cfg.address_conflicts {
            ConflictPolicy::Refuse => LearnOutcome::Rejected,
            ConflictPolicy::Report | ConflictPolicy::Off => forwarded,
        }
    }

    /// What becomes of a packet with a claim that is being verified or was rejected; `None` if there is no such claim.
    pub(super) fn find_claim(&mut self, id: ClaimId) -> Option<LearnOutcome> {
        self.claims.state(id)?;
        let outcome = self.outcome_of_claim(id);
        if outcome != LearnOutcome::NotLearned {
            self.counters.spoofed.count();
        }
        Some(outcome)
    }

    /// Probes the owner at `from`. Returns what becomes of the packet meanwhile.
    pub(super) fn verify_claim(
        &mut self,
        id: ClaimId,
        (claimant, source): (HostId, AddrSource),
        from: SwitchPort,
        now: Instant,
        network: &mut Network,
    ) -> LearnOutcome {
        if !self.claims.has_room(id.to) {
            self.counters.claims_full.report(now, network, || {
                let port = PortFields(id.to);
                format!(
                    "address of another host not learned: too many claims, of which one port may have \
                     {CLAIMS_PER_PORT_MAX} {port}"
                )
            });
            return self.outcome_unverified(LearnOutcome::NotLearned);
        }
        let can_be_asked = id.addr.is_some()
            || network.view().host(id.owner).is_some_and(|host| !host.addrs.is_empty());
        let is_leased = id.addr.is_some_and(|addr| self.leases.holds(id.owner, addr, now));
        let timeout = if !can_be_asked {
            DOUBT_TIMEOUT
        } else if is_leased {
            LEASED_TIMEOUT
        } else {
            VERIFY_TIMEOUT
        };
        let timeout = timeout + 2 * control_delay::of(from.switch, network.view());
        let due = now + timeout / 2;
        let state = ClaimState::Probed;
        self.claims.insert(id, Claim { claimant, source, from, timeout, state, due, frame: None });
        self.probe_owner(id, from, now, network);
        network.defer_work_until(due);
        self.outcome_of_claim(id)
    }

    /// Probes all addresses that the claim is about, since some of a host may be out of use. If none is known, waits for a packet
    /// of the host, too.
    fn probe_owner(&mut self, id: ClaimId, from: SwitchPort, now: Instant, network: &mut Network) {
        let Some(host) = network.view().host(id.owner) else { return };
        let is_unknown = id.addr.is_none() && host.addrs.is_empty();
        let addrs = match id.addr {
            Some(addr) => vec![addr],
            // Hosts with IPv6 have such an address in most cases.
            None if host.addrs.is_empty() => vec![frames::link_local(id.owner.mac).into()],
            None => host.addrs.clone(),
        };
        for addr in addrs {
            self.send_probe(CONFLICT_PROBE_MAC, (id.owner, from), addr, network);
        }
        if is_unknown {
            network.publish_event(now, HostInDoubt { host: id.owner, at: from });
        }
    }

    fn outcome_of_claim(&self, id: ClaimId) -> LearnOutcome {
        match (self.cfg.address_conflicts, self.claims.state(id)) {
            (ConflictPolicy::Refuse, Some(ClaimState::Rejected)) => LearnOutcome::Rejected,
            (ConflictPolicy::Refuse, _) => LearnOutcome::Pending(id),
            (ConflictPolicy::Off | ConflictPolicy::Report, _) => LearnOutcome::NotLearned,
        }
    }

    /// Keeps a packet until the claim that it contains is accepted, so that a host that has moved loses nothing.
    pub(super) fn hold_packet(&mut self, id: ClaimId, p: &PacketIn<'_>) {
        if is_complete(p) && p.frame.len() <= HELD_FRAME_BYTES_MAX {
            self.claims.hold_frame(id, p.frame);
        }
    }

    /// A host was seen at its port, or answered a probe there about an address: the claims against it are rejected.
    pub(super) fn on_owner_seen(
        &mut self,
        owner: HostId,
        answer: (SwitchPort, Option<IpAddr>),
        now: Instant,
        network: &mut Network,
    ) {
        let action = match self.cfg.address_conflicts {
            ConflictPolicy::Refuse => "claim rejected",
            ConflictPolicy::Report | ConflictPolicy::Off => "claim ignored",
        };
        let is_rejected = self.cfg.address_conflicts == ConflictPolicy::Refuse;
        let conflicts = &mut self.counters.conflicts;
        let aggregated_ports = &mut self.aggregated_ports;
        self.claims.reject(owner, answer, now, |id, claim| {
            aggregated_ports.on_claim_rejected(id.to, claim.from, now, network);
            if id.addr.is_none() {
                // Instead of a host that lies, something may connect the two ports.
                network.publish_event(now, SuspectedConnection { ports: [claim.from, id.to] });
            }
            let is_reported = conflicts.report(now, network, || {
                let (owner, at, to) = (HostFields(id.owner), PortFields(claim.from), PortFields(id.to));
                match id.addr {
                    Some(addr) => {
                        let claimant = HostFields(claim.claimant);
                        format!("IP address conflict, {action}: addr={addr} owner: {owner} {at}; claimant: {claimant} {to}")
                    }
                    None => format!("MAC address conflict, {action}: owner: {owner} {at}; claimant: {to}"),
                }
            });
            if is_reported {
                let conflict = Notification::AddressConflict {
                    owner: id.owner,
                    owner_at: claim.from,
                    addr: id.addr,
                    claimant: claim.claimant,
                    claimant_at: id.to,
                    is_rejected,
                };
                network.notify(now, conflict);
            }
        });
    }

    /// Continues the verification of claims whose time is over.
    pub(super) fn continue_claims(&mut self, now: Instant, network: &mut Network) {
        for _ in 0..CLAIMS_PER_ITERATION_MAX {
            let Some((id, mut claim)) = self.claims.take_due(now) else { break };
            match claim.state {
                ClaimState::Probed => {
                    (claim.state, claim.due) = (ClaimState::ProbedAgain, now + claim.timeout / 2);
                    let from = claim.from;
                    self.claims.insert(id, claim);
                    self.probe_owner(id, from, now, network);
                }
                ClaimState::ProbedAgain => self.accept_claim(id, claim, now, network),
                ClaimState::Rejected => {}
            }
        }
        if let Some(due) = self.claims.next_due() {
            network.defer_work_until(due);
        }
    }

    /// Accepts a claim that its owner did not answer, unless things have changed meanwhile.
    fn accept_claim(&mut self, id: ClaimId, claim: Claim, now: Instant, network: &mut Network) {
        let ClaimId { owner, addr, to } = id;
        let view = network.view();
        let is_at = |host, at| view.host(host).is_some_and(|host| host.at == at);
        if !is_at(owner, claim.from) || !is_attachment_port(view, to) {
            return;
        }
        match addr {
            None => {
                let has_room = self.make_room(owner, to, now, network);
                if !has_room || !self.admit_move(id.subject(), (claim.from, to), now, network) {
                    return;
                }
                self.move_host(owner, to, now, network);
            }
            Some(addr) => {
                let is_owned =
                    view.host_by_addr(addr, owner.vlan).is_some_and(|(id, _)| id == owner);
                if !is_owned || !is_at(claim.claimant, to) {
                    return;
                }
                if !self.admit_addr_move(addr, owner, (claim.from, to), now, network) {
                    return;
                }
                self.add_addr(claim.claimant, addr, claim.source, now, network);
            }
        }
        if let Some(frame) = claim.frame {
            // The switch processes it as if it arrived now.
            let matching = [Field::in_port(to.port)].into();
            let actions = vec![Action::output(PortNo::TABLE)];
            let data = frame.into_vec();
            let message = PacketOut { buffer_id: None, matching, actions, data };
            network.send_to(to.switch, Message::PacketOut(message));
        }
    }
}
