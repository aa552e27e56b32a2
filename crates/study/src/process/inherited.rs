//! The environment variables that controllers inherit from the study and that may change what is measured.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::identity::identity_of;

/// Beginnings of the names of variables that the dynamic linker, the C library, run-time systems and controllers read.
const PREFIXES: [&str; 29] = [
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
];

/// Parts of the names of variables whose values are not written into a study.
const SECRET: [&str; 4] = ["TOKEN", "SECRET", "PASS", "KEY"];

/// Those of `variables` that a controller inherits that sets `own` itself, by name. Of secrets, length and hash are the value.
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
            let is_secret = SECRET.iter().any(|it| name.contains(it));
            let value = if is_secret { identity_of(value.as_bytes()) } else { value };
            inherited.insert(name, value);
        }
    }
    inherited
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
            ("SLUICE_CONTROLLERS", "/home/x"),
            ("SSH_TTY", "/dev/pts/1"),
            ("GOOGLE_API_KEY", "0123"),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let own = BTreeMap::from([("PYTHONPATH".to_owned(), "/other".to_owned())]);
        let inherited = inherited_variables(variables.into_iter(), &own);
        let names: Vec<_> = inherited.keys().map(String::as_str).collect();
        assert_eq!(names, ["JAVA_OPTS", "SLUICE_TOPOLOGY__SECRET", "SLUICE_WORKERS__COUNT"]);
        assert_eq!(inherited["JAVA_OPTS"], "-Xmx1g");
        assert!(inherited["SLUICE_TOPOLOGY__SECRET"].starts_with("4 bytes, "));
    }
}
