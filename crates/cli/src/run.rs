//! `sluice run`: starts the parts of the controller, applies new configurations, and stops the parts.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{panic, thread};

use sluice_apps::topology::WallClock;
use sluice_declared::Declared;
use sluice_declared::store::OPEN_THREAD;
use sluice_engine::{Endpoint, Engine, PassedListener, StartError, TlsListeners};
use sluice_io::{clock, limits, service_manager};
use sluice_northbound::{EventLog, Listeners, Server};
use sluice_sdk::{App, AppConfigs, Chain};
use tracing::{error, info, warn};

use crate::config::{ConfigKey, ConfigSources, LoadedConfig, RunConfig};
use crate::declared_config::declared_config;
use crate::log::Logging;
use crate::passed_listeners::{PassedListeners, no_longer_configured};
use crate::service_status::{self, ServiceStatus};
use crate::signals::{Signal, SignalReceiver};
use crate::startup_message::StartupMessage;
use crate::{
    EXIT_FAILURE, Registry, advice, api_settings, print_error, signals, startup_message, state_dir,
    write_stdout,
};

/// File descriptors reserved for all that is not a connection to a switch: standard streams, listeners, metrics, wake-ups. If few
/// files may be open, half of them.
const OTHER_FILES: usize = 256;

/// How long the workers may take to stop before the process ends anyway.
const STOP_TIMEOUT: Duration = Duration::from_millis(1500);

/// The key of the congestion control.
const CONGESTION: &str = "socket.congestion";

/// Runs the controller until a signal stops it.
pub(crate) fn run(sources: ConfigSources, loaded: LoadedConfig) -> ExitCode {
    match start_and_serve(sources, loaded) {
        Ok(code) => code,
        Err(error) => {
            print_error(&error);
            ExitCode::from(EXIT_FAILURE)
        }
    }
}

fn start_and_serve(sources: ConfigSources, loaded: LoadedConfig) -> Result<ExitCode, String> {
    // Before anything opens files.
    let passed = service_manager::passed_sockets().map_err(|error| error.to_string())?;
    let passed = PassedListeners::assign(passed, &loaded.config)?;
    let too_few_files = OpenFiles::raise(&loaded.config).warning();
    let signals = SignalReceiver::new().map_err(|e| advice::cannot("receive signals", &e))?;
    let logging = Logging::start(loaded.config.log);
    let failure = FailureStop::default();
    failure.stop_on_panic();
    if let Some(warning) = too_few_files {
        warn!("{warning}");
    }
    let passed_names = passed.names();
    if !passed_names.is_empty() {
        info!("the service manager has opened {passed_names}");
    }
    let controller = RunningController::start(sources, loaded, passed, &logging)?;
    failure.stop_on_error(&controller.engine);
    let status = ServiceStatus::start(controller.engine.handle(), controller.engine.progress());
    let status = status.map_err(|e| advice::cannot("start a thread", &e))?;
    controller.serve(signals, status)?;
    Ok(ExitCode::from(if failure.0.load(Relaxed) { EXIT_FAILURE } else { 0 }))
}

/// Stops the process in order when a thread has failed: its switches can then connect to another controller, instead of
/// waiting for a worker that has ended.
#[derive(Clone, Default)]
struct FailureStop(Arc<AtomicBool>);

impl FailureStop {
    /// Requests the stop; only once, since a second request would end the process at once.
    fn stop(&self) {
        if !self.0.swap(true, Relaxed) {
            signals::request_stop();
        }
    }

    /// Stops the process when a thread of the engine ends with an error.
    fn stop_on_error<A: App + Send + 'static>(&self, engine: &Engine<A>) {
        let stop = self.clone();
        engine.on_failure(move || stop.stop());
    }

    /// Stops the process when a thread panics.
    fn stop_on_panic(&self) {
        let (stop, print_panic) = (self.clone(), panic::take_hook());
        panic::set_hook(Box::new(move |info| {
            match thread::current().name() {
                // Returned as an error: the store is damaged.
                Some(OPEN_THREAD) => {}
                // Affects no switch.
                Some("api") => print_panic(info),
                _ => {
                    print_panic(info);
                    stop.stop();
                }
            }
        }));
    }
}

/// A running controller.
struct RunningController<'l> {
    sources: ConfigSources,
    /// The configuration at the start, which stays in effect for the keys that need a restart.
    started: LoadedConfig,
    /// The configuration that was applied last.
    loaded: LoadedConfig,
    generation_id: u64,
    congestion: CongestionChoice,
    engine: Engine<Chain>,
    /// The listeners for switches that the service manager has opened.
    passed: Vec<Endpoint>,
    api: Option<Server>,
    declared: Arc<Declared>,
    /// Without the API, whose thread logs events otherwise.
    event_log: Option<EventLog>,
    logging: &'l Logging,
}

impl<'l> RunningController<'l> {
    fn start(
        sources: ConfigSources,
        loaded: LoadedConfig,
        passed: PassedListeners,
        logging: &'l Logging,
    ) -> Result<Self, String> {
        let config = &loaded.config;
        // Before the engine starts, so that an error disconnects no switch.
        let listen = |api: &sluice_northbound::Config| {
            let listeners = Listeners::open_others(api.clone(), passed.api);
            listeners.map_err(|e| advice::api_listener(api.listen, &e))
        };
        let api = Some(&config.api).filter(|api| api.has_listener());
        let listeners = api.map(listen).transpose()?;
        let generation_id = generation_id();
        let endpoints = passed.switches.iter().map(|it| it.configured).collect();
        let (engine, congestion) =
            start_engine(&sources.registry, &loaded, &passed.switches.into(), generation_id)?;
        let owners = sources.registry.all().allocations();
        let declared = declared_config(&loaded.config, owners);
        state_dir::log_access(&declared.state_dir);
        let declared = Declared::start(&declared, Arc::new(engine.handle()));
        let declared = Arc::new(declared.map_err(|e| advice::cannot("start a thread", &e))?);
        let serve = |listeners: Listeners| {
            let listeners = listeners.with_owners(owners.clone()).with_declared(declared.clone());
            listeners.serve(engine.metrics(), Arc::new(engine.handle()))
        };
        let api = listeners.map(serve).transpose();
        let api = api.map_err(|e| advice::cannot("serve the API", &e))?;
        if let Some(api) = &api {
            api.set_settings(api_settings::settings(&loaded, engine.cores()));
        }
        let log_events = || EventLog::start(Arc::new(engine.handle()), declared.clone());
        let event_log = api.is_none().then(log_events).transpose();
        let event_log = event_log.map_err(|e| advice::cannot("log events", &e))?;
        // The switches are served all the same.
        if let Err(error) = write_stdout(&message_text(&loaded, &engine, api.as_ref())) {
            warn!("{error}");
        }
        let started = loaded.clone();
        Ok(Self {
            sources,
            started,
            loaded,
            generation_id,
            congestion,
            engine,
            passed: endpoints,
            api,
            declared,
            event_log,
            logging,
        })
    }

    fn serve(
        mut self,
        mut signals: SignalReceiver,
        status: Option<ServiceStatus>,
    ) -> Result<(), String> {
        while signals.wait() == Signal::Reload {
            service_status::report_reloading();
            self.reload();
            service_status::report_reloaded();
        }
        info!("stopping");
        drop(status);
        drop((self.api, self.event_log, self.declared));
        let (done, stopped) = mpsc::channel();
        let engine = self.engine;
        thread::spawn(move || {
            engine.stop();
            // After the timeout there is no receiver.
            let _ = done.send(());
        });
        let stopped = stopped.recv_timeout(STOP_TIMEOUT);
        stopped.map_err(|_| format!("a worker did not stop within {STOP_TIMEOUT:?}"))
    }

    /// Reads the configuration again and applies it as a whole, or not at all.
    fn reload(&mut self) {
        let report = |error: &dyn Display| {
            error!("configuration not reloaded, the previous one stays in effect: {error}");
        };
        let new = match self.sources.load_again(&self.loaded) {
            Ok(new) => new,
            Err(errors) => return errors.iter().for_each(|error| report(error)),
        };
        if let Some(error) = no_longer_configured(&self.passed, &new.config) {
            return report(&error);
        }
        let apps = app_configs(&new);
        let config = engine_config(&new, self.generation_id, self.congestion);
        let result = self.engine.apply(config, move |chain: &mut Chain| chain.configure(&apps));
        if let Err(e) = result {
            return report(&advice::engine_start(&e));
        }
        self.logging.set_level(new.config.log.level);
        if let Some(api) = &self.api {
            api.apply(new.config.api.access.clone());
        }
        let changed = self.loaded.changed_keys(&new);
        let sections = self.loaded.changed_sections(&new);
        let applied = key_names(&changed, |key| !key.needs_restart, &sections);
        let [old_tls, new_tls] = [&self.loaded, &new].map(|it| &it.config.engine.tls);
        let [old_api, new_api] = [&self.loaded, &new].map(|it| &it.config.api.access.tls);
        let certificates_differ =
            old_api != new_api || listener_certificates_differ(old_tls, new_tls);
        if certificates_differ {
            info!("certificates reloaded; connections keep the old ones until they end");
        }
        if !applied.is_empty() {
            info!(changed = applied.as_str(), "configuration reloaded");
        } else if !certificates_differ {
            info!("configuration reloaded; nothing to apply");
        }
        if let Some(api) = &self.api {
            api.set_settings(api_settings::settings(&new, self.engine.cores()));
            api.publish_reload(&applied);
        }
        if let Some(warning) = OpenFiles::raise(&new.config).warning() {
            warn!("{warning}");
        }
        let pending = key_names(&self.started.changed_keys(&new), |key| key.needs_restart, &[]);
        if !pending.is_empty() {
            warn!(changed = pending, "some changes take effect at a restart");
        }
        self.loaded = new;
    }
}

/// Whether a listener that both configurations contain has other certificates or authorities in the new one. A listener is known by its
/// addresses.
fn listener_certificates_differ(old: &[TlsListeners], new: &[TlsListeners]) -> bool {
    let is_same = |old: &TlsListeners, new: &TlsListeners| {
        old.listen.iter().any(|address| new.listen.contains(address))
    };
    let differs =
        |old: &TlsListeners| new.iter().any(|new| is_same(old, new) && old.server != new.server);
    old.iter().any(differs)
}

/// The names of the keys for which `is_included` holds, and of sections, separated by spaces.
fn key_names(
    keys: &[&'static ConfigKey],
    is_included: impl Fn(&ConfigKey) -> bool,
    sections: &[String],
) -> String {
    let paths = keys.iter().filter(|key| is_included(key)).map(|key| key.path.as_str());
    paths.chain(sections.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
}

/// The configurations of all applications, whatever crate they are of.
fn app_configs(loaded: &LoadedConfig) -> AppConfigs {
    let mut configs = loaded.config.apps.by_name();
    for section in &loaded.sections {
        configs.insert(section.name, section.config.clone());
    }
    configs
}

/// The generation id of role requests (§6.3.7): the time, so that it is greater than that of an earlier run.
fn generation_id() -> u64 {
    u64::try_from(clock::since_epoch().as_millis()).unwrap_or(u64::MAX)
}

/// Which congestion control is used if none is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CongestionChoice {
    AsConfigured,
    /// The default of the system, because it does not allow ours.
    SystemForDefault,
}

/// Starts the engine with its applications, for `sluice play`.
pub(crate) fn engine(registry: &Registry, loaded: &LoadedConfig) -> Result<Engine<Chain>, String> {
    start_engine(registry, loaded, &Arc::default(), generation_id()).map(|(engine, _)| engine)
}

/// Starts the engine with its applications. If the system does not allow the default congestion control, the system's own
/// is used: a default must not prevent a start.
fn start_engine(
    registry: &Registry,
    loaded: &LoadedConfig,
    passed: &Arc<[PassedListener]>,
    generation_id: u64,
) -> Result<(Engine<Chain>, CongestionChoice), String> {
    if !loaded.config.huge_pages {
        // Before there is a table.
        sluice_io::disable_huge_pages().map_err(|e| advice::cannot("disable huge pages", &e))?;
    }
    let mut loaded_with_clock = loaded.clone();
    let clock = WallClock { at: clock::now(), since_1970: clock::since_epoch() };
    loaded_with_clock.config.apps.topology.clock = Some(clock);
    let (names, configs) = (loaded.config.app_names.clone(), app_configs(&loaded_with_clock));
    let registry = registry.all().clone();
    // Loading the configuration has checked the names.
    let make = move |_| Chain::new(&registry, &names, &configs).unwrap_or_default();
    let start = |congestion| {
        let config = engine_config(loaded, generation_id, congestion);
        let engine = Engine::start_chain(config, passed.clone(), Box::new(make.clone()));
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
    loaded: &LoadedConfig,
    generation_id: u64,
    congestion: CongestionChoice,
) -> sluice_engine::Config {
    let mut config = loaded.config.engine.clone();
    config.session.generation_id = generation_id;
    let allowed = OpenFiles::raise(&loaded.config).allowed;
    config.limits.limit_connections(allowed - OTHER_FILES.min(allowed / 2));
    if congestion == CongestionChoice::SystemForDefault && loaded.is_default(CONGESTION) {
        config.socket.congestion = None;
    }
    config
}

/// How many files may be open.
struct OpenFiles {
    /// What the limits of connections need.
    wanted: usize,
    /// The limit of the process.
    allowed: usize,
}

impl OpenFiles {
    /// Raises the limit as far as the limits of connections need and the system allows.
    fn raise(config: &RunConfig) -> Self {
        let limits = &config.engine.limits;
        let connections = limits.switches_max.saturating_add(limits.handshakes_max);
        let wanted = connections.saturating_add(OTHER_FILES);
        let allowed = limits::raise_open_files(wanted as u64);
        Self { wanted, allowed: usize::try_from(allowed).unwrap_or(usize::MAX) }
    }

    /// A warning if there are too few.
    fn warning(&self) -> Option<String> {
        (self.allowed < self.wanted).then(|| advice::open_files(self.wanted, self.allowed))
    }
}

fn message_text(loaded: &LoadedConfig, engine: &Engine<Chain>, api: Option<&Server>) -> String {
    let message = StartupMessage {
        listening: engine.addresses(),
        listening_tls: engine.tls_addresses(),
        workers: engine.cores(),
        apps: &loaded.config.app_names,
        versions: loaded.config.engine.session.versions,
        metrics: api.and_then(Server::address),
        metrics_have_tls: loaded.config.api.access.tls.is_some(),
        socket: loaded.config.api.socket.as_deref(),
        file: loaded.file.as_deref(),
        has_kernel_datapath: startup_message::has_kernel_datapath("/".as_ref()),
    };
    message.text()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use sluice_engine::{Config, Pin, Workers};
    use sluice_io::{ClientAuth, TlsServer};
    use sluice_openflow::view::PacketIn;
    use sluice_openflow::{Encoder, Hello, Message, Version};
    use sluice_sdk::{Ctx, Verdict};

    use super::*;

    struct PanickingApp;

    impl App for PanickingApp {
        fn initial_messages(&self, _: &mut Encoder<'_>) {
            panic!("a bug of an application");
        }

        fn on_packet_in(&mut self, _: &PacketIn<'_>, _: &mut Ctx<'_>) -> Verdict {
            Verdict::Continue
        }
    }

    /// The signal is the one that stops the process.
    #[test]
    fn a_thread_of_the_engine_that_panics_stops_the_process_in_order_and_with_an_error() {
        let (mut signals, failure) = (SignalReceiver::new().unwrap(), FailureStop::default());
        failure.stop_on_panic();
        let workers = Workers { threads: 2, pin: Pin::Off, ..Workers::default() };
        let listen = vec![([127, 0, 0, 1], 0).into()];
        let config = Config { listen, workers, ..Config::default() };
        let engine = Engine::start(config, |_| PanickingApp).unwrap();
        failure.stop_on_error(&engine);
        let mut peer = TcpStream::connect(engine.addresses()[0]).unwrap();
        let (mut hello, mut xid) = (Vec::new(), 1);
        let mut encoder = Encoder::new(&mut hello, Version::V1_0, &mut xid);
        encoder.encode(&Message::Hello(Hello::default())).unwrap();
        peer.write_all(&hello).unwrap();
        // The hangup is that of another test of this process.
        while signals.wait() == Signal::Reload {}
        assert!(failure.0.load(Relaxed));
        engine.stop();
        // The connection is closed, so that the switch looks for another controller.
        while peer.read(&mut [0; 1000]).is_ok_and(|n| n > 0) {}
    }

    /// A self-signed certificate for listeners at this port. The files of the test have `name` in their names.
    fn listeners(name: &str, port: u16) -> TlsListeners {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["controller".to_owned()]).unwrap();
        let dir = std::env::temp_dir();
        let files = [("pem", cert.pem()), ("key", signing_key.serialize_pem())];
        let [certificate, key] = files.map(|(extension, text)| {
            let path = dir.join(format!("sluice-run-{name}-{}.{extension}", std::process::id()));
            std::fs::write(&path, text).unwrap();
            path
        });
        let server = TlsServer::load(&certificate, &key, &ClientAuth::None).unwrap();
        std::fs::remove_file(certificate).unwrap();
        std::fs::remove_file(key).unwrap();
        let listen = vec![([127, 0, 0, 1], port).into()];
        TlsListeners { listen, server, bind_datapath_id: false }
    }

    #[test]
    fn certificates_differ_if_a_listener_has_others_whichever_listeners_are_added_or_removed() {
        let [first, second, third] = [1, 2, 3].map(|port| listeners("differ", port));
        let both = [first.clone(), second.clone()];
        for other in [
            &both[1..],
            &both[..1],
            &[],
            &[third.clone(), first.clone(), second.clone()],
            &[second.clone(), first.clone()],
        ] {
            assert!(!listener_certificates_differ(&both, other), "{other:?}");
            assert!(!listener_certificates_differ(other, &both), "{other:?}");
        }
        let replaced = TlsListeners { server: third.server.clone(), ..second };
        assert!(listener_certificates_differ(&both, &[third, replaced]));
    }
}
