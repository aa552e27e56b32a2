//! The configuration of static entries.

use sluice_declared::reconcile::Timing;
use sluice_declared::{Config, Reserved};
use sluice_sdk::allocation::Allocations;

use crate::config::{RunConfig, configured_priorities};
use crate::state_dir::state_dir;

/// The configuration of static entries, which must not use what applications use.
pub(crate) fn declared_config(config: &RunConfig, allocations: &Allocations) -> Config {
    let priorities = configured_priorities(config).map(|(owner, _, range)| (owner, range));
    Config {
        state_dir: state_dir(&config.state_dir),
        reserved: Reserved::new(allocations, priorities),
        timing: Timing::default(),
        policy_tags: config.policy_tags.clone(),
    }
}
