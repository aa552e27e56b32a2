//! Attackers that have completed the handshake.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use sluice_system_tests::{BackgroundTraffic, Stopwatch};

use crate::peer::{FLOW, LinkState, More, Peer, Profile, broadcast, kind, message, port_status};
use crate::scenario::{LinkKind, Setup, Target, closed, metric, withstands};

/// Switches that each hold most of what one may hold of incomplete multipart replies.
#[test]
fn incomplete_multipart_replies() {
    const SWITCHES: u64 = 36;
    const PART: usize = 60_000;
    let setup = Setup { growth_max_kib: 96 << 10, ..Setup::default() };
    let part = vec![0; PART];
    withstands(
        setup,
        |target| {
            let mut switches = Vec::new();
            for n in 0..SWITCHES {
                let mut switch = target.connect_switch(n)?;
                for _ in 0..(4 << 20) / PART {
                    switch.send_part([0, 0, 0, 9], FLOW, More::Yes, &part)?;
                }
                switches.push(switch);
            }
            Ok(BackgroundTraffic::repeat(move || {
                switches.retain_mut(|switch| {
                    switch.send_part([0, 0, 0, 9], FLOW, More::Yes, &[]).is_ok()
                });
            }))
        },
        |_| closed("multipart_memory_limit") > 0,
    );
}

/// Hundreds of switches that send all the time take a core, on which other tests run as well.
const P99_AT_FULL_RATE_GOOD: Duration = Duration::from_millis(200);

/// Connects a switch with a small receive buffer. Its socket does not block.
fn connect_slow_switch(target: Target, profile: Profile) -> io::Result<Peer> {
    let mut switch = target.connect_with(4096)?;
    switch.complete_handshake(profile)?;
    switch.stop_blocking()?;
    Ok(switch)
}

/// Switches that send packet-ins and read no replies.
#[test]
fn replies_that_are_not_read() {
    const SWITCHES: u64 = 800;
    let setup = Setup {
        growth_max_kib: 128 << 10,
        link: LinkKind::Ethernet,
        p99_good: P99_AT_FULL_RATE_GOOD,
        ..Setup::default()
    };
    let burst = message(kind::PACKET_IN, [0; 4], &broadcast([6, 0, 0, 0, 0, 2])).repeat(100);
    withstands(
        setup,
        |target| {
            let mut switches = Vec::new();
            for n in 0..SWITCHES {
                let peer = connect_slow_switch(target, Profile::attacking(n))?;
                switches.push(SendingSwitch { peer, at: 0 });
            }
            let burst = burst.clone();
            Ok(BackgroundTraffic::repeat(move || {
                // A switch that is disconnected sends no more.
                switches.retain_mut(|switch| switch.send(&burst).is_ok());
            }))
        },
        |_| {
            let backlog = metric("sluice_backlog_bytes", "");
            assert!(backlog <= 100 << 20, "{backlog} bytes wait");
            backlog >= 60 << 20
        },
    );
}

/// Packet-ins that the controller has received.
fn packet_ins() -> u64 {
    metric("sluice_messages_received_total", "type=\"PACKET_IN\"")
}

/// Switches that send packet-ins as fast as the controller reads them, and read the replies.
#[test]
fn packet_ins_at_full_rate() {
    const SWITCHES: u64 = 800;
    /// So many packet-ins are a full read of each switch, several times.
    const PACKET_INS: u64 = 5_000_000;
    let (growth_max_kib, p99_good) = (128 << 10, P99_AT_FULL_RATE_GOOD);
    let setup = Setup { growth_max_kib, p99_good, ..Setup::default() };
    let burst = message(kind::PACKET_IN, [0; 4], &broadcast([6, 0, 0, 0, 0, 2])).repeat(1000);
    withstands(
        setup,
        |target| {
            let mut switches = Vec::new();
            for n in 0..SWITCHES {
                let peer = target.connect_switch(n)?;
                peer.stop_blocking()?;
                switches.push(SendingSwitch { peer, at: 0 });
            }
            let received = packet_ins();
            let burst = burst.clone();
            let sending = BackgroundTraffic::repeat(move || {
                for switch in &mut switches {
                    switch.send(&burst).unwrap();
                    while switch.peer.try_read(64 << 10).unwrap() == 64 << 10 {}
                }
            });
            Ok((sending, received))
        },
        |&(_, before)| packet_ins() >= before + PACKET_INS,
    );
}

/// A switch that sends the same bytes again and again.
struct SendingSwitch {
    peer: Peer,
    /// Position in the bytes.
    at: usize,
}

impl SendingSwitch {
    /// Sends what the connection takes at once.
    fn send(&mut self, burst: &[u8]) -> io::Result<()> {
        let sent = self.peer.try_send(&burst[self.at..])?;
        self.at = (self.at + sent) % burst.len();
        Ok(())
    }
}

/// Switches with thousands of ports behind links that take less than the probes of all ports.
#[test]
fn probes_of_ports_behind_a_thin_link() {
    const SWITCHES: u64 = 2;
    const PORTS: u32 = 4000;
    /// Bytes that may wait for one switch: the limit, and the replies to one read.
    const BACKLOG_MAX: u64 = (256 + 256) << 10;
    let setup = Setup {
        options: "",
        growth_max_kib: 64 << 10,
        link: LinkKind::Ethernet,
        ..Setup::default()
    };
    withstands(
        setup,
        |target| {
            let mut switches = Vec::new();
            for n in 0..SWITCHES {
                let profile = Profile { ports: PORTS, ..Profile::attacking(n) };
                switches.push(connect_slow_switch(target, profile)?);
            }
            let taken = Arc::new(AtomicU32::new(0));
            let counted = taken.clone();
            let reading = BackgroundTraffic::repeat(move || {
                counted.fetch_add(1, Relaxed);
                switches.retain_mut(|switch| switch.try_read(1000).is_ok());
                Stopwatch::start().wait_until(Duration::from_millis(10));
            });
            Ok((reading, taken))
        },
        |(_, taken)| {
            let backlog = metric("sluice_backlog_bytes", "");

            assert!(backlog <= SWITCHES * BACKLOG_MAX, "{backlog} bytes wait");
            taken.load(Relaxed) > 100
        },
    );
}

/// A port with thousands of hosts that goes down and comes up again.
#[test]
fn hosts_of_a_flapping_port() {
    const HOSTS: u32 = 20_000;
    const FLAPS: u32 = 3;
    // All of them are at one port.
    let key = Some(("SLUICE_HOSTS__PER_PORT_MAX", "0"));
    let setup = Setup { options: "", key, growth_max_kib: 64 << 10, ..Setup::default() };
    let hosts = (0..HOSTS).map(|n| {
        let [a, b, c, d] = n.to_be_bytes();
        message(kind::PACKET_IN, [0; 4], &broadcast([6, 0, a, b, c, d]))
    });
    let hosts = hosts.collect::<Vec<_>>().concat();
    withstands(
        setup,
        |target| {
            let mut switch = target.connect_switch(0)?;
            let flaps = Arc::new(AtomicU32::new(0));
            let (counted, hosts) = (flaps.clone(), hosts.clone());
            let flapping = BackgroundTraffic::repeat(move || {
                switch.send_bytes(&hosts).unwrap();
                switch.echo().unwrap();
                let learned = metric("sluice_hosts", "");
                if learned >= u64::from(HOSTS) {
                    for state in [LinkState::Down, LinkState::Up] {
                        switch.send(kind::PORT_STATUS, [0; 4], &port_status(1, state)).unwrap();
                    }
                    counted.fetch_add(1, Relaxed);
                }
            });
            Ok((flapping, flaps))
        },
        |(_, flaps)| flaps.load(Relaxed) >= FLAPS,
    );
}
