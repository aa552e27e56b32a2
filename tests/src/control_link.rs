//! A control link of limited rate, with the controller at its far end.

use std::process::Command;

use crate::controller::Controller;
use crate::namespace::Namespace;
use crate::ovs::OvsNetwork;
use crate::process::output_of;

/// Address of the controller.
const CONTROLLER_ADDR: &str = "10.9.0.2";

/// A link between the switches of a network and a second namespace, in which the controller runs.
#[derive(Debug)]
pub struct ControlLink {
    far: Namespace,
}

impl ControlLink {
    /// Adds it to `network`, with a rate such as `2mbit` in each direction, and queues of 100 ms.
    #[track_caller]
    pub fn new(network: &OvsNetwork, rate: &str) -> Self {
        let env = network.env();
        let new = Self { far: Namespace::new(&format!("{}-far", env.name())) };
        env.ip(&format!("link add control type veth peer name control netns {}", new.far.name()));
        env.ip("addr add 10.9.0.1/30 dev control");
        env.ip("link set control up");
        new.far.ip(&format!("addr add {CONTROLLER_ADDR}/30 dev control"));
        new.far.ip("link set control up");
        let queue = format!("qdisc add dev control root tbf rate {rate} burst 4kb latency 100ms");
        for mut tc in [env.command("tc"), new.far.command("tc")] {
            output_of(tc.args(queue.split(' ')));
        }
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
