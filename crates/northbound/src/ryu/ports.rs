//! Ports: descriptions, statistics, configuration.

use serde_json::{Value, json};
use sluice_openflow::{
    EthernetMod, EthernetPort, EthernetStats, MacAddr, OpticalFeatures, Port, PortConfig,
    PortFeatures, PortMod, PortModProp, PortNo, PortProp, PortStats, PortStatsProp, Version,
};

use super::bytes;
use super::forms::Form;
use super::input::{ApiResult, Object, invalid};
use super::matches::field_name;
use super::numbers::{port_name, port_number};
use crate::api::error::ApiError;

/// Speeds, which have the same bits in all versions; media follow in OpenFlow 1.0, further speeds since 1.1.
const SPEEDS: u64 = 0x7f;
/// The media in OpenFlow 1.0, and by how many bits they are higher since 1.1.
const MEDIA_1_0: u64 = 0xf80;
const MEDIA_SHIFT: u32 = 4;

/// The bits of features as `version` has them.
fn feature_bits(features: PortFeatures, version: Version) -> u64 {
    match version {
        Version::V1_0 => features.0 & SPEEDS | features.0 >> MEDIA_SHIFT & MEDIA_1_0,
        _ => features.0,
    }
}

/// The features with these bits in `version`.
fn features_of(bits: u32, version: Version) -> PortFeatures {
    let bits = u64::from(bits);
    PortFeatures(match version {
        Version::V1_0 => bits & SPEEDS | (bits & MEDIA_1_0) << MEDIA_SHIFT,
        _ => bits,
    })
}

/// A port number, or its name if it has one.
pub(super) fn port_to_json(port: PortNo, version: Version) -> Value {
    port_name(port, version).map_or_else(|| port_number(port, version).into(), Into::into)
}

/// Inserts entries into an object.
fn extend(object: &mut Value, entries: impl IntoIterator<Item = (&'static str, Value)>) {
    if let Some(map) = object.as_object_mut() {
        map.extend(entries.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }
}

pub(super) fn desc_to_json(port: &Port, version: Version) -> Value {
    let mut desc = json!({
        "port_no": port_to_json(port.port_no, version),
        "hw_addr": port.hw_addr.to_string(),
        "name": port.name.to_string(),
        "config": port.config.0,
        "state": port.state.0,
    });
    if Form::of(version) == Form::Objects {
        let properties: Vec<Value> = port.properties.iter().map(desc_property).collect();
        extend(
            &mut desc,
            [
                ("length", (PORT_LEN + padded_len(&properties)).into()),
                ("properties", properties.into()),
            ],
        );
        return desc;
    }
    let none = EthernetPort::default();
    let it = port.ethernet().unwrap_or(&none);
    let bits = |features| Value::from(feature_bits(features, version));
    extend(&mut desc, [("curr", bits(it.curr)), ("advertised", bits(it.advertised))]);
    extend(&mut desc, [("supported", bits(it.supported)), ("peer", bits(it.peer))]);
    if version > Version::V1_0 {
        extend(
            &mut desc,
            [("curr_speed", it.curr_speed.into()), ("max_speed", it.max_speed.into())],
        );
    }
    desc
}

/// Bytes of a port without properties, since OpenFlow 1.4; and of its statistics.
const PORT_LEN: u64 = 40;
const PORT_STATS_LEN: u64 = 80;

/// The bytes of properties, by their lengths.
fn padded_len(properties: &[Value]) -> u64 {
    let len = |it: &Value| it.get("length").and_then(Value::as_u64).unwrap_or_default();
    properties.iter().map(|it| len(it).next_multiple_of(8)).sum()
}

fn desc_property(it: &PortProp) -> Value {
    let fields = |kind: &str, oxm_ids: &[sluice_openflow::FieldHeader]| {
        let names: Value = oxm_ids.iter().map(|it| Value::from(field_name(it.id))).collect();
        json!({ "type": kind, "length": 4 + 4 * oxm_ids.len(), "oxm_ids": names })
    };
    match it {
        PortProp::Ethernet(it) => json!({
            "type": "ETHERNET", "length": 32, "curr": it.curr.0, "advertised": it.advertised.0,
            "supported": it.supported.0, "peer": it.peer.0, "curr_speed": it.curr_speed, "max_speed": it.max_speed,
        }),
        PortProp::Optical {
            supported,
            tx_min_freq_lmda,
            tx_max_freq_lmda,
            tx_grid_freq_lmda,
            rx_min_freq_lmda,
            rx_max_freq_lmda,
            rx_grid_freq_lmda,
            tx_pwr_min,
            tx_pwr_max,
        } => json!({
            "type": "OPTICAL", "length": 40, "supported": supported.0, "tx_min_freq_lmda": tx_min_freq_lmda,
            "tx_max_freq_lmda": tx_max_freq_lmda, "tx_grid_freq_lmda": tx_grid_freq_lmda,
            "rx_min_freq_lmda": rx_min_freq_lmda, "rx_max_freq_lmda": rx_max_freq_lmda,
            "rx_grid_freq_lmda": rx_grid_freq_lmda, "tx_pwr_min": tx_pwr_min, "tx_pwr_max": tx_pwr_max,
        }),
        PortProp::PipelineInput { oxm_ids } => fields("PIPELINE_INPUT", oxm_ids),
        PortProp::PipelineOutput { oxm_ids } => fields("PIPELINE_OUTPUT", oxm_ids),
        PortProp::Recirculate { port_nos } => {
            let ports: Vec<u32> = port_nos.iter().map(|port| port.0).collect();
            json!({ "type": "RECIRCULATE", "length": 4 + 4 * ports.len(), "port_nos": ports })
        }
        PortProp::Experimenter { experimenter, exp_type, data } => {
            experimenter_property(*experimenter, *exp_type, data)
        }
        PortProp::Other { .. } => json!({ "type": "UNKNOWN" }),
    }
}

/// A property of an experimenter.
pub(super) fn experimenter_property(experimenter: u32, exp_type: u32, data: &[u8]) -> Value {
    json!({
        "type": "EXPERIMENTER", "length": 12 + data.len(), "experimenter": experimenter, "exp_type": exp_type,
        "data": bytes::to_words(data),
    })
}

pub(super) fn stats_to_json(it: &PortStats, version: Version) -> Value {
    let mut stats = json!({
        "port_no": port_to_json(it.port_no, version),
        "rx_packets": it.rx_packets,
        "tx_packets": it.tx_packets,
        "rx_bytes": it.rx_bytes,
        "tx_bytes": it.tx_bytes,
        "rx_dropped": it.rx_dropped,
        "tx_dropped": it.tx_dropped,
        "rx_errors": it.rx_errors,
        "tx_errors": it.tx_errors,
    });
    if version > Version::V1_2 {
        let duration =
            [("duration_sec", it.duration_sec.into()), ("duration_nsec", it.duration_nsec.into())];
        extend(&mut stats, duration);
    }
    if Form::of(version) == Form::Objects {
        let properties: Vec<Value> = it.properties.iter().map(stats_property).collect();
        let len = PORT_STATS_LEN + padded_len(&properties);
        extend(&mut stats, [("length", len.into()), ("properties", properties.into())]);
    } else {
        let ethernet = it.properties.iter().find_map(|property| match property {
            PortStatsProp::Ethernet(it) => Some(it.clone()),
            _ => None,
        });
        extend(&mut stats, ethernet_counters(&ethernet.unwrap_or_default()));
    }
    stats
}

fn ethernet_counters(it: &EthernetStats) -> [(&'static str, Value); 4] {
    [
        ("rx_frame_err", it.rx_frame_err.into()),
        ("rx_over_err", it.rx_over_err.into()),
        ("rx_crc_err", it.rx_crc_err.into()),
        ("collisions", it.collisions.into()),
    ]
}

fn stats_property(it: &PortStatsProp) -> Value {
    match it {
        PortStatsProp::Ethernet(it) => {
            let mut property = json!({ "type": "ETHERNET", "length": 40 });
            extend(&mut property, ethernet_counters(it));
            property
        }
        PortStatsProp::Optical {
            flags,
            tx_freq_lmda,
            tx_offset,
            tx_grid_span,
            rx_freq_lmda,
            rx_offset,
            rx_grid_span,
            tx_pwr,
            rx_pwr,
            bias_current,
            temperature,
        } => json!({
            "type": "OPTICAL", "length": 44, "flags": flags.0, "tx_freq_lmda": tx_freq_lmda, "tx_offset": tx_offset,
            "tx_grid_span": tx_grid_span, "rx_freq_lmda": rx_freq_lmda, "rx_offset": rx_offset,
            "rx_grid_span": rx_grid_span, "tx_pwr": tx_pwr, "rx_pwr": rx_pwr, "bias_current": bias_current,
            "temperature": temperature,
        }),
        PortStatsProp::Experimenter { experimenter, exp_type, data } => {
            experimenter_property(*experimenter, *exp_type, data)
        }
        PortStatsProp::Other { .. } => json!({ "type": "UNKNOWN" }),
    }
}

/// The configuration of one of `ports`, whose address and advertised features are the defaults.
pub(super) fn port_mod(it: &Object<'_>, ports: &[Port], version: Version) -> ApiResult<PortMod> {
    it.required("port_no")?;
    let port_no = it.port("port_no", version, PortNo::ANY)?;
    let port = ports.iter().find(|port| port.port_no == port_no);
    let unknown = || {
        let number = port_number(port_no, version);
        ApiError::not_found("no_such_port", format!("the switch has no port {number}"))
    };
    let port = port.ok_or_else(unknown)?;
    let hw_addr = match it.text("hw_addr")? {
        None => port.hw_addr,
        Some(text) => MacAddr::from_text(text)
            .ok_or_else(|| invalid(&it.place("hw_addr"), &text.into(), "an Ethernet address"))?,
    };
    Ok(PortMod {
        port_no,
        hw_addr,
        config: PortConfig(it.number::<u32>("config", 0)?.into()),
        mask: PortConfig(it.number::<u32>("mask", 0)?.into()),
        properties: mod_properties(it, port, version)?,
    })
}

fn mod_properties(it: &Object<'_>, port: &Port, version: Version) -> ApiResult<Vec<PortModProp>> {
    let mut properties = vec![];
    for property in it.objects("properties")? {
        properties.push(mod_property(&property, version)?);
    }
    if properties.is_empty() {
        let advertised = port.ethernet().map_or_else(PortFeatures::default, |it| it.advertised);
        let advertise = if it.has("advertise") {
            features_of(it.number("advertise", 0)?, version)
        } else {
            advertised
        };
        // None leaves them as they are.
        if advertise != PortFeatures::default() {
            properties.push(PortModProp::Ethernet(EthernetMod { advertise }));
        }
    }
    Ok(properties)
}

/// A property, since OpenFlow 1.4.
fn mod_property(it: &Object<'_>, version: Version) -> ApiResult<PortModProp> {
    let kind = it.text("type")?.unwrap_or_default();
    Ok(match kind.strip_prefix("OFPPMPT_").unwrap_or(kind) {
        "ETHERNET" => {
            let advertise = features_of(it.required_number("advertise")?, version);
            PortModProp::Ethernet(EthernetMod { advertise })
        }
        "OPTICAL" => PortModProp::Optical {
            configure: OpticalFeatures(it.required_number("configure")?),
            freq_lmda: it.required_number("freq_lmda")?,
            fl_offset: it.required_number("fl_offset")?,
            grid_span: it.required_number("grid_span")?,
            tx_pwr: it.required_number("tx_pwr")?,
        },
        "EXPERIMENTER" => PortModProp::Experimenter {
            experimenter: it.required_number("experimenter")?,
            exp_type: it.required_number("exp_type")?,
            data: it.data()?,
        },
        _ => {
            let expected = "one of ETHERNET, OPTICAL, EXPERIMENTER";
            return Err(invalid(&it.place("type"), &kind.into(), expected));
        }
    })
}
