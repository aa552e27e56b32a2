//! Policies: flow entries of several switches that are replaced for each packet as a whole. See `docs/policies.md`.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use sluice_declared::reconcile::Reconciler;
use sluice_declared::{Policy, PolicyTopology, PolicyVersion};
use utoipa::ToSchema;

use super::ApiState;
use super::access::Identity;
use super::error::ApiError;
use super::extract::{ApiJson, ApiPath, ApiQuery};
use super::openapi::{OfPolicies, OfStore};
use super::static_documents::{NamedEntryBody, StateDocument};
use super::static_entries::{readable, write_with};
use crate::routes::{Routes, routes};

type ApiResult<T> = Result<T, ApiError>;

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(policies)).routes(routes!(show, apply, remove))
}

/// How a policy is put into effect.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ApplyQuery {
    /// Change nothing, and answer what the switches would get.
    #[serde(default)]
    dry_run: bool,
}

/// How a policy is removed.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveQuery {
    /// Remove all entries at once, whatever packets are in flight and whichever switch is not connected.
    #[serde(default)]
    force: bool,
}

/// The flow entries of a policy.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"flows": [{"name": "web", "switch": "s1", "flow": "priority=200,tcp,tp_dst=80,actions=output:2"}]}))]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyBody {
    flows: Vec<NamedEntryBody>,
}

/// All policies.
#[derive(Serialize, ToSchema)]
pub(super) struct PoliciesDocument {
    policies: Vec<PolicySummary>,
}

/// A policy in a list.
#[derive(Serialize, ToSchema)]
pub(super) struct PolicySummary {
    name: String,
    /// Number of flow entries, as declared.
    flows: usize,
    /// Who has declared it.
    by: String,
    changed_at_unix_s: u64,
    /// The worst of the states at its switches: `installed`, `pending` or `refused`; `removing` until its last entries are removed.
    state: &'static str,
    reason: Option<String>,
    /// The VLAN id that tags its packets; `null` if it is being removed.
    vlan: Option<u16>,
    /// VLAN ids of replaced versions, which are kept until no packet has them.
    retired_vlans: Vec<u16>,
    /// Which switch may still tag packets with a replaced version, and why.
    retired_reason: Option<String>,
    entries: EntryCounts,
}

/// What the switches have, or are to have.
#[derive(Serialize, ToSchema)]
pub(super) struct EntryCounts {
    /// Flow entries for packets that enter the network, at all switches.
    ingress: usize,
    /// Flow entries for packets that have the tag.
    transit: usize,
}

/// A policy.
#[derive(Serialize, ToSchema)]
pub(super) struct PolicyDocument {
    #[serde(flatten)]
    summary: PolicySummary,
    /// As declared.
    declared: Vec<NamedEntryBody>,
    /// Its state at each of its switches that is connected.
    at: Vec<StateDocument>,
    /// Datapath ids of its switches that are not connected.
    not_connected: Vec<String>,
    /// Why it is to be applied again: the network has changed since.
    outdated: Option<String>,
}

/// What has become of a policy, or would.
#[derive(Serialize, ToSchema)]
pub(super) struct AppliedDocument {
    /// Whether anything was changed, or would be.
    is_changed: bool,
    /// The VLAN id that tags packets of this version.
    vlan: u16,
    entries: EntryCounts,
    /// Datapath ids of the switches that it concerns.
    switches: Vec<String>,
    /// Connected switches that have not confirmed it, and why: each goes on with the version that it has until then.
    pending: Vec<StateDocument>,
}

/// Answer to a policy that is removed.
#[derive(Serialize, ToSchema)]
pub(super) struct RemovedDocument {
    name: String,
    /// The number of the change.
    revision: u64,
}

/// The policies.
#[utoipa::path(
    get,
    path = "/v1/policies",
    responses((status = 200, body = PoliciesDocument), OfStore)
)]
async fn policies(State(state): State<ApiState>) -> ApiResult<Json<PoliciesDocument>> {
    let declared = readable(&state)?;
    let policies: Vec<_> =
        declared.policies().into_iter().filter(|policy| policy.was_applied()).collect();
    let summaries = declared.read(|reconciler| {
        policies.iter().map(|policy| PolicySummary::new(policy, reconciler)).collect()
    });
    Ok(Json(PoliciesDocument { policies: summaries }))
}

/// A policy, and its state.
#[utoipa::path(
    get,
    path = "/v1/policies/{name}",
    params(("name" = String, Path, description = "Name of the policy")),
    responses((status = 200, body = PolicyDocument), OfPolicies)
)]
async fn show(
    State(state): State<ApiState>,
    ApiPath(name): ApiPath<String>,
) -> ApiResult<Json<PolicyDocument>> {
    let declared = readable(&state)?;
    let not_found =
        || ApiError::not_found("no_such_policy", format!("no policy is named {name:?}"));
    let policy = declared.policy(&name).ok_or_else(not_found)?;
    let (network, present) = (state.clone(), Arc::clone(&policy));
    // Making the entries of many flow entries takes its time.
    let outdated = tokio::task::spawn_blocking(move || outdated(&network, &present)).await;
    let outdated = outdated.map_err(|error| ApiError::failed(&error))?;
    let sessions = state.controller.switches();
    let given = state.given_names();
    let document = declared.read(|reconciler| PolicyDocument {
        summary: PolicySummary::new(&policy, reconciler),
        declared: policy.flows.iter().map(NamedEntryBody::new).collect(),
        at: reconciler
            .policy_statuses(&policy)
            .iter()
            .map(|(id, status)| StateDocument::new(*id, status, &given, &sessions))
            .collect(),
        not_connected: texts(reconciler.unconnected_of_policy(&policy)),
        outdated,
    });
    Ok(Json(document))
}

/// Puts a policy into effect, in the place of the one with this name: each packet is processed by the flow entries of the old or of the new
/// one at all switches that it passes.
#[utoipa::path(
    put,
    path = "/v1/policies/{name}",
    params(("name" = String, Path, description = "Name of the policy"), ApplyQuery),
    request_body = PolicyBody,
    responses((status = 200, body = AppliedDocument), OfPolicies)
)]
async fn apply(
    State(state): State<ApiState>,
    Extension(identity): Extension<Identity>,
    ApiPath(name): ApiPath<String>,
    ApiQuery(ApplyQuery { dry_run }): ApiQuery<ApplyQuery>,
    ApiJson(PolicyBody { flows }): ApiJson<PolicyBody>,
) -> ApiResult<Json<AppliedDocument>> {
    let flows: Vec<_> =
        flows.into_iter().map(NamedEntryBody::declaration).collect::<ApiResult<_>>()?;
    let limit = if dry_run { &state.plans } else { &state.atomic_changes };
    let (network, applied_name) = (state.clone(), name.clone());
    let applied = write_with(&state, limit, move |declared| {
        let topology = || topology(&network);
        if dry_run {
            declared.plan_policy(&name, &flows, &topology())
        } else {
            declared.apply_policy(&name, flows, identity.who, &topology)
        }
    });
    let plan = applied.await?;
    let pending = if dry_run { vec![] } else { pending(&state, &applied_name)? };
    Ok(Json(AppliedDocument {
        is_changed: !plan.is_same,
        vlan: plan.version.tag,
        entries: EntryCounts::new(&plan.version),
        switches: texts(plan.version.switches()),
        pending,
    }))
}

/// The states of a policy at switches that do not have it as it is to be.
fn pending(state: &ApiState, name: &str) -> ApiResult<Vec<StateDocument>> {
    let declared = readable(state)?;
    let Some(policy) = declared.policy(name) else { return Ok(vec![]) };
    let (given, sessions) = (state.given_names(), state.controller.switches());
    let statuses = declared.read(|reconciler| reconciler.policy_statuses(&policy));
    let pending = statuses.iter().filter(|(_, status)| status.state.severity() > 0);
    let document = |(id, status): &_| StateDocument::new(*id, status, &given, &sessions);
    Ok(pending.map(document).collect())
}

/// Why a policy is to be applied again.
fn outdated(state: &ApiState, policy: &Policy) -> Option<String> {
    policy.current.as_ref()?;
    let planned =
        state.declared.as_ref()?.plan_policy(&policy.name, &policy.flows, &topology(state));
    match planned {
        Ok(plan) if plan.is_same => None,
        Ok(_) => Some("ports, links or names of switches have changed".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

/// Removes a policy: packets that enter the network from then on are not processed by it.
#[utoipa::path(
    delete,
    path = "/v1/policies/{name}",
    params(("name" = String, Path, description = "Name of the policy"), RemoveQuery),
    responses((status = 200, body = RemovedDocument), OfPolicies)
)]
async fn remove(
    State(state): State<ApiState>,
    ApiPath(name): ApiPath<String>,
    ApiQuery(RemoveQuery { force }): ApiQuery<RemoveQuery>,
) -> ApiResult<Json<RemovedDocument>> {
    let removed = name.clone();
    let removal =
        write_with(&state, &state.atomic_changes, move |it| it.remove_policy(&name, force));
    Ok(Json(RemovedDocument { revision: removal.await?, name: removed }))
}

fn topology(state: &ApiState) -> PolicyTopology {
    PolicyTopology::new(&state.view.lock().view)
}

fn texts<T: ToString>(values: impl IntoIterator<Item = T>) -> Vec<String> {
    values.into_iter().map(|value| value.to_string()).collect()
}

impl EntryCounts {
    fn new(version: &PolicyVersion) -> Self {
        Self { ingress: version.ingress().count(), transit: version.transit().count() }
    }
}

impl PolicySummary {
    fn new(policy: &Arc<Policy>, reconciler: &Reconciler) -> Self {
        let statuses = reconciler.policy_statuses(policy);
        let worst = statuses.into_iter().max_by_key(|(_, status)| status.state.severity());
        let unconnected = reconciler.unconnected_of_policy(policy);
        let retired_reason = reconciler.why_not_retired(policy);
        let retired_reason = retired_reason.map(|(id, why)| format!("switch {id}: {why}"));
        let (state, reason) = match (&policy.current, worst, unconnected.first()) {
            (None, ..) => ("removing", retired_reason.clone()),
            (_, Some((_, status)), _) if status.state.severity() > 0 => {
                (status.state.name(), status.state.reason().map(str::to_owned))
            }
            (_, _, Some(switch)) => ("pending", Some(format!("switch {switch} is not connected"))),
            _ => ("installed", None),
        };
        let entries = match &policy.current {
            Some(version) => EntryCounts::new(version),
            None => EntryCounts { ingress: 0, transit: 0 },
        };
        Self {
            name: policy.name.clone(),
            flows: policy.flows.len(),
            by: policy.by.clone(),
            changed_at_unix_s: policy.changed_at.as_secs(),
            state,
            reason,
            vlan: policy.current.as_ref().map(|version| version.tag),
            retired_vlans: policy.retired.iter().map(|version| version.tag).collect(),
            retired_reason,
            entries,
        }
    }
}
