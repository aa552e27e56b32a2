//! Control links, with the controller at their far end: of limited rate, or a `sluice control-link` of one switch.

use std::fs;
use std::process::{Command, Stdio};

use crate::controller::{Controller, append_to, binary};
use crate::namespace::Namespace;
use crate::ovs::OvsNetwork;
use crate::process::{Daemon, output_of};
use crate::{SHORT_TIMEOUT, wait_until};

/// Address of the controller.
const CONTROLLER_ADDR: &str = "10.9.0.2";

/// Address of the controller over a `sluice control-link`.
const EMULATED_ADDR: &str = "10.9.1.2";

/// A link between the switches of a network and a second namespace, in which the controller runs.
#[derive(Debug)]
pub struct ControlLink {
    far: Namespace,
}

impl ControlLink {
    /// Adds it to `network`, with a rate such as `2mbit` in each direction, and queues of 100 ms.
    #[track_caller]
    pub fn new(network: &OvsNetwork, rate: &str) -> Self {
        let new = Self::unlimited(network);
        let queue = format!("qdisc add dev control root tbf rate {rate} burst 4kb latency 100ms");
        for mut tc in [network.env().command("tc"), new.far.command("tc")] {
            output_of(tc.args(queue.split(' ')));
        }
        new
    }

    /// Adds it to `network`, as fast as the machine.
    #[track_caller]
    pub fn unlimited(network: &OvsNetwork) -> Self {
        let env = network.env();
        let new = Self { far: Namespace::new(&format!("{}-far", env.name())) };
        env.ip(&format!("link add control type veth peer name control netns {}", new.far.name()));
        env.ip("addr add 10.9.0.1/30 dev control");
        env.ip("link set control up");
        new.far.ip(&format!("addr add {CONTROLLER_ADDR}/30 dev control"));
        new.far.ip("link set control up");
        new
    }

    /// Starts `program`, a `sluice run` without `--listen`, at the far end. `arguments` are separated by spaces.
    #[track_caller]
    pub fn start(&self, network: &OvsNetwork, program: &str, arguments: &str) -> Controller {
        let mut command: Command = self.far.command(program);
        command.args(arguments.split_whitespace());
        Controller::at(&format!("{CONTROLLER_ADDR}:0"), command, network.env().dir())
    }
}

/// Two control links with the controller at their far end: one as fast as the machine, and a `sluice control-link` of some switches.
#[derive(Debug)]
pub struct EmulatedControlLink {
    _daemon: Daemon,
    unlimited: ControlLink,
}

impl EmulatedControlLink {
    /// Adds them to `network`; the `sluice control-link` has a rate such as `1Mbit`.
    ///
    /// # Panics
    /// When that is not ready within [`SHORT_TIMEOUT`].
    #[track_caller]
    pub fn new(network: &OvsNetwork, rate: &str) -> Self {
        let (env, unlimited) = (network.env(), ControlLink::unlimited(network));
        let mut command = env.command(&binary().to_string_lossy());
        command.args(["control-link", "--to", unlimited.far.name(), "--rate", rate]);
        command.args(["--addresses", &format!("10.9.1.1/30,{EMULATED_ADDR}/30")]);
        let output = env.file("control-link.out");
        let daemon = Daemon::new(command.stdout(append_to(&output)).stderr(Stdio::null()));
        wait_until(SHORT_TIMEOUT, "sluice control-link", || {
            fs::read_to_string(&output).unwrap_or_default().contains("\nready\n")
        });
        Self { _daemon: daemon, unlimited }
    }

    /// Starts a `sluice run` with these arguments, separated by spaces, at the far end. Connects the switches of `network`, `distant`
    /// over the `sluice control-link`, and waits until all sessions are established.
    #[track_caller]
    pub fn connect(&self, network: &OvsNetwork, distant: &str, arguments: &str) -> Controller {
        let mut command = self.unlimited.far.command(&binary().to_string_lossy());
        command.arg("run").args(arguments.split_whitespace());
        let controller = Controller::at("0.0.0.0:0", command, network.env().dir());
        for bridge in network.bridges() {
            let address = if bridge == distant { EMULATED_ADDR } else { CONTROLLER_ADDR };
            network.set_controller_at(bridge, &format!("{address}:{}", controller.port()));
        }
        controller.wait_for_sessions(network.bridges().len());
        controller
    }
}
