//! `SET_CONFIG`, `GET_CONFIG_REPLY`: fragments, and how much of a missed frame comes up. §7.3.2.

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Frame, Kind, Out, Result};

/// `struct ofp_switch_config`.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    flags: U16,
    miss_send_len: U16,
}

/// How a switch is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchConfig {
    /// `OFPC_FRAG_*`.
    pub flags: u16,
    /// Octets of a frame that come up if the switch keeps it; `0xffff` sends all and keeps nothing.
    pub miss_send_len: u16,
}

impl SwitchConfig {
    /// Reads the body of a `SET_CONFIG` or `GET_CONFIG_REPLY`.
    ///
    /// # Errors
    /// `Short` if it is cut off.
    pub fn parse(msg: Frame<'_>) -> Result<Self> {
        let (fixed, _) = msg.fixed::<Fixed>("switch_config")?;
        Ok(Self { flags: fixed.flags.get(), miss_send_len: fixed.miss_send_len.get() })
    }

    fn layout(self) -> Fixed {
        Fixed { flags: self.flags.into(), miss_send_len: self.miss_send_len.into() }
    }
}

impl Out<'_> {
    /// Writes a `SET_CONFIG`; returns its transaction id.
    pub fn set_config(&mut self, config: SwitchConfig) -> u32 {
        let xid = self.next_xid();
        let written = self.message(Kind::SET_CONFIG, |out| {
            out.put(&config.layout());
            Ok(())
        });
        written.unwrap_or(xid)
    }

    /// Writes the `GET_CONFIG_REPLY` to request `xid`.
    pub fn get_config_reply(&mut self, xid: u32, config: SwitchConfig) {
        let written = self.message_with_xid(Kind::GET_CONFIG_REPLY, xid, |out| {
            out.put(&config.layout());
            Ok(())
        });
        debug_assert!(written.is_ok(), "twelve octets fit");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;

    #[test]
    fn a_configuration_comes_back_as_written() {
        let config = SwitchConfig { flags: 1, miss_send_len: 0xffff };
        let (mut tx, mut xid) = (vec![], 5);
        Out::new(&mut tx, Version::V1_0, &mut xid).set_config(config);
        assert_eq!(tx, [1, 9, 0, 12, 0, 0, 0, 5, 0, 1, 0xff, 0xff]);
        assert_eq!(SwitchConfig::parse(Frame::new(&tx).unwrap()), Ok(config));
    }
}
