//! `sluice run`: the parts are started, told of changes, and stopped.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use sluice_api::{Listener, Server};
use sluice_apps::Stack;
use sluice_engine::Engine;
use sluice_io::{clock, limits};
use tracing::{error, info, warn};

use crate::config::{Effect, Inputs, Loaded, Plan, Row};
use crate::log::Logging;
use crate::screen::Screen;
use crate::signals::{Wish, Wishes};
use crate::{FAILED, advice, complain, print};

/// File descriptors besides those of connections: standard streams, listeners, metrics, wakers.
const OTHER_FILES: usize = 256;

/// How long stopping in order may take before the process ends anyway.
const STOP_TIMEOUT: Duration = Duration::from_millis(1500);

/// Runs the controller until a signal ends it.
pub(crate) fn run(inputs: Inputs, loaded: Loaded) -> ExitCode {
    let running = Running::start(inputs, loaded);
    match running.and_then(|(running, wishes)| running.serve(wishes)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            complain(&why);
            ExitCode::from(FAILED)
        }
    }
}

/// A controller that runs.
struct Running {
    inputs: Inputs,
    /// With this it was started; what needs a restart is still so.
    started: Loaded,
    /// This was read last.
    loaded: Loaded,
    generation_id: u64,
    engine: Engine<Stack>,
    api: Option<Server>,
    logging: Logging,
}

impl Running {
    fn start(inputs: Inputs, loaded: Loaded) -> Result<(Self, Wishes), String> {
        let plan = &loaded.plan;
        let few_files = raise_open_files(plan);
        let wishes = Wishes::new().map_err(|e| advice::needed("hear signals", &e))?;
        let logging = Logging::start(plan.log).map_err(|e| advice::needed("start the log", &e))?;
        if let Some(warning) = few_files {
            warn!("{warning}");
        }
        // First of all, since it can fail without a switch having noticed anything.
        let listener = plan.api.map(|at| Listener::new(at).map_err(|e| advice::api(at, &e)));
        let listener = listener.transpose()?;
        let (names, apps) = (plan.names.clone(), plan.apps.clone());
        // The names are known to be there: reading the configuration has asked.
        let make = move |_| sluice_apps::stack(&names, &apps).unwrap_or_default();
        let generation_id = generation_id();
        let engine = Engine::start(engine_config(plan, generation_id), make)
            .map_err(|e| advice::start(&e))?;
        let serve = |listener: Listener| listener.serve(engine.metrics());
        let api = listener.map(serve).transpose();
        let api = api.map_err(|e| advice::needed("serve metrics", &e))?;
        print(&screen(&loaded, &engine, api.as_ref()));
        let started = loaded.clone();
        Ok((Self { inputs, started, loaded, generation_id, engine, api, logging }, wishes))
    }

    fn serve(mut self, mut wishes: Wishes) -> Result<(), String> {
        while wishes.wait() == Wish::Reload {
            self.reload();
        }
        info!("stopping");
        drop(self.api.take());
        let (done, stopped) = mpsc::channel();
        let engine = self.engine;
        thread::spawn(move || {
            engine.stop();
            // Nobody waits for it any more when it took too long.
            let _ = done.send(());
        });
        let stopped = stopped.recv_timeout(STOP_TIMEOUT);
        self.logging.flush();
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
        let config = engine_config(&new.plan, self.generation_id);
        let applied = self.engine.apply(config, move |stack: &mut Stack| stack.configure(&apps));
        // What needs a restart is known from the rows, and for as long as it does.
        if let Err(e) = applied {
            return refuse(&advice::start(&e));
        }
        self.logging.set_level(new.plan.log.level);
        let changed = keys(&self.loaded.changed(&new), Effect::Live);
        info!(changed, "configuration read again");
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

fn engine_config(plan: &Plan, generation_id: u64) -> sluice_engine::Config {
    let mut config = plan.engine.clone();
    config.session.generation_id = generation_id;
    config
}

/// Asks the system for as many files as the limits allow connections. What to say if it gives less.
fn raise_open_files(plan: &Plan) -> Option<String> {
    let limits = &plan.engine.limits;
    let connections = limits.sessions_max.saturating_add(limits.handshakes_max);
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
