//! The engine on simulated connections, as the controller of a simulated network.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use sluice_emu::link::LinkImpairments;
use sluice_emu::net::{IpFamily, NetworkChange, NetworkOptions, NetworkSimulation, PingSummary};
use sluice_emu::topology::Topology;
use sluice_openflow::view::PacketIn;
use sluice_openflow::{Action, Encoder, PacketOutRef, PortNo};
use sluice_sdk::{App, Ctx, Verdict};
use sluice_testkit::{Conditions, SimulatedEngine, SimulatedEngineOptions};

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Bytes of each message of [`Flood::bursts`].
const BURST_FRAME_LEN: usize = 1000;

/// Floods every packet-in, and sends messages without effect in every tick.
#[derive(Debug, Clone, Default)]
struct Flood {
    packet_ins: u64,
    /// Messages to each switch in each tick.
    bursts: u64,
    sent: u64,
}

impl App for Flood {
    fn initial_messages(&self, out: &mut Encoder<'_>) {
        out.send_misses_up(Action::WHOLE).unwrap();
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        self.packet_ins += 1;
        let actions = [Action::output(PortNo::FLOOD)];
        ctx.switch
            .packet_out(&PacketOutRef { actions: &actions, ..PacketOutRef::answer(p) })
            .unwrap();
        Verdict::Stop
    }

    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        for _ in 0..self.bursts {
            let (frame, in_port) = (&[0; BURST_FRAME_LEN], PortNo::CONTROLLER);
            let packet_out = PacketOutRef { buffer_id: None, in_port, actions: &[], frame };
            ctx.switch.packet_out(&packet_out).unwrap();
            self.sent += 1;
        }
    }
}

type FloodSimulation = NetworkSimulation<SimulatedEngine<Flood>>;

fn start(shape: &str, options: &SimulatedEngineOptions, app: &Flood) -> FloodSimulation {
    let control = LinkImpairments { delay: 2 * MS, jitter: MS, ..LinkImpairments::default() };
    let network_options = NetworkOptions {
        seed: options.seed,
        control_up: control,
        control_down: control,
        connect_spread: 100 * MS,
        ..NetworkOptions::default()
    };
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let start = Instant::now();
    let engine = SimulatedEngine::new(options, start, |_| app.clone());
    let topology = Topology::from_text(shape).unwrap();
    NetworkSimulation::new(topology, &network_options, start, engine).unwrap()
}

fn assert_all_pairs_ping(net: &mut FloodSimulation, context: &str) {
    let pairs: Vec<_> = PingSummary::all_pairs(net.data_plane().topology()).collect();
    let pings = net.ping(pairs, IpFamily::V4, 5 * S).unwrap();
    assert_eq!(pings.lost_pairs, [], "{context}");
}

fn packet_outs(net: &FloodSimulation, switch: usize) -> u64 {
    net.data_plane().switch(switch).unwrap().counters().packet_outs
}

#[test]
fn all_hosts_reach_each_other_whatever_the_seed() {
    for seed in 0..20 {
        let options =
            SimulatedEngineOptions { seed, workers: 3, ..SimulatedEngineOptions::default() };
        let mut net = start("tree,3,2", &options, &Flood::default());
        net.run_for(3 * S).unwrap();
        assert_eq!(net.connected_switches(), 7, "seed {seed}");
        assert!(net.controller().networks().count() == 3);
        assert_all_pairs_ping(&mut net, &format!("seed {seed}"));
    }
}

/// The metrics contain how long each reply took.
#[test]
fn a_seed_repeats_a_run_exactly() {
    let run = |seed| {
        let options = SimulatedEngineOptions { seed, ..SimulatedEngineOptions::default() };
        let mut net = start("tree,3,2", &options, &Flood { bursts: 10, ..Flood::default() });
        let at = |ms: u32| net.now() + ms * MS;
        for (at, change) in [
            (at(1000), NetworkChange::PauseControlLink(0)),
            (at(1500), NetworkChange::BreakControlConnection(1)),
            (at(4000), NetworkChange::ResumeControlLink(0)),
        ] {
            net.schedule(at, change);
        }
        net.run_for(6 * S).unwrap();
        let pairs: Vec<_> = PingSummary::all_pairs(net.data_plane().topology()).collect();
        let pings = net.ping(pairs, IpFamily::V4, 5 * S).unwrap();
        let mut metrics = vec![];
        net.controller().metrics().collect(&mut |sample| metrics.push(format!("{sample:?}")));
        let bytes: Vec<_> = (0..7).map(|switch| net.control_bytes(switch)).collect();
        (format!("{pings:?}"), bytes, metrics)
    };
    let runs: Vec<_> = (0..4).map(run).collect();
    for (seed, first) in runs.iter().enumerate() {
        let second = run(seed as u64);
        assert_eq!((&first.0, &first.1), (&second.0, &second.1), "seed {seed}");
        assert!(first.2 == second.2, "seed {seed}: the metrics differ");
    }
    assert!(runs.iter().skip(1).all(|run| run.2 != runs.first().unwrap().2), "seeds differ");
}

#[test]
fn a_paused_control_link_causes_a_backlog_which_is_delivered_when_it_resumes() {
    for seed in 0..8 {
        let conditions = Conditions { buffers: 16_000..=64_000, ..Conditions::default() };
        let options = SimulatedEngineOptions {
            seed,
            workers: 1,
            conditions,
            ..SimulatedEngineOptions::default()
        };
        let mut net = start("single,2", &options, &Flood { bursts: 40, ..Flood::default() });
        net.run_for(2 * S).unwrap();
        net.apply(NetworkChange::PauseControlLink(0)).unwrap();
        net.run_for(S).unwrap();
        let before = packet_outs(&net, 0);
        net.run_for(S).unwrap();
        assert_eq!(packet_outs(&net, 0), before, "seed {seed}");
        assert!(net.controller().metric("backlog_bytes") > 100e3, "seed {seed}");
        net.apply(NetworkChange::ResumeControlLink(0)).unwrap();
        let sent = |net: &FloodSimulation| net.controller().apps().next().unwrap().sent;
        let deadline = net.now() + 20 * S;
        // Between two ticks, everything has arrived.
        while packet_outs(&net, 0) != sent(&net) {
            let missing = sent(&net) - packet_outs(&net, 0);
            assert!(net.now() < deadline, "seed {seed}: {missing} messages are missing");
            net.run_for(MS).unwrap();
        }
    }
}

/// The engine does not read for 50 ms at a time, so that the switch has to wait.
#[test]
fn a_controller_that_reads_slowly_receives_everything() {
    let conditions = Conditions {
        preemption_odds: 1,
        preemption_us: 50_000..=50_000,
        small_buffer_odds: 1,
        ..Conditions::default()
    };
    let options =
        SimulatedEngineOptions { workers: 1, conditions, ..SimulatedEngineOptions::default() };
    let mut net = start("single,2", &options, &Flood::default());
    net.run_for(3 * S).unwrap();
    let (now, data_plane) = net.data_plane_mut();
    for number in 0..500 {
        let mac = data_plane.topology().hosts.first().unwrap().mac;
        let frame =
            sluice_emu::net::FrameTraces::frame(mac, sluice_openflow::MacAddr::BROADCAST, number);
        data_plane.send_frame(now, 0, frame).unwrap();
    }
    net.run_for(100 * MS).unwrap();
    let packet_ins = |net: &FloodSimulation| net.controller().apps().next().unwrap().packet_ins;
    assert!(packet_ins(&net) < 250, "{} were read at once", packet_ins(&net));
    net.run_for(30 * S).unwrap();
    let sent = net.data_plane().switch(0).unwrap().counters().packet_ins;
    assert!(sent >= 500, "{sent}");
    assert_eq!(packet_ins(&net), sent);
}

#[test]
fn switches_connect_after_descriptors_were_missing() {
    let mut net = start("linear,4", &SimulatedEngineOptions::default(), &Flood::default());
    net.controller().fail_for_descriptors(3);
    net.run_for(5 * S).unwrap();
    assert_eq!(net.connected_switches(), 4);
    assert_all_pairs_ping(&mut net, "afterwards");
}

#[test]
fn a_stopped_engine_closes_all_connections() {
    let mut net = start("linear,4", &SimulatedEngineOptions::default(), &Flood::default());
    net.run_for(2 * S).unwrap();
    assert_eq!(net.connected_switches(), 4);
    net.controller_mut().stop();
    net.run_for(500 * MS).unwrap();
    assert!(net.controller().has_stopped());
    assert_eq!(net.connected_switches(), 0);
    let options = SimulatedEngineOptions::default();
    let restarted = SimulatedEngine::new(&options, net.now(), |_| Flood::default());
    net.replace_controller(restarted).unwrap();
    net.run_for(5 * S).unwrap();
    assert_eq!(net.connected_switches(), 4);
}
