//! What `sluice run` prints when it has started.

use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use sluice_openflow::{Version, Versions};

/// The addresses, workers and applications of a controller that has started.
#[derive(Debug)]
pub(crate) struct StartupMessage<'a> {
    /// Addresses on which switches are accepted.
    pub(crate) listening: &'a [SocketAddr],
    /// Addresses on which switches are accepted over TLS.
    pub(crate) listening_tls: &'a [SocketAddr],
    /// The core of each worker, `None` for any.
    pub(crate) workers: &'a [Option<usize>],
    /// The applications in order.
    pub(crate) apps: &'a [String],
    /// The OpenFlow versions that are offered.
    pub(crate) versions: Versions,
    /// The address on which metrics are served.
    pub(crate) metrics: Option<SocketAddr>,
    /// Whether they are served over HTTPS there.
    pub(crate) metrics_have_tls: bool,
    /// The Unix socket of the API.
    pub(crate) socket: Option<&'a Path>,
    /// The configuration file that was read.
    pub(crate) file: Option<&'a Path>,
    /// Whether Open vSwitch can use the kernel's datapath here.
    pub(crate) has_kernel_datapath: bool,
}

impl StartupMessage<'_> {
    /// The message with a final newline.
    pub(crate) fn text(&self) -> String {
        let mut out = format!("sluice {}\n", env!("CARGO_PKG_VERSION"));
        for address in self.listening {
            let _ = writeln!(out, "listening on {address}");
        }
        for address in self.listening_tls {
            let _ = writeln!(out, "listening on {address} (TLS)");
        }
        let _ = writeln!(out, "workers: {}, {}", self.workers.len(), self.cores());
        let _ = writeln!(out, "applications: {}", list(self.apps, "none"));
        let _ = match self.metrics {
            Some(address) => {
                let scheme = if self.metrics_have_tls { "https" } else { "http" };
                let address = reachable_address(address);
                let _ = writeln!(out, "web page: {scheme}://{address}/");
                writeln!(out, "metrics: {scheme}://{address}/metrics")
            }
            None => writeln!(out, "metrics: off"),
        };
        if let Some(socket) = self.socket {
            let _ = writeln!(out, "API: unix:{}", socket.display());
        }
        if let Some(file) = self.file {
            let _ = writeln!(out, "configuration: {}", file.display());
        }
        if let Some(&address) = self.listening.first() {
            out.push_str(&self.connect_commands(reachable_address(address)));
        } else if let Some(&address) = self.listening_tls.first() {
            let controller = reachable_address(address);
            let _ = writeln!(
                out,
                "\nConnect an Open vSwitch bridge with the certificate of `sluice pki issue`:\n  \
                 ovs-vsctl set-controller br0 ssl:{controller}"
            );
        }
        out
    }

    fn cores(&self) -> String {
        let cores: Vec<_> = self.workers.iter().flatten().map(usize::to_string).collect();
        match cores.len() {
            0 => "not bound to cores".to_owned(),
            1 => format!("bound to core {}", list(&cores, "")),
            _ => format!("bound to cores {}", list(&cores, "")),
        }
    }

    /// Commands that connect an Open vSwitch bridge or a Mininet network to `controller`.
    fn connect_commands(&self, controller: SocketAddr) -> String {
        let protocol =
            if self.versions.contains(Version::V1_3) { "OpenFlow13" } else { "OpenFlow10" };
        let (ip, port) = (controller.ip(), controller.port());
        let (note, bridge_option, mininet_option) = if self.has_kernel_datapath {
            ("", "", "")
        } else {
            (
                "This machine has no Open vSwitch kernel module, so the commands select the userspace datapath.\n",
                " datapath_type=netdev",
                ",datapath=user",
            )
        };
        format!(
            "\n{note}Connect an Open vSwitch bridge:\n  \
             ovs-vsctl --may-exist add-br br0 -- set bridge br0 protocols={protocol} fail_mode=secure{bridge_option}\n  \
             ovs-vsctl set-controller br0 tcp:{controller}\n\
             or start a Mininet network:\n  sudo mn --controller remote,ip={ip},port={port} \
             --switch ovs,protocols={protocol}{mininet_option} --topo linear,3\n"
        )
    }
}

/// Whether the kernel of the system below `root` has the module `openvswitch`, loaded or not.
pub(crate) fn has_kernel_datapath(root: &Path) -> bool {
    if root.join("sys/module/openvswitch").exists() {
        return true;
    }
    let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
    let modules = root.join("lib/modules").join(release.trim());
    ["modules.dep", "modules.builtin"].iter().any(|list| {
        fs::read_to_string(modules.join(list)).is_ok_and(|list| list.contains("/openvswitch.ko"))
    })
}

/// The address at which a program on this machine reaches a socket that listens on `address`.
fn reachable_address(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port())
    } else {
        address
    }
}

/// The items with commas, or `none`.
fn list(items: &[String], none: &str) -> String {
    if items.is_empty() { none.to_owned() } else { items.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<'a>(
        listening: &'a [SocketAddr],
        apps: &'a [String],
        workers: &'a [Option<usize>],
    ) -> StartupMessage<'a> {
        let versions = Versions::SUPPORTED;
        let has_kernel_datapath = true;
        StartupMessage {
            listening,
            listening_tls: &[],
            workers,
            apps,
            versions,
            metrics: None,
            metrics_have_tls: false,
            socket: None,
            file: None,
            has_kernel_datapath,
        }
    }

    #[test]
    fn the_message_shows_the_addresses_and_the_commands_to_connect() {
        let listening = ["[::]:6653".parse().unwrap(), "127.0.0.1:6633".parse().unwrap()];
        let apps = ["learning".to_owned(), "hub".to_owned()];
        let metrics = Some("[::]:8653".parse().unwrap());
        let text = StartupMessage {
            metrics,
            file: Some(Path::new("/etc/sluice.toml")),
            ..message(&listening, &apps, &[Some(0), Some(1)])
        }
        .text();
        let expected = concat!(
            "sluice ",
            env!("CARGO_PKG_VERSION"),
            "\n\
             listening on [::]:6653\n\
             listening on 127.0.0.1:6633\n\
             workers: 2, bound to cores 0, 1\n\
             applications: learning, hub\n\
             web page: http://127.0.0.1:8653/\n\
             metrics: http://127.0.0.1:8653/metrics\n\
             configuration: /etc/sluice.toml\n\
             \n\
             Connect an Open vSwitch bridge:\n  \
             ovs-vsctl --may-exist add-br br0 -- set bridge br0 protocols=OpenFlow13 fail_mode=secure\n  \
             ovs-vsctl set-controller br0 tcp:127.0.0.1:6653\n\
             or start a Mininet network:\n  \
             sudo mn --controller remote,ip=127.0.0.1,port=6653 --switch ovs,protocols=OpenFlow13 --topo linear,3\n"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn addresses_with_tls_are_marked_and_used_if_there_are_no_others() {
        let addresses = ["[::]:6654".parse().unwrap()];
        let message = StartupMessage { listening_tls: &addresses, ..message(&[], &[], &[]) };
        let text = message.text();
        assert!(text.contains("listening on [::]:6654 (TLS)\n"), "{text}");
        assert!(text.ends_with("set-controller br0 ssl:127.0.0.1:6654\n"), "{text}");
    }

    #[test]
    fn the_commands_use_the_configured_address_and_version() {
        let listening = ["192.0.2.1:40123".parse().unwrap()];
        let versions = Versions::of(&[Version::V1_0]);
        let text = StartupMessage { versions, ..message(&listening, &[], &[Some(3)]) }.text();
        assert!(text.contains("set-controller br0 tcp:192.0.2.1:40123\n"), "{text}");
        assert!(
            text.contains("ip=192.0.2.1,port=40123 --switch ovs,protocols=OpenFlow10 "),
            "{text}"
        );
        assert!(
            text.contains("\nworkers: 1, bound to core 3\napplications: none\nmetrics: off\n"),
            "{text}"
        );
    }

    #[test]
    fn without_the_kernel_module_the_commands_select_the_userspace_datapath() {
        let listening = ["[::]:6653".parse().unwrap()];
        let text =
            StartupMessage { has_kernel_datapath: false, ..message(&listening, &[], &[]) }.text();
        let expected = "\n\nThis machine has no Open vSwitch kernel module, so the commands select the userspace datapath.\n\
            Connect an Open vSwitch bridge:\n  \
            ovs-vsctl --may-exist add-br br0 -- set bridge br0 protocols=OpenFlow13 fail_mode=secure datapath_type=netdev\n  \
            ovs-vsctl set-controller br0 tcp:127.0.0.1:6653\n\
            or start a Mininet network:\n  \
            sudo mn --controller remote,ip=127.0.0.1,port=6653 \
            --switch ovs,protocols=OpenFlow13,datapath=user --topo linear,3\n";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn the_kernel_module_is_found_loaded_available_or_built_in() {
        let root = std::env::temp_dir().join(format!("sluice-modules-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/sys/kernel/osrelease", "6.1.0-1\n");
        assert!(!has_kernel_datapath(&root));
        write("lib/modules/6.1.0-1/modules.dep", "kernel/net/openvswitch/vport-gre.ko:\n");
        assert!(!has_kernel_datapath(&root));
        write("lib/modules/6.1.0-1/modules.builtin", "kernel/net/openvswitch/openvswitch.ko\n");
        assert!(has_kernel_datapath(&root));
        fs::remove_dir_all(root.join("lib")).unwrap();
        assert!(!has_kernel_datapath(&root));
        write("sys/module/openvswitch/refcnt", "0\n");
        assert!(has_kernel_datapath(&root));
        fs::remove_dir_all(root).unwrap();
    }
}
