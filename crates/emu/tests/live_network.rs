//! A network in real time with a flooding controller over TCP. Tests wait for events; they assert no times.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use sluice_emu::live::{LiveError, LiveNetwork, PingPacing, PingRounds};
use sluice_emu::net::{NetworkError, NetworkOptions};
use sluice_emu::topology::Topology;
use sluice_io::{ConnId, Epoll, Io as _, IoEvent, WaitStrategy, clock, sock};
use sluice_openflow::{Action, PacketOutRef, PortNo, split_message};
use sluice_proto::{Config, ControllerEvent, ControllerSession};

/// How long a test may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A controller that floods all frames.
struct Hub {
    io: Epoll,
    cfg: Config,
    at: SocketAddr,
    sessions: HashMap<ConnId, (ControllerSession, Vec<u8>)>,
}

impl Hub {
    fn new() -> Self {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = sock::listen(any, &sock::Options::default()).unwrap();
        let at = listener.local_addr().unwrap();
        let mut io = Epoll::new(WaitStrategy::default()).unwrap();
        io.listen(listener).unwrap();
        Self { io, cfg: Config::default(), at, sessions: HashMap::new() }
    }

    fn turn(&mut self, now: Instant) {
        let (mut tx, mut accepted) = (vec![], vec![]);
        self.io.wait(Some(now)).unwrap();
        while let Some(event) = self.io.next_event() {
            match event {
                IoEvent::Accepted(stream, _) => accepted.push(stream),
                IoEvent::Data(id, bytes) => {
                    let Some((session, torn)) = self.sessions.get_mut(&id) else { continue };
                    torn.extend(bytes);
                    let all = std::mem::take(torn);
                    let mut rest = &*all;
                    let mut said = vec![];
                    while let Some((msg, after)) = split_message(rest).unwrap() {
                        rest = after;
                        match session.on_message(&self.cfg, msg, &mut said).unwrap() {
                            Some(ControllerEvent::SwitchConnected(_)) => {
                                session.encoder(&mut said).send_misses_up(Action::WHOLE).unwrap();
                            }
                            Some(ControllerEvent::PacketIn(p)) => {
                                let actions = [Action::output(PortNo::FLOOD)];
                                let p =
                                    PacketOutRef { actions: &actions, ..PacketOutRef::answer(&p) };
                                session.encoder(&mut said).packet_out(&p).unwrap();
                            }
                            _ => {}
                        }
                    }
                    *torn = rest.to_vec();
                    tx.push((id, said));
                }
                IoEvent::Closed(id, _) => _ = self.sessions.remove(&id),
                _ => {}
            }
        }
        for stream in accepted {
            let (id, mut said) = (self.io.adopt(stream).unwrap(), vec![]);
            let session = ControllerSession::open(&self.cfg, now, &mut said);
            self.sessions.insert(id, (session, vec![]));
            tx.push((id, said));
        }
        for (id, said) in tx {
            assert_eq!(self.io.send(id, &said), said.len(), "little enough to be taken at once");
        }
    }
}

/// Runs network and controller in turn until `is_done`.
fn run(
    hub: &mut Hub,
    rounds: &mut PingRounds,
    is_done: impl Fn(&PingRounds) -> bool,
) -> Result<(), LiveError> {
    let give_up = clock::now() + PATIENCE;
    while !is_done(rounds) {
        assert!(clock::now() < give_up, "{:?}", rounds.status());
        let now = rounds.run_once(Some(clock::now()))?;
        hub.turn(now);
    }
    Ok(())
}

fn play(hub: &Hub, text: &str) -> PingRounds {
    let topology = Topology::from_text(text).unwrap();
    // Low enough for slow machines to reach it.
    let frame_copies_max = Some(100);
    let reconnect_delay = Duration::from_millis(10);
    let options = NetworkOptions { reconnect_delay, frame_copies_max, ..NetworkOptions::default() };
    let pace = PingPacing { round_gap: Duration::ZERO, pings_pps: 1000, ..PingPacing::default() };
    PingRounds::new(LiveNetwork::connect(hub.at, topology, &options).unwrap(), pace)
}

#[test]
fn all_pairs_of_hosts_ping_in_rounds() {
    let mut hub = Hub::new();
    let mut rounds = play(&hub, "tree,2,2");
    run(&mut hub, &mut rounds, |rounds| rounds.status().rounds == 2).unwrap();
    let glance = rounds.status();
    assert_eq!((glance.connected_switches, glance.pings_answered, glance.pings_lost), (3, 24, 0));
    assert!(glance.packet_ins > 0 && rounds.lost_in_last_round().is_empty());
}

#[test]
fn a_switch_reconnects_after_its_connection_broke() {
    let mut hub = Hub::new();
    let mut rounds = play(&hub, "linear,3");
    run(&mut hub, &mut rounds, |rounds| rounds.status().connected_switches == 3).unwrap();
    rounds.network_mut().close_control_connection(1);
    assert_eq!(rounds.status().connected_switches, 2);
    run(&mut hub, &mut rounds, |rounds| rounds.status().connected_switches == 3).unwrap();
    let before = rounds.status().rounds;
    run(&mut hub, &mut rounds, |rounds| rounds.status().rounds > before + 1).unwrap();
    assert!(rounds.lost_in_last_round().is_empty());
}

#[test]
fn a_broadcast_storm_ends_the_network() {
    let mut hub = Hub::new();
    let mut rounds = play(&hub, "ring,3");
    let ended = run(&mut hub, &mut rounds, |_| false);
    assert!(matches!(ended, Err(LiveError::Network(NetworkError::BroadcastStorm { .. }))));
}

#[test]
fn a_failed_connection_is_reported() {
    let hub = Hub::new();
    let mut rounds = play(&hub, "minimal");
    let mut other = Hub::new();
    drop(hub);
    let refused = |rounds: &PingRounds| rounds.network().connect_error().is_some();
    run(&mut other, &mut rounds, refused).unwrap();
    assert_eq!(rounds.network().connect_error(), Some(std::io::ErrorKind::ConnectionRefused));
}
