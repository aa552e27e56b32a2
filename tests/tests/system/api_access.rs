//! Who may use the API of the running controller, asked by curl and by `sluice show`.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::Path;
use std::process::Command;

use sluice_system_tests::{
    Controller, OpenFlow, OvsNetwork, Pki, SHORT_TIMEOUT, TestEnv, binary, output_of, wait_until,
};

/// Address of the controller within its namespace, which is not that of the loopback device.
const OTHER_ADDRESS: &str = "10.99.0.1";

/// What schemathesis expects of each answer. Without its check of authentication: programs on this machine need none.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,unsupported_method,negative_data_rejection";

/// Status of the answer to `curl` with `arguments`; 0 if there is none.
fn status(env: &TestEnv, arguments: &[&str]) -> u16 {
    let mut curl = env.command("curl");
    curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "10"]).args(arguments);
    let output = curl.output().unwrap();
    String::from_utf8_lossy(&output.stdout).parse().unwrap_or(0)
}

/// Runs `sluice` with `words`; standard output.
fn sluice(env: &TestEnv, words: &str) -> String {
    let mut command = env.command(&binary().to_string_lossy());
    output_of(command.args(words.split_whitespace())).trim().to_owned()
}

fn fails(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{command:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Starts a controller that serves the API on all addresses over TLS, and on a Unix socket; programs of this machine may only read.
fn start_with_tls(env: &TestEnv, pki: &Pki, [socket, tokens, audit]: [&Path; 3]) -> Controller {
    let (certificate, key) = (pki.file("controller.pem"), pki.file("controller.key"));
    let mut command = env.command(&binary().to_string_lossy());
    command.args(["run", "--threads", "1", "--api", "0.0.0.0:8653"]);
    command.args(["--api-socket", path(socket), "--api-tokens", path(tokens)]);
    command.args(["--api-cert", path(&certificate), "--api-key", path(&key)]);
    command.env("SLUICE_API__AUDIT", audit).env("SLUICE_API__LOCAL_ROLE", "read");
    Controller::with(command, env.dir())
}

#[test]
fn a_unix_socket_tls_and_tokens_decide_who_sees_the_network() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 1);
    let env = network.env();
    env.ip("addr add 10.99.0.1/32 dev lo");
    let pki = Pki::new(env, "pki");
    pki.issue(&format!("controller --name {OTHER_ADDRESS} --name sluice.example"));
    let [socket, tokens, audit] =
        ["api.sock", "tokens.json", "audit.log"].map(|name| env.file(name));
    // Before the start: a token that the controller does not know yet would count as a guess.
    let file = path(&tokens);
    let read = sluice(env, &format!("token add web --role read --expires 90d --file {file}"));
    let operate = sluice(env, &format!("token add script --role operate --file {file}"));
    let mut controller = start_with_tls(env, &pki, [&socket, &tokens, &audit]);
    network.connect(&controller);
    controller.wait_for_sessions(1);

    assert!(read.starts_with("sluice_") && !fs::read_to_string(&tokens).unwrap().contains(&read));
    let list = sluice(env, &format!("token list --file {file}"));
    assert!(list.contains("read        in ") && list.contains("operate     never"), "{list}");

    let (ca, url) = (pki.file("ca.pem"), format!("https://{OTHER_ADDRESS}:8653/v1/switches"));
    let with = |token: &str, more: &[&str]| {
        let header = format!("Authorization: Bearer {token}");
        status(env, &[&["--cacert", path(&ca), "-H", &header, &url], more].concat())
    };
    assert_eq!(with(&read, &[]), 200);
    assert_eq!(with(&read, &["-X", "DELETE"]), 403);
    // There is no such method, but the token may use it.
    assert_eq!(with(&operate, &["-X", "DELETE"]), 405);
    assert_eq!(with("sluice_guess", &[]), 401);
    // Local on the machine, but not by this address.
    assert_eq!(status(env, &["--cacert", path(&ca), "--interface", OTHER_ADDRESS, &url]), 401);
    assert_eq!(status(env, &["--cacert", path(&ca), &url.replace("https", "http")]), 0);
    // Another authority, and a name that is not in the certificate.
    assert_eq!(status(env, &[&url]), 0);
    assert_eq!(status(env, &["--cacert", path(&ca), "https://127.0.0.1:8653/v1/switches"]), 0);

    let unix = ["--unix-socket", path(&socket), "http://localhost/v1/switches"];
    assert_eq!(status(env, &unix), 200);
    assert_eq!(status(env, &[&unix[..], &["-X", "DELETE"]].concat()), 403);
    let shown = sluice(env, &format!("show switches --api unix:{}", path(&socket)));
    assert!(shown.contains("s1"), "{shown}");
    let remote = format!("--api https://{OTHER_ADDRESS}:8653 --ca {}", path(&ca));
    let shown = sluice(env, &format!("show switches {remote} --token {read}"));
    assert!(shown.contains("s1"), "{shown}");
    let mut show = env.command(&binary().to_string_lossy());
    show.args(["show", "switches", "--api", "https://127.0.0.1:8653", "--ca", path(&ca)]);
    let error = fails(&mut show);
    assert!(error.contains("certificate"), "{error}");

    let recorded = fs::read_to_string(&audit).unwrap();
    for part in [r#""who":"token web""#, r#""who":"token script""#, r#""who":"uid 0""#] {
        assert!(recorded.contains(part), "{part} in {recorded}");
    }
    assert!(!recorded.contains(&read) && !controller.log().contains(&read));

    // Certificates and the role are read again.
    pki.remove("controller");
    pki.issue("controller --name other.example");
    controller.reload();
    controller.wait_for_log(&["certificates reloaded"]);
    assert_eq!(with(&read, &[]), 0);
    sluice(env, &format!("token remove web --file {file}"));
    let insecure = |token: &str| {
        let header = format!("Authorization: Bearer {token}");
        status(env, &["-k", "-H", &header, &url])
    };
    wait_until(SHORT_TIMEOUT, "the token to be refused", || insecure(&read) != 200);
    assert_eq!(insecure(&operate), 200);

    // What a crash leaves behind does not prevent a start.
    controller.kill();
    assert!(socket.exists());
    controller.restart();
    wait_until(SHORT_TIMEOUT, "the socket to be served", || status(env, &unix) == 200);
    controller.terminate();
    controller.wait_for_end();
    assert!(!socket.exists());
}

#[test]
fn a_token_in_clear_text_is_refused() {
    let env = TestEnv::shared();
    env.ip("addr add 10.99.0.1/32 dev lo");
    let tokens = env.file("tokens.json");
    let token = sluice(&env, &format!("token add web --role read --file {}", path(&tokens)));
    let mut command = env.command(&binary().to_string_lossy());
    command.args(["run", "--threads", "1", "--api", "0.0.0.0:8653"]);
    command.args(["--api-tokens", path(&tokens)]);
    let controller = Controller::with(command, env.dir());
    let header = format!("Authorization: Bearer {token}");
    let url = format!("http://{OTHER_ADDRESS}:8653/v1/switches");
    assert_eq!(status(&env, &["-H", &header, &url]), 403);
    let local = ["-H", &header, "--interface", "127.0.0.1", "http://127.0.0.1:8653/v1/switches"];
    assert_eq!(status(&env, &local), 200);
    let mut show = env.command(&binary().to_string_lossy());
    show.args(["show", "switches", "--token", &token, "--api", &format!("{OTHER_ADDRESS}:8653")]);
    let error = fails(&mut show);
    assert!(error.contains("clear text"), "{error}");
    drop(controller);
}

/// Requests that the OpenAPI document allows, and others that it does not: no answer may be missing in it.
#[test]
fn the_api_answers_as_its_openapi_document_says() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 2);
    let env = network.env();
    let mut command = env.command(&binary().to_string_lossy());
    command.args(["run", "--threads", "1", "--state-dir", path(&env.file("state"))]);
    let controller = Controller::with(command, env.dir());
    network.connect(&controller);
    controller.wait_for_sessions(2);
    // All routes, also those that write, but for captures: they last an hour unless the request ends them.
    // The number of requests is bounded, not their time, so that a slow machine sends the same ones.
    // scripts/setup.sh creates the Python environment, and names its version.
    let script = r#"root=$(cd "$0"/.. && pwd) && cd "$3" && exec "$root"/.cache/schemathesis-*/bin/schemathesis \
        --config-file "$root"/tests/schemathesis.toml run "$1"/v1/openapi.json --url "$1" \
        --checks "$2" --exclude-path /v1/capture --max-examples 5 --suppress-health-check all --seed 1 --no-color --generation-database none"#;
    let mut schemathesis = env.command("sh");
    schemathesis.args(["-c", script, env!("CARGO_MANIFEST_DIR"), "http://127.0.0.1:8653", CHECKS]);
    // It keeps what it has found there.
    schemathesis.arg(env.dir());
    let output = schemathesis.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}\n{}", controller.log());
    println!("{text}");
    assert_eq!(controller.sessions(), 2);
    // Requests that are all refused would prove little. Which ones are accepted changes with the document; that each operation can be is
    // the subject of `routes`.
    let log = controller.log();
    let is_accepted =
        |line: &&str| line.contains("API write record") && line.contains(r#"\"status\":200"#);
    let accepted = log.lines().filter(is_accepted).count();
    assert!(accepted >= 20, "{accepted} changes were accepted");
}
