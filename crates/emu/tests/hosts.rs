//! Hosts on a shared link with delay and loss.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail anywhere")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use sluice_emu::host::{Host, HostConfig, HostEvent, PingResult, TcpResult, UdpStream};
use sluice_emu::topology::link_local_address;
use sluice_openflow::MacAddr;

/// A shared link in virtual time; every host receives every frame.
struct SharedLink {
    now: Instant,
    start: Instant,
    hosts: Vec<Host>,
    delay: Duration,
    /// Frames by time of arrival and number, with the host that sent them.
    in_transit: BTreeMap<(Instant, usize), (usize, Vec<u8>)>,
    sent: usize,
    /// Whether the n-th frame is lost, counted from 1.
    is_lost: fn(usize) -> bool,
}

impl SharedLink {
    fn new(hosts: u32, delay: Duration) -> Self {
        let start = sluice_io::clock::now();
        let host = |n: u32| {
            let mac = MacAddr::from_u64(n.into());
            let ipv4 = Ipv4Addr::from(0x0a00_0000 + n);
            Host::new(HostConfig { mac, ipv4, ipv6: link_local_address(mac), epoch: start })
        };
        Self {
            now: start,
            start,
            hosts: (1..=hosts).map(host).collect(),
            delay,
            in_transit: BTreeMap::new(),
            sent: 0,
            is_lost: |_| false,
        }
    }

    /// Calls a host and sends the frames that it returns.
    fn call(&mut self, host: usize, action: impl FnOnce(&mut Host, Instant, &mut Vec<Vec<u8>>)) {
        let mut out = vec![];
        action(&mut self.hosts[host], self.now, &mut out);
        for frame in out {
            self.sent += 1;
            if !(self.is_lost)(self.sent) {
                self.in_transit.insert((self.now + self.delay, self.sent), (host, frame));
            }
        }
    }

    /// Runs until nothing is in transit and no timer is set.
    fn run(&mut self) {
        loop {
            let timers = self.hosts.iter().filter_map(Host::deadline).min();
            let frames = self.in_transit.keys().next().map(|&(at, _)| at);
            let Some(next) = timers.into_iter().chain(frames).min() else { return };
            assert!(next < self.start + Duration::from_secs(1000), "the simulation does not end");
            self.now = next;
            if frames == Some(next) {
                let (_, (from, frame)) = self.in_transit.pop_first().unwrap();
                for host in (0..self.hosts.len()).filter(|&host| host != from) {
                    self.call(host, |host, now, out| host.on_frame(now, &frame, out));
                }
            } else {
                for host in 0..self.hosts.len() {
                    self.call(host, Host::tick);
                }
            }
        }
    }

    fn pings(&mut self, host: usize) -> Vec<PingResult> {
        let events = self.hosts[host].take_events().into_iter();
        events
            .filter_map(|event| if let HostEvent::Ping(ping) = event { Some(ping) } else { None })
            .collect()
    }

    fn connections(&mut self, host: usize) -> Vec<TcpResult> {
        let events = self.hosts[host].take_events().into_iter();
        events
            .filter_map(|event| if let HostEvent::Tcp(tcp) = event { Some(tcp) } else { None })
            .collect()
    }
}

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

fn v4(n: u8) -> IpAddr {
    [10, 0, 0, n].into()
}

fn v6(n: u64) -> IpAddr {
    link_local_address(MacAddr::from_u64(n)).into()
}

#[test]
fn the_first_ping_takes_two_round_trips_and_the_next_one() {
    for to in [v4(2), v6(2)] {
        let mut link = SharedLink::new(3, MS);
        for expected in [4 * MS, 2 * MS] {
            link.call(0, |host, now, out| host.ping(now, to, S, out));
            link.run();
            let pings = link.pings(0);
            assert_eq!(pings.len(), 1);
            assert_eq!((pings[0].to, pings[0].rtt), (to, Some(expected)));
        }
        assert_eq!(
            link.hosts[2].counters().unicasts_for_others,
            4 + 1,
            "all frames except the two multicasts: {to}"
        );
    }
}

#[test]
fn a_ping_to_an_unused_address_times_out() {
    let mut link = SharedLink::new(2, MS);
    link.call(0, |host, now, out| host.ping(now, v4(9), 5 * S, out));
    link.call(0, |host, now, out| host.ping(now, v6(9), 5 * S, out));
    link.run();
    assert!(link.pings(0).iter().all(|ping| ping.rtt.is_none()));
    assert_eq!(link.now, link.start + 5 * S);
    assert_eq!(link.sent, 6, "three solicitations per address");
    assert_eq!(link.hosts[0].counters().unreachable, 2);
}

#[test]
fn a_lost_solicitation_is_repeated_after_a_second() {
    let mut link = SharedLink::new(2, MS);
    link.is_lost = |n| n == 1;
    link.call(0, |host, now, out| host.ping(now, v4(2), 5 * S, out));
    link.run();
    assert_eq!(link.pings(0)[0].rtt, Some(S + 4 * MS));
}

#[test]
fn an_announcement_of_an_address_in_use_is_counted_as_a_conflict() {
    let mut link = SharedLink::new(2, MS);
    let duplicate = HostConfig { mac: MacAddr::from_u64(0x66), ..link.hosts[0].config() };
    link.hosts.push(Host::new(duplicate));
    link.call(2, |host, _, out| host.announce(out));
    link.run();
    assert_eq!(link.hosts[0].counters().address_conflicts, 2);
    assert_eq!(link.hosts[1].counters().address_conflicts, 0);
}

#[test]
fn a_connection_is_established_after_a_round_trip_and_carries_its_bytes() {
    for to in [v4(2), v6(2)] {
        let mut link = SharedLink::new(2, 10 * MS);
        link.call(0, |host, now, out| _ = host.connect(now, to, 80, 100_000, out));
        link.run();
        let [c] = link.connections(0)[..] else { panic!("one connection") };
        assert_eq!(c.established, Some(40 * MS), "20 ms of it for the address resolution");
        assert_eq!((c.bytes_acked, c.retransmissions), (100_000, 0));
        // Seven windows of 14 400 bytes; the FINs go with the last one.
        assert_eq!(c.closed, Some(40 * MS + 7 * 20 * MS));
        assert_eq!(link.hosts[1].tcp_bytes_received(), 100_000);
        assert_eq!(
            (link.hosts[0].tcp_connection_count(), link.hosts[1].tcp_connection_count()),
            (0, 0)
        );
    }
}

#[test]
fn a_lost_syn_is_retransmitted_after_a_second() {
    let mut link = SharedLink::new(2, MS);
    link.is_lost = |n| n == 3;
    link.call(0, |host, now, out| _ = host.connect(now, v4(2), 80, 1, out));
    link.run();
    let [c] = link.connections(0)[..] else { panic!("one connection") };
    assert_eq!(c.established, Some(S + 2 * MS), "the time counts from the request");
    assert_eq!(c.retransmissions, 1);
}

#[test]
fn all_bytes_arrive_despite_loss() {
    let losses: [fn(usize) -> bool; 4] =
        [|n| n % 7 == 0, |n| n % 3 == 0, |n| (20..60).contains(&n), |n| n % 11 < 2];
    for (case, is_lost) in losses.into_iter().enumerate() {
        let mut link = SharedLink::new(2, 3 * MS);
        link.is_lost = is_lost;
        link.call(0, |host, now, out| _ = host.connect(now, v4(2), 80, 300_000, out));
        link.run();
        let [c] = link.connections(0)[..] else { panic!("one connection") };
        assert_eq!(c.bytes_acked, 300_000, "{case}");
        assert!(c.closed.is_some() && c.retransmissions > 0, "{case}");
        assert_eq!(link.hosts[1].tcp_bytes_received(), 300_000, "{case}");
        assert_eq!(link.hosts[1].tcp_connection_count(), 0, "{case}");
    }
}

#[test]
fn a_connection_to_an_unused_address_is_abandoned_after_six_retransmissions() {
    let mut link = SharedLink::new(2, MS);
    link.call(0, |host, now, out| _ = host.connect(now, v4(9), 80, 1, out));
    link.run();
    let [c] = link.connections(0)[..] else { panic!("one connection") };
    assert_eq!((c.established, c.closed, c.retransmissions), (None, None, 6));
    assert_eq!(link.hosts[0].tcp_connection_count(), 0);
}

#[test]
fn a_stream_keeps_its_rate_and_counts_losses() {
    let mut link = SharedLink::new(3, 5 * MS);
    link.is_lost = |n| n % 10 == 0;
    let stream = UdpStream { to: v4(2), port: 5001, rate_pps: 1000, packets: 1000, data_len: 100 };
    link.call(0, |host, now, _| _ = host.start_stream(now, stream).unwrap());
    link.run();
    assert_eq!(link.now, link.start + 999 * MS + 5 * MS);
    assert_eq!(link.hosts[0].stream_packets_sent(0), 1000);
    let stats = link.hosts[1].stream_stats(v4(1), 0).unwrap();
    assert_eq!((stats.received, stats.lost()), (900, 100));
    assert_eq!((stats.duplicates, stats.reordered), (0, 0));
    let median = Duration::from_nanos(stats.latency_ns.value_at_quantile(0.5));
    assert!(median.abs_diff(5 * MS) < MS / 10, "{median:?}");
}

#[test]
fn a_broadcast_stream_reaches_all_hosts() {
    let mut link = SharedLink::new(4, MS);
    let to = IpAddr::V4(Ipv4Addr::BROADCAST);
    let stream = UdpStream { to, port: 9, rate_pps: 10, packets: 5, data_len: 0 };
    link.call(0, |host, now, _| _ = host.start_stream(now, stream).unwrap());
    link.run();
    for host in &link.hosts[1..] {
        assert_eq!(host.stream_stats(v4(1), 0).unwrap().received, 5);
    }
    assert_eq!(link.sent, 5, "no address resolution");
}

#[test]
fn malformed_frames_do_not_make_a_host_panic() {
    let mut rng = sluice_base::Rng::new(0x5eed);
    let mut link = SharedLink::new(2, MS);
    link.call(0, |host, now, out| _ = host.connect(now, v4(2), 80, 5_000, out));
    link.call(0, |host, now, out| host.ping(now, v6(2), S, out));
    let mut frames = vec![];
    for _ in 0..200 {
        let Some((&key, _)) = link.in_transit.iter().next() else { break };
        let (from, frame) = link.in_transit.remove(&key).unwrap();
        link.now = key.0;
        link.call(1 - from, |host, now, out| host.on_frame(now, &frame, out));
        frames.push(frame);
    }
    assert!(frames.len() > 10);
    for _ in 0..20_000 {
        let n = rng.below(u32::try_from(frames.len()).unwrap()) as usize;
        let mut frame = frames[n].clone();
        for _ in 0..=rng.below(4) {
            let at = rng.below(u32::try_from(frame.len()).unwrap()) as usize;
            frame[at] = rng.next_u64().to_le_bytes()[0];
        }
        frame.truncate(rng.below(u32::try_from(frame.len()).unwrap() * 4) as usize + 1);
        let mut out = vec![];
        link.hosts[n % 2].on_frame(link.now, &frame, &mut out);
        assert!(out.len() < 200);
    }
}
