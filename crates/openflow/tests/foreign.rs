//! Open vSwitch and Wireshark decode the messages of the encoder without errors.
//!
//! `make setup` installs both; without them these tests fail.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::fmt::Write as _;
use std::process::Command as Process;

use sluice_openflow::spec::{FieldRow, MaskSupport, Prerequisite};
use sluice_openflow::{
    Action, Encoder, ErrorReason, Field, FieldId, FlowMod, FlowModCommand, FlowModFlags,
    Instruction, MacAddr, MultipartType, PacketOutRef, PortNo, RawMessage, Role, RoleRequest,
    SwitchConfig, Version, Versions, VlanId,
};

/// An encoded message, and the name of its type in Open vSwitch.
struct EncodedMessage {
    title: String,
    name: &'static str,
    bytes: Vec<u8>,
}

fn encoded(
    version: Version,
    title: &str,
    name: &'static str,
    encode: impl FnOnce(&mut Encoder<'_>),
) -> EncodedMessage {
    let (mut bytes, mut xid) = (vec![], 1);
    encode(&mut Encoder::new(&mut bytes, version, &mut xid));
    assert!(RawMessage::new(&bytes).is_ok(), "{title} is not one message");
    EncodedMessage { title: format!("{version} {title}"), name, bytes }
}

/// Messages other than flow mods and packet-outs.
fn other_messages(version: Version) -> Vec<EncodedMessage> {
    let mut all = vec![];
    let mut add = |name, encode: &dyn Fn(&mut Encoder<'_>)| {
        all.push(encoded(version, name, name, encode));
    };
    add("OFPT_HELLO", &|out| _ = out.hello(Versions::SUPPORTED));
    add("OFPT_FEATURES_REQUEST", &|out| _ = out.features_request());
    let config = SwitchConfig { miss_send_len: 0xffff, ..SwitchConfig::default() };
    add("OFPT_SET_CONFIG", &|out| _ = out.set_config(config));
    add("OFPT_GET_CONFIG_REQUEST", &|out| _ = out.get_config_request());
    add("OFPT_ECHO_REQUEST", &|out| _ = out.echo_request());
    add("OFPT_ECHO_REPLY", &|out| out.echo_reply(7, b"sluice").unwrap());
    add("OFPT_BARRIER_REQUEST", &|out| _ = out.barrier_request());
    add("OFPST_DESC", &|out| _ = out.multipart_request(MultipartType::DESC, &[]).unwrap());
    add("OFPT_ERROR", &|out| {
        let request = [out.version().0, 2, 0, 8, 0, 0, 0, 9];
        let request = RawMessage::new(&request).unwrap();
        out.error(ErrorReason::BAD_LEN, request);
    });
    if version >= Version::V1_3 {
        add("OFPST_PORT_DESC", &|out| _ = out.port_desc_request().unwrap());
        for role in [Role::NOCHANGE, Role::EQUAL, Role::MASTER, Role::SLAVE] {
            let role = RoleRequest { role, generation_id: 3, ..RoleRequest::default() };
            add("OFPT_ROLE_REQUEST", &|out| _ = out.role_request(&role).unwrap());
        }
    }
    all
}

/// A plausible value of the field.
fn plausible_value(row: &FieldRow) -> u128 {
    match row.id {
        FieldId::ETH_TYPE => 0x0800,
        FieldId::VLAN_VID => 0x1005,
        FieldId::IP_PROTO => 6,
        FieldId::ICMPV6_TYPE => 135,
        _ => 1,
    }
}

/// The field of `row`, preceded by its prerequisites.
fn with_prerequisites(row: &FieldRow, value: u128, mask: Option<u128>) -> Vec<Field> {
    let mut fields: Vec<Field> = vec![];
    for need in row.prerequisites {
        let first = match need {
            Prerequisite::Present(id) => plausible_value(id.row().unwrap()),
            // ICMPv6 requires IPv6.
            Prerequisite::OneOf(_, values) if row.name.contains("v6") => *values.last().unwrap(),
            Prerequisite::OneOf(_, values) => values[0],
            Prerequisite::Bits(_, bits) => bits | 5,
        };
        for field in with_prerequisites(need.id().row().unwrap(), first, None) {
            if !fields.iter().any(|there| there.id == field.id) {
                fields.push(field);
            }
        }
    }
    let own = Field::new(row.id, value);
    fields.push(mask.map_or(own, |mask| own.masked(mask)));
    fields
}

/// Number of `ipv6_exthdr`, the last field of 1.3.
const LAST_FIELD_OF_1_3: u8 = 39;

/// The fields of OpenFlow 1.3.
fn fields_of_1_3() -> impl Iterator<Item = &'static FieldRow> {
    let of_1_3 = |row: &&FieldRow| row.id.class == 0x8000 && row.id.number <= LAST_FIELD_OF_1_3;
    FieldId::ROWS.iter().filter(of_1_3)
}

/// A flow mod that adds an entry with `fields` and `actions`.
fn add_flow(fields: &[Field], actions: &[Action]) -> FlowMod {
    FlowMod {
        matching: fields.iter().copied().collect(),
        instructions: vec![Instruction::apply(actions)],
        ..FlowMod::default()
    }
}

/// Fields that Open vSwitch 3.1 does not implement; they are optional (§7.2.3.7, table 12).
const UNSUPPORTED_BY_OVS: [FieldId; 3] =
    [FieldId::IN_PHY_PORT, FieldId::PBB_ISID, FieldId::IPV6_EXTHDR];

fn flow_mods_with_fields(version: Version) -> Vec<EncodedMessage> {
    let mut all = vec![];
    for row in fields_of_1_3().filter(|row| !UNSUPPORTED_BY_OVS.contains(&row.id)) {
        let ones = u128::MAX >> (128 - u32::from(row.bits));
        let high = if row.id == FieldId::VLAN_VID { 0x1000 } else { ones & ones << (row.bits / 2) };
        for mask in [None, Some(high)]
            .into_iter()
            .filter(|mask| mask.is_none() || row.masks == MaskSupport::Any)
        {
            let value =
                mask.map_or_else(|| plausible_value(row), |mask| mask & (mask >> 1 | 0x1000));
            let fields = with_prerequisites(row, value, mask);
            let add = add_flow(&fields, &[Action::output(PortNo(3))]);
            let (mut bytes, mut xid) = (vec![], 1);
            match Encoder::new(&mut bytes, version, &mut xid).flow_mod(&add) {
                Ok(_) => {}
                // Only fields and masks that 1.0 lacks are refused.
                Err(error) => {
                    assert_eq!(version, Version::V1_0, "{error}");
                    assert!(row.since > version || mask.is_some(), "{error}");
                    continue;
                }
            }
            let title = format!("{version} flow_mod {:?}", fields.last().unwrap());
            all.push(EncodedMessage { title, name: "OFPT_FLOW_MOD", bytes });
        }
    }
    all
}

/// Fields that are read-only in Open vSwitch 3.1.
const READ_ONLY_IN_OVS: [FieldId; 8] = [
    FieldId::IN_PORT,
    FieldId::IN_PHY_PORT,
    FieldId::ETH_TYPE,
    FieldId::IP_PROTO,
    FieldId::MPLS_BOS,
    FieldId::PBB_ISID,
    FieldId::IPV6_EXTHDR,
    FieldId::METADATA,
];

/// Actions, each with the fields that a flow entry with it must match.
fn actions(version: Version) -> Vec<(Action, Vec<Field>)> {
    let mut all = vec![(Action::Enqueue { port: PortNo(3), queue_id: 4 }, vec![])];
    for port in [
        PortNo(3),
        PortNo::IN_PORT,
        PortNo::TABLE,
        PortNo::NORMAL,
        PortNo::FLOOD,
        PortNo::ALL,
        PortNo::CONTROLLER,
        PortNo::LOCAL,
    ] {
        all.push((Action::output(port), vec![]));
    }
    let tagged = vec![Field::vlan(VlanId(5))];
    all.push((Action::PopVlan, tagged));
    if version > Version::V1_0 {
        all.push((Action::Group { group_id: 1 }, vec![]));
        all.push((Action::SetQueue { queue_id: 1 }, vec![]));
        all.push((Action::PushVlan { ethertype: 0x8100 }, vec![]));
        all.push((Action::DecNwTtl, vec![Field::eth_type(0x0800)]));
    }
    for row in fields_of_1_3().filter(|row| !READ_ONLY_IN_OVS.contains(&row.id)) {
        // Only the prerequisites, not the field itself.
        let mut fields = with_prerequisites(row, plausible_value(row), None);
        let field = fields.pop().unwrap();
        if row.id == FieldId::VLAN_VID {
            fields = vec![Field::vlan(VlanId(9))];
        }
        all.push((Action::SetField { field: field.into() }, fields));
    }
    all
}

fn flow_mods_with_actions(version: Version) -> Vec<EncodedMessage> {
    let mut all = vec![];
    for (action, fields) in actions(version) {
        let actions = [action];
        let add = add_flow(&fields, &actions);
        let (mut bytes, mut xid) = (vec![], 1);
        let result = Encoder::new(&mut bytes, version, &mut xid).flow_mod(&add);
        if version == Version::V1_0 && result.is_err() {
            continue; // 1.0 can set only some fields.
        }
        result.unwrap();
        all.push(EncodedMessage {
            title: format!("{version} {actions:x?}"),
            name: "OFPT_FLOW_MOD",
            bytes,
        });
    }
    for command in 0..=4 {
        let fields = [Field::in_port(PortNo(1)), Field::eth_dst(MacAddr([2, 0, 0, 0, 0, 1]))];
        let goto_table = version > Version::V1_0 && command < 3;
        let flow_mod = FlowMod {
            command: FlowModCommand(command),
            table_id: if version > Version::V1_0 && command >= 3 { FlowMod::TABLE_ALL } else { 0 },
            cookie: 0x5eed,
            cookie_mask: if version > Version::V1_0 && command >= 3 { u64::MAX } else { 0 },
            idle_timeout: 60,
            hard_timeout: 600,
            flags: FlowModFlags::SEND_FLOW_REM,
            matching: fields.into(),
            instructions: if goto_table {
                vec![Instruction::GotoTable { table_id: 1 }]
            } else {
                vec![]
            },
            ..FlowMod::default()
        };
        all.push(encoded(
            version,
            &format!("flow_mod command {command}"),
            "OFPT_FLOW_MOD",
            |out| {
                _ = out.flow_mod(&flow_mod).unwrap();
            },
        ));
    }
    all
}

fn packet_outs(version: Version) -> Vec<EncodedMessage> {
    let frame = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 0x88, 0xb5], &[0; 46]].concat();
    let set_and_output = [
        Action::SetField { field: Field::eth_src(MacAddr([2; 6])).into() },
        Action::output(PortNo::FLOOD),
    ];
    let mut all = vec![];
    for (buffer_id, frame) in [(None, &frame[..]), (Some(7), &[])] {
        for actions in [&set_and_output[..], &set_and_output[1..], &[]] {
            let packet_out =
                PacketOutRef { buffer_id, in_port: PortNo::CONTROLLER, actions, frame };
            all.push(encoded(version, "packet_out", "OFPT_PACKET_OUT", |out| {
                _ = out.packet_out(&packet_out).unwrap();
            }));
        }
    }
    all
}

fn all_messages(version: Version) -> Vec<EncodedMessage> {
    [
        other_messages(version),
        flow_mods_with_fields(version),
        flow_mods_with_actions(version),
        packet_outs(version),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Runs a command; returns whether it succeeded, and its output on standard output and standard error.
fn run(tool: &str, args: &[&str]) -> (bool, String) {
    let output = Process::new(tool).args(args).output();
    let output =
        output.unwrap_or_else(|e| panic!("{tool}: {e}; run `make setup`, which installs it"));
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn assert_open_vswitch_decodes(version: Version) {
    let mut wrong = vec![];
    for EncodedMessage { title, name, bytes } in all_messages(version) {
        let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        let (ok, text) = run("ovs-ofctl", &["ofp-print", &hex]);
        let lower = text.to_lowercase();
        let has_error = ["***", "decode error", "malformed", "unknown", "bad_", "|warn|"]
            .iter()
            .any(|word| lower.contains(word) && !(name == "OFPT_ERROR" && *word == "bad_"));
        if !ok || has_error || !text.contains(name) {
            wrong.push(format!("{title}\n{hex}\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn open_vswitch_decodes_our_messages_of_1_0() {
    assert_open_vswitch_decodes(Version::V1_0);
}

#[test]
fn open_vswitch_decodes_our_messages_of_1_3() {
    assert_open_vswitch_decodes(Version::V1_3);
}

/// A capture with one TCP segment per message, from the controller's port.
fn capture(messages: &[EncodedMessage]) -> Vec<u8> {
    // pcap header: magic, version 2.4, time zone, accuracy, snapshot length, Ethernet; in native byte order.
    let mut file = vec![];
    for word in [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 0xffff, 1] {
        file.extend(word.to_le_bytes());
    }
    let mut seq = 1u32;
    for (n, EncodedMessage { bytes, .. }) in messages.iter().enumerate() {
        let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 127, 0, 0, 1, 127, 0, 0, 2];
        let len = u16::try_from(40 + bytes.len()).unwrap();
        ip[2..4].copy_from_slice(&len.to_be_bytes());
        let mut tcp = vec![];
        tcp.extend(6653u16.to_be_bytes());
        tcp.extend(40_000u16.to_be_bytes());
        tcp.extend(seq.to_be_bytes());
        // Acknowledgement number, data offset, flags ACK and PSH, window, checksum, urgent pointer.
        tcp.extend([0, 0, 0, 1, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
        seq += u32::try_from(bytes.len()).unwrap();
        let frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &ip, &tcp, bytes].concat();
        let len = u32::try_from(frame.len()).unwrap();
        for word in [u32::try_from(n).unwrap(), 0, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// Decodes a capture of `messages`; returns how many are of `protocol`, and which are reported as malformed.
fn tshark(messages: &[EncodedMessage], file: &str, protocol: &str) -> (usize, Vec<String>) {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    std::fs::write(&path, capture(messages)).unwrap();
    let fields =
        ["-T", "fields", "-e", "frame.number", "-e", "frame.protocols", "-e", "_ws.malformed"];
    let columns = ["-e", "_ws.expert.message"];
    let file = path.to_string_lossy();
    let (ok, text) = run("tshark", &[&["-n", "-r", &file][..], &fields, &columns].concat());
    assert!(ok, "{text}");
    let rows = text.lines().filter_map(|line| {
        let (number, rest) = line.split_once('\t')?;
        Some((number.parse::<usize>().ok()?, rest.to_owned()))
    });
    let rows: Vec<_> = rows.collect();
    let is_malformed = |rest: &str| {
        let rest = rest.to_lowercase();
        ["malformed", "invalid", "unknown", "undecoded", "dissector bug"]
            .iter()
            .any(|w| rest.contains(w))
    };
    let malformed = rows.iter().filter(|(_, rest)| is_malformed(rest));
    let malformed =
        malformed.map(|(n, rest)| format!("{}: {rest}", messages[n - 1].title)).collect();
    (rows.iter().filter(|(_, rest)| rest.contains(protocol)).count(), malformed)
}

/// Whether Wireshark 4.0 decodes this message of 1.0 correctly.
///
/// It expects exactly one action in `FLOW_MOD` and `PACKET_OUT`; messages with none or several, also those of
/// `ovs-ofctl`, are reported as malformed. OpenFlow 1.0.0 §5.3.3, §5.3.6.
fn is_supported_by_wireshark(message: &EncodedMessage) -> bool {
    let actions = match message.name {
        "OFPT_FLOW_MOD" => &message.bytes[72..],
        "OFPT_PACKET_OUT" => {
            &message.bytes
                [16..16 + usize::from(u16::from_be_bytes([message.bytes[14], message.bytes[15]]))]
        }
        _ => return true,
    };
    actions.len() >= 4 && actions.len() == usize::from(u16::from_be_bytes([actions[2], actions[3]]))
}

#[test]
fn wireshark_decodes_our_messages_of_1_0() {
    let mut messages = all_messages(Version::V1_0);
    messages.retain(is_supported_by_wireshark);
    let (seen, malformed) = tshark(&messages, "foreign_1_0.pcap", "openflow");
    assert!(malformed.is_empty(), "{malformed:#?}");
    assert_eq!(seen, messages.len());
}

#[test]
fn wireshark_decodes_our_messages_of_1_3() {
    let messages = all_messages(Version::V1_3);
    let (seen, malformed) = tshark(&messages, "foreign_1_3.pcap", "openflow");
    assert!(malformed.is_empty(), "{malformed:#?}");
    assert_eq!(seen, messages.len());
}
