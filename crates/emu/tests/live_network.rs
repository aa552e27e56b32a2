//! A network in real time with a flooding controller over TCP. Tests wait for events; they assert no times.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_emu::live::{
    ConnectionFailure, LiveError, LiveNetwork, MessageSender, PingPacing, PingRounds,
};
use sluice_emu::net::{NetworkError, NetworkOptions};
use sluice_emu::topology::Topology;
use sluice_io::{ConnId, Epoll, Io as _, IoEvent, WaitStrategy, clock, sock};
use sluice_openflow::{Action, MessageType, PacketOutRef, PortNo, RawMessage, split_message};
use sluice_proto::{Config, ControllerEvent, ControllerSession};

/// How long a test may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A controller that floods all frames.
struct FloodingController {
    io: Epoll,
    cfg: Config,
    addr: SocketAddr,
    /// Sessions, each with the start of an incomplete message.
    sessions: HashMap<ConnId, (ControllerSession, Vec<u8>)>,
}

impl FloodingController {
    fn new() -> Self {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = sock::listen(any, &sock::Options::default()).unwrap();
        let addr = listener.local_addr().unwrap();
        let mut io = Epoll::new(WaitStrategy::default()).unwrap();
        io.listen(listener).unwrap();
        Self { io, cfg: Config::default(), addr, sessions: HashMap::default() }
    }

    /// Runs one event-loop iteration, which waits at most until `now`.
    fn run_once(&mut self, now: Instant) {
        let (mut tx, mut accepted) = (vec![], vec![]);
        self.io.wait(Some(now)).unwrap();
        while let Some(event) = self.io.next_event() {
            match event {
                IoEvent::Accepted(stream, _, _) => accepted.push(stream),
                IoEvent::Data(id, bytes) => {
                    let Some((session, partial)) = self.sessions.get_mut(&id) else { continue };
                    partial.extend(bytes);
                    let all = std::mem::take(partial);
                    let mut rest = &*all;
                    let mut replies = vec![];
                    while let Some((msg, after)) = split_message(rest).unwrap() {
                        rest = after;
                        match session.on_message(&self.cfg, msg, &mut replies).unwrap() {
                            Some(ControllerEvent::SwitchConnected(_)) => {
                                session
                                    .encoder(&mut replies)
                                    .send_misses_up(Action::WHOLE)
                                    .unwrap();
                            }
                            Some(ControllerEvent::PacketIn(p)) => {
                                let actions = [Action::output(PortNo::FLOOD)];
                                let p =
                                    PacketOutRef { actions: &actions, ..PacketOutRef::answer(&p) };
                                session.encoder(&mut replies).packet_out(&p).unwrap();
                            }
                            _ => {}
                        }
                    }
                    *partial = rest.to_vec();
                    tx.push((id, replies));
                }
                IoEvent::Closed(id, _) => _ = self.sessions.remove(&id),
                _ => {}
            }
        }
        for stream in accepted {
            let (id, mut replies) = (self.io.adopt(stream).unwrap(), vec![]);
            let session = ControllerSession::open(&self.cfg, 1, now, &mut replies);
            self.sessions.insert(id, (session, vec![]));
            tx.push((id, replies));
        }
        for (id, replies) in tx {
            assert_eq!(self.io.send(id, &replies), replies.len(), "the socket buffer is full");
        }
    }
}

/// Runs network and controller alternately until `is_done`.
fn run(
    controller: &mut FloodingController,
    rounds: &mut PingRounds,
    is_done: impl Fn(&PingRounds) -> bool,
) -> Result<(), LiveError> {
    let deadline = clock::now() + TIMEOUT;
    while !is_done(rounds) {
        assert!(clock::now() < deadline, "{:?}", rounds.status());
        let now = rounds.run_once(Some(clock::now()))?;
        controller.run_once(now);
    }
    Ok(())
}

fn start_pings(controller: &FloodingController, text: &str) -> PingRounds {
    let topology = Topology::from_text(text).unwrap();
    // Few enough that a storm reaches it on a slow machine too.
    let frame_copies_max = Some(100);
    let reconnect_delay = Duration::from_millis(10);
    let options = NetworkOptions { reconnect_delay, frame_copies_max, ..NetworkOptions::default() };
    let pacing = PingPacing { round_gap: Duration::ZERO, pings_pps: 1000, ..PingPacing::default() };
    PingRounds::new(LiveNetwork::connect(controller.addr, topology, &options).unwrap(), pacing)
}

#[test]
fn all_pairs_of_hosts_ping_in_rounds() {
    let mut controller = FloodingController::new();
    let mut rounds = start_pings(&controller, "tree,2,2");
    run(&mut controller, &mut rounds, |rounds| rounds.status().rounds == 2).unwrap();
    let status = rounds.status();
    assert_eq!((status.connected_switches, status.pings_answered, status.pings_lost), (3, 24, 0));
    assert!(status.packet_ins > 0 && rounds.lost_in_last_round().is_empty());
}

#[test]
fn a_switch_reconnects_after_its_connection_broke() {
    let mut controller = FloodingController::new();
    let mut rounds = start_pings(&controller, "linear,3");
    run(&mut controller, &mut rounds, |rounds| rounds.status().connected_switches == 3).unwrap();
    rounds.network_mut().close_control_connection(1);
    assert_eq!(rounds.status().connected_switches, 2);
    run(&mut controller, &mut rounds, |rounds| rounds.status().connected_switches == 3).unwrap();
    let before = rounds.status().rounds;
    run(&mut controller, &mut rounds, |rounds| rounds.status().rounds > before + 1).unwrap();
    assert!(rounds.lost_in_last_round().is_empty());
}

#[test]
fn a_broadcast_storm_is_reported_as_an_error() {
    let mut controller = FloodingController::new();
    let mut rounds = start_pings(&controller, "ring,3");
    let result = run(&mut controller, &mut rounds, |_| false);
    assert!(matches!(result, Err(LiveError::Network(NetworkError::BroadcastStorm { .. }))));
}

#[test]
fn a_failed_connection_is_reported() {
    let controller = FloodingController::new();
    let mut rounds = start_pings(&controller, "minimal");
    let mut other = FloodingController::new();
    drop(controller);
    let refused = |rounds: &PingRounds| rounds.network().connection_failure().is_some();
    run(&mut other, &mut rounds, refused).unwrap();
    let refused = ConnectionFailure::System(std::io::ErrorKind::ConnectionRefused);
    assert_eq!(rounds.network().connection_failure(), Some(refused));
}

#[test]
fn a_server_that_does_not_speak_openflow_is_reported_and_tried_again() {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    server.set_nonblocking(true).unwrap();
    let topology = Topology::from_text("minimal").unwrap();
    let reconnect_delay = Duration::from_millis(10);
    let options = NetworkOptions { reconnect_delay, ..NetworkOptions::default() };
    let addr = server.local_addr().unwrap();
    let mut network = LiveNetwork::connect(addr, topology, &options).unwrap();
    let deadline = clock::now() + TIMEOUT;
    let (mut clients, mut answered, mut failures) = (vec![], 0, vec![]);
    while answered < 3 {
        assert!(clock::now() < deadline, "{answered} connections, {failures:?}");
        network.run_once(Some(clock::now() + reconnect_delay)).unwrap();
        failures.extend(network.connection_failure());
        if let Ok((client, _)) = server.accept() {
            client.set_nonblocking(true).unwrap();
            clients.push(client);
        }
        // What was received is read, so that the end of the connection is no reset.
        clients.retain_mut(|client| {
            if client.read(&mut [0; 64]).is_err() {
                return true;
            }
            client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
            answered += 1;
            false
        });
    }
    let text = failures.first().unwrap().to_string();
    assert!(text.contains("HTTP: version byte 0x48"), "{text}");
    assert!(failures.iter().all(|failure| *failure == failures[0]), "{failures:?}");
}

#[test]
fn a_controller_that_does_not_read_is_reported() {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = server.local_addr().unwrap();
    let controller = std::thread::spawn(move || {
        let (mut switch, _) = server.accept().unwrap();
        let hello = [4, 0, 0, 8, 0, 0, 0, 1];
        let mut echo_request = vec![0; 60_000];
        echo_request[..8].copy_from_slice(&[4, 2, 0xea, 0x60, 0, 0, 0, 2]);
        switch.write_all(&hello).unwrap();
        while switch.write_all(&echo_request).is_ok() {}
    });
    let topology = Topology::from_text("minimal").unwrap();
    let mut network = LiveNetwork::connect(addr, topology, &NetworkOptions::default()).unwrap();
    let deadline = clock::now() + TIMEOUT;
    while network.connection_failure() != Some(ConnectionFailure::NotRead) {
        assert!(clock::now() < deadline, "{:?}", network.connection_failure());
        network.run_once(Some(clock::now() + Duration::from_millis(10))).unwrap();
    }
    drop(network);
    controller.join().unwrap();
}

#[test]
fn messages_and_frames_are_recorded_with_their_times() {
    let mut controller = FloodingController::new();
    let mut rounds = start_pings(&controller, "minimal");
    let start = clock::now();
    rounds.network_mut().record_messages(&[MessageType::PACKET_IN, MessageType::PACKET_OUT]);
    rounds.network_mut().data_plane_mut().1.capture_frames(1);
    run(&mut controller, &mut rounds, |rounds| rounds.status().rounds == 1).unwrap();
    let messages = rounds.network_mut().take_recorded_messages();
    for (sender, kind) in [
        (MessageSender::Switch, MessageType::PACKET_IN),
        (MessageSender::Controller, MessageType::PACKET_OUT),
    ] {
        let of_kind = |bytes| RawMessage::new(bytes).unwrap().kind() == kind;
        let own: Vec<_> = messages.iter().filter(|it| it.sender == sender).collect();
        assert!(!own.is_empty() && own.iter().all(|it| it.switch == 0 && of_kind(&it.bytes)));
    }
    assert!(messages.iter().all(|it| it.at >= start && it.at <= clock::now()));
    assert_eq!(rounds.network().messages_not_recorded(), 0);
    let frames = rounds.network_mut().data_plane_mut().1.take_captured_frames();
    assert!(!frames.is_empty() && frames.iter().all(|it| it.host == 1 && it.at >= start));
    assert_eq!(rounds.network_mut().take_recorded_messages(), []);
}

#[test]
fn switches_that_lose_their_connection_connect_to_the_new_address() {
    let mut controller = FloodingController::new();
    let mut other = FloodingController::new();
    let mut rounds = start_pings(&controller, "minimal");
    run(&mut controller, &mut rounds, |rounds| rounds.status().connected_switches == 1).unwrap();
    rounds.network_mut().set_controller(other.addr);
    assert_eq!(rounds.network().connected_switches(), 1);
    drop(controller);
    run(&mut other, &mut rounds, |rounds| rounds.status().connected_switches == 0).unwrap();
    run(&mut other, &mut rounds, |rounds| rounds.status().connected_switches == 1).unwrap();
}
