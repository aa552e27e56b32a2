//! Ports of a switch, and notifications about them. §7.2.1, §7.4.3.

use super::codec::ListItem;
use super::codec::versions::{V1_0, V1_1, V1_3, V1_4, V1_5};
use super::oxm::FieldHeader;
use super::rows::{choice, codes, flags, record, tlv};
use super::value::FixedString;
use super::wire_types::{FixedFields, FixedFieldsProp};
use crate::{MacAddr, PortNo};

flags! {
    /// `OFPPC_*`: administrative configuration of a port. §7.2.1.
    pub struct PortConfig(u64 as u32);
    PORT_DOWN = 1, V1_0, "Administratively down.";
    NO_STP = 2, V1_0..=V1_0, "Spanning tree disabled.";
    NO_RECV = 4, V1_0, "Drop received packets.";
    NO_RECV_STP = 8, V1_0..=V1_0, "Drop received spanning tree packets.";
    NO_FLOOD = 16, V1_0..=V1_0, "Exclude the port from flooding.";
    NO_FWD = 32, V1_0, "Drop packets forwarded to the port.";
    NO_PACKET_IN = 64, V1_0, "Send no packet-ins for received packets.";
}

flags! {
    /// `OFPPS_*`: state of a port. §7.2.1.
    pub struct PortState(u64 as u32);
    LINK_DOWN = 1, V1_0, "No physical link.";
    BLOCKED = 2, V1_1, "Blocked by a protocol outside of OpenFlow, such as 802.1D.";
    LIVE = 4, V1_1, "Live for fast-failover groups.";
    STP_BLOCK = 0x300, V1_0..=V1_0, "Spanning tree: not part of the tree.";
    STP_LEARN = 0x100, V1_0..=V1_0, "Spanning tree: learning, not forwarding.";
    STP_FORWARD = 0x200, V1_0..=V1_0, "Spanning tree: learning and forwarding.";
}

flags! {
    /// `OFPPF_*`: speeds and media, numbered as in OpenFlow 1.1 and later. §7.2.1.
    ///
    /// OpenFlow 1.0 numbers the media from bit 7 on.
    pub struct PortFeatures(u64 as u32);
    SPEED_10MB_HD as "10MB_HD" = 1, V1_0, "10 Mbit/s, half-duplex.";
    SPEED_10MB_FD as "10MB_FD" = 2, V1_0, "10 Mbit/s, full-duplex.";
    SPEED_100MB_HD as "100MB_HD" = 4, V1_0, "100 Mbit/s, half-duplex.";
    SPEED_100MB_FD as "100MB_FD" = 8, V1_0, "100 Mbit/s, full-duplex.";
    SPEED_1GB_HD as "1GB_HD" = 0x10, V1_0, "1 Gbit/s, half-duplex.";
    SPEED_1GB_FD as "1GB_FD" = 0x20, V1_0, "1 Gbit/s, full-duplex.";
    SPEED_10GB_FD as "10GB_FD" = 0x40, V1_0, "10 Gbit/s, full-duplex.";
    SPEED_40GB_FD as "40GB_FD" = 0x80, V1_1, "40 Gbit/s, full-duplex.";
    SPEED_100GB_FD as "100GB_FD" = 0x100, V1_1, "100 Gbit/s, full-duplex.";
    SPEED_1TB_FD as "1TB_FD" = 0x200, V1_1, "1 Tbit/s, full-duplex.";
    OTHER = 0x400, V1_1, "Other rate, not in the list.";
    COPPER = 0x800, V1_0..=V1_0 => 0x80 | V1_1, "Copper medium.";
    FIBER = 0x1000, V1_0..=V1_0 => 0x100 | V1_1, "Fiber medium.";
    AUTONEG = 0x2000, V1_0..=V1_0 => 0x200 | V1_1, "Auto-negotiation.";
    PAUSE = 0x4000, V1_0..=V1_0 => 0x400 | V1_1, "Pause frames.";
    PAUSE_ASYM = 0x8000, V1_0..=V1_0 => 0x800 | V1_1, "Asymmetric pause frames.";
}

/// Bit rates in kbit/s, highest first.
const RATES: [(PortFeatures, u32); 10] = [
    (PortFeatures::SPEED_1TB_FD, 1_000_000_000),
    (PortFeatures::SPEED_100GB_FD, 100_000_000),
    (PortFeatures::SPEED_40GB_FD, 40_000_000),
    (PortFeatures::SPEED_10GB_FD, 10_000_000),
    (PortFeatures::SPEED_1GB_FD, 1_000_000),
    (PortFeatures::SPEED_1GB_HD, 1_000_000),
    (PortFeatures::SPEED_100MB_FD, 100_000),
    (PortFeatures::SPEED_100MB_HD, 100_000),
    (PortFeatures::SPEED_10MB_FD, 10_000),
    (PortFeatures::SPEED_10MB_HD, 10_000),
];

impl PortFeatures {
    /// Highest bit rate in the set, kbit/s; 0 if it has none.
    pub fn speed(self) -> u32 {
        RATES.iter().find(|row| self.contains(row.0)).map_or(0, |row| row.1)
    }
}

flags! {
    /// `OFPOPF_*`: features of an optical port. OpenFlow 1.4.0 §7.2.1.2.
    pub struct OpticalFeatures(u32);
    RX_TUNE = 1, V1_4, "Tunable receiver.";
    TX_TUNE = 2, V1_4, "Tunable transmitter.";
    TX_PWR = 4, V1_4, "Configurable transmit power.";
    USE_FREQ = 8, V1_4, "Tuned by frequency, not by wavelength.";
}

record! {
    /// Speeds and media of an Ethernet port; zero where unknown. §7.2.1.
    #[derive(Default)]
    pub struct EthernetPort: "ethernet" {
        /// Current features.
        pub curr: PortFeatures,
        /// Features advertised by the port.
        pub advertised: PortFeatures,
        /// Features supported by the port.
        pub supported: PortFeatures,
        /// Features advertised by the peer.
        pub peer: PortFeatures,
        /// Current bit rate, kbit/s.
        pub curr_speed: u32,
        /// Maximum bit rate, kbit/s.
        pub max_speed: u32,
    }
    V1_0 => [
        curr, advertised, supported, peer,
    ]
    V1_1..=V1_3 => [
        curr, advertised, supported, peer,
        curr_speed, max_speed,
    ]
    V1_4.. => [
        pad 4, curr, advertised, supported, peer,
        curr_speed, max_speed,
    ]
}

choice! {
    /// Property of a [`Port`]. OpenFlow 1.4.0 §7.2.1.2.
    ///
    /// Before 1.4, every port has the fields of [`EthernetPort`]; they are read as a property unless all are zero.
    pub enum PortProp: "port property" {
        /// Speeds and media.
        Ethernet "ethernet" (EthernetPort) = { V1_4.. => 0 };
        /// Optical features. Wavelengths or frequencies are in units of 0.1 nm or 10 MHz, as `supported` says.
        Optical "optical" {
            /// Supported features.
            supported: OpticalFeatures,
            /// Minimum transmit frequency or wavelength.
            tx_min_freq_lmda: u32,
            /// Maximum transmit frequency or wavelength.
            tx_max_freq_lmda: u32,
            /// Transmit grid spacing.
            tx_grid_freq_lmda: u32,
            /// Minimum receive frequency or wavelength.
            rx_min_freq_lmda: u32,
            /// Maximum receive frequency or wavelength.
            rx_max_freq_lmda: u32,
            /// Receive grid spacing.
            rx_grid_freq_lmda: u32,
            /// Minimum transmit power, 0.1 dBm.
            tx_pwr_min: u16,
            /// Maximum transmit power, 0.1 dBm.
            tx_pwr_max: u16,
        } = { V1_4.. => 1 [
            pad 4, supported, tx_min_freq_lmda, tx_max_freq_lmda, tx_grid_freq_lmda,
            rx_min_freq_lmda, rx_max_freq_lmda, rx_grid_freq_lmda, tx_pwr_min, tx_pwr_max,
        ] };
        /// Pipeline fields that packets received on the port carry. OpenFlow 1.5.0 §7.2.1.2.
        PipelineInput "pipeline_input" {
            /// Fields.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_5.. => 2 [oxm_ids,] };
        /// Pipeline fields that packets sent to the port carry. OpenFlow 1.5.0 §7.2.1.2.
        PipelineOutput "pipeline_output" {
            /// Fields.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_5.. => 3 [oxm_ids,] };
        /// Recirculates packets. OpenFlow 1.5.0 §7.2.1.2.
        Recirculate "recirculate" {
            /// Ingress ports on which packets sent to this port come back.
            port_nos: Vec<PortNo>,
        } = { V1_5.. => 4 [port_nos,] };
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

tlv!(PortProp, Outside, Property);

impl FixedFieldsProp for PortProp {
    type Fields = EthernetPort;

    fn from_fields(fields: EthernetPort) -> Self {
        Self::Ethernet(fields)
    }

    fn as_fields(&self) -> Option<&EthernetPort> {
        if let Self::Ethernet(fields) = self { Some(fields) } else { None }
    }
}

record! {
    /// A port of a switch. §7.2.1.
    #[derive(Default)]
    pub struct Port: "port" {
        /// Port number.
        pub port_no: PortNo,
        /// Ethernet address of the port.
        pub hw_addr: MacAddr,
        /// Name of the port, such as `eth0`.
        pub name: FixedString<16>,
        /// Administrative configuration.
        pub config: PortConfig,
        /// State.
        pub state: PortState,
        /// Properties, in the order sent by the switch.
        pub properties: Vec<PortProp>,
    }
    V1_0 => [port_no, hw_addr, name, config, state, properties as FixedFields,]
    V1_1..=V1_3 => [
        port_no, pad 4, hw_addr, pad 2, name, config, state, properties as FixedFields,
    ]
    V1_4.. => [port_no, length, pad 2, hw_addr, pad 2, name, config, state, properties,]
}

impl ListItem for Port {}

impl Port {
    /// Whether the port is administratively up and has a link.
    pub const fn is_up(&self) -> bool {
        !self.config.contains(PortConfig::PORT_DOWN) && !self.state.contains(PortState::LINK_DOWN)
    }

    /// Name as text, up to the first zero byte.
    ///
    /// # Cost
    /// Allocates.
    pub fn name(&self) -> String {
        self.name.to_string()
    }

    /// Speeds and media; `None` if the switch does not report them.
    pub fn ethernet(&self) -> Option<&EthernetPort> {
        self.properties.iter().find_map(FixedFieldsProp::as_fields)
    }

    /// Current bit rate, kbit/s. If the switch reports no rate, the highest in the current features; 0 if unknown.
    pub fn curr_speed(&self) -> u32 {
        self.ethernet()
            .map_or(0, |it| if it.curr_speed == 0 { it.curr.speed() } else { it.curr_speed })
    }

    /// Maximum bit rate, kbit/s. If the switch reports no rate, the highest in the supported features; 0 if unknown.
    pub fn max_speed(&self) -> u32 {
        self.ethernet()
            .map_or(0, |it| if it.max_speed == 0 { it.supported.speed() } else { it.max_speed })
    }
}

codes! {
    /// `OFPPR_*`: why a [`PortStatus`] is sent. §7.4.3.
    pub struct PortReason(u8);
    ADD = 0, V1_0, "The port was added.";
    DELETE = 1, V1_0, "The port was removed.";
    MODIFY = 2, V1_0, "The port changed.";
}

record! {
    /// A port was added, removed or changed. §7.4.3.
    #[derive(Default)]
    pub struct PortStatus: "port_status" {
        /// What happened.
        pub reason: PortReason,
        /// The port, after the change.
        pub port: Port,
    }
    V1_0.. => [reason, pad 7, port,]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::multipart::{MultipartReply, MultipartRequest};
    use crate::model::vectors::{
        RowCoverage, check_corrupted, check_other_versions, check_vectors,
    };
    use crate::model::{
        Message, PortModProp, PortStatsProp, QueueProp, QueueStatsProp, TableFeatureProp,
        TableModProp,
    };
    use crate::{EncodeError, Encoder, RawMessage, Result, Version};

    const FILE: &str = "ports.txt";

    #[test]
    fn port_queue_and_table_vectors_parse_and_encode_as_recorded() {
        check_vectors(FILE);
    }

    fn port_status(properties: Vec<PortProp>) -> Message {
        let name = FixedString::from("eth7");
        let port = Port { port_no: PortNo(7), name, properties, ..Port::default() };
        Message::PortStatus(PortStatus { reason: PortReason::ADD, port })
    }

    fn ethernet(curr: PortFeatures, curr_speed: u32) -> PortProp {
        PortProp::Ethernet(EthernetPort { curr, curr_speed, ..EthernetPort::default() })
    }

    fn roundtrip(message: &Message, version: Version) -> Result<Message, EncodeError> {
        let bytes = encoded(message, version)?;
        Ok(Message::parse_raw(RawMessage::new(&bytes).unwrap()).unwrap())
    }

    fn encoded(message: &Message, version: Version) -> Result<Vec<u8>, EncodeError> {
        let (mut tx, mut xid) = (vec![], 1);
        message.encode(7, &mut Encoder::new(&mut tx, version, &mut xid))?;
        Ok(tx)
    }

    #[test]
    fn name_state_and_speed_of_a_port_are_the_same_in_every_version() {
        let all = (1..=6).map(Version);
        let curr = PortFeatures::SPEED_1GB_FD | PortFeatures::COPPER;
        for version in all {
            let speed = if version == Version::V1_0 { 0 } else { 1_000_000 };
            let message = roundtrip(&port_status(vec![ethernet(curr, speed)]), version).unwrap();
            let Message::PortStatus(PortStatus { port, .. }) = message else { panic!("{version}") };
            assert_eq!((port.name().as_str(), port.is_up()), ("eth7", true), "{version}");
            assert_eq!(port.ethernet().map(|fields| fields.curr), Some(curr), "{version}");
            assert_eq!((port.curr_speed(), port.max_speed()), (1_000_000, 0), "{version}");
        }
    }

    #[test]
    fn absent_and_duplicate_properties_survive_where_properties_exist() {
        let one = ethernet(PortFeatures::SPEED_10GB_FD, 0);
        let two = port_status(vec![one.clone(), one]);
        for version in (1..=6).map(Version) {
            assert_eq!(
                roundtrip(&port_status(vec![]), version),
                Ok(port_status(vec![])),
                "{version}"
            );
        }
        assert_eq!(roundtrip(&two, Version::V1_4).as_ref(), Ok(&two));
        let error = encoded(&two, Version::V1_3).unwrap_err();
        assert_eq!(error.to_string(), "ethernet requires OpenFlow 1.4; this session speaks 1.3");
        let recirculate = port_status(vec![PortProp::Recirculate { port_nos: vec![PortNo(1)] }]);
        let error = encoded(&recirculate, Version::V1_4).unwrap_err();
        assert_eq!(error.to_string(), "recirculate requires OpenFlow 1.5; this session speaks 1.4");
    }

    #[test]
    fn media_are_numbered_as_in_the_version_and_unknown_speeds_are_refused() {
        let copper = port_status(vec![ethernet(PortFeatures::COPPER, 0)]);
        for (version, at, bits) in [(Version::V1_0, 48, 0x80), (Version::V1_3, 56, 0x800)] {
            let bytes = encoded(&copper, version).unwrap();
            assert_eq!(bytes[at..at + 4], u32::to_be_bytes(bits), "{version}");
            assert_eq!(roundtrip(&copper, version).as_ref(), Ok(&copper), "{version}");
        }
        let fast = port_status(vec![ethernet(PortFeatures::SPEED_40GB_FD, 0)]);
        let error = encoded(&fast, Version::V1_0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "PortFeatures::SPEED_40GB_FD requires OpenFlow 1.1; this session speaks 1.0"
        );
        let undefined = port_status(vec![ethernet(PortFeatures(1 << 44), 0)]);
        assert_eq!(roundtrip(&undefined, Version::V1_0).as_ref(), Ok(&undefined));
        assert_eq!(encoded(&undefined, Version::V1_1).unwrap_err().needs, None);
    }

    #[test]
    fn port_queue_and_table_vectors_mean_the_same_in_every_version_that_has_them() {
        check_other_versions(FILE);
    }

    #[test]
    fn damaged_port_queue_and_table_vectors_never_panic() {
        check_corrupted(FILE);
    }

    #[test]
    fn every_port_queue_and_table_row_has_a_vector_in_every_version() {
        let (coverage, prefixes) = (RowCoverage::of_file(FILE), ["port", "queue", "table"]);
        let is_covered_here = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
        coverage.assert_all::<Message>(&[""], |row| is_covered_here(row.name));
        coverage.assert_all::<MultipartRequest>(&["multipart_request.body"], |row| {
            is_covered_here(row.name)
        });
        coverage.assert_all::<MultipartReply>(&["multipart_reply.body"], |row| {
            is_covered_here(row.name)
        });
        coverage.assert_all::<PortProp>(&["port_desc.ports.properties"], |_| true);
        coverage.assert_all::<PortModProp>(&["port_mod.properties"], |_| true);
        coverage.assert_all::<PortStatsProp>(&["port_stats.ports.properties"], |_| true);
        let queues = ["queue_get_config_reply.queues.properties", "queue_desc.queues.properties"];
        coverage.assert_all::<QueueProp>(&queues, |_| true);
        coverage.assert_all::<QueueStatsProp>(&["queue_stats.queues.properties"], |_| true);
        let features = ["table_features.tables.properties"];
        coverage.assert_all::<TableFeatureProp>(&features, |_| true);
        coverage.assert_all::<TableModProp>(&["table_mod.properties"], |_| true);
        coverage.assert_all::<TableModProp>(&["table_desc.tables.properties"], |_| true);
    }
}
