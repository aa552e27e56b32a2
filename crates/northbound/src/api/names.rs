//! Names of switches for people, and how requests name one.

use sluice_declared::Names;
use sluice_openflow::Port;
use sluice_sdk::SwitchSession;
use sluice_sdk::view::SwitchPort;

use super::error::ApiError;

/// The name of a switch: the one that an operator has given it, or else its own.
pub(super) fn switch_name(session: &SwitchSession, given: &Names) -> Option<String> {
    let name = given.switch(session.datapath_id);
    name.map(str::to_owned).or_else(|| session.name())
}

/// The connected switch that a request names: by its datapath id or by its name.
pub(super) fn find<'s>(
    sessions: &'s [SwitchSession],
    given: &Names,
    text: &str,
) -> Result<&'s SwitchSession, ApiError> {
    let has_name = |it: &SwitchSession| {
        given.switch(it.datapath_id) == Some(text) || it.name().as_deref() == Some(text)
    };
    let by_name = || sessions.iter().filter(|it| has_name(it));
    match (by_name().count(), by_name().next()) {
        (0, _) => {}
        (1, Some(session)) => return Ok(session),
        (n, _) => {
            let message = format!("{n} switches are named {text:?}: use the datapath id");
            return Err(ApiError::new(axum::http::StatusCode::CONFLICT, "ambiguous_name", message));
        }
    }
    let id = text.parse().ok();
    let session = sessions.iter().find(|session| Some(session.datapath_id) == id);
    session.ok_or_else(|| {
        let message = format!("no switch with the name or datapath id {text:?} is connected");
        ApiError::not_found("switch_not_connected", message)
    })
}

/// The port that a request names: by its number or by its name.
pub(super) fn find_port(
    sessions: &[SwitchSession],
    given: &Names,
    switch: &str,
    port: &str,
) -> Result<SwitchPort, ApiError> {
    let session = find(sessions, given, switch)?;
    let number =
        port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok()).flatten();
    let is_it = |it: &&Port| Some(it.port_no.0) == number || it.name() == port;
    let found = session.features.ports.iter().find(is_it);
    found
        .map(|it| SwitchPort::new(session.datapath_id, it.port_no))
        .ok_or_else(|| no_port(switch, port))
}

pub(super) fn no_port(switch: &str, port: &str) -> ApiError {
    let message = format!("switch {switch} has no port with the number or name {port:?}");
    ApiError::not_found("no_such_port", message)
}
