//! Descriptions and counters of ports, asked for and told. §7.3.5.6, §7.3.5.7.

use super::codec::ListItem;
use super::codec::versions::{V1_0, V1_1, V1_2, V1_3, V1_4, V1_5};
use super::rows::{choice, flags, record, tlv};
use super::wire_types::{FixedFields, FixedFieldsProp};
use crate::PortNo;

record! {
    /// Asks what the ports are. §7.3.5.7.
    pub struct PortDescRequest: "port_desc request" {
        /// Which; [`PortNo::ANY`], the only answer before 1.5, for all.
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
    /// Asks for the counters of ports. §7.3.5.6.
    pub struct PortStatsRequest: "port_stats request" {
        /// Which; [`PortNo::ANY`] for all.
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
    /// `OFPOSF_*`: what is known of an optical port. OpenFlow 1.4.0 §7.3.5.6.
    pub struct OpticalStatsFlags(u32);
    RX_TUNE = 1, V1_4, "How the receiver is tuned.";
    TX_TUNE = 2, V1_4, "How the transmitter is tuned.";
    TX_PWR = 4, V1_4, "The power sent.";
    RX_PWR = 16, V1_4, "The power received.";
    TX_BIAS = 32, V1_4, "The bias of the transmitter.";
    TX_TEMP = 64, V1_4, "The temperature of the transmitter.";
}

record! {
    /// Faults that only Ethernet has; all ones where nobody counts.
    pub struct EthernetStats: "ethernet" {
        /// Frames out of alignment.
        pub rx_frame_err: u64,
        /// Packets that overran the receiver.
        pub rx_over_err: u64,
        /// Checksums that were wrong.
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
    /// More counters of a port. OpenFlow 1.4.0 §7.3.5.6.
    ///
    /// Before 1.4 all counters have the fields of [`EthernetStats`], which are read as a property unless nobody counts.
    pub enum PortStatsProp: "port_stats property" {
        /// Faults that only Ethernet has.
        Ethernet "ethernet" (EthernetStats) = { V1_4.. => 0 };
        /// Light.
        Optical "optical" {
            /// What of the following is known.
            flags: OpticalStatsFlags,
            /// Frequency or wavelength transmitted at.
            tx_freq_lmda: u32,
            /// How far off it, signed.
            tx_offset: u32,
            /// Width of the grid.
            tx_grid_span: u32,
            /// Frequency or wavelength received at.
            rx_freq_lmda: u32,
            /// How far off it, signed.
            rx_offset: u32,
            /// Width of the grid.
            rx_grid_span: u32,
            /// Power sent, 0.1 dBm.
            tx_pwr: u16,
            /// Power received, 0.1 dBm.
            rx_pwr: u16,
            /// Bias, 0.1 mA.
            bias_current: u16,
            /// Temperature, 0.1 degrees Celsius.
            temperature: u16,
        } = { V1_4.. => 1 [
            pad 4, flags, tx_freq_lmda, tx_offset, tx_grid_span, rx_freq_lmda, rx_offset,
            rx_grid_span, tx_pwr, rx_pwr, bias_current, temperature,
        ] };
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
    /// Counters of one port; all ones where nobody counts. §7.3.5.6.
    pub struct PortStats: "port_stats" {
        /// Which.
        pub port_no: PortNo,
        /// Seconds that it has been there.
        pub duration_sec: u32,
        /// Nanoseconds more.
        pub duration_nsec: u32,
        /// Packets in.
        pub rx_packets: u64,
        /// Packets out.
        pub tx_packets: u64,
        /// Bytes in.
        pub rx_bytes: u64,
        /// Bytes out.
        pub tx_bytes: u64,
        /// Packets dropped on the way in.
        pub rx_dropped: u64,
        /// Packets dropped on the way out.
        pub tx_dropped: u64,
        /// Faults on the way in.
        pub rx_errors: u64,
        /// Faults on the way out.
        pub tx_errors: u64,
        /// More, in the order of the switch.
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

/// Nothing counted yet, for a time that nobody knows.
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
