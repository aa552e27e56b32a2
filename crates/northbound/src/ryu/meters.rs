//! Meters: changes, statistics, configuration, features.

use serde_json::{Value, json};
use sluice_openflow::{
    MeterBand, MeterCommand, MeterDesc, MeterFeatures, MeterFlags, MeterId, MeterMod, MeterStats,
    MultipartReply, Version,
};

use super::forms::{Form, item_len};
use super::input::{ApiResult, Object, invalid, named_number};
use super::numbers::{METER_BANDS, METER_FLAGS, METERS};

/// The last part of the path, and the command.
pub(super) const COMMANDS: [(&str, MeterCommand); 3] = [
    ("add", MeterCommand::ADD),
    ("modify", MeterCommand::MODIFY),
    ("delete", MeterCommand::DELETE),
];

pub(super) fn meter_mod(it: &Object<'_>, command: MeterCommand) -> ApiResult<MeterMod> {
    let bands = it.objects("bands")?;
    Ok(MeterMod {
        command,
        flags: flags(it)?,
        meter_id: MeterId(it.named("meter_id", &METERS, 0)?),
        bands: bands.iter().map(band).collect::<ApiResult<_>>()?,
    })
}

/// The flags: one name, or a list of names.
fn flags(it: &Object<'_>) -> ApiResult<MeterFlags> {
    let place = it.place("flags");
    let flag = |value: &Value| {
        let number = named_number(&place, value, &METER_FLAGS)?;
        u16::try_from(number).map_err(|_| invalid(&place, value, "a number of 16 bits"))
    };
    Ok(MeterFlags(match it.get("flags") {
        None => 0,
        Some(Value::Array(all)) => {
            all.iter().try_fold(0, |set, value| flag(value).map(|bit| set | bit))?
        }
        Some(value) => flag(value)?,
    }))
}

fn band(it: &Object<'_>) -> ApiResult<MeterBand> {
    let (rate, burst_size) = (it.number("rate", 0)?, it.number("burst_size", 0)?);
    Ok(match it.text("type")?.unwrap_or_default() {
        "DROP" => MeterBand::Drop { rate, burst_size },
        "DSCP_REMARK" => {
            MeterBand::DscpRemark { rate, burst_size, prec_level: it.number("prec_level", 0)? }
        }
        "EXPERIMENTER" => {
            let experimenter = it.number("experimenter", 0)?;
            MeterBand::Experimenter { rate, burst_size, experimenter, data: vec![] }
        }
        kind => {
            let expected = "one of DROP, DSCP_REMARK, EXPERIMENTER";
            return Err(invalid(&it.place("type"), &kind.into(), expected));
        }
    })
}

fn id_to_json(id: MeterId) -> Value {
    METERS.name(id.0).map_or_else(|| id.0.into(), Value::from)
}

pub(super) fn stats_to_json(it: &MeterStats, version: Version) -> Value {
    let with = MultipartReply::MeterStats { meters: vec![it.clone()] };
    let len = item_len(with, MultipartReply::MeterStats { meters: vec![] }, version);
    let bands = it.band_stats.iter().map(|band| {
        json!({ "packet_band_count": band.packet_band_count, "byte_band_count": band.byte_band_count })
    });
    let references = if version < Version::V1_5 { "flow_count" } else { "ref_count" };
    json!({
        "meter_id": id_to_json(it.meter_id),
        "len": len,
        references: it.ref_count,
        "packet_in_count": it.packet_in_count,
        "byte_in_count": it.byte_in_count,
        "duration_sec": it.duration_sec,
        "duration_nsec": it.duration_nsec,
        "band_stats": bands.collect::<Value>(),
    })
}

pub(super) fn desc_to_json(it: &MeterDesc, version: Version) -> Value {
    let with_len = Form::of(version) == Form::Objects;
    let mut meter = json!({
        "meter_id": id_to_json(it.meter_id),
        "flags": METER_FLAGS.of_flags(it.flags.0.into()),
        "bands": it.bands.iter().map(|band| band_to_json(band, with_len)).collect::<Value>(),
    });
    if let Some(entries) = meter.as_object_mut().filter(|_| with_len) {
        let with = MultipartReply::MeterDesc { meters: vec![it.clone()] };
        let len = item_len(with, MultipartReply::MeterDesc { meters: vec![] }, version);
        entries.insert("length".into(), len.into());
    }
    meter
}

fn band_to_json(it: &MeterBand, with_len: bool) -> Value {
    let (mut band, len) = match it {
        MeterBand::Drop { rate, burst_size } => {
            (json!({ "type": "DROP", "rate": rate, "burst_size": burst_size }), 16)
        }
        MeterBand::DscpRemark { rate, burst_size, prec_level } => {
            let kind = "DSCP_REMARK";
            let band = json!({ "type": kind, "rate": rate, "burst_size": burst_size, "prec_level": prec_level });
            (band, 16)
        }
        MeterBand::Experimenter { rate, burst_size, experimenter, data } => {
            let kind = "EXPERIMENTER";
            let band = json!({ "type": kind, "rate": rate, "burst_size": burst_size, "experimenter": experimenter });
            (band, 16 + data.len())
        }
        MeterBand::Other { .. } => (json!({ "type": "", "rate": 0, "burst_size": 0 }), 16),
    };
    if let Some(entries) = band.as_object_mut().filter(|_| with_len) {
        entries.insert("len".into(), len.into());
    }
    band
}

pub(super) fn features_to_json(it: &MeterFeatures) -> Value {
    json!({
        "max_meter": it.max_meter,
        "band_types": METER_BANDS.of_bits(it.band_types.0),
        "capabilities": METER_FLAGS.of_flags(it.capabilities.0),
        "max_bands": it.max_bands,
        "max_color": it.max_color,
    })
}
