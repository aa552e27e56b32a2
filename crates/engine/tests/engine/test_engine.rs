//! The engine under test, and its metrics.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sluice_apps::learning::Learning;
use sluice_base::metrics::{MetricValue, MetricsSource};
use sluice_engine::{Config, Engine, Pin};
use sluice_io::clock;
use sluice_sdk::App;

/// Time limit of everything that should happen at once; long, since the machine may be busy.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// An engine with one worker that runs `learning` or a given application. Stops when it is dropped.
pub(crate) struct TestEngine<A: App + Send + 'static = Learning> {
    pub(crate) engine: Option<Engine<A>>,
    pub(crate) addr: SocketAddr,
    metrics: Arc<dyn MetricsSource>,
}

/// The default configuration with a free port and one worker that is not bound to a core.
pub(crate) fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut cfg = Config { listen: vec![([127, 0, 0, 1], 0).into()], ..Config::default() };
    cfg.workers.threads = 1;
    cfg.workers.pin = Pin::Off;
    cfg.socket.congestion = None;
    change(&mut cfg);
    cfg
}

impl TestEngine {
    pub(crate) fn new(change: impl FnOnce(&mut Config)) -> Self {
        Self::with_app(change, Learning::default)
    }
}

impl<A: App + Send> TestEngine<A> {
    pub(crate) fn with_app(
        change: impl FnOnce(&mut Config),
        make: impl Fn() -> A + Send + Sync + 'static,
    ) -> Self {
        let engine = Engine::start(config(change), move |_| make()).unwrap();
        let (addr, metrics) = (engine.addresses()[0], engine.metrics());
        Self { engine: Some(engine), addr, metrics }
    }

    /// The sum of all samples of the metric `name` in which some label has the value `label`; of all if that is empty.
    pub(crate) fn metric(&self, name: &str, label: &str) -> u64 {
        let mut sum = 0;
        self.metrics.collect(&mut |sample| {
            let matches = label.is_empty() || sample.labels.iter().any(|(_, value)| value == label);
            if sample.name == name && matches {
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

    /// Sum of a metric in seconds.
    pub(crate) fn seconds(&self, name: &str) -> f64 {
        let mut sum = 0.0;
        self.metrics.collect(&mut |sample| {
            if let MetricValue::SecondsCounter(seconds) = sample.value
                && sample.name == name
            {
                sum += seconds;
            }
        });
        sum
    }

    /// The values of `label` in all samples of the metric `name`, in the order of the samples.
    pub(crate) fn label_values(&self, name: &str, label: &str) -> Vec<String> {
        let mut values = Vec::new();
        self.metrics.collect(&mut |sample| {
            if sample.name == name {
                let labels = sample.labels.into_iter().filter(|(name, _)| *name == label);
                values.extend(labels.map(|(_, value)| value));
            }
        });
        values
    }

    /// Connections closed for `reason`, or for any if it is empty.
    pub(crate) fn closed(&self, reason: &str) -> u64 {
        self.metric("connections_closed", reason)
    }

    /// Waits until `n` connections have been closed for `reason`, and checks that no others have.
    pub(crate) fn expect_closed(&self, n: u64, reason: &str) {
        wait_until(&format!("{n} × {reason}"), || self.closed(reason) >= n);
        assert_eq!((self.closed(reason), self.closed("")), (n, n), "{reason}, all reasons");
    }
}

impl<A: App + Send + 'static> Drop for TestEngine<A> {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.stop();
        }
    }
}

/// Calls `exchange`, which sends a packet-in and receives the answer, until the kernel has answered `count` of these. The worker leaves
/// them to the kernel after a while.
pub(crate) fn exchange_until_kernel_has_answered<A: App + Send + 'static>(
    engine: &TestEngine<A>,
    count: u64,
    mut exchange: impl FnMut(),
) {
    let deadline = clock::now() + TIMEOUT * 6;
    let answered = || engine.metric("packet_ins_answered_in_kernel", "");
    let before = answered();
    while answered() < before + count {
        assert!(clock::now() < deadline, "the kernel has not answered {count} packet-ins");
        exchange();
    }
}

/// Polls until `happened` returns true.
pub(crate) fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = clock::now() + TIMEOUT;
    while !happened() {
        assert!(clock::now() < deadline, "still waiting for {what}");
        clock::sleep(Duration::from_millis(2));
    }
}
