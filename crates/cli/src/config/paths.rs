//! Paths in a configuration file. A relative one starts at the folder of the file, so that a service and a person read the same files.

use std::path::{Path, PathBuf};

use toml::Value;

use super::keys::ConfigKey;

/// Keys whose values are paths.
const PATHS: &[&str] = &[
    "tls.certificate",
    "tls.key",
    "tls.client_ca",
    "state.dir",
    "api.socket",
    "api.certificate",
    "api.key",
    "api.tokens",
];

/// The key whose value is a list of sections with paths.
const LISTENERS: &str = "tls.listeners";

/// Keys of these sections whose values are paths.
const LISTENER_PATHS: &[&str] = &["certificate", "key", "client_ca"];

/// The value of `key` in a file of `folder`, in which no path is relative to that folder any more.
pub(super) fn resolve(key: &ConfigKey, value: &Value, folder: &Path) -> Value {
    match value {
        Value::String(path) if PATHS.contains(&key.path.as_str()) => resolve_path(path, folder),
        Value::Array(listeners) if key.path == LISTENERS => {
            Value::Array(listeners.iter().map(|it| resolve_listener(it, folder)).collect())
        }
        other => other.clone(),
    }
}

fn resolve_listener(listener: &Value, folder: &Path) -> Value {
    let Value::Table(keys) = listener else { return listener.clone() };
    let resolved = keys.iter().map(|(name, value)| {
        let value = match value {
            Value::String(path) if LISTENER_PATHS.contains(&name.as_str()) => {
                resolve_path(path, folder)
            }
            other => other.clone(),
        };
        (name.clone(), value)
    });
    Value::Table(resolved.collect())
}

/// An empty text is no path, and stays empty.
fn resolve_path(path: &str, folder: &Path) -> Value {
    let resolved = if path.is_empty() { PathBuf::new() } else { folder.join(path) };
    Value::String(resolved.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::env;

    use toml::Table;

    use super::super::keys::{FlagValue, KEYS};
    use super::super::tests::load;
    use super::*;

    #[test]
    fn a_relative_path_starts_at_the_folder_of_the_file_or_else_at_the_current_one() {
        let text =
            "[state]\ndir = \"state\"\n[api]\nsocket = \"/run/api.sock\"\ntokens = \"none.json\"\n";
        let config = load("paths", text, &[], "").config;
        assert_eq!(PathBuf::from(config.state_dir), env::temp_dir().join("state"));
        assert_eq!(config.api.socket.unwrap(), Path::new("/run/api.sock"));
        let tokens = config.api.access.tokens.unwrap();
        assert_eq!(tokens.path(), env::temp_dir().join("none.json"));
        let env = [("SLUICE_API__SOCKET", "api.sock")];
        let config = load("paths-given", text, &env, "--state-dir state").config;
        assert_eq!(config.state_dir, "state");
        assert_eq!(config.api.socket.unwrap(), Path::new("api.sock"));
    }

    #[test]
    fn paths_of_tls_listeners_are_resolved() {
        let listeners = |certificate: &str| {
            let text = format!(
                "[[listeners]]\nlisten = [\"6655\"]\ncertificate = \"{certificate}\"\nkey = \"/k.pem\"\nclient_ca = \"\"\n"
            );
            text.parse::<Table>().unwrap()["listeners"].clone()
        };
        let key = ConfigKey::find(LISTENERS).unwrap();
        let resolved = resolve(key, &listeners("c.pem"), Path::new("/etc/sluice"));
        assert_eq!(resolved, listeners("/etc/sluice/c.pem"));
    }

    #[test]
    fn exactly_the_keys_whose_flags_take_paths_are_paths() {
        for key in KEYS.iter() {
            let is_path =
                |value: &FlagValue| matches!(value, FlagValue::Given("FILE" | "DIR" | "PATH"));
            let takes_path = key.flags.iter().any(|flag| is_path(&flag.value));
            assert_eq!(takes_path, PATHS.contains(&key.path.as_str()), "{}", key.path);
        }
    }
}
