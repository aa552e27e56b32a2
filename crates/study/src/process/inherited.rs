//! The environment variables that controllers inherit from the study and that may change what is measured.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// Beginnings of the names of variables that the dynamic linker, the C library, run-time systems and controllers read.
const PREFIXES: [&str; 34] = [
    "LD_",
    "GLIBC_",
    "MALLOC_",
    "OMP_",
    "PYTHON",
    "VIRTUAL_ENV",
    "EVENTLET_",
    "JAVA_",
    "_JAVA_",
    "JDK_",
    "KARAF_",
    "CLASSPATH",
    "GOMAXPROCS",
    "GOGC",
    "GOMEMLIMIT",
    "GODEBUG",
    "NODE_",
    "UV_",
    "RUBY",
    "PERL",
    "GHCRTS",
    "ERL_",
    "RUST_",
    "TOKIO_",
    "ONOS_",
    "FAUCET_",
    "RYU_",
    "OSKEN_",
    "OVS_",
    "JVM_",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
];

/// Parts of names and values, in capital letters, of variables whose values are not written into a study.
const SECRET: [&str; 4] = ["TOKEN", "SECRET", "PASS", "KEY"];

/// What is written instead. Even a hash would give a short secret away.
const NOT_RECORDED: &str = "(set; not recorded, since it may be secret)";

/// Those of `variables` that a controller inherits that sets `own` itself, by name. Of possible secrets, only that they are set.
pub(crate) fn inherited_variables(
    variables: impl Iterator<Item = (OsString, OsString)>,
    own: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut inherited = BTreeMap::new();
    for (name, value) in variables {
        let [name, value] = [name, value].map(|it| it.to_string_lossy().into_owned());
        // The settings of Sluice have sections: the other variables are those of its tools.
        let is_setting = name.starts_with("SLUICE_") && name.contains("__");
        let is_read = is_setting || PREFIXES.iter().any(|it| name.starts_with(it));
        if is_read && !own.contains_key(&name) {
            let value = if is_secret(&name, &value) { NOT_RECORDED.to_owned() } else { value };
            inherited.insert(name, value);
        }
    }
    inherited
}

/// Whether a variable may be or contain a secret, such as an option with a password or a URL with `user:password@`.
fn is_secret(name: &str, value: &str) -> bool {
    let text = format!("{name}\n{value}").to_ascii_uppercase();
    let has_user = value.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
    has_user || SECRET.iter().any(|it| text.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_controllers_read_are_inherited_without_secrets() {
        let variables = [
            ("JAVA_OPTS", "-Xmx1g"),
            ("PYTHONPATH", "/own"),
            ("SLUICE_WORKERS__COUNT", "2"),
            ("SLUICE_TOPOLOGY__SECRET", "0123"),
            // Those of tools, of the terminal and of the user.
            ("SLUICE_TOKEN", "0123"),
            ("SLUICE_CONTROLLERS", "/own/controllers"),
            ("SSH_TTY", "/dev/pts/1"),
            ("GOOGLE_API_KEY", "0123"),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let own = BTreeMap::from([("PYTHONPATH".to_owned(), "/other".to_owned())]);
        let inherited = inherited_variables(variables.into_iter(), &own);
        let names: Vec<_> = inherited.keys().map(String::as_str).collect();
        assert_eq!(names, ["JAVA_OPTS", "SLUICE_TOPOLOGY__SECRET", "SLUICE_WORKERS__COUNT"]);
        assert_eq!(inherited["JAVA_OPTS"], "-Xmx1g");
        assert_eq!(inherited["SLUICE_TOPOLOGY__SECRET"], NOT_RECORDED);
    }

    #[test]
    fn values_that_may_be_secret_are_not_recorded_whatever_their_names() {
        let recorded = |name: &str, value: &str| {
            let variables = [(name.into(), value.into())].into_iter();
            inherited_variables(variables, &BTreeMap::new()).remove(name).unwrap()
        };
        let secrets = [
            ("JAVA_OPTS", "-Xmx1g -Djavax.net.ssl.keyStorePassword=hunter2"),
            ("JAVA_OPTS", "-Dapi.token=hunter2"),
            ("NODE_OPTIONS", "--license-Secret hunter2"),
            ("ONOS_URL", "https://admin:hunter2@host/"),
            ("RYU_passphrase", "hunter2"),
            ("SLUICE_API__TOKEN", "hunter2"),
            ("SLUICE_API__TOKEN", ""),
        ];
        for (name, value) in secrets {
            assert_eq!(recorded(name, value), NOT_RECORDED, "{name}={value}");
        }
        for value in ["-Xmx1g", "https://host/path", "user@host", "a@b://c"] {
            assert_eq!(recorded("JAVA_OPTS", value), value);
        }
    }

    #[test]
    fn the_documentation_has_all_variables_that_are_recorded() {
        let docs = include_str!("../../../../docs/study.md");
        for prefix in PREFIXES {
            let is_listed = [format!("`{prefix}`"), format!("`{prefix}…`")];
            assert!(is_listed.iter().any(|it| docs.contains(it)), "{prefix}");
        }
    }
}
