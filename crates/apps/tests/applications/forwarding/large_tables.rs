//! Tables with more flow entries than are listed at once are read in pages.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_apps::forwarding::{Config, Flooding, Forwarding};
use sluice_openflow::view::Multipart as MultipartView;
use sluice_openflow::{
    Action, AggregateStats, DatapathId, Encoder, Field, FieldId, FlowDesc, FlowMod, FlowModCommand,
    FlowStatsRequest, Instruction, MacAddr, Match, Message, Multipart, MultipartFlags,
    MultipartReply, MultipartRequest, MultipartType, PortNo, RawMessage, Stat, Stats,
    SwitchFeatures, Version, VlanId, split_message,
};
use sluice_sdk::view::{Fact, Host, HostId, PortInfo, PortRole, SwitchInfo, SwitchPort};
use sluice_sdk::{App, Ctx, SwitchIndex};
use sluice_testkit::{AppWorker, CalledSwitch};

const SWITCH: DatapathId = DatapathId(1);

/// Edge ports 1 to this are up.
const PORTS: u32 = 8;

/// A port that is down.
const DOWN: PortNo = PortNo(9);

const COOKIE: u64 = 0x666f_7277_0000_0001;

/// Flow entries that a reply has at most, so that the session accepts it.
const LISTED_MAX: usize = 16_384;

/// A switch that answers requests about its flow entries, and applies deletions.
struct LargeTable {
    version: Version,
    worker: AppWorker<Forwarding>,
    now: Instant,
    next_xid: u32,
    entries: Vec<FlowDesc>,
    unanswered: Vec<(u32, MultipartRequest)>,
    unanswered_max: usize,
    listed: usize,
    listed_max: usize,
}

fn mac(n: u32) -> MacAddr {
    MacAddr::from_u64(0x0200_0000_0000 | u64::from(n))
}

fn entry([in_port, src]: [u32; 2], [out_port, dst]: [u32; 2]) -> FlowDesc {
    let fields = [
        Field::in_port(PortNo(in_port)),
        Field::eth_src(mac(src)),
        Field::eth_dst(mac(dst)),
        Field::untagged(),
    ];
    FlowDesc {
        cookie: COOKIE,
        priority: 100,
        matching: fields.into(),
        instructions: vec![Instruction::apply([Action::output(PortNo(out_port))])],
        ..FlowDesc::default()
    }
}

fn is_selected(entry: &FlowDesc, filter: &Match, out_port: PortNo) -> bool {
    let output = vec![Instruction::apply([Action::output(out_port)])];
    let matches = |field: &Field| {
        let value = entry.matching.get(field.id).map(|own| own.value);
        value.is_some_and(|value| value & field.mask.unwrap_or(u128::MAX) == field.value)
    };
    // A match of 1.0 without a tag has no field that says so.
    filter.iter().filter(|field| field.id != FieldId::VLAN_VID).all(matches)
        && (out_port == PortNo::ANY || entry.instructions == output)
}

impl LargeTable {
    /// A switch with these entries; the hosts of `locations` are known at their ports.
    fn new(version: Version, entries: Vec<FlowDesc>, locations: &BTreeMap<u32, u32>) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        // Without requests for the entries of a spanning tree.
        let cfg = Config { flooding: Flooding::Controller, ..Config::default() };
        let mut table = Self {
            version,
            worker: AppWorker::new(0, Forwarding::new(&cfg)),
            now,
            next_xid: 1,
            entries,
            unanswered: Vec::new(),
            unanswered_max: 0,
            listed: 0,
            listed_max: 0,
        };
        let port = |n| PortInfo {
            name: "port".into(),
            hw_addr: MacAddr::default(),
            is_up: PortNo(n) != DOWN,
            role: PortRole::Edge,
        };
        let ports = (1..=DOWN.0).map(|n| (PortNo(n), port(n))).collect();
        table.worker.network.publish(now, Fact::Switch(SWITCH, Some(SwitchInfo { ports })));
        for (&host, &port) in locations {
            let id = HostId { mac: mac(host), vlan: VlanId(0) };
            let at = SwitchPort::new(SWITCH, PortNo(port));
            table.worker.network.publish(now, Fact::Host(id, Some(Host { at, addrs: Vec::new() })));
        }
        table
    }

    /// Calls the application, and handles the messages that it sends.
    fn call(&mut self, call: impl FnOnce(&mut Forwarding, &mut Ctx<'_>)) {
        let called = CalledSwitch {
            index: SwitchIndex(0),
            id: SWITCH,
            version: self.version,
            next_xid: &mut self.next_xid,
            has_room: true,
        };
        let ((), output) = self.worker.call(called, self.now, call);
        let mut tx = output.all();
        self.worker.deliver(self.now);
        for (_, message) in self.worker.take_output().messages {
            Encoder::new(&mut tx, self.version, &mut self.next_xid).encode(&message).unwrap();
        }
        let mut rest = &*tx;
        while let Some((msg, after)) = split_message(rest).unwrap() {
            match Message::parse_raw(msg).unwrap() {
                Message::MultipartRequest(request) => {
                    self.unanswered.push((msg.xid(), request.body));
                }
                Message::FlowMod(deletion) => self.delete(&deletion),
                other => panic!("{other:?}"),
            }
            rest = after;
        }
        self.unanswered_max = self.unanswered_max.max(self.unanswered.len());
    }

    fn delete(&mut self, deletion: &FlowMod) {
        match deletion.command {
            FlowModCommand::DELETE => {
                assert_ne!(deletion.cookie_mask, 0, "it also deletes the entries of others");
            }
            FlowModCommand::DELETE_STRICT => {}
            // The table-miss entry.
            _ => return,
        }
        let FlowMod { matching, out_port, cookie, cookie_mask, .. } = deletion;
        self.entries.retain(|entry| {
            (entry.cookie ^ cookie) & cookie_mask != 0 || !is_selected(entry, matching, *out_port)
        });
    }

    fn selected(&self, request: &FlowStatsRequest) -> impl Iterator<Item = &FlowDesc> {
        self.entries.iter().filter(|entry| is_selected(entry, &request.matching, request.out_port))
    }

    /// The switch is connected, and changes of its table are lost.
    fn verify_entries(&mut self) {
        let entries = std::mem::take(&mut self.entries);
        self.call(|app, ctx| app.on_switch_connected(&SwitchFeatures::default(), ctx));
        self.answer_all();
        self.entries = entries;
        self.call(Forwarding::on_changes_lost);
        self.answer_all();
    }

    /// Answers requests for a time, and ticks meanwhile. Returns the most flow entries that were listed within a second.
    fn run_for(&mut self, time: Duration) -> usize {
        let (end, mut listed_per_s) = (self.now + time, 0);
        while self.now < end {
            let listed = self.listed;
            for _ in 0..4 {
                self.answer_pending();
                self.now += Duration::from_millis(250);
                self.call(Forwarding::on_tick);
            }
            listed_per_s = listed_per_s.max(self.listed - listed);
        }
        listed_per_s
    }

    fn answer_pending(&mut self) {
        while !self.unanswered.is_empty() {
            let (xid, request) = self.unanswered.remove(0);
            self.answer(xid, &request);
        }
    }

    /// Answers requests until there are none for some ticks.
    fn answer_all(&mut self) {
        for _ in 0..100 {
            self.answer_pending();
            self.now += Duration::from_millis(250);
            self.call(Forwarding::on_tick);
        }
        assert!(self.unanswered.is_empty());
    }

    fn answer(&mut self, xid: u32, request: &MultipartRequest) {
        let replies = match request {
            MultipartRequest::AggregateStats(request) => {
                let count = u32::try_from(self.selected(request).count()).unwrap();
                let counts = [Stat::FlowCount(count), Stat::PacketCount(0), Stat::ByteCount(0)];
                let stats = Stats { fields: counts.into() };
                vec![MultipartReply::AggregateStats(AggregateStats { stats })]
            }
            MultipartRequest::FlowDesc(request) => {
                let flows: Vec<_> = self.selected(request).cloned().collect();
                self.listed += flows.len();
                self.listed_max = self.listed_max.max(flows.len());
                let parts = flows.chunks(500).map(<[FlowDesc]>::to_vec);
                parts.map(|flows| MultipartReply::FlowDesc { flows }).collect()
            }
            other => panic!("{other:?}"),
        };
        let (mut kind, mut body) = (MultipartType::FLOW, Vec::new());
        for reply in replies {
            let (mut bytes, mut next_xid) = (Vec::new(), xid);
            let message = Multipart { flags: MultipartFlags::default(), body: reply };
            Message::MultipartReply(message)
                .encode(xid, &mut Encoder::new(&mut bytes, self.version, &mut next_xid))
                .unwrap();
            let part = MultipartView::new(RawMessage::new(&bytes).unwrap()).unwrap();
            kind = part.kind;
            body.extend_from_slice(part.body);
        }
        self.call(|app, ctx| app.on_multipart_reply(xid, kind, &body, ctx));
    }
}

/// Hosts at all ports that are up, and the flow entries between them.
fn hosts_and_entries(hosts: u32) -> (BTreeMap<u32, u32>, Vec<FlowDesc>) {
    let at = |n: u32| 1 + n % PORTS;
    let pairs = (0..hosts).flat_map(|a| (0..hosts).map(move |b| [a, b]));
    let pairs = pairs.filter(|&[a, b]| at(a) != at(b));
    let entries = pairs.map(|[a, b]| entry([at(a), a], [at(b), b])).collect();
    ((0..hosts).map(|n| (n, at(n))).collect(), entries)
}

/// Flow entries that are wrong beside those of `hosts_and_entries`.
fn wrong_entries() -> Vec<FlowDesc> {
    vec![
        entry([1, 0], [2, 9000]), // to an unknown host
        entry([3, 2], [4, 1]),    // not to the port of the host
        entry([2, 0], [3, 2]),    // for packets of a host that is at another port
        entry([1, 0], [DOWN.0, 1]),
        entry([DOWN.0, 0], [2, 1]),
    ]
}

fn assert_stale_entries_are_deleted(version: Version) {
    let (locations, right) = hosts_and_entries(160);
    assert!(right.len() > LISTED_MAX);
    let entries = [right.clone(), wrong_entries()].concat();
    let mut table = LargeTable::new(version, entries, &locations);
    table.verify_entries();
    let wrong: Vec<_> = table.entries.iter().filter(|entry| !right.contains(entry)).collect();
    assert!(wrong.is_empty(), "{version:?} {wrong:?}");
    assert_eq!(table.entries.len(), right.len(), "{version:?}");
    assert!(table.listed_max <= LISTED_MAX, "{version:?} {}", table.listed_max);
}

/// Tables with more entries used to be emptied.
#[test]
fn after_lost_changes_the_wrong_flow_entries_of_a_large_table_are_deleted_and_no_others() {
    for version in [Version::V1_0, Version::V1_3] {
        assert_stale_entries_are_deleted(version);
    }
}

#[test]
fn the_flow_entries_between_two_ports_are_split_by_destination() {
    let hosts = (0..400).map(|n| (n, if n < 200 { 1 } else { 2 })).collect();
    let right: Vec<_> =
        (0..200).flat_map(|a| (200..400).map(move |b| entry([1, a], [2, b]))).collect();
    let mut entries = right.clone();
    entries.push(entry([1, 0], [2, 9000]));
    let mut table = LargeTable::new(Version::V1_3, entries, &hosts);
    table.verify_entries();
    assert!(table.entries == right, "{}", table.entries.len());
    assert!(table.listed_max <= LISTED_MAX && table.unanswered_max == 1, "{}", table.listed_max);
}

/// They used to be kept.
#[test]
fn at_connect_the_flow_entries_of_ports_that_are_down_are_deleted_however_many_there_are() {
    let (locations, right) = hosts_and_entries(160);
    let stale = (0..20_000).map(|n| entry([1, 0], [DOWN.0, 10_000 + n]));
    let mut entries: Vec<_> = right.iter().cloned().chain(stale).collect();
    entries.push(entry([DOWN.0, 0], [2, 1]));
    let mut table = LargeTable::new(Version::V1_3, entries, &locations);
    table.call(|app, ctx| app.on_switch_connected(&SwitchFeatures::default(), ctx));
    assert_eq!((table.entries.len(), table.listed), (right.len(), 0));
    table.answer_all();
    assert_eq!((table.entries.len(), table.listed), (right.len(), right.len()));
    assert_eq!(table.unanswered_max, 1);
}

/// Whatever the reason for which they are wrong. Before, they stayed until the switch connected again.
#[test]
fn in_the_background_wrong_flow_entries_are_found_a_few_at_a_time() {
    /// Flow entries that are listed at a time.
    const PAGE: usize = 512;
    for version in [Version::V1_0, Version::V1_3] {
        let (locations, right) = hosts_and_entries(160);
        let foreign = FlowDesc { cookie: 0x1234, ..entry([1, 0], [2, 9001]) };
        let mut table = LargeTable::new(version, right.clone(), &locations);
        table.call(|app, ctx| app.on_switch_connected(&SwitchFeatures::default(), ctx));
        table.answer_all();
        table.entries.extend(wrong_entries());
        table.entries.push(foreign.clone());
        let listed = table.listed;
        let listed_per_s = table.run_for(Duration::from_secs(240));
        assert_eq!((listed_per_s, table.listed), (0, listed), "it is not due");
        let listed_per_s = table.run_for(Duration::from_secs(240));
        assert!(listed_per_s <= 2 * PAGE, "{version:?} {listed_per_s}");
        assert!(table.unanswered_max == 1, "{version:?} {}", table.unanswered_max);
        let expected = [right, vec![foreign]].concat();
        assert!(table.entries == expected, "{version:?} {}", table.entries.len());
    }
}

#[test]
fn a_switch_that_does_not_list_its_flow_entries_in_the_background_keeps_them() {
    let (locations, entries) = hosts_and_entries(20);
    let mut table = LargeTable::new(Version::V1_3, entries.clone(), &locations);
    table.call(|app, ctx| app.on_switch_connected(&SwitchFeatures::default(), ctx));
    table.answer_all();
    for _ in 0..4 * 1000 {
        table.now += Duration::from_millis(250);
        table.call(Forwarding::on_tick);
    }
    assert!(table.unanswered.len() > 1, "{}", table.unanswered.len());
    assert_eq!(table.entries, entries);
}
