//! The listeners that a service manager has opened for `sluice run`, and where the configuration has them.
//!
//! The configuration says where the controller listens. A listener that was passed takes the place of the one that would be opened at
//! the same address: nothing is refused while the process is replaced by another one. One at another address is an error, since
//! nothing would say which of both is meant.

use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use sluice_engine::{Endpoint, Transport};
use sluice_io::service_manager::{PassedListener, PassedSocket};
use sluice_io::sock;

use crate::config::RunConfig;

/// Names of sockets (`FileDescriptorName=`): switches, switches over TLS, metrics and API.
pub(crate) const OPENFLOW: &str = "openflow";
pub(crate) const OPENFLOW_TLS: &str = "openflow-tls";
pub(crate) const API: &str = "api";

/// The listeners that were passed, each in its place.
#[derive(Debug, Default)]
pub(crate) struct PassedListeners {
    /// Those for switches.
    pub(crate) switches: Vec<sluice_engine::PassedListener>,
    /// Those of the API.
    pub(crate) api: sluice_northbound::PassedListeners,
}

impl PassedListeners {
    /// Assigns `sockets` to the addresses of the configuration.
    ///
    /// # Errors
    /// A socket has an unknown name, is not of the kind that its name needs, is not at an address of the configuration, or is the second
    /// one there.
    pub(crate) fn assign(sockets: Vec<PassedSocket>, config: &RunConfig) -> Result<Self, String> {
        let mut assigned = Self::default();
        for PassedSocket { name, listener } in sockets {
            match (name.as_str(), listener) {
                (OPENFLOW, listener) => assigned.add_switches(Transport::Tcp, listener, config)?,
                (OPENFLOW_TLS, listener) => {
                    assigned.add_switches(Transport::Tls, listener, config)?;
                }
                (API, listener) => assigned.add_api(listener, config)?,
                _ => return Err(unknown_name(&name)),
            }
        }
        Ok(assigned)
    }

    /// The addresses and paths, for the log.
    pub(crate) fn names(&self) -> String {
        let switches = self.switches.iter().map(|it| it.configured.to_string());
        let tcp = self.api.tcp.iter().filter_map(|it| it.local_addr().ok());
        let unix = self.api.unix.iter().filter_map(|it| it.local_addr().ok());
        let unix = unix.filter_map(|it| it.as_pathname().map(|path| path.display().to_string()));
        let all = switches.chain(tcp.map(|it| it.to_string())).chain(unix);
        all.collect::<Vec<_>>().join(", ")
    }

    fn add_switches(
        &mut self,
        transport: Transport,
        listener: PassedListener,
        config: &RunConfig,
    ) -> Result<(), String> {
        let (name, keys, configured): (_, _, Vec<_>) = match transport {
            Transport::Tcp => (OPENFLOW, "listen", config.engine.listen.clone()),
            Transport::Tls => {
                let listeners = config.engine.tls.iter().flat_map(|tls| tls.listen.clone());
                (OPENFLOW_TLS, "tls.listen or tls.listeners", listeners.collect())
            }
        };
        let (listener, address) = match listener {
            PassedListener::Tcp(listener, address) => (listener, address),
            PassedListener::Unix(_, path) => {
                let problem = format!("is the Unix socket {}", path.display());
                let advice = "switches connect over TCP, such as with ListenStream=6653";
                return Err(problem_of(name, &problem, advice));
            }
        };
        let found = configured.iter().find(|it| is_same(**it, address));
        let Some(&addr) = found else { return Err(not_configured(name, address, keys)) };
        let configured = Endpoint { addr, transport };
        if self.switches.iter().any(|other| other.configured == configured) {
            return Err(twice(name, configured));
        }
        self.switches.push(sluice_engine::PassedListener { configured, listener });
        Ok(())
    }

    fn add_api(&mut self, listener: PassedListener, config: &RunConfig) -> Result<(), String> {
        match listener {
            PassedListener::Tcp(listener, address) => {
                if !config.api.listen.is_some_and(|it| is_same(it, address)) {
                    return Err(not_configured(API, address, "api.listen"));
                }
                if self.api.tcp.replace(listener).is_some() {
                    return Err(twice(API, address));
                }
            }
            PassedListener::Unix(listener, path) => {
                if config.api.socket.as_deref() != Some(path.as_path()) {
                    return Err(not_configured(API, path.display(), "api.socket"));
                }
                if self.api.unix.replace(listener).is_some() {
                    return Err(twice(API, path.display()));
                }
            }
        }
        Ok(())
    }
}

/// Which of the addresses that the service manager has opened a new configuration does not have: it goes on to accept connections there, which
/// nobody would serve, and the next start would fail.
pub(crate) fn no_longer_configured(passed: &[Endpoint], config: &RunConfig) -> Option<String> {
    let of_tls = || config.engine.tls.iter().flat_map(|tls| &tls.listen);
    let is_missing = |endpoint: &&Endpoint| match endpoint.transport {
        Transport::Tcp => !config.engine.listen.contains(&endpoint.addr),
        Transport::Tls => !of_tls().any(|addr| *addr == endpoint.addr),
    };
    let missing = passed.iter().find(is_missing)?;
    let (name, keys) = match missing.transport {
        Transport::Tcp => (OPENFLOW, "listen"),
        Transport::Tls => (OPENFLOW_TLS, "tls.listen or tls.listeners"),
    };
    Some(not_configured(name, missing.addr, keys))
}

/// Whether a listener at `passed` is one at `configured`.
pub(crate) fn is_same(configured: SocketAddr, passed: SocketAddr) -> bool {
    let is_equal = configured.ip() == passed.ip() && configured.port() == passed.port();
    is_equal || (is_fallback(configured, passed) && !sock::has_ipv6())
}

/// Whether `passed` is what a system without IPv6 has instead of `configured`: the IPv4 wildcard address instead of that of IPv6. Elsewhere, no
/// switch could connect over IPv6.
fn is_fallback(configured: SocketAddr, passed: SocketAddr) -> bool {
    configured.ip() == Ipv6Addr::UNSPECIFIED
        && passed.ip() == Ipv4Addr::UNSPECIFIED
        && configured.port() == passed.port()
}

fn unknown_name(name: &str) -> String {
    format!(
        "the service manager passed a socket with the unknown name \"{name}\" (known: {OPENFLOW}, {OPENFLOW_TLS}, {API}); set \
         FileDescriptorName= in its socket unit"
    )
}

fn not_configured(name: &str, address: impl Display, keys: &str) -> String {
    problem_of(
        name,
        &format!("listens on {address}, which is not in {keys}"),
        "set the same address in the configuration and in the socket unit",
    )
}

fn twice(name: &str, address: impl Display) -> String {
    problem_of(
        name,
        &format!("is the second one for {address}"),
        "remove one ListenStream= of the socket units",
    )
}

fn problem_of(name: &str, problem: &str, advice: &str) -> String {
    format!("the socket \"{name}\" that the service manager passed {problem}; {advice}")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use crate::Registry;
    use crate::config::{ConfigSources, Flags};

    use super::*;

    fn config(change: impl FnOnce(&mut RunConfig)) -> RunConfig {
        let sources =
            ConfigSources { flags: Flags::default(), env: vec![], registry: Registry::default() };
        let mut config = sources.load().unwrap().config;
        change(&mut config);
        config
    }

    fn tcp(name: &str) -> (PassedSocket, SocketAddr) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let listener = PassedListener::Tcp(listener, address);
        (PassedSocket { name: name.to_owned(), listener }, address)
    }

    fn unix(name: &str) -> (PassedSocket, std::path::PathBuf) {
        let file = format!("sluice-passed-{}-{name}.sock", std::process::id());
        let path = std::env::temp_dir().join(file);
        let _ = std::fs::remove_file(&path);
        let listener = PassedListener::Unix(UnixListener::bind(&path).unwrap(), path.clone());
        (PassedSocket { name: name.to_owned(), listener }, path)
    }

    #[test]
    fn listeners_at_configured_addresses_take_their_places() {
        let ((switches, at), (api, api_at), (unix, path)) =
            (tcp("openflow"), tcp("api"), unix("api"));
        let config = config(|config| {
            config.engine.listen.push(at);
            config.api.listen = Some(api_at);
            config.api.socket = Some(path.clone());
        });
        let assigned = PassedListeners::assign(vec![switches, api, unix], &config).unwrap();
        assert_eq!(assigned.switches[0].configured, Endpoint::from(at));
        assert!(assigned.api.tcp.is_some() && assigned.api.unix.is_some());
        assert_eq!(assigned.names(), format!("{at}, {api_at}, {}", path.display()));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_socket_that_has_no_place_is_reported_with_what_to_do() {
        let config = config(|_| ());
        let error = |socket| PassedListeners::assign(vec![socket], &config).unwrap_err();
        let known =
            "unknown name \"web\" (known: openflow, openflow-tls, api); set FileDescriptorName=";
        assert!(error(tcp("web").0).contains(known));
        let (socket, at) = tcp("openflow");
        let expected = format!(
            "the socket \"openflow\" that the service manager passed listens on {at}, which is not in listen; set the same address in \
             the configuration and in the socket unit"
        );
        assert_eq!(error(socket), expected);
        assert!(error(tcp("openflow-tls").0).contains("not in tls.listen or tls.listeners;"));
        assert!(error(tcp("api").0).contains("not in api.listen;"));
        let (socket, path) = unix("openflow");
        assert!(
            error(socket).contains("; switches connect over TCP, such as with ListenStream=6653")
        );
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_second_socket_for_an_address_is_refused() {
        let (socket, at) = tcp("openflow");
        let PassedListener::Tcp(listener, _) = &socket.listener else { panic!("{socket:?}") };
        let again = PassedListener::Tcp(listener.try_clone().unwrap(), at);
        let again = PassedSocket { name: "openflow".to_owned(), listener: again };
        let config = config(|config| config.engine.listen = vec![at]);
        let error = PassedListeners::assign(vec![socket, again], &config).unwrap_err();
        assert!(error.contains(&format!("is the second one for {at}; ")), "{error}");
    }

    #[test]
    fn a_reload_must_not_leave_an_address_that_was_passed() {
        let addr: SocketAddr = "127.0.0.1:6653".parse().unwrap();
        let passed = [Endpoint::from(addr), Endpoint { addr, transport: Transport::Tls }];
        let config = config(|config| config.engine.listen = vec![addr]);
        assert_eq!(no_longer_configured(&passed[..1], &config), None);
        let error = no_longer_configured(&passed, &config).unwrap();
        assert!(error.contains("\"openflow-tls\""), "{error}");
        assert!(error.contains("not in tls.listen or tls.listeners;"), "{error}");
    }

    #[test]
    fn only_the_ipv4_wildcard_address_can_take_the_place_of_that_of_ipv6() {
        let [any, any_ipv4]: [SocketAddr; 2] =
            ["[::]:6653", "0.0.0.0:6653"].map(|it| it.parse().unwrap());
        assert!(is_same(any, any) && is_fallback(any, any_ipv4));
        for other in ["[::]:6653", "0.0.0.0:6633", "127.0.0.1:6653", "[::1]:6653"] {
            assert!(!is_fallback(any, other.parse().unwrap()), "{other}");
        }
        assert!(!is_same(any_ipv4, any));
    }
}
