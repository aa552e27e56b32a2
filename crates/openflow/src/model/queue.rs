//! Queues of ports: properties and counters. §7.2.2, §7.3.5.8, §7.3.6.

use super::codec::versions::{V1_0, V1_1, V1_2, V1_3, V1_4, V1_5};
use super::codec::{Codec, Encoding, ListItem, Padding, encode_tlv, parse_tlv, plain_type};
use super::reader::Reader;
use super::rows::{choice, record, tlv};
use super::value::{NeutralForm, Value, ValueError};
use crate::error::ErrorContext;
use crate::{EncodeError, Encoder, PortNo, Result, Version};

/// A port number in a request, where OpenFlow 1.0 uses `OFPP_ALL` for what later versions call `OFPP_ANY`.
pub(crate) struct AnyPort;

impl AnyPort {
    /// `port` with `ANY` and `ALL` exchanged in OpenFlow 1.0.
    fn swapped(port: PortNo, version: Version) -> PortNo {
        match port {
            PortNo::ALL if version == Version::V1_0 => PortNo::ANY,
            PortNo::ANY if version == Version::V1_0 => PortNo::ALL,
            port => port,
        }
    }
}

impl Encoding<PortNo> for AnyPort {
    fn parse(r: &mut Reader<'_>) -> Result<PortNo> {
        PortNo::parse(r).map(|port| Self::swapped(port, r.version()))
    }

    fn encode(value: &PortNo, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        Self::swapped(*value, out.version()).encode(out)
    }
}

record! {
    /// Requests counters or descriptions of queues. §7.3.5.8, OpenFlow 1.4.0 §7.3.5.11.
    pub struct QueueRequest: "queue request" {
        /// Port number; [`PortNo::ANY`] is all ports.
        pub port_no: PortNo,
        /// Queue number; [`Queue::ALL`] is all queues.
        pub queue_id: u32,
    }
    V1_0 => [port_no as AnyPort, pad 2, queue_id,]
    V1_1.. => [port_no, queue_id,]
}

impl Default for QueueRequest {
    fn default() -> Self {
        Self { port_no: PortNo::ANY, queue_id: Queue::ALL }
    }
}

choice! {
    /// Property of a [`Queue`]. §7.2.2.
    pub enum QueueProp: "queue property" {
        /// No property. `OFPQT_NONE`, OpenFlow 1.0.0 §5.2.2.
        None "none" = { V1_0..=V1_1 => 0 [pad 4,] };
        /// Guaranteed minimum rate.
        MinRate "min_rate" {
            /// Rate in 1/10 percent of the port's; disabled if above 1000.
            rate: u16,
        } = { V1_0..=V1_3 => 1 [pad 4, rate, pad 6,], V1_4.. => 1 [rate, pad 2,] };
        /// Maximum rate. Before 1.2 an extension of Open vSwitch.
        MaxRate "max_rate" {
            /// Rate in 1/10 percent of the port's; disabled if above 1000.
            rate: u16,
        } = { V1_0..=V1_3 => 2 [pad 4, rate, pad 6,], V1_4.. => 2 [rate, pad 2,] };
        /// Experimenter property.
        Experimenter "experimenter" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined type.
            exp_type: u32,
            /// Experimenter-defined data.
            data: Vec<u8>,
        } = {
            V1_2..=V1_3 => 0xffff [pad 4, experimenter, pad 4, data,],
            V1_4.. => 0xffff [experimenter, exp_type, data,],
        };
    }
}

impl QueueProp {
    /// Where a property is padded: nowhere before 1.4, like other properties since.
    fn padding(version: Version) -> Padding {
        if version < Version::V1_4 { Padding::None } else { Padding::Outside }
    }
}

impl ListItem for QueueProp {}

impl Codec for QueueProp {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        parse_tlv(r, Self::padding(r.version()), ErrorContext::Property, plain_type)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        encode_tlv(self, out, Self::padding(out.version()))
    }
}

record! {
    /// A queue of a port. §7.2.2, OpenFlow 1.4.0 §7.3.5.11.
    #[derive(Default)]
    pub struct Queue: "queue" {
        /// Port number.
        pub port_no: PortNo,
        /// Queue number.
        pub queue_id: u32,
        /// Properties.
        pub properties: Vec<QueueProp>,
    }
    V1_0..=V1_1 => [queue_id, length, pad 2, properties,]
    V1_2..=V1_3 => [queue_id, port_no, length, pad 6, properties,]
    V1_4.. => [port_no, queue_id, length, pad 6, properties,]
}

impl ListItem for Queue {}

impl Queue {
    /// All queues, in requests. `OFPQ_ALL`.
    pub const ALL: u32 = u32::MAX;
}

record! {
    /// Requests the queues of a port. A multipart request since 1.4. §7.3.6.
    #[derive(Default)]
    pub struct QueueGetConfigRequest: "queue_get_config_request" {
        /// Port number.
        pub port: PortNo,
    }
    V1_0 => [port, pad 2,]
    V1_1.. => [port, pad 4,]
}

/// The queues of a port. §7.3.6.
///
/// In 1.0 and 1.1 the port is encoded once for all queues; here each queue has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueGetConfigReply {
    /// Port number; [`PortNo::ANY`] if all ports were requested.
    pub port: PortNo,
    /// Queues.
    pub queues: Vec<Queue>,
}

record! {
    /// [`QueueGetConfigReply`] as encoded: in 1.0 and 1.1 the queues do not repeat the port.
    #[derive(Default)]
    pub struct WireReply: "queue_get_config_reply" {
        /// Port number.
        pub port: PortNo,
        /// Queues.
        pub queues: Vec<Queue>,
    }
    V1_0 => [port, pad 6, queues,]
    V1_1.. => [port, pad 4, queues,]
}

impl WireReply {
    fn of(reply: &QueueGetConfigReply, version: Version) -> Self {
        let mut it = Self { port: reply.port, queues: reply.queues.clone() };
        if (Version::V1_0..Version::V1_2).contains(&version) {
            let here = it.queues.iter_mut().filter(|queue| queue.port_no == reply.port);
            here.for_each(|queue| queue.port_no = PortNo::default());
        }
        it
    }

    fn reply(mut self, version: Version) -> QueueGetConfigReply {
        if (Version::V1_0..Version::V1_2).contains(&version) {
            self.queues.iter_mut().for_each(|queue| queue.port_no = self.port);
        }
        QueueGetConfigReply { port: self.port, queues: self.queues }
    }
}

impl Codec for QueueGetConfigReply {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        WireReply::parse(r).map(|it| it.reply(r.version()))
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let is_mixed = self.queues.iter().any(|queue| queue.port_no != self.port);
        if is_mixed {
            out.needs(Version::V1_2, "port_no")?;
        }
        WireReply::of(self, out.version()).encode(out)
    }
}

impl NeutralForm for QueueGetConfigReply {
    fn to_value(&self, version: Version) -> Value {
        WireReply::of(self, version).to_value(version)
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        WireReply::from_value(value, version).map(|it| it.reply(version))
    }
}

choice! {
    /// Property of [`QueueStats`]. OpenFlow 1.4.0 §7.3.5.10.
    pub enum QueueStatsProp: "queue_stats property" {
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

tlv!(QueueStatsProp, Outside, Property);

record! {
    /// Counters of one queue; all ones where the switch does not count. §7.3.5.8.
    pub struct QueueStats: "queue_stats" {
        /// Port number.
        pub port_no: PortNo,
        /// Queue number.
        pub queue_id: u32,
        /// Transmitted bytes.
        pub tx_bytes: u64,
        /// Transmitted packets.
        pub tx_packets: u64,
        /// Packets dropped because the queue was full.
        pub tx_errors: u64,
        /// Seconds that the queue has been alive. Since 1.3.
        pub duration_sec: u32,
        /// Additional nanoseconds. Since 1.3.
        pub duration_nsec: u32,
        /// Properties.
        pub properties: Vec<QueueStatsProp>,
    }
    V1_0 => [port_no, pad 2, queue_id, tx_bytes, tx_packets, tx_errors,]
    V1_1..=V1_2 => [port_no, queue_id, tx_bytes, tx_packets, tx_errors,]
    V1_3 => [
        port_no, queue_id, tx_bytes, tx_packets, tx_errors, duration_sec, duration_nsec,
    ]
    V1_4..=V1_5 => [
        length, pad 6, port_no, queue_id, tx_bytes, tx_packets, tx_errors, duration_sec,
        duration_nsec, properties,
    ]
}

impl ListItem for QueueStats {}

/// All counters zero, duration unknown.
impl Default for QueueStats {
    fn default() -> Self {
        Self {
            port_no: PortNo::default(),
            queue_id: 0,
            tx_bytes: 0,
            tx_packets: 0,
            tx_errors: 0,
            duration_sec: u32::MAX,
            duration_nsec: u32::MAX,
            properties: vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RawMessage;
    use crate::model::multipart::MultipartRequest;
    use crate::model::vectors::encoded;
    use crate::model::{Message, Multipart, MultipartFlags};

    #[test]
    fn all_ports_are_requested_with_the_port_number_of_the_version() {
        let body = MultipartRequest::QueueStats(QueueRequest::default());
        let all = Message::MultipartRequest(Multipart { flags: MultipartFlags::default(), body });
        assert_eq!(encoded(&all, Version::V1_0, 7)[12..14], [0xff, 0xfc]);
        assert_eq!(encoded(&all, Version::V1_1, 7)[16..20], [0xff; 4]);
    }

    #[test]
    fn a_queue_has_its_port_number_in_every_version() {
        let queue = Queue { port_no: PortNo(7), queue_id: 3, properties: vec![] };
        let reply = QueueGetConfigReply { port: PortNo(7), queues: vec![queue.clone(), queue] };
        let message = Message::QueueGetConfigReply(reply);
        for version in (1..=4).map(Version) {
            let bytes = encoded(&message, version, 7);
            assert_eq!(RawMessage::new(&bytes).and_then(Message::parse_raw).as_ref(), Ok(&message));
            let value = message.to_value(version);
            assert_eq!(Message::from_value(&value, version).as_ref(), Ok(&message));
        }
    }
}
