//! Networks in virtual time.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use sluice_emu::host::{HostEvent, UdpStream};
use sluice_emu::link::LinkImpairments;
use sluice_emu::net::{
    ConnectionId, ControlTransport, Controller, ControllerOutput, FrameTraces, IpFamily,
    NetworkChange, NetworkError, NetworkOptions, NetworkSimulation, PingSummary,
};
use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_emu::topology::{PortRef, Topology};
use sluice_openflow::{PortNo, Version, Versions};
use support::{
    ControllerLogic, FloodPacketIns, MS, S, TestController, network, network_with_paths,
};

fn all_pairs<L: ControllerLogic>(
    net: &mut NetworkSimulation<TestController<L>>,
    family: IpFamily,
) -> PingSummary {
    let pairs = PingSummary::all_pairs(net.data_plane().topology());
    net.ping(pairs, family, 5 * S).unwrap()
}

fn delayed(delay: Duration) -> LinkImpairments {
    LinkImpairments { delay, ..LinkImpairments::default() }
}

#[test]
fn all_pairs_of_hosts_ping_in_every_shape() {
    for text in
        ["minimal", "linear,4,2", "tree,2,3", "ring,5", "mesh,4", "leafspine,2,4,3", "torus,3,3"]
    {
        let mut net = network_with_paths(text, &NetworkOptions::default());
        let n = net.data_plane().topology().hosts.len() as u64;
        for family in [IpFamily::V4, IpFamily::V6] {
            let pings = all_pairs(&mut net, family);
            assert_eq!(
                (pings.answered, &*pings.lost_pairs),
                (n * (n - 1), &[][..]),
                "{text} {family:?}"
            );
        }
        assert_eq!(net.controller().packet_ins, 0, "{text}");
    }
}

#[test]
fn frames_pass_through_the_controller_in_every_version() {
    for version in Versions::SUPPORTED.iter() {
        let options = NetworkOptions {
            control_up: delayed(5 * MS),
            control_down: delayed(5 * MS),
            ..NetworkOptions::default()
        };
        let mut net = network("linear,2", &options, |_| {
            TestController::with_versions(Versions::of(&[version]), FloodPacketIns)
        });
        net.run_for(S).unwrap();
        assert_eq!(net.connected_switches(), 2, "{version}");
        let pings = net.ping([(0, 1)], IpFamily::V4, S).unwrap();
        assert_eq!((pings.answered, pings.lost_pairs.len()), (1, 0), "{version}");
        // ARP request and reply, echo request and reply, each through two switches and 10 ms to the controller and
        // back.
        assert_eq!(pings.rtt_max, 80 * MS, "{version}");
    }
    assert!(Versions::SUPPORTED.iter().any(|v| v == Version::V1_5));
}

#[test]
fn delays_and_rates_of_links_add_up() {
    let mut topology = Topology::from_text("linear,3").unwrap();
    topology.set_impairments(LinkImpairments {
        delay: 2 * MS,
        rate_bps: NonZeroU64::new(1_000_000),
        ..LinkImpairments::default()
    });
    let controller = TestController::new(support::InstallPaths::new(&topology));
    let mut net = NetworkSimulation::new(
        topology,
        &NetworkOptions::default(),
        sluice_io::clock::now(),
        controller,
    )
    .unwrap();
    net.run_for(S).unwrap();
    let pings = net.ping([(0, 2)], IpFamily::V4, 5 * S).unwrap();
    // ARP with 42 bytes there and back, then the echo with 98 bytes, over four links each.
    let arp = 4 * (2 * MS + Duration::from_micros(42 * 8));
    let echo = 4 * (2 * MS + Duration::from_micros(98 * 8));
    assert_eq!(pings.rtt_max, 2 * arp + 2 * echo);
}

#[test]
fn connection_setup_time_depends_on_the_control_links() {
    let options = NetworkOptions {
        control_up: delayed(50 * MS),
        control_down: delayed(50 * MS),
        ..NetworkOptions::default()
    };
    let mut net = network("linear,4", &options, |_| TestController::new(FloodPacketIns));
    net.run_for(S).unwrap();
    let (now, data_plane) = net.data_plane_mut();
    let to = data_plane.topology().hosts[3].ipv4.into();
    data_plane.open_tcp(now, 0, (to, 80, 1)).unwrap();
    net.run_for(30 * S).unwrap();
    let events = net.data_plane_mut().1.take_host_events();
    let [(0, HostEvent::Tcp(c))] = events[..] else { panic!("{events:?}") };
    // Four packets, each sent to the controller by four switches.
    assert_eq!(c.established, Some(4 * 4 * 100 * MS));
    assert!(c.closed.is_some());
}

#[test]
fn flooding_in_a_ring_ends_with_a_broadcast_storm_error() {
    let mut net =
        network("ring,4", &NetworkOptions::default(), |_| TestController::new(FloodPacketIns));
    net.run_for(S).unwrap();
    assert_eq!(net.ping([(0, 1)], IpFamily::V4, S).unwrap().answered, 1, "before the storm");
    let error = net.run_for(S).unwrap_err();
    let NetworkError::BroadcastStorm { copies, at } = error else { panic!("{error}") };
    assert_eq!((copies, at), (64 * 8 + 1001, S));
    let mut tree =
        network("tree,2,2", &NetworkOptions::default(), |_| TestController::new(FloodPacketIns));
    tree.run_for(S).unwrap();
    assert_eq!(tree.ping([(0, 1)], IpFamily::V4, S).unwrap().answered, 1);
    assert_eq!(tree.data_plane().frame_copies_max(), 6, "one copy per link");
}

#[test]
fn a_cut_link_loses_all_frames_and_both_switches_report_it() {
    let mut net = network_with_paths("linear,2", &NetworkOptions::default());
    let before = net.controller().received.len();
    net.apply(NetworkChange::CutLink(0)).unwrap();
    net.run_for(S).unwrap();
    // One `PORT_STATUS` from each switch.
    assert!(net.controller().received.len() > before);
    assert_eq!(all_pairs(&mut net, IpFamily::V4).lost_pairs, [(0, 1), (1, 0)]);
    net.schedule(net.now() + S, NetworkChange::RestoreLink(0));
    net.run_for(2 * S).unwrap();
    assert_eq!(all_pairs(&mut net, IpFamily::V4).answered, 2);
    let host = net.data_plane().host_link(1);
    net.apply(NetworkChange::CutLink(host)).unwrap();
    assert_eq!(net.ping([(0, 1)], IpFamily::V4, S).unwrap().lost_pairs, [(0, 1)]);
}

#[test]
fn a_switch_reconnects_and_keeps_its_flow_entries() {
    let options = NetworkOptions {
        control_up: delayed(10 * MS),
        control_down: delayed(20 * MS),
        ..NetworkOptions::default()
    };
    let mut net = network_with_paths("linear,3", &options);
    net.apply(NetworkChange::BreakControlConnection(1)).unwrap();
    assert_eq!(net.connected_switches(), 2);
    assert_eq!(
        all_pairs(&mut net, IpFamily::V4).answered,
        6,
        "the flow entries need no controller"
    );
    net.run_for(10 * MS).unwrap();
    assert_eq!(net.controller().closed, 1);
    net.run_for(2 * S).unwrap();
    assert_eq!((net.connected_switches(), net.controller().opened), (3, 4));
    assert!(net.data_plane().switch(1).unwrap().flow_entry_count() > 0);
}

#[test]
fn a_paused_control_link_delays_messages_and_a_silent_switch_is_disconnected() {
    let mut net =
        network("single,2", &NetworkOptions::default(), |_| TestController::new(FloodPacketIns));
    net.run_for(S).unwrap();
    net.apply(NetworkChange::PauseControlLink(0)).unwrap();
    net.schedule(net.now() + 2 * S, NetworkChange::ResumeControlLink(0));
    let pings = net.ping([(0, 1)], IpFamily::V4, 10 * S).unwrap();
    assert_eq!((pings.answered, pings.rtt_max), (1, 2 * S));
    net.apply(NetworkChange::PauseControlLink(0)).unwrap();
    net.run_for(120 * S).unwrap();
    assert_eq!(net.controller().deadline(), None, "the controller closed the session");
    net.apply(NetworkChange::ResumeControlLink(0)).unwrap();
    net.run_for(5 * S).unwrap();
    assert_eq!((net.controller().opened, net.connected_switches()), (2, 1));
}

/// Takes and sends few bytes at a time.
struct SlowController {
    inner: TestController<FloodPacketIns>,
    /// Bytes that it takes in each millisecond, and those left of this one.
    bytes_per_ms: usize,
    left: usize,
    next_tick: Option<Instant>,
    /// Bytes that it has to send, and most that it sent at a time.
    unsent: usize,
    sent_max: usize,
}

impl SlowController {
    fn new(bytes_per_ms: usize) -> Self {
        let inner = TestController::new(FloodPacketIns);
        Self { inner, bytes_per_ms, left: bytes_per_ms, next_tick: None, unsent: 0, sent_max: 0 }
    }

    /// Sends echo replies that nobody has asked for.
    fn send(&mut self, conn: ConnectionId, output: &mut ControllerOutput) {
        const ECHO_REPLY: [u8; 8] = [6, 3, 0, 8, 0, 0, 0, 0];
        let len = output.room(conn).min(self.unsent) / 8 * 8;
        output.bytes_to(conn).extend(ECHO_REPLY.iter().cycle().take(len));
        self.unsent -= len;
        self.sent_max = self.sent_max.max(len);
        if self.unsent > 0 {
            output.wait_for_room(conn);
        }
    }
}

impl Controller for SlowController {
    fn on_open(&mut self, now: Instant, conn: ConnectionId, output: &mut ControllerOutput) {
        self.inner.on_open(now, conn, output);
        self.next_tick = Some(now + MS);
    }

    fn on_bytes(
        &mut self,
        now: Instant,
        conn: ConnectionId,
        bytes: &[u8],
        output: &mut ControllerOutput,
    ) -> usize {
        let taken = self.left.min(bytes.len());
        self.left -= taken;
        self.inner.on_bytes(now, conn, bytes.get(..taken).unwrap(), output)
    }

    fn on_closed(&mut self, now: Instant, conn: ConnectionId, output: &mut ControllerOutput) {
        self.inner.on_closed(now, conn, output);
    }

    fn on_room(&mut self, _: Instant, conn: ConnectionId, output: &mut ControllerOutput) {
        self.send(conn, output);
    }

    fn on_tick(&mut self, now: Instant, output: &mut ControllerOutput) {
        self.left = self.bytes_per_ms;
        self.next_tick = Some(now + MS);
        if self.unsent > 0
            && let Some(conn) = self.inner.first_connection()
        {
            self.send(conn, output);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.next_tick
    }
}

fn network_with_slow_controller(options: &NetworkOptions) -> NetworkSimulation<SlowController> {
    let topology = Topology::from_text("single,2").unwrap();
    let controller = SlowController::new(1000);
    let start = sluice_io::clock::now();
    let mut net = NetworkSimulation::new(topology, options, start, controller).unwrap();
    net.run_for(S).unwrap();
    assert_eq!(net.connected_switches(), 1);
    net
}

#[test]
fn a_switch_waits_while_the_controller_takes_nothing_and_nothing_is_lost() {
    for control_transport in [ControlTransport::Ideal, ControlTransport::Tcp] {
        let switch =
            EmulatedSwitchConfig { tx_backlog_max: 20_000, ..EmulatedSwitchConfig::default() };
        let control = delayed(5 * MS);
        let options = NetworkOptions {
            switch,
            control_transport,
            control_up: control,
            control_down: control,
            ..NetworkOptions::default()
        };
        let mut net = network_with_slow_controller(&options);
        net.controller_mut().bytes_per_ms = 0;
        net.run_for(2 * MS).unwrap();
        let (before, frames) = (net.controller().inner.received.len(), 4000);
        for number in 0..frames {
            let mac = net.data_plane().topology().hosts.first().unwrap().mac;
            let (now, data_plane) = net.data_plane_mut();
            data_plane
                .send_frame(
                    now,
                    0,
                    FrameTraces::frame(mac, sluice_openflow::MacAddr::BROADCAST, number),
                )
                .unwrap();
            net.run_for(MS).unwrap();
        }
        assert_eq!(net.controller().inner.received.len(), before, "{control_transport:?}");
        let counters = *net.data_plane().switch(0).unwrap().counters();
        assert!(counters.drops.tx_backlog > 0, "{control_transport:?}: the window is open");
        assert!(counters.packet_ins > 500, "{control_transport:?}: {}", counters.packet_ins);
        net.controller_mut().bytes_per_ms = 77;
        net.run_for(60 * S).unwrap();
        let received = net.controller().inner.packet_ins as u64;
        assert_eq!(received, counters.packet_ins, "{control_transport:?}");
    }
}

#[test]
fn a_controller_that_waits_for_room_sends_as_much_as_the_control_link_takes() {
    let control = LinkImpairments { rate_bps: NonZeroU64::new(8_000_000), ..delayed(5 * MS) };
    let options =
        NetworkOptions { control_up: control, control_down: control, ..NetworkOptions::default() };
    let mut net = network_with_slow_controller(&options);
    let sent_bytes = |net: &NetworkSimulation<SlowController>| net.control_bytes(0).unwrap().1;
    let before = sent_bytes(&net);
    net.controller_mut().unsent = 4_000_000;
    net.run_for(S).unwrap();
    let sent = sent_bytes(&net) - before;
    assert!((900_000..=1_100_000).contains(&sent), "{sent} bytes in a second at 1 MB/s");
    net.apply(NetworkChange::PauseControlLink(0)).unwrap();
    let paused = sent_bytes(&net);
    net.run_for(10 * S).unwrap();
    assert_eq!(sent_bytes(&net), paused, "a paused link takes nothing");
    net.apply(NetworkChange::ResumeControlLink(0)).unwrap();
    net.run_for(4 * S).unwrap();
    assert_eq!((net.controller().unsent, sent_bytes(&net) - before), (0, 4_000_000));
    assert!(net.controller().sent_max < 100_000, "{} at a time", net.controller().sent_max);
}

#[test]
fn the_controller_can_be_replaced() {
    let mut net = network_with_paths("ring,3", &NetworkOptions::default());
    let controller = TestController::new(support::InstallPaths::new(net.data_plane().topology()));
    let old = net.replace_controller(controller).unwrap();
    assert_eq!((old.opened, net.connected_switches()), (3, 0));
    assert_eq!(all_pairs(&mut net, IpFamily::V6).answered, 6, "the flow entries remain");
    net.run_for(2 * S).unwrap();
    assert_eq!((net.controller().opened, net.connected_switches()), (3, 3));
}

#[test]
fn a_host_moves_to_a_free_port_and_announces_itself() {
    let mut net =
        network("linear,2", &NetworkOptions::default(), |_| TestController::new(FloodPacketIns));
    net.run_for(S).unwrap();
    let to = net.data_plane().free_port(1).unwrap();
    assert_eq!(to, PortRef { switch: 1, port: PortNo(3) });
    let before = net.controller().packet_ins;
    net.apply(NetworkChange::MoveHost(0, to)).unwrap();
    net.run_for(S).unwrap();
    assert_eq!(net.controller().packet_ins - before, 4, "ARP and ND, at two switches");
    assert_eq!(all_pairs(&mut net, IpFamily::V4).answered, 2);
    assert_eq!(net.apply(NetworkChange::MoveHost(1, to)), Err(NetworkError::PortUnavailable(to)));
    let nowhere = PortRef { switch: 7, port: PortNo(1) };
    assert_eq!(
        net.apply(NetworkChange::MoveHost(1, nowhere)),
        Err(NetworkError::PortUnavailable(nowhere))
    );
    let not_found = NetworkError::NotFound { what: "switch", index: 9 };
    assert_eq!(net.apply(NetworkChange::BreakControlConnection(9)), Err(not_found));
}

#[test]
fn a_stream_loses_the_packets_sent_while_the_link_is_cut() {
    let options = NetworkOptions {
        control_up: delayed(100 * MS),
        control_down: delayed(100 * MS),
        ..NetworkOptions::default()
    };
    let mut net = network_with_paths("single,2", &options);
    let to = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
    let (now, data_plane) = net.data_plane_mut();
    let stream = UdpStream { to, port: 5001, rate_pps: 1000, packets: 500, data_len: 100 };
    let id = data_plane.start_stream(now, 0, stream).unwrap().unwrap();
    net.schedule(net.now() + 100 * MS, NetworkChange::CutLink(0));
    net.schedule(net.now() + 200 * MS, NetworkChange::RestoreLink(0));
    net.run_for(2 * S).unwrap();
    let (sender, receiver) = (net.data_plane().host(0).unwrap(), net.data_plane().host(1).unwrap());
    let stats = receiver.stream_stats([10, 0, 0, 1].into(), id).unwrap();
    assert_eq!(sender.stream_packets_sent(id), 500);
    assert_eq!((stats.received, stats.lost()), (400, 100));
}

#[test]
fn a_seed_reproduces_a_run_exactly() {
    let run = |seed| {
        let jittery =
            LinkImpairments { delay: 3 * MS, jitter: 2 * MS, ..LinkImpairments::default() };
        let options = NetworkOptions {
            seed,
            control_up: jittery,
            control_down: jittery,
            connect_spread: S,
            ..NetworkOptions::default()
        };
        let mut net = network("tree,3,2", &options, |_| TestController::new(FloodPacketIns));
        net.run_for(2 * S).unwrap();
        net.apply(NetworkChange::BreakControlConnection(2)).unwrap();
        let pings = all_pairs(&mut net, IpFamily::V4);
        (pings, std::mem::take(&mut net.controller_mut().received))
    };
    let (pings, received) = run(7);
    assert!(!received.is_empty());
    assert!(run(7) == (pings, received.clone()), "the same seed gave another run");
    assert!(run(8).1 != received, "another seed gave the same run");
}

#[test]
fn a_network_of_a_thousand_switches_works() {
    let mut topology = Topology::from_text("leafspine,10,990,1").unwrap();
    topology.hosts.truncate(20);
    let controller = TestController::new(support::InstallPaths::new(&topology));
    let mut net = NetworkSimulation::new(
        topology,
        &NetworkOptions::default(),
        sluice_io::clock::now(),
        controller,
    )
    .unwrap();
    net.run_for(S).unwrap();
    assert_eq!(net.connected_switches(), 1000);
    assert_eq!(all_pairs(&mut net, IpFamily::V4).answered, 380);
    // Echo requests keep the sessions alive for a minute.
    net.run_for(60 * S).unwrap();
    assert_eq!((net.connected_switches(), net.controller().closed), (1000, 0));
}
