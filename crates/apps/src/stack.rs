//! Applications in a row, chosen by name.

use std::fmt;
use std::time::Instant;

use sluice_openflow::view::{ErrorMsg, FlowRemoved, PacketIn, PacketIns};
use sluice_openflow::{Encoder, MultipartType, PortStatus, SwitchFeatures};
use sluice_sdk::view::PublishedFact;
use sluice_sdk::{App, Ctx, Gauge, Network, SwitchIndex, Verdict};

use crate::{forwarding, hosts, hub, learning, limiter, topology};

/// Why names are no row of applications.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowError {
    /// No application has this name.
    Unknown(String),
    /// This application understands what these tell, and they do not stand before it.
    Needs(&'static str, &'static [&'static str]),
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                write!(f, "unknown application \"{name}\" (known: {})", NAMES.join(", "))
            }
            Self::Needs(name, needs) => {
                let row = needs.join(",");
                write!(f, "{name} needs {} before it, as in {row},{name}", needs.join(" and "))
            }
        }
    }
}

impl std::error::Error for RowError {}

/// Applications that understand what others tell, and those others.
const NEEDS: &[(&str, &[&str])] = &[("forwarding", &["topology", "hosts"])];

/// Whether `names` are a row of applications.
///
/// # Errors
/// The first name that no application has; else the first application that lacks one before it.
pub fn check(names: &[String]) -> Result<(), RowError> {
    let unknown = names.iter().find(|name| !NAMES.contains(&name.as_str()));
    if let Some(name) = unknown {
        return Err(RowError::Unknown(name.clone()));
    }
    for &(name, needs) in NEEDS {
        let before = names.iter().take_while(|other| *other != name);
        let has = |need: &&str| before.clone().any(|other| other == need);
        if names.iter().any(|other| other == name) && !needs.iter().all(has) {
            return Err(RowError::Needs(name, needs));
        }
    }
    Ok(())
}

/// The applications of one worker, in the order in which they hear of a frame.
#[derive(Debug, Default)]
pub struct Stack(Vec<One>);

/// The row of `names`.
///
/// # Errors
/// As for [`check`].
pub fn stack(names: &[String], cfg: &Config) -> Result<Stack, RowError> {
    check(names)?;
    names.iter().map(|name| One::new(name, cfg)).collect::<Result<_, _>>().map(Stack)
}

impl Stack {
    /// Sets the applications otherwise.
    pub fn configure(&mut self, cfg: &Config) {
        self.0.iter_mut().for_each(|one| one.configure(cfg));
    }
}

/// One row per application; everything else here is read off them.
macro_rules! apps {
    ($($name:ident: $app:ident;)*) => {
        /// The names of all applications.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// How all applications are set.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct Config {
            $(#[doc = concat!("[`", stringify!($name), "`](crate::", stringify!($name), ").")]
            pub $name: $name::Config,)*
        }

        #[derive(Debug)]
        enum One {
            $($app(Box<$name::$app>),)*
        }

        impl One {
            fn new(name: &str, cfg: &Config) -> Result<Self, RowError> {
                match name {
                    $(stringify!($name) => {
                        Ok(Self::$app(Box::new($name::$app::new(&cfg.$name))))
                    })*
                    _ => Err(RowError::Unknown(name.to_owned())),
                }
            }

            fn configure(&mut self, cfg: &Config) {
                match self {
                    $(Self::$app(app) => app.configure(&cfg.$name),)*
                }
            }
        }

        impl Stack {
            #[inline]
            fn each(&mut self, mut tell: impl FnMut(&mut dyn App)) {
                for one in &mut self.0 {
                    match one {
                        $(One::$app(app) => tell(&mut **app),)*
                    }
                }
            }
        }

        impl App for Stack {
            fn on_iteration(&mut self, now: Instant) {
                self.each(|app| app.on_iteration(now));
            }

            fn initial_messages(&self, out: &mut Encoder<'_>) {
                for one in &self.0 {
                    match one {
                        $(One::$app(app) => app.initial_messages(out),)*
                    }
                }
            }

            fn on_switch_connected(&mut self, features: &SwitchFeatures, ctx: &mut Ctx<'_>) {
                self.each(|app| app.on_switch_connected(features, ctx));
            }

            fn on_switch_disconnected(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
                self.each(|app| app.on_switch_disconnected(sw, now, network));
            }

            fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
                self.each(|app| app.on_tick(ctx));
            }

            fn on_fact(&mut self, told: &PublishedFact, now: Instant, network: &mut Network) {
                self.each(|app| app.on_fact(told, now, network));
            }

            fn fast_path(&mut self, frames: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
                for one in &mut self.0 {
                    match one {
                        $(One::$app(app) => {
                            app.fast_path(frames, ctx);
                            if app.inspects_every_packet() {
                                return;
                            }
                        })*
                    }
                }
            }

            #[inline]
            fn on_packet_ins(&mut self, frames: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
                match &mut self.0[..] {
                    $([One::$app(app)] => app.on_packet_ins(frames, ctx),)*
                    _ => loop {
                        self.fast_path(frames, ctx);
                        let Some(p) = frames.next() else { break };
                        self.on_packet_in(&p, ctx);
                    },
                }
            }

            fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
                for one in &mut self.0 {
                    let then = match one {
                        $(One::$app(app) => app.on_packet_in(p, ctx),)*
                    };
                    if then == Verdict::Stop {
                        return Verdict::Stop;
                    }
                }
                Verdict::Continue
            }

            fn on_flow_removed(&mut self, removed: &FlowRemoved<'_>, ctx: &mut Ctx<'_>) {
                self.each(|app| app.on_flow_removed(removed, ctx));
            }

            fn on_port_status(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
                self.each(|app| app.on_port_status(status, ctx));
            }

            fn on_error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
                self.each(|app| app.on_error(error, ctx));
            }

            fn on_barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
                self.each(|app| app.on_barrier_reply(xid, ctx));
            }

            fn on_multipart_reply(
                &mut self,
                xid: u32,
                kind: MultipartType,
                body: &[u8],
                ctx: &mut Ctx<'_>,
            ) {
                self.each(|app| app.on_multipart_reply(xid, kind, body, ctx));
            }

            fn gauges(&self, put: &mut dyn FnMut(Gauge)) {
                for one in &self.0 {
                    match one {
                        $(One::$app(app) => app.gauges(put),)*
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
    fn a_row_of_which_one_lacks_what_it_needs_is_refused() {
        let row = |names: &str| check(&names.split(',').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(row("limiter,learning"), Ok(()));
        let unknown = row("limiter,lerning").unwrap_err().to_string();
        assert!(unknown.starts_with("unknown application \"lerning\" (known: "), "{unknown}");
        let lacks =
            "forwarding needs topology and hosts before it, as in topology,hosts,forwarding";
        assert_eq!(row("forwarding").unwrap_err().to_string(), lacks);
        assert_eq!(row("hub,forwarding,learning").unwrap_err().to_string(), lacks);
        assert!(stack(&["forwarding".to_owned()], &Config::default()).is_err());
    }
}
