//! Flow tables: configuration, counters, notifications. §7.3.3, §7.3.5.4.

use super::codec::ListItem;
use super::codec::versions::{V1_0, V1_1, V1_2, V1_3, V1_4};
use super::rows::{choice, codes, flags, record, tlv};
use super::table_bitmaps::{TableActions, TableFields, TableFields32, TableInstructions};
use super::value::FixedString;

flags! {
    /// `OFPTC_*`: configuration of a table. §7.3.3.
    ///
    /// Since 1.3 a table-miss flow entry says what happens to packets without a match. All versions from 1.3 to 1.5 reserve
    /// the two bits that said so before, as `OFPTC_DEPRECATED_MASK`, so they keep their names: they cannot mean anything else.
    pub struct TableConfig(u64 as u32);
    TABLE_MISS_CONTINUE = 1, V1_1, "Packets without a match continue in the next table. Without effect since 1.3.";
    TABLE_MISS_DROP = 2, V1_1, "Packets without a match are dropped. Without effect since 1.3.";
    EVICTION = 4, V1_4, "Flow entries may be evicted to make room.";
    VACANCY_EVENTS = 8, V1_4, "Report changes of the vacancy.";
}

flags! {
    /// `OFPTMPEF_*`: how flow entries are selected for eviction. OpenFlow 1.4.0 §7.3.4.
    pub struct EvictionFlags(u32);
    OTHER = 1, V1_4, "By other criteria.";
    IMPORTANCE = 2, V1_4, "By importance.";
    LIFETIME = 4, V1_4, "By remaining lifetime.";
}

choice! {
    /// Property of a [`TableMod`] or [`TableDesc`]. OpenFlow 1.4.0 §7.3.4.
    pub enum TableModProp: "table_mod property" {
        /// Eviction of flow entries.
        Eviction "eviction" {
            /// How flow entries are selected.
            flags: EvictionFlags,
        } = { V1_4.. => 2 [flags,] };
        /// Vacancy events: notifications about free space in the table.
        Vacancy "vacancy" {
            /// Threshold for [`TableReason::VACANCY_DOWN`], percent of free entries.
            vacancy_down: u8,
            /// Threshold for [`TableReason::VACANCY_UP`], percent of free entries.
            vacancy_up: u8,
            /// Current vacancy, percent of free entries; 0 in a `TABLE_MOD`.
            vacancy: u8,
        } = { V1_4.. => 3 [vacancy_down, vacancy_up, vacancy, pad 1,] };
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

tlv!(TableModProp, Outside, Property);

record! {
    /// Configures a table. §7.3.3.
    #[derive(Default)]
    pub struct TableMod: "table_mod" {
        /// Table number; 255 is all tables.
        pub table_id: u8,
        /// Configuration.
        pub config: TableConfig,
        /// Properties.
        pub properties: Vec<TableModProp>,
    }
    V1_1..=V1_3 => [table_id, pad 3, config,]
    V1_4.. => [table_id, pad 3, config, properties,]
}

record! {
    /// Configuration of a table. OpenFlow 1.4.0 §7.3.5.16.
    #[derive(Default)]
    pub struct TableDesc: "table_desc" {
        /// Table number.
        pub table_id: u8,
        /// Configuration.
        pub config: TableConfig,
        /// Properties.
        pub properties: Vec<TableModProp>,
    }
    V1_4.. => [length, table_id, pad 1, config, properties,]
}

impl ListItem for TableDesc {}

codes! {
    /// `OFPTR_*`: why a [`TableStatus`] is sent. OpenFlow 1.4.0 §7.4.5.
    pub struct TableReason(u8);
    VACANCY_DOWN = 3, V1_4, "The vacancy fell below its lower threshold.";
    VACANCY_UP = 4, V1_4, "The vacancy rose above its upper threshold.";
}

record! {
    /// The vacancy of a table passed a threshold. OpenFlow 1.4.0 §7.4.5.
    #[derive(Default)]
    pub struct TableStatus: "table_status" {
        /// Why the message is sent.
        pub reason: TableReason,
        /// The table's current configuration.
        pub table: TableDesc,
    }
    V1_4.. => [reason, pad 7, table,]
}

record! {
    /// Counters of a table and, before 1.3, its capabilities. §7.3.5.4.
    ///
    /// Since 1.3 the capabilities are in [`TableFeatures`](super::TableFeatures).
    #[derive(Default)]
    pub struct TableStats: "table_stats" {
        /// Table number.
        pub table_id: u8,
        /// Table name.
        pub name: FixedString<32>,
        /// Fields that can be matched. `match` in the specification.
        pub match_fields: TableFields,
        /// Fields that can be wildcarded.
        pub wildcards: TableFields,
        /// Actions supported by `WriteActions`.
        pub write_actions: TableActions,
        /// Actions supported by `ApplyActions`.
        pub apply_actions: TableActions,
        /// Fields that `WriteActions` can set.
        pub write_setfields: TableFields,
        /// Fields that `ApplyActions` can set.
        pub apply_setfields: TableFields,
        /// Metadata bits that can be matched.
        pub metadata_match: u64,
        /// Metadata bits that can be written.
        pub metadata_write: u64,
        /// Supported instructions.
        pub instructions: TableInstructions,
        /// Configuration.
        pub config: TableConfig,
        /// Maximum number of flow entries.
        pub max_entries: u32,
        /// Number of flow entries.
        pub active_count: u32,
        /// Packets looked up.
        pub lookup_count: u64,
        /// Packets that matched a flow entry.
        pub matched_count: u64,
    }
    V1_0 => [
        table_id, pad 3, name, wildcards as TableFields32, max_entries, active_count, lookup_count,
        matched_count,
    ]
    V1_1 => [
        table_id, pad 7, name, wildcards as TableFields32, match_fields as TableFields32, instructions,
        write_actions, apply_actions, config, max_entries, active_count, lookup_count,
        matched_count,
    ]
    V1_2 => [
        table_id, pad 7, name, match_fields, wildcards, write_actions, apply_actions,
        write_setfields, apply_setfields, metadata_match, metadata_write, instructions, config,
        max_entries, active_count, lookup_count, matched_count,
    ]
    V1_3.. => [table_id, pad 3, active_count, lookup_count, matched_count,]
}

impl ListItem for TableStats {}
