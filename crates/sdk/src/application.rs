//! Applications that are chosen by name, and their configurations.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::allocation::Allocation;
use crate::app::App;

/// An application that can be part of a [`Chain`](crate::Chain) by its name.
///
/// ```
/// use sluice_openflow::view::PacketIn;
/// use sluice_sdk::allocation::Allocation;
/// use sluice_sdk::flow_space::EntryKind;
/// use sluice_sdk::{App, Application, Ctx, Registry, Verdict};
///
/// /// The flow entries that it writes.
/// const ENTRIES: EntryKind = EntryKind::with_prefix("drop-all", *b"drop", 2000..=2000);
///
/// /// Drops everything, or nothing.
/// struct DropAll {
///     config: Config,
/// }
///
/// #[derive(Debug, Clone, PartialEq, Default)]
/// struct Config {
///     is_active: bool,
/// }
///
/// impl App for DropAll {
///     fn on_packet_in(&mut self, _: &PacketIn<'_>, _: &mut Ctx<'_>) -> Verdict {
///         if self.config.is_active { Verdict::Stop } else { Verdict::Continue }
///     }
/// }
///
/// impl Application for DropAll {
///     const NAME: &'static str = "drop-all";
///     const DESCRIPTION: &'static str = "drops everything";
///     const ALLOCATION: Allocation = Allocation::of_entries(&[ENTRIES]);
///     type Config = Config;
///
///     fn new(config: &Config) -> Self {
///         Self { config: config.clone() }
///     }
///
///     fn configure(&mut self, config: &Config) {
///         self.config = config.clone();
///     }
/// }
///
/// assert!(Registry::default().register::<DropAll>().is_ok());
/// ```
pub trait Application: App + Send + Sized + 'static {
    /// Its name in the configuration: small letters, digits and hyphens, beginning with a letter.
    const NAME: &'static str;

    /// What it does, as a phrase that follows the name in a list.
    const DESCRIPTION: &'static str;

    /// Applications that must be before it in the chain, since it uses facts that they publish.
    const REQUIRES: &'static [&'static str] = &[];

    /// Cookies, priorities, meters, groups and tables that it uses.
    const ALLOCATION: Allocation = Allocation::NONE;

    /// Its configuration.
    type Config: Default + Clone + PartialEq + fmt::Debug + Send + Sync + 'static;

    /// The instance of one worker. Another one, of the acceptor, writes [initial messages](App::initial_messages) only.
    fn new(config: &Self::Config) -> Self;

    /// Applies a changed configuration.
    fn configure(&mut self, config: &Self::Config);
}

/// The configuration of an application of any type.
#[derive(Debug, Clone)]
pub struct AppConfig(Arc<dyn AnyConfig>);

trait AnyConfig: Any + fmt::Debug + Send + Sync {
    fn equals(&self, other: &dyn AnyConfig) -> bool;
}

impl<C: PartialEq + fmt::Debug + Send + Sync + 'static> AnyConfig for C {
    fn equals(&self, other: &dyn AnyConfig) -> bool {
        (other as &dyn Any).downcast_ref::<Self>().is_some_and(|other| self == other)
    }
}

impl AppConfig {
    /// Wraps a configuration.
    pub fn new<C: PartialEq + fmt::Debug + Send + Sync + 'static>(config: C) -> Self {
        Self(Arc::new(config))
    }

    /// The configuration, if it is a `C`.
    pub fn get<C: 'static>(&self) -> Option<&C> {
        let config: &dyn Any = &*self.0;
        config.downcast_ref()
    }
}

impl PartialEq for AppConfig {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
    }
}

/// Configurations of applications, by their names. An application that is not among them has its default.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AppConfigs(BTreeMap<&'static str, AppConfig>);

impl AppConfigs {
    /// Sets the configuration of an application.
    pub fn insert(&mut self, name: &'static str, config: AppConfig) {
        self.0.insert(name, config);
    }

    /// Sets the configuration of `A`.
    #[must_use]
    pub fn with<A: Application>(mut self, config: &A::Config) -> Self {
        self.insert(A::NAME, AppConfig::new(config.clone()));
        self
    }

    /// The configuration of an application, if it is not the default.
    pub fn get(&self, name: &str) -> Option<&AppConfig> {
        self.0.get(name)
    }
}
