//! `ROLE_REQUEST`, `ROLE_REPLY`, `ROLE_STATUS`: which controller has the say. §7.3.9.

use super::codec::versions::*;
use super::rows::{choice, codes, record, tlv};

codes! {
    /// `OFPCR_ROLE_*`: what a controller may do. §7.3.9.
    pub struct Role(u32);
    NOCHANGE = 0, V1_2, "As it is.";
    EQUAL = 1, V1_2, "Everything, like others.";
    MASTER = 2, V1_2, "Everything; at most one controller.";
    SLAVE = 3, V1_2, "Reading only.";
}

codes! {
    /// `OFPCRR_*`: why the role changed. OpenFlow 1.4.0 §7.4.4.
    pub struct RoleReason(u8);
    MASTER_REQUEST = 0, V1_4, "Another controller asked to be master.";
    CONFIG = 1, V1_4, "The switch was set otherwise.";
    EXPERIMENTER = 2, V1_4, "An experimenter's reason.";
}

record! {
    /// A role asked for, or the one that is held. §7.3.9.
    #[derive(Default)]
    pub struct RoleRequest: "role_request" {
        /// Which.
        pub role: Role,
        /// What the controller is called among those of the switch; 0 for nothing. OpenFlow 1.5.0 §7.3.9.
        pub short_id: u16,
        /// Grows with every election of a master; a smaller one is refused.
        pub generation_id: u64,
    }
    V1_2..=V1_4 => [role, pad 4, generation_id,]
    V1_5.. => [role, short_id, pad 2, generation_id,]
}

choice! {
    /// Something more about a role. OpenFlow 1.4.0 §7.4.4.
    pub enum RoleProp: "role property" {
        /// An experimenter's own.
        Experimenter "experimenter" {
            /// Whose.
            experimenter: u32,
            /// Their own number.
            exp_type: u32,
            /// The rest.
            data: Vec<u8>,
        } = { V1_3.. => 0xffff [experimenter, exp_type, data,] };
    }
}

tlv!(RoleProp, Outside, Property);

record! {
    /// The role changed without being asked to. OpenFlow 1.4.0 §7.4.4; in 1.3 an extension of the ONF.
    #[derive(Default)]
    pub struct RoleStatus: "role_status" {
        /// The role now.
        pub role: Role,
        /// Why.
        pub reason: RoleReason,
        /// Of the election.
        pub generation_id: u64,
        /// More about it.
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

    // Bytes of `tests/ofp-print.at` of Open vSwitch.
    #[test]
    fn a_role_comes_back_in_every_version_that_has_it() {
        let role = RoleRequest { role: Role::MASTER, short_id: 0, generation_id: 3 };
        for version in ["03", "04", "05", "06"] {
            let asked = format!("{version}18001800000002 0000000200000000 0000000000000003");
            message_both_ways(&asked, &Message::RoleRequest(role.clone()));
            let granted = format!("{version}19001800000002 0000000200000000 0000000000000003");
            message_both_ways(&granted, &Message::RoleReply(role.clone()));
        }
        let named = Message::RoleRequest(RoleRequest { short_id: 5, ..role });
        message_both_ways("06 18 0018 00000002 00000002 0005 0000 0000000000000003", &named);
        let no = written(&named, Version::V1_4).unwrap_err();
        assert_eq!(no.to_string(), "short_id needs 1.5, this is 1.4");
        let no = written(&named, Version::V1_0).unwrap_err();
        assert_eq!(no.to_string(), "role_request needs 1.2, this is 1.0");
    }

    #[test]
    fn a_changed_role_is_told_with_its_reason() {
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
        let more = "06 1e 0028 0000000a 00000002 01 000000 0000000000000010 \
                    ffff 000d 00000001 00000002 03 000000";
        message_both_ways(more, &Message::RoleStatus(status));
    }
}
