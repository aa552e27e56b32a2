//! `PORT_MOD`: a port is set. §7.3.4.3.

use super::codec::versions::{V1_0, V1_1, V1_3, V1_4};
use super::port::{FeatureBits, OpticalFeatures, PortConfig, PortFeatures};
use super::rows::{choice, record, tlv};
use super::wire_types::{FixedFields, FixedFieldsProp};
use crate::{MacAddr, PortNo};

record! {
    /// What an Ethernet port shall offer to the other end.
    #[derive(Default)]
    pub struct EthernetMod: "ethernet" {
        /// Speeds and media; none leaves them as they are.
        pub advertise: PortFeatures,
    }
    V1_0.. => [advertise as FeatureBits,]
}

choice! {
    /// What shall be set of a port. OpenFlow 1.4.0 §7.3.4.3.
    ///
    /// Before 1.4 every `PORT_MOD` has the field of [`EthernetMod`], which is read as a property unless it is zero.
    pub enum PortModProp: "port_mod property" {
        /// What it shall offer.
        Ethernet "ethernet" (EthernetMod) = { V1_4.. => 0 };
        /// Light.
        Optical "optical" {
            /// What of the following is meant.
            configure: OpticalFeatures,
            /// Frequency or wavelength in the middle.
            freq_lmda: u32,
            /// How far off it, signed.
            fl_offset: u32,
            /// Width of the grid.
            grid_span: u32,
            /// Power, 0.1 dBm.
            tx_pwr: u32,
        } = { V1_4.. => 1 [configure, freq_lmda, fl_offset, grid_span, tx_pwr,] };
        /// An experimenter's own.
        Experimenter "experimenter" {
            /// Whose.
            experimenter: u32,
            /// Which of its.
            exp_type: u32,
            /// The rest.
            data: Vec<u8>,
        } = { V1_4.. => 0xffff [experimenter, exp_type, data,] };
    }
}

tlv!(PortModProp, Outside, Property);

impl FixedFieldsProp for PortModProp {
    type Fields = EthernetMod;

    fn from_fields(fields: EthernetMod) -> Self {
        Self::Ethernet(fields)
    }

    fn as_fields(&self) -> Option<&EthernetMod> {
        if let Self::Ethernet(fields) = self { Some(fields) } else { None }
    }
}

record! {
    /// Sets a port. §7.3.4.3.
    #[derive(Default)]
    pub struct PortMod: "port_mod" {
        /// Which.
        pub port_no: PortNo,
        /// Its address, so that the wrong port is not set by mistake.
        pub hw_addr: MacAddr,
        /// How.
        pub config: PortConfig,
        /// Which bits of `config` are meant.
        pub mask: PortConfig,
        /// More.
        pub properties: Vec<PortModProp>,
    }
    V1_0 => [port_no, hw_addr, config, mask, properties as FixedFields, pad 4,]
    V1_1..=V1_3 => [
        port_no, pad 4, hw_addr, pad 2, config, mask, properties as FixedFields, pad 4,
    ]
    V1_4.. => [port_no, pad 4, hw_addr, pad 2, config, mask, properties,]
}
