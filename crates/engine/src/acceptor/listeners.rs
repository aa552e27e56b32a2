//! The listeners of the acceptor.

use std::io;

use sluice_io::{ConnId, Io};

use crate::config::{Config, Endpoint, TlsListeners, Transport};

/// The listeners of the acceptor, with their addresses.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Vec<(Endpoint, ConnId)>);

impl Listeners {
    /// Accepts connections on `listener`, which has the address of `endpoint`.
    pub(crate) fn add<I: Io>(
        &mut self,
        io: &mut I,
        endpoint: Endpoint,
        listener: I::Listener,
    ) -> io::Result<()> {
        let id = io.listen(listener)?;
        self.0.push((endpoint, id));
        Ok(())
    }

    /// Has each listener that expects TLS use its settings in `cfg` from now on.
    pub(crate) fn set_tls(&mut self, io: &mut impl Io, cfg: &Config) {
        for &(endpoint, id) in &self.0 {
            if endpoint.transport == Transport::Tls {
                io.set_tls(id, tls_settings(endpoint, cfg).map(|tls| &tls.server));
            }
        }
    }

    /// The settings of a listener that expects TLS.
    pub(crate) fn tls<'c>(&self, listener: ConnId, cfg: &'c Config) -> Option<&'c TlsListeners> {
        let (endpoint, _) = self.0.iter().find(|(_, id)| *id == listener)?;
        tls_settings(*endpoint, cfg)
    }

    /// Closes the listeners whose addresses are not `wanted`.
    pub(crate) fn retain(&mut self, io: &mut impl Io, wanted: impl Fn(Endpoint) -> bool) {
        self.0.retain(|&(endpoint, id)| {
            let is_wanted = wanted(endpoint);
            if !is_wanted {
                tracing::info!(addr = %endpoint, "stopped listening");
                io.close(id);
            }
            is_wanted
        });
    }
}

/// The settings of the TLS listener at `open`. Those for its port come before those for a port that the system has chosen.
fn tls_settings(open: Endpoint, cfg: &Config) -> Option<&TlsListeners> {
    let all = || cfg.tls.iter().flat_map(|tls| tls.endpoints().map(move |it| (it, tls)));
    let same = || all().filter(|(wanted, _)| is_same_listener(*wanted, open));
    let exact = same().find(|(wanted, _)| wanted.addr.port() == open.addr.port());
    exact.or_else(|| same().next()).map(|(_, tls)| tls)
}

/// Whether a listener at `open` serves the configured endpoint `wanted`.
pub(crate) fn is_same_listener(wanted: Endpoint, open: Endpoint) -> bool {
    let is_same_transport = wanted.transport == open.transport;
    let (wanted, open) = (wanted.addr, open.addr);
    let is_same_ip = wanted.ip() == open.ip()
        || (wanted.ip().is_unspecified() && open.ip().is_unspecified() && wanted.is_ipv6());
    is_same_transport && is_same_ip && (wanted.port() == open.port() || wanted.port() == 0)
}
