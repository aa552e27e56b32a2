//! Chains of applications that are chosen by name.

use std::fmt;
use std::time::Instant;

use sluice_openflow::view::{ErrorMsg, FlowRemoved, PacketIn, PacketIns};
use sluice_openflow::{Encoder, MultipartType, PortStatus, SwitchFeatures};
use sluice_sdk::view::PublishedFact;
use sluice_sdk::{Answer, App, AppMetric, Ctx, Network, SwitchIndex, Ticket, Verdict};

use crate::{forwarding, hosts, hub, learning, limiter, topology};

/// Applications that are not a valid chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainError {
    /// There is no application of this name.
    Unknown(String),
    /// An application is in the chain twice.
    Repeated(String),
    /// The first application uses facts that the others publish, and not all of these are before it.
    Missing(&'static str, &'static [&'static str]),
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                write!(f, "unknown application \"{name}\" (known: {})", NAMES.join(", "))
            }
            Self::Repeated(name) => write!(f, "application \"{name}\" is given twice"),
            Self::Missing(name, required) => {
                let (all, chain) = (required.join(" and "), required.join(","));
                write!(f, "{name} requires {all} before it, as in {chain},{name}")
            }
        }
    }
}

impl std::error::Error for ChainError {}

/// Applications that use facts which other applications publish, and these others.
const REQUIRED: &[(&str, &[&str])] = &[("forwarding", &["topology", "hosts"])];

/// Checks that `names` are applications, each at most once, in an order in which each has those before it that it requires.
///
/// # Errors
/// The first unknown name; or else the first that is repeated; or else the first application that lacks a required one.
pub fn check(names: &[String]) -> Result<(), ChainError> {
    let unknown = names.iter().find(|name| !NAMES.contains(&name.as_str()));
    if let Some(name) = unknown {
        return Err(ChainError::Unknown(name.clone()));
    }
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name) {
            return Err(ChainError::Repeated(name.clone()));
        }
        seen.push(name);
    }
    for &(name, required) in REQUIRED {
        let before = names.iter().take_while(|other| *other != name);
        let has = |need: &&str| before.clone().any(|other| other == need);
        if names.iter().any(|other| other == name) && !required.iter().all(has) {
            return Err(ChainError::Missing(name, required));
        }
    }
    Ok(())
}

/// The chain of applications of one worker. A packet-in goes to each of them in order, until one stops it.
#[derive(Debug, Default)]
pub struct Chain(Vec<AnyApp>);

impl Chain {
    /// The applications with these names, in this order.
    ///
    /// # Errors
    /// As [`check`].
    pub fn new(names: &[String], cfg: &Config) -> Result<Self, ChainError> {
        check(names)?;
        names.iter().map(|name| AnyApp::new(name, cfg)).collect::<Result<_, _>>().map(Self)
    }

    /// Applies a new configuration to all applications.
    pub fn configure(&mut self, cfg: &Config) {
        self.0.iter_mut().for_each(|app| app.configure(cfg));
    }
}

/// One row for each application: its module and its type. The module also has a `Config`; the type has the functions
/// `new(&Config)` and `configure(&mut self, &Config)`.
macro_rules! apps {
    ($($name:ident: $app:ident;)*) => {
        /// The names of all applications.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// The configuration of all applications.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct Config {
            $(#[doc = concat!("Configuration of [`", stringify!($name), "`](mod@crate::", stringify!($name), ").")]
            pub $name: $name::Config,)*
        }

        #[derive(Debug)]
        enum AnyApp {
            $($app(Box<$name::$app>),)*
        }

        impl AnyApp {
            fn new(name: &str, cfg: &Config) -> Result<Self, ChainError> {
                match name {
                    $(stringify!($name) => {
                        Ok(Self::$app(Box::new($name::$app::new(&cfg.$name))))
                    })*
                    _ => Err(ChainError::Unknown(name.to_owned())),
                }
            }

            fn configure(&mut self, cfg: &Config) {
                match self {
                    $(Self::$app(app) => app.configure(&cfg.$name),)*
                }
            }
        }

        impl Chain {
            #[inline]
            fn for_each(&mut self, mut call: impl FnMut(&mut dyn App)) {
                for app in &mut self.0 {
                    match app {
                        $(AnyApp::$app(app) => call(&mut **app),)*
                    }
                }
            }
        }

        impl App for Chain {
            fn on_iteration(&mut self, now: Instant) {
                self.for_each(|app| app.on_iteration(now));
            }

            fn initial_messages(&self, out: &mut Encoder<'_>) {
                for app in &self.0 {
                    match app {
                        $(AnyApp::$app(app) => app.initial_messages(out),)*
                    }
                }
            }

            fn on_switch_connected(&mut self, features: &SwitchFeatures, ctx: &mut Ctx<'_>) {
                self.for_each(|app| app.on_switch_connected(features, ctx));
            }

            fn on_switch_disconnected(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
                self.for_each(|app| app.on_switch_disconnected(sw, now, network));
            }

            fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
                self.for_each(|app| app.on_tick(ctx));
            }

            fn on_fact(&mut self, published: &PublishedFact, now: Instant, network: &mut Network) {
                self.for_each(|app| app.on_fact(published, now, network));
            }

            fn on_deferred_work(&mut self, now: Instant, network: &mut Network) {
                self.for_each(|app| app.on_deferred_work(now, network));
            }

            fn on_switch_work(&mut self, ctx: &mut Ctx<'_>) {
                self.for_each(|app| app.on_switch_work(ctx));
            }

            fn fast_path(&mut self, packet_ins: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
                for app in &mut self.0 {
                    match app {
                        $(AnyApp::$app(app) => {
                            app.fast_path(packet_ins, ctx);
                            if app.inspects_every_packet() {
                                return;
                            }
                        })*
                    }
                }
            }

            #[inline]
            fn on_packet_ins(&mut self, packet_ins: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
                match &mut self.0[..] {
                    $([AnyApp::$app(app)] => app.on_packet_ins(packet_ins, ctx),)*
                    _ => loop {
                        self.fast_path(packet_ins, ctx);
                        let Some(p) = packet_ins.next() else { break };
                        self.on_packet_in(&p, ctx);
                    },
                }
            }

            fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
                for app in &mut self.0 {
                    let verdict = match app {
                        $(AnyApp::$app(app) => app.on_packet_in(p, ctx),)*
                    };
                    if verdict == Verdict::Stop {
                        return Verdict::Stop;
                    }
                }
                Verdict::Continue
            }

            fn on_flow_removed(&mut self, removed: &FlowRemoved<'_>, ctx: &mut Ctx<'_>) {
                self.for_each(|app| app.on_flow_removed(removed, ctx));
            }

            fn on_port_status(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
                self.for_each(|app| app.on_port_status(status, ctx));
            }

            fn on_changes_lost(&mut self, ctx: &mut Ctx<'_>) {
                self.for_each(|app| app.on_changes_lost(ctx));
            }

            fn on_error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
                self.for_each(|app| app.on_error(error, ctx));
            }

            fn on_barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
                self.for_each(|app| app.on_barrier_reply(xid, ctx));
            }

            fn on_multipart_reply(
                &mut self,
                xid: u32,
                kind: MultipartType,
                body: &[u8],
                ctx: &mut Ctx<'_>,
            ) {
                self.for_each(|app| app.on_multipart_reply(xid, kind, body, ctx));
            }

            fn on_answer(
                &mut self,
                ticket: Ticket,
                answer: &Answer,
                now: Instant,
                network: &mut Network,
            ) {
                self.for_each(|app| app.on_answer(ticket, answer, now, network));
            }

            fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
                for app in &self.0 {
                    match app {
                        $(AnyApp::$app(app) => app.metrics(put),)*
                    }
                }
            }
        }
    };
}

apps! {
    topology: Topology;
    learning: Learning;
    hub: Hub;
    limiter: Limiter;
    hosts: Hosts;
    forwarding: Forwarding;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_that_lacks_a_required_application_is_refused() {
        let check = |names: &str| check(&names.split(',').map(str::to_owned).collect::<Vec<_>>());
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
        assert!(Chain::new(&["forwarding".to_owned()], &Config::default()).is_err());
    }
}
