//! The `nat` action. Open vSwitch, `struct nx_action_nat`.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::codec::Codec;
use super::codec::versions::V1_0;
use super::reader::Reader;
use super::rows::{flags, record};
use super::value::{Entries, NeutralForm, Value, ValueError, expect_text, number_to_value};
use crate::{EncodeError, Encoder, Expected, ParseErrorKind, Result, Version};

flags! {
    /// `NX_NAT_F_*`: what is translated, and how ports are selected.
    pub struct NatFlags(u16);
    SRC = 1, V1_0, "Translate the source.";
    DST = 2, V1_0, "Translate the destination.";
    PERSISTENT = 4, V1_0, "Keep the same translation across restarts.";
    PROTO_HASH = 8, V1_0, "Select the port by a hash.";
    PROTO_RANDOM = 16, V1_0, "Select the port randomly.";
}

record! {
    /// Translates addresses and ports of a tracked connection.
    #[derive(Default)]
    pub struct NatAction: "nat" {
        /// What is translated, and how.
        pub flags: NatFlags,
        /// Addresses and ports to translate to.
        pub range: NatRange,
    }
    V1_0.. => [pad 2, flags, range,]
}

/// Addresses and ports to translate to. A 16-bit bitmap on the wire says which of the six are present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NatRange {
    /// Lowest IPv4 address.
    pub ipv4_min: Option<Ipv4Addr>,
    /// Highest IPv4 address.
    pub ipv4_max: Option<Ipv4Addr>,
    /// Lowest IPv6 address.
    pub ipv6_min: Option<Ipv6Addr>,
    /// Highest IPv6 address.
    pub ipv6_max: Option<Ipv6Addr>,
    /// Lowest port.
    pub proto_min: Option<u16>,
    /// Highest port.
    pub proto_max: Option<u16>,
}

/// Defined bits of `range_present`.
const PRESENT: u16 = 0x3f;

impl Codec for NatRange {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let unknown = r.error("range_present", ParseErrorKind::Value);
        let present = r.u16("range_present")?;
        if present & !PRESENT != 0 {
            return Err(unknown.with_value(present.into(), Expected::AtMost(PRESENT)));
        }
        let has = |bit: u16| present & 1 << bit != 0;
        Ok(Self {
            ipv4_min: has(0).then(|| r.u32("ipv4_min").map(Ipv4Addr::from)).transpose()?,
            ipv4_max: has(1).then(|| r.u32("ipv4_max").map(Ipv4Addr::from)).transpose()?,
            ipv6_min: has(2).then(|| r.array::<16>("ipv6_min").map(Ipv6Addr::from)).transpose()?,
            ipv6_max: has(3).then(|| r.array::<16>("ipv6_max").map(Ipv6Addr::from)).transpose()?,
            proto_min: has(4).then(|| r.u16("proto_min")).transpose()?,
            proto_max: has(5).then(|| r.u16("proto_max")).transpose()?,
        })
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let Self { ipv4_min, ipv4_max, ipv6_min, ipv6_max, proto_min, proto_max } = self;
        let present = u16::from(ipv4_min.is_some())
            | u16::from(ipv4_max.is_some()) << 1
            | u16::from(ipv6_min.is_some()) << 2
            | u16::from(ipv6_max.is_some()) << 3
            | u16::from(proto_min.is_some()) << 4
            | u16::from(proto_max.is_some()) << 5;
        present.encode(out)?;
        [ipv4_min, ipv4_max].into_iter().flatten().try_for_each(|ip| ip.octets().encode(out))?;
        [ipv6_min, ipv6_max].into_iter().flatten().try_for_each(|ip| ip.octets().encode(out))?;
        [proto_min, proto_max].into_iter().flatten().try_for_each(|port| port.encode(out))
    }
}

/// Neutral form: a map of the values that are present.
impl NeutralForm for NatRange {
    fn to_value(&self, _: Version) -> Value {
        let Self { ipv4_min, ipv4_max, ipv6_min, ipv6_max, proto_min, proto_max } = self;
        let all = [
            ("ipv4_min", ipv4_min.map(|ip| Value::text(ip.to_string()))),
            ("ipv4_max", ipv4_max.map(|ip| Value::text(ip.to_string()))),
            ("ipv6_min", ipv6_min.map(|ip| Value::text(ip.to_string()))),
            ("ipv6_max", ipv6_max.map(|ip| Value::text(ip.to_string()))),
            ("proto_min", proto_min.map(number_to_value)),
            ("proto_max", proto_max.map(number_to_value)),
        ];
        let present = all.into_iter().filter_map(|(name, value)| Some((name.into(), value?)));
        Value::Map(present.collect())
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        let mut entries = Entries::of(value)?;
        let read = Self {
            ipv4_min: address(&mut entries, "ipv4_min")?,
            ipv4_max: address(&mut entries, "ipv4_max")?,
            ipv6_min: address(&mut entries, "ipv6_min")?,
            ipv6_max: address(&mut entries, "ipv6_max")?,
            proto_min: entries.read("proto_min", version)?,
            proto_max: entries.read("proto_max", version)?,
        };
        entries.finish()?;
        Ok(read)
    }
}

fn address<T: core::str::FromStr>(
    entries: &mut Entries<'_>,
    name: &'static str,
) -> Result<Option<T>, ValueError> {
    let Some(value) = entries.take(name) else { return Ok(None) };
    let text = expect_text(value).map_err(|e| e.under(name))?;
    let wrong = || ValueError::new(format!("invalid IP address `{text}`")).under(name);
    text.parse().map(Some).map_err(|_| wrong())
}
