//! How the controller is configured, as the API shows it.

use std::collections::BTreeMap;

use serde_json::Value;

/// The applications and limits of the running configuration.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// In the order of the chain.
    pub applications: Vec<ApplicationSettings>,
    /// Limits that can be configured.
    pub limits: Vec<LimitSetting>,
    /// The core to which each worker is bound; `None` if it is not.
    pub worker_cores: Vec<Option<usize>>,
}

/// An application of the chain.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplicationSettings {
    /// Its name, with which the names of its metrics begin.
    pub name: String,
    /// Values of its keys, without secrets.
    pub settings: BTreeMap<String, Value>,
}

/// A limit that can be configured.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitSetting {
    /// The key of the configuration.
    pub key: String,
    /// The value.
    pub value: Value,
    /// What it limits.
    pub help: String,
}
