//! The lines of a transcript.

use std::ops::RangeInclusive;
use std::time::Duration;

use sluice_openflow::{MacAddr, PortNo, Version};

use super::network_event::Known;

/// A line, and the versions it is for.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) only: RangeInclusive<Version>,
    pub(super) step: Step,
}

#[derive(Debug)]
pub(super) enum Step {
    /// Time passes.
    Wait(Duration),
    /// Something is known of the network from now on.
    Known(Known),
    /// A switch says something.
    Heard(String, Heard),
    /// This must be said to a switch.
    Said(String, Vec<String>),
}

#[derive(Debug)]
pub(super) enum Heard {
    Up,
    Down,
    PortUp(PortNo),
    PortDown(PortNo),
    PortGone(PortNo),
    PacketIn(Up),
    /// It tells that it has so many meters.
    Meters(u32),
    /// It refuses what was said to it last.
    Refuse,
    /// It refuses the rule that was said to it last: its table is full.
    Full,
    /// It refuses the rule that was said to it last: it cannot match so much.
    Unable,
    /// It tells how many rules it has.
    Count(u32),
    /// It tells its rules: their cookie, the stations to which they send, and out of which ports.
    Rules(u64, Vec<(MacAddr, PortNo)>),
}

/// A frame that comes up.
#[derive(Debug, Default)]
pub(super) struct Up {
    pub(super) port: u32,
    pub(super) src: MacAddr,
    pub(super) dst: MacAddr,
    pub(super) buffer_id: Option<u32>,
    /// The VLAN of its tag, 0 for a priority tag.
    pub(super) tag: Option<u16>,
    pub(super) carries: Carries,
    pub(super) size: Size,
}

/// What a frame carries.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Carries {
    #[default]
    Ipv4,
    /// What shows links, or claims to.
    Lldp,
}

/// How much of a frame there is.
#[derive(Debug, Default)]
pub(super) enum Size {
    #[default]
    Whole,
    /// It comes up truncated.
    Cut,
    /// As much as a message holds.
    Giant,
    /// It never was longer.
    Runt(usize),
}

impl Line {
    /// Reads `text`; `None` if it says nothing.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        let words: Vec<_> = text.split('#').next().unwrap_or_default().split_whitespace().collect();
        let unread = || format!("cannot read `{}`", text.trim());
        let (only, words) = match *words {
            [] => return Ok(None),
            [first, ..] if first.starts_with('[') => {
                (versions(first.trim_matches(['[', ']'])).ok_or_else(unread)?, words.get(1..))
            }
            _ => (Version::V1_0..=Version::V1_5, words.get(..)),
        };
        let step = match *words.unwrap_or_default() {
            ["wait", time] => time
                .strip_suffix('s')
                .and_then(|n| n.parse().ok())
                .map(|seconds| Step::Wait(Duration::from_secs(seconds))),
            ["know", ref what @ ..] => Known::parse(what).map(Step::Known),
            [switch, "<", ref what @ ..] => {
                Heard::parse(what).map(|heard| Step::Heard(switch.to_owned(), heard))
            }
            [switch, ">", ref what @ ..] => {
                let words = what.iter().map(|&word| spell_out(word)).collect();
                Some(Step::Said(switch.to_owned(), words))
            }
            _ => None,
        };
        Ok(Some(Self { only, step: step.ok_or_else(unread)? }))
    }
}

impl Heard {
    fn parse(words: &[&str]) -> Option<Self> {
        let port = |n: &str| n.parse().ok().map(PortNo);
        match *words {
            ["up"] => Some(Self::Up),
            ["down"] => Some(Self::Down),
            ["port_up", n] => port(n).map(Self::PortUp),
            ["port_down", n] => port(n).map(Self::PortDown),
            ["port_gone", n] => port(n).map(Self::PortGone),
            ["meters", n] => n.parse().ok().map(Self::Meters),
            ["refuse"] => Some(Self::Refuse),
            ["full"] => Some(Self::Full),
            ["unable"] => Some(Self::Unable),
            ["count", n] => n.parse().ok().map(Self::Count),
            ["rules", cookie, ref rules @ ..] => {
                let cookie = cookie.strip_prefix("cookie=")?.parse().ok()?;
                let rule = |rule: &&str| {
                    let (dst, port) = rule.split_once(':')?;
                    Some((station(dst)?, PortNo(port.parse().ok()?)))
                };
                rules
                    .iter()
                    .map(rule)
                    .collect::<Option<_>>()
                    .map(|rules| Self::Rules(cookie, rules))
            }
            ["packet_in", ref words @ ..] => Up::parse(words).map(Self::PacketIn),
            _ => None,
        }
    }
}

impl Up {
    fn parse(words: &[&str]) -> Option<Self> {
        let (mut up, mut has_addresses) = (Self::default(), false);
        for word in words {
            if let Some((src, dst)) = word.split_once('>') {
                (up.src, up.dst, has_addresses) = (station(src)?, station(dst)?, true);
                continue;
            }
            match word.split_once('=').unwrap_or((word, "")) {
                ("port", n) => up.port = n.parse().ok()?,
                ("buffer", n) => up.buffer_id = Some(n.parse().ok()?),
                ("vlan", n) => up.tag = Some(n.parse().ok()?),
                ("runt", n) => up.size = Size::Runt(n.parse().ok()?),
                ("tagged", "") => up.tag = Some(0),
                ("lldp", "") => up.carries = Carries::Lldp,
                ("cut", "") => up.size = Size::Cut,
                ("giant", "") => up.size = Size::Giant,
                _ => return None,
            }
        }
        (has_addresses && up.port != 0).then_some(up)
    }
}

/// `1.3`, `1.3..1.4` with both ends, or `1.3..` to the last.
fn versions(text: &str) -> Option<RangeInclusive<Version>> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let last = if last.is_empty() { Some(Version::V1_5) } else { Version::from_text(last) };
    Some(Version::from_text(first)?..=last?)
}

/// The address of a station: a letter, `*` for all of them, or the address itself.
pub(super) fn station(name: &str) -> Option<MacAddr> {
    if let [letter @ b'a'..=b'z'] = *name.as_bytes() {
        return Some(MacAddr([2, 0, 0, 0, 0, letter]));
    }
    if name == "*" {
        return Some(MacAddr::BROADCAST);
    }
    let mut bytes = name.split(':').map(|byte| u8::from_str_radix(byte, 16).ok());
    let mut addr = [0; 6];
    for place in &mut addr {
        *place = bytes.next()??;
    }
    bytes.next().is_none().then_some(MacAddr(addr))
}

/// A word of what must be said, with addresses in full.
fn spell_out(word: &str) -> String {
    match word.split_once('=') {
        Some((key @ ("src" | "dst"), name)) => match station(name) {
            Some(addr) => format!("{key}={addr}"),
            None => word.to_owned(),
        },
        _ => word.to_owned(),
    }
}
