//! The listeners of the acceptor.

use std::io;

use sluice_io::{ConnId, Io, TlsServer};

use crate::config::{Endpoint, Transport};

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

    /// Has the listeners that expect TLS use `tls` from now on.
    pub(crate) fn set_tls(&mut self, io: &mut impl Io, tls: Option<&TlsServer>) {
        for &(endpoint, id) in &self.0 {
            if endpoint.transport == Transport::Tls {
                io.set_tls(id, tls);
            }
        }
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

/// Whether a listener at `open` serves the configured endpoint `wanted`.
pub(crate) fn is_same_listener(wanted: Endpoint, open: Endpoint) -> bool {
    let is_same_transport = wanted.transport == open.transport;
    let (wanted, open) = (wanted.addr, open.addr);
    let is_same_ip = wanted.ip() == open.ip()
        || (wanted.ip().is_unspecified() && open.ip().is_unspecified() && wanted.is_ipv6());
    is_same_transport && is_same_ip && (wanted.port() == open.port() || wanted.port() == 0)
}
