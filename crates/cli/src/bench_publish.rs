//! `sluice bench --publish`: reports loops to the API of a controller while the measurement runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clap::Args;
use hyper::Method;
use serde_json::{Value, json};
use sluice_bench::{Error, Load, LoopFigures, Plan, RunObserver};
use sluice_io::clock;

use crate::api_client::{ApiArgs, ApiClient};

/// Loops that wait until they are sent. Beyond it, and with an API that is slow, loops are left out.
const QUEUE_MAX: usize = 4;

/// Longest text of the controllers that are measured, in bytes: the API accepts twice as much.
const TARGET_LEN_MAX: usize = 100;

/// How long the API may take to answer. The measurement does not wait for it.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Where the measurement is shown while it runs.
#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    /// Show the measurement on the web page of a controller while it runs: `ADDRESS:PORT`, `https://NAME:PORT` or `unix:/PATH` of its API.
    #[arg(long, value_name = "ADDRESS", help_heading = "Publishing")]
    publish: Option<String>,
    /// File with the token for that API [default: the token in the variable `SLUICE_TOKEN`].
    #[arg(long, value_name = "FILE", requires = "publish", help_heading = "Publishing")]
    token_file: Option<PathBuf>,
    /// PEM file with the authorities that issue the certificate of that API [default: those of the system].
    #[arg(long, value_name = "FILE", requires = "publish", help_heading = "Publishing")]
    ca: Option<PathBuf>,
    /// Send the token to another machine without TLS.
    #[arg(long, requires = "publish", help_heading = "Publishing")]
    token_without_tls: bool,
}

impl PublishArgs {
    /// Starts the publisher of the loops of a plan; `None` without `--publish`.
    pub(crate) fn start(&self, plan: &Plan) -> Result<Option<Publisher>, Error> {
        let Some(address) = &self.publish else { return Ok(None) };
        let args = ApiArgs::of(
            address.clone(),
            self.token_file.clone(),
            self.ca.clone(),
            self.token_without_tls,
        );
        let client = args.client().map(|client| client.with_timeout(TIMEOUT));
        let client = client.and_then(|client| check_access(&client).map(|()| client));
        let client = client.map_err(|why| Error::Plan(format!("--publish: {why}")))?;
        Publisher::start(client, plan).map(Some).map_err(Error::Output)
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.publish.is_some()
    }
}

/// Whether an API answers, and permits to report: what is wrong is said before the measurement, and not after it.
fn check_access(client: &ApiClient) -> Result<(), String> {
    let identity = client.get_json("/v1/identity", &[])?;
    match identity.get("role").and_then(Value::as_str) {
        Some("operate" | "administer") => Ok(()),
        Some(role) => Err(format!("the role of the token is {role}: operate is needed")),
        None => Err("the API at this address is not that of this version of Sluice".to_owned()),
    }
}

/// Passes the figures of loops to a thread that sends them. It never waits.
#[derive(Debug)]
pub(crate) struct Publisher {
    /// Identifies this bench.
    bench: String,
    /// Number of the current run, from 1: a range of switches and `--repeat` have several.
    run: u32,
    target: String,
    load: String,
    unit: &'static str,
    plan: Plan,
    sender: SyncSender<Value>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Outcome>,
    left_out: u32,
}

/// Results of the reports that were passed to the thread.
#[derive(Debug, Default)]
struct Outcome {
    sent: u32,
    failed: u32,
    /// Why the last one has failed.
    why: Option<String>,
}

impl Publisher {
    fn start(client: ApiClient, plan: &Plan) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(QUEUE_MAX);
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = thread::Builder::new().name("publish".to_owned());
        let thread = thread.spawn(move || send_all(&client, &receiver, &ends))?;
        let targets: Vec<_> = plan.targets.iter().map(ToString::to_string).collect();
        let bench = format!("{}-{}", std::process::id(), clock::since_epoch().as_millis());
        Ok(Self {
            bench,
            run: 0,
            target: target_text(&targets),
            load: load_text(plan),
            unit: if plan.network.is_some() { "paths/s" } else { "responses/s" },
            plan: plan.clone(),
            sender,
            is_over,
            thread,
            left_out: 0,
        })
    }

    /// Ends the thread, which sends what waits, up to the first report that fails. Why some loops were not published, if some were not.
    pub(crate) fn finish(self) -> Option<String> {
        let Self { sender, is_over, thread, left_out, .. } = self;
        is_over.store(true, Relaxed);
        drop(sender);
        let Outcome { sent, failed, why } = thread.join().ok()?;
        let missing = failed + left_out;
        let why = why.unwrap_or_else(|| "the API was too slow".to_owned());
        (missing > 0)
            .then(|| format!("{missing} of {} loops were not published: {why}", sent + missing))
    }
}

impl RunObserver for Publisher {
    fn on_loop(&mut self, figures: &LoopFigures) {
        if figures.number == 0 {
            self.run += 1;
        }
        if !self.plan.is_interim(figures.number) {
            return;
        }
        if self.sender.try_send(self.report(figures)).is_err() {
            self.left_out += 1;
        }
    }
}

impl Publisher {
    fn report(&self, figures: &LoopFigures) -> Value {
        let is_known = !figures.latency.is_empty();
        let latency_s = |quantile: f64| {
            let latency = Duration::from_nanos(figures.latency.quantile(quantile).ns());
            is_known.then_some(latency.as_secs_f64())
        };
        json!({
            "bench": self.bench,
            "run": self.run,
            "target": self.target,
            "load": self.load,
            "switches": figures.answered.len(),
            "unit": self.unit,
            "interval_s": self.plan.interim_interval().as_secs_f64(),
            "running_s": (self.plan.loop_time * (figures.number + 1)).as_secs_f64(),
            "rate_per_s": figures.rate,
            "latency_p50_s": latency_s(0.5),
            "latency_p99_s": latency_s(0.99),
            "is_measured": figures.measured,
        })
    }
}

/// The controllers that are measured, of many only the first ones: "A, B and 7 others".
fn target_text(targets: &[String]) -> String {
    let mut length = 0;
    let fits = |target: &&String| {
        length += target.len() + 2;
        length <= TARGET_LEN_MAX
    };
    let shown = targets.iter().take_while(fits).count().max(1);
    let text = targets.iter().take(shown).cloned().collect::<Vec<_>>().join(", ");
    match targets.len().saturating_sub(shown) {
        0 => text,
        1 => format!("{text} and 1 other"),
        others => format!("{text} and {others} others"),
    }
}

fn load_text(plan: &Plan) -> String {
    match plan.load {
        Load::Unlimited => "as many outstanding requests as the sockets accept".to_owned(),
        Load::Window(1) => "one outstanding request per switch".to_owned(),
        Load::Window(n) => format!("{n} outstanding requests per switch"),
        Load::WindowTotal(n) => format!("{n} outstanding requests"),
        Load::Rate(rate) => format!("{rate} requests per second"),
    }
}

/// Sends what is received. After the measurement, nothing is sent any more if a report has failed.
fn send_all(client: &ApiClient, reports: &Receiver<Value>, is_over: &AtomicBool) -> Outcome {
    let mut outcome = Outcome::default();
    for report in reports {
        if is_over.load(Relaxed) && outcome.why.is_some() {
            outcome.failed += 1;
            continue;
        }
        match client.send(&Method::PUT, "/v1/bench", &[], Some(&report)) {
            Ok(_) => outcome.sent += 1,
            Err(failure) => {
                outcome.failed += 1;
                outcome.why = Some(failure.to_string());
            }
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    fn figures(number: u32) -> LoopFigures {
        LoopFigures {
            number,
            measured: true,
            elapsed: Duration::from_secs(1),
            answered: vec![1, 2],
            rate: 3.0,
            latency: sluice_bench::LatencyDistribution::empty(),
            not_sent: sluice_bench::NotSent::default(),
        }
    }

    #[test]
    fn an_api_that_does_not_answer_delays_no_loop_and_is_named_at_the_end() {
        // Connections are accepted by the kernel, and nobody answers.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let timeout = Duration::from_millis(50);
        let client = ApiClient::at(listener.local_addr().unwrap(), timeout);
        let mut publisher = Publisher::start(client, &Plan::default()).unwrap();
        let started = clock::now();
        for number in 0..100 {
            publisher.on_loop(&figures(number));
        }
        let took = clock::now().saturating_duration_since(started);
        assert!(took < Duration::from_secs(1), "{took:?}");
        let why = publisher.finish().unwrap();
        assert!(why.starts_with("100 of 100 loops were not published: "), "{why}");
    }

    #[test]
    fn what_is_wrong_with_the_api_is_said_before_the_measurement() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers = thread::spawn(move || {
            for role in ["operate", "administer", "read"] {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]).unwrap();
                let body = json!({ "who": "x", "role": role }).to_string();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all((head + &body).as_bytes()).unwrap();
            }
        });
        let client = ApiClient::at(address, TIMEOUT);
        assert_eq!(check_access(&client), Ok(()));
        assert_eq!(check_access(&client), Ok(()));
        assert!(check_access(&client).unwrap_err().contains("operate is needed"));
        answers.join().unwrap();
        // The listener is gone.
        assert!(check_access(&client).unwrap_err().contains("is `sluice run` running?"));
    }

    #[test]
    fn a_report_has_the_figures_of_a_loop() {
        let client = ApiClient::at(([127, 0, 0, 1], 1).into(), TIMEOUT);
        let publisher = Publisher::start(client, &Plan::default()).unwrap();
        let report = publisher.report(&figures(2));
        assert_eq!((&report["running_s"], &report["interval_s"]), (&json!(3.0), &json!(1.0)));
        assert_eq!((&report["switches"], &report["rate_per_s"]), (&json!(2), &json!(3.0)));
        assert_eq!(report["load"], "one outstanding request per switch");
        assert!(report["latency_p99_s"].is_null());
        assert_eq!(publisher.finish(), None);
    }

    #[test]
    fn each_repetition_is_a_run_of_its_own() {
        let client = ApiClient::at(([127, 0, 0, 1], 1).into(), TIMEOUT);
        let plan = Plan { loop_time: Duration::from_millis(300), ..Plan::default() };
        let mut publisher = Publisher::start(client, &plan).unwrap();
        for (number, run) in [(0, 1), (1, 1), (2, 1), (0, 2)] {
            publisher.on_loop(&figures(number));
            assert_eq!(publisher.report(&figures(number))["run"], run);
        }
        let why = publisher.finish().unwrap();
        assert!(
            why.starts_with("1 of 1 loops were not published: "),
            "only one ends in time: {why}"
        );
    }

    #[test]
    fn of_many_targets_the_first_ones_are_named() {
        let targets: Vec<_> = (1..=40).map(|n| format!("192.0.2.{n}:6653")).collect();
        assert_eq!(target_text(&targets[..2]), "192.0.2.1:6653, 192.0.2.2:6653");
        assert_eq!(
            target_text(&targets[..7]),
            "192.0.2.1:6653, 192.0.2.2:6653, 192.0.2.3:6653, 192.0.2.4:6653, 192.0.2.5:6653, 192.0.2.6:6653 and 1 other"
        );
        let all = target_text(&targets);
        assert!(all.ends_with(" and 34 others") && all.len() <= 200, "{all}");
    }
}
