//! What the API shows of the configuration: the applications, and the limits.

use serde_json::Value;
use sluice_base::ordered;
use sluice_northbound::{ApplicationSettings, LimitSetting, Settings};

use crate::config::LoadedConfig;

/// Applications and limits of a configuration, and the cores of the workers.
pub(crate) fn settings(loaded: &LoadedConfig, worker_cores: &[Option<usize>]) -> Settings {
    let values = || {
        loaded.values().filter(|(key, ..)| !key.is_secret() && !key.is_experimental()).map(
            |(key, value, _)| {
                // Every value of a file can be written as JSON.
                (key, serde_json::to_value(value).unwrap_or(Value::Null))
            },
        )
    };
    let application = |name: &String| ApplicationSettings {
        name: name.clone(),
        settings: ordered(
            (values().filter(|(key, _)| key.section == name))
                .map(|(key, value)| (key.name.to_owned(), value)),
        ),
    };
    let limits = values().filter(|(key, _)| {
        let is_used = loaded.config.app_names.iter().any(|name| name == key.section);
        key.section == "limits" || (is_used && key.name.ends_with("_max"))
    });
    Settings {
        applications: loaded.config.app_names.iter().map(application).collect(),
        limits: limits
            .map(|(key, value)| LimitSetting {
                key: key.path.clone(),
                value,
                help: key.doc.clone(),
            })
            .collect(),
        worker_cores: worker_cores.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigSources;

    #[test]
    fn settings_have_the_chain_and_its_limits_but_no_secrets() {
        let sources = ConfigSources::default();
        let settings = settings(&sources.load().unwrap(), &[]);
        let names: Vec<_> = settings.applications.iter().map(|it| it.name.as_str()).collect();
        assert!(names.starts_with(&["topology", "hosts"]), "{names:?}");
        let topology = &settings.applications[0].settings;
        assert!(topology.contains_key("probe_interval_ms") && !topology.contains_key("secret"));
        let keys: Vec<_> = settings.limits.iter().map(|limit| limit.key.as_str()).collect();
        for key in ["limits.switches_max", "hosts.hosts_max"] {
            assert!(keys.contains(&key), "{keys:?}");
        }
        assert!(!keys.contains(&"learning.hosts_max"), "it does not run");
    }
}
