//! Measures the cost of parsing and encoding messages. `lab/codec` uses it; without arguments, it prints a table.
//!
//! ```text
//! message_cost                                   every case once, nanoseconds
//! message_cost messages DIR                      writes the messages to DIR, as <version>_<kind>.bin
//! message_cost DIR VERSION KIND OPERATION COUNT  one case, COUNT times, on the message in DIR; prints nanoseconds each
//! ```

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures time and prints it"
)]

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;
use std::{env, fs};

use sluice_fastpath::{MessageTemplate, TemplateValues};
use sluice_openflow::view::flow_stats;
use sluice_openflow::{
    Action, Elapsed, Encoder, EthHeader, Ethernet, Field, FlowDesc, FlowMod, FlowModFlags,
    FlowRemoved, Instruction, MacAddr, Match, Message, Multipart, MultipartFlags, MultipartReply,
    PacketIn, PacketOutRef, PortNo, RawMessage, Stat, Stats, Version, view,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The measured cases: a kind of message, and an operation. `view` parses in place, `read` into an owned message;
/// `write` encodes, `stamp` patches a message template.
const CASES: [(&str, &str); 11] = [
    ("packet_in", "view"),
    ("packet_in", "read"),
    ("flow_mod", "write"),
    ("flow_mod", "stamp"),
    ("flow_mod", "read"),
    ("packet_out", "write"),
    ("packet_out", "stamp"),
    ("flow_removed", "view"),
    ("flow_removed", "read"),
    ("flow_stats", "view"),
    ("flow_stats", "read"),
];

const VERSIONS: [(&str, Version); 3] =
    [("1.0", Version::V1_0), ("1.3", Version::V1_3), ("1.5", Version::V1_5)];

/// Kinds of messages.
const KINDS: [&str; 5] = ["packet_in", "flow_mod", "packet_out", "flow_removed", "flow_stats"];

/// Flow entries in the statistics reply.
const FLOWS: u8 = 100;

/// Repetitions of a case in the table.
const TABLE_REPETITIONS: u32 = 100_000;

const DST: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 8]);

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => table(),
        ["messages", dir] => write_messages(Path::new(dir)),
        [from, version, kind, operation, count] => {
            let bytes = fs::read(Path::new(from).join(format!("{version}_{kind}.bin")))?;
            println!("{:.2}", cost(&bytes, kind, operation, count.parse()?)?);
            Ok(())
        }
        _ => Err(
            "message_cost | message_cost messages DIR | message_cost DIR VERSION KIND OPERATION COUNT"
                .into(),
        ),
    }
}

fn table() -> Outcome<()> {
    for (kind, operation) in CASES {
        for (name, version) in VERSIONS {
            let bytes = bytes(kind, version)?;
            println!(
                "{name} {kind} {operation}: {:.1} ns",
                cost(&bytes, kind, operation, TABLE_REPETITIONS)?
            );
        }
    }
    Ok(())
}

fn write_messages(dir: &Path) -> Outcome<()> {
    fs::create_dir_all(dir)?;
    for kind in KINDS {
        for (name, version) in VERSIONS {
            fs::write(dir.join(format!("{name}_{kind}.bin")), bytes(kind, version)?)?;
        }
    }
    Ok(())
}

/// Nanoseconds that `operation` takes for the message in `bytes`.
fn cost(bytes: &[u8], kind: &str, operation: &str, count: u32) -> Outcome<f64> {
    let frame = RawMessage::new(bytes)?;
    let message = Message::parse_raw(frame)?;
    match operation {
        "view" => view(bytes, &message, count),
        "read" => timed(count, || {
            black_box(Message::parse_raw(RawMessage::new(black_box(bytes))?)?);
            Ok(())
        }),
        "write" => write(bytes, &message, count),
        "stamp" => stamp(bytes, &message, count),
        _ => Err(format!("unknown operation {operation} for {kind}").into()),
    }
}

/// Parses the message in place.
fn view(bytes: &[u8], message: &Message, count: u32) -> Outcome<f64> {
    match message {
        Message::PacketIn(_) => timed(count, || {
            black_box(view::PacketIn::new(RawMessage::new(black_box(bytes))?)?);
            Ok(())
        }),
        Message::FlowRemoved(_) => timed(count, || {
            black_box(view::FlowRemoved::new(RawMessage::new(black_box(bytes))?)?);
            Ok(())
        }),
        Message::MultipartReply(_) => timed(count, || {
            let frame = RawMessage::new(black_box(bytes))?;
            let part = view::Multipart::new(frame)?;
            let at = u16::try_from(bytes.len() - part.body.len())?;
            for flow in flow_stats(frame.version(), part.kind, part.body, at) {
                black_box(flow?);
            }
            Ok(())
        }),
        _ => Err("has no view".into()),
    }
}

/// Encodes `message` again and again into one buffer.
fn write(bytes: &[u8], message: &Message, count: u32) -> Outcome<f64> {
    let (mut tx, mut xid, version) =
        (Vec::with_capacity(1 << 16), 1, RawMessage::new(bytes)?.version());
    let ns = timed(count, || {
        tx.clear();
        black_box(message).encode(1, &mut Encoder::new(&mut tx, version, &mut xid))?;
        black_box(&tx);
        Ok(())
    })?;
    check_equal(&tx, bytes)?;
    Ok(ns)
}

/// Patches addresses and ports of a template of `message` again and again.
fn stamp(bytes: &[u8], message: &Message, count: u32) -> Outcome<f64> {
    let (mut tx, mut xid, version) =
        (Vec::with_capacity(1 << 16), 1, RawMessage::new(bytes)?.version());
    let frame = data();
    let header: &EthHeader = Ethernet::new(&frame).ok_or("no frame")?.header;
    let values = TemplateValues {
        buffer_id: None,
        in_port: PortNo(3),
        eth: header,
        vlan: None,
        out_port: PortNo(2),
    };
    let out = Encoder::new(&mut tx, version, &mut xid);
    let (template, data): (_, &[u8]) = match message {
        Message::FlowMod(flow_mod) => (MessageTemplate::flow_mod(&out, flow_mod)?, &[]),
        Message::PacketOut(_) => {
            (MessageTemplate::packet_out(&out, &packet_out(&[output()], &[]))?, &frame)
        }
        _ => return Err("has no template".into()),
    };
    let ns = timed(count, || {
        tx.clear();
        let (values, mut xid) = (black_box(&values), 1);
        let mut out = Encoder::new(&mut tx, version, &mut xid);
        if data.is_empty() {
            template.encode(&mut out, values)?;
        } else {
            template.encode_with_frame(&mut out, values, black_box(data))?;
        }
        black_box(&tx);
        Ok(())
    })?;
    check_equal(&tx, bytes)?;
    Ok(ns)
}

fn check_equal(written: &[u8], bytes: &[u8]) -> Outcome<()> {
    if written == bytes {
        Ok(())
    } else {
        Err("the encoded message differs from the parsed one".into())
    }
}

fn timed(count: u32, mut call: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    let start = Instant::now();
    for _ in 0..count {
        call()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(count))
}

/// The message of `kind` in `version`.
fn bytes(kind: &str, version: Version) -> Outcome<Vec<u8>> {
    let (mut tx, mut xid) = (vec![], 1);
    let mut out = Encoder::new(&mut tx, version, &mut xid);
    let message = match kind {
        "packet_in" => Message::PacketIn(PacketIn {
            total_len: 64,
            matching: [Field::in_port(PortNo(3))].into(),
            data: data(),
            ..PacketIn::default()
        }),
        "flow_mod" => Message::FlowMod(FlowMod {
            cookie: 7,
            idle_timeout: 60,
            flags: FlowModFlags::SEND_FLOW_REM,
            matching: matching(DST),
            instructions: vec![Instruction::apply([output()])],
            ..FlowMod::default()
        }),
        "packet_out" => {
            out.packet_out(&packet_out(&[output()], &data()))?;
            return Ok(tx);
        }
        "flow_removed" => Message::FlowRemoved(FlowRemoved {
            cookie: 7,
            priority: 0x8000,
            idle_timeout: 60,
            matching: matching(DST),
            stats: stats(),
            ..FlowRemoved::default()
        }),
        _ => Message::MultipartReply(Multipart {
            flags: MultipartFlags::default(),
            body: MultipartReply::FlowDesc { flows: (0..FLOWS).map(flow).collect() },
        }),
    };
    message.encode(1, &mut out)?;
    Ok(tx)
}

/// A frame of 64 bytes, most of it zeros. Its type is one for experiments, since some of the compared libraries parse
/// the types they know.
fn data() -> Vec<u8> {
    let mut data = [&DST.0[..], &SRC.0, &[0x88, 0xb5]].concat();
    data.resize(64, 0);
    data
}

fn packet_out<'a>(actions: &'a [Action], frame: &'a [u8]) -> PacketOutRef<'a> {
    PacketOutRef { buffer_id: None, in_port: PortNo(3), actions, frame }
}

fn output() -> Action {
    Action::output(PortNo(2))
}

fn matching(dst: MacAddr) -> Match {
    [Field::in_port(PortNo(3)), Field::eth_dst(dst), Field::eth_src(SRC)].into()
}

fn stats() -> Stats {
    let age = Elapsed { sec: 60, nsec: 5 };
    Stats { fields: vec![Stat::Duration(age), Stat::PacketCount(10), Stat::ByteCount(640)] }
}

fn flow(n: u8) -> FlowDesc {
    FlowDesc {
        priority: 0x8000,
        idle_timeout: 60,
        cookie: n.into(),
        matching: matching(MacAddr([2, 0, 0, 0, 1, n])),
        stats: stats(),
        instructions: vec![Instruction::apply([output()])],
        ..FlowDesc::default()
    }
}
