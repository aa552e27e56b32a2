//! Words of Nicira's actions that stand in more than one place. Open vSwitch, `nicira-ext.h` and `ofp-actions.c`.

use super::bit_range::BitRange;
use super::codec::versions::V1_0;
use super::oxm::FieldHeader;
use super::rows::{choice, codes, record, tlv};
use super::wire_types::Port16;
use crate::PortNo;

choice! {
    /// `NXAC2PT_*`: what `controller2` says beside where to. The others are as usual.
    pub enum Controller2Prop: "controller property" {
        /// Bytes to send; without it all.
        MaxLen "max_len" {
            /// How many.
            max_len: u16,
        } = { V1_0.. => 0 [max_len, pad 2,] };
        /// Which controller; without it number 0.
        ControllerId "controller_id" {
            /// Its number.
            controller_id: u16,
        } = { V1_0.. => 1 [controller_id, pad 2,] };
        /// The reason to give; without it that an action said so.
        Reason "reason" {
            /// `OFPR_*`.
            reason: u8,
        } = { V1_0.. => 2 [reason,] };
        /// What the controller gets back with the packet.
        Userdata "userdata" {
            /// Bytes of its own.
            userdata: Vec<u8>,
        } = { V1_0.. => 3 [userdata,] };
        /// The packet waits where it is until the controller resumes it.
        Pause "pause" = { V1_0.. => 4 };
        /// Counts and limits by a meter.
        MeterId "meter_id" {
            /// Which.
            meter_id: u32,
        } = { V1_0.. => 5 [meter_id,] };
    }
}

tlv!(Controller2Prop, Outside, Property);

codes! {
    /// `NX_ACTION_SAMPLE_*`: which way packets go that are sampled.
    pub struct SampleDirection(u8);
    DEFAULT = 0, V1_0, "In where they come in, out at a port.";
    INGRESS = 1, V1_0, "In.";
    EGRESS = 2, V1_0, "Out.";
}

codes! {
    /// `NX_HASH_FIELDS_*`: what of a packet is hashed.
    pub struct HashFields(u16);
    ETH_SRC = 0, V1_0, "The source address of Ethernet.";
    SYMMETRIC_L4 = 1, V1_0, "Ethernet to TCP, the same both ways.";
    SYMMETRIC_L3L4 = 2, V1_0, "IP, TCP and SCTP, the same both ways.";
    SYMMETRIC_L3L4_UDP = 3, V1_0, "IP, TCP, SCTP and UDP, the same both ways.";
    NW_SRC = 4, V1_0, "The source address of IP.";
    NW_DST = 5, V1_0, "The destination address of IP.";
    SYMMETRIC_L3 = 6, V1_0, "IP, the same both ways.";
}

codes! {
    /// `NX_MP_ALG_*`: how a hash becomes a link.
    pub struct MultipathAlgorithm(u16);
    MODULO_N = 0, V1_0, "What is left when divided.";
    HASH_THRESHOLD = 1, V1_0, "The region it is in. RFC 2992.";
    HRW = 2, V1_0, "The link of highest random weight.";
    ITER_HASH = 3, V1_0, "Hashed again until it fits.";
}

codes! {
    /// `NX_BD_ALG_*`: how one of a bundle is chosen.
    pub struct BundleAlgorithm(u16);
    ACTIVE_BACKUP = 0, V1_0, "The first that is alive.";
    HRW = 1, V1_0, "The one of highest random weight.";
}

record! {
    /// Chooses one of many links by a hash and writes its number into a field.
    #[derive(Default)]
    pub struct MultipathAction: "multipath" {
        /// What is hashed.
        pub fields: HashFields,
        /// A number that goes into the hash.
        pub basis: u16,
        /// How the hash becomes a link.
        pub algorithm: MultipathAlgorithm,
        /// The highest number of a link.
        pub max_link: u16,
        /// A number for the algorithm.
        pub arg: u32,
        /// Into which bits.
        pub bits: BitRange,
        /// Of which field.
        pub dst: FieldHeader,
    }
    V1_0.. => [fields, basis, pad 2, algorithm, max_link, arg, pad 2, bits, dst,]
}

record! {
    /// Sends the packet out of one of many ports.
    #[derive(Default)]
    pub struct BundleAction: "bundle" {
        /// How one is chosen.
        pub algorithm: BundleAlgorithm,
        /// What is hashed.
        pub fields: HashFields,
        /// A number that goes into the hash.
        pub basis: u16,
        /// What the members are: `NXM_OF_IN_PORT`.
        pub member_type: FieldHeader,
        /// The ports.
        pub members: Vec<PortNo>,
    }
    V1_0.. => [algorithm, fields, basis, member_type, counted, pad 10, members in counted as Port16,]
}

record! {
    /// Chooses one of many ports and writes its number into a field.
    #[derive(Default)]
    pub struct BundleLoadAction: "bundle_load" {
        /// How one is chosen.
        pub algorithm: BundleAlgorithm,
        /// What is hashed.
        pub fields: HashFields,
        /// A number that goes into the hash.
        pub basis: u16,
        /// What the members are: `NXM_OF_IN_PORT`.
        pub member_type: FieldHeader,
        /// Into which bits.
        pub bits: BitRange,
        /// Of which field.
        pub dst: FieldHeader,
        /// The ports.
        pub members: Vec<PortNo>,
    }
    V1_0.. => [algorithm, fields, basis, member_type, counted, bits, dst, pad 4,
        members in counted as Port16,]
}
