//! The action `learn` as text: `learn(table=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])`.

use core::fmt::Write as _;

use super::field_action::{Subfield, name_of};
use super::field_value::{hex, ones};
use super::matching::{field_of, print_value, read_value};
use super::token::{KeyValue, TextError, TextSpan};
use crate::model::{
    Action, Field, Learn2Action, LearnAction, LearnDst, LearnFlags, LearnSpec, LearnSrc,
    LearnedFlow, Oxm, value,
};

/// Default priority of a learned flow entry.
const PRIORITY: u16 = 0x8000;

/// Default table of a learned flow entry.
const TABLE: u8 = 1;

/// Parses the action `learn`; `None` for other names.
pub(crate) fn parse(name: &str, pair: &KeyValue<'_>) -> Option<Result<Action, TextError>> {
    (name == "learn").then(|| learn(pair))
}

/// The action as text; `None` if it is not `learn`.
pub(crate) fn print(action: &Action) -> Option<String> {
    match action {
        Action::Learn(it) => Some(print_learn(&it.rule, &[], &it.flow_mod_specs)),
        Action::Learn2(it) => {
            let mut more = vec![];
            if it.limit != 0 {
                more.push(format!("limit={}", it.limit));
            }
            let result = |header| Subfield::new(header, it.result_dst_ofs, 1).text();
            more.extend(it.result_dst.map(|header| format!("result_dst={}", result(header))));
            Some(print_learn(&it.rule, &more, &it.flow_mod_specs))
        }
        _ => None,
    }
}

fn learn(pair: &KeyValue<'_>) -> Result<Action, TextError> {
    let mut rule = LearnedFlow { priority: PRIORITY, table_id: TABLE, ..LearnedFlow::default() };
    let (mut limit, mut result, mut specs) = (0, None, Vec::new());
    let mut inside = pair.value.pairs();
    while let Some(one) = inside.next()? {
        match one.name() {
            "table" => rule.table_id = one.int()?,
            "idle_timeout" => rule.idle_timeout = one.int()?,
            "hard_timeout" => rule.hard_timeout = one.int()?,
            "fin_idle_timeout" => rule.fin_idle_timeout = one.int()?,
            "fin_hard_timeout" => rule.fin_hard_timeout = one.int()?,
            "priority" => rule.priority = one.int()?,
            "cookie" => rule.cookie = one.int()?,
            "send_flow_rem" => {
                one.no_value()?;
                rule.flags |= LearnFlags::SEND_FLOW_REM;
            }
            "delete_learned" => {
                one.no_value()?;
                rule.flags |= LearnFlags::DELETE_LEARNED;
            }
            "limit" => limit = one.int()?,
            "result_dst" => {
                let value = one.required()?;
                let bit = Subfield::parse(value)?;
                if bit.count != 1 {
                    return Err(value.error("expected a single bit, such as `reg0[0]`"));
                }
                result = Some(bit);
            }
            _ => specs.push(spec(&one)?),
        }
    }
    if limit == 0 && result.is_none() {
        return Ok(Action::Learn(Box::new(LearnAction { rule, flow_mod_specs: specs })));
    }
    if result.is_some() {
        rule.flags |= LearnFlags::WRITE_RESULT;
    }
    Ok(Action::Learn2(Box::new(Learn2Action {
        rule,
        limit,
        result_dst_ofs: result.map_or(0, |bit| bit.numbers().0),
        result_dst: result.map(Subfield::header),
        flow_mod_specs: specs,
    })))
}

/// Parses a match field, a `load` or an `output` of the learned flow entry.
fn spec(pair: &KeyValue<'_>) -> Result<LearnSpec, TextError> {
    match pair.name() {
        "output" => {
            let src = Subfield::parse(pair.required()?)?;
            Ok(LearnSpec { n_bits: src.numbers().1, src: field_src(src), dst: LearnDst::Output })
        }
        "load" => {
            let value = pair.required()?;
            let arrow = || value.error_after("missing `->` and a field");
            let (from, to) = value.split("->").ok_or_else(arrow)?;
            let dst = Subfield::parse(to)?;
            let (offset, n_bits) = dst.numbers();
            let src = source(from, dst)?;
            Ok(LearnSpec { n_bits, src, dst: LearnDst::Load { field: dst.header(), offset } })
        }
        name if field_of(name.split('[').next().unwrap_or_default()).is_none() => {
            Err(pair.unknown("`learn` key"))
        }
        _ => {
            let dst = Subfield::parse(pair.key)?;
            let (offset, n_bits) = dst.numbers();
            let src = if pair.value.is_empty() { field_src(dst) } else { source(pair.value, dst)? };
            Ok(LearnSpec { n_bits, src, dst: LearnDst::Match { field: dst.header(), offset } })
        }
    }
}

fn field_src(src: Subfield) -> LearnSrc {
    LearnSrc::Field { field: src.header(), offset: src.numbers().0 }
}

/// Parses a value, or bits of a field, for `dst`.
fn source(piece: TextSpan<'_>, dst: Subfield) -> Result<LearnSrc, TextError> {
    let name = piece.split("[").map_or(piece, |(name, _)| name);
    if field_of(name.text()).is_some() {
        let src = Subfield::parse(piece)?;
        if src.count != dst.count {
            let message = format!("source has {} bits, destination has {}", src.count, dst.count);
            return Err(piece.error(message));
        }
        return Ok(field_src(src));
    }
    let whole = dst.first == 0 && dst.id.row().is_some_and(|row| u32::from(row.bits) == dst.count);
    // Values of more than 128 bits are bytes.
    let is_value = whole || dst.count > u128::BITS;
    let read = if is_value { read_value(dst.id.canonical(), piece).ok() } else { None };
    let bytes = match read {
        Some(Oxm::Field(Field { mask: None, value, .. })) => value.to_be_bytes().to_vec(),
        Some(Oxm::Wide { mask: None, value, .. }) => value,
        _ => piece.number(ones(dst.count))?.to_be_bytes().to_vec(),
    };
    let bytes = significant(&bytes);
    let bits = bytes.first().map_or(0, |first| {
        let behind = u32::try_from(bytes.len().saturating_sub(1)).unwrap_or(u32::MAX);
        behind.saturating_mul(u8::BITS).saturating_add(u8::BITS - first.leading_zeros())
    });
    if bits > dst.count {
        return Err(piece.error(format!("value does not fit into {} bits", dst.count)));
    }
    let len = 2 * usize::from(dst.numbers().1.div_ceil(16));
    let mut value = vec![0; len.saturating_sub(bytes.len())];
    value.extend_from_slice(bytes);
    Ok(LearnSrc::Immediate { value })
}

/// Bytes of a number without leading zeros.
fn significant(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

/// The bytes as a number, if it has at most 128 bits.
fn number(bytes: &[u8]) -> Option<u128> {
    let bytes = significant(bytes);
    let fits = bytes.len() <= size_of::<u128>();
    fits.then(|| bytes.iter().fold(0, |n, byte| n << 8 | u128::from(*byte)))
}

fn print_learn(rule: &LearnedFlow, more: &[String], specs: &[LearnSpec]) -> String {
    let mut text = format!("learn(table={}", rule.table_id);
    for (name, seconds) in [
        ("idle_timeout", rule.idle_timeout),
        ("hard_timeout", rule.hard_timeout),
        ("fin_idle_timeout", rule.fin_idle_timeout),
        ("fin_hard_timeout", rule.fin_hard_timeout),
    ] {
        if seconds != 0 {
            let _ = write!(text, ",{name}={seconds}");
        }
    }
    if rule.priority != PRIORITY {
        let _ = write!(text, ",priority={}", rule.priority);
    }
    if rule.flags.contains(LearnFlags::SEND_FLOW_REM) {
        text.push_str(",send_flow_rem");
    }
    if rule.flags.contains(LearnFlags::DELETE_LEARNED) {
        text.push_str(",delete_learned");
    }
    if rule.cookie != 0 {
        let _ = write!(text, ",cookie={:#x}", rule.cookie);
    }
    let specs = specs.iter().map(print_spec);
    for part in more.iter().cloned().chain(specs) {
        let _ = write!(text, ",{part}");
    }
    text + ")"
}

fn print_spec(spec: &LearnSpec) -> String {
    let src = match &spec.src {
        LearnSrc::Field { field, offset } => Subfield::new(*field, *offset, spec.n_bits).text(),
        LearnSrc::Immediate { value } | LearnSrc::Other { body: value, .. } => {
            number(value).map_or_else(|| format!("0x{}", value::hex(significant(value))), hex)
        }
    };
    match &spec.dst {
        LearnDst::Match { field, offset } => {
            let dst = Subfield::new(*field, *offset, spec.n_bits);
            let whole = field.id.row().is_some_and(|row| row.bits == spec.n_bits && *offset == 0);
            match &spec.src {
                LearnSrc::Immediate { value } if whole => {
                    let id = field.id.canonical();
                    let wide = || Oxm::Wide { id, value: significant(value).into(), mask: None };
                    let oxm = number(value).map_or_else(wide, |n| Field::new(id, n).into());
                    format!("{}={}", name_of(field.id), print_value(&oxm))
                }
                _ if src == dst.text() => src,
                _ => format!("{}={src}", dst.text()),
            }
        }
        LearnDst::Load { field, offset } => {
            format!("load:{src}->{}", Subfield::new(*field, *offset, spec.n_bits).text())
        }
        LearnDst::Output | LearnDst::Other { .. } => format!("output:{src}"),
    }
}
