//! `ROLE_REQUEST`, `ROLE_REPLY`, `ROLE_STATUS`: roles of controllers. §7.3.9.

use super::codec::versions::*;
use super::rows::{choice, codes, record, tlv};

codes! {
    /// `OFPCR_ROLE_*`: role of a controller. §7.3.9.
    pub struct Role(u32);
    NOCHANGE = 0, V1_2, "Keep the current role.";
    EQUAL = 1, V1_2, "Full access, shared with others.";
    MASTER = 2, V1_2, "Full access; at most one controller is master.";
    SLAVE = 3, V1_2, "Read-only access.";
}

codes! {
    /// `OFPCRR_*`: why a role changed. OpenFlow 1.4.0 §7.4.4.
    pub struct RoleReason(u8);
    MASTER_REQUEST = 0, V1_3, "Another controller became master.";
    CONFIG = 1, V1_3, "The configuration of the switch changed.";
    EXPERIMENTER = 2, V1_3, "Experimenter-defined reason.";
}

record! {
    /// A requested role, or the current one. §7.3.9.
    #[derive(Default)]
    pub struct RoleRequest: "role_request" {
        /// Role.
        pub role: Role,
        /// Number that identifies the controller at the switch; 0 is none. OpenFlow 1.5.0 §7.3.9.
        pub short_id: u16,
        /// Master election generation; requests with an older one are refused as stale.
        pub generation_id: u64,
    }
    V1_2..=V1_4 => [role, pad 4, generation_id,]
    V1_5.. => [role, short_id, pad 2, generation_id,]
}

choice! {
    /// Property of a [`RoleStatus`]. OpenFlow 1.4.0 §7.4.4.
    pub enum RoleProp: "role property" {
        /// Experimenter property.
        Experimenter "experimenter" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined type.
            exp_type: u32,
            /// Experimenter-defined data.
            data: Vec<u8>,
        } = { V1_3.. => 0xffff [experimenter, exp_type, data,] };
    }
}

tlv!(RoleProp, Outside, Property);

record! {
    /// The switch changed the role of the controller. OpenFlow 1.4.0 §7.4.4; an ONF extension in 1.3.
    #[derive(Default)]
    pub struct RoleStatus: "role_status" {
        /// New role.
        pub role: Role,
        /// Why it changed.
        pub reason: RoleReason,
        /// Master election generation.
        pub generation_id: u64,
        /// Properties.
        pub properties: Vec<RoleProp>,
    }
    V1_3.. => [role, reason, pad 3, generation_id, properties,]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;
    use crate::model::Message;
    use crate::model::roundtrip::{message_both_ways, written};

    // Bytes from Open vSwitch, tests/ofp-print.at.
    #[test]
    fn a_role_survives_a_roundtrip_in_every_version_that_has_roles() {
        let role = RoleRequest { role: Role::MASTER, short_id: 0, generation_id: 3 };
        for version in ["03", "04", "05", "06"] {
            let request = format!("{version}18001800000002 0000000200000000 0000000000000003");
            message_both_ways(&request, &Message::RoleRequest(role.clone()));
            let reply = format!("{version}19001800000002 0000000200000000 0000000000000003");
            message_both_ways(&reply, &Message::RoleReply(role.clone()));
        }
        let with_id = Message::RoleRequest(RoleRequest { short_id: 5, ..role });
        message_both_ways("06 18 0018 00000002 00000002 0005 0000 0000000000000003", &with_id);
        let error = written(&with_id, Version::V1_4).unwrap_err();
        assert_eq!(error.to_string(), "short_id requires OpenFlow 1.5; this session speaks 1.4");
        let error = written(&with_id, Version::V1_0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "role_request requires OpenFlow 1.2; this session speaks 1.0"
        );
    }

    #[test]
    fn a_role_status_survives_a_roundtrip() {
        let mut status = RoleStatus {
            role: Role::MASTER,
            reason: RoleReason::CONFIG,
            generation_id: 0x10,
            properties: vec![],
        };
        let in_1_3 = "04 04 0020 0000000a 4f4e4600 00000777 00000002 01 000000 0000000000000010";
        message_both_ways(in_1_3, &Message::RoleStatus(status.clone()));
        let in_1_4 = "05 1e 0018 0000000a 00000002 01 000000 0000000000000010";
        message_both_ways(in_1_4, &Message::RoleStatus(status.clone()));
        status.properties.push(RoleProp::Experimenter {
            experimenter: 1,
            exp_type: 2,
            data: vec![3],
        });
        let with_property = "06 1e 0028 0000000a 00000002 01 000000 0000000000000010 \
                    ffff 000d 00000001 00000002 03 000000";
        message_both_ways(with_property, &Message::RoleStatus(status));
    }
}
