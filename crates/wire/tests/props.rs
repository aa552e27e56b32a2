//! No octets make a parser panic; what is written is read as it was meant.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use sluice_wire::{
    Action, Command, DatapathId, Desc, ErrorCode, ErrorMsg, ErrorType, Ethernet, Features, Field,
    FieldId, FlowFlags, FlowModView, FlowRemoved, Frame, Hello, Kind, MacAddr, Match, Message,
    Multipart, MultipartKind, Out, PacketIn, PacketOutView, Port, PortNo, PortReason, PortStatus,
    Reason, Role, RoleMsg, Rule, SwitchConfig, Version, Versions, VlanId, ports, split,
};

/// Feeds `octets` to every public parser; all that is asked for is that they return.
fn hear(octets: &[u8]) {
    _ = Ethernet::new(octets);
    _ = Desc::parse(octets);
    for version in 0..=8 {
        _ = ports(Version(version), octets, 16);
    }
    let Ok(Some((frame, _))) = split(octets) else { return };
    _ = frame.kind().to_string();
    _ = Hello::parse(frame);
    _ = Multipart::new(frame).map(|part| Desc::parse(part.body));
    _ = Features::parse(frame);
    _ = SwitchConfig::parse(frame);
    _ = RoleMsg::parse(frame);
    _ = FlowRemoved::parse(frame);
    _ = PortStatus::parse(frame);
    _ = ErrorMsg::new(frame).map(|error| error.request());
    _ = PacketOutView::new(frame).map(PacketOutView::actions);
    if let Ok(view) = FlowModView::new(frame) {
        _ = view.rule().map(|rule| view.to_flow_mod(&rule).priority);
    }
    let message = Message::parse(frame);
    if frame.kind() == Kind::PACKET_IN {
        assert_eq!(PacketIn::new(frame).map(Message::from), message, "view and owned agree");
    } else {
        _ = PacketIn::new(frame);
    }
    let Ok(message) = message else { return };
    let (mut tx, mut xid) = (vec![], 1);
    if message.emit(frame.xid(), &mut Out::new(&mut tx, frame.version(), &mut xid)).is_ok() {
        assert_eq!(Frame::new(&tx).and_then(Message::parse), Ok(message));
    } else {
        assert!(tx.is_empty(), "what cannot be said leaves nothing behind");
    }
}

/// Sets the length in the header to what is there.
fn with_true_length(mut octets: Vec<u8>) -> Vec<u8> {
    let len = u16::try_from(octets.len()).unwrap();
    octets[2..4].copy_from_slice(&len.to_be_bytes());
    octets
}

#[test]
fn golden_messages_cut_and_lengthened_panic_nowhere() {
    for golden in support::all() {
        for end in 0..golden.octets.len() {
            hear(&golden.octets[..end]);
            if end >= 8 {
                hear(&with_true_length(golden.octets[..end].to_vec()));
            }
        }
        for more in 1..=40 {
            let mut longer = golden.octets.clone();
            longer.resize(golden.octets.len() + more, 0xff);
            hear(&longer);
            hear(&with_true_length(longer));
        }
    }
}

/// Every pair of octets is taken for a length once, since every length field is such a pair.
#[test]
fn golden_messages_with_false_lengths_panic_nowhere() {
    for golden in support::all() {
        for at in 2..golden.octets.len() - 1 {
            let len = u16::try_from(golden.octets.len()).unwrap();
            for false_len in [0, 1, 3, 4, 7, 8, len - 1, len, len + 1, 0x7fff, 0xfff8, 0xffff] {
                let mut octets = golden.octets.clone();
                octets[at..at + 2].copy_from_slice(&u16::to_be_bytes(false_len));
                hear(&octets);
            }
            for octet in [0, 1, 0x7f, 0xff] {
                let mut octets = golden.octets.clone();
                octets[at] = octet;
                hear(&octets);
            }
        }
    }
}

#[test]
fn golden_messages_claimed_to_be_of_another_version_panic_nowhere() {
    for golden in support::all() {
        for version in (0..=8).chain([0x81, 0x84, 0xff]) {
            for kind in 0..=40 {
                let mut octets = golden.octets.clone();
                (octets[0], octets[1]) = (version, kind);
                hear(&octets);
            }
        }
    }
}

fn port_no(version: Version) -> BoxedStrategy<PortNo> {
    if version == Version::V1_0 {
        any::<u16>().prop_map(PortNo::from_u16).boxed()
    } else {
        any::<u32>().prop_map(PortNo).boxed()
    }
}

fn mac() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

/// Buffer ids that do not mean that there is none.
fn buffer() -> impl Strategy<Value = Option<u32>> {
    option::of(0..u32::MAX)
}

/// Fields of 1.3, with masks where the table allows them; some of classes that are not in the table.
fn field_13() -> BoxedStrategy<Field> {
    let known = (0..FieldId::ROWS.len(), any::<u128>(), option::of(any::<u128>()));
    let known = known.prop_map(|(n, value, mask)| {
        let row = &FieldId::ROWS[n];
        let ones = u128::MAX >> (128 - 8 * u32::from(row.octets()));
        Field::of(row, value & ones, mask.filter(|_| row.maskable).map(|mask| mask & ones))
    });
    let foreign = (1..=16u8, 0..128u8, any::<u128>(), option::of(any::<u128>()));
    let foreign = foreign.prop_map(|(len, number, value, mask)| {
        let ones = u128::MAX >> (128 - 8 * u32::from(len));
        let id = FieldId { class: 1, number };
        Field { id, len, value: value & ones, mask: mask.map(|mask| mask & ones) }
    });
    prop_oneof![4 => known, 1 => foreign].boxed()
}

type Low = (Option<u16>, Option<MacAddr>, Option<MacAddr>, Option<u16>, Option<u8>);
type Address = Option<(u32, u32)>;
type High = (bool, Option<u8>, Option<u8>, Address, Address, Option<u8>);

/// A match that 1.0 can say, in the order in which it is read.
fn fields_10() -> BoxedStrategy<Vec<Field>> {
    let row = |id: FieldId, value: u128| Field::of(id.row().unwrap(), value, None);
    let address = (any::<u32>(), 0..32u32);
    let low = (
        option::of(any::<u16>()),
        option::of(mac()),
        option::of(mac()),
        option::of(0..0x1000u16),
        option::of(any::<u8>()),
    );
    let high = (
        any::<bool>(),
        option::of(0..64u8),
        option::of(prop::sample::select(vec![1u8, 6, 17])),
        option::of(address.clone()),
        option::of(address),
        option::of(any::<u8>()),
    );
    let build = move |(low, high): (Low, High)| {
        let ((port, dst, src, vid, pcp), (ip, dscp, proto, from, to, tp)) = (low, high);
        let mut fields = vec![];
        fields.extend(port.map(|port| Field::in_port(PortNo::from_u16(port))));
        fields.extend(dst.map(Field::eth_dst));
        fields.extend(src.map(Field::eth_src));
        fields.push(Field::eth_type(if ip { 0x0800 } else { 0x0806 }));
        let vlan = |vid| if vid == 0xfff { Field::untagged() } else { Field::vlan(VlanId(vid)) };
        fields.extend(vid.map(vlan));
        fields.extend(pcp.map(|pcp| row(FieldId::VLAN_PCP, pcp.into())));
        fields.extend(dscp.map(|dscp| row(FieldId::IP_DSCP, dscp.into())));
        let id = if ip { FieldId::IP_PROTO } else { FieldId::ARP_OP };
        fields.extend(proto.map(|proto| row(id, proto.into())));
        let (src, dst) = if ip {
            (FieldId::IPV4_SRC, FieldId::IPV4_DST)
        } else {
            (FieldId::ARP_SPA, FieldId::ARP_TPA)
        };
        for (id, address) in [(src, from), (dst, to)] {
            fields.extend(address.map(|(value, ignored)| {
                let mask = (ignored > 0).then(|| u128::from(u32::MAX << ignored));
                Field { mask, ..row(id, value.into()) }
            }));
        }
        let (src, dst) = match proto.filter(|_| ip) {
            Some(1) => (FieldId::ICMPV4_TYPE, FieldId::ICMPV4_CODE),
            Some(17) => (FieldId::UDP_SRC, FieldId::UDP_DST),
            _ => (FieldId::TCP_SRC, FieldId::TCP_DST),
        };
        fields.extend(tp.map(|tp| row(src, tp.into())));
        fields.extend(tp.map(|tp| row(dst, tp.into())));
        fields
    };
    (low, high).prop_map(build).boxed()
}

fn fields(version: Version) -> BoxedStrategy<Vec<Field>> {
    if version == Version::V1_0 { fields_10() } else { vec(field_13(), 0..6).boxed() }
}

fn action(version: Version) -> BoxedStrategy<Action> {
    let output = (port_no(version), any::<u16>())
        .prop_map(|(port, max_len)| Action::Output { port, max_len })
        .boxed();
    // Bodies that fill their place: what is padded comes back with its padding.
    let other = (0..4usize, any::<u8>())
        .prop_map(|(n, octet)| Action::Other(0xffff, vec![octet; 4 + 8 * n]))
        .boxed();
    let set = |field: Field| Action::SetField(field);
    if version == Version::V1_0 {
        let row = |id: FieldId, value: u128| Field::of(id.row().unwrap(), value, None);
        prop_oneof![
            output,
            other,
            Just(Action::PopVlan),
            (port_no(version), any::<u32>())
                .prop_map(|(port, queue_id)| Action::Enqueue { port, queue_id }),
            mac().prop_map(move |mac| set(Field::eth_dst(mac))),
            mac().prop_map(move |mac| set(Field::eth_src(mac))),
            (0..4096u16).prop_map(move |vid| set(Field::vlan(VlanId(vid)))),
            any::<u8>().prop_map(move |pcp| set(row(FieldId::VLAN_PCP, pcp.into()))),
            (0..64u8).prop_map(move |dscp| set(row(FieldId::IP_DSCP, dscp.into()))),
            any::<u32>().prop_map(move |ip| set(Field::ipv4_src(ip.into()))),
            any::<u32>().prop_map(move |ip| set(Field::ipv4_dst(ip.into()))),
            any::<u16>().prop_map(move |port| set(row(FieldId::TCP_SRC, port.into()))),
            any::<u16>().prop_map(move |port| set(row(FieldId::TCP_DST, port.into()))),
        ]
        .boxed()
    } else {
        prop_oneof![
            output,
            other,
            Just(Action::PopVlan),
            any::<u32>().prop_map(Action::Group),
            any::<u32>().prop_map(Action::SetQueue),
            any::<u16>().prop_map(Action::PushVlan),
            field_13().prop_map(set),
        ]
        .boxed()
    }
}

fn port(version: Version) -> impl Strategy<Value = Port> {
    let speeds = if version == Version::V1_0 { 0..=0 } else { 0..=u32::MAX };
    let features = any::<[u32; 4]>();
    let rest = (any::<u32>(), any::<u32>(), features, [speeds.clone(), speeds]);
    (port_no(version), mac(), any::<[u8; 16]>(), rest).prop_map(
        |(port_no, hw_addr, name, (config, state, features, speed_kbps))| Port {
            port_no,
            hw_addr,
            name,
            config,
            state,
            features,
            speed_kbps,
        },
    )
}

fn octets() -> BoxedStrategy<Vec<u8>> {
    vec(any::<u8>(), 0..80).boxed()
}

fn from_the_switch(version: Version) -> BoxedStrategy<Message> {
    let old = version == Version::V1_0;
    let packet_in = (buffer(), port_no(version), any::<(u16, u8, u8, u64)>(), octets()).prop_map(
        move |(buffer_id, in_port, (total_len, reason, table_id, cookie), frame)| {
            Message::PacketIn {
                buffer_id,
                in_port,
                total_len,
                reason: Reason(reason),
                table_id: if old { 0 } else { table_id },
                cookie: if old { u64::MAX } else { cookie },
                frame,
            }
        },
    );
    let counters = any::<(u64, u16, u8, u8, u32, u32, u16, u16, u64, u64)>();
    let removed = (counters, fields(version)).prop_map(move |(c, fields)| {
        Message::FlowRemoved(FlowRemoved {
            cookie: c.0,
            priority: c.1,
            reason: c.2,
            table_id: if old { 0 } else { c.3 },
            duration_s: c.4,
            duration_nsec: c.5,
            idle_timeout_s: c.6,
            hard_timeout_s: if old { 0 } else { c.7 },
            packet_count: c.8,
            byte_count: c.9,
            matching: Match { fields },
        })
    });
    let features = (any::<(u64, u32, u8, u8, u32, u32)>(), vec(port(version), 0..4)).prop_map(
        move |(f, ports)| {
            Message::FeaturesReply(Features {
                datapath_id: DatapathId(f.0),
                n_buffers: f.1,
                n_tables: f.2,
                auxiliary_id: if old { 0 } else { f.3 },
                capabilities: f.4,
                actions: if old { f.5 } else { 0 },
                ports: if old { ports } else { vec![] },
            })
        },
    );
    let status = (any::<u8>(), port(version)).prop_map(|(reason, port)| {
        Message::PortStatus(PortStatus { reason: PortReason(reason), port })
    });
    let config = any::<(u16, u16)>().prop_map(|(flags, miss_send_len)| {
        Message::GetConfigReply(SwitchConfig { flags, miss_send_len })
    });
    let reply = (any::<u16>(), any::<bool>(), octets()).prop_map(|(kind, more, body)| {
        Message::MultipartReply { kind: MultipartKind(kind), more, body }
    });
    let reply_or_barrier = prop_oneof![3 => reply, 1 => Just(Message::BarrierReply)];
    prop_oneof![packet_in, removed, features, status, config, reply_or_barrier].boxed()
}

fn from_the_controller(version: Version) -> BoxedStrategy<Message> {
    let old = version == Version::V1_0;
    let packet_out = (buffer(), port_no(version), vec(action(version), 0..5), octets()).prop_map(
        |(buffer_id, in_port, actions, frame)| Message::PacketOut {
            buffer_id,
            in_port,
            actions,
            frame,
        },
    );
    let numbers = any::<(u8, u8, u64, u64, u16, u16, u16, u16)>();
    let rule = (fields(version), vec(action(version), 0..5), option::of(any::<u8>())).prop_map(
        move |(fields, actions, goto_table)| Rule {
            matching: Match { fields },
            actions,
            goto_table: goto_table.filter(|_| !old),
        },
    );
    let flow_mod = (numbers, buffer(), port_no(version), rule).prop_map(
        move |(n, buffer_id, out_port, rule)| Message::FlowMod {
            command: Command(n.0),
            table_id: if old { 0 } else { n.1 },
            cookie: n.2,
            cookie_mask: if old { 0 } else { n.3 },
            idle_timeout_s: n.4,
            hard_timeout_s: n.5,
            priority: n.6,
            buffer_id,
            out_port,
            flags: FlowFlags(n.7),
            rule,
        },
    );
    let config = any::<(u16, u16)>().prop_map(|(flags, miss_send_len)| {
        Message::SetConfig(SwitchConfig { flags, miss_send_len })
    });
    let request = (any::<u16>(), any::<bool>(), octets()).prop_map(|(kind, more, body)| {
        Message::MultipartRequest { kind: MultipartKind(kind), more, body }
    });
    let bare = prop::sample::select(vec![
        Message::FeaturesRequest,
        Message::GetConfigRequest,
        Message::BarrierRequest,
    ]);
    prop_oneof![packet_out, flow_mod, config, request, bare].boxed()
}

fn from_both(version: Version) -> BoxedStrategy<Message> {
    // Types of 1.0 stand for other numbers there; those it lacks cannot be said.
    let error_types =
        if version == Version::V1_0 { vec![0, 1, 2, 5, 7, 9] } else { (0..20).collect() };
    let error = (prop::sample::select(error_types), any::<u16>(), octets()).prop_map(
        |(kind, code, data)| Message::Error { kind: ErrorType(kind), code: ErrorCode(code), data },
    );
    let hello = (any::<u8>(), option::of(any::<u32>()))
        .prop_map(|(version, bits)| Message::Hello(Version(version), bits.map(Versions)));
    let role = any::<(u32, u64, bool)>().prop_map(move |(role, generation_id, asks)| {
        let role = RoleMsg { role: Role(role), generation_id };
        match (version, asks) {
            (Version::V1_0, _) => Message::EchoRequest(vec![]),
            (_, true) => Message::RoleRequest(role),
            (_, false) => Message::RoleReply(role),
        }
    });
    let other = (24..=255u8, octets())
        .prop_map(move |(kind, body)| Message::Other(Kind::from_wire(version, kind), body))
        .prop_filter("not modelled", |message| {
            !matches!(message, Message::Other(Kind::ROLE_REQUEST | Kind::ROLE_REPLY, _))
        });
    let request = octets().prop_map(Message::EchoRequest);
    prop_oneof![error, hello, role, other, request, octets().prop_map(Message::EchoReply)].boxed()
}

fn message() -> impl Strategy<Value = (Version, Message)> {
    prop::sample::select(vec![Version::V1_0, Version::V1_3]).prop_flat_map(|version| {
        let from =
            prop_oneof![from_the_switch(version), from_the_controller(version), from_both(version)];
        (Just(version), from)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_octets_panic_nowhere(octets in vec(any::<u8>(), 0..200)) {
        hear(&octets);
    }

    #[test]
    fn random_bodies_of_every_kind_panic_nowhere(
        version in any::<u8>(),
        kind in 0..40u8,
        body in vec(prop_oneof![any::<u8>(), Just(0), Just(8), Just(4)], 0..200),
    ) {
        let mut octets = vec![version, kind, 0, 0, 0, 0, 0, 1];
        octets.extend(body);
        for version in [octets[0], octets[0] % 8] {
            octets[0] = version;
            hear(&with_true_length(octets.clone()));
        }
    }

    #[test]
    fn what_is_written_is_read_as_it_was_meant((version, message) in message(), xid in any::<u32>()) {
        let (mut tx, mut next_xid) = (vec![], 1);
        let said = message.emit(xid, &mut Out::new(&mut tx, version, &mut next_xid));
        prop_assert_eq!(said, Ok(()));
        let frame = Frame::new(&tx).unwrap();
        prop_assert_eq!(frame.xid(), xid);
        prop_assert_eq!(Message::parse(frame), Ok(message));
    }

    /// What one version says and the other cannot leaves nothing behind; what it can is well formed.
    #[test]
    fn a_message_of_one_version_is_said_in_another_or_refused(
        (_, message) in message(),
        version in (1..=6u8).prop_map(Version),
    ) {
        let (mut tx, mut next_xid) = (vec![], 1);
        match message.emit(7, &mut Out::new(&mut tx, version, &mut next_xid)) {
            Ok(()) => prop_assert!(Frame::new(&tx).is_ok_and(|frame| frame.xid() == 7)),
            Err(no) => prop_assert!(tx.is_empty(), "{no}"),
        }
    }
}
