//! Deletes the flow entries of one owner.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sluice_base::{ordered, sort_by};
use sluice_openflow::{
    DatapathId, EncodeError, FlowDesc, FlowMod, FlowModCommand, FlowStatsRequest, Message, Version,
};
use sluice_sdk::allocation::Allocations;
use sluice_sdk::{Answer, SwitchSession};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use utoipa::ToSchema;

use super::ApiState;
use super::error::ApiError;
use super::extract::{ApiPath, ApiQuery};
use super::openapi::BySwitch;
use super::reads::Client;
use super::requests::Reader;
use super::{names, requests, values};
use crate::routes::{Routes, routes};

/// Deletions that are sent at a time.
const BATCH: usize = 256;

/// Switches from which entries are deleted at a time.
const SWITCHES_MAX: usize = 8;

/// How long all switches together may take: less than a request may.
const EVERYWHERE_TIMEOUT: Duration = Duration::from_secs(50);

/// All tables. §7.3.4.1.
const ALL_TABLES: u8 = 0xff;

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(delete_everywhere)).routes(routes!(delete_at_switch))
}

/// Which flow entries are deleted.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct DeletionFilter {
    /// An application.
    owner: Option<String>,
    /// A cookie and an optional mask, such as `0x1000/0xff00`.
    cookie: Option<String>,
}

/// How many flow entries a switch had, which were deleted.
#[derive(Serialize, ToSchema)]
pub(super) struct DeletedDocument {
    deleted: usize,
}

/// The same for all switches.
#[derive(Serialize, ToSchema)]
pub(super) struct DeletedEverywhereDocument {
    deleted: usize,
    switches: Vec<DeletedOfSwitchDocument>,
}

#[derive(Serialize, ToSchema)]
struct DeletedOfSwitchDocument {
    dpid: String,
    deleted: usize,
    /// Why none were deleted, or not all.
    error: Option<String>,
}

/// Flow entries that are selected.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Selection {
    Owner(&'static str),
    Cookie { cookie: u64, mask: u64 },
}

impl Selection {
    fn new(filter: &DeletionFilter, owners: &Allocations) -> Result<Self, ApiError> {
        match (&filter.owner, &filter.cookie) {
            (Some(owner), None) => values::owner(owner, owners).map(Self::Owner),
            (None, Some(cookie)) => {
                values::cookie(cookie).map(|(cookie, mask)| Self::Cookie { cookie, mask })
            }
            _ => Err(ApiError::invalid("expected either owner or cookie")),
        }
    }

    fn contains(&self, entry: &FlowDesc, owners: &Allocations) -> bool {
        match *self {
            Self::Owner(name) => owners.owner_of(entry.cookie, entry.priority) == Some(name),
            Self::Cookie { cookie, mask } => entry.cookie & mask == cookie & mask,
        }
    }

    /// Cookies and masks that select these entries and no others; `None` if there are none: entries of another owner have the same
    /// cookie, and another priority.
    fn cookies(&self, owners: &Allocations) -> Option<Vec<(u64, u64)>> {
        match *self {
            Self::Cookie { cookie, mask } => Some(vec![(cookie, mask)]),
            Self::Owner(name) => {
                let (own, others): (Vec<_>, Vec<_>) =
                    owners.kinds().partition(|kind| kind.application == name);
                let is_exclusive = own
                    .iter()
                    .all(|kind| !others.iter().any(|other| kind.shares_cookie_with(other)));
                let mut cookies: Vec<_> =
                    own.iter().map(|kind| (kind.cookie, kind.cookie_mask)).collect();
                sort_by(&mut cookies, Ord::cmp);
                cookies.dedup();
                is_exclusive.then_some(cookies)
            }
        }
    }
}

/// Deletes the flow entries of one owner from a switch.
#[utoipa::path(
    delete,
    path = "/v1/switches/{switch}/flows",
    params(("switch" = String, Path, description = "Datapath id or name of a switch"), DeletionFilter),
    responses((status = 200, body = DeletedDocument), BySwitch)
)]
async fn delete_at_switch(
    State(state): State<ApiState>,
    ApiPath(switch): ApiPath<String>,
    client: Client,
    ApiQuery(filter): ApiQuery<DeletionFilter>,
) -> Result<Json<DeletedDocument>, ApiError> {
    let selection = Selection::new(&filter, &state.owners)?;
    let sessions = state.controller.switches();
    let session = names::find(&sessions, &state.given_names(), &switch)?;
    let Deletion { deleted, error } = delete_selected(&state, client, session, &selection).await;
    match error {
        None => Ok(Json(DeletedDocument { deleted })),
        Some(error) if deleted > 0 => {
            Err(error.with_note(&format!("{deleted} entries were deleted before")))
        }
        Some(error) => Err(error),
    }
}

/// Deletes the flow entries of one owner from all switches.
#[utoipa::path(
    delete,
    path = "/v1/flows",
    params(DeletionFilter),
    responses((status = 200, body = DeletedEverywhereDocument))
)]
async fn delete_everywhere(
    State(state): State<ApiState>,
    client: Client,
    ApiQuery(filter): ApiQuery<DeletionFilter>,
) -> Result<Json<DeletedEverywhereDocument>, ApiError> {
    let selection = Selection::new(&filter, &state.owners)?;
    let sessions = state.controller.switches();
    let mut done: BTreeMap<_, _> = ordered(sessions.iter().map(|it| (it.datapath_id, None)));
    let permits = Arc::new(Semaphore::new(SWITCHES_MAX));
    // Those that are not done at the end are given up when this is dropped.
    let mut tasks = JoinSet::new();
    for session in sessions {
        let (state, selection, permits) = (state.clone(), selection.clone(), permits.clone());
        tasks.spawn(async move {
            // Never closed.
            let _permit = permits.acquire().await;
            (session.datapath_id, delete_selected(&state, client, &session, &selection).await)
        });
    }
    let deadline = Instant::now() + EVERYWHERE_TIMEOUT;
    while let Ok(Some(Ok((id, deletion)))) = timeout_at(deadline, tasks.join_next()).await {
        done.insert(id, Some(deletion));
    }
    let switches: Vec<_> = done.into_iter().map(DeletedOfSwitchDocument::from).collect();
    let deleted = switches.iter().map(|it| it.deleted).sum();
    Ok(Json(DeletedEverywhereDocument { deleted, switches }))
}

/// What has become of a deletion.
#[derive(Debug, Default)]
struct Deletion {
    /// Entries that were deleted.
    deleted: usize,
    /// Why the others were not.
    error: Option<ApiError>,
}

impl From<(DatapathId, Option<Deletion>)> for DeletedOfSwitchDocument {
    /// The result of a switch; `None` if it has not answered in time.
    fn from((id, deletion): (DatapathId, Option<Deletion>)) -> Self {
        let late = || format!("not done within {} s", EVERYWHERE_TIMEOUT.as_secs());
        let (deleted, error) = match deletion {
            Some(Deletion { deleted, error }) => (deleted, error.map(|it| it.to_string())),
            None => (0, Some(late())),
        };
        Self { dpid: id.to_string(), deleted, error }
    }
}

/// Deletes entries: by cookie where the version can, otherwise each of those that are listed.
async fn delete_selected(
    state: &ApiState,
    client: Client,
    session: &SwitchSession,
    selection: &Selection,
) -> Deletion {
    let reader = state.reader(client).for_deletion();
    let cookies = selection.cookies(&state.owners);
    let mut deletion = Deletion::default();
    let result = match cookies.filter(|_| can_match_cookies(session.version)) {
        Some(cookies) => {
            delete_cookies((state, reader), session.datapath_id, cookies, &mut deletion).await
        }
        None => delete_listed((state, reader), session.datapath_id, selection, &mut deletion).await,
    };
    deletion.error = result.err();
    deletion
}

/// Deletes the entries of some cookies, however many there are: they are only counted.
async fn delete_cookies(
    (state, reader): (&ApiState, Reader<'_>),
    id: DatapathId,
    cookies: Vec<(u64, u64)>,
    deletion: &mut Deletion,
) -> Result<(), ApiError> {
    let mut count = 0;
    for &(cookie, cookie_mask) in &cookies {
        let selected = FlowStatsRequest { cookie, cookie_mask, ..FlowStatsRequest::default() };
        count += match reader.count_flows(id, selected.clone()).await? {
            Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
            // A switch that cannot count.
            None => reader.read_flows(id, selected).await?.len(),
        };
    }
    send(state, id, cookies.into_iter().map(delete_by_cookie).collect()).await?;
    deletion.deleted = count;
    Ok(())
}

/// Deletes entries one by one.
async fn delete_listed(
    (state, reader): (&ApiState, Reader<'_>),
    id: DatapathId,
    selection: &Selection,
    deletion: &mut Deletion,
) -> Result<(), ApiError> {
    let mut listed = reader.read_flows(id, FlowStatsRequest::default()).await?;
    listed.retain(|entry| selection.contains(entry, &state.owners));
    for batch in listed.chunks(BATCH) {
        send(state, id, batch.iter().map(delete_strictly).collect()).await?;
        deletion.deleted += batch.len();
    }
    Ok(())
}

async fn send(state: &ApiState, id: DatapathId, deletions: Vec<Message>) -> Result<(), ApiError> {
    match requests::ask(state, id, deletions).await {
        Answer::Done => Ok(()),
        other => Err(ApiError::of_answer(&other)),
    }
}

/// Whether deletions of a version can select entries by their cookies.
fn can_match_cookies(version: Version) -> bool {
    let encoded: Result<_, EncodeError> = delete_by_cookie((1, u64::MAX)).to_vec(version, 0);
    encoded.is_ok()
}

fn delete_by_cookie((cookie, cookie_mask): (u64, u64)) -> Message {
    let (command, table_id) = (FlowModCommand::DELETE, ALL_TABLES);
    Message::FlowMod(FlowMod { command, table_id, cookie, cookie_mask, ..FlowMod::default() })
}

fn delete_strictly(entry: &FlowDesc) -> Message {
    Message::FlowMod(FlowMod {
        command: FlowModCommand::DELETE_STRICT,
        table_id: entry.table_id,
        priority: entry.priority,
        matching: entry.matching.clone(),
        ..FlowMod::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(owner: Option<&str>, cookie: Option<&str>) -> Result<Selection, ApiError> {
        let [owner, cookie] = [owner, cookie].map(|text| text.map(str::to_owned));
        Selection::new(&DeletionFilter { owner, cookie }, &Allocations::default())
    }

    #[test]
    fn entries_are_selected_by_owner_or_cookie() {
        let cookie = |cookie, mask| Selection::Cookie { cookie, mask };
        assert_eq!(select(None, Some("0x10/0xf0")).unwrap(), cookie(0x10, 0xf0));
        assert_eq!(select(None, Some("7")).unwrap(), cookie(7, u64::MAX));
        assert_eq!(select(Some("forwarding"), None).unwrap(), Selection::Owner("forwarding"));
        for bad in ["", "0x", "x", "1/", "/1", "1/2/3", "-1", "+1", "0x1_0", "99999999999999999999"]
        {
            assert!(select(None, Some(bad)).is_err(), "{bad}");
        }
        assert!(select(None, None).is_err() && select(Some("hub"), Some("1")).is_err());
        let message = select(Some("hub"), None).unwrap_err().to_string();
        assert!(
            message.contains("all, forwarding, learning, limiter, quarantine, static, topology"),
            "{message}"
        );
    }

    #[test]
    fn cookies_select_no_entry_of_another_owner() {
        let owners = Allocations::default();
        for kind in owners.kinds() {
            let selection = Selection::Owner(kind.application);
            let Some(cookies) = selection.cookies(&owners) else { continue };
            for other in owners.kinds() {
                let is_selected =
                    cookies.iter().any(|(cookie, mask)| other.cookie & mask == *cookie);
                assert_eq!(is_selected, other.application == kind.application, "{other:?}");
            }
        }
        assert!(Selection::Owner("forwarding").cookies(&owners).is_some());
        assert_eq!(
            Selection::Owner("topology").cookies(&owners),
            None,
            "the table-miss entry has its cookie"
        );
    }

    #[test]
    fn deletions_of_1_0_have_no_cookie() {
        let able: Vec<_> = (1..=6).map(|n| can_match_cookies(Version(n))).collect();
        assert_eq!(able, [false, true, true, true, true, true]);
    }
}
