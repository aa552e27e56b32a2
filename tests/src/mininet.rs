//! Mininet with its Open vSwitch, in namespaces that vanish with it.

use crate::OpenFlow;
use crate::controller::Controller;
use crate::room::Room;
use crate::shell::{output_of, workspace};

/// The line that sums up a `pingall` on `topology`, as in `*** Results: 0% dropped (12/12 received)`.
///
/// # Panics
/// When Mininet does not get that far; everything it said is in the message.
#[track_caller]
pub fn pingall(room: &Room, controller: &Controller, version: OpenFlow, topology: &str) -> String {
    // A hang would hold the turn of all other networks. Only KILL ends the first process of a namespace for sure.
    let mut mininet = room.command("timeout");
    mininet.args(["--signal=KILL", "120", "unshare"]);
    // Mininet's processes are many and leave their parents: with the first of their
    // namespace they all end.
    mininet.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh"]);
    mininet.arg(workspace().join("tests/mininet.sh"));
    mininet.args([version.name(), controller.port(), topology]);
    let said = output_of(&mut mininet);
    match said.lines().find(|line| line.contains("*** Results:")) {
        Some(result) => result.to_owned(),
        None => panic!("Mininet did not finish: {said}"),
    }
}
