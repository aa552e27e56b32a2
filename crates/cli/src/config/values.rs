//! Values that a configuration may hold, each refusing what cannot be.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;
use sluice_apps::forwarding;
use sluice_apps::hosts::Guard;
use sluice_apps::learning::Matching;
use sluice_apps::topology::Secret;
use sluice_openflow::{Role, Version, Versions};
use tracing_subscriber::filter::LevelFilter;

/// Longest time that makes sense here, and short enough to be added to any.
const TIME_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Longest time for which a station can be believed: 18 hours.
const HOST_TIMEOUT_MAX: Duration = Duration::from_secs(64_800);

/// Switches are looked at every 250 ms; and a link that is gone should be known within some hours.
const PROBE_INTERVALS: RangeInclusive<Duration> =
    Duration::from_millis(250)..=Duration::from_secs(3600);

/// A time in units of `NS` nanoseconds, whole or broken, perhaps zero.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct Time<const NS: u32>(pub(super) Duration);

pub(super) type Micros = Time<1_000>;
pub(super) type BriefMillis = Time<1_000_000>;

impl<const NS: u32> TryFrom<f64> for Time<NS> {
    type Error = String;

    fn try_from(count: f64) -> Result<Self, String> {
        let seconds = count * f64::from(NS) / 1e9;
        let time = Duration::try_from_secs_f64(seconds).ok().filter(|&time| time <= TIME_MAX);
        time.map(Self).ok_or_else(|| format!("{count} is not a time from 0 to a year"))
    }
}

/// A [`Time`] that is not zero.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct Timeout<const NS: u32>(pub(super) Duration);

pub(super) type Seconds = Timeout<1_000_000_000>;
pub(super) type Millis = Timeout<1_000_000>;

impl<const NS: u32> TryFrom<f64> for Timeout<NS> {
    type Error = String;

    fn try_from(count: f64) -> Result<Self, String> {
        let Time(time) = Time::<NS>::try_from(count)?;
        if time.is_zero() { Err(format!("{count} is not a time above 0")) } else { Ok(Self(time)) }
    }
}

/// How long a station is believed, in seconds.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct HostTimeout(pub(super) Duration);

impl TryFrom<f64> for HostTimeout {
    type Error = String;

    fn try_from(count: f64) -> Result<Self, String> {
        let Timeout(time) = Seconds::try_from(count)?;
        let fits = (Duration::from_secs(1)..=HOST_TIMEOUT_MAX).contains(&time);
        let most = HOST_TIMEOUT_MAX.as_secs();
        fits.then_some(Self(time)).ok_or_else(|| format!("{count} is not from 1 to {most}"))
    }
}

/// How often something is probed, in milliseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct ProbeInterval(pub(super) Duration);

impl TryFrom<f64> for ProbeInterval {
    type Error = String;

    fn try_from(count: f64) -> Result<Self, String> {
        let Timeout(time) = Millis::try_from(count)?;
        let fits = PROBE_INTERVALS.contains(&time);
        fits.then_some(Self(time)).ok_or_else(|| format!("{count} is not from 250 to 3600000"))
    }
}

/// What probes are signed with, in hex digits; empty for none.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct SecretText(pub(super) Option<Secret>);

impl TryFrom<String> for SecretText {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        // It is not repeated: what is said here is logged.
        let secret = Secret::from_hex(&text).ok_or("a secret has 32 hex digits")?;
        Ok(Self(Some(secret)))
    }
}

/// An address to listen at.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Address(pub(super) SocketAddr);

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| {
            format!("`{text}` is not an address with a port, such as 127.0.0.1:6653 or [::]:6653")
        })
    }
}

/// Where metrics are served, if they are.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct ApiAddress(pub(super) Option<SocketAddr>);

impl TryFrom<String> for ApiAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        let expected = "an address with a port, such as 127.0.0.1:8653, or off";
        let address = text.parse().map_err(|_| format!("`{text}` is not {expected}"))?;
        Ok(Self(Some(address)))
    }
}

/// Bytes of a packet that a switch sends to the controller; `None` for the default of each version.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "expected auto or a whole number from 0 to 65535")]
pub(super) enum MissSendLen {
    Auto(Auto),
    Bytes(u16),
}

/// The word `auto`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Auto {
    Auto,
}

/// At least one address.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Vec<Address>")]
pub(super) struct Addresses(pub(super) Vec<SocketAddr>);

impl TryFrom<Vec<Address>> for Addresses {
    type Error = String;

    fn try_from(addresses: Vec<Address>) -> Result<Self, String> {
        let all: Vec<_> = addresses.into_iter().map(|Address(address)| address).collect();
        if all.is_empty() {
            return Err("there must be an address to listen at".to_owned());
        }
        for (n, &one) in (1..).zip(&all) {
            for &other in all.iter().skip(n) {
                if one == other && one.port() != 0 {
                    return Err(format!("{one} is given twice"));
                }
                for (wide, narrow) in [(one, other), (other, one)] {
                    if takes(wide, narrow) {
                        return Err(format!("{wide} takes what comes to {narrow} as well"));
                    }
                }
            }
        }
        Ok(Self(all))
    }
}

/// Whether who listens at `wide` has the port of `narrow` too, so that the system lets nobody else have it.
fn takes(wide: SocketAddr, narrow: SocketAddr) -> bool {
    let all = wide.ip().is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4());
    all && wide != narrow && wide.port() == narrow.port() && wide.port() != 0
}

/// Names of applications that there are.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(super) struct Apps(pub(super) Vec<String>);

impl TryFrom<Vec<String>> for Apps {
    type Error = String;

    fn try_from(names: Vec<String>) -> Result<Self, String> {
        sluice_apps::check(&names).map(|()| Self(names)).map_err(|error| error.to_string())
    }
}

/// Where workers run.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected true, false or a list of cores, such as [0, 1]")]
pub(super) enum Pin {
    /// Each on a core of its own, or wherever the system likes.
    Each(bool),
    /// On these cores.
    Cores(Cores),
}

/// At least one core.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Vec<usize>")]
pub(super) struct Cores(pub(super) Vec<usize>);

impl TryFrom<Vec<usize>> for Cores {
    type Error = &'static str;

    fn try_from(cores: Vec<usize>) -> Result<Self, &'static str> {
        if cores.is_empty() { Err("there must be a core") } else { Ok(Self(cores)) }
    }
}

/// Versions that sessions can be held in, at least one.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(super) struct Spoken(pub(super) Versions);

impl TryFrom<Vec<String>> for Spoken {
    type Error = String;

    fn try_from(texts: Vec<String>) -> Result<Self, String> {
        let names: Vec<_> = Versions::SPOKEN.iter().map(|version| version.to_string()).collect();
        let unknown = texts.iter().find(|text| !names.contains(text));
        match unknown {
            Some(text) => Err(format!("`{text}` is not one of the versions {}", names.join(", "))),
            None if texts.is_empty() => Err("there must be a version".to_owned()),
            None => {
                let versions: Vec<_> = texts.iter().filter_map(|t| Version::from_text(t)).collect();
                Ok(Self(Versions::of(&versions)))
            }
        }
    }
}

/// A role to ask for, or none.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RoleName {
    None,
    Equal,
    Master,
    Slave,
}

impl From<RoleName> for Option<Role> {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::None => None,
            RoleName::Equal => Some(Role::EQUAL),
            RoleName::Master => Some(Role::MASTER),
            RoleName::Slave => Some(Role::SLAVE),
        }
    }
}

/// What the rules of `learning` match.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MatchingName {
    Dst,
    Pair,
    PortPair,
}

impl From<MatchingName> for Matching {
    fn from(name: MatchingName) -> Self {
        match name {
            MatchingName::Dst => Self::Dst,
            MatchingName::Pair => Self::Pair,
            MatchingName::PortPair => Self::PortPair,
        }
    }
}

/// What `hosts` does about a host that claims what another one has.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum GuardName {
    Off,
    Report,
    Refuse,
}

impl From<GuardName> for Guard {
    fn from(name: GuardName) -> Self {
        match name {
            GuardName::Off => Self::Off,
            GuardName::Report => Self::Report,
            GuardName::Refuse => Self::Refuse,
        }
    }
}

/// What the rules of `forwarding` match.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WayMatchingName {
    Dst,
    Pair,
    FiveTuple,
}

impl From<WayMatchingName> for forwarding::Matching {
    fn from(name: WayMatchingName) -> Self {
        match name {
            WayMatchingName::Dst => Self::Dst,
            WayMatchingName::Pair => Self::Pair,
            WayMatchingName::FiveTuple => Self::FiveTuple,
        }
    }
}

/// How `forwarding` sends what is for all.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FloodingName {
    Controller,
    Tree,
}

impl From<FloodingName> for forwarding::Flooding {
    fn from(name: FloodingName) -> Self {
        match name {
            FloodingName::Controller => Self::Controller,
            FloodingName::Tree => Self::Tree,
        }
    }
}

/// The name of a congestion control; `system` is none.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Congestion(pub(super) Option<String>);

impl TryFrom<String> for Congestion {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        // The kernel takes names of up to 15 bytes and refuses the unknown ones itself.
        if name.is_empty() || name.len() > 15 {
            return Err(format!("`{name}` is not the name of a congestion control"));
        }
        Ok(Self(Some(name).filter(|name| name != "system")))
    }
}

/// What is logged.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Off => Self::OFF,
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

/// How it is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Format {
    Text,
    Json,
}
