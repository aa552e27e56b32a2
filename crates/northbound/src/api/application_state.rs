//! What an application shows of itself.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use sluice_base::sort_by_key;
use sluice_openflow::value::Value;
use sluice_sdk::AppState;
use tokio::sync::mpsc;
use tokio::time::timeout;
use utoipa::ToSchema;

use super::ApiState;
use super::error::{ApiError, ErrorDocument};
use super::extract::ApiPath;
use crate::routes::{Routes, routes};

/// How long workers may take to answer: they are not asked to wait for anything.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(application_state))
}

/// The state of an application.
#[derive(Serialize, ToSchema)]
struct ApplicationStateDocument {
    application: String,
    /// One for each worker that has answered, in the order of their numbers.
    workers: Vec<WorkerState>,
}

/// The state of an application on one worker.
#[derive(Serialize, ToSchema)]
struct WorkerState {
    worker: usize,
    /// What the application shows; `null` if that is too much.
    #[schema(value_type = Option<Object>)]
    state: Option<Value>,
    /// How many values it has, if they are too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted_values: Option<usize>,
}

/// What an application shows of itself, for each worker.
#[utoipa::path(
    get,
    path = "/v1/applications/{application}/state",
    params(("application" = String, Path, description = "Name of an application")),
    responses(
        (status = 200, body = ApplicationStateDocument),
        (status = 404, body = ErrorDocument, description = "No such application runs, or it shows no state")
    )
)]
async fn application_state(
    State(state): State<ApiState>,
    ApiPath(application): ApiPath<String>,
) -> Result<Json<ApplicationStateDocument>, ApiError> {
    let mut states = read(&state, &application).await;
    sort_by_key(&mut states, |state| state.worker);
    let workers: Vec<_> = states.into_iter().filter_map(WorkerState::of).collect();
    if workers.is_empty() {
        let message = format!("no application {application:?} that shows a state is running");
        return Err(ApiError::not_found("no_such_application", message));
    }
    Ok(Json(ApplicationStateDocument { application, workers }))
}

/// The answers of all workers that have answered in time.
async fn read(state: &ApiState, application: &str) -> Vec<AppState> {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    // All workers have answered, or will not, when they have dropped it.
    let on_state = Arc::new(move |state| {
        let _ = sender.send(state);
    });
    state.controller.read_state(application, on_state);
    let mut states = Vec::new();
    let _ = timeout(TIMEOUT, async {
        while let Some(state) = receiver.recv().await {
            states.push(state);
        }
    })
    .await;
    states
}

impl WorkerState {
    fn of(AppState { worker, state }: AppState) -> Option<Self> {
        match state {
            Ok(state) => {
                state.map(|state| Self { worker, state: Some(state), omitted_values: None })
            }
            Err(count) => Some(Self { worker, state: None, omitted_values: Some(count) }),
        }
    }
}
