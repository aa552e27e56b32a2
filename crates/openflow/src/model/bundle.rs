//! Bundles: requests that are applied together or not at all; and forwarded requests of other controllers. OpenFlow
//! 1.4.0 §7.3.9, §7.4.6.

use super::codec::Codec;
use super::codec::versions::*;
use super::message::Message;
use super::reader::Reader;
use super::rows::{choice, codes, flags, record, tlv};
use super::value::{Entries, NeutralForm, Value, ValueError};
use crate::error::ErrorContext;
use crate::raw_message::HEADER_LEN;
use crate::{EncodeError, Encoder, Expected, MessageType, ParseErrorKind, Result, Version};

codes! {
    /// `OFPBCT_*`: type of a [`BundleControl`]. OpenFlow 1.4.0 §7.3.9.2.
    pub struct BundleCtrlType(u16);
    OPEN_REQUEST = 0, V1_3, "Open a bundle.";
    OPEN_REPLY = 1, V1_3, "The bundle is open.";
    CLOSE_REQUEST = 2, V1_3, "Close the bundle: nothing more is added.";
    CLOSE_REPLY = 3, V1_3, "The bundle is closed.";
    COMMIT_REQUEST = 4, V1_3, "Apply the bundle.";
    COMMIT_REPLY = 5, V1_3, "The bundle was applied.";
    DISCARD_REQUEST = 6, V1_3, "Discard the bundle.";
    DISCARD_REPLY = 7, V1_3, "The bundle was discarded.";
}

flags! {
    /// `OFPBF_*`: how a bundle is applied. OpenFlow 1.4.0 §7.3.9.2.
    pub struct BundleFlags(u32 as u16);
    ATOMIC = 1, V1_3, "Packets are processed either by none or by all of the changes.";
    ORDERED = 2, V1_3, "Requests are applied in the order in which they were added.";
    TIME = 4, V1_5, "The bundle is applied at a scheduled time.";
}

record! {
    /// `ofp_time`: a point in time, or an interval. OpenFlow 1.5.0 §7.3.9.
    #[derive(Default)]
    pub struct BundleTime: "time" {
        /// Seconds; of a point in time, since the epoch of International Atomic Time, 1970-01-01.
        pub seconds: u64,
        /// Additional nanoseconds.
        pub nanoseconds: u32,
    }
    V1_3.. => [seconds, nanoseconds, pad 4,]
}

choice! {
    /// Property of a bundle message. OpenFlow 1.4.0 §7.3.9.
    pub enum BundleProp: "bundle property" {
        /// Schedules the commit. OpenFlow 1.5.0 §7.3.9.
        Time "time" {
            /// When to apply the bundle.
            scheduled_time: BundleTime,
        } = { V1_5.. => 1 [pad 4, scheduled_time,] };
        /// Experimenter property.
        Experimenter "experimenter" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined type.
            exp_type: u32,
            /// Experimenter-defined data.
            data: Vec<u8>,
        } = { V1_3.. => 0xffff [experimenter, exp_type, data,] };
    }
}

tlv!(BundleProp, Outside, Property);

record! {
    /// Opens, closes, commits or discards a bundle. OpenFlow 1.4.0 §7.3.9.2; an ONF extension in 1.3.
    #[derive(Default)]
    pub struct BundleControl: "bundle_control" {
        /// Bundle number, chosen by the controller.
        pub bundle_id: u32,
        /// What to do with the bundle. `type` in the specification.
        pub ctrl_type: BundleCtrlType,
        /// How the bundle is applied.
        pub flags: BundleFlags,
        /// Properties.
        pub properties: Vec<BundleProp>,
    }
    V1_3.. => [bundle_id, ctrl_type, flags, properties,]
}

/// A complete message inside another one, of the same version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddedMessage {
    /// Transaction ID; in a bundle, that of the enclosing message.
    pub xid: u32,
    /// The message.
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
        let len = usize::from(head.u16("message")?);
        let xid = head.u32("message")?;
        if Version(version) != r.version() {
            let error = r.error("message", ParseErrorKind::Version);
            let expected = Expected::Exactly(r.version().0.into());
            return Err(error.with_value(version.into(), expected));
        }
        let wrong = |expected| r.length_error(start, "message", len, expected);
        let too_short = || wrong(Expected::AtLeast(8));
        let too_long = |_| wrong(Expected::saturating(Expected::AtMost, r.len()));
        let body_len = len.checked_sub(HEADER_LEN).ok_or_else(too_short)?;
        let body = &mut head.sub("message", body_len).map_err(too_long)?;
        let message = Message::parse_in(body, MessageType::from_wire(r.version(), byte))?;
        r.take("message", len)?;
        Ok(Self { xid, message: Box::new(message) })
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        self.message.encode(self.xid, out)
    }
}

impl NeutralForm for EmbeddedMessage {
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
    /// Adds a request to a bundle. OpenFlow 1.4.0 §7.3.9.6; an ONF extension in 1.3.
    #[derive(Default)]
    pub struct BundleAddMessage: "bundle_add_message" {
        /// Bundle number, chosen by the controller.
        pub bundle_id: u32,
        /// How the bundle is applied.
        pub flags: BundleFlags,
        /// The request.
        pub message: EmbeddedMessage,
        /// Properties.
        pub properties: Vec<BundleProp>,
    }
    V1_3.. => [bundle_id, pad 2, flags, message, align before properties,]
}

flags! {
    /// `OFPBF_*`: flags of a [`BundleFeaturesRequest`]. OpenFlow 1.5.0 §7.3.5.
    pub struct BundleFeatureFlags(u32);
    TIMESTAMP = 1, V1_5, "The request contains the sender's time.";
    TIME_SET_SCHED = 2, V1_5, "The request sets the limits of scheduled times.";
}

choice! {
    /// Property of bundle features. OpenFlow 1.5.0 §7.3.5.
    pub enum BundleFeaturesProp: "bundle features property" {
        /// Scheduled bundles.
        TimeCapability "time_capability" {
            /// Accuracy of scheduled times.
            sched_accuracy: BundleTime,
            /// Maximum interval into the future.
            sched_max_future: BundleTime,
            /// Maximum interval into the past.
            sched_max_past: BundleTime,
            /// Current time.
            timestamp: BundleTime,
        } = { V1_5.. => 1 [pad 4, sched_accuracy, sched_max_future, sched_max_past, timestamp,] };
        /// Experimenter property.
        Experimenter "experimenter" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined type.
            exp_type: u32,
            /// Experimenter-defined data.
            data: Vec<u8>,
        } = { V1_5.. => 0xffff [experimenter, exp_type, data,] };
    }
}

tlv!(BundleFeaturesProp, Outside, Property);

record! {
    /// Requests which bundles a switch supports. OpenFlow 1.5.0 §7.3.5.
    #[derive(Default)]
    pub struct BundleFeaturesRequest: "bundle_features" {
        /// What the request contains.
        pub feature_request_flags: BundleFeatureFlags,
        /// Properties.
        pub properties: Vec<BundleFeaturesProp>,
    }
    V1_5.. => [feature_request_flags, pad 4, properties,]
}

record! {
    /// Bundles that a switch supports. OpenFlow 1.5.0 §7.3.5.
    #[derive(Default)]
    pub struct BundleFeatures: "bundle_features" {
        /// Supported flags.
        pub capabilities: BundleFlags,
        /// Properties.
        pub properties: Vec<BundleFeaturesProp>,
    }
    V1_5.. => [capabilities, pad 6, properties,]
}
