use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use std::{env, fs, process};

use clap::{Args as _, FromArgMatches as _};
use sluice_apps::learning;
use sluice_apps::topology::StaticBundle;
use sluice_engine::{Pin, WorkerEngine};
use sluice_io::ReadSizes;
use sluice_openflow::{Action, DatapathId, PortNo, Role, Version, Versions};

use super::keys::{FlagValue, KEYS};
use super::removed::{REMOVED, Replacement};
use super::*;

/// A configuration file that is removed when it is dropped.
pub(super) struct TestFile(pub(super) PathBuf);

impl TestFile {
    pub(super) fn new(name: &str, text: &str) -> Self {
        let path = env::temp_dir().join(format!("sluice-{}-{name}.toml", process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn flags(args: &str) -> Flags {
    let command = Flags::augment_args(clap::Command::new("x").no_binary_name(true));
    Flags::from_arg_matches(&command.try_get_matches_from(args.split_whitespace()).unwrap())
        .unwrap()
}

/// Sources with a file, so that the file of this machine is not read.
fn sources(file: &TestFile, env: &[(&str, &str)], args: &str) -> ConfigSources {
    let config = Some(file.0.clone());
    let env = env.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    let flags = Flags { config, ..flags(args) };
    ConfigSources { flags, env, ..ConfigSources::default() }
}

pub(super) fn load(name: &str, text: &str, env: &[(&str, &str)], args: &str) -> LoadedConfig {
    sources(&TestFile::new(name, text), env, args).load().unwrap()
}

/// The errors, with `F` for the path of the file.
pub(super) fn errors(name: &str, text: &str, env: &[(&str, &str)], args: &str) -> Vec<String> {
    let file = TestFile::new(name, text);
    let errors = sources(&file, env, args).load().unwrap_err();
    let path = file.0.display().to_string();
    errors.iter().map(|error| error.to_string().replace(&path, "F")).collect()
}

/// Value and origin of the key at `path`, with `F` for the path of the file.
fn value(loaded: &LoadedConfig, path: &str) -> String {
    let (_, value, origin) = loaded.values().find(|(key, ..)| key.path == path).unwrap();
    let file = loaded.file.as_ref().unwrap().display().to_string();
    format!("{value} {origin}").replace(&file, "F")
}

#[test]
fn a_flag_overrides_the_environment_overrides_the_file_overrides_the_default() {
    let text = "\n[workers]\n threads = 1\n";
    let env = [("SLUICE_WORKERS__THREADS", "2")];
    let threads = |loaded: &LoadedConfig| {
        (value(loaded, "workers.threads"), loaded.config.engine.workers.threads)
    };
    assert_eq!(threads(&load("order", "", &[], "")), ("0 default".into(), 0));
    assert_eq!(threads(&load("order", text, &[], "")), ("1 F:3:2".into(), 1));
    assert_eq!(
        threads(&load("order", text, &env, "")),
        ("2 env SLUICE_WORKERS__THREADS".into(), 2)
    );
    assert_eq!(threads(&load("order", text, &env, "--threads 3")), ("3 flag --threads".into(), 3));
}

#[test]
fn every_flag_sets_its_configuration() {
    let args = "--listen 127.0.0.1:1 --listen [::1]:2,0.0.0.0:3 --threads 4 --pin 0,1 --spin 50.5 \
                 --engine uring --app hub,learning --api 127.0.0.1:0 --log-level debug --log-format json";
    let config = load("flags", "", &[], args).config;
    let listen: Vec<_> = config.engine.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["127.0.0.1:1", "[::1]:2", "0.0.0.0:3"]);
    assert_eq!(config.engine.workers.threads, 4);
    assert_eq!(config.engine.workers.pin, Pin::Cores(vec![0, 1]));
    assert_eq!(config.engine.workers.waiting.spin, Duration::from_nanos(50_500));
    assert_eq!(config.engine.workers.engine, WorkerEngine::Uring);
    assert_eq!(config.app_names, ["hub", "learning"]);
    assert_eq!(config.api.listen.unwrap().to_string(), "127.0.0.1:0");
    assert_eq!(config.log.level.to_string(), "debug");
    assert_eq!(config.log.format, LogFormat::Json);
    let pin = |args: &str| load("pin", "", &[], args).config.engine.workers.pin;
    assert_eq!(pin("--pin off"), Pin::Off);
    assert_eq!(pin("--pin on"), Pin::Each);
    assert_eq!(pin("--pin 1"), Pin::Cores(vec![1]));
}

#[test]
fn metrics_are_switched_off_by_flag_and_by_value() {
    let api = |env: &[(&str, &str)], args: &str| load("api", "", env, args).config.api.listen;
    assert_eq!(api(&[], "--no-api"), None);
    assert_eq!(api(&[], "--api off"), None);
    assert_eq!(api(&[], "--api 127.0.0.1:1 --no-api"), None);
    assert_eq!(api(&[("SLUICE_API__LISTEN", "off")], ""), None);
}

#[test]
fn an_address_may_be_a_name_or_a_port_alone() {
    let listen = |text: &str| -> Vec<String> {
        let config = load("listen", "", &[], &format!("--listen {text}")).config;
        config.engine.listen.iter().map(ToString::to_string).collect()
    };
    assert_eq!(listen("6653"), ["[::]:6653"]);
    assert_eq!(listen(":6653"), ["[::]:6653"]);
    assert_eq!(listen("6653,6633"), ["[::]:6653", "[::]:6633"]);
    assert!(listen("localhost:6653").contains(&"127.0.0.1:6653".to_owned()));
    let api =
        |text: &str| load("api-name", "", &[], &format!("--api {text}")).config.api.listen.unwrap();
    // A port alone is reachable from this machine only; `:PORT` listens on all addresses.
    assert_eq!(api("8653").to_string(), "127.0.0.1:8653");
    assert_eq!(api(":8653").to_string(), "[::]:8653");
    assert_eq!(api("localhost:8653").to_string(), "127.0.0.1:8653");
}

#[test]
fn bundles_are_ports_of_a_datapath_id() {
    let bundles = |text: &str, env: &[(&str, &str)]| {
        load("bundles", text, env, "").config.apps.topology.bundles
    };
    let bundle = |ports: [u32; 2]| StaticBundle::new(DatapathId(0xa1), ports.map(PortNo).into());
    let expected = [bundle([4, 3]).unwrap(), bundle([5, 6]).unwrap()];
    assert_eq!(bundles("", &[]), []);
    assert_eq!(
        bundles("topology.bundles = [\"A1:4+3\", \"00000000000000a1:5+6\"]\n", &[]),
        expected
    );
    assert_eq!(bundles("", &[("SLUICE_TOPOLOGY__BUNDLES", "a1:4+3,a1:5+6")]), expected);
}

#[test]
fn an_invalid_bundle_is_rejected_with_what_is_wrong() {
    for (value, what) in [
        (r#""3+4""#, r#""3+4": no colon after the datapath id"#),
        (
            r#""s1:3+4""#,
            r#""s1:3+4": the datapath id is not a hexadecimal number of up to 16 digits"#,
        ),
        (r#""a1:3+0""#, r#""a1:3+0": invalid port number"#),
        (r#""a1:3""#, r#""a1:3": a bundle has 2 to 16 ports"#),
        (r#""a1:3+3""#, r#""a1:3+3": a port is given twice"#),
        (r#""a1:3+4", "A1:4+5""#, r#""A1:4+5": one of its ports is in another bundle"#),
    ] {
        let found = errors("bundle", &format!("topology.bundles = [{value}]\n"), &[], "");
        let expected = format!(
            "F:1:10: `topology.bundles`: invalid bundle {what} (expected for example 00000000000000a1:3+4)"
        );
        assert_eq!(found, [expected]);
    }
}

#[test]
fn the_default_shown_in_the_help_is_a_valid_value_of_the_flag() {
    let defaults = load("shown", "", &[], "");
    for key in KEYS.iter() {
        for flag in key.flags.iter().filter(|flag| matches!(flag.value, FlagValue::Given(_))) {
            let text = flags::to_flag_syntax(&key.default);
            let given = load("shown", "", &[], &format!("--{}={text}", flag.name));
            assert_eq!(defaults.changed_keys(&given), Vec::<&ConfigKey>::new(), "{}", flag.name);
        }
    }
}

#[test]
fn every_kind_of_value_is_read_from_a_file() {
    let text = r#"
        apps = []
        workers.pin = [1]
        [session]
        versions = ["1.0"]
        echo_interval_s = 3
        role = "master"
        [socket]
        congestion = "system"
        [learning]
        match = "dst"
        [experimental]
        handshake_timeout_ms = 1.5
        path_pending_ms = 0
    "#;
    let config = load("kinds", text, &[], "").config;
    assert!(config.app_names.is_empty());
    assert_eq!(config.engine.workers.pin, Pin::Cores(vec![1]));
    assert_eq!(config.engine.session.versions, Versions::of(&[Version::V1_0]));
    assert_eq!(config.engine.session.handshake_timeout, Duration::from_micros(1500));
    assert_eq!(config.engine.session.echo_interval, Duration::from_secs(3));
    assert_eq!(config.engine.session.role, Some(Role::MASTER));
    assert_eq!(config.engine.socket.congestion, None);
    assert_eq!(config.apps.learning.matching, learning::Matching::Dst);
    assert_eq!(config.apps.forwarding.path_pending, Duration::ZERO);
}

#[test]
fn the_environment_takes_words_lists_and_toml() {
    let env = [
        ("SLUICE_LISTEN", "[::]:1, 127.0.0.1:2"),
        ("SLUICE_APPS", r#"["hub"]"#),
        ("SLUICE_WORKERS__PIN", "[0]"),
        ("SLUICE_SESSION__VERSIONS", "1.0"),
        ("SLUICE_SESSION__MISS_SEND_LEN", "64"),
        ("SLUICE_LIMITER__ECN", "no"),
        ("SLUICE_BLESS", "1"),
        ("SLUICE_PORT_6653_TCP_ADDR", "10.0.0.1"),
    ];
    let loaded = load("env", "", &env, "");
    assert_eq!(value(&loaded, "listen"), r#"["[::]:1", "127.0.0.1:2"] env SLUICE_LISTEN"#);
    assert_eq!(value(&loaded, "apps"), r#"["hub"] env SLUICE_APPS"#);
    assert_eq!(value(&loaded, "workers.pin"), "[0] env SLUICE_WORKERS__PIN");
    assert_eq!(value(&loaded, "session.versions"), r#"["1.0"] env SLUICE_SESSION__VERSIONS"#);
    assert_eq!(value(&loaded, "session.miss_send_len"), "64 env SLUICE_SESSION__MISS_SEND_LEN");
    assert_eq!(value(&loaded, "limiter.ecn"), "false env SLUICE_LIMITER__ECN");
}

#[test]
fn an_unknown_key_is_rejected_with_its_position_and_a_similar_key() {
    let text = "threads = 2\n\n[workers]\n  thread = 2\nx.y = 1\n[wokers]\n[foo]\n";
    assert_eq!(
        errors("unknown", text, &[("SLUICE_LOG__LEVELS", "info")], ""),
        [
            "F:1:1: unknown key `threads`; did you mean `workers.threads`?",
            "F:4:3: unknown key `workers.thread`; did you mean `workers.threads`?",
            "F:5:1: unknown key `workers.x`; `sluice config example` shows all keys",
            "F:6:2: unknown key `wokers`; did you mean `workers`?",
            "F:7:2: unknown key `foo`; `sluice config example` shows all keys",
            "env SLUICE_LOG__LEVELS: unknown key `log.levels`; did you mean `log.level`?",
        ]
    );
}

#[test]
fn a_removed_key_is_rejected_with_its_new_name_or_its_constant() {
    let text = "[limits]\nsessions_max = 1\nmail_max = 2\n[hub]\nmiss_len = 3\nx = 4\n";
    let env = [("SLUICE_API__ENABLED", "no"), ("SLUICE_FORWARDING__SEED", "1")];
    assert_eq!(
        errors("removed", text, &env, ""),
        [
            "F:2:1: `limits.sessions_max` was renamed to `limits.switches_max`",
            "F:3:1: `limits.mail_max` was removed; it is a constant now (4096 messages)",
            "F:5:1: `hub.miss_len` was renamed to `session.miss_send_len`",
            "F:6:1: unknown key `hub.x`; `sluice config example` shows all keys",
            "env SLUICE_API__ENABLED: `api.enabled` was removed; set `api.listen = \"off\"` instead of false",
            "env SLUICE_FORWARDING__SEED: `forwarding.seed` was removed; it is a constant now (0)",
        ]
    );
}

#[test]
fn removed_keys_do_not_exist_and_their_replacements_do() {
    for (path, replacement) in REMOVED {
        assert_eq!(ConfigKey::find(path), None);
        match replacement {
            Replacement::Key(new) | Replacement::Value { key: new, .. } => {
                assert!(ConfigKey::find(new).is_some(), "{new}");
            }
            Replacement::Constant(_) => {}
        }
    }
}

#[test]
fn miss_send_len_applies_to_the_session_and_to_all_applications() {
    let lengths = |text: &str| {
        let config = load("miss-send-len", text, &[], "").config;
        let apps = config.apps;
        let apps = [
            apps.forwarding.miss_send_len,
            apps.learning.miss_send_len,
            apps.hub.miss_send_len,
            apps.limiter.miss_send_len,
        ];
        (config.engine.session.miss_send_len, apps)
    };
    assert_eq!(lengths(""), (128, [Action::WHOLE; 4]));
    assert_eq!(lengths("session.miss_send_len = \"auto\""), (128, [Action::WHOLE; 4]));
    assert_eq!(lengths("session.miss_send_len = 200"), (200, [200; 4]));
}

/// Lines with invalid values, and what is said about them.
const INVALID_VALUES: &[(&str, &str)] = &[
    (
        r#"workers.threads = "many""#,
        r#"invalid value "many" (expected a whole number from 0 to 1024)"#,
    ),
    ("workers.threads = -1", "invalid value -1 (expected a whole number from 0 to 1024)"),
    (
        "workers.threads = 2147483648",
        "invalid value 2147483648 (expected a whole number from 0 to 1024)",
    ),
    ("[workers.threads]", "invalid value a section (expected a whole number from 0 to 1024)"),
    (
        "forwarding.priority = 65533",
        "invalid value 65533 (expected a whole number from 7 to 65529)",
    ),
    (
        "forwarding.multicast_membership_s = 20",
        "invalid value 20 (expected a number from 30 to 3600)",
    ),
    (
        r#"forwarding.multicast_unregistered = "drop""#,
        r#"unknown value "drop" (known: flood, router-ports)"#,
    ),
    ("learning.priority = 0", "invalid value 0 (expected a whole number from 1 to 65531)"),
    ("learning.priority = 65532", "invalid value 65532 (expected a whole number from 1 to 65531)"),
    (
        r#"workers.pin = "0""#,
        r#"invalid value "0" (expected true, false or a list of cores, such as [0, 1])"#,
    ),
    (
        r#"workers.engine = "kqueue""#,
        r#"unknown value "kqueue" (known: epoll, uring, kernel, auto)"#,
    ),
    ("hosts.arp_proxy = 1", "invalid value 1 (expected true or false)"),
    (
        r#"listen = ["localhost"]"#,
        "invalid address \"localhost\" (it has no port; expected 127.0.0.1:6653, [::1]:6653, localhost:6653 or 6653)",
    ),
    ("listen = []", "no address (expected at least one here or in `tls.listen`)"),
    (r#"listen = "[::]:6653""#, r#"invalid value "[::]:6653" (expected a list)"#),
    (
        r#"apps = ["forwarding"]"#,
        "forwarding requires topology and hosts before it, as in topology,hosts,forwarding",
    ),
    (
        r#"session.versions = ["1.6"]"#,
        r#"unknown OpenFlow version "1.6" (known: 1.0, 1.1, 1.2, 1.3, 1.4, 1.5)"#,
    ),
    (
        r#"session.miss_send_len = "all""#,
        r#"invalid value "all" (expected auto or a whole number from 0 to 65535)"#,
    ),
    ("session.echo_interval_s = 0", "invalid value 0 (expected more than 0, at most 31536000)"),
    (
        "topology.probe_interval_ms = 100",
        "invalid value 100 (expected a number from 250 to 3600000)",
    ),
    ("learning.host_timeout_s = 70000", "invalid value 70000 (expected a number from 1 to 64800)"),
    (r#"session.role = "boss""#, r#"unknown value "boss" (known: none, equal, master, slave)"#),
    (r#"topology.secret = "5ec237""#, "invalid value (expected 32 hex digits)"),
];

#[test]
fn an_invalid_value_is_rejected_with_its_position_and_what_was_expected() {
    for (line, error) in INVALID_VALUES {
        let found = errors("invalid", &format!("# first\n{line}\n"), &[], "");
        let path = line.trim_start_matches('[').trim_end_matches(']');
        let path = path.split(" = ").next().unwrap();
        let column = 1 + line.find(path.rsplit('.').next().unwrap()).unwrap();
        assert_eq!(found, [format!("F:2:{column}: `{path}`: {error}")]);
    }
}

#[test]
fn a_section_that_has_a_value_is_rejected() {
    let section = "F:1:1: `workers` is a section: write [workers] and its keys below";
    assert_eq!(errors("section", "workers = 3\n", &[], ""), [section]);
}

#[test]
fn an_unknown_application_is_rejected_with_a_list_of_the_known_ones() {
    let found = errors("apps", "apps = [\"routing\"]\n", &[], "");
    let start = "F:1:1: `apps`: unknown application \"routing\" (known: ";
    assert!(found.iter().all(|error| error.starts_with(start)), "{found:?}");
    let registry = sluice_apps::registry();
    let names = registry.applications().iter().map(|app| app.name);
    assert!(
        names.clone().count() > 5 && names.clone().all(|name| found[0].contains(name)),
        "{found:?}"
    );
}

#[test]
fn an_application_is_given_at_most_once() {
    let many = format!("apps = [{}]\n", vec!["\"hub\""; 20_000].join(","));
    let expected = "F:1:1: `apps`: application \"hub\" is given twice";
    assert_eq!(errors("many-apps", &many, &[], ""), [expected]);
}

#[test]
fn a_number_of_threads_beyond_all_integers_is_rejected_with_the_range() {
    let error = "flag --threads: `workers.threads`: invalid value \"9223372036854775808\" \
                 (expected a whole number from 0 to 1024)";
    assert_eq!(errors("threads", "", &[], "--threads 9223372036854775808"), [error]);
}

#[test]
fn show_prints_lists_of_any_length_and_masks_the_secret() {
    let cores = vec!["0"; 40_000].join(", ");
    let secret = "0123456789abcdef0123456789abcdef";
    let text = format!("[workers]\npin = [{cores}]\n[topology]\nsecret = \"{secret}\"\n");
    let shown = show(&load("long", &text, &[], ""));
    assert!(shown.contains(&cores));
    assert!(!shown.contains(secret) && shown.contains("secret = \"(hidden)\""), "no secret");
    assert!(shown.lines().filter(|line| !line.contains("pin = ")).all(|line| line.len() < 200));
    assert!(show(&load("no-secret", "", &[], "")).contains("secret = \"\""));
}

#[test]
fn the_error_names_the_invalid_flag_or_environment_variable() {
    let env = [("SLUICE_LIMITS__SWITCHES_MAX", "-5")];
    assert_eq!(
        errors("named", "", &env, "--threads x --pin maybe --log-level loud"),
        [
            "env SLUICE_LIMITS__SWITCHES_MAX: `limits.switches_max`: invalid value -5 (expected a whole number above 0)",
            r#"flag --threads: `workers.threads`: invalid value "x" (expected a whole number from 0 to 1024)"#,
            r#"flag --pin: `workers.pin`: invalid value "maybe" (expected true, false or a list of cores, such as [0, 1])"#,
            r#"flag --log-level: `log.level`: unknown value "loud" (known: off, error, warn, info, debug, trace)"#,
        ]
    );
}

#[test]
fn invalid_toml_is_rejected_with_its_line() {
    for text in
        ["listen = 1\n\n= 3\n", "a = 1\nb = 2\nworkers = {\n", "\n\nlisten = []\nlisten = []\n"]
    {
        let found = errors("syntax", text, &[], "");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("F:3:") || found[0].starts_with("F:4:"), "{found:?}");
        assert!(!found[0].contains('\n'), "{found:?}");
    }
}

#[test]
fn the_file_given_by_the_config_flag_must_exist() {
    let config = Some(PathBuf::from("/nonexistent/sluice.toml"));
    let errors = ConfigSources { flags: Flags { config, ..flags("") }, ..ConfigSources::default() }
        .load()
        .unwrap_err();
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        ["/nonexistent/sluice.toml: cannot be read: No such file or directory (os error 2)"]
    );
}

#[test]
fn defaults_are_those_of_the_crates() {
    let config = load("crates", "", &[], "").config;
    assert_eq!(config.engine, sluice_engine::Config::default());
    assert_eq!(config.apps, sluice_apps::Config::default());
}

#[test]
fn each_optimisation_is_switched_off_alone() {
    let off = |key: &str| {
        let env = format!("SLUICE_OPTIMISATIONS__{}", key.to_uppercase());
        let RunConfig { engine, apps, huge_pages, .. } =
            load("optimisations", "", &[(&env, "off")], "").config;
        (engine, apps, huge_pages)
    };
    let defaults = || (sluice_engine::Config::default(), sluice_apps::Config::default(), true);
    let mut expected = [(); 7].map(|()| defaults());
    expected[0].0.batching.output = false;
    expected[1].0.batching.input = false;
    expected[2].0.workers.read_sizes = ReadSizes::Fixed;
    expected[3].1.learning.prefetching = false;
    expected[4].1.learning.templates = false;
    expected[4].1.forwarding.templates = false;
    expected[5].0.workers.run_to_completion = false;
    expected[6].2 = false;
    let keys = KEYS.iter().filter(|key| key.section == "optimisations").map(|key| key.name);
    assert_eq!(keys.clone().count(), expected.len());
    for (key, expected) in keys.zip(expected) {
        assert_eq!(off(key), expected, "{key}");
    }
}

#[test]
fn what_is_a_part_of_an_engine_cannot_be_switched_off() {
    for (engine, key) in [
        ("uring", "output_batching"),
        ("uring", "adaptive_reads"),
        ("kernel", "run_to_completion"),
        ("auto", "run_to_completion"),
    ] {
        let text = format!("workers.engine = \"{engine}\"\n[optimisations]\n{key} = false\n");
        let error = format!(
            "F:3:1: `optimisations.{key}`: cannot be off with `workers.engine` = \"{engine}\""
        );
        assert_eq!(errors(engine, &text, &[], ""), [error]);
    }
}

#[test]
fn changes_are_detected_by_value() {
    let old = load("changes", "[workers]\nthreads = 2\n", &[], "");
    let new =
        load("changes", "# moved down\n[workers]\nthreads = 2\n[log]\nlevel = \"warn\"\n", &[], "");
    let keys: Vec<_> = old.changed_keys(&new).iter().map(|key| &key.path).collect();
    assert_eq!(keys, ["log.level"]);
}

#[test]
fn show_has_every_value_with_its_origin_and_can_be_read_again() {
    let file = TestFile::new("show", "apps = [\"hub\"]\n");
    let env = [("SLUICE_SESSION__ROLE", "equal")];
    let loaded = sources(&file, &env, "--no-api --threads 2").load().unwrap();
    let shown = show(&loaded);
    let has = |key: &str, origin: &str| {
        let origin = origin.replace('F', &file.0.display().to_string());
        let found = shown
            .lines()
            .filter_map(|line| line.split_once("  # "))
            .any(|(line, from)| line.trim_end() == key && from == origin);
        assert!(found, "{key} # {origin} in\n{shown}");
    };
    has(r#"apps = ["hub"]"#, "F:1:1");
    has(r#"role = "equal""#, "env SLUICE_SESSION__ROLE");
    has("listen = \"off\"", "flag --no-api");
    has("threads = 2", "flag --threads");
    has("hosts_max = 131072", "default");
    let shown_by_default = KEYS.iter().filter(|key| !key.is_experimental()).count();
    assert_eq!(shown.lines().filter(|line| line.contains(" = ")).count(), shown_by_default);
    let again = load("again", &shown, &[], "");
    assert!(loaded.changed_keys(&again).is_empty());
    let experimental = load("show-experimental", "experimental.settle_ms = 1\n", &[], "");
    assert!(show(&experimental).contains("[experimental]\nsettle_ms = 1"));
}

#[test]
fn a_file_that_is_gone_is_an_error_when_the_configuration_is_loaded_again() {
    let file = TestFile::new("again", "listen = [\"127.0.0.1:7000\"]");
    let mut sources = sources(&file, &[], "");
    let previous = sources.load().unwrap();
    assert!(sources.load_again(&previous).is_ok());
    fs::remove_file(&file.0).unwrap();
    // As with the default file, which may be missing at the start.
    sources.flags.config = None;
    let error = sources.load_again(&previous).unwrap_err()[0].to_string();
    assert!(error.ends_with(": cannot be read: No such file or directory (os error 2)"), "{error}");
    assert!(Command::new("mkfifo").arg(&file.0).status().unwrap().success());
    let error = sources.load_again(&previous).unwrap_err()[0].to_string();
    assert!(error.ends_with(": not a regular file, so it cannot be read again"), "{error}");
}

#[test]
fn a_file_that_is_too_large_is_rejected() {
    let text = "#".repeat(1 << 20);
    assert!(sources(&TestFile::new("large", &text), &[], "").load().is_ok());
    let error = "F: cannot be read: larger than 1 MiB";
    assert_eq!(errors("too-large", &(text + "#"), &[], ""), [error]);
    // A device that can be read forever.
    let endless = ConfigSources { flags: flags("--config /dev/zero"), ..ConfigSources::default() };
    assert_eq!(endless.load().unwrap_err()[0].to_string(), error.replace('F', "/dev/zero"));
}

#[test]
fn addresses_that_include_each_other_are_rejected() {
    let error = |listen: &str| errors("twice", "", &[("SLUICE_LISTEN", listen)], "").join("\n");
    let twice = "env SLUICE_LISTEN: `listen`: 127.0.0.1:6653 is given twice";
    assert_eq!(error("127.0.0.1:6653, [::1]:6653, 127.0.0.1:6653"), twice);
    let both =
        "env SLUICE_LISTEN: `listen`: [::]:6653 includes 10.0.0.1:6653: leave one of them out";
    assert_eq!(error("[::]:6653, 10.0.0.1:6653"), both);
    assert_eq!(error("10.0.0.1:6653, 6653"), both);
    assert!(error("0.0.0.0:1, 10.0.0.1:1").contains("0.0.0.0:1 includes 10.0.0.1:1"));
    for valid in ["127.0.0.1:0, 127.0.0.1:0", "0.0.0.0:1, [::1]:1", "[::]:1, 127.0.0.1:2"] {
        load("once", "", &[("SLUICE_LISTEN", valid)], "");
    }
}

#[test]
fn the_example_sets_every_key_to_its_default() {
    let loaded = load("example", &example(), &[], "");
    assert!(load("defaults", "", &[], "").changed_keys(&loaded).is_empty());
    let from_file = |origin: &Origin| *origin != Origin::Default;
    assert!(loaded.values().all(|(key, _, origin)| from_file(origin) != key.is_experimental()));
}

#[test]
fn the_example_file_is_up_to_date() {
    is_up_to_date("config/example.toml", |_| example());
}

#[test]
fn the_documentation_is_up_to_date() {
    let replace_table = |text: &str, name: &str, table: &str| {
        let (from, to) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
        let (before, rest) = text.split_once(&from).unwrap();
        let (_, after) = rest.split_once(&to).unwrap();
        format!("{before}{from}\n{table}\n{to}{after}")
    };
    is_up_to_date("docs/config.md", |old| {
        let text = replace_table(old, "keys", &text::table(false));
        replace_table(&text, "experimental keys", &text::table(true))
    });
}

/// Compares a file of the repository with what `generate` makes of it; with `SLUICE_BLESS=1`, rewrites it.
fn is_up_to_date(path: &str, generate: impl Fn(&str) -> String) {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path);
    let old = fs::read_to_string(&path).unwrap_or_default();
    let new = generate(&old);
    if env::var_os("SLUICE_BLESS").is_some() {
        fs::write(&path, new).unwrap();
    } else {
        assert!(
            old == new,
            "{} is out of date: `SLUICE_BLESS=1 cargo test -p sluice-cli` rewrites it",
            path.display()
        );
    }
}
