//! An engine under test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sluice_apps::learning::Learning;
use sluice_base::metrics::{MetricValue, MetricsSource};
use sluice_engine::{Config, Engine, Pin};
use sluice_io::clock;
use sluice_sdk::App;

/// Long enough for anything that should happen at once, on a machine that is busy.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// An engine with one worker that runs the learning bridge, or something else; ends with the test.
pub(crate) struct Lab<A: App + 'static = Learning> {
    pub(crate) engine: Option<Engine<A>>,
    pub(crate) addr: SocketAddr,
    metrics: Arc<dyn MetricsSource>,
}

/// As the engine is by default, on a free port.
pub(crate) fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut cfg = Config { listen: vec![([127, 0, 0, 1], 0).into()], ..Config::default() };
    cfg.workers.threads = 1;
    cfg.workers.pin = Pin::Off;
    cfg.socket.congestion = None;
    change(&mut cfg);
    cfg
}

impl Lab {
    pub(crate) fn new(change: impl FnOnce(&mut Config)) -> Self {
        Self::with(change, Learning::default)
    }
}

impl<A: App> Lab<A> {
    pub(crate) fn with(
        change: impl FnOnce(&mut Config),
        make: impl Fn() -> A + Send + Sync + 'static,
    ) -> Self {
        let engine = Engine::start(config(change), move |_| make()).unwrap();
        let (addr, metrics) = (engine.addresses()[0], engine.metrics());
        Self { engine: Some(engine), addr, metrics }
    }

    /// The sum of all samples called `name` that have `label` as the value of a label, or of all.
    pub(crate) fn count(&self, name: &str, label: &str) -> u64 {
        let mut sum = 0;
        self.metrics.collect(&mut |sample| {
            let named = label.is_empty() || sample.labels.iter().any(|(_, value)| value == label);
            if sample.name == name && named {
                sum += match sample.value {
                    MetricValue::Counter(n) => n,
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "a count"
                    )]
                    MetricValue::Gauge(n) | MetricValue::SecondsCounter(n) => n as u64,
                    MetricValue::Histogram(_) => 0,
                };
            }
        });
        sum
    }

    /// Connections that ended for `reason`.
    pub(crate) fn ended(&self, reason: &str) -> u64 {
        self.count("connections_closed", reason)
    }

    /// Waits until so many connections ended for `reason`, and no other has.
    pub(crate) fn must_end(&self, n: u64, reason: &str) {
        wait_until(&format!("{n} × {reason}"), || self.ended(reason) >= n);
        assert_eq!((self.ended(reason), self.ended("")), (n, n), "of {reason}, of all");
    }
}

impl<A: App + 'static> Drop for Lab<A> {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.stop();
        }
    }
}

/// Looks until `happened` is true.
pub(crate) fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let late = clock::now() + SOON;
    while !happened() {
        assert!(clock::now() < late, "still waiting for {what}");
        clock::sleep(Duration::from_millis(2));
    }
}
