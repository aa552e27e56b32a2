//! What a switch has, read from it now: flow entries, and everything that it describes by itself.

use std::cmp::Reverse;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use sluice_base::sort_by_key;
use sluice_openflow::{
    FlowStatsRequest, GroupDesc, GroupMod, MeterBand, MeterDesc, MeterFlags, MeterMod,
    MultipartReply, Version,
};
use sluice_sdk::LISTED_ENTRIES_MAX;
use utoipa::ToSchema;

use super::documents::{FlowDocument, FlowsDocument, ReplyDocument, flow_text};
use super::error::ApiError;
use super::extract::{ApiPath, ApiQuery};
use super::openapi::BySwitch;
use super::reads::Client;
use super::{ApiState, names, requests, values};
use crate::routes::{Routes, routes};

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(flows)).routes(routes!(multipart))
}

/// Which flow entries are listed, and how.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowFilter {
    /// Only flow entries of this table.
    #[param(maximum = 255)]
    table: Option<u8>,
    /// Only flow entries of this owner: an application, or `foreign` for those of other programs.
    owner: Option<String>,
    /// Only flow entries with this cookie: a number and an optional mask, such as `0x1000/0xff00`.
    cookie: Option<String>,
    /// Flow entries that are left out at the beginning.
    #[serde(default)]
    offset: usize,
    /// Flow entries of the page; all if it is missing.
    limit: Option<usize>,
    /// Text in the syntax of `ovs-ofctl`, or JSON.
    #[param(inline)]
    format: Option<Format>,
}

/// How a reply is written.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplyFormat {
    /// Text in the syntax of `ovs-ofctl` (groups and meters), or JSON.
    #[param(inline)]
    format: Option<Format>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum Format {
    Json,
    OvsOfctl,
}

/// The flow entries of a switch, read from it now.
#[utoipa::path(
    get,
    path = "/v1/switches/{switch}/flows",
    params(
        ("switch" = String, Path, description = "Datapath id or name of a switch"),
        FlowFilter
    ),
    responses(
        (
            status = 200,
            content((FlowsDocument = "application/json"), (String = "text/plain; charset=utf-8"))
        ),
        BySwitch
    )
)]
async fn flows(
    State(state): State<ApiState>,
    client: Client,
    ApiPath(switch): ApiPath<String>,
    ApiQuery(filter): ApiQuery<FlowFilter>,
) -> Result<Response, ApiError> {
    let owner = match filter.owner.as_deref() {
        None => None,
        Some("foreign") => Some(None),
        Some(name) => Some(Some(values::owner(name, &state.owners)?)),
    };
    let cookie = filter.cookie.as_deref().map(values::cookie).transpose()?;
    let session = names::find(&state.controller.switches(), &state.given_names(), &switch)?.clone();
    let id = session.datapath_id;
    let mut selected = FlowStatsRequest::default();
    selected.table_id = filter.table.unwrap_or(selected.table_id);
    // 1.0 selects no cookies.
    if let (Some((cookie, mask)), true) = (cookie, session.version >= Version::V1_1) {
        (selected.cookie, selected.cookie_mask) = (cookie & mask, mask);
    }
    let mut flows = state.reader(client).read_flows(id, selected).await?;
    flows.retain(|flow| {
        cookie.is_none_or(|(cookie, mask)| flow.cookie & mask == cookie & mask)
            && owner.is_none_or(|it| state.owners.owner_of(flow.cookie, flow.priority) == it)
    });
    sort_by_key(&mut flows, |flow| (flow.table_id, Reverse(flow.priority)));
    let total = flows.len();
    let limit = filter.limit.unwrap_or(LISTED_ENTRIES_MAX as usize);
    let page = flows.into_iter().skip(filter.offset).take(limit);
    Ok(match filter.format {
        Some(Format::OvsOfctl) => lines(page.map(|flow| flow_text(&flow))),
        Some(Format::Json) | None => {
            let document = |flow| {
                let entry = state.static_entry(id, &flow);
                FlowDocument::new(flow, &state.owners, entry)
            };
            Json(FlowsDocument { flows: page.map(document).collect(), total }).into_response()
        }
    })
}

/// What a switch has, as it describes it now.
#[utoipa::path(
    get,
    path = "/v1/switches/{switch}/{what}",
    params(
        ("switch" = String, Path, description = "Datapath id or name of a switch"),
        (
            "what" = String,
            Path,
            description = "description, tables, port-stats, port-descriptions, queues, groups, group-stats, meters or meter-stats"
        ),
        ReplyFormat
    ),
    responses(
        (
            status = 200,
            content((ReplyDocument = "application/json"), (String = "text/plain; charset=utf-8"))
        ),
        BySwitch
    )
)]
async fn multipart(
    State(state): State<ApiState>,
    client: Client,
    ApiPath((switch, what)): ApiPath<(String, String)>,
    ApiQuery(query): ApiQuery<ReplyFormat>,
) -> Result<Response, ApiError> {
    let kind = requests::KINDS.iter().find(|(name, _)| *name == what);
    let Some((_, request)) = kind else {
        let known: Vec<_> = requests::KINDS.iter().map(|(name, _)| *name).collect();
        let message = format!("a switch has no {what:?}: expected ports, {}", known.join(", "));
        return Err(ApiError::not_found("no_such_path", message));
    };
    let is_text = query.format == Some(Format::OvsOfctl);
    if is_text && !matches!(&*what, "groups" | "meters") {
        let message =
            format!("{what} have no text: format=ovs-ofctl is for flows, groups and meters");
        return Err(ApiError::invalid(message));
    }
    let id = names::find(&state.controller.switches(), &state.given_names(), &switch)?.datapath_id;
    Ok(match state.reader(client).read(id, request()).await? {
        MultipartReply::GroupDesc { groups } if is_text => {
            lines(groups.into_iter().map(group_text))
        }
        MultipartReply::MeterDesc { meters } if is_text => {
            lines(meters.into_iter().map(meter_text))
        }
        reply => Json(ReplyDocument { reply }).into_response(),
    })
}

fn lines(lines: impl Iterator<Item = String>) -> Response {
    let text: String = lines.map(|line| line + "\n").collect();
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

/// A group in the syntax of `ovs-ofctl add-group`.
fn group_text(group: GroupDesc) -> String {
    let GroupDesc { group_type, group_id, buckets, properties, .. } = group;
    GroupMod { group_type, group_id, buckets, properties, ..GroupMod::default() }.to_text()
}

/// A meter in the syntax of `ovs-ofctl add-meter`.
fn meter_text(meter: MeterDesc) -> String {
    let MeterDesc { flags, meter_id, mut bands, .. } = meter;
    // Without the flag a burst size means nothing, and `ovs-ofctl` refuses it; Open vSwitch reports one.
    if !flags.contains(MeterFlags::BURST) {
        for band in &mut bands {
            if let MeterBand::Drop { burst_size, .. }
            | MeterBand::DscpRemark { burst_size, .. }
            | MeterBand::Experimenter { burst_size, .. } = band
            {
                *burst_size = 0;
            }
        }
    }
    MeterMod { flags, meter_id, bands, ..MeterMod::default() }.to_text()
}
