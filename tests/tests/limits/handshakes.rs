//! Attackers that do not complete the handshake, or complete it too often.

use std::iter::repeat_with;

use sluice_system_tests::BackgroundTraffic;

use crate::peer::{More, PORT_DESC, PORT_LEN, Profile, kind, message};
use crate::scenario::{BYSTANDERS, Setup, Target, Workers, closed, metric, withstands};

/// Peers that send the description of their ports up to the limit of a handshake, and never its last part.
#[test]
fn unfinished_port_descriptions() {
    const PEERS: usize = 300;
    let setup = Setup { newcomer_ports: 1400, growth_max_kib: 96 << 10, ..Setup::default() };
    let part = vec![0; PORT_LEN * 1000];
    withstands(
        setup,
        |target| {
            let mut peers = Vec::new();
            for _ in 0..PEERS {
                let mut peer = target.connect()?;
                let xid = peer.exchange_hello()?.wrapping_add(1).to_be_bytes();
                for _ in 0..4 {
                    peer.send_part(xid, PORT_DESC, More::Yes, &part)?;
                }
                peers.push((peer, xid));
            }
            Ok(BackgroundTraffic::repeat(move || {
                peers.retain_mut(|(peer, xid)| {
                    peer.send_part(*xid, PORT_DESC, More::Yes, &[]).is_ok()
                });
            }))
        },
        |_| closed("multipart_memory_limit") > 0,
    );
}

/// A source that connects as many switches as it can, and again as soon as one is closed.
#[test]
fn all_places_of_switches() {
    const PLACES: u64 = 64;
    let key = Some(("SLUICE_LIMITS__SWITCHES_MAX", "64"));
    withstands(
        Setup { key, ..Setup::default() },
        |target| {
            let switches = (0..PLACES).map_while(|n| target.connect_switch(n).ok());
            let (mut switches, mut n) = (switches.collect::<Vec<_>>(), PLACES);
            Ok(BackgroundTraffic::repeat(move || {
                n += 1;
                switches.extend(target.connect_switch(n));
            }))
        },
        |_| closed("too_many_switches") > 10,
    );
}

/// Peers that send a whole handshake without reading the requests. If they could predict transaction ids, they would be switches.
#[test]
fn handshakes_without_reading() {
    const PEERS: usize = 200;
    let hello = message(kind::HELLO, [0; 4], &[]);
    let replies = (0..20).map(|n| message(kind::FEATURES_REPLY, [0, 0, 0, n], &[0; 24]));
    let handshake = [hello].into_iter().chain(replies).collect::<Vec<_>>().concat();
    withstands(
        Setup::default(),
        |target| {
            let connect = || {
                let mut peer = target.connect()?;
                peer.send_bytes(&handshake)?;
                Ok(peer)
            };
            repeat_with(connect).take(PEERS).collect::<Result<Vec<_>, _>>()
        },
        |peers| {
            let switches = metric("sluice_switches_connected", "");
            assert_eq!(switches, BYSTANDERS, "no peer is a switch");
            metric("sluice_handshakes_pending", "") >= peers.len() as u64
        },
    );
}

/// Silent peers that take every file descriptor that the process may have.
#[test]
fn all_file_descriptors() {
    const PEERS: usize = 600;
    let setup = Setup { open_files: Some(128), ..Setup::default() };
    withstands(
        setup,
        |target| repeat_with(|| target.connect()).take(PEERS).collect::<Result<Vec<_>, _>>(),
        |_| closed("too_many_handshakes") > 0,
    );
}

/// A source whose connections claim the datapath ids of its own switches, again as soon as one is closed.
#[test]
fn claims_of_datapath_ids_in_use() {
    const SWITCHES: u64 = 64;
    let key = Some(("SLUICE_LIMITS__HANDSHAKES_MAX", "64"));
    withstands(
        Setup { key, ..Setup::default() },
        |target| {
            let mut peers: Vec<_> =
                (0..SWITCHES).map(|n| target.connect_switch(n)).collect::<Result<_, _>>()?;
            let mut n = 0;
            Ok(BackgroundTraffic::repeat(move || {
                n = (n + 1) % SWITCHES;
                let claim = || {
                    let mut peer = target.connect()?;
                    peer.send_handshake(Profile::attacking(n)).map(|()| peer)
                };
                peers.extend(claim());
            }))
        },
        |_| closed("too_many_handshakes") > 10,
    );
}

/// Peers that connect to the metrics and send nothing.
#[test]
fn all_connections_to_the_metrics() {
    const PEERS: usize = 600;
    withstands(
        Setup { workers: Workers::Default, ..Setup::default() },
        |_| repeat_with(Target::connect_to_metrics).take(PEERS).collect::<Result<Vec<_>, _>>(),
        |_| true,
    );
}

/// Peers that connect to one listener as fast as they can, while newcomers connect to another.
#[test]
fn all_accepts() {
    withstands(
        Setup { workers: Workers::Default, ..Setup::default() },
        |target| Ok(BackgroundTraffic::repeat(move || drop(target.connect()))),
        |_| metric("sluice_connections_accepted_total", "") > 1000,
    );
}
