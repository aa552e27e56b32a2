//! The HTTP API, version 1: the network as the controller sees it, and the tables of its switches. See `docs/api.md`.

pub(crate) mod access;
mod application_state;
mod benches;
mod capture;
mod configuration;
mod documents;
mod drains;
pub(crate) mod error;
mod events;
pub(crate) mod extract;
mod flow_deletion;
mod handlers;
mod live;
mod names;
mod openapi;
mod overview;
mod packets;
mod policies;
mod port_state;
mod ports;
mod quarantines;
pub(crate) mod reads;
pub(crate) mod requests;
mod static_documents;
mod static_entries;
mod static_form;
mod store_error;
mod tokens;
mod topology;
mod trace;
mod values;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::Router;
use sluice_base::metrics::MetricsSource;
use sluice_declared::{Declared, Names, Quarantine};
use sluice_openflow::{DatapathId, FlowDesc, MacAddr};
use sluice_sdk::Controller;
use sluice_sdk::allocation::Allocations;
use sluice_sdk::flow_space::STATIC;
use tokio::sync::Semaphore;
use utoipa_axum::router::OpenApiRouter;

use crate::connection_limit::{CONNECTIONS_MAX, ConnectionLimit};
use crate::events::Events;
use crate::metrics::WithApiMetrics;
use crate::port_statistics::PortStatistics;
use crate::routes::{Routes, routes};
use crate::settings::Settings;
use crate::source_limit::SourceLimit;
use crate::time_series::TimeSeries;
use crate::view_copy::ViewCopy;
use access::Access;
use benches::Benches;
pub(crate) use handlers::{method_not_allowed, not_found};
use reads::Reads;
use topology::TopologyCache;

/// What the handlers use.
#[derive(Clone)]
pub(crate) struct ApiState {
    pub(crate) controller: Arc<dyn Controller>,
    pub(crate) view: Arc<ViewCopy>,
    pub(crate) events: Arc<Events>,
    pub(crate) statistics: Arc<PortStatistics>,
    /// Those of the controller, followed by those of the API.
    pub(crate) metrics: Arc<dyn MetricsSource>,
    settings: Arc<Mutex<Settings>>,
    topology: Arc<TopologyCache>,
    /// Measurements that report here.
    benches: Arc<Benches>,
    /// How the controller did in the last hour.
    pub(crate) time_series: Arc<TimeSeries>,
    /// Limits the connections.
    pub(crate) connections: ConnectionLimit,
    /// Limits the streams of events.
    streams: SourceLimit,
    pub(crate) started: Instant,
    access: Access,
    /// Whose flow entry is which.
    owners: Arc<Allocations>,
    /// Limits how many replies of switches are read at a time.
    pub(crate) reads: Arc<Reads>,
    /// Limits how many packets are traced at a time.
    traces: SourceLimit,
    /// Limits how many captures run at a time.
    captures: SourceLimit,
    /// Static entries, if they are kept.
    pub(crate) declared: Option<Arc<Declared>>,
    /// Changes of what is declared are written one after the other.
    writes: Arc<Semaphore>,
    /// Atomic changes and changes of policies wait for each other here. Of the former, only one at a time waits for `writes`: others, such as a
    /// quarantine, wait for one at most.
    atomic_changes: Arc<Semaphore>,
    /// Policies are planned one after the other, without being put into effect.
    plans: Arc<Semaphore>,
}

impl ApiState {
    pub(crate) fn new(
        controller: Arc<dyn Controller>,
        declared: Option<Arc<Declared>>,
        owners: Arc<Allocations>,
        metrics: Arc<dyn MetricsSource>,
        events: Arc<Events>,
        started: Instant,
        access: Access,
    ) -> Self {
        let reads = Arc::<Reads>::default();
        let of_api =
            WithApiMetrics { source: metrics, access: access.clone(), reads: reads.clone() };
        Self {
            controller,
            view: Arc::default(),
            events,
            statistics: Arc::default(),
            metrics: Arc::new(of_api),
            settings: Arc::default(),
            topology: Arc::default(),
            benches: Arc::default(),
            time_series: Arc::default(),
            connections: ConnectionLimit::new(CONNECTIONS_MAX),
            streams: SourceLimit::new(events::STREAMS_MAX),
            started,
            access,
            owners,
            reads,
            traces: SourceLimit::new(trace::TRACES_MAX),
            captures: SourceLimit::new(capture::CAPTURES_MAX),
            declared,
            writes: Arc::new(Semaphore::new(1)),
            atomic_changes: Arc::new(Semaphore::new(1)),
            plans: Arc::new(Semaphore::new(1)),
        }
    }

    /// The names that an operator has given.
    pub(crate) fn given_names(&self) -> Arc<Names> {
        let declared = self.declared.as_ref();
        declared.map(|it| it.read(|it| it.names().clone())).unwrap_or_default()
    }

    /// The name of the static entry that is a flow entry of a switch.
    fn static_entry(&self, at: DatapathId, flow: &FlowDesc) -> Option<String> {
        let is_static = STATIC.has_cookie(flow.cookie);
        let declared = self.declared.as_ref().filter(|_| is_static)?;
        declared.read(|it| it.entry_of(at, flow).map(|key| key.name.clone()))
    }

    /// The hosts in quarantine.
    fn quarantines(&self) -> BTreeMap<MacAddr, Arc<Quarantine>> {
        self.declared.as_ref().map(|it| it.quarantines()).unwrap_or_default()
    }

    fn settings(&self) -> Settings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows another configuration from now on.
    pub(crate) fn set_settings(&self, settings: Settings) {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
    }
}

/// The routes under `/v1`.
pub(crate) fn routes(state: ApiState) -> Router {
    all_routes::<Router<ApiState>>().merge(crate::ryu::routes()).with_state(state)
}

/// The OpenAPI document of all routes, as JSON. It is `docs/openapi.json`, which is what the API sends.
pub fn openapi_document() -> String {
    let routes = OpenApiRouter::with_openapi(openapi::base()).merge(all_routes());
    let document = openapi::complete(routes.split_for_parts().1);
    // Cannot fail: all keys are text.
    document.to_pretty_json().unwrap_or_default() + "\n"
}

/// Every route that the document describes.
fn all_routes<R: Routes>() -> R {
    R::new()
        .routes(routes!(openapi::document))
        .routes(routes!(handlers::controller))
        .routes(routes!(handlers::switches))
        .routes(routes!(handlers::switch))
        .merge(live::routes())
        .routes(routes!(handlers::links))
        .routes(routes!(handlers::hosts))
        .merge(tokens::routes())
        .merge(capture::routes())
        .merge(drains::routes())
        .merge(packets::routes())
        .merge(port_state::routes())
        .merge(flow_deletion::routes())
        .merge(policies::routes())
        .merge(quarantines::routes())
        .merge(static_entries::routes())
        .merge(trace::routes())
        .merge(application_state::routes())
        .merge(benches::routes())
        .merge(configuration::routes())
        .merge(events::routes())
        .merge(ports::routes())
        .merge(topology::routes())
        .merge(overview::routes())
}
