//! Limits of the number of ports.

use sluice_engine::{Config, PORTS_PER_SWITCH_MAX};
use sluice_io::simulated::ClockError;
use sluice_openflow::{Message, Port, PortNo, PortReason, PortStatus};
use sluice_sdk::{App, Ctx};

use crate::test_engine::{TestEngine, TestSwitch};

/// Counts ticks and changes of ports.
#[derive(Default)]
struct CountingApp {
    ticks: usize,
    port_changes: usize,
}

impl App for CountingApp {
    fn on_tick(&mut self, _: &mut Ctx<'_>) {
        self.ticks += 1;
    }

    fn on_port_status(&mut self, _: &PortStatus, _: &mut Ctx<'_>) {
        self.port_changes += 1;
    }
}

fn engine(change: impl FnOnce(&mut Config)) -> TestEngine<CountingApp> {
    let mut cfg = Config::default();
    change(&mut cfg);
    TestEngine::with_config(cfg, &[ClockError::default()], |_| CountingApp::default())
}

fn app(test: &TestEngine<CountingApp>) -> &CountingApp {
    test.engine.apps().next().unwrap()
}

/// Sends `PORT_STATUS` messages.
fn send_ports(
    test: &mut TestEngine<CountingApp>,
    switch: &TestSwitch,
    reason: PortReason,
    numbers: impl Iterator<Item = u32>,
) {
    let message = |no| {
        let port = Port { port_no: PortNo(no), ..Port::default() };
        switch.encode(&Message::PortStatus(PortStatus { reason, port }))
    };
    let messages: Vec<_> = numbers.map(message).collect();
    for some in messages.chunks(1000) {
        switch.send_bytes(&test.kernel, &some.concat());
        test.run_all();
    }
}

#[test]
fn the_timers_of_switches_with_many_ports_are_spread_over_iterations() {
    const WORKER: usize = 1;
    let mut test = engine(|_| ());
    let switches: Vec<_> = (1..=9).map(|id| test.connect_from(2, id, 3000)).collect();
    let before = app(&test).ticks;
    // Until the next tick of all.
    test.pass(std::time::Duration::from_millis(250));
    let mut counts = Vec::new();
    while app(&test).ticks < before + switches.len() {
        let before = app(&test).ticks;
        test.run(WORKER);
        counts.push(app(&test).ticks - before);
    }
    assert_eq!(counts.iter().max(), Some(&2), "of 3 000 ports each: {counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), switches.len(), "each once");
}

#[test]
fn ports_beyond_the_limit_of_a_switch_are_ignored() {
    let mut test = engine(|_| ());
    let switch = test.connect(1);
    send_ports(&mut test, &switch, PortReason::ADD, 1..10_001);
    assert_eq!(app(&test).port_changes, PORTS_PER_SWITCH_MAX);
    assert_eq!(test.counter("ports_ignored"), 10_000 - PORTS_PER_SWITCH_MAX as u64);
    // Deletions of ports that are not known are of no interest to applications.
    send_ports(&mut test, &switch, PortReason::DELETE, 9000..10_000);
    assert_eq!(app(&test).port_changes, PORTS_PER_SWITCH_MAX);
    // The place of a deleted port is free after a minute.
    send_ports(&mut test, &switch, PortReason::DELETE, 1..11);
    send_ports(&mut test, &switch, PortReason::ADD, 20_000..20_010);
    assert_eq!(app(&test).port_changes, PORTS_PER_SWITCH_MAX + 10);
    assert!(test.is_connected(&switch));
}

#[test]
fn if_all_switches_have_too_many_ports_the_largest_of_the_address_with_the_most_is_closed() {
    let mut test = engine(|cfg| cfg.limits.ports_max = 1000);
    let many: Vec<_> = [200, 300, 100, 200]
        .into_iter()
        .zip(1..)
        .map(|(ports, id)| test.connect_from(2, id, ports))
        .collect();
    let few = test.connect_from(3, 10, 150);
    assert_eq!(test.counter("connections_closed"), 0);
    let newcomer = test.connect_from(4, 20, 100);
    let are_open =
        |test: &TestEngine<_>| many.iter().map(|it| test.is_connected(it)).collect::<Vec<_>>();
    assert_eq!(are_open(&test), [true, false, true, true]);
    assert!(test.is_connected(&few) && test.is_connected(&newcomer));
    let one_more = test.connect_from(2, 5, 300);
    assert!(!test.is_connected(&one_more), "its own address has the most");
    assert_eq!(test.counter_of("connections_closed", "too_many_ports"), 2);
    // A switch may get ports later as well.
    send_ports(&mut test, &many[2], PortReason::ADD, 1000..1900);
    test.pass(std::time::Duration::from_millis(500));
    test.run_all();
    assert_eq!(are_open(&test), [true, false, false, true]);
    assert!(test.is_connected(&few) && test.is_connected(&newcomer));
}

#[test]
fn connections_that_claim_a_datapath_id_in_use_count_and_are_closed_first() {
    let mut test = engine(|cfg| cfg.limits.ports_max = 1000);
    let owner = test.connect_from(2, 1, 100);
    let claimant = test.connect_from(3, 1, 700);
    let other = test.connect_from(4, 2, 200);
    assert!(test.is_connected(&claimant), "until the owner has answered");
    let newcomer = test.connect_from(4, 3, 100);
    assert!(!test.is_connected(&claimant));
    assert!([&owner, &other, &newcomer].into_iter().all(|it| test.is_connected(it)));
    assert_eq!(test.counter_of("connections_closed", "too_many_ports"), 1);
}

/// They used to fill the handshake limit without being evicted, so that nobody else got in.
#[test]
fn connections_that_claim_datapath_ids_in_use_keep_no_other_source_out() {
    let mut test = engine(|cfg| cfg.limits.handshakes_max = 4);
    let owners: Vec<_> = (1..=4).map(|id| test.connect_from(2, id, 4)).collect();
    let claimants: Vec<_> = (1..=4).map(|id| test.connect_from(2, id, 4)).collect();
    assert!(claimants.iter().all(|it| test.is_connected(it)), "the owners have not answered");
    let newcomer = test.connect_from(3, 10, 4);
    assert!(test.is_connected(&newcomer));
    assert!(owners.iter().all(|it| test.is_connected(it)));
    let open: Vec<_> = claimants.iter().map(|it| test.is_connected(it)).collect();
    assert_eq!(open, [false, true, true, true], "the one with the oldest HELLO");
    assert_eq!(test.counter_of("connections_closed", "too_many_handshakes"), 1);
}
