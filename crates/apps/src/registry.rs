//! All applications of this crate, by name.

use sluice_sdk::allocation::{self, Allocation};
use sluice_sdk::{AppConfigs, Application, Chain, ChainError, Registry, RegistryError};

use crate::{forwarding, hosts, hub, learning, limiter, topology};

/// One row for each application: its module and its type, what it does, which others must be before it, and what it uses in
/// switches. The module also has a `Config`; the type has the functions `new(&Config)` and `configure(&mut self, &Config)`.
macro_rules! applications {
    ($($name:ident: $app:ident, $description:literal, requires $requires:expr, uses $uses:expr;)*) => {
        /// The configuration of all applications.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct Config {
            $(#[doc = concat!("Configuration of [`", stringify!($name), "`](mod@crate::", stringify!($name), ").")]
            pub $name: $name::Config,)*
        }

        impl Config {
            /// The configurations by name.
            pub fn by_name(&self) -> AppConfigs {
                AppConfigs::default()$(.with::<$name::$app>(&self.$name))*
            }
        }

        $(impl Application for $name::$app {
            const NAME: &'static str = stringify!($name);
            const DESCRIPTION: &'static str = $description;
            const REQUIRES: &'static [&'static str] = &$requires;
            const ALLOCATION: Allocation = $uses;
            type Config = $name::Config;

            fn new(config: &$name::Config) -> Self {
                Self::new(config)
            }

            fn configure(&mut self, config: &$name::Config) {
                self.configure(config);
            }
        })*

        fn register_all(registry: &mut Registry) -> Result<(), RegistryError> {
            $(registry.register::<$name::$app>()?;)*
            Ok(())
        }
    };
}

applications! {
    topology: Topology, "discovers links between switches, and the roles of ports",
        requires [], uses allocation::TOPOLOGY;
    learning: Learning, "a learning switch, for networks without loops",
        requires [], uses allocation::LEARNING;
    hub: Hub, "floods every packet",
        requires [], uses Allocation::NONE;
    limiter: Limiter, "limits packet-ins of ports and hosts",
        requires [], uses allocation::LIMITER;
    hosts: Hosts, "learns where hosts are, and answers for them",
        requires [], uses Allocation::NONE;
    forwarding: Forwarding, "installs paths between hosts, and forwards broadcasts",
        requires ["topology", "hosts"], uses allocation::FORWARDING;
}

/// The applications of this crate. Others can be added.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    let registered = register_all(&mut registry);
    debug_assert!(registered.is_ok(), "{registered:?}");
    registry
}

/// A chain of applications of this crate.
///
/// # Errors
/// As [`Registry::check`].
pub fn chain(names: &[String], config: &Config) -> Result<Chain, ChainError> {
    Chain::new(&registry(), names, &config.by_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_applications_are_registered() {
        assert_eq!(register_all(&mut Registry::default()), Ok(()));
        let names: Vec<_> = registry().applications().iter().map(|app| app.name).collect();
        assert_eq!(names, ["topology", "learning", "hub", "limiter", "hosts", "forwarding"]);
    }

    #[test]
    fn a_chain_that_lacks_a_required_application_is_refused() {
        let check = |names: &str| {
            registry().check(&names.split(',').map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(check("limiter,learning"), Ok(()));
        let unknown = check("limiter,lerning").unwrap_err().to_string();
        assert!(
            unknown.starts_with("unknown application \"lerning\" (known: topology, "),
            "{unknown}"
        );
        let missing =
            "forwarding requires topology and hosts before it, as in topology,hosts,forwarding";
        assert_eq!(check("forwarding").unwrap_err().to_string(), missing);
        assert_eq!(check("hub,forwarding,learning").unwrap_err().to_string(), missing);
        let repeated = "application \"hub\" is given twice";
        assert_eq!(check("hub,learning,hub").unwrap_err().to_string(), repeated);
        assert_eq!(check(&vec!["hub"; 20_000].join(",")).unwrap_err().to_string(), repeated);
        assert!(chain(&["forwarding".to_owned()], &Config::default()).is_err());
    }
}
