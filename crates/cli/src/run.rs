//! `sluice run`: starts the parts of the controller, applies new configurations, and stops the parts.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{panic, thread};

use sluice_apps::Chain;
use sluice_apps::topology::WallClock;
use sluice_engine::{Engine, StartError};
use sluice_io::{clock, limits};
use sluice_northbound::{Listener, Server};
use tracing::{error, info, warn};

use crate::config::{ConfigKey, Inputs, Loaded, RunConfig};
use crate::log::Logging;
use crate::screen::Screen;
use crate::signals::{Signal, SignalReceiver};
use crate::{EXIT_FAILURE, advice, print, print_error, screen, signals};

/// File descriptors besides those of connections: standard streams, listeners, metrics, wake-ups.
const OTHER_FILES: usize = 256;

/// How long the workers may take to stop before the process ends anyway.
const STOP_TIMEOUT: Duration = Duration::from_millis(1500);

/// The key of the congestion control.
const CONGESTION: &str = "socket.congestion";

/// Runs the controller until a signal stops it.
pub(crate) fn run(inputs: Inputs, loaded: Loaded) -> ExitCode {
    match start_and_serve(inputs, loaded) {
        Ok(code) => code,
        Err(error) => {
            print_error(&error);
            ExitCode::from(EXIT_FAILURE)
        }
    }
}

fn start_and_serve(inputs: Inputs, loaded: Loaded) -> Result<ExitCode, String> {
    let too_few_files = raise_open_files(&loaded.config);
    let signals = SignalReceiver::new().map_err(|e| advice::cannot("receive signals", &e))?;
    let logging = Logging::start(loaded.config.log);
    let panicked = Arc::new(AtomicBool::new(false));
    stop_on_panic(Arc::clone(&panicked));
    if let Some(warning) = too_few_files {
        warn!("{warning}");
    }
    Running::start(inputs, loaded, &logging)?.serve(signals)?;
    Ok(ExitCode::from(if panicked.load(Relaxed) { EXIT_FAILURE } else { 0 }))
}

/// Lets a panic of any thread stop the process in order: a switch that is not served is worse off than one that looks for
/// another controller.
fn stop_on_panic(panicked: Arc<AtomicBool>) {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        report(info);
        // A failed HTTP request affects no switch.
        if thread::current().name() != Some("api") {
            panicked.store(true, Relaxed);
            signals::request_stop();
        }
    }));
}

/// A running controller.
struct Running<'l> {
    inputs: Inputs,
    /// The configuration of the start, which still holds for the keys that need a restart.
    started: Loaded,
    /// The configuration that was loaded last.
    loaded: Loaded,
    generation_id: u64,
    congestion: CongestionChoice,
    engine: Engine<Chain>,
    api: Option<Server>,
    logging: &'l Logging,
}

impl<'l> Running<'l> {
    fn start(inputs: Inputs, loaded: Loaded, logging: &'l Logging) -> Result<Self, String> {
        let config = &loaded.config;
        // Before the engine: if this fails, no switch has noticed anything.
        let listen =
            |address| Listener::new(address).map_err(|e| advice::metrics_listener(address, &e));
        let listener = config.api.map(listen).transpose()?;
        let generation_id = generation_id();
        let (engine, congestion) = start_engine(&loaded, generation_id)?;
        let serve = |listener: Listener| listener.serve(engine.metrics());
        let api = listener.map(serve).transpose();
        let api = api.map_err(|e| advice::cannot("serve metrics", &e))?;
        print(&first_screen(&loaded, &engine, api.as_ref()));
        let started = loaded.clone();
        Ok(Self { inputs, started, loaded, generation_id, congestion, engine, api, logging })
    }

    fn serve(mut self, mut signals: SignalReceiver) -> Result<(), String> {
        while signals.wait() == Signal::Reload {
            self.reload();
        }
        info!("stopping");
        drop(self.api);
        let (done, stopped) = mpsc::channel();
        let engine = self.engine;
        thread::spawn(move || {
            engine.stop();
            // After the time-out there is no receiver.
            let _ = done.send(());
        });
        let stopped = stopped.recv_timeout(STOP_TIMEOUT);
        stopped.map_err(|_| format!("a worker did not stop within {STOP_TIMEOUT:?}"))
    }

    /// Reads the configuration again and applies it as a whole, or not at all.
    fn reload(&mut self) {
        let refuse = |error: &dyn Display| {
            error!("configuration not reloaded, the previous one stays in effect: {error}");
        };
        let new = match self.inputs.load() {
            Ok(new) => new,
            Err(problems) => return problems.iter().for_each(|problem| refuse(problem)),
        };
        let apps = new.config.apps.clone();
        let config = engine_config(&new, self.generation_id, self.congestion);
        let applied = self.engine.apply(config, move |chain: &mut Chain| chain.configure(&apps));
        if let Err(e) = applied {
            return refuse(&advice::engine_start(&e));
        }
        self.logging.set_level(new.config.log.level);
        let changed = self.loaded.changed(&new);
        info!(changed = paths(&changed, |key| !key.needs_restart), "configuration reloaded");
        if let Some(warning) = raise_open_files(&new.config) {
            warn!("{warning}");
        }
        let waiting = paths(&self.started.changed(&new), |key| key.needs_restart);
        if !waiting.is_empty() {
            warn!(changed = waiting, "some changes take effect at a restart");
        }
        self.loaded = new;
    }
}

/// The names of some of `keys`.
fn paths(keys: &[&'static ConfigKey], is_meant: impl Fn(&ConfigKey) -> bool) -> String {
    let paths = keys.iter().filter(|key| is_meant(key)).map(|key| key.path.as_str());
    paths.collect::<Vec<_>>().join(" ")
}

/// The time, so that role requests of this controller come after those of the one before it. §6.3.7
fn generation_id() -> u64 {
    u64::try_from(clock::since_epoch().as_millis()).unwrap_or(u64::MAX)
}

/// Which congestion control the default stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CongestionChoice {
    AsConfigured,
    /// The system does not allow ours.
    SystemForDefault,
}

/// Starts the engine as `sluice run` does.
pub(crate) fn engine(loaded: &Loaded) -> Result<Engine<Chain>, String> {
    start_engine(loaded, generation_id()).map(|(engine, _)| engine)
}

/// Starts the engine with its applications. If the system does not allow the default congestion control, the system's own
/// is used: a default must not prevent a start.
fn start_engine(
    loaded: &Loaded,
    generation_id: u64,
) -> Result<(Engine<Chain>, CongestionChoice), String> {
    let (names, mut apps) = (loaded.config.app_names.clone(), loaded.config.apps.clone());
    apps.topology.clock = Some(WallClock { at: clock::now(), since_1970: clock::since_epoch() });
    // Loading the configuration has checked the names.
    let make = move |_| Chain::new(&names, &apps).unwrap_or_default();
    let start = |congestion| {
        let engine = Engine::start(engine_config(loaded, generation_id, congestion), make.clone());
        engine.map(|engine| (engine, congestion))
    };
    let started = match start(CongestionChoice::AsConfigured) {
        Err(e @ StartError::Congestion(..)) if loaded.is_default(CONGESTION) => {
            info!("{e}; using the congestion control of the system");
            start(CongestionChoice::SystemForDefault)
        }
        started => started,
    };
    started.map_err(|e| advice::engine_start(&e))
}

fn engine_config(
    loaded: &Loaded,
    generation_id: u64,
    congestion: CongestionChoice,
) -> sluice_engine::Config {
    let mut config = loaded.config.engine.clone();
    config.session.generation_id = generation_id;
    if congestion == CongestionChoice::SystemForDefault && loaded.is_default(CONGESTION) {
        config.socket.congestion = None;
    }
    config
}

/// Raises the limit of open files to what the limits of connections need. A warning if the system allows fewer.
fn raise_open_files(config: &RunConfig) -> Option<String> {
    let limits = &config.engine.limits;
    let connections = limits.switches_max.saturating_add(limits.handshakes_max);
    let wanted = connections.saturating_add(OTHER_FILES) as u64;
    let allowed = limits::raise_open_files(wanted);
    (allowed < wanted).then(|| advice::open_files(wanted, allowed))
}

fn first_screen(loaded: &Loaded, engine: &Engine<Chain>, api: Option<&Server>) -> String {
    let screen = Screen {
        listening: engine.addresses(),
        workers: engine.cores(),
        apps: &loaded.config.app_names,
        versions: loaded.config.engine.session.versions,
        metrics: api.map(Server::address),
        file: loaded.file.as_deref(),
        has_kernel_datapath: screen::has_kernel_datapath("/".as_ref()),
    };
    screen.text()
}
