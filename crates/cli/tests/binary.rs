//! The binary without switches: metrics over HTTP, log, signals, error messages and exit codes.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

/// A `sluice run` process on free ports; killed when it is dropped.
struct SluiceProcess {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: ChildStderr,
}

impl SluiceProcess {
    fn new(arguments: &str) -> Self {
        let sluice = sluice(&format!("run --listen 127.0.0.1:0 --threads 1 {arguments}"));
        Self::start(sluice)
    }

    fn start(mut sluice: Command) -> Self {
        let mut child = sluice.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = child.stderr.take().unwrap();
        Self { child, stdout, stderr }
    }

    /// The rest of the first line of standard output that begins with `prefix`.
    fn output_after(&mut self, prefix: &str) -> String {
        let mut lines = self.stdout.by_ref().lines().map(Result::unwrap);
        lines.find_map(|line| line.strip_prefix(prefix).map(str::to_owned)).unwrap()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits for the end; returns exit code and standard error.
    fn wait_for_exit(mut self) -> (Option<i32>, String) {
        let mut log = String::new();
        self.stderr.read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code(), log)
    }
}

impl Drop for SluiceProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that runs the binary without a configuration file.
fn sluice(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(arguments.split_whitespace()).args(["--config", "/dev/null"]);
    command
}

/// Runs the binary until it ends; returns exit code and standard error.
fn run_to_exit(arguments: &str) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = sluice(arguments).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn metrics_are_served_at_the_printed_address() {
    let mut process = SluiceProcess::new("--api 127.0.0.1:0");
    let url = process.output_after("metrics: ");
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(client, "GET /{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.contains("\n# TYPE sluice_switches_connected gauge\n"), "{response}");
    assert!(response.ends_with("# EOF\n"), "{response}");
    process.signal("TERM");
    assert_eq!(process.wait_for_exit().0, Some(0));
}

#[test]
fn sigterm_and_sigint_stop_the_process() {
    for signal in ["TERM", "INT"] {
        let mut process = SluiceProcess::new("--no-api");
        process.output_after("listening on ");
        process.signal(signal);
        let (code, log) = process.wait_for_exit();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("stopping"), "{log}");
    }
}

#[test]
fn the_json_log_has_one_object_per_line() {
    let mut process = SluiceProcess::new("--no-api --log-format json");
    process.output_after("listening on ");
    process.signal("HUP");
    process.signal("TERM");
    let (code, log) = process.wait_for_exit();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "{log}");
    assert!(log.contains(r#""message":"stopping""#), "{log}");
}

#[test]
fn an_http_port_in_use_is_reported_with_what_to_do() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let (code, log) = run_to_exit(&format!("run --listen 127.0.0.1:0 --api {address}"));
    assert_eq!(code, Some(1), "{log}");
    let error = log.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(error.starts_with(&format!("error: cannot serve the API on {address}: ")), "{log}");
    assert!(error.contains("--api") && error.contains("--no-api"), "{log}");
}

#[test]
fn too_few_file_descriptors_are_reported_with_what_to_do() {
    let mut process = SluiceProcess::new("--no-api");
    let address = process.output_after("listening on ");
    let (pid, files) = (process.child.id(), format!("/proc/{}/fd", process.child.id()));
    let open = std::fs::read_dir(files).unwrap().count();
    let limit = [format!("--pid={pid}"), format!("--nofile={open}")];
    assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    let _peers: Vec<_> = (0..8).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let mut log = BufReader::new(&mut process.stderr).lines().map(Result::unwrap);
    let line = log.find(|line| line.contains("cannot accept: ")).unwrap();
    assert!(line.contains("cannot accept: Too many open files (os error 24); raise "), "{line}");
    assert!(line.contains("`ulimit -n`"), "{line}");
}

/// A flood of silent peers takes all file descriptors, and nothing ends by itself.
#[test]
fn a_switch_can_connect_and_metrics_are_served_when_file_descriptors_run_out() {
    let directory = std::env::temp_dir().join(format!("sluice-files-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("sluice.toml");
    std::fs::write(&file, "[experimental]\nhandshake_timeout_ms = 600000\n").unwrap();
    let mut sluice = Command::new("prlimit");
    sluice.args(["--nofile=128:128", env!("CARGO_BIN_EXE_sluice"), "run", "--threads", "1"]);
    sluice.args(["--listen", "127.0.0.1:0", "--api", "127.0.0.1:0", "--config"]).arg(&file);
    // Root could raise the limit.
    if Command::new("id").arg("-u").output().unwrap().stdout == b"0\n" {
        let mut nobody = Command::new("setpriv");
        nobody.args(["--bounding-set=-sys_resource", "--inh-caps=-sys_resource"]);
        nobody.arg(sluice.get_program()).args(sluice.get_args());
        sluice = nobody;
    }
    let mut process = SluiceProcess::start(sluice);
    let address = process.output_after("listening on ");
    let metrics = process.output_after("metrics: http://");
    let _silent: Vec<_> = (0..600).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let mut switch = TcpStream::connect(&address).unwrap();
    // HELLO of 1.0; both HELLOs are followed by the FEATURES_REQUEST.
    switch.write_all(&[1, 0, 0, 8, 0, 0, 0, 9]).unwrap();
    let mut received = [0; 16];
    switch.read_exact(&mut received).unwrap();
    assert_eq!((received[1], received[9]), (0, 5));
    let authority = metrics.split('/').next().unwrap();
    let mut page = TcpStream::connect(authority).unwrap();
    page.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    page.read_to_string(&mut text).unwrap();
    assert!(text.contains("reason=\"too_many_handshakes\""), "{text}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_missing_cpu_core_is_reported_with_what_to_do() {
    let (code, log) = run_to_exit("run --listen 127.0.0.1:0 --no-api --pin 4000");
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("error: cannot run on core 4000: "), "{log}");
    assert!(log.contains("--pin off"), "{log}");
}

#[test]
fn an_unknown_congestion_control_is_reported_with_what_to_do() {
    let mut command = sluice("run --listen 127.0.0.1:0 --no-api");
    let Output { status, stderr, .. } =
        command.env("SLUICE_SOCKET__CONGESTION", "nonesuch").output().unwrap();
    let log = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("error: cannot use the congestion control `nonesuch`: "), "{log}");
    assert!(log.contains("set socket.congestion to system or one of "), "{log}");
}

#[test]
fn run_and_config_show_reject_an_invalid_value_alike() {
    for command in ["run", "config show"] {
        let (code, log) = run_to_exit(&format!("{command} --threads many"));
        assert_eq!(code, Some(2), "{log}");
        assert!(log.starts_with("error: flag --threads: `workers.threads`: "), "{log}");
    }
    let Output { status, stdout, .. } = sluice("config show --threads 2").output().unwrap();
    assert_eq!(status.code(), Some(0));
    let shown = String::from_utf8(stdout).unwrap();
    assert!(
        shown.lines().any(|l| l.starts_with("threads = 2 ") && l.ends_with("# flag --threads"))
    );
}

/// `sluice decode` with `input` on standard input: exit code and standard output.
fn decoded(arguments: &[&str], input: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.arg("decode").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let Output { status, stdout, .. } = child.wait_with_output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap())
}

#[test]
fn messages_are_decoded_from_the_command_line_and_from_standard_input() {
    let (code, text) = decoded(&["0414000800000007"], "");
    assert_eq!((code, text.lines().count()), (Some(0), 1));
    assert!(text.starts_with("OFPT_BARRIER_REQUEST (OF1.3) (xid=0x7)"), "{text}");
    assert_eq!(decoded(&["-"], "0414000800000007\n"), (code, text.clone()));
    assert_eq!(decoded(&[], "0414000800000007\n"), (code, text));
    let batch = ["--json", "--reencode", "--batch", "-"];
    let (code, text) = decoded(&batch, "{\"hex\": \"0414000800000007\"}\n{\"hex\": \"04\"}\n");
    assert_eq!((code, text.lines().count()), (Some(0), 2));
    assert!(text.contains("\"reencoded\":\"0414000800000007\",\"same\":true"), "{text}");
}

#[test]
fn decode_check_fails_on_malformed_messages_and_prints_errors_and_counts() {
    let counts = "1 well-formed message, 0 malformed\n".to_owned();
    assert_eq!(decoded(&["--check"], "0414000800000007"), (Some(0), counts));
    let (_, text) = decoded(&["--check", "--json"], "0414000800000007");
    let counts = "{\"well_formed\":1,\"malformed\":0,\"other_streams\":0,\"gaps\":0,\"missing_bytes\":0,\"fragments\":0,\
                  \"resynchronised\":0,\"skipped_bytes\":0,\"incomplete_streams\":0,\
                  \"evicted_connections\":0,\"messages_without_dpid\":0}\n";
    assert_eq!(text, counts);
    let (code, text) = decoded(&["--check"], "0414000800000007 041d000c0000000800000000");
    assert_eq!(code, Some(1));
    assert!(
        text.contains("METER_MOD (OF1.3): meter_id at byte 12: truncated (needs 4 bytes, 0 left)"),
        "{text}"
    );
    assert!(text.contains("the reply is ERROR BAD_REQUEST/BAD_LEN"), "{text}");
    assert!(text.ends_with("\n1 well-formed message, 1 malformed\n"), "{text}");
    assert_eq!(decoded(&["/nonexistent/file"], "").0, Some(2));
}

#[test]
fn decode_check_reports_a_hello_without_padding_and_bytes_after_an_invalid_length() {
    let (code, text) = decoded(&["--check"], "04000014000000000001000c0000001000000000");
    assert_eq!(code, Some(1));
    assert!(text.contains("HELLO (OF1.3)") && text.contains("lacks its padding"), "{text}");
    let (code, text) = decoded(&[], "0414000400000007 ffffff");
    assert_eq!(code, Some(0));
    assert!(text.ends_with("\nno message found in the 3 bytes that follow\n"), "{text}");
}

#[test]
fn decode_selects_messages_by_type_and_transaction_id() {
    let input = "0414000800000007 0402000800000008";
    let (code, text) = decoded(&["--type", "echo_request"], input);
    assert_eq!((code, text.lines().count()), (Some(0), 1));
    assert!(text.starts_with("OFPT_ECHO_REQUEST"), "{text}");
    assert!(decoded(&["--xid", "0x7"], input).1.starts_with("OFPT_BARRIER_REQUEST"));
    let (_, text) = decoded(&["--summary"], input);
    assert_eq!(text.lines().count(), 4, "header, two types, counts: {text}");
    for wrong in [["--type", "flowmod"], ["--dpid", "-1"], ["--xid", "x"]] {
        assert_eq!(decoded(&wrong, "").0, Some(2), "{wrong:?}");
    }
}

#[test]
fn decode_refuses_options_that_exclude_each_other_and_a_datapath_id_without_a_capture() {
    for arguments in [
        &["--batch", "-", "--follow", "-i", "lo"][..],
        &["--batch", "-", "0414000800000007"],
        &["--batch", "-", "--summary"],
        &["--batch", "-", "--check"],
        &["--batch", "-", "--dpid", "1"],
        &["--batch", "-", "--type", "hello"],
        &["--follow"],
        &["--dpid", "1", "0414000800000007"],
    ] {
        assert_eq!(decoded(arguments, ""), (Some(2), String::new()), "{arguments:?}");
    }
    // It cannot be a capture.
    assert_eq!(decoded(&["--dpid", "1"], "").0, Some(2));
    for arguments in [&["--check"][..], &["--summary"], &["--batch", "-"], &[]] {
        let (code, text) = decoded(arguments, "");
        assert_eq!(code, Some(0), "an empty input: {arguments:?}: {text}");
    }
}

#[test]
fn decode_refuses_a_capture_of_an_unknown_link_type() {
    let header = [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, 147];
    let path = std::env::temp_dir().join(format!("sluice-link-type-{}.pcap", std::process::id()));
    let bytes: Vec<u8> = header.iter().flat_map(|word| word.to_be_bytes()).collect();
    std::fs::write(&path, bytes).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    let output = command.args(["decode", "--check"]).arg(&path).output().unwrap();
    std::fs::remove_file(&path).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("link type 147 of the capture is not supported"), "{errors}");
}

#[test]
fn decode_says_that_a_capture_has_no_openflow() {
    let header = [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, 1];
    let path = std::env::temp_dir().join(format!("sluice-no-openflow-{}.pcap", std::process::id()));
    let bytes: Vec<u8> = header.iter().flat_map(|word| word.to_be_bytes()).collect();
    std::fs::write(&path, bytes).unwrap();
    for (arguments, notice) in [
        (&["decode"][..], "no OpenFlow message was found\n"),
        (&["decode", "--json"], "no OpenFlow message was found\n"),
        (&["decode", "--type", "error"], "no OpenFlow message was selected\n"),
        (&["decode", "--check"], ""),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        let output = command.args(arguments).arg(&path).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), notice, "{arguments:?}");
    }
    std::fs::remove_file(&path).unwrap();
}

/// Runs a command that uses the API at `SLUICE_API`; returns exit code, standard output and standard error.
fn at_api(address: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    let command = command.args(arguments).env("SLUICE_API", address).env_remove("SLUICE_TOKEN");
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (status.code(), stdout, stderr)
}

/// The address of the API of a process.
fn api_address(process: &mut SluiceProcess) -> String {
    let url = process.output_after("metrics: ");
    url.trim_start_matches("http://").trim_end_matches("/metrics").to_owned()
}

#[test]
fn a_command_without_a_token_prints_the_refusal_of_the_api() {
    let mut run = sluice("run --listen 127.0.0.1:0 --threads 1 --api 127.0.0.1:0");
    run.env("SLUICE_API__LOCAL_ROLE", "none");
    let mut process = SluiceProcess::start(run);
    let address = api_address(&mut process);
    for arguments in [&["show", "events", "--follow"][..], &["show", "switches"], &["top"]] {
        let (code, stdout, stderr) = at_api(&address, arguments);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("error: a token is needed"), "{arguments:?}: {stderr}");
    }
    // The option overrides the variable, before and behind the name of a subcommand.
    for arguments in
        [["show", "--api", &address, "switches"], ["show", "switches", "--api", &address]]
    {
        let (_, _, stderr) = at_api("127.0.0.1:1", &arguments);
        assert!(stderr.starts_with("error: a token is needed"), "{arguments:?}: {stderr}");
    }
    let (_, _, stderr) = at_api("127.0.0.1:1", &["show", "switches"]);
    assert!(stderr.contains("at 127.0.0.1:1"), "{stderr}");
}

#[test]
fn diff_has_the_exit_codes_of_diff() {
    let folder = std::env::temp_dir().join(format!("sluice-diff-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [file, broken, missing] =
        ["a.toml", "b.toml", "c.toml"].map(|name| folder.join(name).display().to_string());
    std::fs::write(&file, "[names.switches]\n1 = \"core\"\n").unwrap();
    std::fs::write(&broken, "[[flows]]\nnam = \"a\"\n").unwrap();
    let state = folder.join("state");
    let mut process =
        SluiceProcess::new(&format!("--api 127.0.0.1:0 --state-dir {}", state.display()));
    let address = api_address(&mut process);
    let diff = |file: &str| at_api(&address, &["diff", file]);
    let added = "+ switch-name 0000000000000001: core\n".to_owned();
    assert_eq!(diff(&file), (Some(1), added, String::new()));
    assert_eq!(at_api(&address, &["apply", &file]).0, Some(0));
    assert_eq!(diff(&file), (Some(0), String::new(), String::new()));
    for file in [&broken, &missing] {
        let (code, stdout, stderr) = diff(file);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(file), "{stderr}");
    }
    assert_eq!(at_api("127.0.0.1:1", &["diff", &file]).0, Some(2));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn output_to_a_full_disk_is_reported() {
    let emulate = "--topo linear,2 --controller 127.0.0.1:1";
    for (arguments, expected) in [
        ("--help", 1),
        ("--version", 1),
        ("run --help", 1),
        ("config example", 1),
        ("config show --config /dev/null", 1),
        (&format!("emu --once {emulate}"), 1),
        (&format!("emu --start {emulate}"), 1),
        ("control-link --listen 127.0.0.1:0 --connect 127.0.0.1:1", 1),
        ("decode 0414000800000007", 2),
        ("decode --check 0414000800000007", 2),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let Output { status, stderr, .. } =
            command.args(arguments.split_whitespace()).stdout(full).output().unwrap();
        let errors = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(expected), "{arguments}: {errors}");
        let error =
            "error: cannot write to standard output: No space left on device (os error 28)\n";
        assert_eq!(errors, error, "{arguments}");
    }
}

#[test]
fn the_report_of_a_flood_that_cannot_be_written_is_an_error() {
    let controller = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = controller.local_addr().unwrap().port().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let arguments = ["bench", "flood", "-c", "127.0.0.1", "--rate", "10", "--seconds", "1", "-p"];
    let output = command.args(arguments).arg(port).stdout(full).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("No space left on device"), "{errors}");
}

#[test]
fn a_number_of_threads_that_no_machine_can_run_is_refused_with_the_range() {
    for count in ["2147483648", "9223372036854775807", "9223372036854775808"] {
        let (code, log) = run_to_exit(&format!("run --threads {count}"));
        assert_eq!(code, Some(2), "{log}");
        assert!(log.contains("(expected a whole number from 0 to 1024)"), "{log}");
    }
    for count in ["0", "1025"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        let Output { status, stderr, .. } =
            command.args(["bench", "null", "--threads", count]).output().unwrap();
        let errors = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{errors}");
        assert!(errors.contains("is not in 1..=1024"), "{errors}");
    }
}

#[test]
fn a_controller_whose_standard_output_is_full_serves_switches_and_says_so_in_the_log() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut sluice = sluice("run --listen 127.0.0.1:0 --no-api --threads 1");
    let mut child = sluice.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = log.find(|line| line.contains("standard output")).unwrap();
    assert!(line.contains("WARN cannot write to standard output: No space left"), "{line}");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    assert!(log.any(|line| line.contains("stopping")));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Opening a named pipe used to wait for a writer, and no signal was handled meanwhile.
#[test]
fn a_configuration_file_that_has_become_a_named_pipe_is_reported_and_the_process_can_be_stopped() {
    let directory = std::env::temp_dir().join(format!("sluice-pipe-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("sluice.toml");
    std::fs::write(&file, "listen = [\"127.0.0.1:0\"]\n").unwrap();
    let mut sluice = Command::new(env!("CARGO_BIN_EXE_sluice"));
    sluice.args(["run", "--no-api", "--threads", "1", "--config"]).arg(&file);
    let mut process = SluiceProcess::start(sluice);
    process.output_after("listening on ");
    std::fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    process.signal("HUP");
    let mut log = BufReader::new(&mut process.stderr).lines().map(Result::unwrap);
    let line = log.find(|line| line.contains("configuration not reloaded")).unwrap();
    assert!(line.contains("not a regular file, so it cannot be read again"), "{line}");
    drop(log);
    process.signal("TERM");
    assert_eq!(process.wait_for_exit().0, Some(0));
    std::fs::remove_dir_all(directory).unwrap();
}

/// Measures a null responder of its own for two short loops.
fn bench(arguments: &[&str]) -> Output {
    let mut null = Command::new(env!("CARGO_BIN_EXE_sluice"));
    null.args(["bench", "null", "--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
    let mut null = null.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(null.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.strip_prefix("null responder listening on ").unwrap();
    let address = address.split(',').next().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(["bench", "-c", address, "-s", "2", "-M", "10", "-m", "50", "-l", "4", "-w", "0"]);
    let output = command.args(arguments).output().unwrap();
    null.kill().unwrap();
    null.wait().unwrap();
    output
}

#[test]
fn files_of_the_bench_that_cannot_be_written_are_errors() {
    for option in ["--json", "--csv", "--html", "--hdr"] {
        let Output { status, stderr, .. } = bench(&[option, "/dev/full"]);
        let errors = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(1), "{option}: {errors}");
        let error = "error: cannot write /dev/full: No space left on device (os error 28)\n";
        assert!(errors.ends_with(error), "{option}: {errors}");
    }
}

#[test]
fn repeated_runs_are_written_as_json_and_html_and_can_be_compared() {
    let folder = std::env::temp_dir().join(format!("sluice-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [json, html, csv] = ["r.json", "r.html", "r.csv"].map(|name| folder.join(name));
    let [json, html, csv] = [&json, &html, &csv].map(|path| path.to_str().unwrap());
    let files = ["--json", json, "--html", html, "--csv", csv];
    let Output { status, stdout, stderr } =
        bench(&[&["--repeat", "3", "--restart", "exit 0"][..], &files].concat());
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let text = String::from_utf8(stdout).unwrap();
    assert!(text.contains("\nRun 3 ") && text.contains("\nThroughput   median "), "{text}");
    assert!(text.contains("bench null"), "the process is found: {text}");
    assert_eq!(std::fs::read_to_string(json).unwrap().lines().count(), 4, "3 runs, 1 summary");
    assert_eq!(std::fs::read_to_string(csv).unwrap().lines().count(), 13, "3 runs of 4 loops");
    assert!(std::fs::read_to_string(html).unwrap().starts_with("<!DOCTYPE html>"));
    let compare = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.args(["bench", "compare"]).args(arguments).output().unwrap()
    };
    let Output { status, stdout, .. } = compare(&[json, json]);
    let text = String::from_utf8(stdout).unwrap();
    assert!(status.success() && text.contains("Samples      3 runs and 3 runs\n"), "{text}");
    assert!(text.contains(" 1.000  ") && text.contains("not significant"), "{text}");
    let Output { status, stderr, .. } = compare(&[json, csv]);
    let error = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{error}");
    assert!(
        error.starts_with(&format!("error: cannot compare {csv}: line 1 is not a report")),
        "{error}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_restart_that_fails_is_an_error() {
    let Output { status, stderr, .. } = bench(&["--restart", "exit 7"]);
    let error = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{error}");
    let expected = "error: cannot restart the controller with `exit 7`: exit status: 7\n";
    assert!(error.ends_with(expected), "{error}");
}
