//! Paths that controllers install through an emulated network, each in its own way, and faults that are not paths.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail anywhere"
)]

#[path = "support/network.rs"]
mod network;

use std::time::Duration;

use network::{
    Packet, Routes, ToSwitch, add, entry, group_of, groups, install, install_destinations,
    install_one_hop, install_pairs, measure, misses_to_controller, output, packet_out, plan,
};
use sluice_bench::paths::{Directions, PathFigures};
use sluice_bench::{Plan, Report};
use sluice_openflow::{
    Action, Field, FieldId, FlowMod, Instruction, Message, PortNo, Version, Versions,
};

/// Everything that was requested was installed.
fn assert_complete(report: &Report) -> PathFigures {
    let counts = report.counts;
    assert!(counts.answered > 0, "{counts:?} {:?} {:?}", report.paths, report.warnings);
    assert_eq!((counts.never_answered, counts.sent), (0, counts.answered), "{counts:?}");
    assert_eq!(report.loops.iter().map(|it| it.answered.len()).sum::<usize>(), 9);
    let figures = report.paths.unwrap();
    assert_eq!((figures.refused_messages, figures.looping_frames), (0, 0));
    figures
}

/// Nothing was counted as a path.
fn assert_nothing_installed(report: &Report) {
    let counts = report.counts;
    assert!(counts.sent > 0 && counts.answered == 0, "{counts:?}");
    assert_eq!(counts.never_answered, counts.sent);
    let warns = report.warnings.iter().any(|it| it.starts_with("no path was installed"));
    assert!(warns, "{:?}", report.warnings);
}

/// A measurement of a controller of which every request times out.
fn measure_fault(answer: network::Answer) -> Report {
    let (shape, version) = ("linear,3,4", Version::V1_3);
    let target = network::controller(shape, version, misses_to_controller, answer);
    let timeout = Duration::from_millis(40);
    let plan = Plan { timeout, ..plan(target, shape, version, Directions::Both) };
    sluice_bench::run(&plan, &mut ()).unwrap()
}

#[test]
fn paths_of_every_version_are_counted() {
    for version in Versions::SUPPORTED.iter() {
        let report = measure(version, Directions::Both, misses_to_controller, install_pairs);
        let figures = assert_complete(&report);
        assert_eq!((figures.already_installed, figures.answers), (0, 0), "{version}");
    }
}

#[test]
fn paths_of_flow_entries_that_match_the_destination_only_are_counted() {
    for version in Versions::SUPPORTED.iter() {
        let (welcome, answer) = (misses_to_controller, install_destinations);
        let report = measure(version, Directions::Both, welcome, answer);
        assert_eq!(assert_complete(&report).already_installed, 0, "{version}");
    }
}

#[test]
fn paths_of_flow_entries_that_match_ip_addresses_are_counted() {
    fn install_ip(routes: &Routes, p: &Packet) -> Vec<ToSwitch> {
        install(routes, p, |src, dst| {
            // In these topologies, the MAC address is the number of the host, and 10.0.0.0 plus that its IPv4 address.
            let ip = |mac: sluice_openflow::MacAddr| u128::from(0x0a00_0000 + mac.to_u64());
            let (src, dst) =
                (Field::new(FieldId::IPV4_SRC, ip(src)), Field::new(FieldId::IPV4_DST, ip(dst)));
            vec![Field::eth_type(0x0800), src, dst]
        })
    }
    for version in Versions::SUPPORTED.iter() {
        let report = measure(version, Directions::Both, misses_to_controller, install_ip);
        assert_complete(&report);
    }
}

#[test]
fn paths_through_several_tables_are_counted() {
    /// The first table leads to the second, which leads to the third, where packets without an entry go to the controller.
    fn tables(_: &Routes, switch: usize) -> Vec<ToSwitch> {
        let goto = |from, to| FlowMod {
            table_id: from,
            instructions: vec![Instruction::GotoTable { table_id: to }],
            priority: 0,
            ..FlowMod::default()
        };
        let miss = FlowMod { table_id: 2, ..FlowMod::table_miss(u16::MAX) };
        [goto(0, 1), goto(1, 2), miss].map(|it| (switch, Message::FlowMod(it))).into()
    }
    /// The second table marks the source, the third forwards by mark and destination.
    fn install_in_tables(routes: &Routes, p: &Packet) -> Vec<ToSwitch> {
        let mut messages = vec![];
        for (src, dst, path) in routes.both(p) {
            for at in &path {
                let mark =
                    Instruction::WriteMetadata { metadata: src.to_u64(), metadata_mask: u64::MAX };
                let goto = Instruction::GotoTable { table_id: 2 };
                let marking = entry(&[Field::eth_src(src)], vec![mark, goto]);
                messages.push(add(at, FlowMod { table_id: 1, ..marking }));
                let fields =
                    [Field::new(FieldId::METADATA, src.to_u64().into()), Field::eth_dst(dst)];
                let actions = vec![Action::output(at.port)];
                let forwarding = entry(&fields, vec![Instruction::WriteActions { actions }]);
                messages.push(add(at, FlowMod { table_id: 2, ..forwarding }));
            }
        }
        messages.push(packet_out(&routes.host(p.dst), p));
        messages
    }
    for version in Versions::SUPPORTED.iter().filter(|&version| version > Version::V1_0) {
        let report = measure(version, Directions::Both, tables, install_in_tables);
        assert_eq!(assert_complete(&report).already_installed, 0, "{version}");
    }
}

#[test]
fn paths_through_groups_are_counted() {
    fn install_with_groups(routes: &Routes, p: &Packet) -> Vec<ToSwitch> {
        let mut messages = vec![];
        for (src, dst, path) in routes.both(p) {
            for at in &path {
                let to_group =
                    Instruction::apply([Action::Group { group_id: group_of(at.port).0 }]);
                let fields = [Field::eth_src(src), Field::eth_dst(dst)];
                messages.push(add(at, entry(&fields, vec![to_group])));
            }
        }
        messages.push(packet_out(&routes.host(p.dst), p));
        messages
    }
    for version in Versions::SUPPORTED.iter().filter(|&version| version > Version::V1_0) {
        let report = measure(version, Directions::Both, groups, install_with_groups);
        assert_complete(&report);
    }
}

#[test]
fn paths_of_rewritten_packets_are_counted() {
    /// The first switch of the path pushes a tag, the last one pops it.
    fn install_tagged(routes: &Routes, p: &Packet) -> Vec<ToSwitch> {
        const VLAN: u128 = 0x1000 | 5;
        let mut messages = vec![];
        for (src, dst, path) in routes.both(p) {
            for (n, at) in path.iter().enumerate() {
                let tag =
                    if n == 0 { Field::untagged() } else { Field::new(FieldId::VLAN_VID, VLAN) };
                let fields = [Field::eth_src(src), Field::eth_dst(dst), tag];
                let mut actions = vec![Action::output(at.port)];
                if n == 0 {
                    let field = Field::new(FieldId::VLAN_VID, VLAN);
                    actions.splice(
                        0..0,
                        [
                            Action::PushVlan { ethertype: 0x8100 },
                            Action::SetField { field: field.into() },
                        ],
                    );
                } else if n + 1 == path.len() {
                    actions.insert(0, Action::PopVlan);
                }
                messages.push(add(at, entry(&fields, vec![Instruction::apply(actions)])));
            }
        }
        messages.push(packet_out(&routes.host(p.dst), p));
        messages
    }
    for version in [Version::V1_2, Version::V1_3, Version::V1_4, Version::V1_5] {
        let report = measure(version, Directions::Both, misses_to_controller, install_tagged);
        assert_complete(&report);
    }
}

#[test]
fn paths_that_are_installed_hop_by_hop_are_counted() {
    for version in Versions::SUPPORTED.iter() {
        for directions in [Directions::One, Directions::Both] {
            let report = measure(version, directions, misses_to_controller, install_one_hop);
            let figures = assert_complete(&report);
            let answers = if directions == Directions::One { 0 } else { report.counts.answered };
            assert_eq!(figures.answers, answers, "{version}: destinations answer");
        }
    }
}

#[test]
fn a_packet_that_the_controller_sends_through_the_tables_is_delivered() {
    fn install_and_resubmit(routes: &Routes, p: &Packet) -> Vec<ToSwitch> {
        let mut messages = install_pairs(routes, p);
        messages.pop();
        let at = sluice_emu::topology::PortRef { switch: p.switch, port: PortNo::TABLE };
        // The path is installed from its end, so that the packet finds all of it.
        messages.reverse();
        messages.push(packet_out(&at, p));
        messages
    }
    let report =
        measure(Version::V1_3, Directions::One, misses_to_controller, install_and_resubmit);
    assert_complete(&report);
}

#[test]
fn a_wrong_output_port_is_no_path() {
    fn install_wrong(routes: &Routes, p: &Packet) -> Vec<ToSwitch> {
        let mut messages = install_pairs(routes, p);
        let last = routes.host(p.dst);
        let other = routes.topology.hosts.iter().map(|host| host.port);
        let other =
            other.filter(|it| it.switch == last.switch && it.port != last.port).min().unwrap();
        for (switch, message) in &mut messages {
            if let Message::FlowMod(f) = message
                && *switch == last.switch
                && f.instructions == output(last.port)
            {
                f.instructions = output(other.port);
            }
        }
        messages
    }
    assert_nothing_installed(&measure_fault(install_wrong));
}

#[test]
fn a_loop_is_no_path() {
    fn install_loop(routes: &Routes, p: &Packet) -> Vec<ToSwitch> {
        let mut messages = install_pairs(routes, p);
        for (switch, message) in &mut messages {
            if let Message::FlowMod(f) = message
                && *switch == 1
            {
                f.instructions = output(PortNo::IN_PORT);
            }
            if let Message::FlowMod(f) = message
                && *switch == routes.host(p.src).switch
                && f.matching == [Field::eth_src(p.src), Field::eth_dst(p.dst)].into()
            {
                // What comes back is sent again.
                let in_port = p.in_port;
                let to_middle = routes.path(p.switch, p.dst)[0].port;
                f.instructions = vec![Instruction::apply([
                    Action::output(if in_port == to_middle { PortNo::IN_PORT } else { to_middle }),
                    Action::output(PortNo::IN_PORT),
                ])];
            }
        }
        messages
    }
    assert_nothing_installed(&measure_fault(install_loop));
}

#[test]
fn a_path_without_the_reverse_direction_is_no_path_in_both_directions() {
    fn install_forward(routes: &Routes, p: &Packet) -> Vec<ToSwitch> {
        let is_answer = p.src.to_u64() > p.dst.to_u64();
        let path = routes.path(routes.host(p.src).switch, p.dst);
        let entries = path.iter().filter(|_| !is_answer).map(|at| {
            add(at, entry(&[Field::eth_src(p.src), Field::eth_dst(p.dst)], output(at.port)))
        });
        entries.chain([packet_out(&routes.host(p.dst), p)]).collect()
    }
    assert_nothing_installed(&measure_fault(install_forward));
    let (version, welcome) = (Version::V1_3, misses_to_controller);
    let report = measure(version, Directions::One, welcome, install_pairs);
    assert_complete(&report);
}

#[test]
fn flow_entries_without_the_packet_are_no_path() {
    fn install_without_packet(routes: &Routes, p: &Packet) -> Vec<ToSwitch> {
        let mut messages = install_pairs(routes, p);
        messages.pop();
        messages
    }
    assert_nothing_installed(&measure_fault(install_without_packet));
}

#[test]
fn a_packet_without_flow_entries_is_no_path() {
    fn send_only(routes: &Routes, p: &Packet) -> Vec<ToSwitch> {
        vec![packet_out(&routes.host(p.dst), p)]
    }
    assert_nothing_installed(&measure_fault(send_only));
}

#[test]
fn if_only_the_arrival_counts_no_flow_entries_are_needed_and_none_are_kept() {
    fn send_only(routes: &Routes, p: &Packet) -> Vec<ToSwitch> {
        vec![packet_out(&routes.host(p.dst), p)]
    }
    fn send_nothing(routes: &Routes, p: &Packet) -> Vec<ToSwitch> {
        let mut messages = install_pairs(routes, p);
        messages.pop();
        messages
    }
    let shape = "linear,3,4";
    for version in [Version::V1_0, Version::V1_3] {
        for (answer, flow_mods) in [(send_only as network::Answer, 0.0), (install_pairs, 6.0)] {
            let target = network::controller(shape, version, misses_to_controller, answer);
            // Long enough that pairs are requested again: their entries would be installed then.
            let loop_time = Duration::from_millis(200);
            let plan = Plan { loop_time, ..plan(target, shape, version, Directions::None) };
            let figures = assert_complete(&sluice_bench::run(&plan, &mut ()).unwrap());
            assert_eq!((figures.already_installed, figures.answers), (0, 0), "{version}");
            let per_path = figures.flow_mods_per_second / figures.packet_outs_per_second;
            assert!((per_path - flow_mods).abs() < 0.5, "{version}: {per_path} flow-mods");
        }
    }
    let version = Version::V1_3;
    let target = network::controller(shape, version, misses_to_controller, send_nothing);
    let timeout = Duration::from_millis(40);
    let plan = Plan { timeout, ..plan(target, shape, version, Directions::None) };
    assert_nothing_installed(&sluice_bench::run(&plan, &mut ()).unwrap());
}

#[test]
fn few_hosts_reduce_the_window_and_lose_nothing() {
    let (shape, version) = ("leafspine,2,4,8", Version::V1_3);
    let target = network::controller(shape, version, misses_to_controller, install_pairs);
    let mut plan = plan(target, shape, version, Directions::Both);
    plan.load = sluice_bench::Load::WindowTotal(256);
    let report = sluice_bench::run(&plan, &mut ()).unwrap();
    assert!(report.counts.answered > 0 && report.counts.never_answered == 0, "{:?}", report.counts);
    let reduced = "the window was reduced from 256 to 8, a quarter of the 32 hosts";
    let warns = report.warnings.iter().any(|warning| warning.starts_with(reduced));
    assert!(warns, "{:?}", report.warnings);
}

#[test]
fn paths_that_are_installed_in_advance_are_not_counted() {
    fn all_destinations(routes: &Routes, switch: usize) -> Vec<ToSwitch> {
        let entries = routes.topology.hosts.iter().map(|host| {
            let at = routes.path(switch, host.mac)[0];
            // A prefix of one bit less than the address, so that no entry belongs to one host.
            let dst =
                Field::new(FieldId::ETH_DST, host.mac.to_u64().into()).masked(0x7fff_ffff_ffff);
            add(&at, entry(&[dst], output(at.port)))
        });
        entries.collect()
    }
    let report = measure(Version::V1_3, Directions::Both, all_destinations, |_, _| vec![]);
    assert_eq!((report.counts.sent, report.counts.answered), (0, 0));
    assert!(report.paths.unwrap().already_installed > 0);
    let warns = report.warnings.iter().any(|it| it.starts_with("no path could be requested"));
    assert!(warns, "{:?}", report.warnings);
}
