//! Actions: `{"type": "OUTPUT", "port": 2}` in requests.

use sluice_openflow::{Action, Field, FieldHeader, FieldId, PortNo, Version};

use super::input::{ApiResult, Object, invalid, number_up_to};
use super::matches;
use super::numbers::{ACTION_TYPES, GROUPS, MAX_LENS, QUEUES};
use crate::api::error::ApiError;

/// The bytes that go to the controller, unless the action says how many. `OFPCML_MAX`.
const MAX_LEN_DEFAULT: u16 = 0xffe5;

/// Actions without parameters.
pub(super) const PLAIN: [(&str, Action); 6] = [
    ("COPY_TTL_OUT", Action::CopyTtlOut),
    ("COPY_TTL_IN", Action::CopyTtlIn),
    ("DEC_MPLS_TTL", Action::DecMplsTtl),
    ("POP_VLAN", Action::PopVlan),
    ("DEC_NW_TTL", Action::DecNwTtl),
    ("POP_PBB", Action::PopPbb),
];

/// Actions of OpenFlow 1.0 that set a field: name, entry with the value, field.
pub(super) const SET_1_0: [(&str, &str, FieldId); 9] = [
    ("SET_VLAN_VID", "vlan_vid", FieldId::VLAN_VID),
    ("SET_VLAN_PCP", "vlan_pcp", FieldId::VLAN_PCP),
    ("SET_DL_SRC", "dl_src", FieldId::ETH_SRC),
    ("SET_DL_DST", "dl_dst", FieldId::ETH_DST),
    ("SET_NW_SRC", "nw_src", FieldId::IPV4_SRC),
    ("SET_NW_DST", "nw_dst", FieldId::IPV4_DST),
    ("SET_NW_TOS", "nw_tos", FieldId::IP_DSCP),
    ("SET_TP_SRC", "tp_src", FieldId::TCP_SRC),
    ("SET_TP_DST", "tp_dst", FieldId::TCP_DST),
];

/// Reads the actions in the list `actions`.
pub(super) fn from_list(of: &Object<'_>, version: Version) -> ApiResult<Vec<Action>> {
    of.objects("actions")?.iter().map(|it| from_object(it, version)).collect()
}

/// The type of an action or instruction.
pub(super) fn type_of<'v>(it: &Object<'v>) -> ApiResult<&'v str> {
    it.text("type")?.ok_or_else(|| ApiError::invalid(format!("{} is missing", it.place("type"))))
}

/// Reads an action of any version: the switch's refuses those that it does not have.
pub(super) fn from_object(it: &Object<'_>, version: Version) -> ApiResult<Action> {
    let kind = type_of(it)?;
    if let Some((_, action)) = PLAIN.iter().find(|row| row.0 == kind) {
        return Ok(action.clone());
    }
    if let Some(&(_, entry, id)) = SET_1_0.iter().find(|row| row.0 == kind) {
        return set_1_0(it, entry, id);
    }
    Ok(match kind {
        "OUTPUT" => Action::Output {
            port: it.port("port", version, PortNo::ANY)?,
            max_len: it.named("max_len", &MAX_LENS, MAX_LEN_DEFAULT)?,
        },
        "ENQUEUE" => Action::Enqueue {
            port: it.port("port", version, PortNo::ANY)?,
            queue_id: it.named("queue_id", &QUEUES, 0)?,
        },
        "STRIP_VLAN" => Action::PopVlan,
        "SET_MPLS_TTL" => Action::SetMplsTtl { mpls_ttl: it.required_number("mpls_ttl")? },
        "SET_NW_TTL" => Action::SetNwTtl { nw_ttl: it.required_number("nw_ttl")? },
        "PUSH_VLAN" => Action::PushVlan { ethertype: it.required_number("ethertype")? },
        "PUSH_MPLS" => Action::PushMpls { ethertype: it.required_number("ethertype")? },
        "POP_MPLS" => Action::PopMpls { ethertype: it.required_number("ethertype")? },
        "PUSH_PBB" => Action::PushPbb { ethertype: it.required_number("ethertype")? },
        "SET_QUEUE" => Action::SetQueue { queue_id: it.required_named("queue_id", &QUEUES)? },
        "GROUP" => Action::Group { group_id: it.required_named("group_id", &GROUPS)? },
        "METER" => Action::Meter { meter_id: it.required_number("meter_id")? },
        "SET_FIELD" => Action::SetField { field: set_field(it, version)?.into() },
        "COPY_FIELD" => Action::CopyField {
            n_bits: it.required_number("n_bits")?,
            src_offset: it.number("src_offset", 0)?,
            dst_offset: it.number("dst_offset", 0)?,
            src: field_header(it, "src_oxm_id")?,
            dst: field_header(it, "dst_oxm_id")?,
        },
        "EXPERIMENTER" => Action::Experimenter {
            experimenter: it.required_number("experimenter")?,
            data: padded(it.data()?),
        },
        _ => {
            let set: Vec<_> = SET_1_0.iter().map(|row| row.0).collect();
            let known = format!(
                "one of {}, EXPERIMENTER, ENQUEUE, STRIP_VLAN, {}",
                ACTION_TYPES.known(),
                set.join(", ")
            );
            let place = it.place("type");
            return Err(invalid(&place, &kind.into(), &known));
        }
    })
}

/// The field that an action of OpenFlow 1.0 sets.
fn set_1_0(it: &Object<'_>, entry: &str, id: FieldId) -> ApiResult<Action> {
    let (place, value) = (it.place(entry), it.required(entry)?);
    let field = match id {
        FieldId::VLAN_VID => Field::new(id, number_up_to(&place, value, 0xfff)? | 0x1000),
        _ => matches::to_set_1_0(&place, entry, id, value)?,
    };
    Ok(Action::SetField { field: field.into() })
}

fn set_field(it: &Object<'_>, version: Version) -> ApiResult<Field> {
    let name = it.text("field")?;
    let name =
        name.ok_or_else(|| ApiError::invalid(format!("{} is missing", it.place("field"))))?;
    matches::to_set(it, name, version)
}

fn field_header(it: &Object<'_>, entry: &str) -> ApiResult<FieldHeader> {
    let value = it.required(entry)?;
    let id = value.as_str().and_then(FieldId::from_name);
    let unknown = || invalid(&it.place(entry), value, "the name of a match field");
    id.map(Into::into).ok_or_else(unknown)
}

/// The data of an experimenter's action with padding: the action has a multiple of 8 bytes, of which 8 are in front of the data.
fn padded(mut data: Vec<u8>) -> Vec<u8> {
    data.resize(data.len().next_multiple_of(8), 0);
    data
}
