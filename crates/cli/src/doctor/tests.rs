//! The checks with files, listings of `ovs-vsctl` and replies of an API that are made up.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

use serde_json::{Value, json};

use super::report::Level;
use super::*;

/// A folder in place of `/`, with a machine on which all is well.
struct TestRoot(Root);

impl TestRoot {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("sluice-doctor-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let root = Self(Root(folder));
        root.write("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
        root.write(
            "/proc/self/limits",
            "Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  1048576  files\n",
        );
        root.write("/proc/sys/net/core/somaxconn", "4096\n");
        root.write("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic\n");
        root.write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        root.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
        root.write("/run/systemd/timesync/synchronized", "");
        root
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A process that listens on a port of all IPv4 addresses, with a socket of this inode.
    fn listener(&self, pid: u32, name: &str, command: &str, port: u16) {
        let line = format!("   0: 00000000:{port:04X} 00000000:0000 0A 0:0 00:0 0 0 0 77{pid} 1\n");
        self.write("/proc/net/tcp", &format!("  sl  local_address rem_address st\n{line}"));
        self.write(&format!("/proc/{pid}/comm"), name);
        self.write(&format!("/proc/{pid}/cmdline"), command);
        let folder = self.0.path(format!("/proc/{pid}/fd"));
        fs::create_dir_all(&folder).unwrap();
        symlink(format!("socket:[77{pid}]"), folder.join("3")).unwrap();
    }
}

impl Drop for TestRoot {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0.0);
    }
}

/// What `ovs-vsctl --format=json list TABLE` prints of some columns.
fn listing(headings: &[&str], rows: &Value) -> String {
    json!({"headings": headings, "data": rows}).to_string()
}

/// The settings of one bridge and one connection.
struct Ovs {
    bridge: Value,
    controller: Value,
    ssl: Value,
}

const BRIDGE: &[&str] = &["_uuid", "name", "controller", "protocols", "fail_mode", "other_config"];
const CONTROLLER: &[&str] = &["_uuid", "target", "is_connected", "connection_mode", "status"];
const SSL: &[&str] = &["private_key", "certificate", "ca_cert"];

impl Default for Ovs {
    fn default() -> Self {
        let status = json!(["map", [["sec_since_connect", "12"], ["state", "ACTIVE"]]]);
        Self {
            bridge: json!([
                ["uuid", "b1"],
                "br0",
                ["uuid", "c1"],
                ["set", ["OpenFlow10", "OpenFlow13"]],
                "secure",
                ["map", []]
            ]),
            controller: json!([["uuid", "c1"], "tcp:127.0.0.1:6653", true, ["set", []], status]),
            ssl: json!([]),
        }
    }
}

impl Ovs {
    #[expect(clippy::unnecessary_wraps, reason = "as the function that runs the command")]
    fn list(&self, arguments: &[&str]) -> std::io::Result<Result<String, String>> {
        Ok(Ok(match arguments {
            [.., "list", "Bridge"] => listing(BRIDGE, &json!([self.bridge])),
            [.., "list", "Controller"] => listing(CONTROLLER, &json!([self.controller])),
            [.., "list", "SSL"] => listing(SSL, &self.ssl),
            other => panic!("{other:?}"),
        }))
    }
}

fn load(args: &[&str]) -> Result<LoadedConfig, Vec<ConfigError>> {
    use clap::{Args as _, FromArgMatches as _};
    let command = Flags::augment_args(clap::Command::new("x").no_binary_name(true));
    let flags = Flags::from_arg_matches(&command.try_get_matches_from(args).unwrap()).unwrap();
    // A file, so that the one of this machine is not read.
    let flags = Flags { config: Some("/dev/null".into()), ..flags };
    ConfigSources { flags, ..ConfigSources::default() }.load()
}

const API: &str = concat!(r#"{"version":""#, env!("CARGO_PKG_VERSION"), r#"","switches":2}"#);

fn findings_of(
    root: &TestRoot,
    vsctl: ovs::Vsctl<'_>,
    api: Result<&str, &str>,
    args: &[&str],
) -> Vec<Finding> {
    findings_as(Privileges::Root, root, vsctl, api, load(args))
}

/// As a user who may not see everything, or as root, on a machine without systemd.
fn findings_as(
    user: Privileges,
    root: &TestRoot,
    vsctl: ovs::Vsctl<'_>,
    api: Result<&str, &str>,
    loaded: Result<LoadedConfig, Vec<ConfigError>>,
) -> Vec<Finding> {
    let get = |_: SocketAddr, path: &str| {
        assert_eq!(path, "/v1/controller");
        api.map(str::to_owned).map_err(str::to_owned)
    };
    let now = Duration::from_secs(1_800_000_000);
    let systemd = |_: &str, _: &[&str]| Err(std::io::ErrorKind::NotFound.into());
    let root = Root(root.0.0.clone());
    check(&Inputs { root, vsctl, systemd: &systemd, get: &get, now, user }, loaded)
}

/// The findings that are not ok, as `level check: message`.
fn wrong(findings: &[Finding]) -> Vec<String> {
    let wrong = findings.iter().filter(|finding| finding.level != Level::Ok);
    wrong
        .map(|finding| {
            assert!(
                finding.advice.as_ref().is_some_and(|advice| !advice.is_empty()),
                "{finding:?}"
            );
            format!("{:?} {}: {}", finding.level, finding.check, finding.message)
        })
        .collect()
}

#[track_caller]
fn assert_wrong(root: &TestRoot, ovs: &Ovs, args: &[&str], expected: &[&str]) {
    let found = wrong(&findings_of(root, &|arguments| ovs.list(arguments), Ok(API), args));
    let has = |text: &&str| found.iter().any(|line| line.starts_with(text));
    assert!(expected.iter().all(has) && found.len() == expected.len(), "{found:#?}");
}

#[test]
fn a_machine_on_which_all_is_well_has_no_findings() {
    assert_wrong(&TestRoot::new("well"), &Ovs::default(), &["--threads", "1"], &[]);
}

#[test]
fn what_is_wrong_with_the_machine_is_named() {
    let root = TestRoot::new("machine");
    root.write("/proc/sys/kernel/osrelease", "4.9.0\n");
    root.write("/proc/self/limits", "Max open files  1024  4096  files\n");
    root.write("/proc/sys/net/core/somaxconn", "128\n");
    root.write("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno\n");
    root.write("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    root.write("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
    fs::remove_file(root.0.path("/run/systemd/timesync/synchronized")).unwrap();
    let args = ["--threads", "1000"];
    let expected = [
        "Warning kernel: Linux 4.9.0 is older",
        "Warning open files: 4096 may be open, 16640 are needed",
        "Warning somaxconn: 128 connections",
        "Warning workers: 1000 workers for",
        "Warning huge pages: switched off",
        "Warning governor: 1 cores slow down when they have little to do (performance, powersave)",
        "Warning clock: no program keeps it",
    ];
    assert_wrong(&root, &Ovs::default(), &args, &expected);
    root.write("/proc/9/comm", "chronyd\n");
    assert_wrong(&root, &Ovs::default(), &args, &expected[..6]);
}

#[test]
fn a_congestion_control_that_is_missing_is_a_problem_only_if_it_is_configured() {
    let root = TestRoot::new("congestion");
    root.write("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno\n");
    assert_wrong(&root, &Ovs::default(), &["--threads", "1"], &[]);
    let mut findings =
        machine::check(&root.0, load(&[]).ok().as_ref(), Duration::ZERO, Privileges::Root);
    let clock = findings.pop().unwrap();
    assert_eq!((clock.check, clock.level), ("clock", Level::Problem));
}

#[test]
fn the_program_that_has_a_port_is_named() {
    let root = TestRoot::new("ports");
    root.listener(41, "ryu-manager", "python\0ryu-manager\0", 6653);
    assert_wrong(
        &root,
        &Ovs::default(),
        &["--threads", "1"],
        &[
            "Problem port: [::]:6653 (listen) is used by ryu-manager (process 41): the controller cannot start",
        ],
    );
    // Another address of this machine, and another port.
    assert_wrong(&root, &Ovs::default(), &["--threads", "1", "--listen", "[::1]:6653"], &[]);
    root.listener(42, "sluice", "/usr/bin/sluice\0run\0", 6653);
    assert_wrong(&root, &Ovs::default(), &["--threads", "1"], &[]);
    // systemd has passed the socket to the controller, and then to none.
    root.listener(1, "systemd", "/sbin/init\0", 6653);
    symlink("socket:[771]", root.0.path("/proc/42/fd/4")).unwrap();
    assert_wrong(&root, &Ovs::default(), &["--threads", "1"], &[]);
    fs::remove_dir_all(root.0.path("/proc/42")).unwrap();
    assert_wrong(&root, &Ovs::default(), &["--threads", "1"], &[]);
    fs::remove_dir_all(root.0.path("/proc/1")).unwrap();
    let unseen = "Problem port: [::]:6653 (listen) is used by a program that this user cannot see";
    assert_wrong(&root, &Ovs::default(), &["--threads", "1"], &[unseen]);
}

#[test]
fn an_invalid_configuration_is_a_problem_and_the_rest_is_checked() {
    let root = TestRoot::new("invalid");
    let ovs = Ovs {
        controller: json!([["uuid", "c1"], "tcp:127.0.0.1:1", true, "", ["map", []]]),
        ..Ovs::default()
    };
    assert_wrong(
        &root,
        &ovs,
        &["--threads", "x"],
        &["Problem configuration: flag --threads: `workers.threads`"],
    );
}

#[test]
fn the_controller_that_runs_is_asked() {
    let root = TestRoot::new("controller");
    let ovs = Ovs::default();
    for (api, expected) in [
        (
            Ok(r#"{"version":"0.0.9","switches":0}"#),
            &[
                "Warning controller: it is version 0.0.9",
                "Warning controller: no switch is connected",
            ][..],
        ),
        (Ok("<html>"), &["Problem controller: http://127.0.0.1:8653 is not the API"]),
        (
            Err("refused"),
            &["Warning controller: no controller answers at http://127.0.0.1:8653: refused"],
        ),
    ] {
        let args = ["--threads", "1"];
        let found = wrong(&findings_of(&root, &|arguments| ovs.list(arguments), api, &args));
        assert!(found.iter().zip(expected).all(|(line, text)| line.starts_with(text)), "{found:?}");
        assert_eq!(found.len(), expected.len(), "{found:?}");
    }
}

#[test]
fn settings_of_open_vswitch_that_do_not_work_are_problems() {
    let root = TestRoot::new("ovs");
    let set = |change: fn(&mut Ovs)| {
        let mut ovs = Ovs::default();
        change(&mut ovs);
        ovs
    };
    let args = ["--threads", "1"];
    let no_controller = set(|ovs| ovs.bridge[2] = json!(["set", []]));
    assert_wrong(&root, &no_controller, &args, &["Warning open vswitch: br0 has no controller"]);
    let standalone = set(|ovs| ovs.bridge[4] = json!(["set", []]));
    let expected = "Warning open vswitch: br0: fail_mode is standalone";
    assert_wrong(&root, &standalone, &args, &[expected]);
    let other_version = set(|ovs| ovs.bridge[3] = json!("OpenFlow15"));
    let only_13 = write_config(&root, "session.versions = [\"1.3\"]\n");
    let loaded = load_file(&only_13);
    let found = ovs::check(
        &root.0,
        &|arguments| other_version.list(arguments),
        &Expected { listen: None, versions: loaded.config.engine.session.versions },
        Privileges::Root,
    );
    assert_eq!(
        wrong(&found),
        [
            "Problem open vswitch: br0 allows OpenFlow15 only, and the controller offers OpenFlow 1.3: they have no version in common"
        ]
    );
    let refused = set(|ovs| {
        ovs.controller[2] = json!(false);
        ovs.controller[4] =
            json!(["map", [["last_error", "Connection refused"], ["state", "BACKOFF"]]]);
    });
    assert_wrong(
        &root,
        &refused,
        &args,
        &[
            "Problem open vswitch: br0: not connected to tcp:127.0.0.1:6653 (state BACKOFF, last error: Connection refused)",
        ],
    );
    let connected = set(|ovs| ovs.controller[1] = json!("tcp:127.0.0.1:6634"));
    assert_wrong(&root, &connected, &args, &[]);
    let other_port = set(|ovs| {
        ovs.controller[1] = json!("tcp:127.0.0.1:6634");
        ovs.controller[2] = json!(false);
    });
    assert_wrong(
        &root,
        &other_port,
        &args,
        &[
            "Problem open vswitch: br0: tcp:127.0.0.1:6634: the controller listens on port 6653 and 6633, not 6634",
            "Problem open vswitch: br0: not connected to tcp:127.0.0.1:6634",
        ],
    );
    let in_band = set(|ovs| ovs.controller[1] = json!("tcp:192.0.2.1:6653"));
    assert_wrong(
        &root,
        &in_band,
        &args,
        &["Warning open vswitch: br0: tcp:192.0.2.1:6653 is in-band"],
    );
    let out_of_band = set(|ovs| {
        ovs.controller[1] = json!("tcp:192.0.2.1:6653");
        ovs.bridge[5] = json!(["map", [["disable-in-band", "true"]]]);
    });
    assert_wrong(&root, &out_of_band, &args, &[]);
}

#[test]
fn connections_that_open_vswitch_does_not_try_are_told_apart() {
    let (root, args) = (TestRoot::new("listener"), ["--threads", "1"]);
    let mut ovs = Ovs::default();
    ovs.controller[2] = json!(false);
    ovs.controller[4] = json!(["map", []]);
    let without_datapath =
        "Problem open vswitch: br0: has not tried to connect to tcp:127.0.0.1:6653";
    assert_wrong(&root, &ovs, &args, &[without_datapath]);
    ovs.controller[1] = json!("ptcp:6656");
    assert_wrong(&root, &ovs, &args, &[]);
}

#[test]
fn certificates_of_open_vswitch_are_looked_for() {
    let root = TestRoot::new("tls");
    let mut ovs = Ovs::default();
    ovs.controller[1] = json!("ssl:192.0.2.1:6653");
    ovs.controller[3] = json!("out-of-band");
    let args = ["--threads", "1"];
    let none = "Problem open vswitch: a bridge connects with ssl:, but no certificate is set";
    assert_wrong(&root, &ovs, &args, &[none]);
    ovs.ssl = json!([["/etc/key.pem", "/etc/cert.pem", "/etc/ca.pem"]]);
    root.write("/etc/key.pem", "");
    root.write("/etc/ca.pem", "");
    assert_wrong(
        &root,
        &ovs,
        &args,
        &[
            "Problem open vswitch: certificate of ovs-vsctl get-ssl: there is no file \"/etc/cert.pem\"",
        ],
    );
    root.write("/etc/cert.pem", "");
    assert_wrong(&root, &ovs, &args, &[]);
    ovs.controller[1] = json!("ssl:127.0.0.1:6653");
    ovs.controller[2] = json!(false);
    assert_wrong(
        &root,
        &ovs,
        &args,
        &[
            "Problem open vswitch: br0: ssl:127.0.0.1:6653 begins with ssl:, but the controller expects tcp: on port 6653",
            "Problem open vswitch: br0: not connected to ssl:127.0.0.1:6653",
        ],
    );
}

#[test]
fn open_vswitch_that_is_missing_or_does_not_answer_is_no_problem() {
    let root = TestRoot::new("no-ovs");
    let args = ["--threads", "1"];
    let missing = |_: &[&str]| Err(std::io::ErrorKind::NotFound.into());
    assert_eq!(wrong(&findings_of(&root, &missing, Ok(API), &args)), Vec::<String>::new());
    let down = |_: &[&str]| {
        Ok(Err("ovs-vsctl: unix:/run/db.sock: database connection failed\nmore".to_owned()))
    };
    let expected = "Warning open vswitch: does not answer: ovs-vsctl: unix:/run/db.sock: database connection failed";
    assert_eq!(wrong(&findings_of(&root, &down, Ok(API), &args)), [expected]);
    let other = |_: &[&str]| Ok(Ok("[]".to_owned()));
    let found = wrong(&findings_of(&root, &other, Ok(API), &args));
    assert!(found[0].ends_with("list Bridge` answers something unexpected"), "{found:?}");
}

#[test]
fn what_only_root_can_see_is_not_a_problem_for_others() {
    let root = TestRoot::new("user");
    root.listener(42, "sluice", "/usr/bin/sluice\0run\0", 6653);
    fs::remove_dir_all(root.0.path("/proc/42")).unwrap();
    let error = "ovs-vsctl: unix:/run/db.sock: database connection failed (Permission denied)";
    let denied = |_: &[&str]| Ok(Err(error.to_owned()));
    let args = ["--threads", "1"];
    let found = findings_as(Privileges::User, &root, &denied, Ok(API), load(&args));
    let expected = [
        "Skipped port: [::]:6653 (listen) is used by a program of another user; not checked: needs root",
        "Skipped open vswitch: ovs-vsctl: unix:/run/db.sock: database connection failed (Permission denied); not checked: needs root",
    ];
    assert_eq!(wrong(&found), expected);
    assert!(!Report::new(found).has_problems());
    let error = "cannot be read: Permission denied (os error 13)".to_owned();
    let unreadable = || Err(vec![ConfigError::File(Path::new("/etc/x").into(), error.clone())]);
    let ovs = Ovs::default();
    let vsctl = |arguments: &[&str]| ovs.list(arguments);
    for (user, level) in [(Privileges::User, Level::Skipped), (Privileges::Root, Level::Problem)] {
        let found = findings_as(user, &root, &vsctl, Ok(API), unreadable());
        assert_eq!((found[0].check, found[0].level), ("configuration", level));
    }
}

/// Root can use every file: then the directory is given to another user.
#[test]
fn a_store_that_the_owner_of_the_state_directory_cannot_use_is_a_problem() {
    let root = TestRoot::new("state");
    root.write("/etc/passwd", "sluice:x:4711:4712::/:/sbin/nologin\n");
    root.write("/etc/group", "sluice:x:4712:\n");
    root.write("/var/lib/sluice/static.redb", "");
    let (dir, store) = (root.0.path("/var/lib/sluice"), root.0.path("/var/lib/sluice/static.redb"));
    let args = ["--threads", "1"];
    assert_wrong(&root, &Ovs::default(), &args, &[]);
    let command = match Privileges::of_process() {
        Privileges::Root => {
            fs::set_permissions(&store, fs::Permissions::from_mode(0o600)).unwrap();
            chown(&dir, Some(4711), Some(4712)).unwrap();
            "`chown sluice:sluice "
        }
        Privileges::User => {
            fs::set_permissions(&store, fs::Permissions::from_mode(0o000)).unwrap();
            "`chmod u+rw "
        }
    };
    let problem = format!("Problem state: {} belongs to ", store.display());
    assert_wrong(&root, &Ovs::default(), &args, &[&problem]);
    let found = state::check(&root.0, "", Privileges::Root);
    let advice = found[0].advice.clone().unwrap();
    assert!(advice.starts_with(command) && advice.contains("static.redb`"), "{advice}");
}

#[test]
fn a_state_directory_that_cannot_be_made_is_a_problem() {
    let root = TestRoot::new("obstacle");
    root.write("/srv/file", "");
    symlink("nothing", root.0.path("/srv/dangling")).unwrap();
    assert_wrong(&root, &Ovs::default(), &["--threads", "1", "--state-dir", "/srv/a/b"], &[]);
    assert!(!root.0.path("/srv/a").exists());
    for name in ["file", "dangling"] {
        let file = root.0.path(format!("/srv/{name}"));
        let file = file.display();
        let problem = format!("Problem state: {file}/a cannot be made: {file} is not a directory");
        let dir = format!("/srv/{name}/a");
        assert_wrong(&root, &Ovs::default(), &["--threads", "1", "--state-dir", &dir], &[&problem]);
    }
}

/// Root can make every directory; the service, which has a user of its own, cannot.
#[test]
fn a_state_directory_that_the_user_of_the_service_cannot_make_is_a_problem_also_for_root() {
    let root = TestRoot::new("service-user");
    root.write("/srv/file", "");
    let srv = root.0.path("/srv");
    let level_for = |mode: u32, dir: &str| {
        fs::set_permissions(&srv, fs::Permissions::from_mode(mode)).unwrap();
        let found = state::check(&root.0, dir, Privileges::Root);
        (found[0].level, found[0].message.clone())
    };
    assert_eq!(level_for(0o755, "/srv/state").0, Level::Ok);
    root.write("/etc/passwd", "sluice:x:4711:4712::/:/sbin/nologin\n");
    let (level, message) = level_for(0o755, "/srv/state");
    let dir = srv.display();
    assert_eq!(
        message,
        format!("{dir}/state cannot be made: the user sluice cannot write in {dir}")
    );
    assert_eq!(level, Level::Problem);
    assert_eq!(level_for(0o777, "/srv/state").0, Level::Ok);
    // It cannot get there.
    fs::create_dir(srv.join("open")).unwrap();
    fs::set_permissions(srv.join("open"), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(level_for(0o755, "/srv/open/state").0, Level::Ok);
    assert_eq!(level_for(0o700, "/srv/open/state").0, Level::Problem);
    // systemd makes the directory of the service.
    let (level, message) = level_for(0o755, "/var/lib/sluice");
    assert!(level == Level::Ok && message.contains("systemd makes"), "{message}");
}

fn write_config(root: &TestRoot, text: &str) -> std::path::PathBuf {
    root.write("/etc/test.toml", text);
    root.0.path("/etc/test.toml")
}

fn load_file(path: &Path) -> LoadedConfig {
    let flags = Flags { config: Some(path.to_owned()), ..Flags::default() };
    ConfigSources { flags, ..ConfigSources::default() }.load().unwrap()
}
