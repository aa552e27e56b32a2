//! The controller with each engine: as correct as with `epoll` under the loads of the bench, and a clear error where it cannot be used.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use sluice_system_tests::{Controller, ExitReport, TestEnv, binary, output_of, wait_until};

/// A run of the bench.
struct Run {
    report: Value,
    /// Packet-ins that were answered in the kernel.
    in_kernel: u64,
    /// Times that a worker answered in the place of the kernel for a while, since that was late: other tests run on the same cores.
    pauses: u64,
    /// Iterations of the event loops of all workers.
    iterations: u64,
    /// Paths that `forwarding` has installed.
    paths: u64,
}

/// Runs `sluice bench` with `options` and 1 024 hosts at most, against a controller with options `run`.
fn bench(run: &str, options: &str) -> Run {
    bench_and_wait(run, options, |_| ())
}

/// As [`bench`], and calls `wait` before the controller is stopped.
fn bench_and_wait(run: &str, options: &str, wait: impl FnOnce(&TestEnv)) -> Run {
    let env = TestEnv::shared();
    let mut command = env.command(&binary().to_string_lossy());
    command.arg("run").args(run.split_whitespace());
    let mut controller = Controller::with(command, env.dir());
    let mut bench = env.command(&binary().to_string_lossy());
    bench.arg("bench").args(options.split_whitespace());
    bench.args(["-c", "127.0.0.1", "-p", controller.port(), "-w", "0", "--json", "-"]);
    let output = output_of(&mut bench);
    let at = output.find("{\"schema\"").unwrap();
    let report = serde_json::Deserializer::from_str(&output[at..]).into_iter().next();
    let report: Value = report.unwrap().unwrap();
    // The worker counts answers of the kernel up to a quarter of a second later.
    let unsolicited = report.pointer("/requests/unsolicited").and_then(Value::as_u64).unwrap();
    let paths = || env.metric("forwarding_paths_installed_total").unwrap_or(0);
    wait_until(Duration::from_secs(20), "a path for each flow entry for replies", || {
        paths() >= unsolicited
    });
    let paths = paths();
    let metric = |name| env.metric(name).unwrap();
    let in_kernel = metric("packet_ins_answered_in_kernel_total");
    let pauses = metric("kernel_pauses_total");
    let iterations = metric("worker_iterations_total");
    wait(&env);
    controller.terminate();
    let exit = controller.wait_for_end();
    assert_eq!(exit.code, Some(0), "{exit:?}");
    Run { report, in_kernel, pauses, iterations, paths }
}

/// Runs of the bench in which the kernel may answer too little. A worker that shares its core with other tests has often not read the packet-ins before,
/// so that the kernel leaves the next ones to it.
const SHORTFALLS_MAX: usize = 10;

/// Runs the bench until the kernel has answered more than `least` packet-ins in a run, and has `check` look at each run.
fn bench_in_kernel(run: &str, options: &str, least: u64, check: impl Fn(&Run)) {
    let mut shortfalls = Vec::new();
    loop {
        let result = bench_and_wait(run, options, wait_for_leaving_switches);
        check(&result);
        if result.was_in_kernel(least) {
            return;
        }
        shortfalls.push(result.to_string());
        assert!(shortfalls.len() < SHORTFALLS_MAX, "{run} {options}: {shortfalls:#?}");
    }
}

/// All switches of the bench leave at its end. Otherwise the controller would handle that while it stops, for which it has one and a half seconds, on
/// a machine that runs other tests.
fn wait_for_leaving_switches(env: &TestEnv) {
    wait_until(Duration::from_secs(20), "the end of all connections", || {
        env.metric("worker_switches") == Some(0)
    });
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { in_kernel, pauses, iterations, paths, .. } = self;
        write!(
            f,
            "{in_kernel} in the kernel, {pauses} pauses, {iterations} iterations, {paths} paths"
        )
    }
}

impl Run {
    /// Whether the kernel answered more packet-ins than that; fewer only if it was late.
    fn was_in_kernel(&self, least: u64) -> bool {
        let least = if self.pauses == 0 { least } else { 0 };
        self.in_kernel > least
    }
}

/// Every request was answered once and correctly, and there was nothing else.
fn assert_clean(run: &Run) {
    assert_eq!(assert_answered_once(run), 0, "{}", run.report);
}

/// Every request was answered once and correctly, and there was nothing else but a flow entry for the replies of each installed path. For that, the
/// number of hosts has to be a multiple of the number of ports, which is 4: then no request is from the destination of another one to
/// its source, and the bench counts these flow entries as unsolicited.
fn assert_clean_in_both_directions(run: &Run) {
    assert_eq!(assert_answered_once(run), run.paths, "{}", run.report);
}

/// Returns the number of replies that answer no request.
fn assert_answered_once(run: &Run) -> u64 {
    let report = &run.report;
    let requests = &report["requests"];
    let count = |name: &str| requests[name].as_u64().unwrap();
    assert!(count("answered") > 1000, "{requests}");
    assert_eq!(count("answered"), count("sent"), "{requests}");
    for fault in ["late", "never_answered", "duplicate", "unmatched", "malformed"] {
        assert_eq!(count(fault), 0, "{fault}: {requests}");
    }
    count("unsolicited")
}

/// One request at a time, a few, and as many as the sockets take, over one worker and over two.
#[test]
fn learning_over_io_uring_answers_every_request_once() {
    for (threads, load) in [("1", "--window 1"), ("2", "--window 40"), ("2", "-t")] {
        let run = format!("--engine uring --app learning --threads {threads} --pin off");
        for version in ["1.0", "1.3"] {
            let options = format!("{load} -s 16 -M 1000 -m 700 -l 2 --openflow {version}");
            assert_clean(&bench(&run, &options));
        }
    }
}

/// Switches move to the other worker all the time, with what has arrived and what was not sent.
#[test]
fn switches_that_move_between_workers_lose_nothing() {
    let env = TestEnv::shared();
    let file = env.write("moving.toml", "[experimental]\nmove_interval_ms = 20\n");
    for engine in ["uring", "kernel", "auto"] {
        let run = format!(
            "--engine {engine} --app learning --threads 2 --pin off --config {}",
            file.display()
        );
        assert_clean(&bench(&run, "--window 40 -s 16 -M 1000 -m 700 -l 2"));
    }
}

/// As over `io_uring`; also packets that the switch has buffered.
#[test]
fn learning_in_the_kernel_answers_every_request_once() {
    for engine in ["kernel", "auto"] {
        for (threads, load, hosts) in
            [("1", "--window 1", 20), ("2", "--window 40", 1000), ("2", "-t", 1000)]
        {
            let run = format!("--engine {engine} --app learning --threads {threads} --pin off");
            for version in ["1.0", "1.3"] {
                for buffer in ["", "--no-buffer"] {
                    let options = format!(
                        "{load} -s 16 -M {hosts} -m 700 -l 1 --openflow {version} {buffer}"
                    );
                    if load == "--window 1" {
                        bench_in_kernel(&run, &options, 1000, assert_clean);
                    } else {
                        // Under load, the workers may answer everything.
                        assert_clean(&bench(&run, &options));
                    }
                }
            }
        }
    }
}

/// The default applications, for packets between hosts of one switch.
#[test]
fn forwarding_in_the_kernel_answers_every_request_once() {
    for engine in ["kernel", "auto"] {
        for (threads, load) in [("1", "--window 1"), ("2", "--window 40"), ("2", "-t")] {
            let run = format!("--engine {engine} --threads {threads} --pin off");
            for version in ["1.0", "1.3"] {
                for buffer in ["", "--no-buffer"] {
                    let options = format!(
                        "{load} -s 4 -M 300 -D 1500 -m 700 -l 1 --openflow {version} {buffer}"
                    );
                    if load == "--window 1" {
                        bench_in_kernel(&run, &options, 1000, assert_clean_in_both_directions);
                    } else {
                        assert_clean_in_both_directions(&bench(&run, &options));
                    }
                }
            }
        }
    }
}

/// As many switches as a worker may have: the kernel has a slot for each, and hosts of all of them.
#[test]
fn the_kernel_answers_ten_thousand_switches() {
    for engine in ["kernel", "auto"] {
        let run = format!("--engine {engine} --app learning --threads 1 --pin off");
        let options = "--window 1 -s 10000 -M 10 -D 1 -m 1000 -l 3";
        bench_in_kernel(&run, options, 10_000, assert_clean);
    }
}

/// With the default applications, every switch that connects, and every port that becomes an edge port, changes the network.
#[test]
fn the_kernel_answers_ten_thousand_switches_with_the_default_applications() {
    for engine in ["epoll", "kernel", "auto"] {
        let run = format!("--engine {engine} --threads 1 --pin off");
        let options = "--window 1 -s 10000 -M 8 -D 3000 -m 1000 -l 3";
        if engine == "epoll" {
            let result = bench_and_wait(&run, options, wait_for_leaving_switches);
            assert_clean_in_both_directions(&result);
        } else {
            bench_in_kernel(&run, options, 1000, assert_clean_in_both_directions);
        }
    }
}

/// A worker is woken by what the program passes to it, and by its timers.
#[test]
fn the_worker_sleeps_while_the_kernel_answers() {
    // With `auto`, it might wake up since answers of the kernel were late.
    let run = "--engine kernel --app learning --threads 1 --pin off";
    let Run { in_kernel, iterations, .. } =
        bench(run, "--window 1 -s 1 -M 20 -m 1000 -l 2 --no-buffer");
    assert!(in_kernel > 1000, "{in_kernel}");
    // The first packet-ins of each host are the worker's.
    assert!(iterations < 500 + in_kernel / 2, "{iterations} iterations, {in_kernel} answers");
}

/// Paths over several switches, which belong to two workers.
#[test]
fn forwarding_over_io_uring_installs_paths() {
    let Run { report, .. } = bench(
        "--engine uring --threads 2 --pin off",
        "paths --topo leafspine,2,4,8 --window 8 -D 2000 -m 1000 -l 2",
    );
    assert!(report["rate"]["mean"].as_f64().unwrap() > 10.0, "{report}");
    assert_eq!(report["requests"]["never_answered"], 0, "{report}");
}

#[test]
fn the_error_where_io_uring_is_not_permitted_says_what_is_missing() {
    for (error, part) in [("EPERM", "io_uring_setup"), ("EINVAL", "io_uring needs Linux 6.1")] {
        let env = TestEnv::shared();
        let mut command = env.command("strace");
        command.args(["-f", "-o", "/dev/null"]);
        command.arg(format!("--inject=io_uring_setup:error={error}")).arg(binary());
        command.args(["run", "--no-api", "--listen", "127.0.0.1:0", "--engine", "uring"]);
        let exit = ExitReport::of(&command);
        assert_eq!(exit.code, Some(1), "{exit:?}");
        let line = exit.stderr.lines().find(|line| line.starts_with("error: ")).unwrap();
        assert!(line.contains(part) && line.contains("--engine epoll"), "{line}");
    }
}

/// With `kernel`, that is an error; with `auto`, the workers answer.
#[test]
fn without_the_privileges_for_bpf_kernel_ends_and_auto_goes_on() {
    let env = TestEnv::shared();
    let controller = |engine: &str| {
        let mut command = env.command("setpriv");
        command.arg("--bounding-set=-bpf,-perfmon,-sys_admin").arg(binary());
        command.args(["run", "--no-api", "--app", "learning", "--engine", engine]);
        command
    };
    let mut command = controller("kernel");
    let exit = ExitReport::of(command.args(["--listen", "127.0.0.1:0"]));
    assert_eq!(exit.code, Some(1), "{exit:?}");
    let line = exit.stderr.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(line.contains("CAP_BPF") && line.contains("--engine epoll"), "{line}");

    let mut controller = Controller::with(controller("auto"), env.dir());
    controller.terminate();
    let exit = controller.wait_for_end();
    assert!(exit.stderr.contains("CAP_BPF"), "{exit:?}");
}

#[test]
fn without_the_privileges_for_bpf_a_filter_of_syns_is_an_error() {
    let env = TestEnv::shared();
    let config = env.write("sluice.toml", "[limits]\nsyn_filter = true\n");
    let mut command = env.command("setpriv");
    command.arg("--bounding-set=-bpf,-perfmon,-sys_admin").arg(binary());
    command.args(["run", "--no-api", "--listen", "127.0.0.1:0", "--config"]).arg(config);
    let exit = ExitReport::of(&command);
    assert_eq!(exit.code, Some(1), "{exit:?}");
    let line = exit.stderr.lines().find(|line| line.starts_with("error: ")).unwrap();
    let parts = ["limits.syn_filter", "CAP_BPF", "limits.syn_filter = false"];
    assert!(parts.iter().all(|part| line.contains(part)), "{line}");
}
