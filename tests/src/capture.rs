//! Recordings of control connections, and how other programs decode them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::controller::Controller;
use crate::process::{Daemon, output_of};
use crate::test_env::TestEnv;
use crate::{LONG_TIMEOUT, SHORT_TIMEOUT, wait_until};

/// Length of the OpenFlow header, bytes. §7.1.
const HEADER_LEN: usize = 8;

/// A recording of the connections of one controller.
#[derive(Debug)]
pub struct Capture {
    tcpdump: Daemon,
    file: PathBuf,
    port: String,
}

impl Capture {
    /// Starts to record the connections of `controller`, which runs in `env`.
    #[track_caller]
    pub fn new(env: &TestEnv, controller: &Controller) -> Self {
        let (file, log) = (env.file("openflow.pcap"), env.file("tcpdump.err"));
        let port = controller.port().to_owned();
        let mut tcpdump = env.command("tcpdump");
        // Without immediate mode, tcpdump loses what is in its buffer when it ends. `-B` is in KiB.
        tcpdump.args(["-i", "lo", "--immediate-mode", "-B", "16384"]);
        tcpdump.args(["-U", "-s0", "-Z", "root", "-w"]);
        tcpdump.arg(&file).args(["tcp", "port", &port]);
        tcpdump.stderr(File::create(&log).map_or_else(|_| Stdio::null(), Stdio::from));
        let tcpdump = Daemon::new(&mut tcpdump);
        wait_until(SHORT_TIMEOUT, "tcpdump", || {
            fs::read_to_string(&log).is_ok_and(|log| log.contains("listening on"))
        });
        Self { tcpdump, file, port }
    }

    /// Waits until the controller has sent a message of type `message_type`.
    ///
    /// # Panics
    /// When that takes longer than [`LONG_TIMEOUT`].
    #[track_caller]
    pub fn wait_for(&self, message_type: u8) {
        let what = format!("a message of type {message_type}");
        wait_until(LONG_TIMEOUT, &what, || {
            // A segment that overtook another one while they were captured leaves a gap for a moment.
            let messages = self.recorded_messages();
            messages.is_ok_and(|messages| count_by_type(&messages).contains_key(&message_type))
        });
    }

    /// Stops the recording.
    #[track_caller]
    pub fn stop(&mut self) {
        self.tcpdump.signal(Signal::INT);
        wait_until(SHORT_TIMEOUT, "tcpdump to end", || self.tcpdump.exit_status().is_some());
    }

    /// All messages that the controller has sent so far, connection by connection.
    ///
    /// # Panics
    /// When segments are missing in the recording.
    #[track_caller]
    pub fn messages(&self) -> Vec<Vec<u8>> {
        self.recorded_messages().unwrap_or_else(|gap| panic!("{gap}"))
    }

    fn recorded_messages(&self) -> Result<Vec<Vec<u8>>, String> {
        let filter = format!("tcp.srcport == {} && tcp.len > 0", self.port);
        let mut connections = BTreeMap::<String, BTreeMap<usize, Vec<u8>>>::new();
        for line in self.fields(&filter, &["tcp.stream", "tcp.seq", "tcp.payload"]).lines() {
            let mut fields = line.split('\t');
            let mut field = || fields.next().unwrap_or_default();
            let (connection, sequence, payload) = (field(), field(), field());
            let segments = connections.entry(connection.to_owned()).or_default();
            segments.insert(sequence.parse().unwrap_or_default(), bytes(payload));
        }
        let mut messages = Vec::new();
        for segments in connections.into_values() {
            messages.extend(split_messages(&stream_of(segments)?));
        }
        Ok(messages)
    }

    /// Number of messages of each type among them, as tshark decodes them.
    pub fn message_types_read_by_tshark(&self) -> BTreeMap<u8, usize> {
        // tshark does not decode 1.1 and 1.2.
        let known = "openflow_v1 || openflow_v4 || openflow_v5 || openflow_v6";
        let filter = format!("tcp.srcport == {} && ({known})", self.port);
        // One field for each version; a segment with several messages has several values.
        let fields =
            ["openflow_1_0.type", "openflow_v4.type", "openflow_v5.type", "openflow_v6.type"];
        let types = self.fields(&filter, &fields);
        count(
            types.split_ascii_whitespace().flat_map(|types| types.split(',')).flat_map(str::parse),
        )
    }

    /// Malformed messages and expert errors that tshark reports; empty if there are none.
    ///
    /// Deletions in 1.0 are left out: Wireshark 4.0 expects an action in them, and reports those of `ovs-ofctl` as
    /// malformed too. OpenFlow 1.0.0 §5.3.3.
    #[track_caller]
    pub fn errors_found_by_tshark(&self) -> String {
        let wrong = "_ws.malformed || _ws.expert.severity == error";
        output_of(&mut self.tshark(&format!("({wrong}) && !(openflow.command >= 3)")))
    }

    /// The given fields of all packets that match `filter`, separated by tabs.
    fn fields(&self, filter: &str, names: &[&str]) -> String {
        let mut tshark = self.tshark(filter);
        tshark.args(["-T", "fields"]);
        for name in names {
            tshark.args(["-e", name]);
        }
        output_of(&mut tshark)
    }

    fn tshark(&self, filter: &str) -> Command {
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(&self.file).args(["-Y", filter]);
        tshark.args(["-d", &format!("tcp.port=={},openflow", self.port)]);
        tshark.args(["-o", "tcp.reassemble_out_of_order:TRUE"]);
        tshark
    }
}

/// `messages` as Open vSwitch decodes them.
///
/// Open vSwitch is given the messages and not the recording: of a recording it loses messages when segments of one
/// connection were captured in another order than they were sent.
#[track_caller]
pub fn decoded_by_ovs(env: &TestEnv, messages: &[Vec<u8>]) -> String {
    let stream = env.write("messages.bin", messages.concat());
    output_of(Command::new("ovs-ofctl").arg("ofp-parse").arg(&stream))
}

/// Number of messages of each type.
pub fn count_by_type(messages: &[Vec<u8>]) -> BTreeMap<u8, usize> {
    count(messages.iter().filter_map(|message| message.get(1).copied()))
}

fn count(types: impl Iterator<Item = u8>) -> BTreeMap<u8, usize> {
    let mut counts = BTreeMap::new();
    for message_type in types {
        *counts.entry(message_type).or_default() += 1;
    }
    counts
}

/// The stream of which these are the segments, by relative sequence number (the first is 1).
///
/// # Errors
/// When one is missing.
fn stream_of(segments: BTreeMap<usize, Vec<u8>>) -> Result<Vec<u8>, String> {
    let mut stream = Vec::new();
    for (sequence, payload) in segments {
        let received = stream.len() + 1;
        let Some(retransmitted) = received.checked_sub(sequence) else {
            return Err(format!("bytes {received} to {} were not captured", sequence - 1));
        };
        stream.extend(payload.iter().skip(retransmitted));
    }
    Ok(stream)
}

/// Splits a stream into messages by the lengths in their headers; the last one may be truncated.
fn split_messages(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while let Some(&[_, _, high, low]) = stream.first_chunk() {
        let len = usize::from(u16::from_be_bytes([high, low])).max(HEADER_LEN);
        let (message, rest) = stream.split_at(len.min(stream.len()));
        messages.push(message.to_vec());
        stream = rest;
    }
    messages
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    let pairs = digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |n, digit| n << 4 | digit));
    pairs.filter_map(|byte| u8::try_from(byte).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_split_into_messages() {
        let stream = bytes("0400000800000001 0405000a00000002abcd");
        let messages = split_messages(&stream);
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[1], [4, 5, 0, 10, 0, 0, 0, 2, 0xab, 0xcd]);
    }

    #[test]
    fn segments_are_put_in_order_and_retransmitted_bytes_are_left_out() {
        let segments = [(5, vec![5, 6]), (1, vec![1, 2, 3]), (3, vec![3, 4])];
        assert_eq!(stream_of(BTreeMap::from(segments)).unwrap(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_missing_segment_is_reported() {
        let gap = stream_of(BTreeMap::from([(1, vec![1, 2]), (4, vec![4])]));
        assert_eq!(gap.unwrap_err(), "bytes 3 to 3 were not captured");
    }
}
