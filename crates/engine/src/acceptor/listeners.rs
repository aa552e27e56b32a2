//! The listeners of the acceptor.

use std::io;
use std::net::SocketAddr;

use sluice_io::{ConnId, Io};

/// The listeners of the acceptor, with their addresses.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Vec<(SocketAddr, ConnId)>);

impl Listeners {
    /// Accepts connections on `listener`, which has the address `addr`.
    pub(crate) fn add<I: Io>(
        &mut self,
        io: &mut I,
        addr: SocketAddr,
        listener: I::Listener,
    ) -> io::Result<()> {
        let id = io.listen(listener)?;
        self.0.push((addr, id));
        Ok(())
    }

    /// Closes the listeners whose addresses are not `wanted`.
    pub(crate) fn retain(&mut self, io: &mut impl Io, wanted: impl Fn(SocketAddr) -> bool) {
        self.0.retain(|&(addr, id)| {
            let is_wanted = wanted(addr);
            if !is_wanted {
                tracing::info!(%addr, "stopped listening");
                io.close(id);
            }
            is_wanted
        });
    }
}

/// Whether a listener at `open` serves the configured address `wanted`.
pub(crate) fn is_same_listener(wanted: SocketAddr, open: SocketAddr) -> bool {
    let is_same_ip = wanted.ip() == open.ip()
        || (wanted.ip().is_unspecified() && open.ip().is_unspecified() && wanted.is_ipv6());
    is_same_ip && (wanted.port() == open.port() || wanted.port() == 0)
}
