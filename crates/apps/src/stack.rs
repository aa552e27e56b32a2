//! Applications in a row, chosen by name.

use std::fmt;
use std::time::Instant;

use sluice_app::view::Told;
use sluice_app::{App, Ctx, Gauge, Network, Sw, Then};
use sluice_wire::{
    ErrorMsg, Features, FlowRemovedView, MultipartKind, PacketIn, PacketIns, PortStatus,
};

use crate::{hosts, hub, learning, limiter, topology};

/// A name that no application has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownApp(pub String);

impl fmt::Display for UnknownApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no application `{}`; there are: {}", self.0, NAMES.join(", "))
    }
}

impl std::error::Error for UnknownApp {}

/// The applications of one worker, in the order in which they hear of a frame.
#[derive(Debug, Default)]
pub struct Stack(Vec<One>);

/// The row of `names`.
///
/// # Errors
/// The first name that no application has.
pub fn stack(names: &[String], cfg: &Config) -> Result<Stack, UnknownApp> {
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
            fn new(name: &str, cfg: &Config) -> Result<Self, UnknownApp> {
                match name {
                    $(stringify!($name) => {
                        Ok(Self::$app(Box::new($name::$app::new(&cfg.$name))))
                    })*
                    _ => Err(UnknownApp(name.to_owned())),
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
            fn on_time(&mut self, now: Instant) {
                self.each(|app| app.on_time(now));
            }

            fn switch_up(&mut self, features: &Features, ctx: &mut Ctx<'_>) {
                self.each(|app| app.switch_up(features, ctx));
            }

            fn switch_down(&mut self, sw: Sw, now: Instant, network: &mut Network) {
                self.each(|app| app.switch_down(sw, now, network));
            }

            fn time_passes(&mut self, ctx: &mut Ctx<'_>) {
                self.each(|app| app.time_passes(ctx));
            }

            fn told(&mut self, told: &Told, now: Instant, network: &mut Network) {
                self.each(|app| app.told(told, now, network));
            }

            fn usual(&mut self, frames: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
                for one in &mut self.0 {
                    match one {
                        $(One::$app(app) => {
                            app.usual(frames, ctx);
                            if app.watches() {
                                return;
                            }
                        })*
                    }
                }
            }

            #[inline]
            fn packet_ins(&mut self, frames: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
                match &mut self.0[..] {
                    $([One::$app(app)] => app.packet_ins(frames, ctx),)*
                    _ => loop {
                        self.usual(frames, ctx);
                        let Some(p) = frames.next() else { break };
                        self.packet_in(&p, ctx);
                    },
                }
            }

            fn packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Then {
                for one in &mut self.0 {
                    let then = match one {
                        $(One::$app(app) => app.packet_in(p, ctx),)*
                    };
                    if then == Then::Done {
                        return Then::Done;
                    }
                }
                Then::PassOn
            }

            fn flow_removed(&mut self, removed: &FlowRemovedView<'_>, ctx: &mut Ctx<'_>) {
                self.each(|app| app.flow_removed(removed, ctx));
            }

            fn port_status(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
                self.each(|app| app.port_status(status, ctx));
            }

            fn error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
                self.each(|app| app.error(error, ctx));
            }

            fn barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
                self.each(|app| app.barrier_reply(xid, ctx));
            }

            fn multipart_reply(
                &mut self,
                xid: u32,
                kind: MultipartKind,
                body: &[u8],
                ctx: &mut Ctx<'_>,
            ) {
                self.each(|app| app.multipart_reply(xid, kind, body, ctx));
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
}
