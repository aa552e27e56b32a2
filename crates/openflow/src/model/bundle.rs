//! Bundles: requests that are done all together or not at all; and requests of others. OpenFlow 1.4.0 §7.3.9, §7.4.6.

use super::codec::Codec;
use super::codec::versions::*;
use super::message::Message;
use super::reader::Reader;
use super::rows::{choice, codes, flags, record, tlv};
use super::value::{Entries, Plain, Value, ValueError};
use crate::error::ErrorContext;
use crate::raw_message::HEADER_LEN;
use crate::{EncodeError, Encoder, MessageType, ParseErrorKind, Result, Version};

codes! {
    /// `OFPBCT_*`: what becomes of a bundle. OpenFlow 1.4.0 §7.3.9.2.
    pub struct BundleCtrlType(u16);
    OPEN_REQUEST = 0, V1_3, "Shall be opened.";
    OPEN_REPLY = 1, V1_3, "Is open.";
    CLOSE_REQUEST = 2, V1_3, "Shall be closed.";
    CLOSE_REPLY = 3, V1_3, "Is closed.";
    COMMIT_REQUEST = 4, V1_3, "Shall be done.";
    COMMIT_REPLY = 5, V1_3, "Is done.";
    DISCARD_REQUEST = 6, V1_3, "Shall be forgotten.";
    DISCARD_REPLY = 7, V1_3, "Is forgotten.";
}

flags! {
    /// `OFPBF_*`: how a bundle is done. OpenFlow 1.4.0 §7.3.9.2.
    pub struct BundleFlags(u16);
    ATOMIC = 1, V1_3, "No packet sees a part of it.";
    ORDERED = 2, V1_3, "In the order in which it was added.";
    TIME = 4, V1_5, "At a time.";
}

record! {
    /// A point in time, or a length of it. OpenFlow 1.5.0 §7.3.9.
    #[derive(Default)]
    pub struct BundleTime: "time" {
        /// Seconds, of International Atomic Time since 1970.
        pub seconds: u64,
        /// Nanoseconds more.
        pub nanoseconds: u32,
    }
    V1_3.. => [seconds, nanoseconds, pad 4,]
}

choice! {
    /// Something more about a bundle. OpenFlow 1.4.0 §7.3.9.
    pub enum BundleProp: "bundle property" {
        /// When it shall be done. OpenFlow 1.5.0 §7.3.9.
        Time "time" {
            /// When.
            scheduled_time: BundleTime,
        } = { V1_5.. => 1 [pad 4, scheduled_time,] };
        /// An experimenter's own.
        Experimenter "experimenter" {
            /// Whose.
            experimenter: u32,
            /// Their own number.
            exp_type: u32,
            /// The rest.
            data: Vec<u8>,
        } = { V1_3.. => 0xffff [experimenter, exp_type, data,] };
    }
}

tlv!(BundleProp, Outside, Property);

record! {
    /// Opens, closes, commits or discards a bundle. OpenFlow 1.4.0 §7.3.9.2; in 1.3 an extension of the ONF.
    #[derive(Default)]
    pub struct BundleControl: "bundle_control" {
        /// Which bundle.
        pub bundle_id: u32,
        /// What becomes of it. `type` in the specification.
        pub ctrl_type: BundleCtrlType,
        /// How it is done.
        pub flags: BundleFlags,
        /// More about it.
        pub properties: Vec<BundleProp>,
    }
    V1_3.. => [bundle_id, ctrl_type, flags, properties,]
}

/// A whole message inside another, of the same version. It is one that is well-formed: what holds another one is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddedMessage {
    /// Its transaction id; in a bundle that of the message around it.
    pub xid: u32,
    /// What it says.
    pub message: Box<Message>,
}

impl Default for EmbeddedMessage {
    fn default() -> Self {
        Self { xid: 0, message: Box::new(Message::BarrierRequest) }
    }
}

impl Codec for EmbeddedMessage {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let mut head = r.nested("message", ErrorContext::Request)?;
        let start = head.at();
        let [version, byte] = head.array("message")?;
        let wrong = head.error_at(start, "message", ParseErrorKind::Length);
        let len = usize::from(head.u16("message")?);
        let xid = head.u32("message")?;
        if Version(version) != r.version() {
            return Err(r.error("message", ParseErrorKind::Version));
        }
        let mut body = head.sub("message", len.checked_sub(HEADER_LEN).ok_or(wrong)?);
        let body = body.as_mut().map_err(|_| wrong)?;
        let message = Message::parse_in(body, MessageType::from_wire(r.version(), byte))?;
        r.take("message", len)?;
        Ok(Self { xid, message: Box::new(message) })
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        self.message.encode(self.xid, out)
    }
}

impl Plain for EmbeddedMessage {
    fn to_value(&self, version: Version) -> Value {
        Value::Map(vec![
            ("xid".into(), self.xid.to_value(version)),
            ("message".into(), self.message.to_value(version)),
        ])
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        let mut entries = Entries::of(value)?;
        let xid = entries.read("xid", version)?.unwrap_or_default();
        let message = entries.take("message").ok_or_else(|| ValueError::new("has no `message`"))?;
        let message = Message::from_value(message, version).map_err(|e| e.under("message"))?;
        entries.finish()?;
        Ok(Self { xid, message: Box::new(message) })
    }
}

record! {
    /// A request that becomes part of a bundle. OpenFlow 1.4.0 §7.3.9.6; in 1.3 an extension of the ONF.
    #[derive(Default)]
    pub struct BundleAddMessage: "bundle_add_message" {
        /// Which bundle.
        pub bundle_id: u32,
        /// How it is done.
        pub flags: BundleFlags,
        /// The request.
        pub message: EmbeddedMessage,
        /// More about it.
        pub properties: Vec<BundleProp>,
    }
    V1_3.. => [bundle_id, pad 2, flags, message, align before properties,]
}

flags! {
    /// `OFPBF_*` of requests of [`BundleFeatures`]: what is told and asked. OpenFlow 1.5.0 §7.3.5.
    pub struct BundleFeatureFlags(u32);
    TIMESTAMP = 1, V1_5, "The time of the sender stands in the request.";
    TIME_SET_SCHED = 2, V1_5, "How far times may lie away is to be set.";
}

choice! {
    /// Something more about what bundles can be. OpenFlow 1.5.0 §7.3.5.
    pub enum BundleFeaturesProp: "bundle features property" {
        /// Times.
        TimeCapability "time_capability" {
            /// How exactly they are kept.
            sched_accuracy: BundleTime,
            /// How far they may lie ahead.
            sched_max_future: BundleTime,
            /// How far they may lie back.
            sched_max_past: BundleTime,
            /// The time now.
            timestamp: BundleTime,
        } = { V1_5.. => 1 [pad 4, sched_accuracy, sched_max_future, sched_max_past, timestamp,] };
        /// An experimenter's own.
        Experimenter "experimenter" {
            /// Whose.
            experimenter: u32,
            /// Their own number.
            exp_type: u32,
            /// The rest.
            data: Vec<u8>,
        } = { V1_5.. => 0xffff [experimenter, exp_type, data,] };
    }
}

tlv!(BundleFeaturesProp, Outside, Property);

record! {
    /// Asks what bundles can be. OpenFlow 1.5.0 §7.3.5.
    #[derive(Default)]
    pub struct BundleFeaturesRequest: "bundle_features" {
        /// What is told and asked.
        pub feature_request_flags: BundleFeatureFlags,
        /// More about it.
        pub properties: Vec<BundleFeaturesProp>,
    }
    V1_5.. => [feature_request_flags, pad 4, properties,]
}

record! {
    /// What bundles can be. OpenFlow 1.5.0 §7.3.5.
    #[derive(Default)]
    pub struct BundleFeatures: "bundle_features" {
        /// How they can be done.
        pub capabilities: BundleFlags,
        /// More about it.
        pub properties: Vec<BundleFeaturesProp>,
    }
    V1_5.. => [capabilities, pad 6, properties,]
}
