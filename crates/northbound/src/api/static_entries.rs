//! Static flow entries, groups and meters, and names: what is declared, and its state. See `docs/static-entries.md`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use sluice_declared::reconcile::Removal;
use sluice_declared::{
    Change, ChangeError, Declared, Entry, Key, Kind, PolicyError, QuarantineError, WriteError,
};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use utoipa::ToSchema;

use super::error::ApiError;
use super::extract::{ApiJson, ApiPath, ApiQuery};
use super::openapi::{OfStore, OfStoreWrites, OfSwitch};
use super::static_documents::{
    ChangeDocument, ChangeStateDocument, ChangesDocument, DeclaredDocument, EntriesDocument,
    EntryBody, EntryDocument, NamedEntryBody, NamesDocument, RemovalDocument, RemovedBody,
    parse_names,
};
use super::{ApiState, names};
use crate::routes::{Routes, routes};

/// How long `wait=true` waits for switches: less than a connection lasts.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(30);

/// How long it waits after a change with `atomic=true`, which has waited already.
const ATOMIC_WAIT_MAX: Duration = Duration::from_secs(10);

/// Entries of one page, unless the request says how many, and at most.
const ENTRIES_DEFAULT: usize = 1000;
const ENTRIES_MAX: usize = 10_000;

type ApiResult<T> = Result<T, ApiError>;

pub(super) fn routes<R: Routes>() -> R {
    R::new()
        .routes(routes!(change))
        .routes(routes!(list))
        .routes(routes!(show, set, remove))
        .routes(routes!(apply, declared))
        .routes(routes!(list_names, set_names))
}

/// How a change is made.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeQuery {
    /// Answer when all connected switches have accepted or refused it.
    #[serde(default)]
    wait: bool,
    /// Make it at all connected switches that it concerns, or at none, and answer when that is done. If a switch refuses it, the answer is
    /// 409 `change_refused`, and what is declared stays the same.
    #[serde(default)]
    atomic: bool,
    /// Change nothing, and answer what would be changed.
    #[serde(default)]
    dry_run: bool,
}

/// How one entry is removed.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveQuery {
    /// As for a change of several entries.
    #[serde(default)]
    wait: bool,
    /// As for a change of several entries.
    #[serde(default)]
    atomic: bool,
    /// As for a change of several entries.
    #[serde(default)]
    dry_run: bool,
    /// Remove it only if it has this revision: 409 `revision_differs` if somebody has changed it meanwhile.
    if_revision: Option<u64>,
}

/// How one entry is declared.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SetQuery {
    /// Answer when all connected switches have accepted or refused it.
    #[serde(default)]
    wait: bool,
    /// As for a change of several entries.
    #[serde(default)]
    atomic: bool,
    /// Declare it only if it has this revision, or does not exist and this is 0: 409 `revision_differs` if somebody has changed it meanwhile.
    if_revision: Option<u64>,
}

/// Which entries are listed.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct EntryFilter {
    /// A connected switch by datapath id or name.
    switch: Option<String>,
    /// `installed`, `pending` or `refused`, as a whole or at the switch.
    #[param(inline)]
    state: Option<StateFilter>,
    /// Entries that are left out at the beginning.
    #[serde(default)]
    offset: usize,
    /// Entries of the page.
    #[param(maximum = 10_000, default = 1000)]
    limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum StateFilter {
    Installed,
    Pending,
    Refused,
}

/// Entries to declare and to remove, all of them or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeBody {
    #[serde(default)]
    set: Vec<NamedEntryBody>,
    #[serde(default)]
    remove: Vec<RemovedBody>,
}

/// The kind in a path: `flows`, `groups` or `meters`.
fn kind(text: &str) -> ApiResult<Kind> {
    match text {
        "flows" => Ok(Kind::Flow),
        "groups" => Ok(Kind::Group),
        "meters" => Ok(Kind::Meter),
        _ => {
            let message = format!("there are no static {text}: expected flows, groups or meters");
            Err(ApiError::not_found("no_such_path", message))
        }
    }
}

pub(super) fn service(state: &ApiState) -> ApiResult<&Arc<Declared>> {
    state.declared.as_ref().ok_or_else(|| {
        let message =
            "this controller has no store: it keeps neither static entries nor quarantined hosts";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message)
    })
}

/// Reading is refused, too, if the store could not be read: an empty list would be wrong.
pub(super) fn readable(state: &ApiState) -> ApiResult<&Arc<Declared>> {
    let service = service(state)?;
    match service.store_error() {
        Some(error) => {
            let message = format!("the store cannot be read: {error}");
            Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message))
        }
        None => Ok(service),
    }
}

fn write_error(error: &WriteError) -> ApiError {
    let message = error.to_string();
    match error {
        WriteError::Change(ChangeError::NotFound(_)) => {
            ApiError::not_found("no_such_entry", message)
        }
        WriteError::Change(ChangeError::TooMany(_)) => {
            ApiError::new(StatusCode::CONFLICT, "too_many", message)
        }
        WriteError::Change(_) => ApiError::invalid(message),
        WriteError::Quarantine(error) => quarantine_error(error, message),
        WriteError::Policy(error) => policy_error(error, message),
        WriteError::Refused(_) => ApiError::new(StatusCode::CONFLICT, "change_refused", message),
        WriteError::Stopped => ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", message),
        WriteError::Store(error) if error.is_outcome_unknown => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "outcome_unknown", message)
        }
        WriteError::Store(_) | WriteError::StaysDeclared(..) => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message)
        }
    }
}

fn quarantine_error(error: &QuarantineError, message: String) -> ApiError {
    match error {
        QuarantineError::NoHostAddress(_) | QuarantineError::InvalidReason => {
            ApiError::invalid(message)
        }
        QuarantineError::Already(_) => {
            ApiError::new(StatusCode::CONFLICT, "already_quarantined", message)
        }
        QuarantineError::NotQuarantined(_) => ApiError::not_found("not_quarantined", message),
        QuarantineError::TooMany => {
            ApiError::new(StatusCode::CONFLICT, "too_many_quarantines", message)
        }
    }
}

fn policy_error(error: &PolicyError, message: String) -> ApiError {
    let conflict = |code| ApiError::new(StatusCode::CONFLICT, code, message.clone());
    match error {
        PolicyError::Name(_) | PolicyError::Flows(_) | PolicyError::NoFlows => {
            ApiError::invalid(message)
        }
        PolicyError::NotFound(_) => ApiError::not_found("no_such_policy", message),
        PolicyError::TooManyPolicies
        | PolicyError::TooManyFlows(_)
        | PolicyError::TooManyEntries
        | PolicyError::TooLong
        | PolicyError::TooManyOfAll
        | PolicyError::NoTag { .. } => conflict("too_many"),
        PolicyError::NoSwitch
        | PolicyError::NotConnected(_)
        | PolicyError::NoBundles(_)
        | PolicyError::NetworkChanged
        | PolicyError::PortPending { .. } => conflict("policy_not_possible"),
        PolicyError::Unconfirmed { .. } => conflict("change_refused"),
    }
}

/// Writes to the store: the disk takes its time, in a thread of its own; one change after the other.
pub(super) async fn write<R: Send + 'static>(
    state: &ApiState,
    write: impl FnOnce(&Declared) -> Result<R, WriteError> + Send + 'static,
) -> ApiResult<R> {
    write_with(state, &state.writes, write).await
}

/// Writes to the store when `limit`, which says how many such writes run at a time, lets it.
pub(super) async fn write_with<R: Send + 'static>(
    state: &ApiState,
    limit: &Arc<Semaphore>,
    write: impl FnOnce(&Declared) -> Result<R, WriteError> + Send + 'static,
) -> ApiResult<R> {
    // Never closed. Kept until the write is done, also if the client closes its connection.
    let permit = limit.clone().acquire_owned().await;
    let writer = Arc::clone(service(state)?);
    let run = move || {
        let _permit = permit;
        write(&writer)
    };
    match tokio::task::spawn_blocking(run).await {
        Ok(written) => written.map_err(|error| write_error(&error)),
        Err(error) => Err(ApiError::failed(&error)),
    }
}

/// Waits until all connected switches have accepted or refused a change, but not for ever.
pub(super) async fn wait_until_tried(
    state: &ApiState,
    revision: u64,
    wait: Duration,
) -> ApiResult<()> {
    let (sender, tried) = oneshot::channel();
    // Fails if the client does not wait any more.
    let notify = move || {
        let _ = sender.send(());
    };
    if let Some(_waiter) = service(state)?.when_tried(revision, Box::new(notify)) {
        let _ = timeout(wait, tried).await;
    }
    Ok(())
}

/// An entry that must have a revision; 0 if it must not exist.
struct Precondition {
    key: Key,
    revision: u64,
}

impl Precondition {
    /// Fails if the entry has another revision. Nothing else is written meanwhile.
    fn check(&self, declared: &Declared) -> ApiResult<()> {
        let present = declared.read(|it| it.entries().get(&self.key).map(|entry| entry.revision));
        let present = present.unwrap_or_default();
        if present == self.revision {
            return Ok(());
        }
        let message = match present {
            0 => "somebody has removed the entry meanwhile".to_owned(),
            _ => format!("somebody has changed the entry meanwhile: its revision is {present}"),
        };
        Err(ApiError::new(StatusCode::CONFLICT, "revision_differs", message))
    }
}

/// Makes a change, or says what it would change.
async fn make(
    state: &ApiState,
    change: Change,
    how: &ChangeQuery,
    precondition: Option<Precondition>,
) -> ApiResult<ChangesDocument> {
    let (is_dry_run, is_atomic) = (how.dry_run, how.atomic);
    let keys: Vec<_> = change.set.iter().map(|it| it.key.clone()).collect();
    // Never closed.
    let atomic = if is_atomic && !is_dry_run {
        state.atomic_changes.clone().acquire_owned().await.ok()
    } else {
        None
    };
    // Checking many entries takes its time as well.
    let written = write(state, move |declared| {
        let _atomic = atomic;
        if let Some(Err(refusal)) = precondition.map(|it| it.check(declared)) {
            return Ok(Err(refusal));
        }
        if is_dry_run {
            return declared.check(change).map(|differences| Ok((None, differences)));
        }
        let written =
            if is_atomic { declared.write_everywhere(change) } else { declared.write(change) };
        written.map(|(revision, differences)| Ok((Some(revision), differences)))
    });
    let (revision, differences) = written.await??;
    if let Some(revision) = revision
        && (how.wait || is_atomic)
    {
        wait_until_tried(state, revision, if is_atomic { ATOMIC_WAIT_MAX } else { WAIT_MAX })
            .await?;
    }
    let changes = differences.into_iter().map(ChangeDocument::from).collect();
    let state = match revision {
        Some(revision) => Some(
            service(state)?
                .read(|reconciler| ChangeStateDocument::new(reconciler, revision, &keys)),
        ),
        None => None,
    };
    Ok(ChangesDocument { revision, changes, state })
}

/// Declares and removes static entries, all of them or none.
#[utoipa::path(
    post,
    path = "/v1/static",
    params(ChangeQuery),
    request_body = ChangeBody,
    responses((status = 200, body = ChangesDocument), OfStoreWrites)
)]
async fn change(
    State(state): State<ApiState>,
    ApiQuery(how): ApiQuery<ChangeQuery>,
    ApiJson(ChangeBody { set, remove }): ApiJson<ChangeBody>,
) -> ApiResult<Json<ChangesDocument>> {
    let change = Change {
        set: set.into_iter().map(NamedEntryBody::declaration).collect::<ApiResult<_>>()?,
        remove: remove.into_iter().map(RemovedBody::key).collect::<ApiResult<_>>()?,
        ..Change::default()
    };
    Ok(Json(make(&state, change, &how, None).await?))
}

/// Replaces all that is declared.
#[utoipa::path(
    put,
    path = "/v1/declared",
    params(ChangeQuery),
    request_body = DeclaredDocument,
    responses((status = 200, body = ChangesDocument), OfStoreWrites)
)]
async fn apply(
    State(state): State<ApiState>,
    ApiQuery(how): ApiQuery<ChangeQuery>,
    ApiJson(declared): ApiJson<DeclaredDocument>,
) -> ApiResult<Json<ChangesDocument>> {
    let change = declared.change()?;
    Ok(Json(make(&state, change, &how, None).await?))
}

/// All that is declared.
#[utoipa::path(
    get,
    path = "/v1/declared",
    responses((status = 200, body = DeclaredDocument), OfStore)
)]
async fn declared(State(state): State<ApiState>) -> ApiResult<Json<DeclaredDocument>> {
    Ok(Json(readable(&state)?.read(DeclaredDocument::new)))
}

/// Declares a static entry.
#[utoipa::path(
    put,
    path = "/v1/static/{kind}/{name}",
    params(("kind" = String, Path, description = "flows, groups or meters"), ("name" = String, Path, description = "Name of the entry"), SetQuery),
    request_body = EntryBody,
    responses((status = 200, body = EntryDocument), OfStoreWrites)
)]
async fn set(
    State(state): State<ApiState>,
    ApiPath((of_kind, name)): ApiPath<(String, String)>,
    ApiQuery(SetQuery { wait, atomic, if_revision }): ApiQuery<SetQuery>,
    ApiJson(entry): ApiJson<EntryBody>,
) -> ApiResult<Json<EntryDocument>> {
    let key = Key { kind: kind(&of_kind)?, name };
    let declaration = entry.declaration(key.clone())?;
    let change = Change { set: vec![declaration], ..Change::default() };
    let precondition = if_revision.map(|revision| Precondition { key: key.clone(), revision });
    let how = ChangeQuery { wait, atomic, dry_run: false };
    make(&state, change, &how, precondition).await?;
    entry_document(&state, &key).map(Json)
}

/// Removes a static entry.
#[utoipa::path(
    delete,
    path = "/v1/static/{kind}/{name}",
    params(("kind" = String, Path, description = "flows, groups or meters"), ("name" = String, Path, description = "Name of the entry"), RemoveQuery),
    responses((status = 200, body = ChangesDocument), OfStoreWrites)
)]
async fn remove(
    State(state): State<ApiState>,
    ApiPath((of_kind, name)): ApiPath<(String, String)>,
    ApiQuery(RemoveQuery { wait, atomic, dry_run, if_revision }): ApiQuery<RemoveQuery>,
) -> ApiResult<Json<ChangesDocument>> {
    let key = Key { kind: kind(&of_kind)?, name };
    let precondition = if_revision.map(|revision| Precondition { key: key.clone(), revision });
    let change = Change { remove: vec![key], ..Change::default() };
    let how = ChangeQuery { wait, atomic, dry_run };
    Ok(Json(make(&state, change, &how, precondition).await?))
}

/// A static entry and its state.
#[utoipa::path(
    get,
    path = "/v1/static/{kind}/{name}",
    params(("kind" = String, Path, description = "flows, groups or meters"), ("name" = String, Path, description = "Name of the entry")),
    responses((status = 200, body = EntryDocument), OfStore)
)]
async fn show(
    State(state): State<ApiState>,
    ApiPath((of_kind, name)): ApiPath<(String, String)>,
) -> ApiResult<Json<EntryDocument>> {
    let key = Key { kind: kind(&of_kind)?, name };
    entry_document(&state, &key).map(Json)
}

fn entry_document(state: &ApiState, key: &Key) -> ApiResult<EntryDocument> {
    let sessions = state.controller.switches();
    readable(state)?.read(|reconciler| {
        let entry = reconciler.entries().get(key);
        let entry = entry
            .ok_or_else(|| write_error(&WriteError::Change(ChangeError::NotFound(key.clone()))))?;
        Ok(EntryDocument::new(entry, reconciler, &sessions))
    })
}

/// The static entries of one kind that the filters select, and their states.
#[utoipa::path(
    get,
    path = "/v1/static/{kind}",
    params(("kind" = String, Path, description = "flows, groups or meters"), EntryFilter),
    responses((status = 200, body = EntriesDocument), OfSwitch, OfStore)
)]
async fn list(
    State(state): State<ApiState>,
    ApiPath(of_kind): ApiPath<String>,
    ApiQuery(filter): ApiQuery<EntryFilter>,
) -> ApiResult<Json<EntriesDocument>> {
    let kind = kind(&of_kind)?;
    let limit = filter.limit.unwrap_or(ENTRIES_DEFAULT);
    if limit > ENTRIES_MAX {
        return Err(ApiError::invalid(format!("limit is {limit}: expected at most {ENTRIES_MAX}")));
    }
    let sessions = state.controller.switches();
    let given = state.given_names();
    let at =
        filter.switch.as_deref().map(|text| names::find(&sessions, &given, text)).transpose()?;
    let at = at.map(|session| session.datapath_id);
    let wanted = filter.state.map(|state| match state {
        StateFilter::Installed => "installed",
        StateFilter::Pending => "pending",
        StateFilter::Refused => "refused",
    });
    readable(&state)?.read(|reconciler| {
        let is_selected = |entry: &&Arc<Entry>| match (at, wanted) {
            (None, None) => true,
            (None, Some(wanted)) => reconciler.state(entry).name() == wanted,
            (Some(at), wanted) => reconciler.statuses(entry).iter().any(|(id, status)| {
                *id == at && wanted.is_none_or(|wanted| status.state.name() == wanted)
            }),
        };
        let entries = reconciler.entries().values().filter(|entry| entry.key().kind == kind);
        let selected: Vec<_> = entries.filter(is_selected).collect();
        let page = selected.iter().skip(filter.offset).take(limit);
        let entries = page.map(|entry| EntryDocument::new(entry, reconciler, &sessions)).collect();
        let is_of_policy = |it: &Removal<'_>| it.entry.is_some_and(|key| key.of_policy().is_some());
        let removals = reconciler.removals().filter(|it| it.kind == kind && !is_of_policy(it));
        let removals = removals.filter(|it| at.is_none_or(|at| at == it.switch));
        let removals = removals.filter(|it| wanted.is_none_or(|name| it.state.name() == name));
        let removing = removals.take(limit).map(|it| RemovalDocument::new(&it)).collect();
        Ok(Json(EntriesDocument { entries, total: selected.len(), removing }))
    })
}

/// The names that are declared.
#[utoipa::path(
    get,
    path = "/v1/names",
    responses((status = 200, body = NamesDocument), OfStore)
)]
async fn list_names(State(state): State<ApiState>) -> ApiResult<Json<NamesDocument>> {
    Ok(Json(readable(&state)?.read(|reconciler| NamesDocument::new(reconciler.names()))))
}

/// Replaces all names that are declared.
#[utoipa::path(
    put,
    path = "/v1/names",
    params(ChangeQuery),
    request_body = NamesDocument,
    responses((status = 200, body = ChangesDocument), OfStoreWrites)
)]
async fn set_names(
    State(state): State<ApiState>,
    ApiQuery(how): ApiQuery<ChangeQuery>,
    ApiJson(document): ApiJson<NamesDocument>,
) -> ApiResult<Json<ChangesDocument>> {
    let names = Some(parse_names(document)?);
    Ok(Json(make(&state, Change { names, ..Change::default() }, &how, None).await?))
}
