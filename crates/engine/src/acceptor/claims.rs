//! Connections that claim a datapath id which another connection has.

use std::time::Instant;

use sluice_base::hash::HashMap;
use sluice_io::ConnId;
use sluice_openflow::{DatapathId, SwitchFeatures};

use crate::deadlines::Deadlines;
use crate::messages::SessionId;

/// Connections that claim a datapath id which another connection has, at most one for each.
///
/// The session that has the datapath id is probed, unless it is being closed anyway. If it answers in time, the claimant is closed; otherwise that session is, and
/// it is the turn of the claimant as soon as it has disconnected and a worker has time.
#[derive(Debug, Default)]
pub(crate) struct DuplicateClaims {
    /// By the session that has the datapath id.
    by_session: HashMap<SessionId, DuplicateClaim>,
    by_claimant: HashMap<ConnId, SessionId>,
    /// When a session is closed unless it has answered.
    deadlines: Deadlines<SessionId>,
}

/// The claim of a connection to the datapath id of another one.
#[derive(Debug)]
pub(crate) struct DuplicateClaim {
    pub(crate) claimant: ConnId,
    pub(crate) features: Box<SwitchFeatures>,
    /// The session is being closed, so that the claimant can take its place.
    is_granted: bool,
}

impl DuplicateClaims {
    /// Whether a connection claims the datapath id of `session`.
    pub(crate) fn is_claimed(&self, session: SessionId) -> bool {
        self.by_session.contains_key(&session)
    }

    /// The connection that claims the datapath id of `session`.
    pub(crate) fn claimant(&self, session: SessionId) -> Option<ConnId> {
        self.by_session.get(&session).map(|claim| claim.claimant)
    }

    /// Adds the claim of a connection to the datapath id of `session`, which must answer until `deadline`, or is being closed if
    /// there is none.
    pub(crate) fn insert(
        &mut self,
        session: SessionId,
        claimant: ConnId,
        features: Box<SwitchFeatures>,
        deadline: Option<Instant>,
    ) {
        let is_granted = deadline.is_none();
        self.by_session.insert(session, DuplicateClaim { claimant, features, is_granted });
        self.by_claimant.insert(claimant, session);
        if let Some(deadline) = deadline {
            self.deadlines.set(session, deadline);
        }
    }

    /// Removes the claim of a connection, if it has one.
    pub(crate) fn remove_claimant(&mut self, claimant: ConnId) {
        if let Some(&session) = self.by_claimant.get(&claimant) {
            self.remove(session);
        }
    }

    /// Removes the claim to the datapath id of `session`, which has disconnected.
    pub(crate) fn remove(&mut self, session: SessionId) -> Option<DuplicateClaim> {
        let claim = self.by_session.remove(&session)?;
        self.by_claimant.remove(&claim.claimant);
        self.deadlines.remove(session);
        Some(claim)
    }

    /// Removes the claim to the datapath id of `session`, which has answered the probe. `None` also if the answer is late: the
    /// session is already being closed, and closing the claimant too would leave neither.
    pub(crate) fn refute(&mut self, session: SessionId) -> Option<DuplicateClaim> {
        self.by_session.get(&session).filter(|claim| !claim.is_granted)?;
        self.remove(session)
    }

    /// When to call [`pop_due`](Self::pop_due) next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    /// Grants a claim whose session has not answered in time. Returns the session to close, and the datapath id.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(SessionId, DatapathId)> {
        let session = self.deadlines.pop_due(now)?;
        let claim = self.by_session.get_mut(&session)?;
        claim.is_granted = true;
        Some((session, claim.features.datapath_id))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const OLD: SessionId = SessionId(1);

    fn claimed() -> (DuplicateClaims, Instant) {
        let (mut claims, now) = (DuplicateClaims::default(), sluice_io::clock::now());
        let features = SwitchFeatures { datapath_id: DatapathId(7), ..SwitchFeatures::default() };
        let deadline = Some(now + Duration::from_secs(2));
        claims.insert(OLD, ConnId::default(), Box::new(features), deadline);
        (claims, now)
    }

    #[test]
    fn a_claim_is_refuted_by_an_answer_in_time() {
        let (mut claims, now) = claimed();
        assert!(claims.is_claimed(OLD));
        assert_eq!(claims.pop_due(now), None);
        assert!(claims.refute(OLD).is_some() && !claims.is_claimed(OLD));
        assert_eq!((claims.next_deadline().is_some(), claims.by_claimant.len()), (true, 0));
        assert_eq!(claims.pop_due(now + Duration::from_secs(9)), None);
    }

    #[test]
    fn a_granted_claim_is_not_refuted_by_a_late_answer() {
        let (mut claims, now) = claimed();
        let due = claims.pop_due(now + Duration::from_secs(2));
        assert_eq!(due, Some((OLD, DatapathId(7))));
        assert!(claims.refute(OLD).is_none());
        assert!(claims.remove(OLD).is_some() && claims.remove(OLD).is_none());
    }

    #[test]
    fn a_claim_ends_with_its_connection() {
        let (mut claims, _) = claimed();
        claims.remove_claimant(ConnId::default());
        assert!(!claims.is_claimed(OLD) && claims.remove(OLD).is_none());
    }
}
