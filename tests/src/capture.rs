//! What went over the wires between switches and controller, and what others make of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::controller::Controller;
use crate::room::Room;
use crate::shell::{Daemon, output_of};
use crate::{PATIENCE, SOON, wait_until};

/// Length of the header that every message of OpenFlow begins with. §7.1.
const HEADER_LEN: usize = 8;

/// A recording of one controller's connections.
#[derive(Debug)]
pub struct Capture {
    tcpdump: Daemon,
    file: PathBuf,
    port: String,
}

impl Capture {
    /// Begins to record what is said with `controller`, which runs in `room`.
    #[track_caller]
    pub fn new(room: &Room, controller: &Controller) -> Self {
        let (file, words) = (room.file("openflow.pcap"), room.file("tcpdump.err"));
        let port = controller.port().to_owned();
        let mut tcpdump = room.command("tcpdump");
        // Immediately, or most of it is lost in a buffer when tcpdump ends.
        tcpdump.args(["-i", "lo", "--immediate-mode", "-U", "-s0", "-Z", "root", "-w"]);
        tcpdump.arg(&file).args(["tcp", "port", &port]);
        tcpdump.stderr(File::create(&words).map_or_else(|_| Stdio::null(), Stdio::from));
        let tcpdump = Daemon::new(&mut tcpdump);
        wait_until(SOON, "tcpdump", || {
            fs::read_to_string(&words).is_ok_and(|words| words.contains("listening on"))
        });
        Self { tcpdump, file, port }
    }

    /// Waits until the controller has said a message of `kind`.
    ///
    /// # Panics
    /// When it has not within what a switch may take to be asked or answered.
    #[track_caller]
    pub fn wait_for(&self, kind: u8) {
        let what = format!("a message of kind {kind}");
        wait_until(PATIENCE, &what, || kinds_of(&self.messages()).contains_key(&kind));
    }

    /// Ends the recording.
    #[track_caller]
    pub fn stop(&mut self) {
        self.tcpdump.signal(Signal::INT);
        wait_until(SOON, "tcpdump to end", || self.tcpdump.ended().is_some());
    }

    /// Every message the controller sent so far, header included, connection by connection.
    pub fn messages(&self) -> Vec<Vec<u8>> {
        let filter = format!("tcp.srcport == {} && tcp.len > 0", self.port);
        let mut streams = BTreeMap::<String, Vec<u8>>::new();
        for line in self.fields(&filter, &["tcp.stream", "tcp.payload"]).lines() {
            let (stream, payload) = line.split_once('\t').unwrap_or_default();
            streams.entry(stream.to_owned()).or_default().extend(bytes(payload));
        }
        streams.values().flat_map(|bytes| frames(bytes)).collect()
    }

    /// How many messages of each kind tshark reads among them.
    pub fn kinds_read_by_tshark(&self) -> BTreeMap<u8, usize> {
        // It knows no 1.1 and no 1.2.
        let known = "openflow_v1 || openflow_v4 || openflow_v5 || openflow_v6";
        let filter = format!("tcp.srcport == {} && ({known})", self.port);
        // A field for each version; a segment with several messages has as many kinds.
        let fields =
            ["openflow_1_0.type", "openflow_v4.type", "openflow_v5.type", "openflow_v6.type"];
        let kinds = self.fields(&filter, &fields);
        count(
            kinds.split_ascii_whitespace().flat_map(|kinds| kinds.split(',')).flat_map(str::parse),
        )
    }

    /// What tshark finds wrong: malformed messages and errors of its experts; else nothing.
    ///
    /// Deletions over 1.0 apart: Wireshark 4.0 reads an action where they have none, and calls
    /// those of `ovs-ofctl` malformed too. OpenFlow 1.0.0 §5.3.3.
    #[track_caller]
    pub fn complaints_of_tshark(&self) -> String {
        let wrong = "_ws.malformed || _ws.expert.severity == error";
        output_of(&mut self.tshark(&format!("({wrong}) && !(openflow.command >= 3)")))
    }

    /// What the controller said as Open vSwitch reads it, message by message.
    #[track_caller]
    pub fn as_read_by_ovs(&self) -> Vec<String> {
        let mut ofctl = Command::new("ovs-ofctl");
        let reading = output_of(ofctl.arg("ofp-parse-pcap").arg(&self.file).arg(&self.port));
        let sender = format!(".{} > ", self.port);
        let messages = reading.split("\n\n").filter(|message| message.contains(&sender));
        messages.map(str::to_owned).collect()
    }

    /// The fields that tshark reads in the packets of `filter`, tabs between them.
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
        tshark
    }
}

/// How many of `messages` there are of each kind.
pub fn kinds_of(messages: &[Vec<u8>]) -> BTreeMap<u8, usize> {
    count(messages.iter().filter_map(|message| message.get(1).copied()))
}

fn count(kinds: impl Iterator<Item = u8>) -> BTreeMap<u8, usize> {
    let mut counts = BTreeMap::new();
    for kind in kinds {
        *counts.entry(kind).or_default() += 1;
    }
    counts
}

/// Cuts a stream at the lengths its headers give; a last one may be cut off.
fn frames(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some(&[_, _, high, low]) = stream.first_chunk() {
        let len = usize::from(u16::from_be_bytes([high, low])).max(HEADER_LEN);
        let (frame, rest) = stream.split_at(len.min(stream.len()));
        frames.push(frame.to_vec());
        stream = rest;
    }
    frames
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
    fn a_stream_is_cut_into_messages() {
        let stream = bytes("0400000800000001 0405000a00000002abcd");
        let messages = frames(&stream);
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[1], [4, 5, 0, 10, 0, 0, 0, 2, 0xab, 0xcd]);
    }
}
