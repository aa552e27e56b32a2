//! Opens listeners.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;

use sluice_io::sock;
use sluice_kernel::SynFilter;

use crate::config::{Config, Endpoint, TlsListeners, Transport};
use crate::engine::StartError;

/// A listener that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenEndpoint {
    /// What the configuration says: with port 0 if the system chooses the port, and with `[::]` also on a system without IPv6.
    pub(crate) configured: Endpoint,
    /// The address of the listener.
    pub(crate) addr: SocketAddr,
}

/// A listener without TLS at the configured address.
impl From<SocketAddr> for OpenEndpoint {
    fn from(addr: SocketAddr) -> Self {
        Self { configured: addr.into(), addr }
    }
}

impl fmt::Display for OpenEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Endpoint { addr: self.addr, ..self.configured }.fmt(f)
    }
}

/// Open listeners for the acceptor.
#[derive(Debug)]
pub(crate) struct NewListeners<L> {
    pub(crate) listeners: Vec<(OpenEndpoint, L)>,
    /// Takes those that the acceptor could not use, and has closed.
    pub(crate) failed: mpsc::Sender<OpenEndpoint>,
}

impl<L> NewListeners<L> {
    pub(crate) fn none() -> Self {
        Self { listeners: Vec::new(), failed: mpsc::channel().0 }
    }
}

/// A listener that another process has opened, such as a service manager, in the place of one that the engine would open.
#[derive(Debug)]
pub struct PassedListener {
    /// The endpoint of the configuration.
    pub configured: Endpoint,
    /// The listener, which does not block.
    pub listener: TcpListener,
}

/// Opens a listener for each of `endpoints`, or uses the one of `passed`. `filter` sees what they receive.
pub(crate) fn open_all(
    config: &Config,
    passed: &[PassedListener],
    filter: Option<&SynFilter>,
    endpoints: impl IntoIterator<Item = Endpoint>,
) -> Result<Vec<(OpenEndpoint, TcpListener)>, StartError> {
    if let Some(name) = &config.socket.congestion {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let result = sock::listen(any, &config.socket);
        result.map_err(|error| StartError::Congestion(name.clone(), error))?;
    }
    let listeners = endpoints.into_iter();
    listeners.map(|endpoint| open(config, passed, filter, (endpoint, endpoint.addr))).collect()
}

/// Opens listeners again that were closed, as far as possible.
pub(crate) fn open_again(
    config: &Config,
    passed: &[PassedListener],
    filter: Option<&SynFilter>,
    closed: &[OpenEndpoint],
) -> Vec<(OpenEndpoint, TcpListener)> {
    let reopen = |closed: &OpenEndpoint| {
        let listener = open(config, passed, filter, (closed.configured, closed.addr));
        listener.inspect_err(|error| {
            tracing::error!(addr = %closed, %error, "cannot listen again; a reload of the configuration tries again");
        })
    };
    closed.iter().filter_map(|closed| reopen(closed).ok()).collect()
}

fn open(
    config: &Config,
    passed: &[PassedListener],
    filter: Option<&SynFilter>,
    (configured, addr): (Endpoint, SocketAddr),
) -> Result<(OpenEndpoint, TcpListener), StartError> {
    let cannot_listen = |error| StartError::Listen(configured, error);
    let listener = match passed.iter().find(|it| it.configured == configured) {
        Some(passed) => {
            config.socket.apply(&passed.listener).map_err(cannot_listen)?;
            SynFilter::detach(&passed.listener);
            // The original stays open, so that the endpoint can be removed from the configuration and added again.
            passed.listener.try_clone().map_err(cannot_listen)?
        }
        None => sock::listen(addr, &config.socket).map_err(cannot_listen)?,
    };
    if let Some(filter) = filter {
        filter.attach(&listener).map_err(|error| StartError::SynFilter(error.into()))?;
    }
    let addr = listener.local_addr().map_err(cannot_listen)?;
    Ok((OpenEndpoint { configured, addr }, listener))
}

/// Checks that no two TLS listeners with settings of their own have the same address. For ports other than 0, opening them would
/// fail; with port 0, both would have the settings of the first.
pub(crate) fn check_tls_addresses(tls: &[TlsListeners]) -> Result<(), StartError> {
    for (listeners, following) in tls.iter().zip(1..) {
        let others = tls.iter().skip(following).flat_map(|other| &other.listen);
        if let Some(&addr) = others.into_iter().find(|addr| listeners.listen.contains(addr)) {
            let endpoint = Endpoint { addr, transport: Transport::Tls };
            return Err(StartError::Listen(endpoint, io::ErrorKind::AddrInUse.into()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use sluice_kernel::SynLimit;

    use super::*;

    #[test]
    fn a_listener_that_cannot_be_opened_again_does_not_prevent_others() {
        let config = Config::default();
        let config = Config { socket: sock::Options::default(), ..config };
        let any = Endpoint::from(SocketAddr::from(([127, 0, 0, 1], 0)));
        let closed: Vec<_> = {
            let open = open_all(&config, &[], None, [any; 3]).unwrap();
            open.iter().map(|(endpoint, _)| *endpoint).collect()
        };
        let [_, taken, _] = *closed else { panic!("{closed:?}") };
        let _taken = TcpListener::bind(taken.addr).unwrap();
        let again = open_again(&config, &[], None, &closed);
        let again: Vec<_> = again.iter().map(|(endpoint, _)| *endpoint).collect();
        assert_eq!(again, [closed[0], closed[2]], "with the ports that they had");
    }

    /// The filter is one of the socket, which the service manager keeps open.
    #[test]
    fn a_listener_that_is_passed_has_no_filter_of_an_earlier_run() {
        let limit = SynLimit { burst: 1, interval: Duration::from_secs(3600), sources: 10 };
        let filter = SynFilter::load(&limit).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        filter.attach(&listener).unwrap();
        let configured = Endpoint::from(listener.local_addr().unwrap());
        let passed = [PassedListener { configured, listener }];
        let config = Config { socket: sock::Options::default(), ..Config::default() };
        let _open = open_all(&config, &passed, None, [configured]).unwrap();
        for _ in 0..3 {
            TcpStream::connect_timeout(&configured.addr, Duration::from_secs(20)).unwrap();
        }
        assert_eq!(filter.dropped(), 0);
    }
}
