//! Port descriptions and port counters: requests and replies. §7.3.5.6, §7.3.5.7.

use super::codec::ListItem;
use super::codec::versions::{V1_0, V1_1, V1_2, V1_3, V1_4, V1_5};
use super::rows::{choice, flags, record, tlv};
use super::wire_types::{FixedFields, FixedFieldsProp};
use crate::PortNo;

record! {
    /// Requests the ports of a switch. §7.3.5.7.
    pub struct PortDescRequest: "port_desc request" {
        /// Port number; [`PortNo::ANY`] is all ports, the only value before 1.5.
        pub port_no: PortNo,
    }
    V1_0..=V1_4 => []
    V1_5.. => [port_no, pad 4,]
}

impl Default for PortDescRequest {
    fn default() -> Self {
        Self { port_no: PortNo::ANY }
    }
}

record! {
    /// Requests the counters of ports. §7.3.5.6.
    pub struct PortStatsRequest: "port_stats request" {
        /// Port number; [`PortNo::ANY`] is all ports.
        pub port_no: PortNo,
    }
    V1_0 => [port_no, pad 6,]
    V1_1.. => [port_no, pad 4,]
}

impl Default for PortStatsRequest {
    fn default() -> Self {
        Self { port_no: PortNo::ANY }
    }
}

flags! {
    /// `OFPOSF_*`: which optical values are known. OpenFlow 1.4.0 §7.3.5.6.
    pub struct OpticalStatsFlags(u32);
    RX_TUNE = 1, V1_4, "Receiver tuning.";
    TX_TUNE = 2, V1_4, "Transmitter tuning.";
    TX_PWR = 4, V1_4, "Transmit power.";
    RX_PWR = 16, V1_4, "Receive power.";
    TX_BIAS = 32, V1_4, "Transmit bias current.";
    TX_TEMP = 64, V1_4, "Transmitter temperature.";
}

record! {
    /// Ethernet error counters; all ones where the switch does not count.
    pub struct EthernetStats: "ethernet" {
        /// Frame alignment errors.
        pub rx_frame_err: u64,
        /// Receive overruns.
        pub rx_over_err: u64,
        /// CRC errors.
        pub rx_crc_err: u64,
        /// Collisions.
        pub collisions: u64,
    }
    V1_0..=V1_3 => [rx_frame_err, rx_over_err, rx_crc_err, collisions,]
    V1_4.. => [pad 4, rx_frame_err, rx_over_err, rx_crc_err, collisions,]
}

impl Default for EthernetStats {
    fn default() -> Self {
        let unknown = u64::MAX;
        Self {
            rx_frame_err: unknown,
            rx_over_err: unknown,
            rx_crc_err: unknown,
            collisions: unknown,
        }
    }
}

choice! {
    /// Property of [`PortStats`]. OpenFlow 1.4.0 §7.3.5.6.
    ///
    /// Before 1.4, all port counters have the fields of [`EthernetStats`]; they are read as a property unless all are
    /// unknown.
    pub enum PortStatsProp: "port_stats property" {
        /// Ethernet error counters.
        Ethernet "ethernet" (EthernetStats) = { V1_4.. => 0 };
        /// Optical values.
        Optical "optical" {
            /// Which of the following values are known.
            flags: OpticalStatsFlags,
            /// Transmit frequency or wavelength.
            tx_freq_lmda: u32,
            /// Signed offset of the transmit frequency or wavelength.
            tx_offset: u32,
            /// Size of the transmit grid.
            tx_grid_span: u32,
            /// Receive frequency or wavelength.
            rx_freq_lmda: u32,
            /// Signed offset of the receive frequency or wavelength.
            rx_offset: u32,
            /// Size of the receive grid.
            rx_grid_span: u32,
            /// Transmit power, 0.1 dBm.
            tx_pwr: u16,
            /// Receive power, 0.1 dBm.
            rx_pwr: u16,
            /// Transmit bias current, 0.1 mA.
            bias_current: u16,
            /// Transmitter temperature, 0.1 °C.
            temperature: u16,
        } = { V1_4.. => 1 [
            pad 4, flags, tx_freq_lmda, tx_offset, tx_grid_span, rx_freq_lmda, rx_offset,
            rx_grid_span, tx_pwr, rx_pwr, bias_current, temperature,
        ] };
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

tlv!(PortStatsProp, Outside, Property);

impl FixedFieldsProp for PortStatsProp {
    type Fields = EthernetStats;

    fn from_fields(fields: EthernetStats) -> Self {
        Self::Ethernet(fields)
    }

    fn as_fields(&self) -> Option<&EthernetStats> {
        if let Self::Ethernet(fields) = self { Some(fields) } else { None }
    }
}

record! {
    /// Counters of one port; all ones where the switch does not count. §7.3.5.6.
    pub struct PortStats: "port_stats" {
        /// Port number.
        pub port_no: PortNo,
        /// Seconds that the port has been alive. Since 1.3.
        pub duration_sec: u32,
        /// Additional nanoseconds. Since 1.3.
        pub duration_nsec: u32,
        /// Received packets.
        pub rx_packets: u64,
        /// Transmitted packets.
        pub tx_packets: u64,
        /// Received bytes.
        pub rx_bytes: u64,
        /// Transmitted bytes.
        pub tx_bytes: u64,
        /// Packets dropped on receive.
        pub rx_dropped: u64,
        /// Packets dropped on transmit.
        pub tx_dropped: u64,
        /// Receive errors.
        pub rx_errors: u64,
        /// Transmit errors.
        pub tx_errors: u64,
        /// Properties, in the order sent by the switch.
        pub properties: Vec<PortStatsProp>,
    }
    V1_0 => [
        port_no, pad 6, rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped, tx_dropped,
        rx_errors, tx_errors, properties as FixedFields,
    ]
    V1_1..=V1_2 => [
        port_no, pad 4, rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped, tx_dropped,
        rx_errors, tx_errors, properties as FixedFields,
    ]
    V1_3 => [
        port_no, pad 4, rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped, tx_dropped,
        rx_errors, tx_errors, properties as FixedFields, duration_sec, duration_nsec,
    ]
    V1_4.. => [
        length, pad 2, port_no, duration_sec, duration_nsec, rx_packets, tx_packets, rx_bytes,
        tx_bytes, rx_dropped, tx_dropped, rx_errors, tx_errors, properties,
    ]
}

impl ListItem for PortStats {}

/// All counters zero, duration unknown.
impl Default for PortStats {
    fn default() -> Self {
        Self {
            port_no: PortNo::default(),
            duration_sec: u32::MAX,
            duration_nsec: u32::MAX,
            rx_packets: 0,
            tx_packets: 0,
            rx_bytes: 0,
            tx_bytes: 0,
            rx_dropped: 0,
            tx_dropped: 0,
            rx_errors: 0,
            tx_errors: 0,
            properties: vec![],
        }
    }
}
