//! `ROLE_REQUEST`, `ROLE_REPLY`: which controller may change what. §7.3.9.

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Frame, Inexpressible, Kind, Out, Result, Version};

/// What a controller may do to a switch. An open set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Role(pub u32);

impl Role {
    /// Only asks which role it has.
    pub const NOCHANGE: Self = Self(0);
    /// Everything, like every other equal.
    pub const EQUAL: Self = Self(1);
    /// Everything, alone.
    pub const MASTER: Self = Self(2);
    /// Nothing but reading.
    pub const SLAVE: Self = Self(3);
}

/// `struct ofp_role_request`.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    role: U32,
    pad: [u8; 4],
    generation_id: U64,
}

/// A role, asked for or granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleMsg {
    /// Which.
    pub role: Role,
    /// Orders the requests of rival masters. §6.3.7.
    pub generation_id: u64,
}

impl RoleMsg {
    /// Reads the body of a `ROLE_REQUEST` or `ROLE_REPLY`.
    ///
    /// # Errors
    /// `Short` if it is cut off.
    pub fn parse(msg: Frame<'_>) -> Result<Self> {
        let (fixed, _) = msg.fixed::<Fixed>("role")?;
        Ok(Self { role: Role(fixed.role.get()), generation_id: fixed.generation_id.get() })
    }

    fn emit(self, out: &mut Out<'_>) -> Result<(), Inexpressible> {
        out.needs(Version::V1_2, "role")?;
        out.put(&Fixed {
            role: self.role.0.into(),
            pad: [0; 4],
            generation_id: self.generation_id.into(),
        });
        Ok(())
    }
}

impl Out<'_> {
    /// Writes a `ROLE_REQUEST`; returns its transaction id.
    ///
    /// # Errors
    /// Before 1.2 there are no roles.
    pub fn role_request(&mut self, role: RoleMsg) -> Result<u32, Inexpressible> {
        self.message(Kind::ROLE_REQUEST, |out| role.emit(out))
    }

    /// Writes the `ROLE_REPLY` to request `xid`.
    ///
    /// # Errors
    /// Before 1.2 there are no roles.
    pub fn role_reply(&mut self, xid: u32, role: RoleMsg) -> Result<(), Inexpressible> {
        self.message_with_xid(Kind::ROLE_REPLY, xid, |out| role.emit(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_comes_back_as_written_and_needs_1_2() {
        let role = RoleMsg { role: Role::MASTER, generation_id: 42 };
        let (mut tx, mut xid) = (vec![], 1);
        Out::new(&mut tx, Version::V1_3, &mut xid).role_request(role).unwrap();
        assert_eq!(RoleMsg::parse(Frame::new(&tx).unwrap()), Ok(role));
        let no = Out::new(&mut tx, Version::V1_0, &mut xid).role_request(role).unwrap_err();
        assert_eq!(no.to_string(), "role needs 1.2, this is 1.0");
    }
}
