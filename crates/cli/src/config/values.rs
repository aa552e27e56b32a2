//! Types of values. Deserializing one rejects invalid values.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use sluice_apps::forwarding::multicast::UnregisteredGroups;
use sluice_apps::hosts::ConflictPolicy;
use sluice_apps::topology::{Secret, StaticBundle, UnexpectedLinks};
use sluice_apps::{forwarding, learning};
use sluice_engine::WorkerEngine;
use sluice_northbound::tokens::Role as ApiRole;
use sluice_openflow::{DatapathId, PortNo, Role, Version, Versions};
use sluice_sdk::flow_space::LEARNED;

use tracing_subscriber::filter::LevelFilter;

use super::address;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// The longest timeout: short enough to be added to any time without overflow.
const YEAR: u64 = 365 * 24 * 3600 * SECOND;

/// A duration given as a number of `UNIT`s, from `MIN` to `MAX`; all three in nanoseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct Time<const UNIT: u64, const MIN: u64, const MAX: u64>(pub(super) Duration);

pub(super) type Micros = Time<MICROSECOND, 0, YEAR>;
pub(super) type Millis = Time<MILLISECOND, 0, YEAR>;
pub(super) type TimeoutMillis = Time<MILLISECOND, 1, YEAR>;
pub(super) type Seconds = Time<SECOND, 1, YEAR>;

/// At most 18 hours, the limit of the counters of `learning`.
pub(super) type HostTimeout = Time<SECOND, SECOND, { 64_800 * SECOND }>;

/// From 250 ms, the interval of the timer that sends probes, to an hour, so that a failed link is noticed.
pub(super) type ProbeInterval =
    Time<MILLISECOND, { 250 * MILLISECOND }, { 3_600_000 * MILLISECOND }>;

/// From the time of two queries, which hosts have ten seconds to answer, to an hour.
pub(super) type MembershipTime = Time<SECOND, { 30 * SECOND }, { 3600 * SECOND }>;

impl<const UNIT: u64, const MIN: u64, const MAX: u64> TryFrom<f64> for Time<UNIT, MIN, MAX> {
    type Error = String;

    fn try_from(count: f64) -> Result<Self, String> {
        #[expect(clippy::cast_precision_loss, reason = "units are round numbers far below 2^53")]
        let seconds = count * UNIT as f64 / SECOND as f64;
        let range = Duration::from_nanos(MIN)..=Duration::from_nanos(MAX);
        let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| range.contains(time));
        time.map(Self).ok_or_else(|| {
            let max = MAX / UNIT;
            let expected = match MIN {
                1 => format!("more than 0, at most {max}"),
                _ => format!("a number from {} to {max}", MIN / UNIT),
            };
            format!("invalid value {count} (expected {expected})")
        })
    }
}

/// Priority of the flow entries of an application, which are between those of other purposes.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u16")]
pub(super) struct EntryPriority<const MIN: u16, const MAX: u16>(pub(super) u16);

impl<const MIN: u16, const MAX: u16> TryFrom<u16> for EntryPriority<MIN, MAX> {
    type Error = String;

    fn try_from(priority: u16) -> Result<Self, String> {
        let expected =
            || format!("invalid value {priority} (expected a whole number from {MIN} to {MAX})");
        (MIN..=MAX).contains(&priority).then_some(Self(priority)).ok_or_else(expected)
    }
}

/// Priority of the flow entries of `forwarding`.
pub(super) type ForwardingPriority =
    EntryPriority<{ *forwarding::PRIORITIES.start() }, { *forwarding::PRIORITIES.end() }>;

/// Priority of the flow entries of `learning`.
pub(super) type LearningPriority =
    EntryPriority<{ *LEARNED.priorities.start() }, { *LEARNED.priorities.end() }>;

/// A value that is chosen by name.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByName<T>(pub(super) T);

/// The values of a type and their names.
pub(super) trait Names: Copy + 'static {
    const NAMES: &'static [(&'static str, Self)];
}

impl<'de, T: Names> Deserialize<'de> for ByName<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let found = T::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|&(_, value)| Self(value)).ok_or_else(|| {
            let known: Vec<_> = T::NAMES.iter().map(|(name, _)| *name).collect();
            D::Error::custom(unknown_name("value", &text, &known))
        })
    }
}

fn unknown_name(what: &str, text: &str, known: &[&str]) -> String {
    format!("unknown {what} \"{text}\" (known: {})", known.join(", "))
}

impl Names for Option<Role> {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("none", None),
        ("equal", Some(Role::EQUAL)),
        ("master", Some(Role::MASTER)),
        ("slave", Some(Role::SLAVE)),
    ];
}

impl Names for Option<ApiRole> {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("none", None),
        ("read", Some(ApiRole::Read)),
        ("operate", Some(ApiRole::Operate)),
        ("administer", Some(ApiRole::Administer)),
    ];
}

impl Names for WorkerEngine {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("epoll", Self::Epoll),
        ("uring", Self::Uring),
        ("kernel", Self::Kernel),
        ("auto", Self::Auto),
    ];
}

impl Names for learning::Matching {
    const NAMES: &'static [(&'static str, Self)] =
        &[("dst", Self::Dst), ("pair", Self::Pair), ("port-pair", Self::PortPair)];
}

impl Names for forwarding::Matching {
    const NAMES: &'static [(&'static str, Self)] =
        &[("dst", Self::Dst), ("pair", Self::Pair), ("five-tuple", Self::FiveTuple)];
}

impl Names for forwarding::Flooding {
    const NAMES: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("controller", Self::Controller), ("tree", Self::Tree)];
}

impl Names for UnregisteredGroups {
    const NAMES: &'static [(&'static str, Self)] =
        &[("flood", Self::Flood), ("router-ports", Self::RouterPorts)];
}

impl Names for ConflictPolicy {
    const NAMES: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("report", Self::Report), ("refuse", Self::Refuse)];
}

impl Names for UnexpectedLinks {
    const NAMES: &'static [(&'static str, Self)] =
        &[("report", Self::Report), ("refuse", Self::Refuse)];
}

impl Names for LevelFilter {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("off", Self::OFF),
        ("error", Self::ERROR),
        ("warn", Self::WARN),
        ("info", Self::INFO),
        ("debug", Self::DEBUG),
        ("trace", Self::TRACE),
    ];
}

/// Whether switches must have a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientCertificates {
    Required,
    None,
}

impl Names for ClientCertificates {
    const NAMES: &'static [(&'static str, Self)] =
        &[("required", Self::Required), ("none", Self::None)];
}

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl Names for LogFormat {
    const NAMES: &'static [(&'static str, Self)] = &[("text", Self::Text), ("json", Self::Json)];
}

/// Addresses on which switches are accepted.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(super) struct ListenAddresses(pub(super) Vec<SocketAddr>);

impl TryFrom<Vec<String>> for ListenAddresses {
    type Error = String;

    fn try_from(texts: Vec<String>) -> Result<Self, String> {
        let mut all: Vec<SocketAddr> = Vec::new();
        for text in &texts {
            all.extend(address::resolve(text, Ipv6Addr::UNSPECIFIED.into())?);
        }
        for (n, &one) in (1..).zip(&all) {
            for &other in all.iter().skip(n) {
                if one == other && one.port() != 0 {
                    return Err(format!("{one} is given twice"));
                }
                for (wide, narrow) in [(one, other), (other, one)] {
                    if includes(wide, narrow) {
                        return Err(format!("{wide} includes {narrow}: leave one of them out"));
                    }
                }
            }
        }
        Ok(Self(all))
    }
}

/// Whether a socket on `wide` accepts connections to `narrow` too, so that no other socket can be bound to `narrow`.
pub(super) fn includes(wide: SocketAddr, narrow: SocketAddr) -> bool {
    let covers_all = wide.ip().is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4());
    covers_all && wide != narrow && wide.port() == narrow.port() && wide.port() != 0
}

/// The address on which metrics are served, or `off`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct ApiAddress(pub(super) Option<SocketAddr>);

impl TryFrom<String> for ApiAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        // Whoever wants to serve other machines has to say so.
        let addresses = address::resolve(&text, Ipv4Addr::LOCALHOST.into())?;
        Ok(Self(addresses.first().copied()))
    }
}

/// Names of applications, in the order in which they handle a packet. The registry checks them.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct Apps(pub(super) Vec<String>);

/// A number of worker threads. More than the cores of any machine are a mistake, for which the system lacks memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkerCount(pub(super) usize);

impl<'de> Deserialize<'de> for WorkerCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let count = usize::deserialize(deserializer).ok().filter(|&count| count <= 1024);
        count.map(Self).ok_or_else(|| D::Error::custom("expected a whole number from 0 to 1024"))
    }
}

/// The cores of workers.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected true, false or a list of cores, such as [0, 1]")]
pub(super) enum PinSetting {
    /// Whether each worker is pinned to a core of its own.
    Each(bool),
    /// Workers are pinned to these cores in turn.
    Cores(CoreList),
}

/// At least one core.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Vec<usize>")]
pub(super) struct CoreList(pub(super) Vec<usize>);

impl TryFrom<Vec<usize>> for CoreList {
    type Error = &'static str;

    fn try_from(cores: Vec<usize>) -> Result<Self, &'static str> {
        if cores.is_empty() { Err("no core (expected at least one)") } else { Ok(Self(cores)) }
    }
}

/// The first and the last of at least two VLAN ids.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Vec<u16>")]
pub(super) struct VlanRange(pub(super) RangeInclusive<u16>);

impl TryFrom<Vec<u16>> for VlanRange {
    type Error = String;

    fn try_from(ids: Vec<u16>) -> Result<Self, String> {
        match *ids.as_slice() {
            [first, last] if 1 <= first && first < last && last <= 4094 => Ok(Self(first..=last)),
            _ => Err(format!(
                "invalid VLAN ids {ids:?} (expected the first and the last one, such as [4000, 4031], at least two of 1 to 4094)"
            )),
        }
    }
}

/// Ports that lead to one device, as `DPID:PORT+PORT`.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(super) struct StaticBundles(pub(super) Vec<StaticBundle>);

impl TryFrom<Vec<String>> for StaticBundles {
    type Error = String;

    fn try_from(texts: Vec<String>) -> Result<Self, String> {
        let mut all: Vec<StaticBundle> = Vec::new();
        for text in &texts {
            let failed = |what: &str| {
                format!(
                    "invalid bundle \"{text}\": {what} (expected for example 00000000000000a1:3+4)"
                )
            };
            let bundle = parse_bundle(text).map_err(failed)?;
            if all.iter().any(|other| other.overlaps(&bundle)) {
                return Err(failed("one of its ports is in another bundle"));
            }
            all.push(bundle);
        }
        Ok(Self(all))
    }
}

fn parse_bundle(text: &str) -> Result<StaticBundle, &'static str> {
    let (switch, ports) = text.split_once(':').ok_or("no colon after the datapath id")?;
    let is_hex = !switch.is_empty() && switch.bytes().all(|byte| byte.is_ascii_hexdigit());
    let switch = is_hex.then(|| u64::from_str_radix(switch, 16).ok()).flatten();
    let switch = switch.ok_or("the datapath id is not a hexadecimal number of up to 16 digits")?;
    let ports = ports.split('+').map(|port| match port.parse() {
        Ok(no) if PortNo(no).is_real() => Ok(PortNo(no)),
        _ => Err("invalid port number"),
    });
    StaticBundle::new(DatapathId(switch), ports.collect::<Result<_, _>>()?)
}

/// OpenFlow versions that are offered, at least one.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(super) struct OfferedVersions(pub(super) Versions);

impl TryFrom<Vec<String>> for OfferedVersions {
    type Error = String;

    fn try_from(texts: Vec<String>) -> Result<Self, String> {
        let known: Vec<_> = Versions::SUPPORTED.iter().map(|version| version.to_string()).collect();
        if let Some(text) = texts.iter().find(|text| !known.contains(text)) {
            let known: Vec<_> = known.iter().map(String::as_str).collect();
            return Err(unknown_name("OpenFlow version", text, &known));
        }
        if texts.is_empty() {
            return Err("no version (expected at least one)".to_owned());
        }
        let versions: Vec<_> = texts.iter().filter_map(|text| Version::from_text(text)).collect();
        Ok(Self(Versions::of(&versions)))
    }
}

/// Bytes of a packet that a switch sends to the controller.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "expected auto or a whole number from 0 to 65535")]
pub(super) enum MissSendLen {
    /// The default of each version.
    Auto(Auto),
    Bytes(u16),
}

/// The value `auto`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Auto {
    Auto,
}

/// The name of a TCP congestion control; `None` for `system`.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct CongestionName(pub(super) Option<String>);

impl TryFrom<String> for CongestionName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        // The kernel allows names of up to 15 bytes, and rejects unknown ones.
        if name.is_empty() || name.len() > 15 {
            return Err(format!("invalid name \"{name}\" (expected 1 to 15 bytes, such as cubic)"));
        }
        Ok(Self(Some(name).filter(|name| name != "system")))
    }
}

/// The key that signs probes, in hex digits; empty for a random one.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct SecretText(pub(super) Option<Secret>);

impl TryFrom<String> for SecretText {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        // Errors are logged, so this one does not contain the secret.
        let secret = Secret::from_hex(&text).ok_or("invalid value (expected 32 hex digits)")?;
        Ok(Self(Some(secret)))
    }
}
