//! Random flow tables and groups, as text that `ovs-ofctl` and this project understand, and random packets that match some of them.

use std::fmt::Write as _;

use sluice_base::Rng;
use sluice_openflow::Match;
use sluice_pipeline::frames;

/// Flow entries of each table.
const ENTRIES: u32 = 9;

/// The cookie of the entries: `test` in ASCII, and the number of the entry.
const COOKIE: u64 = 0x7465_7374_0000_0000;

/// What random tables refer to.
#[derive(Debug, Clone)]
pub struct TableShape {
    /// Number of tables.
    pub tables: u8,
    /// Ports to which entries send; packets arrive there, too.
    pub ports: Vec<u32>,
    /// Whether entries send packets back to the input port, flood, or send to the controller.
    pub has_reserved_ports: bool,
    /// Whether there are select groups, of which a switch chooses a bucket.
    pub has_select_groups: bool,
}

/// The contents of a switch.
#[derive(Debug, Clone, Default)]
pub struct RandomTables {
    /// Groups, in an order in which they can be added.
    pub groups: Vec<String>,
    /// Flow entries. No two of a table have the same priority.
    pub flows: Vec<String>,
}

/// What the packets that an entry matches have.
#[derive(Debug, Clone, Copy, Default)]
struct Guaranteed {
    is_tagged: bool,
    is_untagged: bool,
    is_ipv4: bool,
    transport: Option<&'static str>,
}

fn one_of<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    let at = usize::try_from(rng.below(u32::try_from(all.len()).unwrap_or(1)));
    *all.get(at.unwrap_or(0)).unwrap_or_else(|| panic!("nothing to choose from"))
}

fn is(rng: &mut Rng, percent: u32) -> bool {
    rng.below(100) < percent
}

fn mac(rng: &mut Rng) -> String {
    format!("02:00:00:00:00:0{}", 1 + rng.below(3))
}

fn ip(rng: &mut Rng) -> String {
    format!("10.0.{}.{}", rng.below(2), 1 + rng.below(3))
}

impl RandomTables {
    /// Random contents of this shape.
    pub fn new(rng: &mut Rng, shape: &TableShape) -> Self {
        let groups: Vec<_> = (1..=4).map(|id| group(rng, shape, id)).collect();
        let tables = 0..shape.tables;
        let flows = tables.flat_map(|table| {
            let entries: Vec<_> = (0..ENTRIES).map(|n| flow(rng, shape, table, n)).collect();
            entries
        });
        Self { flows: flows.collect(), groups }
    }
}

fn group(rng: &mut Rng, shape: &TableShape, id: u32) -> String {
    let kinds = if shape.has_select_groups {
        &["all", "all", "indirect", "ff", "select"][..]
    } else {
        &["all", "all", "indirect", "ff"]
    };
    let kind = one_of(rng, kinds);
    let n_buckets = if kind == "indirect" { 1 } else { 1 + rng.below(3) };
    let mut text = format!("group_id={id},type={kind}");
    for _ in 0..n_buckets {
        text.push_str(",bucket=");
        match kind {
            "ff" => _ = write!(text, "watch_port:{},", one_of(rng, &shape.ports)),
            "select" => _ = write!(text, "weight:{},", 1 + rng.below(3)),
            _ => {}
        }
        let mut actions = vec![];
        if is(rng, 50) {
            actions.push(format!("set_field:{}->eth_dst", mac(rng)));
        }
        if is(rng, 15) {
            let vid = 0x1000 | (1 + rng.below(4));
            actions.push(format!("push_vlan:0x8100,set_field:{vid}->vlan_vid"));
        }
        // Of one type, a bucket has a single action: its actions are a set.
        if id > 1 && is(rng, 25) {
            actions.push(format!("group:{}", 1 + rng.below(id - 1)));
        } else {
            actions.push(output(rng, shape));
        }
        _ = write!(text, "actions={}", actions.join(","));
    }
    text
}

fn output(rng: &mut Rng, shape: &TableShape) -> String {
    if shape.has_reserved_ports && is(rng, 20) {
        return one_of(rng, &["in_port", "flood", "all", "CONTROLLER:65535"]).to_owned();
    }
    format!("output:{}", one_of(rng, &shape.ports))
}

fn flow(rng: &mut Rng, shape: &TableShape, table: u8, n: u32) -> String {
    let (matching, has) = if n == 0 { <_>::default() } else { matching(rng, shape, table) };
    let fields =
        if matching.is_empty() { String::new() } else { ",".to_owned() + &matching.join(",") };
    let mut instructions = apply(rng, shape, has);
    if is(rng, 10) {
        instructions.push("clear_actions".to_owned());
    }
    if is(rng, 30) {
        let mut set = vec![];
        if is(rng, 40) {
            set.push(format!("set_field:{}->eth_src", mac(rng)));
        }
        if has.is_ipv4 && is(rng, 30) {
            set.push(format!("set_field:{}->ip_dst", ip(rng)));
        }
        let group = format!("group:{}", 1 + rng.below(4));
        set.push(if is(rng, 25) { group } else { output(rng, shape) });
        instructions.push(format!("write_actions({})", set.join(",")));
    }
    if is(rng, 25) {
        instructions.push(format!("write_metadata:{:#x}/0x7", 1 + rng.below(7)));
    }
    let next = u32::from(table) + 1;
    if next < u32::from(shape.tables) && is(rng, 65) {
        let last = u32::from(shape.tables) - next;
        instructions.push(format!("goto_table:{}", next + rng.below(last)));
    }
    let actions = if instructions.is_empty() { "drop".to_owned() } else { instructions.join(",") };
    // The low priority of the first is not 0: it is no table-miss entry of a controller.
    format!(
        "table={table},priority={},cookie={:#x}{fields},actions={actions}",
        1 + n,
        COOKIE | u64::from(n)
    )
}

fn matching(rng: &mut Rng, shape: &TableShape, table: u8) -> (Vec<String>, Guaranteed) {
    let (mut fields, mut has) = (vec![], Guaranteed::default());
    match rng.below(8) {
        0 => fields.push("arp".to_owned()),
        kind @ 1..=5 => {
            has.is_ipv4 = true;
            has.transport = [None, Some("tcp"), Some("udp"), None, None]
                .get(usize::try_from(kind).unwrap_or(0) - 1)
                .copied()
                .flatten();
            fields.push(has.transport.unwrap_or("ip").to_owned());
            if is(rng, 40) {
                let mask = one_of(rng, &["", "/24", "/255.0.255.0", "/31"]);
                fields.push(format!("nw_dst={}{mask}", ip(rng)));
            }
            if has.transport.is_some() && is(rng, 50) {
                fields.push(format!("tp_dst={}", 80 + rng.below(2)));
            }
        }
        _ => {}
    }
    if is(rng, 25) {
        let mask = one_of(rng, &["", "/00:00:00:00:00:01", "/01:00:00:00:00:00"]);
        fields.push(format!("dl_dst={}{mask}", mac(rng)));
    }
    match rng.below(6) {
        0 => {
            has.is_tagged = true;
            fields.push(format!("dl_vlan={}", 1 + rng.below(4)));
        }
        1 => {
            has.is_untagged = true;
            fields.push("vlan_tci=0/0x1000".to_owned());
        }
        2 => {
            has.is_tagged = true;
            fields.push("vlan_tci=0x1000/0x1000".to_owned());
        }
        _ => {}
    }
    if is(rng, 25) {
        fields.push(format!("in_port={}", one_of(rng, &shape.ports)));
    }
    if table > 0 && is(rng, 30) {
        fields.push(format!("metadata={:#x}/0x{}", rng.below(8), one_of(rng, &["7", "1", "6"])));
    }
    (fields, has)
}

fn apply(rng: &mut Rng, shape: &TableShape, has: Guaranteed) -> Vec<String> {
    let mut actions = vec![];
    let (mut is_pushed, mut is_popped) = (false, false);
    for _ in 0..rng.below(4) {
        match rng.below(9) {
            0 => actions.push(format!("set_field:{}->eth_dst", mac(rng))),
            1 if has.is_ipv4 => actions.push(format!("set_field:{}->ip_dst", ip(rng))),
            2 if has.is_ipv4 => actions.push("dec_ttl".to_owned()),
            3 => actions.extend(
                has.transport
                    .map(|transport| format!("set_field:{}->{transport}_dst", 80 + rng.below(2))),
            ),
            4 if has.is_untagged && !is_pushed => {
                is_pushed = true;
                let vid = 0x1000 | (1 + rng.below(4));
                actions.push(format!("push_vlan:0x8100,set_field:{vid}->vlan_vid"));
            }
            5 if has.is_tagged && !is_popped => {
                is_popped = true;
                actions.push("pop_vlan".to_owned());
            }
            6 if is(rng, 40) => actions.push(format!("group:{}", 1 + rng.below(4))),
            _ => actions.push(output(rng, shape)),
        }
    }
    actions
}

/// The text of a random packet, in the syntax of `ovs-ofctl`.
pub fn random_packet(rng: &mut Rng) -> String {
    let mut text = match rng.below(6) {
        0 => format!("arp,arp_spa={},arp_tpa={}", ip(rng), ip(rng)),
        1 => "dl_type=0x88b5".to_owned(),
        kind => {
            let protocol = one_of(rng, &["tcp", "udp", "icmp"]);
            let mut text = format!("{protocol},nw_src={},nw_dst={}", ip(rng), ip(rng));
            if protocol != "icmp" {
                _ = write!(text, ",tp_src=1000,tp_dst={}", 80 + rng.below(2));
            }
            if kind == 2 {
                _ = write!(text, ",nw_ttl={}", 1 + rng.below(2));
            }
            text
        }
    };
    let dst = if is(rng, 10) { "ff:ff:ff:ff:ff:ff".to_owned() } else { mac(rng) };
    _ = write!(text, ",dl_src={},dl_dst={dst}", mac(rng));
    if is(rng, 35) {
        // Of priority 0: a tag that is pushed in front has the same, as the specification says, but 0 in Open vSwitch.
        _ = write!(text, ",dl_vlan={}", 1 + rng.below(4));
    }
    text
}

/// The frame of a [random packet](random_packet).
///
/// # Panics
/// If the text is not that of a packet.
pub fn packet_frame(text: &str) -> Vec<u8> {
    let fields: Match = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    frames::frame(&fields).unwrap_or_else(|e| panic!("{text}: {e}"))
}
