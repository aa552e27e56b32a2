//! Words of Nicira's actions that stand in more than one place. Open vSwitch, `nicira-ext.h` and `ofp-actions.c`.

use super::codec::versions::V1_0;
use super::rows::{choice, codes, tlv};

choice! {
    /// `NXAC2PT_*`: what `controller2` says beside where to. The others are as usual.
    pub enum ControllerProperty: "controller property" {
        /// Octets to send; without it all.
        MaxLen "max_len" {
            /// How many.
            max_len: u16,
        } = { V1_0.. => 0 [max_len,] };
        /// Which controller; without it number 0.
        ControllerId "controller_id" {
            /// Its number.
            controller_id: u16,
        } = { V1_0.. => 1 [controller_id,] };
        /// The reason to give; without it that an action said so.
        Reason "reason" {
            /// `OFPR_*`.
            reason: u8,
        } = { V1_0.. => 2 [reason,] };
        /// What the controller gets back with the packet.
        Userdata "userdata" {
            /// Octets of its own.
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

tlv!(ControllerProperty, Outside, Property);

codes! {
    /// `NX_ACTION_SAMPLE_*`: which way packets go that are sampled.
    pub struct SampleDirection(u8);
    DEFAULT = 0, V1_0, "In where they come in, out at a port.";
    INGRESS = 1, V1_0, "In.";
    EGRESS = 2, V1_0, "Out.";
}
