//! Bytes that were received before their connection was handed over.

/// Received bytes that were not reported yet and are not in the kernel any more.
#[derive(Debug, Default)]
pub(crate) struct EarlyBytes {
    bytes: Vec<u8>,
    /// Bytes at the front that were taken.
    taken: usize,
}

impl From<Vec<u8>> for EarlyBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, taken: 0 }
    }
}

impl EarlyBytes {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Moves bytes from the front into `to`, as many as fit; returns their number. Frees the memory with the last ones.
    pub(crate) fn take(&mut self, to: &mut [u8]) -> usize {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let len = rest.len().min(to.len());
        if let (Some(to), Some(from)) = (to.get_mut(..len), rest.get(..len)) {
            to.copy_from_slice(from);
        }
        self.taken += len;
        if self.is_empty() {
            *self = Self::default();
        }
        len
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.drain(..self.taken);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_bytes_are_taken_in_order_and_in_parts() {
        let mut early = EarlyBytes::from(b"abc".to_vec());
        early.append(b"defg");
        let mut to = [0; 4];
        assert_eq!((early.take(&mut to), &to), (4, b"abcd"));
        early.append(b"hij");
        assert_eq!(early.len(), 6);
        assert_eq!((early.take(&mut to[..1]), to[0]), (1, b'e'));
        assert_eq!(early.into_bytes(), b"fghij");
        let mut early = EarlyBytes::from(b"ab".to_vec());
        assert_eq!((early.take(&mut to), early.is_empty()), (2, true));
    }
}
