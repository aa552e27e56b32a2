//! The REST API of Ryu: `/stats` as its application `ofctl_rest` has it, `/v1.0/topology` as `rest_topology`. See `docs/ryu.md`.
//!
//! Requests are read into the model of the crate `sluice-openflow`, and replies written from it, in the forms that Ryu has for each
//! version of OpenFlow.

mod action_texts;
mod actions;
mod bytes;
mod flows;
mod forms;
mod groups;
mod input;
mod instructions;
mod literal;
mod matches;
mod meters;
mod numbers;
mod ports;
mod queues;
mod reads;
mod switch;
mod tables;
mod topology;
mod writes;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{delete, get, post};

use crate::api::ApiState;

/// Bytes of the body of a request: more than the longest group has.
const BODY_LEN_MAX: usize = 256 << 10;

/// The routes, without the check of who asks.
pub(crate) fn routes() -> Router<ApiState> {
    let flows = || get(reads::flows).post(reads::flows);
    let aggregate = || get(reads::aggregate).post(reads::aggregate);
    Router::new()
        .route("/stats/switches", get(reads::switches))
        .route("/stats/flow/{dpid}", flows())
        .route("/stats/flowdesc/{dpid}", flows())
        .route("/stats/aggregateflow/{dpid}", aggregate())
        .route("/stats/role/{dpid}", get(reads::role))
        .route("/stats/{what}/{dpid}", get(reads::whole).post(writes::change))
        .route("/stats/{what}/{dpid}/{part}", get(reads::part))
        .route("/stats/{what}/{dpid}/{part}/{queue}", get(reads::queue))
        .route("/stats/flowentry/clear/{dpid}", delete(writes::clear))
        .route("/stats/role", post(writes::role))
        .route("/v1.0/topology/switches", get(topology::switches))
        .route("/v1.0/topology/switches/{dpid}", get(topology::switch))
        .route("/v1.0/topology/links", get(topology::links))
        .route("/v1.0/topology/links/{dpid}", get(topology::links_of))
        .route("/v1.0/topology/hosts", get(topology::hosts))
        .route("/v1.0/topology/hosts/{dpid}", get(topology::hosts_of))
        .layer(DefaultBodyLimit::max(BODY_LEN_MAX))
}
