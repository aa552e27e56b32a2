//! Types of messages: one number for all versions. §7.1.

use core::fmt;

use crate::Version;

/// Type of a message, the same in all versions. An open set.
///
/// The number is the type byte of 1.5, which includes those of all versions but 1.0; 1.0 numbers `PORT_MOD` and later
/// types differently. Bytes that 1.0 does not define are 256 and above here.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageType(pub u16);

/// Types of 1.0 from `PORT_MOD` (15) on, in the numbering of later versions. OpenFlow 1.0.0 §5.1.
const RENUMBERED: [u16; 7] = [16, 18, 19, 20, 21, 22, 23];

macro_rules! kinds {
    ($($name:ident = $code:literal, $since:ident, $doc:literal;)*) => {
        impl MessageType {
            $(#[doc = $doc] pub const $name: Self = Self($code);)*

            /// Every defined type, with its name and the first version that has it.
            pub const ALL: &[(Self, &str, Version)] =
                &[$((Self($code), stringify!($name), Version::$since)),*];
        }
    };
}

kinds! {
    HELLO = 0, V1_0, "Opens a session. §7.5.1.";
    ERROR = 1, V1_0, "A request failed. §7.4.4.";
    ECHO_REQUEST = 2, V1_0, "Are you there? §7.5.2.";
    ECHO_REPLY = 3, V1_0, "Still here. §7.5.3.";
    EXPERIMENTER = 4, V1_0, "Vendor's own. §7.5.4.";
    FEATURES_REQUEST = 5, V1_0, "Who are you? §7.3.1.";
    FEATURES_REPLY = 6, V1_0, "Datapath id and capabilities. §7.3.1.";
    GET_CONFIG_REQUEST = 7, V1_0, "How are you set? §7.3.2.";
    GET_CONFIG_REPLY = 8, V1_0, "Fragment handling and miss length. §7.3.2.";
    SET_CONFIG = 9, V1_0, "Sets fragment handling and miss length. §7.3.2.";
    PACKET_IN = 10, V1_0, "A frame the switch sends up. §7.4.1.";
    FLOW_REMOVED = 11, V1_0, "A rule is gone. §7.4.2.";
    PORT_STATUS = 12, V1_0, "A port came, went or changed. §7.4.3.";
    PACKET_OUT = 13, V1_0, "A frame the switch shall send. §7.3.7.";
    FLOW_MOD = 14, V1_0, "Adds, changes or deletes rules. §7.3.4.1.";
    GROUP_MOD = 15, V1_1, "Adds, changes or deletes groups. §7.3.4.2.";
    PORT_MOD = 16, V1_0, "Changes a port. §7.3.4.3.";
    TABLE_MOD = 17, V1_1, "Changes a table. §7.3.3.";
    MULTIPART_REQUEST = 18, V1_0, "Asks for statistics or descriptions. §7.3.5.";
    MULTIPART_REPLY = 19, V1_0, "Statistics or descriptions. §7.3.5.";
    BARRIER_REQUEST = 20, V1_0, "Finish all before. §7.3.8.";
    BARRIER_REPLY = 21, V1_0, "All before is finished. §7.3.8.";
    QUEUE_GET_CONFIG_REQUEST = 22, V1_0, "Which queues has a port? §7.3.6.";
    QUEUE_GET_CONFIG_REPLY = 23, V1_0, "Queues of a port. §7.3.6.";
    ROLE_REQUEST = 24, V1_2, "Asks for a role. §7.3.9.";
    ROLE_REPLY = 25, V1_2, "The role granted. §7.3.9.";
    GET_ASYNC_REQUEST = 26, V1_3, "Which events are on? §7.3.10.";
    GET_ASYNC_REPLY = 27, V1_3, "Events that are on. §7.3.10.";
    SET_ASYNC = 28, V1_3, "Turns events on and off. §7.3.10.";
    METER_MOD = 29, V1_3, "Adds, changes or deletes meters. §7.3.4.4.";
    ROLE_STATUS = 30, V1_4, "The role changed. OpenFlow 1.4.0 §7.4.4.";
    TABLE_STATUS = 31, V1_4, "A table changed. OpenFlow 1.4.0 §7.4.5.";
    REQUESTFORWARD = 32, V1_4, "Another controller's request. OpenFlow 1.4.0 §7.4.6.";
    BUNDLE_CONTROL = 33, V1_4, "Opens, closes or commits a bundle. OpenFlow 1.4.0 §7.3.9.";
    BUNDLE_ADD_MESSAGE = 34, V1_4, "Adds to a bundle. OpenFlow 1.4.0 §7.3.9.";
    CONTROLLER_STATUS = 35, V1_5, "Another controller came or went. OpenFlow 1.5.0 §7.4.8.";
}

impl MessageType {
    /// The type with this type byte in `version`.
    #[inline]
    pub fn from_wire(version: Version, byte: u8) -> Self {
        if version != Version::V1_0 || byte < 15 {
            return Self(byte.into());
        }
        let renumbered = RENUMBERED.get(usize::from(byte - 15)).copied();
        Self(renumbered.unwrap_or_else(|| 256 + u16::from(byte)))
    }

    /// The type byte in `version`; 255 if the version does not have the type.
    pub fn to_wire(self, version: Version) -> u8 {
        let byte = if version != Version::V1_0 || self.0 < 15 {
            self.0
        } else if let Some(at) = (15u16..).zip(RENUMBERED).find(|&(_, k)| k == self.0) {
            at.0
        } else {
            self.0.checked_sub(256).unwrap_or(255)
        };
        u8::try_from(byte).unwrap_or(255)
    }

    /// Name in the specification; `None` if it is not defined.
    pub fn name(self) -> Option<&'static str> {
        Self::ALL.iter().find(|row| row.0 == self).map(|row| row.1)
    }
}

impl fmt::Debug for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "type {}", self.0 & 0xff),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_bytes_of_1_0_survive_a_roundtrip() {
        for byte in 0..=255 {
            for version in [Version::V1_0, Version::V1_3, Version::V1_5] {
                assert_eq!(MessageType::from_wire(version, byte).to_wire(version), byte);
            }
        }
        assert_eq!(MessageType::from_wire(Version::V1_0, 18), MessageType::BARRIER_REQUEST);
        assert_eq!(MessageType::from_wire(Version::V1_3, 20), MessageType::BARRIER_REQUEST);
        assert_eq!(MessageType::ROLE_REQUEST.to_wire(Version::V1_0), 255);
    }
}
