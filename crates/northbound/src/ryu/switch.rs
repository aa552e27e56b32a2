//! The switch that a request names, and what is sent to it.

use axum::body::Bytes;
use axum::http::StatusCode;
use serde_json::{Map, Value};
use sluice_openflow::{
    DatapathId, FlowDesc, FlowStatsRequest, Message, MultipartReply, MultipartRequest, Port,
    Version,
};
use sluice_sdk::{Answer, SwitchSession};

use super::input::{ApiResult, invalid, whole_number};
use super::literal;
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::reads::Client;
use crate::api::requests::{self, Reader};

/// A connected switch.
pub(super) struct Switch<'s> {
    state: &'s ApiState,
    client: Client,
    pub(super) id: DatapathId,
    pub(super) version: Version,
    pub(super) ports: Vec<Port>,
}

/// The body of a request; an empty object if there is none.
pub(super) fn body(bytes: &Bytes) -> ApiResult<Value> {
    if bytes.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let text = str::from_utf8(bytes).map_err(|_| ApiError::invalid("the body is not UTF-8"))?;
    literal::parse(text).map_err(|error| ApiError::invalid(format!("the body: {error}")))
}

impl<'s> Switch<'s> {
    /// The switch with the datapath id in `value`: a number, or a text with one, in decimal or behind `0x` in hexadecimal digits.
    pub(super) fn find(state: &'s ApiState, client: Client, value: &Value) -> ApiResult<Self> {
        let id = whole_number(value).and_then(|n| n.try_into().ok()).map(DatapathId);
        let id = id.ok_or_else(|| invalid("dpid", value, "a datapath id, such as 1 or 0x1"))?;
        let mut sessions = state.controller.switches().into_iter();
        let session = sessions.find(|session| session.datapath_id == id);
        let SwitchSession { version, features, .. } = session.ok_or_else(|| {
            let message = format!("no switch with the datapath id {} is connected", id.0);
            ApiError::not_found("switch_not_connected", message)
        })?;
        Ok(Self { state, client, id, version, ports: features.ports.clone() })
    }

    /// Asks for statistics or a description.
    pub(super) async fn read(&self, request: MultipartRequest) -> ApiResult<MultipartReply> {
        self.reader().read(self.id, request).await
    }

    /// Reads flow entries, unless they are too many for one reply.
    pub(super) async fn read_flows(&self, selected: FlowStatsRequest) -> ApiResult<Vec<FlowDesc>> {
        let flows = self.reader().read_flows(self.id, selected).await;
        // Scripts for Ryu expect an error of the server.
        flows.map_err(|it| it.map_status(StatusCode::CONFLICT, StatusCode::SERVICE_UNAVAILABLE))
    }

    /// Sends a message that changes nothing and has a reply.
    pub(super) async fn ask(&self, message: Message) -> ApiResult<Message> {
        self.reader().ask(self.id, message).await
    }

    fn reader(&self) -> Reader<'_> {
        self.state.reader(self.client)
    }

    /// Sends a message that changes something. Answers as Ryu does, but not before the switch has done it.
    pub(super) async fn change(&self, message: Message) -> ApiResult<StatusCode> {
        match requests::ask(self.state, self.id, vec![message]).await {
            Answer::Done | Answer::Reply(_) => Ok(StatusCode::OK),
            other => Err(ApiError::of_answer(&other)),
        }
    }

    /// The reply: the datapath id in decimal digits, and what belongs to it.
    pub(super) fn document(&self, value: impl Into<Value>) -> Value {
        Value::Object(Map::from_iter([(self.id.0.to_string(), value.into())]))
    }
}
