//! Types that several of Nicira's actions use. Open vSwitch, `nicira-ext.h` and `ofp-actions.c`.

use super::bit_range::BitRange;
use super::codec::versions::V1_0;
use super::oxm::FieldHeader;
use super::rows::{choice, codes, record, tlv};
use super::wire_types::Port16;
use crate::PortNo;

choice! {
    /// Property of the action [`controller2`](super::Action::Controller2), `NXAC2PT_*`.
    pub enum Controller2Prop: "controller property" {
        /// Bytes of the packet to send; all without it.
        MaxLen "max_len" {
            /// Number of bytes.
            max_len: u16,
        } = { V1_0.. => 0 [max_len, pad 2,] };
        /// Controller to send to; 0 without it.
        ControllerId "controller_id" {
            /// Controller ID.
            controller_id: u16,
        } = { V1_0.. => 1 [controller_id, pad 2,] };
        /// Reason of the packet-in; `OFPR_ACTION` without it.
        Reason "reason" {
            /// `OFPR_*`.
            reason: u8,
        } = { V1_0.. => 2 [reason,] };
        /// Data that the switch copies into the packet-in.
        Userdata "userdata" {
            /// The data.
            userdata: Vec<u8>,
        } = { V1_0.. => 3 [userdata,] };
        /// Pauses processing until the controller sends [`NxResume`](super::Message::NxResume).
        Pause "pause" = { V1_0.. => 4 };
        /// Applies a meter to the packet-ins.
        MeterId "meter_id" {
            /// Meter number.
            meter_id: u32,
        } = { V1_0.. => 5 [meter_id,] };
    }
}

tlv!(Controller2Prop, Outside, Property);

codes! {
    /// `NX_ACTION_SAMPLE_*`: direction in which packets are sampled.
    pub struct SampleDirection(u8);
    DEFAULT = 0, V1_0, "Ingress if sampled before output, egress at an output port.";
    INGRESS = 1, V1_0, "Received packets.";
    EGRESS = 2, V1_0, "Sent packets.";
}

codes! {
    /// `NX_HASH_FIELDS_*`: fields that are hashed.
    pub struct HashFields(u16);
    ETH_SRC = 0, V1_0, "Ethernet source address.";
    SYMMETRIC_L4 = 1, V1_0, "Ethernet, VLAN, IP and TCP/SCTP fields; equal for both directions.";
    SYMMETRIC_L3L4 = 2, V1_0, "IP addresses and protocol, TCP/SCTP ports; equal for both directions.";
    SYMMETRIC_L3L4_UDP = 3, V1_0, "IP addresses and protocol, TCP/SCTP/UDP ports; equal for both directions.";
    NW_SRC = 4, V1_0, "IP source address.";
    NW_DST = 5, V1_0, "IP destination address.";
    SYMMETRIC_L3 = 6, V1_0, "IP addresses; equal for both directions.";
}

codes! {
    /// `NX_MP_ALG_*`: how a hash selects a link.
    pub struct MultipathAlgorithm(u16);
    MODULO_N = 0, V1_0, "Hash modulo the number of links.";
    HASH_THRESHOLD = 1, V1_0, "Hash-threshold. RFC 2992.";
    HRW = 2, V1_0, "Highest random weight. RFC 2992.";
    ITER_HASH = 3, V1_0, "Iterative hash: repeats until the result is a valid link.";
}

codes! {
    /// `NX_BD_ALG_*`: how a member port is selected.
    pub struct BundleAlgorithm(u16);
    ACTIVE_BACKUP = 0, V1_0, "The first live member.";
    HRW = 1, V1_0, "Highest random weight.";
}

record! {
    /// Hashes the packet to choose one of several links, and writes the link number into a field.
    #[derive(Default)]
    pub struct MultipathAction: "multipath" {
        /// Fields to hash.
        pub fields: HashFields,
        /// Universal hash parameter (seed).
        pub basis: u16,
        /// How the hash selects a link.
        pub algorithm: MultipathAlgorithm,
        /// Highest link number; the number of links less one.
        pub max_link: u16,
        /// Algorithm-specific argument.
        pub arg: u32,
        /// Bits that receive the result.
        pub bits: BitRange,
        /// Field that receives the result.
        pub dst: FieldHeader,
    }
    V1_0.. => [fields, basis, pad 2, algorithm, max_link, arg, pad 2, bits, dst,]
}

record! {
    /// Hashes the packet to choose one of several ports, and sends it there.
    #[derive(Default)]
    pub struct BundleAction: "bundle" {
        /// How the member is selected.
        pub algorithm: BundleAlgorithm,
        /// Fields to hash.
        pub fields: HashFields,
        /// Universal hash parameter (seed).
        pub basis: u16,
        /// Type of the members; always `NXM_OF_IN_PORT`.
        pub member_type: FieldHeader,
        /// Member ports.
        pub members: Vec<PortNo>,
    }
    V1_0.. => [algorithm, fields, basis, member_type, counted, pad 10, members in counted as Port16,]
}

record! {
    /// Hashes the packet to choose one of several ports, and writes the port number into a field.
    #[derive(Default)]
    pub struct BundleLoadAction: "bundle_load" {
        /// How the member is selected.
        pub algorithm: BundleAlgorithm,
        /// Fields to hash.
        pub fields: HashFields,
        /// Universal hash parameter (seed).
        pub basis: u16,
        /// Type of the members; always `NXM_OF_IN_PORT`.
        pub member_type: FieldHeader,
        /// Bits that receive the result.
        pub bits: BitRange,
        /// Field that receives the result.
        pub dst: FieldHeader,
        /// Member ports.
        pub members: Vec<PortNo>,
    }
    V1_0.. => [algorithm, fields, basis, member_type, counted, bits, dst, pad 4,
        members in counted as Port16,]
}
