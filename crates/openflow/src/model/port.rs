//! Ports: what a switch says of them, and when they come, go or change. §7.2.1, §7.4.3.

use super::codec::versions::{V1_0, V1_1, V1_3, V1_4, V1_5};
use super::codec::{Codec, Encoding, ListItem, UNNAMED};
use super::oxm::FieldHeader;
use super::reader::Reader;
use super::rows::{choice, codes, flags, record, tlv};
use super::value::FixedString;
use super::wire_types::{FixedFields, FixedFieldsProp};
use crate::{EncodeError, Encoder, MacAddr, PortNo, Result, Version};

flags! {
    /// `OFPPC_*`: how an operator or a controller has set a port.
    pub struct PortConfig(u32);
    PORT_DOWN = 1, V1_0, "Turned off.";
    NO_STP = 2, V1_0..=V1_0, "Without the spanning tree.";
    NO_RECV = 4, V1_0, "What comes in is dropped.";
    NO_RECV_STP = 8, V1_0..=V1_0, "What comes in of the spanning tree is dropped.";
    NO_FLOOD = 16, V1_0..=V1_0, "Not flooded to.";
    NO_FWD = 32, V1_0, "What would go out is dropped.";
    NO_PACKET_IN = 64, V1_0, "What comes in is never sent to a controller.";
}

flags! {
    /// `OFPPS_*`: what became of a port by itself.
    pub struct PortState(u32);
    LINK_DOWN = 1, V1_0, "Nothing at the other end.";
    BLOCKED = 2, V1_1, "Kept from forwarding by a protocol of the switch.";
    LIVE = 4, V1_1, "Good enough for a fast-failover group.";
    STP_BLOCK = 0x300, V1_0..=V1_0, "Outside of the spanning tree.";
    STP_LEARN = 0x100, V1_0..=V1_0, "The spanning tree learns and forwards nothing yet.";
    STP_FORWARD = 0x200, V1_0..=V1_0, "The spanning tree learns and forwards.";
}

flags! {
    /// `OFPPF_*`: speeds and media, numbered as in 1.1 and later.
    ///
    /// 1.0 numbers the media from 7 to 11. Bits 12 to 15 of 1.0, which have no meaning, are 44 to 47 here.
    pub struct PortFeatures(u64);
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
    OTHER = 0x400, V1_1, "Another speed.";
    COPPER = 0x800, V1_0, "Copper.";
    FIBER = 0x1000, V1_0, "Fibre.";
    AUTONEG = 0x2000, V1_0, "Negotiates.";
    PAUSE = 0x4000, V1_0, "Pause frames.";
    PAUSE_ASYM = 0x8000, V1_0, "Pause frames in one direction.";
}

/// Bit rates in kbit/s, the highest first.
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
    /// Highest of the bit rates in it, kbit/s; 0 if none is.
    pub fn speed(self) -> u32 {
        RATES.iter().find(|row| self.contains(row.0)).map_or(0, |row| row.1)
    }
}

/// Speeds and media, in 32 bits numbered as the version does.
pub(crate) struct FeatureBits;

/// Bits that 1.0 and later versions number alike.
const ALIKE: u64 = 0xffff_007f;
/// The media, and what 1.0 has above its own.
const MEDIA: u64 = 0xf800;
const BEYOND_1_0: u64 = 0xf000;

impl Encoding<PortFeatures> for FeatureBits {
    fn parse(r: &mut Reader<'_>) -> Result<PortFeatures> {
        let bits = u64::from(r.u32(UNNAMED)?);
        if r.version() > Version::V1_0 {
            return Ok(PortFeatures(bits));
        }
        Ok(PortFeatures(bits & ALIKE | bits << 4 & MEDIA | (bits & BEYOND_1_0) << 32))
    }

    fn encode(value: &PortFeatures, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let (bits, version) = (value.0, out.version());
        let (known, wire, needs) = if version > Version::V1_0 {
            (u64::from(u32::MAX), bits, None)
        } else {
            let wire = bits & ALIKE | (bits & MEDIA) >> 4 | bits >> 32 & BEYOND_1_0;
            (ALIKE | MEDIA | BEYOND_1_0 << 32, wire, Some(Version::V1_1))
        };
        let lacking = EncodeError { what: "port features", version, needs };
        if bits & !known != 0 {
            return Err(lacking);
        }
        u32::try_from(wire).map_err(|_| lacking)?.encode(out)
    }
}

flags! {
    /// `OFPOPF_*`: what an optical port can do. OpenFlow 1.4.0 §7.2.1.2.
    pub struct OpticalFeatures(u32);
    RX_TUNE = 1, V1_4, "The receiver can be tuned.";
    TX_TUNE = 2, V1_4, "The transmitter can be tuned.";
    TX_PWR = 4, V1_4, "The power can be set.";
    USE_FREQ = 8, V1_4, "Tuned by frequency, not by wavelength.";
}

record! {
    /// Speeds and media of an Ethernet port; nothing set where nothing is known. §7.2.1.
    #[derive(Default)]
    pub struct EthernetPort: "ethernet" {
        /// In use.
        pub curr: PortFeatures,
        /// Offered to the other end.
        pub advertised: PortFeatures,
        /// Possible.
        pub supported: PortFeatures,
        /// Offered by the other end.
        pub peer: PortFeatures,
        /// Bit rate now, kbit/s.
        pub curr_speed: u32,
        /// Highest bit rate, kbit/s.
        pub max_speed: u32,
    }
    V1_0 => [
        curr as FeatureBits, advertised as FeatureBits, supported as FeatureBits, peer as FeatureBits,
    ]
    V1_1..=V1_3 => [
        curr as FeatureBits, advertised as FeatureBits, supported as FeatureBits, peer as FeatureBits,
        curr_speed, max_speed,
    ]
    V1_4.. => [
        pad 4, curr as FeatureBits, advertised as FeatureBits, supported as FeatureBits, peer as FeatureBits,
        curr_speed, max_speed,
    ]
}

choice! {
    /// Something more about a port. OpenFlow 1.4.0 §7.2.1.2.
    ///
    /// Before 1.4 every description has the fields of [`EthernetPort`], which are read as a property unless all are zero.
    pub enum PortProp: "port property" {
        /// Speeds and media.
        Ethernet "ethernet" (EthernetPort) = { V1_4.. => 0 };
        /// Light. Wavelengths or frequencies in the unit that `supported` says, 10 MHz or 0.1 nm.
        Optical "optical" {
            /// What it can do.
            supported: OpticalFeatures,
            /// Lowest to transmit at.
            tx_min_freq_lmda: u32,
            /// Highest to transmit at.
            tx_max_freq_lmda: u32,
            /// Steps between.
            tx_grid_freq_lmda: u32,
            /// Lowest to receive at.
            rx_min_freq_lmda: u32,
            /// Highest to receive at.
            rx_max_freq_lmda: u32,
            /// Steps between.
            rx_grid_freq_lmda: u32,
            /// Least power, 0.1 dBm.
            tx_pwr_min: u16,
            /// Most power, 0.1 dBm.
            tx_pwr_max: u16,
        } = { V1_4.. => 1 [
            pad 4, supported, tx_min_freq_lmda, tx_max_freq_lmda, tx_grid_freq_lmda,
            rx_min_freq_lmda, rx_max_freq_lmda, rx_grid_freq_lmda, tx_pwr_min, tx_pwr_max,
        ] };
        /// Fields that come with packets from it. OpenFlow 1.5.0 §7.2.1.2.
        PipelineInput "pipeline_input" {
            /// Which.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_5.. => 2 [oxm_ids,] };
        /// Fields that go with packets to it. OpenFlow 1.5.0 §7.2.1.2.
        PipelineOutput "pipeline_output" {
            /// Which.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_5.. => 3 [oxm_ids,] };
        /// Ports whose packets come round again here. OpenFlow 1.5.0 §7.2.1.2.
        Recirculate "recirculate" {
            /// Which.
            port_nos: Vec<PortNo>,
        } = { V1_5.. => 4 [port_nos,] };
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
    /// What a switch says of one of its ports. §7.2.1.
    #[derive(Default)]
    pub struct Port: "port" {
        /// Its number.
        pub port_no: PortNo,
        /// Its own address.
        pub hw_addr: MacAddr,
        /// Its name.
        pub name: FixedString<16>,
        /// How it is set.
        pub config: PortConfig,
        /// How it is.
        pub state: PortState,
        /// More, in the order of the switch.
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
    /// Whether it can carry frames now.
    pub const fn is_up(&self) -> bool {
        !self.config.contains(PortConfig::PORT_DOWN) && !self.state.contains(PortState::LINK_DOWN)
    }

    /// Its name as text, cut at the first zero.
    ///
    /// # Cost
    /// Allocates.
    pub fn name(&self) -> String {
        self.name.to_string()
    }

    /// Its speeds and media, `None` if the switch says nothing of them.
    pub fn ethernet(&self) -> Option<&EthernetPort> {
        self.properties.iter().find_map(FixedFieldsProp::as_fields)
    }

    /// Bit rate now, kbit/s, the highest of what is in use where there is no number; 0 if the switch says neither.
    pub fn curr_speed(&self) -> u32 {
        let said = |it: &EthernetPort| Some(it.curr_speed).filter(|&speed| speed != 0);
        self.ethernet().map_or(0, |it| said(it).unwrap_or_else(|| it.curr.speed()))
    }

    /// Highest bit rate, kbit/s, that of what is possible where there is no number; 0 if the switch says neither.
    pub fn max_speed(&self) -> u32 {
        let said = |it: &EthernetPort| Some(it.max_speed).filter(|&speed| speed != 0);
        self.ethernet().map_or(0, |it| said(it).unwrap_or_else(|| it.supported.speed()))
    }
}

codes! {
    /// `OFPPR_*`: what became of a port.
    pub struct PortReason(u8);
    ADD = 0, V1_0, "It came.";
    DELETE = 1, V1_0, "It went.";
    MODIFY = 2, V1_0, "Something of it changed.";
}

record! {
    /// What became of which port. §7.4.3.
    #[derive(Default)]
    pub struct PortStatus: "port_status" {
        /// What.
        pub reason: PortReason,
        /// Of which, as it is now.
        pub port: Port,
    }
    V1_0.. => [reason, pad 7, port,]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RawMessage;
    use crate::model::multipart::{MultipartReply, MultipartRequest};
    use crate::model::vectors::{Seen, damage, prove, translate};
    use crate::model::{
        Message, PortModProp, PortStatsProp, QueueProp, QueueStatsProp, TableFeatureProp,
        TableModProp,
    };

    const FILE: &str = "ports.txt";

    #[test]
    fn ports_queues_and_tables_are_read_as_the_file_says_and_come_back() {
        prove(FILE);
    }

    fn port(properties: Vec<PortProp>) -> Message {
        let name = FixedString::from("eth7");
        let port = Port { port_no: PortNo(7), name, properties, ..Port::default() };
        Message::PortStatus(PortStatus { reason: PortReason::ADD, port })
    }

    fn ethernet(curr: PortFeatures, curr_speed: u32) -> PortProp {
        PortProp::Ethernet(EthernetPort { curr, curr_speed, ..EthernetPort::default() })
    }

    fn again(message: &Message, version: Version) -> Result<Message, EncodeError> {
        let bytes = said(message, version)?;
        Ok(Message::parse(RawMessage::new(&bytes).unwrap()).unwrap())
    }

    fn said(message: &Message, version: Version) -> Result<Vec<u8>, EncodeError> {
        let (mut tx, mut xid) = (vec![], 1);
        message.encode(7, &mut Encoder::new(&mut tx, version, &mut xid))?;
        Ok(tx)
    }

    #[test]
    fn an_application_asks_a_port_without_knowing_the_version() {
        let all = (1..=6).map(Version);
        let curr = PortFeatures::SPEED_1GB_FD | PortFeatures::COPPER;
        for version in all {
            let speed = if version == Version::V1_0 { 0 } else { 1_000_000 };
            let message = again(&port(vec![ethernet(curr, speed)]), version).unwrap();
            let Message::PortStatus(PortStatus { port, .. }) = message else { panic!("{version}") };
            assert_eq!((port.name().as_str(), port.is_up()), ("eth7", true), "{version}");
            assert_eq!(port.ethernet().map(|fields| fields.curr), Some(curr), "{version}");
            assert_eq!((port.curr_speed(), port.max_speed()), (1_000_000, 0), "{version}");
        }
    }

    #[test]
    fn no_property_and_two_of_a_kind_come_back_where_there_are_properties() {
        let one = ethernet(PortFeatures::SPEED_10GB_FD, 0);
        let two = port(vec![one.clone(), one]);
        for version in (1..=6).map(Version) {
            assert_eq!(again(&port(vec![]), version), Ok(port(vec![])), "{version}");
        }
        assert_eq!(again(&two, Version::V1_4).as_ref(), Ok(&two));
        let no = said(&two, Version::V1_3).unwrap_err();
        assert_eq!(no.to_string(), "ethernet needs 1.4, this is 1.3");
        let loops = port(vec![PortProp::Recirculate { port_nos: vec![PortNo(1)] }]);
        let no = said(&loops, Version::V1_4).unwrap_err();
        assert_eq!(no.to_string(), "recirculate needs 1.5, this is 1.4");
    }

    #[test]
    fn a_medium_is_numbered_as_the_version_does_and_a_speed_it_lacks_is_refused() {
        let copper = port(vec![ethernet(PortFeatures::COPPER, 0)]);
        for (version, at, bits) in [(Version::V1_0, 48, 0x80), (Version::V1_3, 56, 0x800)] {
            let bytes = said(&copper, version).unwrap();
            assert_eq!(bytes[at..at + 4], u32::to_be_bytes(bits), "{version}");
            assert_eq!(again(&copper, version).as_ref(), Ok(&copper), "{version}");
        }
        let fast = port(vec![ethernet(PortFeatures::SPEED_40GB_FD, 0)]);
        let no = said(&fast, Version::V1_0).unwrap_err();
        assert_eq!(no.to_string(), "port features needs 1.1, this is 1.0");
        let odd = port(vec![ethernet(PortFeatures(1 << 44), 0)]);
        assert_eq!(again(&odd, Version::V1_0).as_ref(), Ok(&odd));
        assert_eq!(said(&odd, Version::V1_1).unwrap_err().needs, None);
    }

    #[test]
    fn ports_queues_and_tables_are_the_same_in_every_version_that_can_say_them() {
        translate(FILE);
    }

    #[test]
    fn damaged_bytes_of_ports_queues_and_tables_are_errors_or_something_else() {
        damage(FILE);
    }

    #[test]
    fn every_row_about_ports_queues_and_tables_has_bytes_in_every_version() {
        let (seen, about) = (Seen::of(FILE), ["port", "queue", "table"]);
        let mine = |name: &str| about.iter().any(|what| name.starts_with(what));
        seen.all::<Message>(&[""], |row| mine(row.name));
        seen.all::<MultipartRequest>(&["multipart_request.body"], |row| mine(row.name));
        seen.all::<MultipartReply>(&["multipart_reply.body"], |row| mine(row.name));
        seen.all::<PortProp>(&["port_desc.ports.properties"], |_| true);
        seen.all::<PortModProp>(&["port_mod.properties"], |_| true);
        seen.all::<PortStatsProp>(&["port_stats.ports.properties"], |_| true);
        let queues = ["queue_get_config_reply.queues.properties", "queue_desc.queues.properties"];
        seen.all::<QueueProp>(&queues, |_| true);
        seen.all::<QueueStatsProp>(&["queue_stats.queues.properties"], |_| true);
        let features = ["table_features.tables.properties"];
        seen.all::<TableFeatureProp>(&features, |_| true);
        seen.all::<TableModProp>(&["table_mod.properties"], |_| true);
        seen.all::<TableModProp>(&["table_desc.tables.properties"], |_| true);
    }
}
