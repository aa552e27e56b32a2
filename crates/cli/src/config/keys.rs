//! The list of keys, derived from the settings, and the flags that set them.

use std::sync::LazyLock;

use confique::Config as _;
use confique::meta::{Expr, Field, FieldKind, LeafKind};
use toml::Value;

use super::settings::Settings;

/// One key of the configuration.
#[derive(Debug, PartialEq)]
pub(crate) struct ConfigKey {
    /// Section and name, as in `workers.threads`.
    pub(crate) path: String,
    /// Section; empty for the keys at the top.
    pub(crate) section: &'static str,
    /// Name within the section.
    pub(crate) name: &'static str,
    /// The documentation: whole sentences.
    pub(crate) doc: String,
    pub(crate) default: Value,
    /// Whether a change takes effect at the next start, not at SIGHUP.
    pub(crate) needs_restart: bool,
    pub(crate) flags: Vec<&'static Flag>,
}

/// A flag that sets a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flag {
    /// The key that it sets.
    key: &'static str,
    pub(crate) name: &'static str,
    pub(crate) value: FlagValue,
}

/// The value that a flag gives to its key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FlagValue {
    /// The argument of the flag; the string is its name in the help.
    Given(&'static str),
    /// A fixed value.
    Fixed { text: &'static str, help: &'static str },
}

const FLAGS: &[Flag] = &[
    flag("listen", "listen", "ADDR"),
    flag("tls.listen", "tls-listen", "ADDR"),
    flag("tls.certificate", "tls-cert", "FILE"),
    flag("tls.key", "tls-key", "FILE"),
    flag("tls.client_ca", "tls-ca", "FILE"),
    flag("apps", "app", "NAMES"),
    flag("workers.threads", "threads", "N"),
    flag("workers.pin", "pin", "on|off|CORES"),
    flag("workers.spin_us", "spin", "US"),
    flag("workers.engine", "engine", "ENGINE"),
    flag("state.dir", "state-dir", "DIR"),
    flag("api.listen", "api", "ADDR"),
    Flag {
        key: "api.listen",
        name: "no-api",
        value: FlagValue::Fixed { text: "off", help: "Serve no metrics over HTTP" },
    },
    flag("api.socket", "api-socket", "PATH"),
    flag("api.certificate", "api-cert", "FILE"),
    flag("api.key", "api-key", "FILE"),
    flag("api.tokens", "api-tokens", "FILE"),
    flag("log.level", "log-level", "LEVEL"),
    flag("log.format", "log-format", "text|json"),
];

const fn flag(key: &'static str, name: &'static str, value: &'static str) -> Flag {
    Flag { key, name, value: FlagValue::Given(value) }
}

/// Keys whose change takes effect at the next start, because threads, sockets and applications are created once.
const NEEDS_RESTART: &[&str] = &[
    "apps",
    "workers.threads",
    "workers.pin",
    "workers.spin_us",
    "workers.engine",
    "limits.syn_filter",
    "socket.congestion",
    "topology.secret",
    "state.dir",
    "policies.vlans",
    "api.listen",
    "api.socket",
    "log.format",
    "optimisations.adaptive_reads",
    "optimisations.run_to_completion",
    "optimisations.huge_pages",
];

/// Every key, in the order of the example file.
pub(crate) static KEYS: LazyLock<Vec<ConfigKey>> = LazyLock::new(|| {
    let fields = Settings::META.fields.iter();
    fields
        .flat_map(|field| match field.kind {
            FieldKind::Nested { meta } => {
                meta.fields.iter().map(|inner| ConfigKey::new(field.name, inner)).collect()
            }
            FieldKind::Leaf { .. } => vec![ConfigKey::new("", field)],
        })
        .collect()
});

impl ConfigKey {
    fn new(section: &'static str, field: &'static Field) -> Self {
        // The field of the key `match`, a keyword of Rust, is `match_`.
        let name = field.name.trim_end_matches('_');
        let path = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
        let doc: Vec<_> = field.doc.iter().map(|line| line.trim()).collect();
        let default = match &field.kind {
            FieldKind::Leaf { kind: LeafKind::Required { default: Some(expr) }, .. } => value(expr),
            // No key is optional or nested twice: a test compares the number of defaults.
            _ => None,
        };
        Self {
            section,
            name,
            doc: doc.join(" "),
            default: default.unwrap_or(Value::Boolean(false)),
            needs_restart: NEEDS_RESTART.contains(&path.as_str()),
            flags: FLAGS.iter().filter(|flag| flag.key == path).collect(),
            path,
        }
    }

    /// The key of this section and name.
    pub(crate) fn find(path: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.path == path)
    }

    /// The environment variable that sets the key.
    pub(crate) fn env(&self) -> String {
        format!("SLUICE_{}", self.path.replace('.', "__").to_uppercase())
    }

    /// Whether the key may change without notice.
    /// Whether the value must not be printed.
    pub(crate) fn is_secret(&self) -> bool {
        self.path == "topology.secret"
    }

    pub(crate) fn is_experimental(&self) -> bool {
        self.section == "experimental"
    }
}

/// A default as TOML.
fn value(expr: &Expr) -> Option<Value> {
    Value::try_from(expr).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_default_a_unique_name_and_documentation() {
        for (at, key) in KEYS.iter().enumerate() {
            assert!(key.doc.ends_with('.'), "{}", key.path);
            assert!(KEYS.iter().skip(at + 1).all(|other| other.env() != key.env()));
        }
        let has_default = |field: &Field| {
            let FieldKind::Leaf { kind: LeafKind::Required { default }, .. } = field.kind else {
                return false;
            };
            default.is_some_and(|expr| value(&expr).is_some())
        };
        let sections = Settings::META.fields.iter().map(|field| match field.kind {
            FieldKind::Nested { meta } => meta.fields,
            FieldKind::Leaf { .. } => std::slice::from_ref(field),
        });
        assert!(sections.flatten().all(has_default));
    }

    #[test]
    fn flags_and_restart_list_refer_to_existing_keys() {
        let named = FLAGS.iter().map(|flag| flag.key).chain(NEEDS_RESTART.iter().copied());
        named.for_each(|path| assert!(ConfigKey::find(path).is_some(), "{path}"));
    }
}
