//! `GET /stats/…`: what switches have.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use sluice_openflow::{
    GroupDescRequest, GroupId, GroupStatsRequest, Message, MeterId, MeterRequest, MultipartReply,
    MultipartRequest, PortDescRequest, PortNo, PortStatsRequest, Queue, QueueGetConfigRequest,
    QueueRequest, Role, RoleRequest, SwitchDesc, Version,
};

use super::input::{ApiResult, Object, named_number, port};
use super::numbers::{GROUPS, METERS, Names, QUEUES, ROLES};
use super::switch::{Switch, body};
use super::{flows, groups, meters, ports, queues, tables};
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::extract::{ApiBytes, ApiPath};
use crate::api::reads::Client;

/// What stands for all ports, queues, groups or meters in a path.
const ALL: &str = "ALL";

pub(super) async fn switches(State(state): State<ApiState>) -> Json<Vec<u64>> {
    Json(state.controller.switches().iter().map(|session| session.datapath_id.0).collect())
}

/// Flow entries, with a filter in the body if any.
pub(super) async fn flows(
    State(state): State<ApiState>,
    client: Client,
    ApiPath(dpid): ApiPath<String>,
    ApiBytes(filter): ApiBytes,
) -> ApiResult<Json<Value>> {
    let switch = Switch::find(&state, client, &dpid.into())?;
    let filter = body(&filter)?;
    let (request, priority) = flows::stats_request(&Object::new("", &filter)?, switch.version)?;
    let entries = switch.read_flows(request).await?;
    let selected =
        entries.iter().filter(|it| priority.is_none_or(|priority| it.priority == priority));
    let flows: Value = selected.map(|it| flows::to_json(it, switch.version)).collect();
    Ok(Json(switch.document(flows)))
}

/// Sums over flow entries, with a filter in the body if any.
pub(super) async fn aggregate(
    State(state): State<ApiState>,
    client: Client,
    ApiPath(dpid): ApiPath<String>,
    ApiBytes(filter): ApiBytes,
) -> ApiResult<Json<Value>> {
    let switch = Switch::find(&state, client, &dpid.into())?;
    let filter = body(&filter)?;
    let (request, _) = flows::stats_request(&Object::new("", &filter)?, switch.version)?;
    let sums = match switch.read(MultipartRequest::AggregateStats(request)).await? {
        MultipartReply::AggregateStats(sums) => {
            vec![flows::aggregate_to_json(&sums, switch.version)]
        }
        _ => vec![],
    };
    Ok(Json(switch.document(sums)))
}

/// The role of the controller.
pub(super) async fn role(
    State(state): State<ApiState>,
    client: Client,
    ApiPath(dpid): ApiPath<String>,
) -> ApiResult<Json<Value>> {
    let switch = Switch::find(&state, client, &dpid.into())?;
    let request = RoleRequest { role: Role::NOCHANGE, ..RoleRequest::default() };
    let roles = match switch.ask(Message::RoleRequest(request)).await? {
        Message::RoleReply(it) => {
            let role = ROLES.name(it.role.0).map_or_else(|| it.role.0.into(), Value::from);
            let mut entry = json!({ "role": role, "generation_id": it.generation_id });
            if let Some(entries) = entry.as_object_mut().filter(|_| switch.version >= Version::V1_5)
            {
                entries.insert("short_id".into(), it.short_id.into());
            }
            vec![entry]
        }
        _ => vec![],
    };
    Ok(Json(switch.document(roles)))
}

pub(super) async fn whole(
    State(state): State<ApiState>,
    client: Client,
    ApiPath((what, dpid)): ApiPath<(String, String)>,
) -> ApiResult<Json<Value>> {
    read((&state, client), &what, &dpid, None, None).await
}

pub(super) async fn part(
    State(state): State<ApiState>,
    client: Client,
    ApiPath((what, dpid, part)): ApiPath<(String, String, String)>,
) -> ApiResult<Json<Value>> {
    read((&state, client), &what, &dpid, Some(&part), None).await
}

pub(super) async fn queue(
    State(state): State<ApiState>,
    client: Client,
    ApiPath((what, dpid, part, queue)): ApiPath<(String, String, String, String)>,
) -> ApiResult<Json<Value>> {
    read((&state, client), &what, &dpid, Some(&part), Some(&queue)).await
}

/// The parts of a path behind the datapath id.
struct Parts<'p> {
    part: Option<&'p str>,
    queue: Option<&'p str>,
    version: Version,
}

impl Parts<'_> {
    fn number(&self, name: &str, names: &Names, all: u32) -> ApiResult<u32> {
        let Some(text) = self.part.filter(|text| *text != ALL) else { return Ok(all) };
        number_of(name, text, names)
    }

    fn port(&self) -> ApiResult<PortNo> {
        let text = self.part.filter(|text| *text != ALL);
        text.map_or(Ok(PortNo::ANY), |text| port("port", &text.into(), self.version))
    }

    fn queue_request(&self) -> ApiResult<QueueRequest> {
        let queue = self.queue.filter(|text| *text != ALL);
        let queue_id = queue.map_or(Ok(Queue::ALL), |text| number_of("queue_id", text, &QUEUES))?;
        Ok(QueueRequest { port_no: self.port()?, queue_id })
    }

    /// Whether one port, queue, group or meter is named.
    fn is_one(&self) -> bool {
        [self.part, self.queue].into_iter().flatten().any(|text| text != ALL)
    }
}

fn number_of(name: &str, text: &str, names: &Names) -> ApiResult<u32> {
    let number = named_number(name, &text.into(), names)?;
    u32::try_from(number)
        .map_err(|_| ApiError::invalid(format!("{name} is {number}: expected a number of 32 bits")))
}

/// How many parts may follow the datapath id.
const PARTS_MAX: [(&str, usize); 16] = [
    ("desc", 0),
    ("table", 0),
    ("tablefeatures", 0),
    ("port", 1),
    ("portdesc", 1),
    ("queue", 2),
    ("queueconfig", 1),
    ("queuedesc", 2),
    ("group", 1),
    ("groupdesc", 1),
    ("groupfeatures", 0),
    ("meter", 1),
    ("meterconfig", 1),
    ("meterdesc", 1),
    ("meterfeatures", 0),
    // Has a route of its own.
    ("role", 0),
];

async fn read(
    (state, client): (&ApiState, Client),
    what: &str,
    dpid: &str,
    part: Option<&str>,
    queue: Option<&str>,
) -> ApiResult<Json<Value>> {
    let count = usize::from(part.is_some()) + usize::from(queue.is_some());
    if !PARTS_MAX.iter().any(|row| row.0 == what && count <= row.1) {
        let message = format!(
            "there is nothing at /stats/{what} with {} parts behind it: see docs/ryu.md",
            count + 1
        );
        return Err(ApiError::not_found("no_such_path", message));
    }
    let switch = Switch::find(state, client, &dpid.into())?;
    let parts = Parts { part, queue, version: switch.version };
    match what_to_json(&switch, what, &parts).await {
        // What one asks for does not exist: Ryu's answer then.
        Err(error) if error.is_refusal() && parts.is_one() => {
            Ok(Json(switch.document(Value::Array(vec![]))))
        }
        result => Ok(Json(switch.document(result?))),
    }
}

async fn what_to_json(switch: &Switch<'_>, what: &str, parts: &Parts<'_>) -> ApiResult<Value> {
    let group_id = || parts.number("group_id", &GROUPS, GroupId::ALL.0).map(GroupId);
    let request = match what {
        "desc" => MultipartRequest::Desc,
        "table" => MultipartRequest::TableStats,
        "tablefeatures" => MultipartRequest::TableFeatures { tables: vec![] },
        "port" => MultipartRequest::PortStats(PortStatsRequest { port_no: parts.port()? }),
        "portdesc" => return port_descriptions(switch, parts.port()?).await,
        "queue" => MultipartRequest::QueueStats(parts.queue_request()?),
        "queueconfig" => return queue_config(switch, parts.port()?).await,
        "queuedesc" => MultipartRequest::QueueDesc(parts.queue_request()?),
        "group" => MultipartRequest::GroupStats(GroupStatsRequest { group_id: group_id()? }),
        "groupdesc" => {
            // Before 1.5 all are described.
            let group_id = if switch.version < Version::V1_5 { GroupId::ALL } else { group_id()? };
            MultipartRequest::GroupDesc(GroupDescRequest { group_id })
        }
        "groupfeatures" => MultipartRequest::GroupFeatures,
        "meterfeatures" => MultipartRequest::MeterFeatures,
        meters => {
            let meter_id = MeterId(parts.number("meter_id", &METERS, MeterId::ALL.0)?);
            let request = MeterRequest { meter_id };
            match meters {
                "meter" => MultipartRequest::MeterStats(request),
                _ => MultipartRequest::MeterDesc(request),
            }
        }
    };
    Ok(reply_to_json(&switch.read(request).await?, switch.version))
}

fn reply_to_json(reply: &MultipartReply, version: Version) -> Value {
    match reply {
        MultipartReply::Desc(it) => desc_to_json(it),
        MultipartReply::TableStats { tables } => {
            tables.iter().map(|it| tables::stats_to_json(it, version)).collect()
        }
        MultipartReply::TableFeatures { tables } => {
            tables.iter().map(|it| tables::features_to_json(it, version)).collect()
        }
        MultipartReply::PortStats { ports } => {
            ports.iter().map(|it| ports::stats_to_json(it, version)).collect()
        }
        MultipartReply::PortDesc { ports } => {
            ports.iter().map(|it| ports::desc_to_json(it, version)).collect()
        }
        MultipartReply::QueueStats { queues } => {
            queues.iter().map(|it| queues::stats_to_json(it, version)).collect()
        }
        MultipartReply::QueueDesc { queues } => queues.iter().map(queues::desc_to_json).collect(),
        MultipartReply::GroupStats { groups } => {
            groups.iter().map(|it| groups::stats_to_json(it, version)).collect()
        }
        MultipartReply::GroupDesc { groups } => {
            groups.iter().map(|it| groups::desc_to_json(it, version)).collect()
        }
        MultipartReply::GroupFeatures(it) => vec![groups::features_to_json(it)].into(),
        MultipartReply::MeterStats { meters } => {
            meters.iter().map(|it| meters::stats_to_json(it, version)).collect()
        }
        MultipartReply::MeterDesc { meters } => {
            meters.iter().map(|it| meters::desc_to_json(it, version)).collect()
        }
        MultipartReply::MeterFeatures(it) => vec![meters::features_to_json(it)].into(),
        _ => Value::Array(vec![]),
    }
}

fn desc_to_json(it: &SwitchDesc) -> Value {
    json!({
        "mfr_desc": it.mfr.to_string(),
        "hw_desc": it.hw.to_string(),
        "sw_desc": it.sw.to_string(),
        "serial_num": it.serial.to_string(),
        "dp_desc": it.dp.to_string(),
    })
}

/// The ports: before 1.3 they are in the reply to a request for features.
async fn port_descriptions(switch: &Switch<'_>, port_no: PortNo) -> ApiResult<Value> {
    let version = switch.version;
    if version < Version::V1_3 {
        let reply = switch.ask(Message::FeaturesRequest).await?;
        let Message::FeaturesReply(features) = reply else { return Ok(Value::Array(vec![])) };
        return Ok(features.ports.iter().map(|it| ports::desc_to_json(it, version)).collect());
    }
    // Before 1.5 all are described.
    let port_no = if version < Version::V1_5 { PortNo::ANY } else { port_no };
    let reply = switch.read(MultipartRequest::PortDesc(PortDescRequest { port_no })).await?;
    Ok(reply_to_json(&reply, version))
}

async fn queue_config(switch: &Switch<'_>, port: PortNo) -> ApiResult<Value> {
    let request = QueueGetConfigRequest { port };
    let reply = switch.ask(Message::QueueGetConfigRequest(request)).await?;
    let Message::QueueGetConfigReply(config) = reply else { return Ok(Value::Array(vec![])) };
    Ok(vec![queues::config_to_json(&config, switch.version)].into())
}
