//! Connection tracking as text: `ct(commit,zone=5,nat(src=10.0.0.1-10.0.0.9:1000-2000),exec(…))`.

use core::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::action::{MatchContext, list, print_list};
use super::field_action::Subfield;
use super::token::{Int, KeyValue, TextError, TextSpan};
use crate::model::{Action, CtAction, CtFlags, NatAction, NatFlags, NatRange, NumberSource};

/// Application layer gateways by well-known port.
const ALGS: &[(u16, &str)] = &[(21, "ftp"), (69, "tftp")];

/// `recirc_table` of a `ct` action without `table=`.
const NO_TABLE: u8 = 255;

/// Flags of `nat` by name, except for `src` and `dst`, which have a range.
const NAT_FLAGS: &[(NatFlags, &str)] = &[
    (NatFlags::PERSISTENT, "persistent"),
    (NatFlags::PROTO_HASH, "hash"),
    (NatFlags::PROTO_RANDOM, "random"),
];

/// Parses the action `name`; `None` if it is not one of this module.
pub(crate) fn parse(
    name: &str,
    pair: &KeyValue<'_>,
    context: MatchContext,
) -> Option<Result<Action, TextError>> {
    Some(match name {
        "ct" => ct(pair, context).map(|ct| Action::Ct(Box::new(ct))),
        "nat" => nat(pair).map(|nat| Action::Nat(Box::new(nat))),
        _ => return None,
    })
}

/// The action as text; `None` if it is not one of this module.
pub(crate) fn print(action: &Action) -> Option<String> {
    Some(match action {
        Action::Ct(ct) => print_ct(ct),
        Action::Nat(nat) => print_nat(nat),
        _ => return None,
    })
}

/// Parses a number, or bits of a field.
pub(crate) fn number_source<T: Int>(piece: TextSpan<'_>) -> Result<NumberSource<T>, TextError> {
    if piece.text().starts_with(|c: char| c.is_ascii_digit()) {
        return piece.int().map(NumberSource::Immediate);
    }
    let field = Subfield::parse(piece)?;
    Ok(NumberSource::Field { field: field.header(), bits: field.bits(piece)? })
}

/// A number, or bits of a field, as text.
pub(crate) fn print_source<T: core::fmt::Display>(source: &NumberSource<T>) -> String {
    match source {
        NumberSource::Immediate(number) => number.to_string(),
        NumberSource::Field { field, bits } => {
            Subfield::new(*field, bits.offset(), bits.n_bits()).text()
        }
    }
}

fn ct(pair: &KeyValue<'_>, context: MatchContext) -> Result<CtAction, TextError> {
    let mut ct = CtAction { recirc_table: NO_TABLE, ..CtAction::default() };
    let mut inside = pair.value.pairs();
    let mut force = None;
    while let Some(one) = inside.next()? {
        match one.name() {
            "commit" => {
                one.no_value()?;
                ct.flags |= CtFlags::COMMIT;
            }
            "force" => {
                one.no_value()?;
                ct.flags |= CtFlags::FORCE;
                force = Some(one.key);
            }
            "table" => {
                ct.recirc_table = one.int()?;
                if ct.recirc_table == NO_TABLE {
                    return Err(one.value.error("invalid table 255 (expected 0 to 254)"));
                }
            }
            "zone" => ct.zone = number_source(one.required()?)?,
            "alg" => {
                let value = one.required()?;
                let known = ALGS.iter().find(|row| row.1 == value.text());
                ct.alg = match known {
                    Some(row) => row.0,
                    None if value.text().starts_with(|c: char| c.is_ascii_digit()) => {
                        value.int()?
                    }
                    None => {
                        return Err(value.error("unknown alg (expected `ftp`, `tftp` or a port)"));
                    }
                };
            }
            "nat" => ct.actions.push(Action::Nat(Box::new(nat(&one)?))),
            "exec" => ct.actions.extend(list(one.required()?, context.inside(one.value)?)?),
            _ => return Err(one.unknown("`ct` key")),
        }
    }
    match force {
        Some(key) if !ct.flags.contains(CtFlags::COMMIT) => {
            Err(key.error("`force` requires `commit`"))
        }
        _ => Ok(ct),
    }
}

fn print_ct(ct: &CtAction) -> String {
    let mut parts = vec![];
    for (flag, name) in [(CtFlags::COMMIT, "commit"), (CtFlags::FORCE, "force")] {
        if ct.flags.contains(flag) {
            parts.push(name.to_owned());
        }
    }
    if ct.recirc_table != NO_TABLE {
        parts.push(format!("table={}", ct.recirc_table));
    }
    if ct.zone != NumberSource::Immediate(0) {
        parts.push(format!("zone={}", print_source(&ct.zone)));
    }
    // A leading translation is printed outside of `exec`.
    let rest = match ct.actions.split_first() {
        Some((Action::Nat(nat), rest)) => {
            parts.push(print_nat(nat));
            rest
        }
        _ => ct.actions.as_slice(),
    };
    if !rest.is_empty() {
        parts.push(format!("exec({})", print_list(rest)));
    }
    if ct.alg != 0 {
        let name = ALGS.iter().find(|row| row.0 == ct.alg);
        parts.push(format!("alg={}", name.map_or_else(|| ct.alg.to_string(), |row| row.1.into())));
    }
    format!("ct({})", parts.join(","))
}

fn nat(pair: &KeyValue<'_>) -> Result<NatAction, TextError> {
    let (mut nat, mut inside) = (NatAction::default(), pair.value.pairs());
    while let Some(one) = inside.next()? {
        let flag = match one.name() {
            "src" => NatFlags::SRC,
            "dst" => NatFlags::DST,
            name => {
                let row = NAT_FLAGS.iter().find(|row| row.1 == name);
                one.no_value()?;
                row.ok_or_else(|| one.unknown("`nat` key"))?.0
            }
        };
        if matches!(one.name(), "src" | "dst") && !one.value.is_empty() {
            nat.range = nat_range(one.value)?;
        }
        nat.flags |= flag;
    }
    if nat.flags.contains(NatFlags::SRC | NatFlags::DST) {
        return Err(pair.value.error("`src` and `dst` are mutually exclusive"));
    }
    if nat.flags.contains(NatFlags::PROTO_HASH | NatFlags::PROTO_RANDOM) {
        return Err(pair.value.error("`hash` and `random` are mutually exclusive"));
    }
    Ok(nat)
}

/// `10.0.0.1`, `10.0.0.1-10.0.0.9:1000-2000`, `[2001:db8::1]-[2001:db8::9]:1000`.
fn nat_range(piece: TextSpan<'_>) -> Result<NatRange, TextError> {
    let text = piece.text();
    let v6 = text.starts_with('[') || text.matches(':').count() > 1;
    // Ports follow the last bracket, or the only colon of an IPv4 range.
    let (addresses, ports) = match text.rfind(']') {
        Some(end) => {
            let behind = piece.skip(end + 1);
            let ports = behind.strip(":");
            if ports.is_none() && !behind.is_empty() {
                return Err(behind.error("expected `:` and ports"));
            }
            (piece.sub(0, end + 1), ports)
        }
        None if v6 => (piece, None),
        None => piece.split(":").map_or((piece, None), |(ip, ports)| (ip, Some(ports))),
    };
    let mut range = NatRange::default();
    let (min, max) = addresses.split("-").map_or((addresses, None), |(a, b)| (a, Some(b)));
    if v6 {
        range.ipv6_min = Some(ipv6(min)?);
        range.ipv6_max = max.map(ipv6).transpose()?;
    } else {
        let ipv4 = |it: TextSpan<'_>| {
            let wrong = || it.error(format!("invalid IPv4 address `{}`", it.text()));
            it.text().parse::<Ipv4Addr>().map_err(|_| wrong())
        };
        range.ipv4_min = Some(ipv4(min)?);
        range.ipv4_max = max.map(ipv4).transpose()?;
    }
    if let Some(ports) = ports {
        let (min, max) = ports.split("-").map_or((ports, None), |(a, b)| (a, Some(b)));
        range.proto_min = Some(min.int()?);
        range.proto_max = max.map(TextSpan::int).transpose()?;
    }
    Ok(range)
}

fn ipv6(piece: TextSpan<'_>) -> Result<Ipv6Addr, TextError> {
    let text = piece.text().trim_start_matches('[').trim_end_matches(']');
    text.parse().map_err(|_| piece.error(format!("invalid IPv6 address `{text}`")))
}

fn print_nat(nat: &NatAction) -> String {
    let NatRange { ipv4_min, ipv4_max, ipv6_min, ipv6_max, proto_min, proto_max } = nat.range;
    let mut parts = Vec::new();
    for (flag, word) in [(NatFlags::SRC, "src"), (NatFlags::DST, "dst")] {
        if !nat.flags.contains(flag) {
            continue;
        }
        let mut part = word.to_owned();
        let brackets = |ip: Ipv6Addr| {
            if proto_min.is_some() { format!("[{ip}]") } else { ip.to_string() }
        };
        let min = ipv4_min.map(|ip| ip.to_string()).or_else(|| ipv6_min.map(brackets));
        let max = ipv4_max.map(|ip| ip.to_string()).or_else(|| ipv6_max.map(brackets));
        if let Some(min) = min {
            let _ = write!(part, "={min}");
        }
        if let Some(max) = max {
            let _ = write!(part, "-{max}");
        }
        if let Some(min) = proto_min {
            let _ = write!(part, ":{min}");
        }
        if let Some(max) = proto_max {
            let _ = write!(part, "-{max}");
        }
        parts.push(part);
    }
    let words = NAT_FLAGS.iter().filter(|row| nat.flags.contains(row.0));
    parts.extend(words.map(|row| row.1.to_owned()));
    if parts.is_empty() { "nat".into() } else { format!("nat({})", parts.join(",")) }
}
