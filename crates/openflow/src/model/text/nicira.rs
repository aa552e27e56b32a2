//! Nicira's actions as text: `resubmit(,3)`, `controller(reason=no_match,id=7)`, `sample(probability=…)`.

use super::action::{MatchContext, list, print_list};
use super::conntrack::{number_source, print_source};
use super::field_value::{hex, port};
use super::meter;
use super::token::{KeyValue, TextError, TextSpan};
use crate::PortNo;
use crate::model::{Action, Controller2Prop, EncapProp, MeterId, NumberSource, SampleDirection};

/// Packet-in reasons by name. §7.4.1; OpenFlow 1.4.0 §7.4.1; Open vSwitch.
const REASONS: &[(u8, &str)] = &[
    (0, "no_match"),
    (1, "action"),
    (2, "invalid_ttl"),
    (3, "action_set"),
    (4, "group"),
    (5, "packet_out"),
];

/// Default reason of an action.
const REASON_ACTION: u8 = 1;

/// The current table, in `resubmit`.
const SAME_TABLE: u8 = 255;

/// Parses the action `name`; `None` if it is not one of this module.
pub(crate) fn parse(
    name: &str,
    pair: &KeyValue<'_>,
    context: MatchContext,
) -> Option<Result<Action, TextError>> {
    Some(match name {
        "resubmit" => resubmit(pair),
        "controller" => controller(pair),
        "write_metadata" => {
            write_metadata(pair).map(|(metadata, mask)| Action::WriteMetadata { metadata, mask })
        }
        "note" => pair.value.bytes().map(|note| Action::Note { note: padded(note) }),
        "dec_ttl" if !pair.value.is_empty() => {
            let ids: Result<_, _> = pair.value.commas().map(|id| id.trim().int()).collect();
            ids.map(|cnt_ids| Action::DecTtlCntIds { cnt_ids })
        }
        "fin_timeout" => fin_timeout(pair),
        "sample" => sample(pair),
        "conjunction" => conjunction(pair),
        "clone" => {
            let inside = context.inside(pair.value).and_then(|inside| list(pair.value, inside));
            inside.map(|actions| Action::Clone { actions })
        }
        "encap" => encap(pair),
        "decap" => decap(pair),
        _ => return None,
    })
}

/// The action as text; `None` if it is not one of this module.
pub(crate) fn print(action: &Action) -> Option<String> {
    Some(match action {
        Action::Resubmit { in_port } => format!("resubmit:{in_port}"),
        Action::ResubmitTable { in_port, table } => print_resubmit(*in_port, *table, ""),
        Action::ResubmitTableCt { in_port, table } => print_resubmit(*in_port, *table, ",ct"),
        Action::Controller { max_len, controller_id, reason } => print_controller(&[
            Controller2Prop::MaxLen { max_len: *max_len },
            Controller2Prop::ControllerId { controller_id: *controller_id },
            Controller2Prop::Reason { reason: *reason },
        ]),
        Action::Controller2 { properties } => print_controller(properties),
        Action::WriteMetadata { metadata, mask } => print_write_metadata(*metadata, *mask),
        Action::Note { note } => format!("note:{}", dotted(note)),
        Action::DecTtlCntIds { cnt_ids } => {
            let ids: Vec<_> = cnt_ids.iter().map(u16::to_string).collect();
            format!("dec_ttl({})", ids.join(","))
        }
        Action::FinTimeout { fin_idle_timeout, fin_hard_timeout } => {
            let one = |name, n: &u16| (*n != 0).then(|| format!("{name}={n}"));
            let both =
                [one("idle_timeout", fin_idle_timeout), one("hard_timeout", fin_hard_timeout)];
            let both: Vec<_> = both.into_iter().flatten().collect();
            format!("fin_timeout({})", both.join(","))
        }
        Action::Conjunction { clause, n_clauses, id } => {
            format!("conjunction({id},{}/{n_clauses})", u16::from(*clause) + 1)
        }
        Action::Clone { actions } => format!("clone({})", print_list(actions)),
        Action::Encap { hdr_size, new_pkt_type, properties } => {
            print_encap(*hdr_size, *new_pkt_type, properties)
        }
        Action::Decap { new_pkt_type: NEXT_PROTO } => "decap()".into(),
        Action::Decap { new_pkt_type } => {
            let (ns, kind) = (new_pkt_type >> 16, new_pkt_type & 0xffff);
            format!("decap(packet_type(ns={ns},type={kind:#x}))")
        }
        _ => return print_sample(action),
    })
}

/// Bytes in hex, separated by dots.
fn dotted(bytes: &[u8]) -> String {
    let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(".")
}

/// Pads a note so that its action, with ten bytes before the note, has a multiple of eight bytes.
fn padded(mut note: Vec<u8>) -> Vec<u8> {
    note.resize((note.len() + 10).next_multiple_of(8) - 10, 0);
    note
}

/// `resubmit:2`, `resubmit(2,3)`, `resubmit(,3,ct)`.
fn resubmit(pair: &KeyValue<'_>) -> Result<Action, TextError> {
    let mut parts = pair.required()?.commas().map(TextSpan::trim);
    let in_port = parts.next().filter(|part| !part.is_empty());
    let table = parts.next().filter(|part| !part.is_empty());
    let ct = parts.next().filter(|part| !part.is_empty());
    if let Some(more) = parts.next() {
        return Err(more.error("unexpected argument (expected `resubmit(port,table,ct)`)"));
    }
    if in_port.is_none() && table.is_none() {
        return Err(pair.value.error("missing port or table"));
    }
    let in_port = in_port.map(port).transpose()?.unwrap_or(PortNo::IN_PORT);
    let number = table.map(TextSpan::int::<u8>).transpose()?.unwrap_or(SAME_TABLE);
    match ct {
        Some(ct) if ct.text() == "ct" => Ok(Action::ResubmitTableCt { in_port, table: number }),
        Some(other) => Err(other.error("expected `ct`")),
        None if table.is_some() => Ok(Action::ResubmitTable { in_port, table: number }),
        None => Ok(Action::Resubmit { in_port }),
    }
}

fn print_resubmit(in_port: PortNo, table: u8, ct: &str) -> String {
    let port = if in_port == PortNo::IN_PORT { String::new() } else { in_port.to_string() };
    format!("resubmit({port},{table}{ct})")
}

/// `controller`, `controller:128`, `controller(reason=no_match,max_len=…,id=…,userdata=…,pause,meter_id=…)`.
fn controller(pair: &KeyValue<'_>) -> Result<Action, TextError> {
    let to = |max_len| Action::Output { port: PortNo::CONTROLLER, max_len };
    if pair.value.is_empty() {
        return Ok(to(Action::WHOLE));
    }
    if pair.value.text().starts_with(|c: char| c.is_ascii_digit()) {
        return pair.int().map(to);
    }
    let (mut max_len, mut controller_id, mut reason) = (Action::WHOLE, 0, REASON_ACTION);
    let (mut userdata, mut pause, mut limit) = (None, false, None);
    let mut inside = pair.value.pairs();
    while let Some(one) = inside.next()? {
        match one.name() {
            "max_len" => max_len = one.int()?,
            "id" => controller_id = one.int()?,
            "reason" => reason = reason_of(one.required()?)?,
            "userdata" => userdata = Some(one.value.bytes()?),
            "pause" => {
                one.no_value()?;
                pause = true;
            }
            "meter_id" => limit = Some(meter::meter_id(one.required()?)?.0),
            _ => return Err(one.unknown("`controller` key")),
        }
    }
    if userdata.is_none() && !pause && limit.is_none() {
        if controller_id == 0 && reason == REASON_ACTION {
            return Ok(to(max_len));
        }
        return Ok(Action::Controller { max_len, controller_id, reason });
    }
    let mut properties = Vec::new();
    if max_len != Action::WHOLE {
        properties.push(Controller2Prop::MaxLen { max_len });
    }
    if controller_id != 0 {
        properties.push(Controller2Prop::ControllerId { controller_id });
    }
    if reason != REASON_ACTION {
        properties.push(Controller2Prop::Reason { reason });
    }
    properties.extend(userdata.map(|userdata| Controller2Prop::Userdata { userdata }));
    properties.extend(pause.then_some(Controller2Prop::Pause));
    properties.extend(limit.map(|meter_id| Controller2Prop::MeterId { meter_id }));
    Ok(Action::Controller2 { properties })
}

fn reason_of(piece: TextSpan<'_>) -> Result<u8, TextError> {
    let known = REASONS.iter().find(|row| row.1 == piece.text());
    if let Some(row) = known {
        return Ok(row.0);
    }
    if piece.text().starts_with(|c: char| c.is_ascii_digit()) {
        return piece.int();
    }
    Err(piece.error(format!("unknown reason `{}`", piece.text())))
}

/// Omits properties with their default value.
fn print_controller(properties: &[Controller2Prop]) -> String {
    let parts = properties.iter().filter_map(|property| match property {
        Controller2Prop::Reason { reason: REASON_ACTION }
        | Controller2Prop::MaxLen { max_len: Action::WHOLE }
        | Controller2Prop::ControllerId { controller_id: 0 }
        | Controller2Prop::Other { .. } => None,
        Controller2Prop::Reason { reason } => {
            let name = REASONS.iter().find(|row| row.0 == *reason);
            let name = name.map_or_else(|| reason.to_string(), |row| row.1.to_owned());
            Some((0, format!("reason={name}")))
        }
        Controller2Prop::MaxLen { max_len } => Some((1, format!("max_len={max_len}"))),
        Controller2Prop::ControllerId { controller_id } => Some((2, format!("id={controller_id}"))),
        Controller2Prop::Userdata { userdata } => {
            Some((3, format!("userdata={}", dotted(userdata))))
        }
        Controller2Prop::Pause => Some((4, "pause".to_owned())),
        Controller2Prop::MeterId { meter_id } => {
            Some((5, format!("meter_id={}", meter::print_meter_id(MeterId(*meter_id)))))
        }
    });
    let mut parts: Vec<_> = parts.collect();
    parts.sort_by_key(|part| part.0);
    let parts: Vec<_> = parts.into_iter().map(|part| part.1).collect();
    format!("controller({})", parts.join(","))
}

/// `write_metadata:5/0xff`: value and mask.
pub(crate) fn write_metadata(pair: &KeyValue<'_>) -> Result<(u64, u64), TextError> {
    let value = pair.required()?;
    match value.split("/") {
        Some((value, mask)) => Ok((value.int()?, mask.int()?)),
        None => Ok((value.int()?, u64::MAX)),
    }
}

/// The action or instruction `write_metadata` as text.
pub(crate) fn print_write_metadata(metadata: u64, mask: u64) -> String {
    let metadata = hex(metadata.into());
    match mask {
        u64::MAX => format!("write_metadata:{metadata}"),
        _ => format!("write_metadata:{metadata}/{}", hex(mask.into())),
    }
}

fn fin_timeout(pair: &KeyValue<'_>) -> Result<Action, TextError> {
    let (mut fin_idle_timeout, mut fin_hard_timeout) = (0, 0);
    let mut inside = pair.value.pairs();
    while let Some(one) = inside.next()? {
        match one.name() {
            "idle_timeout" => fin_idle_timeout = one.int()?,
            "hard_timeout" => fin_hard_timeout = one.int()?,
            _ => return Err(one.unknown("`fin_timeout` key")),
        }
    }
    Ok(Action::FinTimeout { fin_idle_timeout, fin_hard_timeout })
}

/// `conjunction(7,1/2)`; clauses are counted from 1.
fn conjunction(pair: &KeyValue<'_>) -> Result<Action, TextError> {
    let value = pair.required()?;
    let syntax = || value.error("expected `conjunction(id,k/n)`");
    let (id, of) = value.split(",").ok_or_else(syntax)?;
    let (clause, n_clauses) = of.split("/").ok_or_else(syntax)?;
    let (clause, n_clauses) = (clause.trim(), n_clauses.trim());
    let n: u8 = n_clauses.int()?;
    if !(2..=64).contains(&n) {
        return Err(n_clauses.error("number of clauses out of range (expected 2 to 64)"));
    }
    let k: u8 = clause.int()?;
    if k == 0 || k > n {
        return Err(clause.error(format!("clause out of range (expected 1 to {n})")));
    }
    Ok(Action::Conjunction { clause: k - 1, n_clauses: n, id: id.trim().int()? })
}

fn sample(pair: &KeyValue<'_>) -> Result<Action, TextError> {
    let (mut probability, mut collector_set_id) = (0, 0);
    let (mut obs_domain, mut obs_point) = (NumberSource::default(), NumberSource::default());
    let (mut given_port, mut direction) = (None, SampleDirection::DEFAULT);
    let mut inside = pair.value.pairs();
    while let Some(one) = inside.next()? {
        match one.name() {
            "probability" => probability = one.int()?,
            "collector_set_id" => collector_set_id = one.int()?,
            "obs_domain_id" => obs_domain = number_source(one.required()?)?,
            "obs_point_id" => obs_point = number_source(one.required()?)?,
            // `none` is the same as no port.
            "sampling_port" => {
                given_port = Some(port(one.required()?)?).filter(|&port| port != PortNo::ANY);
            }
            "ingress" | "egress" => {
                one.no_value()?;
                let ingress = one.name() == "ingress";
                direction =
                    if ingress { SampleDirection::INGRESS } else { SampleDirection::EGRESS };
            }
            _ => return Err(one.unknown("`sample` key")),
        }
    }
    if probability == 0 {
        return Err(pair.value.error("missing `probability=` (expected 1 to 65535)"));
    }
    let sampling_port = given_port.unwrap_or(PortNo::ANY);
    let (NumberSource::Immediate(obs_domain_id), NumberSource::Immediate(obs_point_id)) =
        (obs_domain, obs_point)
    else {
        return Ok(Action::Sample4 {
            probability,
            collector_set_id,
            obs_domain,
            obs_point,
            sampling_port,
            direction,
        });
    };
    Ok(match (given_port, direction) {
        (None, SampleDirection::DEFAULT) => {
            Action::Sample { probability, collector_set_id, obs_domain_id, obs_point_id }
        }
        (Some(_), SampleDirection::DEFAULT) => Action::Sample2 {
            probability,
            collector_set_id,
            obs_domain_id,
            obs_point_id,
            sampling_port,
        },
        _ => Action::Sample3 {
            probability,
            collector_set_id,
            obs_domain_id,
            obs_point_id,
            sampling_port,
            direction,
        },
    })
}

fn print_sample(action: &Action) -> Option<String> {
    let (probability, collectors, domain, point) = match action {
        Action::Sample { probability, collector_set_id, obs_domain_id, obs_point_id }
        | Action::Sample2 { probability, collector_set_id, obs_domain_id, obs_point_id, .. }
        | Action::Sample3 { probability, collector_set_id, obs_domain_id, obs_point_id, .. } => {
            (probability, collector_set_id, obs_domain_id.to_string(), obs_point_id.to_string())
        }
        Action::Sample4 { probability, collector_set_id, obs_domain, obs_point, .. } => {
            (probability, collector_set_id, print_source(obs_domain), print_source(obs_point))
        }
        _ => return None,
    };
    let (port, direction) = match action {
        Action::Sample2 { sampling_port, .. } => (*sampling_port, SampleDirection::DEFAULT),
        Action::Sample3 { sampling_port, direction, .. }
        | Action::Sample4 { sampling_port, direction, .. } => (*sampling_port, *direction),
        _ => (PortNo::ANY, SampleDirection::DEFAULT),
    };
    let port = if port == PortNo::ANY { String::new() } else { format!(",sampling_port={port}") };
    let direction = match direction {
        SampleDirection::INGRESS => ",ingress",
        SampleDirection::EGRESS => ",egress",
        _ => "",
    };
    Some(format!(
        "sample(probability={probability},collector_set_id={collectors},obs_domain_id={domain},\
         obs_point_id={point}{port}{direction})"
    ))
}

/// Headers that can be pushed, by packet type.
const HEADERS: &[(u32, &str)] =
    &[(0, "ethernet"), (0x1_894f, "nsh"), (0x1_8847, "mpls"), (0x1_8848, "mpls_mc")];

/// Packet type in `decap()`: derive it from the header.
const NEXT_PROTO: u32 = 0xfffe;

/// `encap(nsh(md_type=1,tlv(0x1000,10,0x12345678)))`.
fn encap(pair: &KeyValue<'_>) -> Result<Action, TextError> {
    let mut inside = pair.value.pairs();
    let missing = || pair.value.error("missing header");
    let header = inside.next()?.ok_or_else(missing)?;
    let row = HEADERS.iter().find(|row| row.1 == header.name());
    let new_pkt_type = row.ok_or_else(|| header.unknown("header"))?.0;
    if let Some(more) = inside.next()? {
        return Err(more.key.error("`encap` pushes only one header"));
    }
    let (mut properties, mut parts) = (Vec::new(), header.value.pairs());
    while let Some(one) = parts.next()? {
        properties.push(match one.name() {
            "md_type" => EncapProp::NshMdType { md_type: one.int()? },
            "tlv" => {
                let parts: Vec<_> = one.required()?.commas().map(TextSpan::trim).collect();
                let [class, kind, value] = parts.as_slice() else {
                    return Err(one.value.error("expected `tlv(class,type,value)`"));
                };
                let data = value.strip("0x").unwrap_or(*value).bytes()?;
                EncapProp::NshTlv { tlv_class: class.int()?, tlv_type: kind.int()?, data }
            }
            "property" => {
                let (code, body) = one
                    .required()?
                    .split(",")
                    .ok_or_else(|| one.value.error("expected `property(code,bytes)`"))?;
                let (code, body) = (code.trim().int()?, body.trim());
                let body = body.strip("0x").unwrap_or(body).bytes()?;
                EncapProp::Other { code, body }
            }
            _ => return Err(one.unknown("header property")),
        });
    }
    Ok(Action::Encap { hdr_size: 0, new_pkt_type, properties })
}

fn print_encap(hdr_size: u16, new_pkt_type: u32, properties: &[EncapProp]) -> String {
    let name = HEADERS.iter().find(|row| row.0 == new_pkt_type);
    let name = name.map_or_else(|| format!("{new_pkt_type:#x}"), |row| row.1.to_owned());
    let properties: Vec<_> = properties
        .iter()
        .map(|property| match property {
            EncapProp::NshMdType { md_type } => format!("md_type={md_type}"),
            EncapProp::NshTlv { tlv_class, tlv_type, data } => {
                let data = crate::model::value::hex(data);
                format!("tlv({tlv_class:#06x},{tlv_type},0x{data})")
            }
            EncapProp::Other { code, body } => {
                format!("property({code:#x},0x{})", crate::model::value::hex(body))
            }
        })
        .collect();
    let _ = hdr_size;
    if properties.is_empty() {
        format!("encap({name})")
    } else {
        format!("encap({name}({}))", properties.join(","))
    }
}

fn decap(pair: &KeyValue<'_>) -> Result<Action, TextError> {
    let mut inside = pair.value.pairs();
    let Some(kind) = inside.next()? else { return Ok(Action::Decap { new_pkt_type: NEXT_PROTO }) };
    if kind.name() != "packet_type" {
        return Err(kind.unknown("`decap` key"));
    }
    if let Some(more) = inside.next()? {
        return Err(more.unknown("`decap` key"));
    }
    let (mut ns, mut number, mut parts) = (0_u16, 0_u16, kind.value.pairs());
    while let Some(one) = parts.next()? {
        match one.name() {
            "ns" => ns = one.int()?,
            "type" => number = one.int()?,
            _ => return Err(one.unknown("`packet_type` key")),
        }
    }
    Ok(Action::Decap { new_pkt_type: u32::from(ns) << 16 | u32::from(number) })
}
