//! Flow entries in the syntax of `ovs-ofctl` have the same meaning here as in Open vSwitch.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::fmt::Write as _;
use std::process::Command;

use sluice_openflow::text::caret;
use sluice_openflow::{Encoder, FlowMod, FlowModCommand, Message, RawMessage, Version};

/// Flow entries, with the output of Open vSwitch for them.
const FLOWS: &str = include_str!("golden/flow_texts.txt");

/// A flow entry in text, and how Open vSwitch prints it.
struct FlowExample {
    flow: &'static str,
    version: Version,
    printed: &'static str,
    /// Our output, if it differs.
    own: Option<&'static str>,
}

/// The examples of the file: input, version and output of Open vSwitch, and our output if it differs.
fn examples() -> Vec<FlowExample> {
    let mut all: Vec<FlowExample> = vec![];
    let mut lines = FLOWS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    while let Some(line) = lines.next() {
        if let Some(own) = line.strip_prefix("= ") {
            all.last_mut().unwrap().own = Some(own);
            continue;
        }
        let (version, printed) = lines.next().unwrap().split_once(' ').unwrap();
        let minor: u8 = version.strip_prefix("1.").unwrap().parse().unwrap();
        all.push(FlowExample { flow: line, version: Version(minor + 1), printed, own: None });
    }
    all
}

fn parsed(flow: &str) -> FlowMod {
    let parsed = FlowMod::from_text(flow, FlowModCommand::ADD);
    parsed.unwrap_or_else(|error| panic!("{}", caret(flow, &error)))
}

/// The fields of the match, sorted, and the actions, from output of Open vSwitch.
fn theirs(printed: &str) -> (Vec<String>, String) {
    let (front, actions) = printed.split_once("actions=").unwrap();
    let mut words = front.split(' ').skip(1).filter(|word| !word.starts_with("table:"));
    let matching = words.next().unwrap_or_default();
    // Parts other than the match have colons or are single words.
    let field = |word: &&str| {
        word.contains('=') || !["send_flow_rem", "check_overlap", "reset_counts"].contains(word)
    };
    let is_match = !matching.contains(':') || matching.contains('=');
    let mut fields: Vec<_> = matching.split(',').filter(field).map(str::to_owned).collect();
    fields.retain(|field| !field.is_empty() && is_match);
    fields.sort_unstable();
    (fields, actions.to_owned())
}

/// The same for our output in the file.
fn ours_in_file(own: &str) -> (Vec<String>, String) {
    let (fields, actions) = own.split_once("actions=").unwrap();
    let fields = fields.trim().split(',').filter(|field| !field.is_empty());
    (fields.map(str::to_owned).collect(), actions.to_owned())
}

/// The same for a parsed flow entry.
fn ours(flow: &FlowMod) -> (Vec<String>, String) {
    let match_only =
        FlowMod { matching: flow.matching.clone(), priority: flow.priority, ..FlowMod::default() };
    let text = match_only.to_text();
    let front = text.strip_suffix("actions=drop").unwrap();
    let mut fields: Vec<_> =
        front.split(',').filter(|f| !f.is_empty()).map(str::to_owned).collect();
    fields.sort_unstable();
    let text = flow.to_text();
    (fields, text.split_once("actions=").unwrap().1.to_owned())
}

fn bytes(flow: &FlowMod, version: Version) -> Result<Vec<u8>, String> {
    let (mut tx, mut xid) = (vec![], 1);
    let mut out = Encoder::new(&mut tx, version, &mut xid);
    Message::FlowMod(flow.clone()).encode(1, &mut out).map_err(|error| error.to_string())?;
    Ok(tx)
}

#[test]
fn flows_survive_a_roundtrip_through_text() {
    for FlowExample { flow, .. } in examples() {
        let first = parsed(flow);
        assert_eq!(parsed(&first.to_text()), first, "{flow}");
    }
}

#[test]
fn flows_are_printed_as_open_vswitch_prints_them() {
    let mut wrong = String::new();
    for FlowExample { flow, printed, own, .. } in examples() {
        let (ours, expected) =
            (ours(&parsed(flow)), own.map_or_else(|| theirs(printed), ours_in_file));
        if ours != expected {
            let _ = writeln!(wrong, "{flow}\n  ours:   {ours:?}\n  expected: {expected:?}");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn flows_survive_a_roundtrip_through_bytes() {
    for FlowExample { flow, version, .. } in examples() {
        let it = parsed(flow);
        let bytes = bytes(&it, version).unwrap_or_else(|error| panic!("{flow}: {error}"));
        let back = Message::parse_raw(RawMessage::new(&bytes).unwrap());
        let Ok(Message::FlowMod(back)) = back else { panic!("{flow}: {back:?}") };
        assert_eq!(back.to_text(), it.to_text());
    }
}

/// Output of `ovs-ofctl ofp-print` for `bytes`.
fn ofp_print(bytes: &[u8]) -> String {
    let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    let output = Command::new("ovs-ofctl").args(["ofp-print", &hex]).output();
    let output = output.unwrap_or_else(|e| panic!("ovs-ofctl: {e}; run `make setup`"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn open_vswitch_prints_our_bytes_as_it_prints_the_flow() {
    let mut wrong = String::new();
    for FlowExample { flow, version, printed, own } in examples() {
        let it = parsed(flow);
        let output = ofp_print(&bytes(&it, version).unwrap());
        let output = output.trim();
        let Some((_, again)) =
            output.split_once("(xid=0x1): ").filter(|it| it.1.contains("actions="))
        else {
            let _ = writeln!(wrong, "{flow}\n  {output}");
            continue;
        };
        let (again, printed) = (theirs(again), theirs(printed));
        if again != printed && own.map(ours_in_file).as_ref() != Some(&again) {
            let _ = writeln!(wrong, "{flow}\n  again:  {again:?}\n  before: {printed:?}");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Invalid flow entries: text, column of the error, message.
const INVALID: &[(&str, usize, &str)] = &[
    ("priority=10,ip,nw_dst=10.0.0.0/24", 34, "missing `actions=`"),
    ("priority=65536,actions=drop", 10, "65536 is over 65535"),
    ("priority=,actions=drop", 9, "`priority` requires a value"),
    ("prioriti=1,actions=drop", 1, "unknown field or keyword `prioriti`"),
    ("ip,nw_dst=10.0.0.0/33,actions=drop", 20, "33 is over 32"),
    ("ip,nw_dst=10.0.0,actions=drop", 11, "invalid IPv4 address `10.0.0`"),
    ("nw_dst=10.0.0.1,actions=drop", 1, "ipv4_dst requires eth_type=0x800"),
    ("ip,tp_dst=80,actions=drop", 4, "tcp_dst requires ip_proto=6"),
    ("dl_src=0:0:0:0,actions=drop", 8, "invalid MAC address `0:0:0:0`"),
    ("dl_vlan=5000,actions=drop", 9, "VLAN ID above 4095 (0xffff matches untagged packets)"),
    ("vLan_tci=5,actions=drop", 1, "unknown field or keyword `vLan_tci`"),
    ("actions=learn(Cookie=5)", 15, "unknown `learn` key `Cookie`"),
    ("in_port=nowhere,actions=drop", 9, "unknown port `nowhere`"),
    ("tun_metadata0=0x,actions=drop", 15, "expected `0x` and hex digits"),
    ("tun_metadata0=0x\u{b}\u{b},actions=drop", 15, "expected `0x` and hex digits"),
    ("ip,ip=3,actions=drop", 7, "`ip` takes no value"),
    ("tcp,nw_proto=17,actions=drop", 5, "conflicting values for `ip_proto`"),
    ("reg0[40]=1,actions=drop", 6, "bit out of range (last bit is 31)"),
    ("reg0[0..3=1,actions=drop", 10, "missing `]`"),
    ("cookie=1/1,actions=drop", 10, "the cookie of a new flow entry takes no mask"),
    ("actions=output:2,foo", 18, "unknown action `foo`"),
    ("actions=output:", 15, "`output` requires a value"),
    ("actions=output:nowhere", 16, "unknown port or field `nowhere`"),
    ("actions=set_field:1.2.3.4->nowhere", 28, "unknown field `nowhere`"),
    ("actions=set_field:1.2.3->ip_src", 19, "invalid IPv4 address `1.2.3`"),
    ("actions=set_field:5", 20, "missing `->` and a field"),
    ("actions=load:256->reg0[0..7]", 14, "value does not fit into 8 bits"),
    ("actions=move:reg0[]->eth_src", 22, "source has 32 bits, destination has 48"),
    ("actions=ct(commit,exec(load:1->ct_mark)", 11, "this parenthesis is not closed"),
    ("actions=ct(commit,foo)", 19, "unknown `ct` key `foo`"),
    ("actions=learn(table=1,foo=2)", 23, "unknown `learn` key `foo`"),
    ("actions=resubmit(,300)", 19, "300 is over 255"),
    ("actions=drop,output:1", 9, "`drop` cannot be combined with other actions"),
    ("actions=goto_table:1,goto_table:2", 22, "duplicate instruction `goto_table`"),
    (
        "actions=output:1,goto_table:2,output:3",
        31,
        "actions must be adjacent, not separated by instructions such as `goto_table`",
    ),
    ("actions=conjunction(1,3/2)", 23, "clause out of range (expected 1 to 2)"),
    ("actions=controller(reason=bored)", 27, "unknown reason `bored`"),
    ("actions=pop_vlan:3", 18, "`pop_vlan` takes no value"),
    ("ä=1,actions=drop", 1, "unknown field or keyword `ä`"),
    ("dl_src=+1:0:0:0:0:0,actions=drop", 8, "invalid MAC address `+1:0:0:0:0:0`"),
    ("oxm_8000_+3=1,actions=drop", 1, "unknown field or keyword `oxm_8000_+3`"),
    ("oxm_8000_99[0..3]=1,actions=drop", 1, "this field does not support bit ranges"),
    ("nxm_in_port=65536,actions=drop", 13, "port 65536 does not fit into 16 bits"),
    ("packet_type=(1,2)3,actions=drop", 18, "unexpected text after the parenthesis"),
    ("actions=load:0->oxm_8000_99", 17, "the size of this field is unknown"),
    ("actions=push:oxm_8000_99[]", 14, "the size of this field is unknown"),
    ("actions=learn(oxm_8000_99[]=5)", 15, "the size of this field is unknown"),
    ("actions=learn(tun_metadata0[0..199]=0x1/0x1)", 40, "`0x1/0x1` is not a number"),
    ("actions=exit(1)->reg0", 16, "`exit` takes no `->` target"),
    ("reg0(1)->reg1,actions=drop", 8, "`reg0` takes no `->` target"),
    ("actions=ct(commit=1)", 19, "`commit` takes no value"),
    ("actions=sample(probability=1,egress=2)", 37, "`egress` takes no value"),
    ("actions=encap(nsh,mpls)", 19, "`encap` pushes only one header"),
    ("actions=decap(packet_type(ns=1),mpls)", 33, "unknown `decap` key `mpls`"),
    ("actions=stat_trigger(duration=+1)", 31, "invalid duration (expected seconds such as `2.5`)"),
    (
        "actions=clone(clone(clone(clone(clone(clone(clone(output:1)))))))",
        51,
        "actions are nested too deep (maximum 6 levels)",
    ),
];

#[test]
fn the_error_of_an_invalid_flow_has_column_and_reason() {
    for &(flow, column, what) in INVALID {
        let error = FlowMod::from_text(flow, FlowModCommand::ADD);
        let error = error.expect_err(flow);
        assert_eq!(
            (error.column, error.message.as_str()),
            (column, what),
            "\n{}",
            caret(flow, &error)
        );
    }
    let delete = FlowMod::from_text("cookie=5", FlowModCommand::DELETE).unwrap_err();
    assert_eq!(delete.column, 9);
}

/// Most of these were found by the fuzz target `text`.
#[test]
fn fields_by_header_name_survive_a_roundtrip() {
    for line in [
        "NXM_OF_VLAN_TCI=5,actions=drop",
        "vlan_tci[0..11]=5,actions=drop",
        "vlan_tci[13..14]=1,actions=drop",
        "NXM_NX_COOKIE=5,actions=drop",
        "ip,NXM_OF_IP_TOS=5,actions=drop",
        "actions=learn(NXM_NX_COOKIE[]=NXM_NX_TUN_ID[],NXM_OF_VLAN_TCI[0..11])",
        "actions=learn(cookie=5,NXM_NX_COOKIE=6,eth_type=0x800)",
        "actions=learn(ONFOXM_ET_ACTSET_OUTPUT[]=5)",
        "actions=delete_field:ONFOXM_ET_ACTSET_OUTPUT",
        "in_port[]=65534,actions=drop",
        "in_port=65534/-1,actions=drop",
        "NXM_OF_IN_PORT[]=65534,actions=drop",
        "actions=set_field:0xff00/0xff00->in_port",
        "actions=sample(probability=1,sampling_port=none)",
        "vlan_tci=0x2000/0x2000,vlan_vid=0x1005/0x100f,actions=drop",
        "vlan_tci=0x2000/0x2000,vlan_vid=0x1005/0x100f,dl_vlan_pcp=3,actions=drop",
        "actions=load:5->tun_metadata0",
        "actions=load:5->tun_metadata0[100..991]",
        "actions=learn(tun_metadata0=0x5)",
        "actions=learn(tun_metadata0=0x0102030405060708090a0b0c0d0e0f101112)",
        "actions=learn(tun_metadata0[0..199]=0x0102030405060708090a0b0c0d0e0f101112)",
        "actions=learn(load:0x0102030405060708090a0b0c0d0e0f101112->tun_metadata0[0..199])",
    ] {
        let flow = FlowMod::from_text(line, FlowModCommand::ADD)
            .unwrap_or_else(|error| panic!("{}", caret(line, &error)));
        let again = flow.to_text();
        assert_eq!(FlowMod::from_text(&again, FlowModCommand::ADD), Ok(flow), "{line}: {again}");
    }
}

#[test]
fn matched_bits_of_the_vlan_tag_are_kept() {
    for (line, text) in [
        ("vlan_tci=0xe000/0xe000", "vlan_tci=0xe000/0xe000"),
        ("vlan_tci=0x2000/0xf000", "vlan_tci=0x2000/0xf000"),
        ("vlan_tci=0x2005", "vlan_tci=0x2005"),
        ("vlan_tci=0", "vlan_tci=0x0000/0x1fff"),
        ("vlan_tci=0xf000/0xf000", "dl_vlan_pcp=7"),
        ("vlan_tci=0x3005", "dl_vlan=5,dl_vlan_pcp=1"),
    ] {
        assert_eq!(parsed(&format!("{line},actions=drop")).matching.to_text(), text, "{line}");
    }
}

#[test]
fn actions_nested_to_the_maximum_survive_a_roundtrip() {
    for line in [
        "actions=clone(clone(clone(clone(clone(clone(output:1))))))",
        "actions=write_actions(clone(clone(clone(clone(clone(output:1))))))",
        "actions=clone(clone(clone(clone(clone(ct(commit,exec(load:1->ct_mark)))))))",
    ] {
        let flow = parsed(line);
        let bytes = bytes(&flow, Version::V1_3).unwrap();
        let back = Message::parse_raw(RawMessage::new(&bytes).unwrap());
        assert!(
            matches!(back, Ok(Message::FlowMod(back)) if back.instructions == flow.instructions)
        );
    }
}

#[test]
fn a_value_too_long_for_its_field_is_refused() {
    for (name, bytes) in [("tun_metadata0", 124), ("oxm_8000_99", 125)] {
        let line = |bytes| format!("{name}=0x{},actions=drop", "11".repeat(bytes));
        assert_eq!(parsed(&line(bytes)).matching.fields.len(), 1);
        let error = FlowMod::from_text(&line(bytes + 1), FlowModCommand::ADD).unwrap_err();
        let what = format!("value of {} bytes is too long (maximum {bytes})", bytes + 1);
        assert_eq!((error.column, error.message), (name.len() + 2, what));
    }
}
