//! What a request is permitted, for replies that last.

use std::time::{Duration, Instant};

use sluice_io::clock;

use super::{Access, Identity};
use crate::api::reads::Client;
use crate::peer::{Peer, Source};
use crate::tokens::Role;

/// How often it is checked whether a reply that lasts is still permitted.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Why a request was permitted. An extension of each request that needs a role.
#[derive(Debug, Clone)]
pub(crate) struct Permission {
    access: Access,
    peer: Peer,
    identity: Identity,
    need: Role,
    checked_at: Instant,
}

impl Permission {
    pub(super) fn new(access: Access, peer: Peer, identity: Identity, need: Role) -> Self {
        Self { access, peer, identity, need, checked_at: clock::now() }
    }

    /// Whom it was given to, for limits of each source.
    pub(crate) fn source(&self) -> Source {
        self.peer.source()
    }

    /// Whom it was given to, for shares of what is read from switches: a token has one share, wherever it is used.
    pub(crate) fn client(&self) -> Client {
        match &self.identity.token {
            Some(token) => Client::Token(token.fingerprint()),
            None => Client::Peer(self.peer.source()),
        }
    }

    /// Whether the request would not be permitted any more. Looks only once in [`CHECK_INTERVAL`].
    pub(crate) fn is_revoked(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.checked_at) < CHECK_INTERVAL {
            return false;
        }
        self.checked_at = now;
        !self.access.still_permits(self.peer, &self.identity, self.need)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AccessConfig;
    use crate::tokens::Token;

    #[test]
    fn a_token_is_one_client_wherever_it_is_used() {
        let access = Access::new(AccessConfig::default());
        let client = |address: [u8; 4], token: Option<&Token>| {
            let peer = Peer::Tcp { address: (address, 4000).into(), has_tls: true };
            let identity = Identity {
                who: String::new(),
                role: Role::Read,
                token: token.cloned().map(Box::new),
            };
            Permission::new(access.clone(), peer, identity, Role::Read).client()
        };
        let token = || Token::generate("name", Role::Read, Duration::ZERO, None).unwrap().1;
        let (first, second) = (token(), token());
        let (here, there) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        assert_eq!(client(here, Some(&first)), client(there, Some(&first)));
        assert_ne!(client(here, Some(&first)), client(here, Some(&second)));
        assert_ne!(client(here, Some(&first)), client(here, None));
        assert_ne!(client(here, None), client(there, None));
    }
}
