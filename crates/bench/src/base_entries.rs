//! Flow entries that a switch receives before it has sent any packet-in.

use sluice_openflow::HEADER_LEN;

/// Entries of one switch that are known at most, and their greatest length. Controllers write a few: for table misses and link probes.
const COUNT_MAX: usize = 64;
const LEN_MAX: usize = 1024;

/// The flow entries with which a controller has set a switch up. It may write them again at any time, for instance since the switch, which lists
/// no flow entries, seems to have lost them. They answer no request.
#[derive(Debug, Default)]
pub(crate) struct BaseEntries {
    /// The `FLOW_MOD`s without their headers, which have a transaction id.
    bodies: Vec<Box<[u8]>>,
}

impl BaseEntries {
    /// Takes note of an entry that was received before any packet-in was sent.
    pub(crate) fn add(&mut self, flow_mod: &[u8]) {
        if let Some(body) = flow_mod.get(HEADER_LEN..)
            && body.len() <= LEN_MAX
            && self.bodies.len() < COUNT_MAX
            && !self.contains(flow_mod)
        {
            self.bodies.push(body.into());
        }
    }

    /// Whether this entry was added.
    pub(crate) fn contains(&self, flow_mod: &[u8]) -> bool {
        let body = flow_mod.get(HEADER_LEN..);
        body.is_some_and(|body| self.bodies.iter().any(|it| **it == *body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow_mod(xid: u8, body: &[u8]) -> Vec<u8> {
        [&[4, 14, 0, 12, 0, 0, 0, xid], body].concat()
    }

    #[test]
    fn an_entry_is_known_whatever_its_transaction_id() {
        let mut entries = BaseEntries::default();
        assert!(!entries.contains(&flow_mod(1, &[1, 2])));
        entries.add(&flow_mod(1, &[1, 2]));
        assert!(entries.contains(&flow_mod(2, &[1, 2])));
        assert!(!entries.contains(&flow_mod(1, &[1, 3])));
        assert!(!entries.contains(&flow_mod(1, &[1])));
        assert!(!entries.contains(&[4, 14]));
    }

    #[test]
    fn a_bounded_number_of_entries_of_bounded_length_is_known() {
        let mut entries = BaseEntries::default();
        entries.add(&flow_mod(1, &[0; LEN_MAX + 1]));
        assert!(entries.bodies.is_empty());
        for _ in 0..2 {
            (0..=255).for_each(|n| entries.add(&flow_mod(n, &[n])));
            assert_eq!(entries.bodies.len(), COUNT_MAX);
        }
        assert!(entries.contains(&flow_mod(0, &[0])) && !entries.contains(&flow_mod(255, &[255])));
    }
}
