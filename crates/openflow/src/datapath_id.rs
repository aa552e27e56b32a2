//! Datapath IDs, which identify switches. §7.3.1.

use core::fmt;

/// Datapath ID of a switch: 16 bits chosen by its manufacturer, then a 48-bit MAC address. §7.3.1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct DatapathId(pub u64);

/// Sixteen hexadecimal digits.
impl fmt::Display for DatapathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for DatapathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
