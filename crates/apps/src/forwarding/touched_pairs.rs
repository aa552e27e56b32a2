//! Pairs of hosts whose packet-ins the application has handled since an engine that answers in its place was last told of them.

use sluice_openflow::{EthHeader, MacAddr};

/// Pairs that are listed. If there are more, the engine answers nothing until no installation is pending.
const PAIRS_MAX: usize = 8192;

/// The pairs, once they are listed: only an engine that answers needs them.
#[derive(Debug, Default)]
pub(super) struct TouchedPairs {
    /// Bits of both addresses.
    pairs: Option<Vec<[u64; 2]>>,
    is_full: bool,
}

impl TouchedPairs {
    /// Lists a pair, if pairs are listed. `pair` has the addresses as [`EthHeader::dst_bits`] returns them.
    #[inline]
    pub(super) fn add(&mut self, pair: [u64; 2]) {
        if let Some(pairs) = &mut self.pairs {
            if pairs.len() < PAIRS_MAX {
                pairs.push(pair);
            } else {
                self.is_full = true;
            }
        }
    }

    /// Takes what is listed, and lists pairs from now on. Returns `None` if any pair may have been handled.
    pub(super) fn drain(&mut self) -> Option<impl Iterator<Item = [MacAddr; 2]> + '_> {
        let is_complete = self.pairs.is_some() && !std::mem::take(&mut self.is_full);
        let pairs = self.pairs.get_or_insert_default();
        if !is_complete {
            pairs.clear();
        }
        let drained = pairs.drain(..).map(|pair| pair.map(EthHeader::mac_of_bits));
        is_complete.then_some(drained)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_listed_from_the_first_request_on_until_there_are_too_many() {
        let pair = [1, 2].map(|n| MacAddr::from_u64(0x0200_0000_0000 | n));
        let bits = pair.map(MacAddr::bits);
        let mut touched = TouchedPairs::default();
        let drain = |touched: &mut TouchedPairs| touched.drain().map(Vec::from_iter);
        touched.add(bits);
        assert_eq!(drain(&mut touched), None, "none were listed before");
        assert_eq!(drain(&mut touched), Some(Vec::new()));
        touched.add(bits);
        assert_eq!(drain(&mut touched), Some(vec![pair]));
        (0..=PAIRS_MAX).for_each(|_| touched.add(bits));
        assert_eq!(drain(&mut touched), None);
        assert_eq!(drain(&mut touched), Some(Vec::new()));
    }
}
