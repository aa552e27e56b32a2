//! `PORT_MOD`: configures a port. §7.3.4.3.

use super::codec::versions::{V1_0, V1_1, V1_3, V1_4};
use super::port::{OpticalFeatures, PortConfig, PortFeatures};
use super::rows::{choice, record, tlv};
use super::wire_types::{FixedFields, FixedFieldsProp};
use crate::{MacAddr, PortNo};

record! {
    /// Features that an Ethernet port advertises.
    #[derive(Default)]
    pub struct EthernetMod: "ethernet" {
        /// Features to advertise; none leaves them unchanged.
        pub advertise: PortFeatures,
    }
    V1_0.. => [advertise,]
}

choice! {
    /// Property of a [`PortMod`]. OpenFlow 1.4.0 §7.3.4.3.
    ///
    /// Before 1.4, every `PORT_MOD` has the field of [`EthernetMod`]; it is read as a property unless it is zero.
    pub enum PortModProp: "port_mod property" {
        /// Features to advertise.
        Ethernet "ethernet" (EthernetMod) = { V1_4.. => 0 };
        /// Configures an optical port.
        Optical "optical" {
            /// Which of the following values apply.
            configure: OpticalFeatures,
            /// Center frequency or wavelength.
            freq_lmda: u32,
            /// Signed offset of the frequency or wavelength.
            fl_offset: u32,
            /// Size of the grid.
            grid_span: u32,
            /// Transmit power, 0.1 dBm.
            tx_pwr: u32,
        } = { V1_4.. => 1 [configure, freq_lmda, fl_offset, grid_span, tx_pwr,] };
        /// Experimenter property.
        Experimenter "experimenter" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined type.
            exp_type: u32,
            /// Experimenter-defined data.
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
    /// Configures a port. §7.3.4.3.
    #[derive(Default)]
    pub struct PortMod: "port_mod" {
        /// Port number.
        pub port_no: PortNo,
        /// Ethernet address of the port; the switch refuses a request whose address does not match.
        pub hw_addr: MacAddr,
        /// New values of the bits in `mask`.
        pub config: PortConfig,
        /// Bits of `config` to change.
        pub mask: PortConfig,
        /// Properties.
        pub properties: Vec<PortModProp>,
    }
    V1_0 => [port_no, hw_addr, config, mask, properties as FixedFields, pad 4,]
    V1_1..=V1_3 => [
        port_no, pad 4, hw_addr, pad 2, config, mask, properties as FixedFields, pad 4,
    ]
    V1_4.. => [port_no, pad 4, hw_addr, pad 2, config, mask, properties,]
}
