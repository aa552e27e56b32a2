//! `sluice run`: the parts are started, told of changes, and stopped.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{panic, thread};

use sluice_apps::Stack;
use sluice_apps::topology::Clock;
use sluice_engine::{Engine, StartError};
use sluice_io::{clock, limits};
use sluice_northbound::{Listener, Server};
use tracing::{error, info, warn};

use crate::config::{Effect, Inputs, Loaded, Plan, Row};
use crate::log::Logging;
use crate::screen::Screen;
use crate::signals::{Wish, Wishes};
use crate::{FAILED, advice, complain, print, signals};

/// File descriptors besides those of connections: standard streams, listeners, metrics, wakers.
const OTHER_FILES: usize = 256;

/// How long stopping in order may take before the process ends anyway.
const STOP_TIMEOUT: Duration = Duration::from_millis(1500);

/// The key of the congestion control.
const CONGESTION: &str = "socket.congestion";

/// Runs the controller until a signal ends it.
pub(crate) fn run(inputs: Inputs, loaded: Loaded) -> ExitCode {
    match prepare(&loaded.plan).and_then(|ground| serve(ground, inputs, loaded)) {
        Ok(code) => code,
        Err(why) => {
            complain(&why);
            ExitCode::from(FAILED)
        }
    }
}

/// What everything else stands on.
struct Ground {
    wishes: Wishes,
    logging: Logging,
    /// Whether a part of the program broke.
    broken: Arc<AtomicBool>,
}

fn prepare(plan: &Plan) -> Result<Ground, String> {
    let few_files = raise_open_files(plan);
    let wishes = Wishes::new().map_err(|e| advice::needed("hear signals", &e))?;
    let logging = Logging::start(plan.log).map_err(|e| advice::needed("start the log", &e))?;
    let broken = Arc::new(AtomicBool::new(false));
    stop_on_panic(Arc::clone(&broken));
    if let Some(warning) = few_files {
        warn!("{warning}");
    }
    Ok(Ground { wishes, logging, broken })
}

fn serve(ground: Ground, inputs: Inputs, loaded: Loaded) -> Result<ExitCode, String> {
    let Ground { wishes, logging, broken } = ground;
    let running = Running::start(inputs, loaded, logging.clone());
    let ended = running.and_then(|running| running.serve(wishes));
    logging.flush();
    ended.map(|()| ExitCode::from(if broken.load(Relaxed) { FAILED } else { 0 }))
}

/// Lets a part that breaks end the whole in order: a switch that nobody serves is worse off than one that looks for
/// another controller.
fn stop_on_panic(broken: Arc<AtomicBool>) {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        report(what);
        // Metrics are served by tasks that may break one by one.
        if thread::current().name() != Some("api") {
            broken.store(true, Relaxed);
            signals::stop();
        }
    }));
}

/// A controller that runs.
struct Running {
    inputs: Inputs,
    /// With this it was started; what needs a restart is still so.
    started: Loaded,
    /// This was read last.
    loaded: Loaded,
    generation_id: u64,
    congestion: Congestion,
    engine: Engine<Stack>,
    api: Option<Server>,
    logging: Logging,
}

impl Running {
    fn start(inputs: Inputs, loaded: Loaded, logging: Logging) -> Result<Self, String> {
        let plan = &loaded.plan;
        // First of all, since it can fail without a switch having noticed anything.
        let listener = plan.api.map(|at| Listener::new(at).map_err(|e| advice::api(at, &e)));
        let listener = listener.transpose()?;
        let generation_id = generation_id();
        let (engine, congestion) = start_engine(&loaded, generation_id)?;
        let serve = |listener: Listener| listener.serve(engine.metrics());
        let api = listener.map(serve).transpose();
        let api = api.map_err(|e| advice::needed("serve metrics", &e))?;
        print(&screen(&loaded, &engine, api.as_ref()));
        let started = loaded.clone();
        Ok(Self { inputs, started, loaded, generation_id, congestion, engine, api, logging })
    }

    fn serve(mut self, mut wishes: Wishes) -> Result<(), String> {
        while wishes.wait() == Wish::Reload {
            self.reload();
        }
        info!("stopping");
        drop(self.api);
        let (done, stopped) = mpsc::channel();
        let engine = self.engine;
        thread::spawn(move || {
            engine.stop();
            // Nobody waits for it any more when it took too long.
            let _ = done.send(());
        });
        let stopped = stopped.recv_timeout(STOP_TIMEOUT);
        stopped.map_err(|_| format!("a worker did not stop within {STOP_TIMEOUT:?}"))
    }

    /// Reads the configuration again: all of it takes effect that can, or nothing does.
    fn reload(&mut self) {
        let refuse = |why: &dyn Display| error!("configuration refused, the old one stays: {why}");
        let new = match self.inputs.load() {
            Ok(new) => new,
            Err(problems) => return problems.iter().for_each(|problem| refuse(problem)),
        };
        let apps = new.plan.apps.clone();
        let config = engine_config(&new, self.generation_id, self.congestion);
        let applied = self.engine.apply(config, move |stack: &mut Stack| stack.configure(&apps));
        // What needs a restart is known from the rows, and for as long as it does.
        if let Err(e) = applied {
            return refuse(&advice::start(&e));
        }
        self.logging.set_level(new.plan.log.level);
        let changed = keys(&self.loaded.changed(&new), Effect::Live);
        info!(changed, "configuration read again");
        if let Some(warning) = raise_open_files(&new.plan) {
            warn!("{warning}");
        }
        let restart = keys(&self.started.changed(&new), Effect::Restart);
        if !restart.is_empty() {
            warn!(changed = restart, "some changes take effect at a restart");
        }
        self.loaded = new;
    }
}

fn keys(rows: &[&'static Row], effect: Effect) -> String {
    let keys = rows.iter().filter(|row| row.effect == effect).map(|row| row.key);
    keys.collect::<Vec<_>>().join(" ")
}

/// The time, so that a controller's requests for a role come after those of the one before it. §6.3.7
fn generation_id() -> u64 {
    u64::try_from(clock::since_epoch().as_millis()).unwrap_or(u64::MAX)
}

/// Whether the congestion control that nobody asked for may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Congestion {
    AsConfigured,
    SystemForDefault,
}

/// Starts the engine as `sluice run` does, for one that owns it.
pub(crate) fn engine(loaded: &Loaded) -> Result<Engine<Stack>, String> {
    start_engine(loaded, generation_id()).map(|(engine, _)| engine)
}

/// Starts the engine with its applications. A default must not keep anybody from starting, so where the system does not allow ours it is
/// the system's own.
fn start_engine(
    loaded: &Loaded,
    generation_id: u64,
) -> Result<(Engine<Stack>, Congestion), String> {
    let (names, mut apps) = (loaded.plan.names.clone(), loaded.plan.apps.clone());
    apps.topology.clock = Some(Clock { at: clock::now(), since_1970: clock::since_epoch() });
    // The names are known to be there: reading the configuration has asked.
    let make = move |_| sluice_apps::stack(&names, &apps).unwrap_or_default();
    let start = |congestion| {
        let engine = Engine::start(engine_config(loaded, generation_id, congestion), make.clone());
        engine.map(|engine| (engine, congestion))
    };
    let started = match start(Congestion::AsConfigured) {
        Err(e @ StartError::Congestion(..)) if loaded.is_default(CONGESTION) => {
            info!("{e}; using the system's own");
            start(Congestion::SystemForDefault)
        }
        started => started,
    };
    started.map_err(|e| advice::start(&e))
}

fn engine_config(
    loaded: &Loaded,
    generation_id: u64,
    congestion: Congestion,
) -> sluice_engine::Config {
    let mut config = loaded.plan.engine.clone();
    config.session.generation_id = generation_id;
    if congestion == Congestion::SystemForDefault && loaded.is_default(CONGESTION) {
        config.socket.congestion = None;
    }
    config
}

/// Asks the system for as many files as the limits allow connections. What to say if it gives less.
fn raise_open_files(plan: &Plan) -> Option<String> {
    let limits = &plan.engine.limits;
    let connections = limits.switches_max.saturating_add(limits.handshakes_max);
    let wanted = connections.saturating_add(OTHER_FILES) as u64;
    let allowed = limits::raise_open_files(wanted);
    (allowed < wanted).then(|| advice::files(wanted, allowed))
}

fn screen(loaded: &Loaded, engine: &Engine<Stack>, api: Option<&Server>) -> String {
    let screen = Screen {
        listening: engine.addresses(),
        workers: engine.cores(),
        apps: &loaded.plan.names,
        versions: loaded.plan.engine.session.versions,
        metrics: api.map(Server::address),
        file: loaded.file.as_deref(),
    };
    screen.text()
}
