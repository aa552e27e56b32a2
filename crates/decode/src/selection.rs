//! Which messages are written: by datapath id, type and transaction id.

use sluice_openflow::{DatapathId, MessageType};

/// Which messages are written and counted. Each list that is not empty restricts them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Datapath ids of the switches at one end of the connection.
    pub dpids: Vec<DatapathId>,
    /// Message types.
    pub types: Vec<MessageType>,
    /// Transaction ids.
    pub xids: Vec<u32>,
}

impl Selection {
    /// Whether messages of all switches are selected, and of connections whose datapath id is unknown.
    pub(crate) fn has_all_dpids(&self) -> bool {
        self.dpids.is_empty()
    }

    pub(crate) fn has_dpid(&self, dpid: DatapathId) -> bool {
        self.dpids.is_empty() || self.dpids.contains(&dpid)
    }

    pub(crate) fn has_type(&self, message_type: MessageType) -> bool {
        self.types.is_empty() || self.types.contains(&message_type)
    }

    pub(crate) fn has_xid(&self, xid: u32) -> bool {
        self.xids.is_empty() || self.xids.contains(&xid)
    }
}
