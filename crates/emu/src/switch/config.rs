//! What a model switch is: plain data.

use std::time::Duration;

use sluice_openflow::{DatapathId, FieldId, FixedString, MacAddr, PortNo, TableActions, Versions};

/// Bit rate of a port that nothing else is said of, kbit/s.
const SPEED_KBPS: u32 = 10_000_000;

/// One port of a model switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmulatedPortConfig {
    /// Its number.
    pub port_no: PortNo,
    /// Its own address.
    pub hw_addr: MacAddr,
    /// Its name, cut at 16 bytes.
    pub name: FixedString<16>,
    /// Bit rate that it tells, kbit/s. Frames are not slowed down by it.
    pub speed_kbps: u32,
}

/// What a model switch is and can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmulatedSwitchConfig {
    /// Its identity.
    pub datapath_id: DatapathId,
    /// Its ports; of two with one number the later counts.
    pub ports: Vec<EmulatedPortConfig>,
    /// The versions that it offers.
    pub versions: Versions,
    /// Tables, 1 to 254. A session of 1.0 uses the first alone.
    pub n_tables: u8,
    /// Rules that one table holds; more are refused with `TABLE_FULL`.
    pub table_entries_max: usize,
    /// Packets that wait for an answer of the controller; 0 for none. When all places are taken, a `PACKET_IN` has the
    /// whole packet.
    pub n_buffers: usize,
    /// How long a packet waits for its answer before it is given up.
    pub buffer_timeout: Duration,
    /// Bytes of what it said that may wait to be sent; while there are more, no packet goes to the controller, and none
    /// waits for an answer. Open vSwitch has a hundred `PACKET_IN`s, beyond what the system takes.
    pub tx_backlog_max: usize,
    /// Bytes of a packet that go up while it waits, until the controller says otherwise.
    pub miss_send_len: u16,
    /// Whether further packets of a flow that waits for an answer wait with the first instead of going up, as long as
    /// there is room.
    pub flow_buffering: bool,
    /// Groups that there can be.
    pub groups_max: usize,
    /// Buckets that a group can have.
    pub buckets_max: usize,
    /// Meters that there can be; 0 for a switch without.
    pub meters_max: u32,
    /// Fields that it does not match.
    pub unsupported_fields: Vec<FieldId>,
    /// Fields that it does not set.
    pub unsupported_set_fields: Vec<FieldId>,
    /// Actions that it does not do.
    pub unsupported_actions: TableActions,
}

impl EmulatedPortConfig {
    /// A port of 10 Gbit/s whose address and name are made from the numbers.
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
    /// The usual switch with ports numbered from 1.
    pub fn numbered(datapath_id: DatapathId, n_ports: u16) -> Self {
        let ports = (1..=n_ports).map(|n| EmulatedPortConfig::numbered(datapath_id, n)).collect();
        Self { datapath_id, ports, ..Self::default() }
    }
}

impl Default for EmulatedSwitchConfig {
    /// A switch without ports that speaks every version, with as much room as Open vSwitch has.
    fn default() -> Self {
        Self {
            datapath_id: DatapathId(1),
            ports: vec![],
            versions: Versions::SPOKEN,
            n_tables: 8,
            table_entries_max: 65_536,
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
