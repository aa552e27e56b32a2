use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs, process};

use clap::{Args as _, FromArgMatches as _};
use sluice_apps::learning;
use sluice_engine::Pin;
use sluice_openflow::{Action, Role, Version, Versions};
use toml::Table;

use super::layers::default;
use super::removed::REMOVED;
use super::rows::ROWS;
use super::*;

/// A file that is gone with the test.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = env::temp_dir().join(format!("sluice-{}-{name}.toml", process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn flags(words: &str) -> Flags {
    let command = Flags::augment_args(clap::Command::new("x").no_binary_name(true));
    Flags::from_arg_matches(&command.try_get_matches_from(words.split_whitespace()).unwrap())
        .unwrap()
}

/// An input with a file, even if empty, so that none of the machine's is read.
fn inputs(file: &File, env: &[(&str, &str)], words: &str) -> Inputs {
    let config = Some(file.0.clone());
    let env = env.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    Inputs { flags: Flags { config, ..flags(words) }, env }
}

fn load(name: &str, text: &str, env: &[(&str, &str)], words: &str) -> Loaded {
    inputs(&File::new(name, text), env, words).load().unwrap()
}

/// What is said against it, with the name of the file as `F`.
fn refused(name: &str, text: &str, env: &[(&str, &str)], words: &str) -> Vec<String> {
    let file = File::new(name, text);
    let problems = inputs(&file, env, words).load().unwrap_err();
    let path = file.0.display().to_string();
    problems.iter().map(|problem| problem.to_string().replace(&path, "F")).collect()
}

/// Value and origin of `key`, with the name of the file as `F`.
fn at(loaded: &Loaded, key: &str) -> String {
    let (_, value, origin) = loaded.values().find(|(row, ..)| row.key == key).unwrap();
    let path = loaded.file.as_ref().unwrap().display().to_string();
    format!("{value} {origin}").replace(&path, "F")
}

#[test]
fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
    let text = "\n[workers]\nthreads = 1\n";
    let env = [("SLUICE_WORKERS__THREADS", "2")];
    let of = |loaded: &Loaded| (at(loaded, "workers.threads"), loaded.plan.engine.workers.threads);
    assert_eq!(of(&load("order", "", &[], "")), ("0 default".into(), 0));
    assert_eq!(of(&load("order", text, &[], "")), ("1 F:3".into(), 1));
    assert_eq!(of(&load("order", text, &env, "")), ("2 env SLUICE_WORKERS__THREADS".into(), 2));
    assert_eq!(of(&load("order", text, &env, "--threads 3")), ("3 flag --threads".into(), 3));
}

#[test]
fn every_flag_reaches_its_part() {
    let words = "--listen 127.0.0.1:1 --listen [::1]:2,0.0.0.0:3 --threads 4 --pin 0,1 --spin 50.5 \
                 --app hub,learning --api 127.0.0.1:0 --log-level debug --log-format json";
    let plan = load("flags", "", &[], words).plan;
    let listen: Vec<_> = plan.engine.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["127.0.0.1:1", "[::1]:2", "0.0.0.0:3"]);
    assert_eq!(plan.engine.workers.threads, 4);
    assert_eq!(plan.engine.workers.pin, Pin::Cores(vec![0, 1]));
    assert_eq!(plan.engine.workers.waiting.spin, Duration::from_nanos(50_500));
    assert_eq!(plan.names, ["hub", "learning"]);
    assert_eq!(plan.api.unwrap().to_string(), "127.0.0.1:0");
    assert_eq!(plan.log.level.to_string(), "debug");
    assert_eq!(plan.log.format, Format::Json);
    assert_eq!(load("flags", "", &[], "--no-api").plan.api, None);
    assert_eq!(load("flags", "", &[], "--pin off").plan.engine.workers.pin, Pin::Off);
    assert_eq!(load("flags", "", &[], "--pin on").plan.engine.workers.pin, Pin::Each);
}

#[test]
fn the_default_that_help_shows_is_one_that_its_flag_takes() {
    let untouched = load("shown", "", &[], "");
    for row in ROWS {
        let Some(flag) = row.flag else { continue };
        let given = load("shown", "", &[], &format!("--{} {}", flag.name, args::as_given(row)));
        assert_eq!(untouched.changed(&given), Vec::<&Row>::new(), "{}", flag.name);
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
    let plan = load("kinds", text, &[], "").plan;
    assert!(plan.names.is_empty());
    assert_eq!(plan.engine.workers.pin, Pin::Cores(vec![1]));
    assert_eq!(plan.engine.session.versions, Versions::of(&[Version::V1_0]));
    assert_eq!(plan.engine.session.handshake_timeout, Duration::from_micros(1500));
    assert_eq!(plan.engine.session.echo_interval, Duration::from_secs(3));
    assert_eq!(plan.engine.session.role, Some(Role::MASTER));
    assert_eq!(plan.engine.socket.congestion, None);
    assert_eq!(plan.apps.learning.matching, learning::Matching::Dst);
    assert_eq!(plan.apps.forwarding.waiting, Duration::ZERO);
}

#[test]
fn the_environment_takes_lists_as_words_and_as_toml() {
    let env = [
        ("SLUICE_LISTEN", "[::]:1, 127.0.0.1:2"),
        ("SLUICE_APPS", r#"["hub"]"#),
        ("SLUICE_WORKERS__PIN", "[0]"),
        ("SLUICE_API__LISTEN", "off"),
        ("SLUICE_BLESS", "1"),
        ("SLUICE_PORT_6653_TCP_ADDR", "10.0.0.1"),
    ];
    let loaded = load("env", "", &env, "");
    assert_eq!(at(&loaded, "listen"), r#"["[::]:1", "127.0.0.1:2"] env SLUICE_LISTEN"#);
    assert_eq!(at(&loaded, "apps"), r#"["hub"] env SLUICE_APPS"#);
    assert_eq!(at(&loaded, "workers.pin"), "[0] env SLUICE_WORKERS__PIN");
    assert_eq!(loaded.plan.api, None);
}

#[test]
fn an_unknown_key_is_refused_with_its_place() {
    let text = "threads = 2\n\n[workers]\nthread = 2\nx.y = 1\n[wokers]\n[foo]\n";
    assert_eq!(
        refused("unknown", text, &[("SLUICE_LOG__LEVELS", "info")], ""),
        [
            "F:1: unknown key `threads`; did you mean `workers.threads`?",
            "F:4: unknown key `workers.thread`; did you mean `workers.threads`?",
            "F:5: unknown key `workers.x`; `sluice config example` shows all keys",
            "F:6: unknown key `wokers`; did you mean `workers`?",
            "F:7: unknown key `foo`; `sluice config example` shows all keys",
            "env SLUICE_LOG__LEVELS: unknown key `log.levels`; did you mean `log.level`?",
        ]
    );
}

#[test]
fn a_removed_key_is_refused_with_its_new_name_or_its_value() {
    let text = "[limits]\nsessions_max = 1\nmail_max = 2\n[hub]\nmiss_len = 3\nx = 4\n";
    let env = [("SLUICE_API__ENABLED", "no"), ("SLUICE_FORWARDING__SEED", "1")];
    assert_eq!(
        refused("removed", text, &env, ""),
        [
            "F:2: `limits.sessions_max` is called `limits.switches_max` now",
            "F:3: `limits.mail_max` is no longer a key: it is a constant (4096 messages)",
            "F:5: `hub.miss_len` is called `session.miss_send_len` now",
            "F:6: unknown key `hub.x`; `sluice config example` shows all keys",
            "env SLUICE_API__ENABLED: `api.enabled` was replaced by `api.listen`: \"off\" serves no metrics",
            "env SLUICE_FORWARDING__SEED: `forwarding.seed` is no longer a key: it is a constant (0)",
        ]
    );
}

#[test]
fn removed_keys_are_no_keys_and_their_new_names_are() {
    for (key, fate) in REMOVED {
        assert_eq!(Row::of(key), None);
        if let Some(new) = fate.new_key() {
            assert!(Row::of(new).is_some(), "{new}");
        }
    }
}

#[test]
fn one_number_sets_how_much_of_a_packet_is_sent_to_the_controller_in_every_version() {
    let lens = |text: &str| {
        let plan = load("miss-send-len", text, &[], "").plan;
        let apps = plan.apps;
        let apps = [
            apps.forwarding.miss_send_len,
            apps.learning.miss_send_len,
            apps.hub.miss_send_len,
            apps.limiter.miss_send_len,
        ];
        (plan.engine.session.miss_send_len, apps)
    };
    assert_eq!(lens(""), (128, [Action::WHOLE; 4]));
    assert_eq!(lens("session.miss_send_len = \"auto\""), (128, [Action::WHOLE; 4]));
    assert_eq!(lens("session.miss_send_len = 200"), (200, [200; 4]));
}

#[test]
fn a_wrong_value_is_refused_with_its_place() {
    let one = |line: &str| {
        let problems = refused("wrong", &format!("# first\n{line}\n"), &[], "");
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.into_iter().next().unwrap()
    };
    assert_eq!(
        one(r#"workers.threads = "many""#),
        r#"F:2: `workers.threads`: invalid type: string "many", expected a whole number, 0 or more"#
    );
    assert_eq!(
        one("workers.threads = -1"),
        "F:2: `workers.threads`: invalid value: integer `-1`, expected a whole number, 0 or more"
    );
    assert_eq!(
        one("learning.priority = 0"),
        "F:2: `learning.priority`: invalid value: integer `0`, expected a whole number from 1 to 65535"
    );
    assert_eq!(
        one("workers.pin = \"0\""),
        "F:2: `workers.pin`: expected true, false or a list of cores, such as [0, 1]"
    );
    assert_eq!(
        one("listen = [\"6653\"]"),
        "F:2: `listen`: `6653` is not an address with a port, such as 127.0.0.1:6653 or [::]:6653"
    );
    assert_eq!(one("listen = []"), "F:2: `listen`: there must be an address to listen at");
    assert_eq!(
        one("listen = \"[::]:6653\""),
        "F:2: `listen`: invalid type: string \"[::]:6653\", expected a list"
    );
    assert_eq!(
        one("apps = [\"forwarding\"]"),
        "F:2: `apps`: forwarding needs topology and hosts before it, as in topology,hosts,forwarding"
    );
    assert_eq!(
        one("apps = [\"lerning\"]"),
        "F:2: `apps`: there is no application `lerning`; there are: topology, learning, hub, limiter, hosts, forwarding"
    );
    assert_eq!(
        one("session.versions = [\"1.6\"]"),
        "F:2: `session.versions`: `1.6` is not one of the versions 1.0, 1.1, 1.2, 1.3, 1.4, 1.5"
    );
    assert_eq!(
        one("session.echo_interval_s = 0"),
        "F:2: `session.echo_interval_s`: 0 is not a time above 0"
    );
    assert_eq!(
        one("session.echo_timeout_s = 1e300"),
        format!("F:2: `session.echo_timeout_s`: {} is not a time from 0 to a year", 1e300)
    );
    assert_eq!(
        one("learning.host_timeout_s = 70000"),
        "F:2: `learning.host_timeout_s`: 70000 is not from 1 to 64800"
    );
    assert_eq!(
        one("session.role = \"boss\""),
        "F:2: `session.role`: unknown variant `boss`, expected one of `none`, `equal`, `master`, `slave`"
    );
    assert_eq!(
        one("workers = 3"),
        "F:2: `workers` is a section: write [workers] and its keys below"
    );
    assert_eq!(
        one("[workers.threads]"),
        "F:2: `workers.threads`: invalid type: map, expected a whole number, 0 or more"
    );
}

#[test]
fn a_wrong_flag_and_a_wrong_variable_are_named() {
    let env = [("SLUICE_LIMITS__SWITCHES_MAX", "-5")];
    assert_eq!(
        refused("named", "", &env, "--threads x --pin maybe --log-level loud"),
        [
            "env SLUICE_LIMITS__SWITCHES_MAX: `limits.switches_max`: invalid value: integer `-5`, \
             expected a whole number above 0",
            r#"flag --threads: `workers.threads`: invalid type: string "x", expected a whole number, 0 or more"#,
            "flag --pin: `workers.pin`: expected true, false or a list of cores, such as [0, 1]",
            "flag --log-level: `log.level`: unknown variant `loud`, expected one of `off`, `error`, `warn`, `info`, \
             `debug`, `trace`",
        ]
    );
}

#[test]
fn what_is_not_toml_is_refused_with_its_line() {
    for text in
        ["listen = 1\n\n= 3\n", "a = 1\nb = 2\nworkers = {\n", "\n\nlisten = []\nlisten = []\n"]
    {
        let problems = refused("syntax", text, &[], "");
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].starts_with("F:3: ") || problems[0].starts_with("F:4: "),
            "{problems:?}"
        );
        assert!(!problems[0].contains('\n'), "{problems:?}");
    }
}

#[test]
fn a_named_file_must_be_there() {
    let config = Some(PathBuf::from("/nonexistent/sluice.toml"));
    let problems =
        Inputs { flags: Flags { config, ..flags("") }, env: Vec::new() }.load().unwrap_err();
    let said: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        ["/nonexistent/sluice.toml: cannot be read: No such file or directory (os error 2)"]
    );
}

#[test]
fn defaults_are_those_of_the_crates() {
    let plan = load("crates", "", &[], "").plan;
    assert_eq!(plan.engine, sluice_engine::Config::default());
    assert_eq!(plan.apps, sluice_apps::Config::default());
}

#[test]
fn rows_have_defaults_that_are_toml_and_names_of_their_own() {
    for (at, row) in ROWS.iter().enumerate() {
        assert_ne!(default(row), toml::Value::Table(Table::new()), "{}", row.key);
        assert!(row.default.parse::<toml::Value>().is_ok(), "{}", row.key);
        assert!(row.doc.ends_with('.'), "{}", row.key);
        let others = ROWS.iter().skip(at + 1);
        assert!(others.clone().all(|other| other.key != row.key && other.env() != row.env()));
        // Keys of one section stand together.
        let section = row.parts().0;
        let mut after = others.skip_while(|other| other.parts().0 == section);
        assert!(after.all(|other| other.parts().0 != section), "{}", row.key);
    }
}

#[test]
fn changes_are_found_by_value() {
    let old = load("changes", "[workers]\nthreads = 2\n", &[], "");
    let new =
        load("changes", "# moved down\n[workers]\nthreads = 2\n[log]\nlevel = \"warn\"\n", &[], "");
    let keys: Vec<_> = old.changed(&new).iter().map(|row| row.key).collect();
    assert_eq!(keys, ["log.level"]);
}

#[test]
fn what_is_shown_has_values_with_origins_and_can_be_read_again() {
    let file = File::new("show", "apps = [\"hub\"]\n");
    let env = [("SLUICE_SESSION__ROLE", "equal")];
    let loaded = inputs(&file, &env, "--no-api --threads 2").load().unwrap();
    let shown = show(&loaded);
    let has = |key: &str, origin: &str| {
        let origin = origin.replace('F', &file.0.display().to_string());
        let found = shown
            .lines()
            .filter_map(|line| line.split_once("  # "))
            .any(|(line, from)| line.trim_end() == key && from == origin);
        assert!(found, "{key} # {origin} in\n{shown}");
    };
    has(r#"apps = ["hub"]"#, "F:1");
    has(r#"role = "equal""#, "env SLUICE_SESSION__ROLE");
    has("listen = \"off\"", "flag --no-api");
    has("threads = 2", "flag --threads");
    has("hosts_max = 131072", "default");
    let shown_by_default = ROWS.iter().filter(|row| !row.is_experimental()).count();
    assert_eq!(shown.lines().filter(|line| line.contains(" = ")).count(), shown_by_default);
    let again = load("again", &shown, &[], "");
    assert!(loaded.changed(&again).is_empty());
}

#[test]
fn a_file_that_is_too_large_is_refused_in_a_sentence() {
    let text = "#".repeat(1 << 20);
    assert!(inputs(&File::new("large", &text), &[], "").load().is_ok());
    let why = "F: cannot be read: it has more than 1 MiB, which is no configuration";
    assert_eq!(refused("too-large", &(text + "#"), &[], ""), [why]);
    // It has no length, and no end.
    let endless = Inputs { flags: flags("--config /dev/zero"), env: Vec::new() };
    assert_eq!(endless.load().unwrap_err()[0].to_string(), why.replace('F', "/dev/zero"));
}

#[test]
fn an_address_is_listened_at_once() {
    let said = |listen: &str| refused("twice", "", &[("SLUICE_LISTEN", listen)], "").join("\n");
    let twice = "env SLUICE_LISTEN: `listen`: 127.0.0.1:6653 is given twice";
    assert_eq!(said("127.0.0.1:6653, [::1]:6653, 127.0.0.1:6653"), twice);
    let both = "env SLUICE_LISTEN: `listen`: [::]:6653 takes what comes to 10.0.0.1:6653 as well";
    assert_eq!(said("[::]:6653, 10.0.0.1:6653"), both);
    assert_eq!(said("10.0.0.1:6653, [::]:6653"), both);
    assert!(
        said("0.0.0.0:1, 10.0.0.1:1").ends_with("0.0.0.0:1 takes what comes to 10.0.0.1:1 as well")
    );
    for fine in ["127.0.0.1:0, 127.0.0.1:0", "0.0.0.0:1, [::1]:1", "[::]:1, 127.0.0.1:2"] {
        load("once", "", &[("SLUICE_LISTEN", fine)], "");
    }
}

#[test]
fn the_example_is_all_defaults() {
    let loaded = load("example", &example(), &[], "");
    assert!(load("defaults", "", &[], "").changed(&loaded).is_empty());
    let from_file = |origin: &Origin| *origin != Origin::Default;
    assert!(loaded.values().all(|(row, _, origin)| from_file(origin) != row.is_experimental()));
}

#[test]
fn the_example_file_is_fresh() {
    fresh("config/example.toml", |_| example());
}

#[test]
fn the_documentation_is_fresh() {
    let put = |text: &str, name: &str, table: &str| {
        let (from, to) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
        let (before, rest) = text.split_once(&from).unwrap();
        let (_, after) = rest.split_once(&to).unwrap();
        format!("{before}{from}\n{table}\n{to}{after}")
    };
    fresh("docs/config.md", |old| {
        let text = put(old, "keys", &show::table(false));
        put(&text, "experimental keys", &show::table(true))
    });
}

/// A file of the checkout is what `make` makes of it; `SLUICE_BLESS=1` rewrites it.
fn fresh(path: &str, make: impl Fn(&str) -> String) {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path);
    let old = fs::read_to_string(&path).unwrap_or_default();
    let new = make(&old);
    if env::var_os("SLUICE_BLESS").is_some() {
        fs::write(&path, new).unwrap();
    } else {
        assert!(
            old == new,
            "{} is stale: `SLUICE_BLESS=1 cargo test -p sluice-cli` rewrites it",
            path.display()
        );
    }
}
