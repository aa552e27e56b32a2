//! A DHCP server and a DHCP client at hosts: `dnsmasq`, and `udhcpc` of `BusyBox`.

use std::process::Stdio;

use crate::host::Host;
use crate::process::{Daemon, output_of, run};
use crate::test_env::TestEnv;
use crate::{SHORT_TIMEOUT, wait_until};

/// Seconds for which an address is assigned: the shortest time that dnsmasq permits.
const LEASE_S: u32 = 120;

/// Sets the address that the server has assigned, as the client's script.
const SCRIPT: &str = "#!/bin/sh
[ \"$1\" = bound ] && ip addr add \"$ip/24\" dev \"$interface\" || true
";

/// A DHCP server that runs until it is dropped.
#[derive(Debug)]
pub struct DhcpServer {
    _daemon: Daemon,
}

impl DhcpServer {
    /// Starts a server at `host`, which assigns their own addresses to `clients`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn start(host: &Host, clients: &[&Host]) -> Self {
        let mut dnsmasq = host.command("dnsmasq");
        dnsmasq.args(["--keep-in-foreground", "--conf-file=/dev/null", "--port=0"]);
        dnsmasq.args(["--interface=eth0", "--leasefile-ro", "--pid-file=", "--user=root"]);
        dnsmasq.arg(format!("--dhcp-range=10.0.0.0,static,{LEASE_S}"));
        for client in clients {
            dnsmasq.arg(format!("--dhcp-host={},{}", client.mac(), client.ipv4()));
        }
        let daemon = Daemon::new(dnsmasq.stdout(Stdio::null()).stderr(Stdio::null()));
        wait_until(SHORT_TIMEOUT, "dnsmasq", || {
            output_of(host.command("cat").arg("/proc/net/udp")).contains(":0043 ")
        });
        Self { _daemon: daemon }
    }
}

impl Host {
    /// Removes its addresses and asks for one by DHCP; returns whether a server has assigned one within a few seconds.
    #[track_caller]
    pub fn obtain_address(&self, env: &TestEnv) -> bool {
        self.remove_addresses();
        let script = env.write("udhcpc.sh", SCRIPT);
        output_of(self.command("chmod").arg("+x").arg(&script));
        let mut udhcpc = self.command("busybox");
        udhcpc.args(["udhcpc", "-f", "-n", "-q", "-i", "eth0", "-t", "5", "-T", "1", "-s"]);
        run(udhcpc.arg(script)).status.success()
    }
}
