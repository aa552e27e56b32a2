//! `hosts` and `forwarding` answer bursts as they answer the frames one by one, and usual ones without an allocation.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the failures of a test's helpers are its own"
)]

use std::alloc::System;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sluice_apps::forwarding::{self, Forwarding, Matching};
use sluice_apps::hosts::{self, Hosts};
use sluice_base::Rng;
use sluice_openflow::view::{ErrorMsg, PacketIn, PacketIns};
use sluice_openflow::{
    DatapathId, Encoder, ErrorCode, ErrorReason, ErrorType, MacAddr, Message, PacketInReason,
    PortNo, RawMessage, SwitchFeatures, Version, Versions, VlanId,
};
use sluice_sdk::view::{
    Fact, Host, HostId, PortInfo, PortRole, PublishedFact, SwitchInfo, SwitchPort,
};
use sluice_sdk::{App, AppMetric, Ctx, Network, SwitchIndex};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations are counted for the whole process: one test after the other.
static ALONE: Mutex<()> = Mutex::new(());

const SWITCH: DatapathId = DatapathId(1);
/// Another switch, which is another worker's.
const OTHER: DatapathId = DatapathId(2);
const PORTS: u32 = 6;

/// A worker with one switch.
struct Stage {
    row: (Hosts, Forwarding),
    network: Network,
    version: Version,
    now: Instant,
    tx: Vec<u8>,
    ahead: Vec<u8>,
    xid: u32,
}

/// Whether gauges are read: to count those that wait takes long.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Count {
    All,
    Nothing,
}

/// All that was said since it was asked last.
#[derive(Debug, PartialEq)]
struct Said {
    tx: Vec<u8>,
    mail: Vec<(DatapathId, Message)>,
    told: Vec<PublishedFact>,
    gauges: Vec<(&'static str, u64)>,
}

fn port(role: PortRole, is_up: bool) -> PortInfo {
    PortInfo { name: "p".into(), hw_addr: MacAddr([4; 6]), is_up, role }
}

impl Stage {
    fn new(cfg: &forwarding::Config, version: Version, now: Instant) -> Self {
        let mut network = Network::new(0);
        for switch in [SWITCH, OTHER] {
            let ports: BTreeMap<_, _> =
                (1..=PORTS).map(|n| (PortNo(n), port(PortRole::Edge, true))).collect();
            network.publish(now, Fact::Switch(switch, Some(SwitchInfo { ports })));
        }
        let timeout = Duration::from_secs(3);
        let hosts = hosts::Config { timeout, moves_per_s_max: 50, ..hosts::Config::default() };
        let row = (Hosts::new(&hosts), Forwarding::new(cfg));
        let (tx, ahead) = (Vec::with_capacity(1 << 20), Vec::new());
        let mut stage = Self { row, network, version, now, tx, ahead, xid: 1 };
        stage.tell(|app, ctx| app.on_switch_connected(&SwitchFeatures::default(), ctx));
        stage
    }

    fn tell<T>(&mut self, tell: impl FnOnce(&mut (Hosts, Forwarding), &mut Ctx<'_>) -> T) -> T {
        let here = Encoder::new(&mut self.tx, self.version, &mut self.xid);
        let (ahead, network) = (&mut self.ahead, &mut self.network);
        tell(&mut self.row, &mut Ctx::new(self.now, SwitchIndex(0), SWITCH, here, ahead, network))
    }

    /// A turn: something is heard, told, and carried.
    fn turn(&mut self, now: Instant, count: Count, hear: impl FnOnce(&mut Self)) -> Said {
        self.now = now;
        self.row.on_iteration(now);
        hear(self);
        let mut told = Vec::new();
        while let facts = self.network.take_facts()
            && !facts.is_empty()
        {
            for fact in &facts {
                self.row.on_fact(fact, now, &mut self.network);
            }
            told.extend(facts);
        }
        self.network.take_reports();
        let mut gauges = Vec::new();
        if count == Count::All {
            self.row.metrics(&mut |metric| gauges.push((metric.name, metric.value)));
        }
        Said { tx: std::mem::take(&mut self.tx), mail: self.network.take_messages(), told, gauges }
    }
}

fn host(n: u32) -> HostId {
    HostId { mac: MacAddr::from_u64(0x0200_0000_0000 | u64::from(n)), vlan: VlanId(0) }
}

/// Something that two stages hear alike.
#[derive(Debug)]
enum Heard {
    Frames(Vec<u8>),
    Fact(Fact),
    /// What another worker said.
    Elsewhere(Fact),
    Refused,
    TimePasses,
}

/// A frame among so many hosts at few ports: most are usual; some ask, are tagged, for all, from elsewhere, cut off.
fn put_frame(rng: &mut Rng, hosts: u32, out: &mut Encoder<'_>) {
    let mut few = |n| u8::try_from(rng.below(n)).unwrap();
    let (dst, src) = (u32::from(few(hosts)), u32::from(few(hosts)));
    let in_port = PortNo(if few(60) == 0 { few(PORTS).into() } else { src % PORTS } + 1);
    let dst = if few(40) == 0 { MacAddr::BROADCAST } else { host(dst).mac };
    let tag: &[u8] = if few(20) == 0 { &[0x81, 0, 0, few(2)] } else { &[] };
    let ip = |n: u8| [10, 0, 0, n];
    let of = u8::try_from(src).unwrap() + u8::from(few(50) == 0);
    let inner = match few(12) {
        0 => {
            let mac = host(src).mac.0;
            let start = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1 + few(2)];
            [&start[..], &mac, &ip(of), &[0; 6], &ip(few(hosts))].concat()
        }
        1 => {
            let mut ipv6 = [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8][..], &[6, 64], &[0xfd; 32]].concat();
            ipv6[8] = if few(2) == 0 { 58 } else { 6 };
            ipv6[25] = of;
            ipv6
        }
        2 => vec![0x55, 0x55],
        _ => {
            let protocol = if few(2) == 0 { 17 } else { 6 };
            let start = [8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0];
            [&start[..], &ip(of), &ip(9), &[0, 67, 0, 68 + few(2)]].concat()
        }
    };
    let mut frame = [&dst.0[..], &host(src).mac.0, tag, &inner].concat();
    frame.resize(frame.len().max(60), 0);
    if few(40) == 0 {
        frame.truncate(13 + usize::from(few(30)));
    }
    let buffer_id = (few(3) != 0).then(|| few(200).into());
    let (reason, table_id, cookie) = (PacketInReason::NO_MATCH, 0, u64::MAX);
    let p = PacketIn { buffer_id, in_port, total_len: 60, reason, table_id, cookie, frame: &frame };
    p.encode(out).unwrap();
}

fn next(rng: &mut Rng, hosts: u32, version: Version) -> Heard {
    let place = |rng: &mut Rng| {
        let switch = if rng.below(3) == 0 { OTHER } else { SWITCH };
        SwitchPort::new(switch, PortNo(1 + rng.below(PORTS)))
    };
    match rng.below(60) {
        0 => {
            let at = place(rng);
            let role = match rng.below(4) {
                0 => PortRole::Pending,
                1 => PortRole::Link,
                2 => PortRole::SharedSegment(place(rng)),
                _ => PortRole::Edge,
            };
            Heard::Fact(Fact::Port(at, Some(port(role, rng.below(4) > 0))))
        }
        // All is well again.
        1..=6 => Heard::Fact(Fact::Port(place(rng), Some(port(PortRole::Edge, true)))),
        7 => {
            let there = Host { at: place(rng), addrs: vec![] };
            let is_there = rng.below(2) == 0;
            Heard::Elsewhere(Fact::Host(host(rng.below(hosts)), is_there.then_some(there)))
        }
        8 => Heard::Refused,
        9..=12 => Heard::TimePasses,
        _ => {
            let (mut rx, mut xid) = (Vec::new(), 0);
            let mut out = Encoder::new(&mut rx, version, &mut xid);
            (0..rng.below(30)).for_each(|_| put_frame(rng, hosts, &mut out));
            Heard::Frames(rx)
        }
    }
}

fn refusal(version: Version, cookie: u64) -> Vec<u8> {
    let (mut rule, mut said, mut xid) = (vec![], vec![], 9);
    let f = sluice_openflow::FlowMod { cookie, ..sluice_openflow::FlowMod::default() };
    Encoder::new(&mut rule, version, &mut xid).flow_mod(&f).unwrap();
    let full = ErrorReason::Standard { kind: ErrorType::FLOW_MOD_FAILED, code: ErrorCode(1) };
    Encoder::new(&mut said, version, &mut xid).error_with(9, full, &rule).unwrap();
    said
}

/// Frames are answered alike one by one and in bursts, whatever else happens.
fn compare(cfg: &forwarding::Config, version: Version, hosts: u32, seed: u64) {
    #[expect(clippy::disallowed_methods, reason = "some time to begin with")]
    let start = Instant::now();
    let (mut rng, mut now) = (Rng::new(seed), start);
    let mut one_by_one = Stage::new(cfg, version, now);
    let mut bursts = Stage::new(cfg, version, now);
    for step in 0..400 {
        now += Duration::from_micros(rng.below(40_000).into());
        let heard = next(&mut rng, hosts, version);
        let hear = |stage: &mut Stage, is_burst: bool| match &heard {
            Heard::Frames(rx) if is_burst => {
                let mut frames = PacketIns::new(version, rx);
                stage.tell(|app, ctx| app.on_packet_ins(&mut frames, ctx));
            }
            Heard::Frames(rx) => {
                for p in PacketIns::new(version, rx) {
                    stage.tell(|app, ctx| app.on_packet_in(&p, ctx));
                }
            }
            Heard::Fact(fact) => _ = stage.network.publish(now, fact.clone()),
            Heard::Elsewhere(fact) => {
                // It is known before anybody hears that it is news, as if a burst came between.
                let stamp = sluice_sdk::view::Stamp::new(now, 1);
                let told = PublishedFact { stamp, fact: fact.clone() };
                if stage.network.apply_remote(&told) && !is_early(&told) {
                    stage.row.on_fact(&told, now, &mut stage.network);
                }
            }
            Heard::Refused => {
                let error = refusal(version, 0x666f_7277_0000_0000);
                let error = ErrorMsg::new(RawMessage::new(&error).unwrap()).unwrap();
                stage.tell(|app, ctx| app.on_error(&error, ctx));
            }
            Heard::TimePasses => stage.tell(App::on_tick),
        };
        let count = if step % 40 == 39 { Count::All } else { Count::Nothing };
        let expected = one_by_one.turn(now, count, |stage| hear(stage, false));
        let said = bursts.turn(now, count, |stage| hear(stage, true));
        assert_eq!(said, expected, "{version} {cfg:?} seed {seed} step {step}");
    }
    let [paths, waited] = ["forwarding_paths_installed", "forwarding_packets_during_installation"]
        .map(|name| gauge(&bursts, name));
    // Where conversations are many, few come up again so soon.
    let is_few = hosts < 20 && cfg.matching != Matching::FiveTuple;
    let least = if is_few { 300 } else { 30 };
    assert!(paths > 300 && waited > least, "{version} {cfg:?} seed {seed}: {paths} {waited}");
}

/// Whether news is heard only later.
fn is_early(told: &PublishedFact) -> bool {
    matches!(&told.fact, Fact::Host(id, _) if id.mac.0[5].is_multiple_of(2))
}

fn gauge(stage: &Stage, wanted: &str) -> u64 {
    let mut found = 0;
    stage.row.metrics(&mut |AppMetric { name, value, .. }| {
        if name == wanted {
            found = value;
        }
    });
    found
}

#[test]
fn a_burst_is_answered_like_its_frames() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let refused_retry = Duration::from_millis(30);
    let cfg = forwarding::Config { refused_retry, ..forwarding::Config::default() };
    for version in Versions::SPOKEN.iter() {
        for matching in [Matching::Pair, Matching::Dst, Matching::FiveTuple] {
            for both_directions in [true, false] {
                let cfg = forwarding::Config { matching, both_directions, ..cfg.clone() };
                compare(&cfg, version, 12, 7);
            }
        }
        (0..3).for_each(|seed| compare(&cfg, version, 40, seed));
    }
}

/// So many hosts, of which each sends to the next, from another port.
fn conversations(version: Version, hosts: u32, buffer_id: Option<u32>) -> Vec<u8> {
    let (mut rx, mut xid) = (Vec::new(), 0);
    let mut out = Encoder::new(&mut rx, version, &mut xid);
    for n in 0..hosts {
        let [dst, src] = [(n + 1) % hosts, n].map(|n| host(n).mac.0);
        let ip = [8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, n.to_be_bytes()[3]];
        let frame = [&dst[..], &src, &ip, &[10, 0, 0, 99], &[0; 26]].concat();
        let in_port = PortNo(n % PORTS + 1);
        let (reason, cookie) = (PacketInReason::NO_MATCH, u64::MAX);
        let p = PacketIn {
            buffer_id,
            in_port,
            total_len: 60,
            reason,
            table_id: 0,
            cookie,
            frame: &frame,
        };
        p.encode(&mut out).unwrap();
    }
    rx
}

#[test]
fn usual_frames_are_answered_without_an_allocation_and_refresh_their_hosts() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    #[expect(clippy::disallowed_methods, reason = "some time to begin with")]
    let start = Instant::now();
    for version in [Version::V1_0, Version::V1_3] {
        for buffer_id in [Some(7), None] {
            let mut stage = Stage::new(&forwarding::Config::default(), version, start);
            let rx = conversations(version, 120, buffer_id);
            let mut now = start;
            let mut ask = |stage: &mut Stage| {
                now += Duration::from_millis(100);
                stage.now = now;
                stage.row.on_iteration(now);
                stage.tx.clear();
                let mut frames = PacketIns::new(version, &rx);
                stage.tell(|app, ctx| app.on_packet_ins(&mut frames, ctx));
            };
            (0..3).for_each(|_| ask(&mut stage));
            stage.network.take_facts();
            let before = gauge(&stage, "forwarding_paths_installed");
            let region = Region::new(ALLOCATOR);
            (0..100).for_each(|_| ask(&mut stage));
            let change = region.change();
            assert_eq!(gauge(&stage, "forwarding_paths_installed") - before, 12_000);
            // For what the test runner does meanwhile: it counts for the whole process.
            let allocations = change.allocations + change.reallocations;
            assert!(allocations <= 20, "{version} {buffer_id:?}: {change:?}");
            // Ten seconds have passed, three times what they may be silent.
            stage.tell(App::on_tick);
            assert_eq!(stage.network.take_messages(), [], "nobody is asked");
        }
    }
}
