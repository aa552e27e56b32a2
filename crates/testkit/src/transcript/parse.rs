//! Parses the lines of a transcript.

use std::ops::RangeInclusive;
use std::time::Duration;

use sluice_openflow::{EtherType, MacAddr, PortNo, Version};

use super::network_event::NetworkEvent;

/// One line, and the versions of OpenFlow in which it applies.
#[derive(Debug)]
pub(super) struct TranscriptLine {
    pub(super) versions: RangeInclusive<Version>,
    pub(super) step: TranscriptStep,
}

#[derive(Debug)]
pub(super) enum TranscriptStep {
    /// Time passes.
    Wait(Duration),
    /// Another application publishes a change of the network.
    NetworkEvent(NetworkEvent),
    /// Something happens at the switch of this name.
    SwitchInput(String, SwitchInput),
    /// The application must send a message with these words to the switch of this name.
    Expect(String, Vec<String>),
}

/// A flow entry in a reply.
#[derive(Debug)]
pub(super) struct ListedFlow {
    /// Ingress port and source address, if it matches these.
    pub(super) source: Option<(PortNo, MacAddr)>,
    pub(super) dst: MacAddr,
    pub(super) out_port: PortNo,
}

/// A message from a switch, or a change of its connection.
#[derive(Debug)]
pub(super) enum SwitchInput {
    Connects,
    Disconnects,
    /// Changes of its tables were lost, and there is room again.
    ChangesLost,
    PortUp(PortNo),
    PortDown(PortNo),
    PortDeleted(PortNo),
    PacketIn(PacketSpec),
    /// The flow entry with this cookie has expired.
    FlowRemoved(u64),
    /// Reply: the maximum number of meters.
    MeterFeatures(u32),
    /// Error for the last message.
    BadType,
    /// Error for the last `FLOW_MOD`.
    TableFull,
    /// Error for the last `FLOW_MOD`.
    BadField,
    /// Reply: the number of flow entries.
    AggregateStats(u32),
    /// Reply: flow entries with this cookie, by destination and output port.
    FlowStats(u64, Vec<ListedFlow>),
}

/// The packet of a `PACKET_IN`.
#[derive(Debug, Default)]
pub(super) struct PacketSpec {
    pub(super) port: u32,
    pub(super) src: MacAddr,
    pub(super) dst: MacAddr,
    pub(super) buffer_id: Option<u32>,
    /// The VLAN id of its tag; 0 for a priority tag.
    pub(super) vlan: Option<u16>,
    /// Its Ethernet type, if it is no IPv4 packet.
    pub(super) ethertype: Option<EtherType>,
    pub(super) length: Length,
}

/// How much of a frame is in the message.
#[derive(Debug, Default)]
pub(super) enum Length {
    /// All of its 64 bytes.
    #[default]
    Normal,
    /// The first 64 of 1500 bytes.
    Truncated,
    /// As many bytes as a message can carry.
    Max,
    /// All bytes of a frame that is this short.
    Exactly(usize),
}

impl TranscriptLine {
    /// Parses a line; `None` if it is empty or a comment.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        let words: Vec<_> = text.split('#').next().unwrap_or_default().split_whitespace().collect();
        let error = || format!("cannot parse `{}`", text.trim());
        let (versions, words) = match *words {
            [] => return Ok(None),
            [first, ..] if first.starts_with('[') => {
                (parse_versions(first.trim_matches(['[', ']'])).ok_or_else(error)?, words.get(1..))
            }
            _ => (Version::V1_0..=Version::V1_5, words.get(..)),
        };
        let step = TranscriptStep::parse(words.unwrap_or_default()).ok_or_else(error)?;
        Ok(Some(Self { versions, step }))
    }
}

impl TranscriptStep {
    fn parse(words: &[&str]) -> Option<Self> {
        let switch_input = |switch: &str, input| Self::SwitchInput(switch.to_owned(), input);
        match *words {
            ["wait", time] => {
                let seconds = time.strip_suffix('s')?.parse().ok()?;
                Some(Self::Wait(Duration::from_secs(seconds)))
            }
            ["link" | "ports" | "host" | "switch", ..] => {
                NetworkEvent::parse(words).map(Self::NetworkEvent)
            }
            [switch, "connects"] => Some(switch_input(switch, SwitchInput::Connects)),
            [switch, "disconnects"] => Some(switch_input(switch, SwitchInput::Disconnects)),
            [switch, "loses", "changes"] => Some(switch_input(switch, SwitchInput::ChangesLost)),
            [switch, "<", ref message @ ..] => {
                SwitchInput::parse(message).map(|input| switch_input(switch, input))
            }
            [switch, ">", ref message @ ..] => {
                let message = message.iter().map(|&word| expand_address(word)).collect();
                Some(Self::Expect(switch.to_owned(), message))
            }
            _ => None,
        }
    }
}

impl SwitchInput {
    fn parse(words: &[&str]) -> Option<Self> {
        match *words {
            ["packet_in", ref words @ ..] => PacketSpec::parse(words).map(Self::PacketIn),
            ["port_status", port, state] => {
                let port = PortNo(value(port, "port")?);
                match state {
                    "up" => Some(Self::PortUp(port)),
                    "down" => Some(Self::PortDown(port)),
                    "deleted" => Some(Self::PortDeleted(port)),
                    _ => None,
                }
            }
            ["flow_removed", cookie] => value(cookie, "cookie").map(Self::FlowRemoved),
            ["error", "table_full"] => Some(Self::TableFull),
            ["error", "bad_field"] => Some(Self::BadField),
            ["error", "bad_type"] => Some(Self::BadType),
            ["aggregate_stats", flows] => value(flows, "flows").map(Self::AggregateStats),
            ["meter_features", max] => value(max, "max").map(Self::MeterFeatures),
            ["flow_stats", cookie, ref entries @ ..] => {
                let entries =
                    entries.iter().map(|text| ListedFlow::parse(text)).collect::<Option<_>>()?;
                Some(Self::FlowStats(value(cookie, "cookie")?, entries))
            }
            _ => None,
        }
    }
}

impl ListedFlow {
    fn parse(text: &str) -> Option<Self> {
        let port = |text: &str| text.parse().ok().map(PortNo);
        let (source, rest) = match text.split_once('>') {
            Some((source, rest)) => {
                let (in_port, src) = source.split_once(':')?;
                (Some((port(in_port)?, parse_host(src)?)), rest)
            }
            None => (None, text),
        };
        let (dst, out_port) = rest.split_once(':')?;
        Some(Self { source, dst: parse_host(dst)?, out_port: port(out_port)? })
    }
}

impl PacketSpec {
    fn parse(words: &[&str]) -> Option<Self> {
        let (mut packet, mut has_addresses) = (Self::default(), false);
        for word in words {
            if let Some((src, dst)) = word.split_once('>') {
                (packet.src, packet.dst, has_addresses) =
                    (parse_host(src)?, parse_host(dst)?, true);
                continue;
            }
            match word.split_once('=').unwrap_or((word, "")) {
                ("port", n) => packet.port = n.parse().ok()?,
                ("buffer", n) => packet.buffer_id = Some(n.parse().ok()?),
                ("vlan", n) => packet.vlan = Some(n.parse().ok()?),
                ("priority_tagged", "") => packet.vlan = Some(0),
                ("lldp", "") => packet.ethertype = Some(EtherType::LLDP),
                ("ethertype", n) => {
                    packet.ethertype = Some(EtherType(u16::from_str_radix(n, 16).ok()?));
                }
                ("truncated", "") => packet.length = Length::Truncated,
                ("max_length", "") => packet.length = Length::Max,
                ("length", n) => packet.length = Length::Exactly(n.parse().ok()?),
                _ => return None,
            }
        }
        (has_addresses && packet.port != 0).then_some(packet)
    }
}

/// The number in `key=number`.
fn value<T: std::str::FromStr>(word: &str, key: &str) -> Option<T> {
    word.strip_prefix(key)?.strip_prefix('=')?.parse().ok()
}

/// Parses `1.3`, `1.3..1.4` (both included) or `1.3..`.
fn parse_versions(text: &str) -> Option<RangeInclusive<Version>> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let last = if last.is_empty() { Some(Version::V1_5) } else { Version::from_text(last) };
    Some(Version::from_text(first)?..=last?)
}

/// The address of a host: a letter, `*` for broadcast, or an Ethernet address.
pub(super) fn parse_host(name: &str) -> Option<MacAddr> {
    if let [letter @ b'a'..=b'z'] = *name.as_bytes() {
        return Some(MacAddr([2, 0, 0, 0, 0, letter]));
    }
    if name == "*" {
        return Some(MacAddr::BROADCAST);
    }
    let mut bytes = name.split(':').map(|byte| u8::from_str_radix(byte, 16).ok());
    let mut addr = [0; 6];
    for byte in &mut addr {
        *byte = bytes.next()??;
    }
    bytes.next().is_none().then_some(MacAddr(addr))
}

/// A word of an expected message, with the name of a host replaced by its address.
fn expand_address(word: &str) -> String {
    match word.split_once('=') {
        Some((key @ ("eth_src" | "eth_dst"), name)) => match parse_host(name) {
            Some(addr) => format!("{key}={addr}"),
            None => word.to_owned(),
        },
        _ => word.to_owned(),
    }
}
