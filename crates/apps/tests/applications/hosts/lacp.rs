//! Devices that aggregate links.

use sluice_apps::hosts::{Config, ConflictPolicy};
use sluice_openflow::MacAddr;
use sluice_sdk::Verdict;
use sluice_sdk::view::{PortRole, SwitchPort};
use sluice_testkit::switch_port;

use crate::hosts::frames::{is_at, who_has};
use crate::hosts::test_network::{TestNetwork, in_all_versions};

const DEVICE: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const SWITCHES: MacAddr = MacAddr([0x0e, 0x53, 0x4c, 0, 0, 4]);

/// Bits of the state of a port. IEEE 802.1AX §5.4.2.2.
const ACTIVE: u8 = 1;
const SHORT_TIMEOUT: u8 = 1 << 1;
const AGGREGATION: u8 = 1 << 2;
const IN_SYNC: u8 = 1 << 3;
const SENDS: u8 = 3 << 4;

/// What a device that is not in use yet states.
const READY: u8 = ACTIVE | AGGREGATION | IN_SYNC;

const FIRST: SwitchPort = switch_port(1, 3);
const SECOND: SwitchPort = switch_port(1, 4);
const OTHER_SWITCH: SwitchPort = switch_port(2, 3);

/// A frame from `system`; its port has the number `port`.
pub(crate) fn lacp(system: MacAddr, key: u8, port: u8, state: u8) -> Vec<u8> {
    let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 2];
    frame.extend(DEVICE.0);
    frame.extend([0x88, 0x09, 1, 1, 1, 20, 0xff, 0xff]);
    frame.extend(system.0);
    frame.extend([0, key, 0, 255, 0, port, state, 0, 0, 0, 2, 20]);
    frame.resize(124, 0);
    frame
}

/// The state that the controller answers to a frame that is received at `at`.
#[track_caller]
fn answer(net: &mut TestNetwork, at: SwitchPort, frame: &[u8]) -> Option<u8> {
    assert_eq!(net.receive(at, frame), Verdict::Stop);
    let sent = net.take_sent();
    assert!(sent.len() <= 1, "{sent:?}");
    sent.first().map(|sent| {
        assert_eq!(sent.at, at);
        assert_eq!(&sent.frame[38..56], &frame[18..36], "the device, as it stated itself");
        state(&sent.frame)
    })
}

#[track_caller]
fn state(answer: &[u8]) -> u8 {
    assert_eq!(answer.len(), 124);
    assert_eq!(answer[..6], [0x01, 0x80, 0xc2, 0, 0, 2]);
    assert_eq!(answer[20..26], SWITCHES.0);
    answer[32]
}

/// The states that the controller answers in turn to frames from ports of one device, after `seconds` with such frames.
#[track_caller]
fn states_after<const N: usize>(
    net: &mut TestNetwork,
    seconds: u64,
    ports: [(SwitchPort, u8); N],
) -> [u8; N] {
    let mut states = [0; N];
    for second in 0..=seconds {
        for (n, &(at, state)) in ports.iter().enumerate() {
            let port = u8::try_from(n).unwrap();
            states[n] = answer(net, at, &lacp(DEVICE, 1, port, state)).unwrap();
        }
        if second < seconds {
            net.wait_ms(1000);
        }
    }
    states
}

/// A host answers a probe of the controller about a claim.
fn conflict_answer(host: MacAddr, addr: &str) -> Vec<u8> {
    let probe_source = MacAddr([0x0e, 0x53, 0x4c, 0, 0, 2]);
    is_at(host, addr, (probe_source, "0.0.0.0"))
}

/// The ports whose devices were told something without having asked.
#[track_caller]
fn told_states(net: &mut TestNetwork) -> Vec<(SwitchPort, u8)> {
    net.take_sent().iter().map(|sent| (sent.at, state(&sent.frame))).collect()
}

const STANDS_BY: u8 = SHORT_TIMEOUT | AGGREGATION;
const IN_USE: u8 = STANDS_BY | IN_SYNC | SENDS;

#[test]
fn one_port_of_a_device_is_in_use_and_the_others_stand_by() {
    in_all_versions(&Config::default(), |net| {
        let ports = [(FIRST, READY), (SECOND, READY), (OTHER_SWITCH, READY)];
        assert_eq!(states_after(net, 1, ports), [STANDS_BY; 3], "others may be in use");
        assert_eq!(states_after(net, 2, ports), [IN_USE, STANDS_BY, STANDS_BY]);
        assert_eq!(states_after(net, 9, ports), [IN_USE, STANDS_BY, STANDS_BY]);
        assert_eq!([net.metric("hosts_lacp_ports"), net.metric("hosts_lacp_ports_in_use")], [3, 1]);
    });
}

#[test]
fn a_device_that_is_not_in_sync_is_told_not_to_send() {
    in_all_versions(&Config::default(), |net| {
        let ports = [(FIRST, ACTIVE | AGGREGATION)];
        assert_eq!(states_after(net, 2, ports), [STANDS_BY | IN_SYNC]);
    });
}

#[test]
fn when_the_port_in_use_goes_down_another_one_is_told_at_once() {
    in_all_versions(&Config::default(), |net| {
        for other in [SECOND, OTHER_SWITCH] {
            let ports = [(FIRST, READY), (other, READY)];
            assert_eq!(states_after(net, 2, ports), [IN_USE, STANDS_BY]);
            net.port_down(FIRST);
            assert_eq!(told_states(net), [(other, IN_USE)]);
            net.set_role(FIRST, PortRole::Edge);
            assert_eq!(states_after(net, 3, ports), [STANDS_BY, IN_USE], "it stays in use");
            net.port_down(other);
            net.take_sent();
            net.set_role(other, PortRole::Edge);
            net.wait_ms(6000);
        }
    });
}

#[test]
fn a_port_that_is_silent_for_five_seconds_is_replaced() {
    in_all_versions(&Config::default(), |net| {
        let ports = [(FIRST, READY), (SECOND, READY)];
        assert_eq!(states_after(net, 2, ports), [IN_USE, STANDS_BY]);
        assert_eq!(states_after(net, 4, [(SECOND, READY)]), [STANDS_BY]);
        net.wait_ms(1000);
        assert_eq!(told_states(net), [(SECOND, IN_USE)]);
    });
}

#[test]
fn a_port_of_another_switch_is_in_use_while_the_first_switch_is_disconnected() {
    in_all_versions(&Config::default(), |net| {
        let ports = [(FIRST, READY), (OTHER_SWITCH, READY)];
        assert_eq!(states_after(net, 2, ports), [IN_USE, STANDS_BY]);
        net.disconnect_switch(1);
        assert_eq!(told_states(net), [(OTHER_SWITCH, IN_USE)]);
        assert_eq!(states_after(net, 0, [(OTHER_SWITCH, READY)]), [IN_USE]);
        net.connect_switch(1);
        assert_eq!(states_after(net, 3, ports), [STANDS_BY, IN_USE]);
    });
}

#[test]
fn after_a_restart_the_port_through_which_the_device_sends_stays_in_use() {
    in_all_versions(&Config::default(), |net| {
        let ports = [(FIRST, READY), (SECOND, READY | SENDS)];
        assert_eq!(states_after(net, 0, ports), [STANDS_BY, IN_USE]);
        assert_eq!(states_after(net, 3, ports), [STANDS_BY, IN_USE]);
        let only = [(OTHER_SWITCH, READY | SENDS)];
        net.port_down(SECOND);
        net.port_down(FIRST);
        net.take_sent();
        assert_eq!(states_after(net, 0, only), [IN_USE]);
    });
}

#[test]
fn a_port_changes_its_bundle_once_in_two_seconds_at_most() {
    in_all_versions(&Config::default(), |net| {
        states_after(net, 3, [(FIRST, READY), (SECOND, READY)]);
        let other = lacp(DEVICE, 2, 1, READY);
        net.receive(FIRST, &other);
        assert_eq!(told_states(net), [(SECOND, IN_USE), (FIRST, STANDS_BY)]);
        for key in [1, 3, 4] {
            net.wait_ms(250);
            assert_eq!(answer(net, FIRST, &lacp(DEVICE, key, 1, READY)), None);
        }
        net.wait_ms(1250);
        assert_eq!(answer(net, FIRST, &other), Some(IN_USE));
        assert_eq!(answer(net, SECOND, &lacp(DEVICE, 1, 2, READY)), Some(IN_USE));
    });
}

#[test]
fn a_port_that_joins_later_is_not_used_whatever_it_states() {
    in_all_versions(&Config::default(), |net| {
        assert_eq!(states_after(net, 3, [(SECOND, READY)]), [IN_USE]);
        assert_eq!(
            states_after(net, 3, [(SECOND, READY), (FIRST, READY | SENDS)]),
            [IN_USE, STANDS_BY]
        );
    });
}

#[test]
fn links_of_different_devices_or_keys_and_individual_ones_are_all_in_use() {
    in_all_versions(&Config::default(), |net| {
        let ports = [
            (switch_port(1, 1), lacp(DEVICE, 1, 1, READY), IN_USE),
            (switch_port(1, 2), lacp(DEVICE, 2, 2, READY), IN_USE),
            (switch_port(1, 3), lacp(MacAddr([2; 6]), 1, 1, READY), IN_USE),
            (switch_port(2, 4), lacp(DEVICE, 1, 4, IN_SYNC), IN_USE & !AGGREGATION),
            (switch_port(2, 5), lacp(DEVICE, 1, 5, IN_SYNC), IN_USE & !AGGREGATION),
        ];
        for (at, frame, _) in &ports {
            answer(net, *at, frame);
        }
        net.wait_ms(2000);
        for (at, frame, expected) in &ports {
            assert_eq!(answer(net, *at, frame), Some(*expected), "{at:?}");
        }
    });
}

#[test]
fn frames_of_bridges_and_of_lacp_teach_nothing() {
    in_all_versions(&Config::default(), |net| {
        let mut spanning_tree = lacp(DEVICE, 1, 1, READY);
        spanning_tree[5] = 0;
        assert_eq!(net.receive(FIRST, &spanning_tree), Verdict::Continue);
        assert_eq!(net.receive(FIRST, &lacp(DEVICE, 1, 1, READY)), Verdict::Stop);
        assert_eq!(net.location(DEVICE), None);
    });
}

/// A restart of the controller, where another host is faster than the device.
#[test]
fn the_port_where_the_device_is_known_comes_before_a_port_that_claims_to_send_for_it() {
    in_all_versions(&Config::default(), |net| {
        net.receive(SECOND, &who_has(DEVICE, "10.0.0.9", "10.0.0.1"));
        let ports = [(FIRST, READY | SENDS), (SECOND, READY | SENDS)];
        assert_eq!(states_after(net, 0, ports), [IN_USE, IN_USE], "the other was the only one");
        assert_eq!(states_after(net, 3, ports), [STANDS_BY, IN_USE]);
        let ports = [(OTHER_SWITCH, READY | SENDS), (SECOND, READY)];
        assert_eq!(states_after(net, 3, ports), [STANDS_BY, IN_USE]);
    });
}

#[test]
fn the_location_of_the_device_is_no_evidence_if_claims_are_not_verified() {
    let cfg = Config { address_conflicts: ConflictPolicy::Off, ..Config::default() };
    in_all_versions(&cfg, |net| {
        net.wait_ms(250);
        net.receive(SECOND, &who_has(DEVICE, "10.0.0.9", "10.0.0.1"));
        let ports = [(FIRST, READY), (SECOND, READY)];
        assert_eq!(states_after(net, 3, ports), [IN_USE, STANDS_BY]);
    });
}

/// The device is a switch with other hosts behind it.
#[test]
fn a_port_whose_claim_of_a_host_behind_the_device_is_rejected_comes_last() {
    in_all_versions(&Config::default(), |net| {
        let behind = MacAddr([2, 0, 0, 0, 0, 0x1a]);
        net.receive(FIRST, &who_has(behind, "10.0.0.26", "10.0.0.1"));
        let ports = [(FIRST, READY), (SECOND, READY), (OTHER_SWITCH, READY)];
        assert_eq!(states_after(net, 3, ports), [IN_USE, STANDS_BY, STANDS_BY]);
        net.receive(SECOND, &who_has(behind, "10.0.0.26", "10.0.0.1"));
        net.take_sent();
        net.receive(FIRST, &conflict_answer(behind, "10.0.0.26"));
        net.iterate();
        assert_eq!(net.metric("hosts_conflicts"), 1);
        net.port_down(FIRST);
        assert_eq!(told_states(net), [(OTHER_SWITCH, IN_USE)]);
        net.port_down(OTHER_SWITCH);
        assert_eq!(told_states(net), [(SECOND, IN_USE)], "rather than none");
        net.set_role(FIRST, PortRole::Edge);
        let ports = [(FIRST, READY), (SECOND, READY)];
        assert_eq!(states_after(net, 3, ports), [IN_USE, STANDS_BY]);
    });
}

/// A Linux bond sends these frames with the address of each of its interfaces, one of which is that of the bond.
#[test]
fn a_host_stays_at_the_port_in_use_although_another_sends_lacp_with_its_address() {
    in_all_versions(&Config::default(), |net| {
        net.receive(SECOND, &who_has(DEVICE, "10.0.0.9", "10.0.0.1"));
        states_after(net, 3, [(FIRST, READY), (SECOND, READY | SENDS)]);
        assert_eq!(net.location(DEVICE), Some(SECOND));
    });
}

#[test]
fn at_most_five_frames_per_second_and_port_are_answered() {
    in_all_versions(&Config::default(), |net| {
        for second in 1..=2 {
            let frame = lacp(DEVICE, 1, 1, READY);
            let answers = (0..50).filter_map(|_| answer(net, FIRST, &frame)).count();
            assert_eq!(answers, 5);
            assert!(answer(net, SECOND, &frame).is_some(), "other ports are not affected");
            assert_eq!(net.metric("hosts_lacp_frames_ignored"), second * 45);
            net.wait_ms(1000);
        }
    });
}

#[test]
fn malformed_frames_and_those_of_the_controller_are_ignored() {
    in_all_versions(&Config::default(), |net| {
        let frame = lacp(DEVICE, 1, 1, READY);
        for len in [14, 20, 35] {
            let expected = if len == 14 { Verdict::Continue } else { Verdict::Stop };
            assert_eq!(net.receive(FIRST, &frame[..len]), expected, "{len}");
        }
        net.receive(FIRST, &lacp(SWITCHES, 1, 1, READY));
        assert_eq!(net.take_sent(), []);
        assert_eq!(
            [net.metric("hosts_lacp_ports"), net.metric("hosts_lacp_frames_ignored")],
            [0, 3]
        );
    });
}

#[test]
fn ports_that_lead_to_switches_are_not_answered() {
    in_all_versions(&Config::default(), |net| {
        for role in [PortRole::Link, PortRole::Pending] {
            net.set_role(FIRST, role);
            assert_eq!(net.receive(FIRST, &lacp(DEVICE, 1, 1, READY)), Verdict::Continue);
        }
        assert_eq!((net.take_sent(), net.metric("hosts_lacp_ports")), (vec![], 0));
    });
}

#[test]
fn nothing_is_answered_when_it_is_switched_off() {
    in_all_versions(&Config::default(), |net| {
        states_after(net, 3, [(FIRST, READY)]);
        for worker in &mut net.workers {
            worker.app.configure(&Config { lacp: false, ..Config::default() });
        }
        net.wait_ms(250);
        assert_eq!(net.metric("hosts_lacp_ports"), 0);
        assert_eq!(net.receive(FIRST, &lacp(DEVICE, 1, 1, READY)), Verdict::Continue);
        assert_eq!(net.take_sent(), []);
    });
}
