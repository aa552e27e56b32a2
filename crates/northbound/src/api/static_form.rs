//! A static entry as its two forms: the text of `ovs-ofctl`, and the JSON in which the API shows what switches have.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sluice_base::sort_by_key;
use sluice_declared::Kind;
use sluice_openflow::{
    FlowDesc, FlowMod, FlowModCommand, GroupCommand, GroupDesc, GroupMod, Match, MeterCommand,
    MeterDesc, MeterMod, Oxm,
};
use utoipa::ToSchema;

use super::documents::flow_text;

/// In a list of flow entries, what the API adds to an entry.
const ADDED: [&str; 3] = ["owner", "static_entry", "text"];

/// A flow entry, group or meter: in the syntax of `ovs-ofctl`, or as an object with the fields of `sluice decode --json`, such as
/// `GET /v1/switches/{switch}/flows` answers. Its cookie and counters are ignored.
#[derive(Debug, Clone, Deserialize, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum FormBody {
    Text(String),
    Fields(Map<String, Value>),
}

impl FormBody {
    /// The text, which says all that the fields say.
    pub(super) fn text(self, kind: Kind) -> Result<String, String> {
        let mut fields = match self {
            Self::Text(text) => return Ok(text),
            Self::Fields(fields) => fields,
        };
        for name in ADDED {
            fields.remove(name);
        }
        match kind {
            Kind::Flow => flow(&parse(fields)?),
            Kind::Group => group(parse(fields)?),
            Kind::Meter => meter(parse(fields)?),
        }
    }
}

fn parse<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())
}

fn flow(flow: &FlowDesc) -> Result<String, String> {
    let text = flow_text(&FlowDesc { cookie: 0, ..flow.clone() });
    let read = FlowMod::from_text(&text, FlowModCommand::ADD);
    // The fields of an object have no order.
    let fields = |matching: &Match| {
        let mut fields = matching.fields.clone();
        sort_by_key(&mut fields, Oxm::id);
        fields
    };
    checked(text, read, |read| {
        fields(&read.matching) == fields(&flow.matching) && read.instructions == flow.instructions
    })
}

fn group(group: GroupDesc) -> Result<String, String> {
    let group = GroupMod {
        command: GroupCommand::ADD,
        group_type: group.group_type,
        group_id: group.group_id,
        buckets: group.buckets,
        properties: group.properties,
        ..GroupMod::default()
    };
    let text = group.to_text();
    let read = GroupMod::from_text(&text, GroupCommand::ADD);
    checked(text, read, |read| read.buckets == group.buckets && read.properties == group.properties)
}

fn meter(meter: MeterDesc) -> Result<String, String> {
    let (flags, meter_id, bands) = (meter.flags, meter.meter_id, meter.bands);
    let meter = MeterMod { command: MeterCommand::ADD, flags, meter_id, bands };
    let text = meter.to_text();
    let read = MeterMod::from_text(&text, MeterCommand::ADD);
    checked(text, read, |read| read.bands == meter.bands)
}

/// The text, if it says the same as the fields.
fn checked<T, E: std::fmt::Display>(
    text: String,
    read: Result<T, E>,
    is_same: impl FnOnce(&T) -> bool,
) -> Result<String, String> {
    let read = read.map_err(|error| error.to_string())?;
    if is_same(&read) {
        return Ok(text);
    }
    Err(format!("the syntax of ovs-ofctl cannot express all of it; closest is {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the API shows of an entry.
    fn shown(value: impl Serialize) -> FormBody {
        let Ok(Value::Object(mut fields)) = serde_json::to_value(value) else {
            panic!("an object")
        };
        fields.insert("owner".to_owned(), Value::Null);
        fields.insert("text".to_owned(), "ignored".into());
        FormBody::Fields(fields)
    }

    #[test]
    fn what_the_api_shows_of_a_flow_entry_can_be_declared() {
        for text in [
            "priority=200,ip,nw_src=10.0.0.3,actions=drop",
            "table=3,priority=7,in_port=1,dl_vlan=5,actions=pop_vlan,output:2,group:4",
            "priority=9,tcp6,ipv6_src=fe80::/10,tp_dst=0x50/0xfff0,actions=set_field:00:00:00:00:00:01->eth_src,goto_table:2",
            "priority=9,arp,arp_tpa=10.0.0.0/8,actions=meter:1,controller:128",
        ] {
            let read = FlowMod::from_text(text, FlowModCommand::ADD).unwrap();
            let flow = FlowDesc {
                table_id: read.table_id,
                priority: read.priority,
                cookie: 0x7374_6174_0000_0001,
                matching: read.matching.clone(),
                instructions: read.instructions.clone(),
                ..FlowDesc::default()
            };
            let again = shown(flow).text(Kind::Flow).unwrap();
            let again = FlowMod::from_text(&again, FlowModCommand::ADD).unwrap();
            assert_eq!(again, read, "{text}");
        }
    }

    #[test]
    fn groups_and_meters_too() {
        let group = GroupMod::from_text(
            "group_id=1,type=select,bucket=weight:3,actions=output:1,bucket=actions=output:2",
            GroupCommand::ADD,
        );
        let group = group.unwrap();
        let desc = GroupDesc {
            group_type: group.group_type,
            group_id: group.group_id,
            buckets: group.buckets.clone(),
            properties: group.properties.clone(),
        };
        let text = shown(desc).text(Kind::Group).unwrap();
        assert_eq!(GroupMod::from_text(&text, GroupCommand::ADD).unwrap(), group);
        let meter = "meter=1,kbps,band=type=drop,rate=1000";
        let meter = MeterMod::from_text(meter, MeterCommand::ADD).unwrap();
        let desc =
            MeterDesc { flags: meter.flags, meter_id: meter.meter_id, bands: meter.bands.clone() };
        let text = shown(desc).text(Kind::Meter).unwrap();
        assert_eq!(MeterMod::from_text(&text, MeterCommand::ADD).unwrap(), meter);
    }

    #[test]
    fn fields_that_do_not_exist_are_an_error() {
        let fields = Map::from_iter([("mach".to_owned(), Value::Null)]);
        assert!(FormBody::Fields(fields).text(Kind::Flow).is_err());
    }
}
