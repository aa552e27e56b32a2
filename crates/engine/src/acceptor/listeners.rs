//! The listeners of the acceptor.

use std::io;

use sluice_io::{ConnId, Io};

use super::pending::Security;
use crate::config::{Config, Endpoint, TlsListeners, Transport};
use crate::listen::OpenEndpoint;

/// Listeners with the same settings, which have the same share of the handshakes: all TCP listeners, or those of one
/// [`TlsListeners`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ListenerGroup(pub(crate) usize);

/// The TCP listeners. The others are numbered from 1.
const TCP: ListenerGroup = ListenerGroup(0);

/// The listeners of the acceptor, with their addresses.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Vec<(OpenEndpoint, ConnId)>);

impl Listeners {
    /// Accepts connections on `listener`, which has the address of `endpoint`.
    pub(crate) fn add<I: Io>(
        &mut self,
        io: &mut I,
        endpoint: OpenEndpoint,
        listener: I::Listener,
    ) -> io::Result<()> {
        let id = io.listen(listener)?;
        self.0.push((endpoint, id));
        Ok(())
    }

    /// Has each listener that expects TLS use its settings in `cfg` from now on. One without settings is closed.
    pub(crate) fn set_tls(&mut self, io: &mut impl Io, cfg: &Config) {
        self.0.retain(|&(endpoint, id)| {
            if endpoint.configured.transport == Transport::Tcp {
                return true;
            }
            let settings = tls_settings(endpoint.configured, cfg);
            if let Some((_, tls)) = settings {
                io.set_tls(id, Some(&tls.server));
            } else {
                tracing::error!(addr = %endpoint, "stopped listening: the configuration has no TLS settings for this address");
                io.close(id);
            }
            settings.is_some()
        });
    }

    /// The group of a listener, and what its connections use. `None` if it is not known, so that they must be closed.
    pub(crate) fn settings(
        &self,
        listener: ConnId,
        cfg: &Config,
    ) -> Option<(ListenerGroup, Security)> {
        let &(OpenEndpoint { configured, .. }, _) =
            self.0.iter().find(|(_, id)| *id == listener)?;
        match configured.transport {
            Transport::Tcp => Some((TCP, Security::Plain)),
            Transport::Tls => {
                let (number, tls) = tls_settings(configured, cfg)?;
                Some((ListenerGroup(number), Security::Tls { is_bound: tls.bind_datapath_id }))
            }
        }
    }

    /// All listeners.
    #[cfg(test)]
    pub(crate) fn ids(&self) -> impl Iterator<Item = ConnId> {
        self.0.iter().map(|&(_, id)| id)
    }

    /// Closes the listeners that are not `wanted`.
    pub(crate) fn retain(&mut self, io: &mut impl Io, wanted: impl Fn(&OpenEndpoint) -> bool) {
        self.0.retain(|(endpoint, id)| {
            let is_wanted = wanted(endpoint);
            if !is_wanted {
                tracing::info!(addr = %endpoint, "stopped listening");
                io.close(*id);
            }
            is_wanted
        });
    }
}

/// The number and the settings of the TLS listener for the configured endpoint.
fn tls_settings(configured: Endpoint, cfg: &Config) -> Option<(usize, &TlsListeners)> {
    (1..).zip(&cfg.tls).find(|(_, tls)| tls.listen.contains(&configured.addr))
}
