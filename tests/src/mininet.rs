//! Mininet with an Open vSwitch of its own, in namespaces that end with it.

use crate::OpenFlow;
use crate::controller::Controller;
use crate::process::{output_of, workspace};
use crate::test_env::TestEnv;

/// Runs `pingall` on `topology`; returns its summary, for example `*** Results: 0% dropped (12/12 received)`.
///
/// # Panics
/// When Mininet fails; the message contains its output.
#[track_caller]
pub fn pingall(
    env: &TestEnv,
    controller: &Controller,
    version: OpenFlow,
    topology: &str,
) -> String {
    // A hang would block all other tests. Only KILL reliably ends the first process of a PID namespace.
    let mut mininet = env.command("timeout");
    mininet.args(["--signal=KILL", "120", "unshare"]);
    // Mininet's processes detach from their parents; they end with the first process of their PID namespace.
    mininet.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh"]);
    mininet.arg(workspace().join("tests/mininet.sh"));
    mininet.args([version.name(), controller.port(), topology]);
    let output = output_of(&mut mininet);
    match output.lines().find(|line| line.contains("*** Results:")) {
        Some(result) => result.to_owned(),
        None => panic!("no results from Mininet: {output}"),
    }
}
