//! The paths between two hosts: as installed, which a trace shows, and as computed.

use sluice_sdk::routes::{Hop, Routes};
use sluice_sdk::view::SwitchPort;

use super::documents::{
    ComputedPathsDocument, HopDocument, InstalledPathDocument, Outcome, PathHopDocument,
    PathsDocument, StepKindDocument, TraceDocument,
};
use super::packet::{self, TraceRequest};
use super::{PathsQuery, walk};
use crate::api::ApiState;
use crate::api::documents::Names;
use crate::api::error::ApiError;
use crate::api::reads::Client;

/// Shortest paths that are listed.
const PATHS_MAX: usize = 16;

pub(super) async fn paths(
    state: &ApiState,
    client: Client,
    query: PathsQuery,
) -> Result<PathsDocument, ApiError> {
    let PathsQuery { from, to } = query;
    let (sessions, given) = (state.controller.switches(), state.given_names());
    let (from_host, to_host, computed) = {
        let copy = state.view.lock();
        let names = Names { view: &copy.view, sessions: &sessions, given: &given };
        let (src, source, _) = packet::host(&copy.view, &given, "from", &from)?;
        let (dst, destination, _) = packet::host(&copy.view, &given, "to", &to)?;
        let (mut paths, ends) = (Routes::default(), (source.at, destination.at));
        let mut paths = paths.shortest(&copy.view, ends.0, ends.1, PATHS_MAX + 1);
        let is_truncated = paths.len() > PATHS_MAX;
        paths.truncate(PATHS_MAX);
        let hop = |hop: &Hop| {
            let place = names.place(SwitchPort::new(hop.switch, hop.in_port));
            let (in_port, out_port) = (hop.in_port.0, Some(hop.out_port.0));
            PathHopDocument { dpid: place.dpid, switch: place.switch, in_port, out_port }
        };
        let paths: Vec<Vec<_>> = paths.iter().map(|path| path.iter().map(hop).collect()).collect();
        let switches = paths.first().map(Vec::len);
        let computed = ComputedPathsDocument { switches, paths, is_truncated };
        (names.host(src, source), names.host(dst, destination), computed)
    };
    let start = packet::start(state, TraceRequest::between(from, to))?;
    let trace = walk::trace(state, client, start).await?;
    let is_installed = trace.outcome == Outcome::Delivered;
    let installed = InstalledPathDocument {
        outcome: trace.outcome,
        path: if is_installed { delivered(&trace) } else { vec![] },
        summary: trace.summary,
    };
    let agrees =
        is_installed.then(|| computed.is_truncated || computed.paths.contains(&installed.path));
    Ok(PathsDocument { from: from_host, to: to_host, installed, computed, agrees })
}

/// The hops of the first branch that is delivered.
fn delivered(trace: &TraceDocument) -> Vec<PathHopDocument> {
    let Some(end) = trace.ends.iter().find(|end| end.outcome == Outcome::Delivered) else {
        return vec![];
    };
    let (mut path, mut next) = (vec![], Some(end.hop));
    let mut out_port = end.port.as_ref().map(|port| port.port);
    let mut after = None;
    while let Some(hop) = next.and_then(|hop| trace.hops.get(hop)) {
        if let Some(after) = after {
            out_port = port_to(hop, after);
        }
        let (dpid, switch) = (hop.at.dpid.clone(), hop.at.switch.clone());
        path.push(PathHopDocument { dpid, switch, in_port: hop.at.port, out_port });
        (after, next) = (Some(hop.hop), hop.after);
    }
    path.reverse();
    path
}

/// The port at which a hop has sent the packet to another one.
fn port_to(hop: &HopDocument, next: usize) -> Option<u32> {
    hop.steps.iter().find_map(|step| match &step.step {
        StepKindDocument::Forward { port, hop: Some(to), .. } if *to == next => Some(port.port),
        _ => None,
    })
}
