//! Whole conversations: lost segments, many connections, filters, pairs of requests and replies, summaries.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use sluice_base::Rng;
use sluice_decode::{
    Decoder, Filter, KernelCounts, MessageCounts, Options, Selection, SummaryTable,
};
use sluice_openflow::{
    Action, DatapathId, ErrorMsg, ErrorReason, Field, FlowMod, MacAddr, Message, MessageType,
    PacketIn, PacketOut, PortNo, SwitchFeatures, Version,
};

mod support;

use support::{Segment, as_json, capture, decoded, json_check, text_of};

/// Payload of a full segment on Ethernet, with timestamps.
const SEGMENT_LEN: usize = 1448;

/// Start of all captures.
const START: Duration = Duration::from_secs(1_700_000_000);

fn ms(ms: u64) -> Duration {
    START + Duration::from_millis(ms)
}

fn message(message: &Message, xid: u32) -> Vec<u8> {
    message.to_vec(Version::V1_3, xid).unwrap()
}

fn features_reply(xid: u32, dpid: u64) -> Vec<u8> {
    let features = SwitchFeatures { datapath_id: DatapathId(dpid), ..SwitchFeatures::default() };
    message(&Message::FeaturesReply(features), xid)
}

fn hello(xid: u32) -> Vec<u8> {
    message(&Message::Hello(sluice_openflow::Hello::default()), xid)
}

/// A message as a controller or switch sends many of, of random length.
fn random_message(rng: &mut Rng, xid: u32) -> Vec<u8> {
    let frame = |rng: &mut Rng| -> Vec<u8> {
        (0..rng.below(1500)).map(|_| u8::try_from(rng.below(256)).unwrap()).collect()
    };
    match rng.below(4) {
        0 => {
            let in_port = Field::in_port(PortNo(rng.below(48)));
            let data = frame(rng);
            message(
                &Message::PacketIn(PacketIn {
                    matching: [in_port].into(),
                    data,
                    ..PacketIn::default()
                }),
                xid,
            )
        }
        1 => {
            let actions = vec![Action::output(PortNo(rng.below(48)))];
            let data = frame(rng);
            message(&Message::PacketOut(PacketOut { actions, data, ..PacketOut::default() }), xid)
        }
        2 => {
            let to = MacAddr([2, 0, 0, 0, 0, u8::try_from(rng.below(256)).unwrap()]);
            let flow = FlowMod::add([Field::eth_dst(to)], [Action::output(PortNo(1))]);
            flow.to_vec(Version::V1_3, xid).unwrap()
        }
        _ => message(&Message::BarrierRequest, xid),
    }
}

/// The messages that are sent one after the other by a switch, with the offset in the stream of each.
fn random_stream(rng: &mut Rng, messages: u32) -> (Vec<u8>, Vec<std::ops::Range<usize>>) {
    let (mut bytes, mut ranges) = (Vec::new(), Vec::new());
    for xid in 0..messages {
        let start = bytes.len();
        bytes.extend(random_message(rng, xid));
        ranges.push(start..bytes.len());
    }
    (bytes, ranges)
}

/// Segments of the stream, as the sender makes them: full ones, and shorter ones when it pauses after a message.
fn segments(rng: &mut Rng, bytes: &[u8], messages: &[std::ops::Range<usize>]) -> Vec<Segment> {
    let pauses: BTreeSet<_> =
        messages.iter().filter(|_| rng.below(10) == 0).map(|m| m.end).collect();
    let (mut segments, mut start) = (Vec::new(), 0);
    while start < bytes.len() {
        let full = (start + SEGMENT_LEN).min(bytes.len());
        let end = pauses.range(start + 1..full).next().copied().unwrap_or(full);
        let seq = 1 + u32::try_from(start).unwrap();
        let time = ms(u64::try_from(segments.len()).unwrap());
        segments.push(Segment {
            time,
            seq,
            payload: bytes[start..end].to_vec(),
            ..Segment::default()
        });
        start = end;
    }
    segments
}

/// Adds the acknowledgment of all bytes that were sent before, after each segment.
fn acknowledged(segments: &[Segment]) -> Vec<Segment> {
    let acked = |segment: &Segment| {
        let ack = Some(segment.seq + u32::try_from(segment.payload.len()).unwrap());
        let (time, is_from_controller) = (segment.time, true);
        [segment.clone(), Segment { time, is_from_controller, seq: 1, ack, ..Segment::default() }]
    };
    segments.iter().flat_map(acked).collect()
}

#[test]
fn decoding_continues_after_random_loss_and_only_with_messages_that_were_sent() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let (bytes, messages) = random_stream(&mut rng, 400);
        let all = segments(&mut rng, &bytes, &messages);
        let is_lost: Vec<_> = all.iter().map(|_| rng.below(20) == 0).collect();
        let is_captured = |range: &std::ops::Range<usize>| {
            all.iter().zip(&is_lost).all(|(segment, lost)| {
                let start = usize::try_from(segment.seq).unwrap() - 1;
                !lost || start + segment.payload.len() <= range.start || range.end <= start
            })
        };
        let complete: Vec<u64> =
            (0..).zip(&messages).filter(|(_, m)| is_captured(m)).map(|(n, _)| n).collect();
        let mut captured = acknowledged(&all);
        captured.retain(|segment| {
            segment.is_from_controller
                || !is_lost[all.iter().position(|s| s.seq == segment.seq).unwrap()]
        });
        let syn = Segment { time: START, is_syn: true, ..Segment::default() };
        captured.insert(0, syn);
        let (lines, counts) = decoded(capture(&captured), as_json());
        let found: Vec<_> = lines
            .iter()
            .filter(|l| l["ok"] == json!(true))
            .filter_map(|l| l["xid"].as_u64())
            .collect();
        let wrong: Vec<_> = found.iter().filter(|xid| !complete.contains(xid)).collect();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?} were not captured completely");
        // What a gap costs besides the messages in it are the bytes up to the next one that can be recognised.
        let lost = complete.len() - found.len();
        assert!(lost * 20 <= complete.len(), "seed {seed}: {lost} of {} not found", complete.len());
        assert!(counts.gaps > 0 && counts.malformed == 0, "seed {seed}: {counts:?}");
        assert_eq!(counts.well_formed, found.len() as u64);
    }
}

#[test]
fn a_lost_segment_costs_no_message_that_lies_outside_of_it() {
    let barriers: Vec<_> = (0..30).map(|xid| message(&Message::BarrierRequest, xid)).collect();
    let mut segments: Vec<_> = (0..30_u32)
        .map(|n| Segment {
            time: ms(n.into()),
            seq: 1 + 8 * n,
            payload: barriers[n as usize].clone(),
            ..Segment::default()
        })
        .collect();
    segments.remove(10);
    let (lines, counts) = decoded(capture(&segments), as_json());
    let expected = MessageCounts {
        well_formed: 29,
        gaps: 1,
        missing_bytes: 8,
        resynchronised: 1,
        ..MessageCounts::default()
    };
    assert_eq!(counts, expected);
    assert_eq!(lines[10]["error"], "8 bytes are missing here in the capture");
    assert_eq!(lines[11]["xid"], 11);
}

#[test]
fn messages_after_a_lost_segment_are_written_once_the_receiver_has_acknowledged_it() {
    let barrier = |n: u32| Segment {
        time: ms(n.into()),
        seq: 1 + 8 * n,
        payload: message(&Message::BarrierRequest, n),
        ..Segment::default()
    };
    let mut live = Decoder::new(Vec::new(), Options::default()).follow();
    for segment in acknowledged(&[barrier(0), barrier(2)]) {
        live.receive(0x0800, &segment.packet()[14..], segment.time).unwrap();
    }
    live.flush(ms(3)).unwrap();
    // The time after which the missing segment will not come any more.
    live.flush(ms(1000)).unwrap();
    let counts = live.finish(KernelCounts::default()).unwrap();
    assert_eq!((counts.well_formed, counts.gaps), (2, 1));
}

#[test]
fn a_stream_that_is_not_openflow_is_ignored() {
    let syn = Segment { seq: 99, is_syn: true, ..Segment::default() };
    let http = Segment { seq: 100, payload: b"GET / HTTP/1.1\r\n".to_vec(), ..Segment::default() };
    let payload = message(&Message::BarrierRequest, 1);
    let barrier = Segment { seq: 116, payload, ..Segment::default() };
    let (lines, counts) = decoded(capture(&[syn, http, barrier]), as_json());
    let expected = MessageCounts { other_streams: 1, ..MessageCounts::default() };
    assert_eq!((lines.len(), counts), (0, expected));
}

#[test]
fn fragments_of_packets_are_counted() {
    let payload = message(&Message::BarrierRequest, 1);
    let segment = Segment { seq: 1, payload, ..Segment::default() };
    let mut live = Decoder::new(Vec::new(), json_check()).follow();
    let mut packet = segment.packet().split_off(14);
    for flags_and_offset in [[0x20, 0], [0, 3], [0, 0]] {
        packet[6..8].copy_from_slice(&flags_and_offset);
        live.receive(0x0800, &packet, START).unwrap();
    }
    let counts = live.finish(KernelCounts::default()).unwrap();
    assert_eq!((counts.fragments, counts.well_formed), (2, 1));
}

#[test]
fn a_connection_that_is_closed_is_freed_and_its_addresses_can_be_used_again() {
    let connection = |first: u32, time| {
        let payload = message(&Message::BarrierRequest, first);
        let data = Segment { time, seq: first + 1, payload, ..Segment::default() };
        let fin = Segment { time, seq: first + 9, is_fin: true, ..Segment::default() };
        [Segment { time, seq: first, is_syn: true, ..Segment::default() }, data, fin]
    };
    let segments = [connection(5_000_000, ms(0)), connection(77, ms(1))].concat();
    let (lines, counts) = decoded(capture(&segments), as_json());
    assert_eq!(counts, MessageCounts { well_formed: 2, ..MessageCounts::default() });
    assert_eq!((&lines[0]["xid"], &lines[1]["xid"]), (&json!(5_000_000), &json!(77)));
}

/// The switch uses the same port again, and the capture lacks the `SYN`.
#[test]
fn a_syn_of_the_server_alone_starts_a_new_connection_unless_it_answers_the_one_before() {
    let barrier = |seq, xid| Segment {
        seq,
        payload: message(&Message::BarrierRequest, xid),
        ..Segment::default()
    };
    let answer = |ack| Segment {
        is_from_controller: true,
        is_syn: true,
        seq: 900,
        ack: Some(ack),
        ..Segment::default()
    };
    let syn = Segment { is_syn: true, seq: 99, ..Segment::default() };
    let first = [syn, answer(100), barrier(100, 1)];
    let second = [Segment { seq: 70_000, ..answer(5001) }, barrier(5001, 2)];
    let (lines, counts) = decoded(capture(&[&first[..], &second].concat()), as_json());
    assert_eq!(counts, MessageCounts { well_formed: 2, ..MessageCounts::default() });
    assert_eq!((&lines[0]["xid"], &lines[1]["xid"]), (&json!(1), &json!(2)));
    // Both directions are known from the first byte on: none of it is searched for a message.
    let (lines, counts) = decoded(capture(&second), as_json());
    assert_eq!((lines.len(), counts.resynchronised), (1, 0));
}

#[test]
fn a_stream_ends_with_its_fin_even_if_that_is_captured_before_what_precedes_it() {
    let payload = message(&Message::BarrierRequest, 1);
    let syn = Segment { is_syn: true, seq: 0, ..Segment::default() };
    let data = Segment { seq: 1, payload: payload.clone(), ..Segment::default() };
    let fin = Segment { seq: 9, is_fin: true, ..Segment::default() };
    let both = Segment { is_fin: true, ..data.clone() };
    for segments in [
        &[syn.clone(), data.clone(), fin.clone()][..],
        &[syn.clone(), fin.clone(), data.clone()],
        &[syn.clone(), both, fin.clone()],
        &[syn.clone(), data.clone(), data, fin.clone()],
    ] {
        let (lines, counts) = decoded(capture(segments), as_json());
        assert_eq!(counts, MessageCounts { well_formed: 1, ..MessageCounts::default() });
        assert_eq!(lines[0]["xid"], 1);
    }
    let payload = [payload, features_reply(2, 1)[..20].to_vec()].concat();
    let incomplete = Segment { seq: 1, payload, ..Segment::default() };
    let fin = Segment { seq: 29, ..fin };
    let (_, counts) = decoded(capture(&[syn, incomplete, fin]), json_check());
    assert_eq!((counts.well_formed, counts.incomplete_streams), (1, 1));
}

#[test]
fn of_too_many_connections_the_least_recently_used_are_evicted_and_counted() {
    let mut segments = Vec::new();
    let barrier = |switch: u16, n: u32| Segment {
        switch,
        seq: 1 + 8 * n,
        payload: message(&Message::BarrierRequest, n),
        ..Segment::default()
    };
    // The first connection is in use all the time.
    for switch in 1..=40_000 {
        segments.push(barrier(switch, 0));
        if switch % 1000 == 0 {
            segments.push(barrier(0, u32::from(switch) / 1000));
        }
    }
    let (lines, counts) = decoded(capture(&segments), json_check());
    assert_eq!((counts.well_formed, counts.malformed, counts.gaps), (40_040, 0, 0));
    assert!(counts.evicted_connections >= 40_001 - 32_768, "{counts:?}");
    assert!(counts.evicted_connections < 40_001 - 32_000, "{counts:?}");
    assert_eq!(lines[0]["evicted_connections"], counts.evicted_connections);
}

#[test]
fn connections_that_wait_for_missing_bytes_need_bounded_memory() {
    let payload = vec![0; 60_000];
    let mut live = Decoder::new(Vec::new(), Options::default()).follow();
    for switch in 0..1300 {
        let hello = Segment { switch, seq: 1, payload: hello(1), ..Segment::default() };
        let ahead =
            Segment { switch, seq: 100_000, payload: payload.clone(), ..Segment::default() };
        for segment in [hello, ahead] {
            live.receive(0x0800, &segment.packet()[14..], START).unwrap();
        }
    }
    let counts = live.finish(KernelCounts::default()).unwrap();
    // 64 MiB are room for 1118 of them.
    assert!(counts.evicted_connections >= 1300 - 1118, "{counts:?}");
    assert_eq!((counts.well_formed, counts.gaps), (1300, 1300));
}

/// A session of a switch that begins with `HELLO`; the features request has transaction id 2, an echo 7 ms after it id 3.
fn session(switch: u16, dpid: u64) -> Vec<Segment> {
    let mut seq = [1, 1];
    let mut segment = |time: u64, is_from_controller: bool, payload: Vec<u8>| {
        let seq = &mut seq[usize::from(is_from_controller)];
        let segment = Segment {
            time: ms(time),
            switch,
            is_from_controller,
            seq: *seq,
            payload,
            ..Segment::default()
        };
        *seq += u32::try_from(segment.payload.len()).unwrap();
        segment
    };
    let echo = Message::EchoRequest { data: vec![] };
    vec![
        segment(0, false, hello(1)),
        segment(1, true, hello(1)),
        segment(2, true, message(&Message::FeaturesRequest, 2)),
        segment(3, false, features_reply(2, dpid)),
        segment(10, true, message(&echo, 3)),
        segment(17, false, message(&Message::EchoReply { data: vec![] }, 3)),
    ]
}

/// Type and direction of each line.
fn types(lines: &[Value]) -> Vec<(String, bool)> {
    let line = |line: &Value| {
        let is_from_controller = line["from"].as_str().unwrap() == "10.0.0.2:6653";
        (line["type"].as_str().unwrap().to_owned(), is_from_controller)
    };
    lines.iter().map(line).collect()
}

#[test]
fn a_selection_by_datapath_id_includes_the_messages_before_the_id_is_known() {
    let segments = [session(1, 0x1a), session(2, 0x2b)].concat();
    let selection = Selection { dpids: vec![DatapathId(0x2b)], ..Selection::default() };
    let (lines, counts) = decoded(capture(&segments), Options { selection, ..as_json() });
    let all = [
        ("hello", false),
        ("hello", true),
        ("features_request", true),
        ("features_reply", false),
        ("echo_request", true),
        ("echo_reply", false),
    ];
    assert_eq!(types(&lines), all.map(|(name, from)| (name.to_owned(), from)));
    assert!(lines.iter().all(|line| line["dpid"] == "000000000000002b"), "{lines:?}");
    assert!(lines.iter().all(|line| line.to_string().contains("10.1.0.2:1000")), "{lines:?}");
    assert_eq!((counts.well_formed, counts.messages_without_dpid), (6, 0));
}

#[test]
fn messages_of_connections_whose_datapath_id_stays_unknown_are_counted() {
    let segments = &session(1, 0x1a)[..3];
    let selection = Selection { dpids: vec![DatapathId(0x1a)], ..Selection::default() };
    let (lines, counts) = decoded(capture(segments), Options { selection, ..as_json() });
    assert_eq!((lines.len(), counts.well_formed, counts.messages_without_dpid), (0, 0, 3));
}

#[test]
fn streams_that_are_not_openflow_are_counted_whatever_is_selected() {
    let syn = Segment { switch: 2, seq: 99, is_syn: true, ..Segment::default() };
    let payload = b"GET / HTTP/1.1\r\n".to_vec();
    let http = Segment { switch: 2, seq: 100, payload, ..Segment::default() };
    let selection = Selection { dpids: vec![DatapathId(0x1a)], ..Selection::default() };
    let segments = [session(1, 0x1a), vec![syn, http]].concat();
    let (lines, counts) = decoded(capture(&segments), Options { selection, ..as_json() });
    assert_eq!((lines.len(), counts.well_formed, counts.other_streams), (6, 6, 1));
}

#[test]
fn messages_are_selected_by_type_and_transaction_id() {
    let file = capture(&session(1, 0x1a));
    let types_are = |selection: Selection| {
        let (lines, _) = decoded(file.clone(), Options { selection, ..as_json() });
        types(&lines).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    let hellos = Selection { types: vec![MessageType::HELLO], ..Selection::default() };
    assert_eq!(types_are(hellos), ["hello", "hello"]);
    let xid = Selection { xids: vec![2], ..Selection::default() };
    assert_eq!(types_are(xid), ["features_request", "features_reply"]);
    let both =
        Selection { types: vec![MessageType::ECHO_REPLY], xids: vec![3], ..Selection::default() };
    assert_eq!(types_are(both), ["echo_reply"]);
}

#[test]
fn hex_digits_are_selected_by_type_and_transaction_id() {
    let selection = Selection { xids: vec![8], ..Selection::default() };
    let (lines, counts) =
        decoded("0414000800000007 0414000800000008", Options { selection, ..as_json() });
    assert_eq!((lines.len(), &lines[0]["xid"], counts.well_formed), (1, &json!(8), 1));
}

#[test]
fn a_reply_shows_its_request_and_the_latency() {
    let file = capture(&session(1, 0x1a));
    let (lines, _) = decoded(file.clone(), as_json());
    assert_eq!(lines[3]["request"], "features_request");
    assert_eq!(lines[3]["latency_us"], 1000.0);
    assert_eq!(
        (&lines[5]["request"], &lines[5]["latency_us"]),
        (&json!("echo_request"), &json!(7000.0))
    );
    assert!(lines[4].get("latency_us").is_none());
    let text = text_of(file, Options::default());
    let first = "1700000000.000000 10.1.0.1:1000 > 10.0.0.2:6653 OFPT_HELLO (OF1.3) (xid=0x1):";
    assert!(text.starts_with(first), "{text}");
    let last =
        "10.1.0.1:1000 > 10.0.0.2:6653 [dpid=000000000000001a latency=7.000ms] OFPT_ECHO_REPLY";
    assert!(text.contains(last), "{text}");
}

fn summary() -> Options {
    Options { filter: Filter::None, summary: SummaryTable::On, ..Options::default() }
}

#[test]
fn a_summary_has_a_row_for_each_type_and_direction() {
    let mut segments = session(1, 0x1a);
    let data = FlowMod::default().to_vec(Version::V1_3, 9).unwrap();
    let error = Message::Error(ErrorMsg { reason: ErrorReason::BAD_LEN, data });
    let seq = 1 + u32::try_from(8 + 32 + 8).unwrap();
    segments.push(Segment {
        time: ms(20),
        switch: 1,
        seq,
        payload: message(&error, 9),
        ..Segment::default()
    });
    let text = text_of(capture(&segments), summary());
    let cells: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let row =
        |start: &[&str]| cells.iter().find(|row| row.starts_with(start)).unwrap()[3..].to_vec();
    assert_eq!(row(&["HELLO", "to", "controller"]), ["1", "8", "0", "0"]);
    assert_eq!(row(&["HELLO", "to", "switch"]), ["1", "8", "0", "0"]);
    let features = row(&["FEATURES_REQUEST", "to", "switch"]);
    assert_eq!(features[..5], ["1", "8", "0", "0", "1"], "{text}");
    // With two significant digits.
    assert!(features[5].starts_with("1.0"), "{text}");
    assert_eq!(row(&["ECHO_REQUEST", "to", "switch"])[4], "1");
    assert_eq!(row(&["FLOW_MOD", "to", "switch"]), ["0", "0", "0", "1"]);
    assert_eq!(text.lines().last().unwrap(), "7 well-formed messages, 0 malformed");
    let json = Options { format: sluice_decode::Format::Json, ..summary() };
    let (lines, counts) = decoded(capture(&segments), json);
    let rows = lines[0]["summary"].as_array().unwrap();
    let echo = rows.iter().find(|row| row["type"] == "echo_request").unwrap();
    assert_eq!((&echo["direction"], &echo["answered"]), (&json!("to_switch"), &json!(1)));
    let p50 = echo["latency_us"]["p50"].as_f64().unwrap();
    assert!((6900.0..7100.0).contains(&p50), "{p50}");
    assert_eq!((&lines[0]["well_formed"], counts.well_formed), (&json!(7), 7));
}

#[test]
fn a_summary_of_selected_requests_has_their_latencies() {
    let selection = Selection { types: vec![MessageType::ECHO_REQUEST], ..Selection::default() };
    let text = text_of(capture(&session(1, 0x1a)), Options { selection, ..summary() });
    let rows: Vec<_> = text.lines().skip(1).collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert!(rows[0].starts_with("ECHO_REQUEST") && rows[0].contains(" 7.0"), "{text}");
}

#[test]
fn the_summary_of_a_live_capture_counts_packets_that_the_kernel_dropped() {
    let mut out = Vec::new();
    let mut live = Decoder::new(&mut out, summary()).follow();
    for segment in session(1, 0x1a) {
        live.receive(0x0800, &segment.packet()[14..], segment.time).unwrap();
    }
    let kernel = KernelCounts { captured_packets: 6, dropped_packets: 3 };
    assert_eq!(live.finish(kernel).unwrap().well_formed, 6);
    let text = String::from_utf8(out).unwrap();
    assert!(text.ends_with("; 6 packets captured, 3 dropped by the kernel\n"), "{text}");
}
