//! Reads what decides how a switch processes packets.

use std::time::Instant;

use axum::http::StatusCode;
use sluice_openflow::{
    Action, FlowDesc, FlowStatsRequest, GroupDescRequest, Instruction, MeterRequest,
    MultipartReply, MultipartRequest, Version,
};
use sluice_pipeline::trace::SwitchState;
use sluice_sdk::{LISTED_ENTRIES_MAX, SwitchSession};

use crate::api::error::ApiError;
use crate::api::requests::{self, Reader};

/// What may be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadLimits {
    /// Until when.
    pub(super) deadline: Instant,
    /// Flow entries.
    pub(super) entries: u64,
}

/// Reads tables, and groups and meters if flow entries use some. Returns how many flow entries there are as well.
pub(super) async fn state_of(
    reader: Reader<'_>,
    session: &SwitchSession,
    limits: ReadLimits,
) -> Result<(SwitchState, u64), ApiError> {
    let (reader, entries_left) = (reader.until(limits.deadline), limits.entries);
    let (id, version) = (session.datapath_id, session.version);
    let mut read = SwitchState::new(version, session.features.ports.clone());
    let tables = match reader.read(id, MultipartRequest::TableStats).await? {
        MultipartReply::TableStats { tables } => tables,
        _ => vec![],
    };
    let entries: u64 = tables.iter().map(|table| u64::from(table.active_count)).sum();
    if entries > LISTED_ENTRIES_MAX.into() {
        return Err(requests::too_many_entries(entries));
    }
    if entries > entries_left {
        let message = format!("it has {entries} flow entries: the trace may read {entries_left}");
        return Err(ApiError::new(StatusCode::CONFLICT, "too_many_entries", message));
    }
    read.add_table_configs(&tables);
    let request = MultipartRequest::FlowDesc(FlowStatsRequest::default());
    let flows = match reader.read(id, request).await? {
        MultipartReply::FlowDesc { flows } => flows,
        _ => vec![],
    };
    // The switch may have added some meanwhile.
    let entries = entries.max(flows.len() as u64);
    let mut uses_meters = flows.iter().any(uses_meter);
    let uses_groups = actions(&flows).any(|it| matches!(it, Action::Group { .. }));
    read.add_flows(flows);
    if uses_groups && version > Version::V1_0 {
        let request = MultipartRequest::GroupDesc(GroupDescRequest::default());
        if let MultipartReply::GroupDesc { groups } = reader.read(id, request).await? {
            let mut actions = groups.iter().flat_map(|it| &it.buckets).flat_map(|it| &it.actions);
            uses_meters |= actions.any(|it| matches!(it, Action::Meter { .. }));
            read.add_groups(groups);
        }
    }
    if uses_meters && version >= Version::V1_3 {
        let request = MultipartRequest::MeterDesc(MeterRequest::default());
        if let MultipartReply::MeterDesc { meters } = reader.read(id, request).await? {
            read.add_meters(meters);
        }
    }
    Ok((read, entries))
}

fn actions(flows: &[FlowDesc]) -> impl Iterator<Item = &Action> {
    flows.iter().flat_map(|flow| &flow.instructions).flat_map(|it| match it {
        Instruction::ApplyActions { actions } | Instruction::WriteActions { actions } => {
            actions.as_slice()
        }
        _ => &[],
    })
}

fn uses_meter(flow: &FlowDesc) -> bool {
    let flow = std::slice::from_ref(flow);
    flow.iter()
        .flat_map(|flow| &flow.instructions)
        .any(|it| matches!(it, Instruction::Meter { .. }))
        || actions(flow).any(|it| matches!(it, Action::Meter { .. }))
}
