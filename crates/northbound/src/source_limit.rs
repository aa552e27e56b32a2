//! Limits what clients use at a time, so that none of them takes all.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::peer::Source;

/// A limit on what all clients use at a time, such as a number of streams or of bytes. One source has at most half of it. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct SourceLimit {
    max: usize,
    in_use: Arc<Mutex<Vec<(Source, usize)>>>,
}

/// What is in use until this is dropped.
#[derive(Debug)]
pub(crate) struct SourcePermit {
    limit: SourceLimit,
    source: Source,
    amount: usize,
}

/// Why no more can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exhausted {
    /// So much is in use by all.
    ByAll(usize),
    /// So much is in use by the source.
    BySource(usize),
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByAll(amount) => write!(f, "{amount} at a time"),
            Self::BySource(amount) => write!(f, "{amount} at a time from the same address or user"),
        }
    }
}

impl SourceLimit {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, in_use: Arc::default() }
    }

    /// How much is in use.
    pub(crate) fn in_use(&self) -> usize {
        self.lock().iter().map(|(_, amount)| amount).sum()
    }

    /// Uses one more.
    pub(crate) fn try_admit(&self, source: Source) -> Result<SourcePermit, Exhausted> {
        self.try_admit_many(source, 1)
    }

    /// Uses so much more. More than half of the limit counts as half of it.
    pub(crate) fn try_admit_many(
        &self,
        source: Source,
        amount: usize,
    ) -> Result<SourcePermit, Exhausted> {
        let mut in_use = self.lock();
        let of_source = in_use.iter().filter(|(of, _)| *of == source).map(|(_, it)| it).sum();
        let of_all: usize = in_use.iter().map(|(_, it)| it).sum();
        let amount = amount.min(self.max / 2);
        if of_all + amount > self.max {
            return Err(Exhausted::ByAll(of_all));
        }
        if of_source + amount > self.max / 2 {
            return Err(Exhausted::BySource(of_source));
        }
        in_use.push((source, amount));
        Ok(SourcePermit { limit: self.clone(), source, amount })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Source, usize)>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SourcePermit {
    fn drop(&mut self) {
        let mut in_use = self.limit.lock();
        let used = (self.source, self.amount);
        if let Some(at) = in_use.iter().position(|it| *it == used) {
            in_use.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_has_half() {
        let limit = SourceLimit::new(4);
        let admit = |user| limit.try_admit(Source::User(Some(user)));
        let mut held = vec![admit(1).unwrap(), admit(1).unwrap()];
        assert_eq!(admit(1).unwrap_err(), Exhausted::BySource(2));
        held.extend([admit(2).unwrap(), admit(3).unwrap()]);
        assert_eq!(admit(4).unwrap_err(), Exhausted::ByAll(4));
        held.remove(0);
        assert_eq!(limit.in_use(), 3);
        held.push(admit(1).unwrap());
        drop(held);
        assert_eq!(limit.in_use(), 0);
    }

    #[test]
    fn amounts_count_and_one_that_is_too_large_counts_as_half() {
        let limit = SourceLimit::new(100);
        let admit = |user, amount| limit.try_admit_many(Source::User(Some(user)), amount);
        let large = admit(1, 1000).unwrap();
        assert_eq!(limit.in_use(), 50);
        assert_eq!(admit(1, 1).unwrap_err(), Exhausted::BySource(50));
        let _other = admit(2, 40).unwrap();
        assert_eq!(admit(3, 20).unwrap_err(), Exhausted::ByAll(90));
        drop(large);
        assert_eq!(limit.in_use(), 40);
    }
}
