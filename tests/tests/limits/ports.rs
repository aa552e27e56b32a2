//! Attackers whose switches have very many ports or hosts.

use std::time::Duration;

use sluice_system_tests::BackgroundTraffic;

use crate::peer::{Profile, broadcast, kind, message, new_port};
use crate::scenario::{Setup, Workers, closed, metric, withstands};

/// The bystander waits while a switch with thousands of ports connects or disconnects, which takes some milliseconds.
const P99_GOOD: Duration = Duration::from_secs(1);

/// A source that connects as many switches with thousands of ports as it can, and more as soon as some are closed.
#[test]
fn all_ports() {
    const PORTS: u32 = 3900;
    let key = Some(("SLUICE_LIMITS__PORTS_MAX", "40000"));
    let (growth_max_kib, p99_good) = (48 << 10, P99_GOOD);
    let setup = Setup { options: "", key, growth_max_kib, p99_good, ..Setup::default() };
    withstands(
        setup,
        |target| {
            let (mut switches, mut n) = (Vec::new(), 0);
            Ok(BackgroundTraffic::repeat(move || {
                n += 1;
                let connect = || {
                    let mut switch = target.connect()?;
                    switch.send_handshake(Profile { ports: PORTS, ..Profile::attacking(n) })?;
                    switch.echo().map(|()| switch)
                };
                switches.extend(connect());
            }))
        },
        |_| closed("too_many_ports") > 5,
    );
}

/// A source that connects switches with thousands of ports, one after the other.
#[test]
fn ports_of_switches_that_come_and_go() {
    const PORTS: u32 = 3900;
    const SWITCHES: u64 = 100;
    let (growth_max_kib, p99_good) = (48 << 10, P99_GOOD);
    let setup = Setup { options: "", growth_max_kib, p99_good, ..Setup::default() };
    withstands(
        setup,
        |target| {
            let (mut n, before) = (0, closed("closed_by_peer") + closed("connection_reset"));
            let cycling = BackgroundTraffic::repeat(move || {
                n += 1;
                let profile = Profile { ports: PORTS, ..Profile::attacking(n) };
                if let Ok(mut switch) = target.connect() {
                    let _ = switch.send_handshake(profile).and_then(|()| switch.echo());
                }
            });
            Ok((cycling, before))
        },
        |&(_, before)| closed("closed_by_peer") + closed("connection_reset") >= before + SWITCHES,
    );
}

/// A switch that reports new ports without end.
#[test]
fn port_status_messages() {
    const REPORTED: u64 = 200_000;
    const BURST: u32 = 500;
    withstands(
        Setup { growth_max_kib: 8 << 10, workers: Workers::Default, ..Setup::default() },
        |target| {
            let mut switch = target.connect_switch(0)?;
            let (mut next, before) = (100, metric("sluice_ports_ignored_total", ""));
            let sending = BackgroundTraffic::repeat(move || {
                let statuses =
                    (next..next + BURST).map(|n| message(kind::PORT_STATUS, [0; 4], &new_port(n)));
                switch.send_bytes(&statuses.collect::<Vec<_>>().concat()).unwrap();
                next += BURST;
            });
            Ok((sending, before))
        },
        |&(_, before)| metric("sluice_ports_ignored_total", "") >= before + REPORTED,
    );
}

/// A switch that sends packet-ins from ever new source addresses.
#[test]
fn packets_from_invented_addresses() {
    const BURST: u32 = 500;
    const EVICTED: u64 = 100_000;
    let key = Some(("SLUICE_LEARNING__HOSTS_MAX", "10000"));
    withstands(
        Setup { key, workers: Workers::Default, ..Setup::default() },
        |target| {
            let (mut switch, mut next) = (target.connect_switch(0)?, 0);
            let before = metric("sluice_learning_hosts_evicted_total", "");
            let sending = BackgroundTraffic::repeat(move || {
                let packets = (next..next + BURST).map(|n: u32| {
                    let [a, b, c, d] = n.to_be_bytes();
                    message(kind::PACKET_IN, [0; 4], &broadcast([6, 0, a, b, c, d]))
                });
                switch.send_bytes(&packets.collect::<Vec<_>>().concat()).unwrap();
                // Reads the packet-outs.
                switch.echo().unwrap();
                next += BURST;
            });
            Ok((sending, before))
        },
        |&(_, before)| metric("sluice_learning_hosts_evicted_total", "") >= before + EVICTED,
    );
}
