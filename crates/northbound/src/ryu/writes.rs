//! `POST /stats/…` and `DELETE /stats/…`: changes of switches.

use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;
use sluice_openflow::{Message, Role, RoleRequest};

use super::input::{ApiResult, Object};
use super::numbers::ROLES;
use super::switch::{Switch, body};
use super::{flows, groups, meters, ports};
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::extract::{ApiBytes, ApiPath};
use crate::api::reads::Client;

/// `POST /stats/flowentry/add` and so on: `command` is the part that the routes call a datapath id.
pub(super) async fn change(
    State(state): State<ApiState>,
    client: Client,
    ApiPath((what, command)): ApiPath<(String, String)>,
    ApiBytes(bytes): ApiBytes,
) -> ApiResult<StatusCode> {
    let body = body(&bytes)?;
    let it = Object::new("", &body)?;
    if what == "experimenter" {
        let dpid = it.get("dpid").cloned().unwrap_or_else(|| Value::from(command));
        let switch = Switch::find(&state, client, &dpid)?;
        return switch.change(experimenter(&it)?).await;
    }
    if !["flowentry", "groupentry", "meterentry", "portdesc"].contains(&what.as_str()) {
        let message = format!("there is nothing to change at /stats/{what}: see docs/ryu.md");
        return Err(ApiError::not_found("no_such_path", message));
    }
    let switch = Switch::find(&state, client, it.required("dpid")?)?;
    let version = switch.version;
    let message = match what.as_str() {
        "flowentry" => {
            let command = command_of(&flows::COMMANDS, &command)?;
            Message::FlowMod(flows::flow_mod(&it, command, version)?)
        }
        "groupentry" => {
            let command = command_of(&groups::COMMANDS, &command)?;
            Message::GroupMod(groups::group_mod(&it, command, version)?)
        }
        "meterentry" => {
            Message::MeterMod(meters::meter_mod(&it, command_of(&meters::COMMANDS, &command)?)?)
        }
        _ => {
            command_of(&[("modify", ())], &command)?;
            Message::PortMod(ports::port_mod(&it, &switch.ports, version)?)
        }
    };
    switch.change(message).await
}

fn command_of<C: Copy>(commands: &[(&str, C)], name: &str) -> ApiResult<C> {
    let known = || commands.iter().map(|row| row.0).collect::<Vec<_>>().join(", ");
    let unknown = || {
        ApiError::not_found(
            "no_such_command",
            format!("no command is called {name:?}: expected {}", known()),
        )
    };
    commands.iter().find(|row| row.0 == name).map(|row| row.1).ok_or_else(unknown)
}

fn experimenter(it: &Object<'_>) -> ApiResult<Message> {
    Ok(Message::Experimenter {
        experimenter: it.number("experimenter", 0)?,
        exp_type: it.number("exp_type", 0)?,
        data: it.data()?,
    })
}

/// Deletes all flow entries of a switch.
pub(super) async fn clear(
    State(state): State<ApiState>,
    client: Client,
    ApiPath(dpid): ApiPath<String>,
) -> ApiResult<StatusCode> {
    let switch = Switch::find(&state, client, &dpid.into())?;
    switch.change(Message::FlowMod(flows::clear(switch.version))).await
}

/// Requests a role.
pub(super) async fn role(
    State(state): State<ApiState>,
    client: Client,
    ApiBytes(bytes): ApiBytes,
) -> ApiResult<StatusCode> {
    let body = body(&bytes)?;
    let it = Object::new("", &body)?;
    let switch = Switch::find(&state, client, it.required("dpid")?)?;
    let role = Role(it.named("role", &ROLES, Role::EQUAL.0)?);
    switch.change(Message::RoleRequest(RoleRequest { role, ..RoleRequest::default() })).await
}
