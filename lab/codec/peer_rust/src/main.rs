//! Crates that read or write some OpenFlow as subjects: NAME DIR VERSION KIND DEED COUNT; prints nanoseconds each.

use std::hint::black_box;
use std::time::Instant;
use std::{env, fs, process};

use bytes::Bytes;
use rovs_openflow::{ActionList, Flow, FlowFlags, FlowStatsEntry, Match, PacketIn, PacketOut, Version};
use rust_ofp::openflow0x01::{self as ofp, MessageType};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [name, from, version, kind, deed, count] = &arguments[..] else { panic!("NAME DIR VERSION KIND DEED COUNT") };
    let bytes = fs::read(format!("{from}/{version}_{kind}.bin")).unwrap();
    let count = count.parse().unwrap();
    let took = match name.as_str() {
        "rovs" if version == "1.3" => rovs(kind, deed, &bytes, count),
        "rust_ofp" if version == "1.0" => rust_ofp(kind, deed, &bytes, count),
        _ => None,
    };
    match took {
        Some(took) => println!("{took:.2}"),
        None => process::exit(2),
    }
}

fn timed<T>(count: u32, mut once: impl FnMut() -> T) -> Option<f64> {
    let start = Instant::now();
    for _ in 0..count {
        black_box(once());
    }
    Some(start.elapsed().as_secs_f64() * 1e9 / f64::from(count))
}

/// It reads no rules and writes no statistics. The body is handed over without a copy, as it would come from a socket.
fn rovs(kind: &str, deed: &str, bytes: &[u8], count: u32) -> Option<f64> {
    let body = Bytes::copy_from_slice(&bytes[8..]);
    let output = || ActionList::new().output(2u32);
    match (kind, deed) {
        ("packet_in", "read") => timed(count, || PacketIn::parse(black_box(body.clone())).unwrap()),
        ("flow_stats", "read") => timed(count, || {
            let (mut rest, mut flows) = (black_box(&body[8..]), vec![]);
            while !rest.is_empty() {
                let (flow, len) = FlowStatsEntry::decode(rest).unwrap();
                flows.push((flow.decoded_instructions().unwrap(), flow));
                rest = &rest[len..];
            }
            assert_eq!(flows.len(), 100);
            flows
        }),
        ("flow_mod", "write") => {
            let mac = |n| [2, 0, 0, 0, 0, n].into();
            let matching = Match::new().in_port(3).eth_dst(mac(9)).eth_src(mac(8));
            let mut flow = Flow::add().priority(0x8000).cookie(7).idle_timeout(60).match_fields(matching);
            flow.flags = FlowFlags { send_flow_rem: true, ..FlowFlags::default() };
            let flow = flow.actions(output());
            assert_eq!(flow.to_message(Version::Of13, 1).encode().len(), bytes.len());
            timed(count, || black_box(&flow).to_message(Version::Of13, 1).encode())
        }
        ("packet_out", "write") => {
            let out = PacketOut::new().in_port(3).actions(output()).data(bytes[40..].to_vec());
            assert_eq!(out.to_message(Version::Of13, 1).encode(), bytes);
            timed(count, || black_box(&out).to_message(Version::Of13, 1).encode())
        }
        _ => None,
    }
}

/// Its writers take the message apart, so that nothing can be written twice: they are left out.
fn rust_ofp(kind: &str, deed: &str, bytes: &[u8], count: u32) -> Option<f64> {
    let body = &bytes[8..];
    match (kind, deed) {
        ("packet_in", "read") => timed(count, || ofp::PacketIn::parse(black_box(body))),
        ("flow_mod", "read") => timed(count, || ofp::FlowMod::parse(black_box(body)).priority),
        ("flow_removed", "read") => timed(count, || ofp::FlowRemoved::parse(black_box(body)).priority),
        _ => None,
    }
}
