//! Switches with something to do, each listed once.

/// Switches to visit in the send step, each once: they received something, or their socket is writable again.
#[derive(Debug)]
pub(crate) struct PendingSwitches {
    list: Vec<usize>,
    is_in: Vec<bool>,
}

impl PendingSwitches {
    pub(crate) fn new(switches: usize) -> Self {
        Self { list: Vec::with_capacity(switches), is_in: vec![false; switches] }
    }

    #[inline]
    pub(crate) fn add(&mut self, at: usize) {
        if let Some(is_in) = self.is_in.get_mut(at)
            && !std::mem::replace(is_in, true)
        {
            self.list.push(at);
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<usize> {
        let at = self.list.pop()?;
        if let Some(is_in) = self.is_in.get_mut(at) {
            *is_in = false;
        }
        Some(at)
    }
}
