//! The measured load: switches that verify each answer.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::Value;
use sluice_system_tests::{SHORT_TIMEOUT, binary, wait_until};

use crate::subject::Subject;

/// Switches of the load.
pub(crate) const SWITCHES: u64 = 8;

/// Requests per second of all of them; the machine has enough time for the faults beside them, and for other tests.
const RATE: u32 = 2000;

/// An answer that is later than this counts as lost: the longest that the bench allows. It is no bound of time.
const TIMEOUT_MS: u32 = 30_000;

/// A bench that runs beside the faults.
pub(crate) struct Load {
    child: Child,
    report: PathBuf,
    output: PathBuf,
}

impl Load {
    /// Starts it for `seconds`, and returns when its switches are connected.
    pub(crate) fn start(subject: &Subject<'_>, seconds: u64) -> Self {
        let (report, output) = (subject.env.file("load.json"), subject.env.file("load.txt"));
        let mut bench = subject.env.command(&binary().to_string_lossy());
        let port = subject.to.port();
        let arguments = format!(
            "bench -c 127.0.0.1 -p {port} -s {SWITCHES} --openflow 1.3 -M 100 -D 1000 -w 0 -m 1000 -l {seconds} \
             --rate {RATE} --spin 0 --timeout {TIMEOUT_MS} --json"
        );
        bench.args(arguments.split_whitespace()).arg(&report);
        bench.stdout(Stdio::null()).stderr(File::create(&output).unwrap());
        let child = bench.spawn().unwrap();
        subject.controller.wait_for_sessions(usize::try_from(SWITCHES).unwrap());
        Self { child, report, output }
    }

    /// Whether it still runs.
    #[track_caller]
    pub(crate) fn is_running(&mut self) -> bool {
        match self.child.try_wait().unwrap() {
            None => true,
            Some(status) => {
                assert!(status.success(), "{}", fs::read_to_string(&self.output).unwrap());
                false
            }
        }
    }

    /// Waits for its end, and checks that each request was answered exactly once. Returns the number of requests.
    #[track_caller]
    pub(crate) fn finish(mut self) -> u64 {
        wait_until(SHORT_TIMEOUT, "the end of the load", || !self.is_running());
        let report: Value = serde_json::from_slice(&fs::read(&self.report).unwrap()).unwrap();
        let requests = report.get("requests").unwrap();
        let count = |name: &str| requests.get(name).and_then(Value::as_u64).expect(name);
        for never in ["never_answered", "duplicate", "unsolicited", "unmatched", "malformed"] {
            assert_eq!(count(never), 0, "{never}: {requests}");
        }
        let not_sent = requests.get("not_sent").unwrap();
        assert_eq!(not_sent.get("disconnected").and_then(Value::as_u64), Some(0), "{requests}");
        assert_eq!(report.get("errors"), Some(&Value::Array(Vec::new())));
        let switches = report.get("switches").and_then(Value::as_array).unwrap();
        assert_eq!(switches.len() as u64, SWITCHES);
        for switch in switches {
            assert_eq!(switch.get("disconnect_reason"), Some(&Value::Null), "{switch}");
        }
        let sent = count("sent");
        assert!(sent > 0, "{requests}");
        assert_eq!(count("answered") + count("late"), sent, "{requests}");
        sent
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Both fail when it has ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
