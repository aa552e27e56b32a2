//! `hosts` and `forwarding` handle a burst of packet-ins like the same packet-ins one by one, and common ones without an
//! allocation.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use allocation_counter::measure;
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

pub(crate) const SWITCH: DatapathId = DatapathId(1);
/// A switch of another worker.
pub(crate) const REMOTE_SWITCH: DatapathId = DatapathId(2);
const PORTS: u32 = 6;

/// A worker with one switch.
pub(crate) struct TestWorker {
    pub(crate) apps: (Hosts, Forwarding),
    pub(crate) network: Network,
    version: Version,
    now: Instant,
    pub(crate) tx: Vec<u8>,
    urgent: Vec<u8>,
    pub(crate) next_xid: u32,
}

/// Whether metrics are read, which is slow: some are counted on request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ReadMetrics {
    Yes,
    No,
}

/// What the applications sent and published in one iteration.
#[derive(Debug, PartialEq)]
pub(crate) struct Output {
    pub(crate) tx: Vec<u8>,
    /// Sent after `tx`.
    pub(crate) messages: Vec<(DatapathId, Message)>,
    facts: Vec<PublishedFact>,
    metrics: Vec<(&'static str, u64)>,
}

pub(crate) fn port(role: PortRole, is_up: bool) -> PortInfo {
    PortInfo { name: "p".into(), hw_addr: MacAddr([4; 6]), is_up, role }
}

impl TestWorker {
    pub(crate) fn new(cfg: &forwarding::Config, version: Version, now: Instant) -> Self {
        let mut network = Network::new(0);
        for switch in [SWITCH, REMOTE_SWITCH] {
            let ports: BTreeMap<_, _> =
                (1..=PORTS).map(|n| (PortNo(n), port(PortRole::Edge, true))).collect();
            network.publish(now, Fact::Switch(switch, Some(SwitchInfo { ports })));
        }
        let timeout = Duration::from_secs(3);
        let hosts = hosts::Config { timeout, moves_per_s_max: 50, ..hosts::Config::default() };
        let apps = (Hosts::new(&hosts), Forwarding::new(cfg));
        let (tx, urgent) = (Vec::with_capacity(1 << 20), Vec::new());
        let mut worker = Self { apps, network, version, now, tx, urgent, next_xid: 1 };
        worker.call(|app, ctx| app.on_switch_connected(&SwitchFeatures::default(), ctx));
        worker
    }

    pub(crate) fn call<T>(
        &mut self,
        call: impl FnOnce(&mut (Hosts, Forwarding), &mut Ctx<'_>) -> T,
    ) -> T {
        let encoder = Encoder::new(&mut self.tx, self.version, &mut self.next_xid);
        let (urgent, network) = (&mut self.urgent, &mut self.network);
        call(
            &mut self.apps,
            &mut Ctx::new(self.now, SwitchIndex(0), SWITCH, encoder, urgent, network),
        )
    }

    pub(crate) fn receive_error(&mut self, error: &[u8]) {
        let error = ErrorMsg::new(RawMessage::new(error).unwrap()).unwrap();
        self.call(|app, ctx| app.on_error(&error, ctx));
    }

    /// One event-loop iteration: input is processed, facts are delivered, output is taken.
    pub(crate) fn iterate(
        &mut self,
        now: Instant,
        read_metrics: ReadMetrics,
        process: impl FnOnce(&mut Self),
    ) -> Output {
        self.now = now;
        self.apps.on_iteration(now);
        process(self);
        let mut published = Vec::new();
        self.network.deliver(&mut self.apps, now, |facts| published.extend_from_slice(&facts));
        self.network.take_reports();
        let mut metrics = Vec::new();
        if read_metrics == ReadMetrics::Yes {
            self.apps.metrics(&mut |metric| metrics.push((metric.name, metric.value)));
        }
        Output {
            tx: std::mem::take(&mut self.tx),
            messages: self.network.take_messages(),
            facts: published,
            metrics,
        }
    }
}

pub(crate) fn host(n: u32) -> HostId {
    HostId { mac: MacAddr::from_u64(0x0200_0000_0000 | u64::from(n)), vlan: VlanId(0) }
}

/// An input that two workers process alike.
#[derive(Debug)]
pub(crate) enum Input {
    PacketIns(Vec<u8>),
    Fact(Fact),
    /// A fact that another worker published.
    RemoteFact(Fact),
    /// A refused flow entry.
    TableFull,
    Tick,
}

/// Lengths of frames, around those that are copied at once.
const FRAME_LENS: [usize; 8] = [60, 64, 65, 74, 127, 128, 129, 1500];

/// Encodes a packet-in from one of `hosts` hosts. Most contain common packets; some are ARP or neighbor discovery, tagged, broadcast,
/// from another port, truncated, or not sent whole.
fn encode_packet_in(rng: &mut Rng, hosts: u32, out: &mut Encoder<'_>) {
    let mut below = |n| u8::try_from(rng.below(n)).unwrap();
    let (dst, src) = (u32::from(below(hosts)), u32::from(below(hosts)));
    let in_port = PortNo(if below(60) == 0 { below(PORTS).into() } else { src % PORTS } + 1);
    let dst = if below(40) == 0 { MacAddr::BROADCAST } else { host(dst).mac };
    let tag: &[u8] = if below(20) == 0 { &[0x81, 0, 0, below(2)] } else { &[] };
    let ip = |n: u8| [10, 0, 0, n];
    let claimed = u8::try_from(src).unwrap() + u8::from(below(50) == 0);
    let inner = match below(12) {
        0 => {
            let mac = host(src).mac.0;
            let start = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1 + below(2)];
            [&start[..], &mac, &ip(claimed), &[0; 6], &ip(below(hosts))].concat()
        }
        1 => {
            let mut ipv6 = [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8][..], &[6, 64], &[0xfd; 32]].concat();
            ipv6[8] = if below(2) == 0 { 58 } else { 6 };
            ipv6[25] = claimed;
            ipv6
        }
        2 => vec![0x55, 0x55],
        _ => {
            let protocol = if below(2) == 0 { 17 } else { 6 };
            let start = [8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0];
            [&start[..], &ip(claimed), &ip(9), &[0, 67, 0, 68 + below(2)]].concat()
        }
    };
    let mut frame = [&dst.0[..], &host(src).mac.0, tag, &inner].concat();
    frame.resize(FRAME_LENS[usize::from(below(8))], below(250));
    let total_len =
        u16::try_from(frame.len() + [0, 4, 5][usize::from(below(20)).saturating_sub(17)]).unwrap();
    if below(40) == 0 {
        frame.truncate(13 + usize::from(below(30)));
    }
    let buffer_id = (below(2) == 0).then(|| below(200).into());
    let (reason, table_id, cookie) = (PacketInReason::NO_MATCH, 0, u64::MAX);
    let p = PacketIn { buffer_id, in_port, total_len, reason, table_id, cookie, frame: &frame };
    p.encode(out).unwrap();
}

pub(crate) fn random_input(rng: &mut Rng, hosts: u32, version: Version) -> Input {
    let random_port = |rng: &mut Rng| {
        let switch = if rng.below(3) == 0 { REMOTE_SWITCH } else { SWITCH };
        SwitchPort::new(switch, PortNo(1 + rng.below(PORTS)))
    };
    match rng.below(60) {
        0 => {
            let at = random_port(rng);
            let role = match rng.below(4) {
                0 => PortRole::Pending,
                1 => PortRole::Link,
                2 => PortRole::SharedSegment(random_port(rng)),
                _ => PortRole::Edge,
            };
            Input::Fact(Fact::Port(at, Some(port(role, rng.below(4) > 0))))
        }
        // Ports become edge ports again.
        1..=6 => Input::Fact(Fact::Port(random_port(rng), Some(port(PortRole::Edge, true)))),
        7 => {
            let location = Host { at: random_port(rng), addrs: vec![] };
            let is_known = rng.below(2) == 0;
            Input::RemoteFact(Fact::Host(host(rng.below(hosts)), is_known.then_some(location)))
        }
        8 => Input::TableFull,
        9..=12 => Input::Tick,
        _ => {
            let (mut rx, mut xid) = (Vec::new(), 0);
            let mut out = Encoder::new(&mut rx, version, &mut xid);
            (0..rng.below(30)).for_each(|_| encode_packet_in(rng, hosts, &mut out));
            Input::PacketIns(rx)
        }
    }
}

impl Input {
    /// Has a worker process this input at `now`, packet-ins by `handle`.
    pub(crate) fn process(
        &self,
        worker: &mut TestWorker,
        now: Instant,
        handle: impl FnOnce(&mut TestWorker, PacketIns<'_>),
    ) {
        match self {
            Self::PacketIns(rx) => handle(worker, PacketIns::new(worker.version, rx)),
            Self::Fact(fact) => _ = worker.network.publish(now, fact.clone()),
            Self::RemoteFact(fact) => {
                // For some facts `on_fact` is not called yet, as if a burst of packet-ins came in between.
                let stamp = sluice_sdk::view::Stamp::new(now, 1);
                let published = PublishedFact { stamp, fact: fact.clone() };
                if worker.network.apply_remote(&published) && !is_published_late(&published) {
                    worker.apps.on_fact(&published, now, &mut worker.network);
                }
            }
            Self::TableFull => {
                let (version, kind) = (worker.version, ErrorType::FLOW_MOD_FAILED);
                let error = flow_mod_error(version, FIVE_TUPLE_COOKIE, kind, 1);
                worker.receive_error(&error);
            }
            Self::Tick => worker.call(App::on_tick),
        }
    }
}

/// Handles packet-ins one after the other.
pub(crate) fn handle_one_by_one(worker: &mut TestWorker, packets: PacketIns<'_>) {
    for p in packets {
        worker.call(|app, ctx| app.on_packet_in(&p, ctx));
    }
}

/// Cookies of flow entries that match five-tuples, and pairs.
const FIVE_TUPLE_COOKIE: u64 = 0x666f_7277_0000_0000;
pub(crate) const PAIR_COOKIE: u64 = FIVE_TUPLE_COOKIE + 1;

/// The error message about a flow entry with this cookie.
pub(crate) fn flow_mod_error(version: Version, cookie: u64, kind: ErrorType, code: u32) -> Vec<u8> {
    let (mut flow_mod, mut bytes, mut xid) = (vec![], vec![], 9);
    let f = sluice_openflow::FlowMod { cookie, ..sluice_openflow::FlowMod::default() };
    Encoder::new(&mut flow_mod, version, &mut xid).flow_mod(&f).unwrap();
    let reason = ErrorReason::Standard { kind, code: ErrorCode(code) };
    Encoder::new(&mut bytes, version, &mut xid).error_with(9, reason, &flow_mod).unwrap();
    bytes
}

/// Asserts that three workers send and publish the same: one gets its packet-ins one by one, one in bursts, and one in bursts without
/// templates. The switch has refused a match with the cookie `refused`.
fn compare(
    cfg: &forwarding::Config,
    version: Version,
    hosts: u32,
    seed: u64,
    refused: Option<u64>,
) {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let start = Instant::now();
    let (mut rng, mut now) = (Rng::new(seed), start);
    let mut single = TestWorker::new(cfg, version, now);
    let mut burst = TestWorker::new(cfg, version, now);
    let without_templates = forwarding::Config { templates: false, ..cfg.clone() };
    let mut encoded = TestWorker::new(&without_templates, version, now);
    for worker in [&mut single, &mut burst, &mut encoded] {
        worker.iterate(now, ReadMetrics::No, |worker| {
            if let Some(cookie) = refused {
                let error = flow_mod_error(version, cookie, ErrorType::BAD_MATCH, 6);
                worker.receive_error(&error);
            }
        });
    }
    for step in 0..400 {
        now += Duration::from_micros(rng.below(40_000).into());
        let input = random_input(&mut rng, hosts, version);
        let read_metrics = if step % 40 == 39 { ReadMetrics::Yes } else { ReadMetrics::No };
        let expected = single.iterate(now, read_metrics, |worker| {
            input.process(worker, now, handle_one_by_one);
        });
        let handle_burst = |worker: &mut TestWorker, mut packets: PacketIns<'_>| {
            worker.call(|app, ctx| app.on_packet_ins(&mut packets, ctx));
        };
        for worker in [&mut burst, &mut encoded] {
            let output = worker.iterate(now, read_metrics, |worker| {
                input.process(worker, now, handle_burst);
            });
            assert_eq!(output, expected, "{version} {cfg:?} seed {seed} step {step}");
        }
    }
    let [paths, pending] = ["forwarding_paths_installed", "forwarding_packets_during_installation"]
        .map(|name| metric(&burst, name));
    // With many flows, few packet-ins belong to a path that is being installed.
    let has_few_flows = hosts < 20 && cfg.matching != Matching::FiveTuple && refused.is_none();
    let pending_min = if has_few_flows { 300 } else { 30 };
    assert!(
        paths > 300 && pending > pending_min,
        "{version} {cfg:?} seed {seed}: {paths} {pending}"
    );
}

/// Whether `on_fact` is not called yet for this fact.
fn is_published_late(published: &PublishedFact) -> bool {
    matches!(&published.fact, Fact::Host(id, _) if id.mac.0[5].is_multiple_of(2))
}

fn metric(worker: &TestWorker, wanted: &str) -> u64 {
    let mut found = 0;
    worker.apps.metrics(&mut |AppMetric { name, value, .. }| {
        if name == wanted {
            found = value;
        }
    });
    found
}

#[test]
fn a_burst_is_handled_like_its_packet_ins_one_by_one() {
    let refused_retry = Duration::from_millis(30);
    let cfg = forwarding::Config { refused_retry, ..forwarding::Config::default() };
    for version in Versions::SUPPORTED.iter() {
        for matching in [Matching::Pair, Matching::Dst, Matching::FiveTuple] {
            for both_directions in [true, false] {
                let cfg = forwarding::Config { matching, both_directions, ..cfg.clone() };
                compare(&cfg, version, 12, 7, None);
            }
        }
        (0..3).for_each(|seed| compare(&cfg, version, 40, seed, None));
    }
}

#[test]
fn a_burst_is_handled_alike_if_the_switch_has_refused_a_match() {
    for version in [Version::V1_0, Version::V1_3] {
        for (matching, cookie) in
            [(Matching::FiveTuple, FIVE_TUPLE_COOKIE), (Matching::Pair, PAIR_COOKIE)]
        {
            let refused_retry = Duration::from_millis(30);
            let cfg =
                forwarding::Config { matching, refused_retry, ..forwarding::Config::default() };
            compare(&cfg, version, 12, 7, Some(cookie));
        }
    }
}

/// Packet-ins of `hosts` hosts, each of which sends to the next one.
fn packet_ins(version: Version, hosts: u32, buffer_id: Option<u32>) -> Vec<u8> {
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
fn common_packet_ins_are_handled_without_an_allocation_and_refresh_their_hosts() {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let start = Instant::now();
    for version in [Version::V1_0, Version::V1_3] {
        for (matching, buffer_id) in [Matching::Pair, Matching::FiveTuple]
            .into_iter()
            .flat_map(|matching| [(matching, Some(7)), (matching, None)])
        {
            let cfg = forwarding::Config { matching, ..forwarding::Config::default() };
            let mut worker = TestWorker::new(&cfg, version, start);
            if matching == Matching::FiveTuple {
                // Then the switch gets flow entries that match pairs, though others do not.
                let error = flow_mod_error(version, FIVE_TUPLE_COOKIE, ErrorType::BAD_MATCH, 6);
                worker.iterate(start, ReadMetrics::No, |worker| worker.receive_error(&error));
                // The deletion of finer entries is repeated.
                let later = start + Duration::from_secs(1);
                worker.iterate(later, ReadMetrics::No, |worker| worker.call(App::on_tick));
            }
            let rx = packet_ins(version, 120, buffer_id);
            let mut now = start;
            let mut send = |worker: &mut TestWorker| {
                now += Duration::from_millis(100);
                worker.now = now;
                worker.apps.on_iteration(now);
                worker.tx.clear();
                let mut packets = PacketIns::new(version, &rx);
                worker.call(|app, ctx| app.on_packet_ins(&mut packets, ctx));
            };
            (0..3).for_each(|_| send(&mut worker));
            worker.network.take_facts();
            let before = metric(&worker, "forwarding_paths_installed");
            let allocated = measure(|| (0..100).for_each(|_| send(&mut worker)));
            assert_eq!(metric(&worker, "forwarding_paths_installed") - before, 12_000);
            assert_eq!(allocated.count_total, 0, "{version} {matching:?} {buffer_id:?}");
            // Ten seconds have passed, three times the timeout of hosts.
            worker.call(App::on_tick);
            assert_eq!(worker.network.take_messages(), [], "no host is probed");
        }
    }
}
