//! The configuration of an emulated switch.

use std::time::Duration;

use sluice_openflow::{DatapathId, FieldId, FixedString, MacAddr, PortNo, TableActions, Versions};

/// Default speed of a port in kbit/s.
const SPEED_KBPS: u32 = 10_000_000;

/// The configuration of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmulatedPortConfig {
    /// Port number.
    pub port_no: PortNo,
    /// MAC address.
    pub hw_addr: MacAddr,
    /// Name, cut at 16 bytes.
    pub name: FixedString<16>,
    /// Advertised speed in kbit/s; it does not limit traffic.
    pub speed_kbps: u32,
}

/// What an emulated switch is and supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmulatedSwitchConfig {
    /// Datapath id.
    pub datapath_id: DatapathId,
    /// Description of the datapath, which controllers show as its name.
    pub name: String,
    /// The ports; if two have the same number, the later one is used.
    pub ports: Vec<EmulatedPortConfig>,
    /// OpenFlow versions that are offered.
    pub versions: Versions,
    /// Number of flow tables, 1 to 254. A session of 1.0 uses only the first.
    pub n_tables: u8,
    /// Most flow entries in one table; further ones are rejected with `TABLE_FULL`.
    pub table_entries_max: usize,
    /// Whether flow-mods with a priority other than 0 are counted and otherwise ignored, so that every packet without another
    /// entry is a table miss: for loads in which the tables would cost more than everything else.
    pub keeps_only_table_miss: bool,
    /// Packets that can be buffered for the controller; 0 for none. While the buffer is full, a `PACKET_IN` contains
    /// the whole packet.
    pub n_buffers: usize,
    /// How long a packet stays buffered before it is discarded.
    pub buffer_timeout: Duration,
    /// Most bytes that may wait to be sent to the controller. Above it, packet-ins are dropped and nothing is buffered.
    /// Open vSwitch queues about a hundred `PACKET_IN`s in addition to the kernel's buffers.
    pub tx_backlog_max: usize,
    /// Bytes of a buffered packet in its `PACKET_IN`, until the controller sets another value.
    pub miss_send_len: u16,
    /// Whether further packets of a flow are buffered, instead of causing packet-ins, until the first one is answered.
    /// If the buffer is full, they cause packet-ins as usual.
    pub flow_buffering: bool,
    /// Most groups.
    pub groups_max: usize,
    /// Most buckets of a group.
    pub buckets_max: usize,
    /// Most meters; 0 for a switch without meters.
    pub meters_max: u32,
    /// Fields that cannot be matched.
    pub unsupported_fields: Vec<FieldId>,
    /// Fields that cannot be set.
    pub unsupported_set_fields: Vec<FieldId>,
    /// Actions that are not supported.
    pub unsupported_actions: TableActions,
}

impl EmulatedPortConfig {
    /// A port of 10 Gbit/s with a MAC address and a name derived from its number.
    pub fn numbered(datapath_id: DatapathId, n: u16) -> Self {
        let addr = 0x0600_0000_0000 | (datapath_id.0 & 0xff_ffff) << 16 | u64::from(n);
        Self {
            port_no: PortNo(n.into()),
            hw_addr: MacAddr::from_u64(addr),
            name: format!("port{n}").as_str().into(),
            speed_kbps: SPEED_KBPS,
        }
    }
}

impl EmulatedSwitchConfig {
    /// A default switch with ports numbered from 1.
    pub fn numbered(datapath_id: DatapathId, n_ports: u16) -> Self {
        let ports = (1..=n_ports).map(|n| EmulatedPortConfig::numbered(datapath_id, n)).collect();
        Self { datapath_id, ports, ..Self::default() }
    }
}

impl Default for EmulatedSwitchConfig {
    /// A switch without ports that offers every version, with capacities like those of Open vSwitch.
    fn default() -> Self {
        Self {
            datapath_id: DatapathId(1),
            name: "emulated switch".to_owned(),
            ports: vec![],
            versions: Versions::SUPPORTED,
            n_tables: 8,
            table_entries_max: 65_536,
            keeps_only_table_miss: false,
            n_buffers: 256,
            buffer_timeout: Duration::from_secs(5),
            tx_backlog_max: usize::MAX,
            miss_send_len: 128,
            flow_buffering: false,
            groups_max: 1024,
            buckets_max: 256,
            meters_max: 1024,
            unsupported_fields: vec![],
            unsupported_set_fields: vec![],
            unsupported_actions: TableActions::default(),
        }
    }
}
