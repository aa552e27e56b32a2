//! The first screen of `sluice run`.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use sluice_openflow::{Version, Versions};

/// What the first screen says.
#[derive(Debug)]
pub(crate) struct Screen<'a> {
    /// Where switches are accepted.
    pub(crate) listening: &'a [SocketAddr],
    /// The core of each worker, `None` for any.
    pub(crate) workers: &'a [Option<usize>],
    /// Applications in order.
    pub(crate) apps: &'a [String],
    /// Versions that are offered.
    pub(crate) versions: Versions,
    /// Where metrics are served.
    pub(crate) metrics: Option<SocketAddr>,
    /// The file that was read.
    pub(crate) file: Option<&'a Path>,
}

impl Screen<'_> {
    /// The text, ready to print.
    pub(crate) fn text(&self) -> String {
        let mut out = format!("sluice {}\n", env!("CARGO_PKG_VERSION"));
        for address in self.listening {
            let _ = writeln!(out, "listening on {address}");
        }
        let _ = writeln!(out, "workers: {}, {}", self.workers.len(), self.places());
        let _ = writeln!(out, "apps: {}", list(self.apps, "none"));
        let _ = match self.metrics {
            Some(address) => writeln!(out, "metrics: http://{}/metrics", reachable(address)),
            None => writeln!(out, "metrics: off"),
        };
        if let Some(file) = self.file {
            let _ = writeln!(out, "configuration: {}", file.display());
        }
        if let Some(&address) = self.listening.first() {
            out.push_str(&self.first_steps(reachable(address)));
        }
        out
    }

    fn places(&self) -> String {
        let cores: Vec<_> = self.workers.iter().flatten().map(usize::to_string).collect();
        match cores.len() {
            0 => "bound to no core".to_owned(),
            1 => format!("bound to core {}", list(&cores, "")),
            _ => format!("bound to cores {}", list(&cores, "")),
        }
    }

    fn first_steps(&self, at: SocketAddr) -> String {
        let protocol =
            if self.versions.contains(Version::V1_3) { "OpenFlow13" } else { "OpenFlow10" };
        let (ip, port) = (at.ip(), at.port());
        format!(
            "\nConnect Open vSwitch:\n  ovs-vsctl set-controller br0 tcp:{at}\n\
             or a network of Mininet:\n  \
             sudo mn --controller remote,ip={ip},port={port} --switch ovs,protocols={protocol} --topo linear,3\n"
        )
    }
}

/// Where a program on this machine finds what listens at `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port())
    } else {
        address
    }
}

fn list(items: &[String], none: &str) -> String {
    if items.is_empty() { none.to_owned() } else { items.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen<'a>(
        listening: &'a [SocketAddr],
        apps: &'a [String],
        workers: &'a [Option<usize>],
    ) -> Screen<'a> {
        let versions = Versions::SPOKEN;
        Screen { listening, workers, apps, versions, metrics: None, file: None }
    }

    #[test]
    fn it_says_where_it_listens_and_how_to_connect() {
        let listening = ["[::]:6653".parse().unwrap(), "127.0.0.1:6633".parse().unwrap()];
        let apps = ["learning".to_owned(), "hub".to_owned()];
        let metrics = Some("[::]:8653".parse().unwrap());
        let text = Screen {
            metrics,
            file: Some(Path::new("/etc/sluice.toml")),
            ..screen(&listening, &apps, &[Some(0), Some(1)])
        }
        .text();
        let expected = concat!(
            "sluice ",
            env!("CARGO_PKG_VERSION"),
            "\n\
             listening on [::]:6653\n\
             listening on 127.0.0.1:6633\n\
             workers: 2, bound to cores 0, 1\n\
             apps: learning, hub\n\
             metrics: http://127.0.0.1:8653/metrics\n\
             configuration: /etc/sluice.toml\n\
             \n\
             Connect Open vSwitch:\n  \
             ovs-vsctl set-controller br0 tcp:127.0.0.1:6653\n\
             or a network of Mininet:\n  \
             sudo mn --controller remote,ip=127.0.0.1,port=6653 --switch ovs,protocols=OpenFlow13 --topo linear,3\n"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn it_names_the_address_that_was_asked_for() {
        let listening = ["192.0.2.1:40123".parse().unwrap()];
        let versions = Versions::of(&[Version::V1_0]);
        let text = Screen { versions, ..screen(&listening, &[], &[Some(3)]) }.text();
        assert!(text.contains("set-controller br0 tcp:192.0.2.1:40123\n"), "{text}");
        assert!(
            text.contains("ip=192.0.2.1,port=40123 --switch ovs,protocols=OpenFlow10 "),
            "{text}"
        );
        assert!(
            text.contains("\nworkers: 1, bound to core 3\napps: none\nmetrics: off\n"),
            "{text}"
        );
    }
}
