//! What a request is permitted, for replies that last.

use std::time::{Duration, Instant};

use sluice_io::clock;

use super::{Access, Identity};
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

    /// Whether the request would not be permitted any more. Looks only once in [`CHECK_INTERVAL`].
    pub(crate) fn is_revoked(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.checked_at) < CHECK_INTERVAL {
            return false;
        }
        self.checked_at = now;
        !self.access.still_permits(self.peer, &self.identity, self.need)
    }
}
