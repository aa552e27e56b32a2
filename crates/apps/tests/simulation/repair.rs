//! How long a conversation is interrupted when a link on its path fails.

use std::net::IpAddr;

use sluice_emu::host::UdpStream;

use super::*;

/// Packets of the stream per second: each that is lost stands for a millisecond.
const RATE_PPS: u32 = 1000;

/// Packets that may be lost: those of 5 ms.
const LOST_MAX: u64 = 5;

/// Each link of a network fails once; both ends notice it, the control links have no delay, and no other program takes the processor
/// of a worker. The rest is the time that the controller needs: facts between workers, deletions, packet-ins, and new entries.
#[test]
fn a_conversation_goes_on_within_5_ms_after_a_link_of_its_path_has_failed() {
    for (seed, (shape, version)) in (1..).zip(
        ["ring,4", "ring,6", "leafspine,2,4,1", "mesh,4"]
            .into_iter()
            .flat_map(|shape| [Version::V1_0, Version::V1_3].map(|version| (shape, version))),
    ) {
        let mut topology = Topology::from_text(shape).unwrap();
        topology.set_impairments(LinkImpairments {
            delay: Duration::from_micros(10),
            ..LinkImpairments::default()
        });
        let switch = EmulatedSwitchConfig {
            versions: Versions::of(&[version]),
            ..EmulatedSwitchConfig::default()
        };
        let options = NetworkOptions { seed, switch, ..NetworkOptions::default() };
        let conditions = Conditions { preemption_odds: 0, ..Conditions::default() };
        let engine =
            SimulatedEngineOptions { seed, conditions, ..SimulatedEngineOptions::default() };
        let names: Vec<_> = APPS.iter().map(|&name| name.to_owned()).collect();
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let config = default_config(start);
        let apps = |_| -> Chain { chain(&names, &config).unwrap() };
        let controller = SimulatedEngine::new(&engine, start, apps);
        let mut net = NetworkSimulation::new(topology, &options, start, controller).unwrap();
        net.run_for(DISCOVERY_TIME).unwrap();
        check_pings(&mut net).unwrap();
        let hosts = net.data_plane().topology().hosts.clone();
        let (from, to) = (0, hosts.len() / 2);
        let [source, destination] =
            [from, to].map(|host| IpAddr::from(hosts.get(host).unwrap().ipv4));
        let stream = UdpStream {
            to: destination,
            port: 5001,
            rate_pps: RATE_PPS,
            packets: u64::MAX,
            data_len: 100,
        };
        let (now, data_plane) = net.data_plane_mut();
        let number = data_plane.start_stream(now, from, stream).unwrap().unwrap();
        let lost = |net: &ChainSimulation| {
            let data_plane = net.data_plane();
            let sent = data_plane.host(from).unwrap().stream_packets_sent(number);
            let counts = data_plane.host(to).unwrap().stream_stats(source, number);
            sent - counts.map_or(0, |counts| counts.received)
        };
        net.run_for(Duration::from_secs(1)).unwrap();
        let mut on_path = 0;
        for link in 0..net.data_plane().topology().links.len() {
            let before = lost(&net);
            net.apply(NetworkChange::CutLink(link)).unwrap();
            net.run_for(Duration::from_secs(1)).unwrap();
            let during = lost(&net).saturating_sub(before);
            assert!(during <= LOST_MAX, "{shape} {version}: {during} ms without link {link}");
            on_path += u32::from(during > 0);
            net.apply(NetworkChange::RestoreLink(link)).unwrap();
            net.run_for(DISCOVERY_TIME).unwrap();
        }
        assert!(on_path > 0, "{shape} {version}: no link of the path has failed");
    }
}
