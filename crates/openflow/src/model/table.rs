//! Tables: how they are set, what they counted. §7.3.3, §7.3.5.4.

use super::codec::ListItem;
use super::codec::versions::{V1_0, V1_1, V1_2, V1_3, V1_4};
use super::rows::{choice, codes, flags, record, tlv};
use super::table_bitmaps::{TableActions, TableFields, TableFields32, TableInstructions};
use super::value::FixedString;

flags! {
    /// `OFPTC_*`: how a table is set.
    pub struct TableConfig(u32);
    TABLE_MISS_CONTINUE = 1, V1_1..=V1_2, "What matches nothing goes on in the next table.";
    TABLE_MISS_DROP = 2, V1_1..=V1_2, "What matches nothing is dropped.";
    EVICTION = 4, V1_4, "Rules make room for others.";
    VACANCY_EVENTS = 8, V1_4, "The controller is told how full it is.";
}

flags! {
    /// `OFPTMPEF_*`: by what the rules are chosen that make room. OpenFlow 1.4.0 §7.3.4.
    pub struct EvictionFlags(u32);
    OTHER = 1, V1_4, "By something else.";
    IMPORTANCE = 2, V1_4, "By their importance.";
    LIFETIME = 4, V1_4, "By the time they have left.";
}

choice! {
    /// How a table is set, more of it. OpenFlow 1.4.0 §7.3.4.
    pub enum TableModProp: "table_mod property" {
        /// Which rules make room.
        Eviction "eviction" {
            /// By what they are chosen.
            flags: EvictionFlags,
        } = { V1_4.. => 2 [flags,] };
        /// When the controller is told how full the table is.
        Vacancy "vacancy" {
            /// Below this much room, percent.
            vacancy_down: u8,
            /// And above this much again, percent.
            vacancy_up: u8,
            /// Room now, percent; not in a `TABLE_MOD`.
            vacancy: u8,
        } = { V1_4.. => 3 [vacancy_down, vacancy_up, vacancy, pad 1,] };
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

tlv!(TableModProp, Outside, Property);

record! {
    /// Sets a table. §7.3.3.
    #[derive(Default)]
    pub struct TableMod: "table_mod" {
        /// Which; 255 for all.
        pub table_id: u8,
        /// How.
        pub config: TableConfig,
        /// More.
        pub properties: Vec<TableModProp>,
    }
    V1_1..=V1_3 => [table_id, pad 3, config,]
    V1_4.. => [table_id, pad 3, config, properties,]
}

record! {
    /// How a table is set. OpenFlow 1.4.0 §7.3.5.16.
    #[derive(Default)]
    pub struct TableDesc: "table_desc" {
        /// Which.
        pub table_id: u8,
        /// How.
        pub config: TableConfig,
        /// More.
        pub properties: Vec<TableModProp>,
    }
    V1_4.. => [length, table_id, pad 1, config, properties,]
}

impl ListItem for TableDesc {}

codes! {
    /// `OFPTR_*`: what became of a table.
    pub struct TableReason(u8);
    VACANCY_DOWN = 3, V1_4, "It has less room than it should have.";
    VACANCY_UP = 4, V1_4, "It has room again.";
}

record! {
    /// What became of which table. OpenFlow 1.4.0 §7.4.5.
    #[derive(Default)]
    pub struct TableStatus: "table_status" {
        /// What.
        pub reason: TableReason,
        /// Of which, as it is now.
        pub table: TableDesc,
    }
    V1_4.. => [reason, pad 7, table,]
}

record! {
    /// Counters of one table and, before 1.3, what it can do. §7.3.5.4.
    ///
    /// Since 1.3 it is [`TableFeatures`](super::TableFeatures) that tells what it can do.
    #[derive(Default)]
    pub struct TableStats: "table_stats" {
        /// Which.
        pub table_id: u8,
        /// Its name.
        pub name: FixedString<32>,
        /// Fields that it can match; `match` in the specification.
        pub match_fields: TableFields,
        /// Fields that may be left out.
        pub wildcards: TableFields,
        /// Actions that rules may write.
        pub write_actions: TableActions,
        /// Actions that rules may apply.
        pub apply_actions: TableActions,
        /// Fields that rules may set by actions they write.
        pub write_setfields: TableFields,
        /// Fields that rules may set by actions they apply.
        pub apply_setfields: TableFields,
        /// Bits of the metadata that it can match.
        pub metadata_match: u64,
        /// Bits of the metadata that rules may write.
        pub metadata_write: u64,
        /// Instructions that rules may have.
        pub instructions: TableInstructions,
        /// How it is set.
        pub config: TableConfig,
        /// Rules that it can hold.
        pub max_entries: u32,
        /// Rules in it.
        pub active_count: u32,
        /// Packets that came to it.
        pub lookup_count: u64,
        /// Packets that matched a rule.
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
