//! The table of errors: one row each, with the numbers in every version. §7.4.4.
//!
//! OpenFlow 1.0.0 §5.4.4, 1.1.0 and 1.2.0 §A.4.4, 1.3.5 §7.4.4, 1.4.0 and 1.5.0 §7.5.4; Nicira and ONF errors from
//! Open vSwitch, `ofp-errors.h`.

use super::codec::versions::*;
use super::errors::{ErrorNumbers, ErrorReason, ErrorRow, ErrorType, nx, nx10, of, onf};

/// A row: type, number in the newest version, name, `[older names]`, `{ numbers by version }`.
macro_rules! rows {
    ($($kind:ident $n:literal $name:literal $([$($old:pat => $old_name:literal),*])? { $($versions:pat => $form:expr),* };)*) => {
        &[$(ErrorRow::new(
            rows!(@reason $kind $n),
            $name,
            |version| rows!(@old_name version $($($old => $old_name,)*)?),
            |version| rows!(@form version $($versions => $form,)*),
        )),*]
    };
    (@reason NICIRA $n:literal) => { ErrorReason::nicira($n) };
    (@reason $kind:ident $n:literal) => { ErrorReason::standard(ErrorType::$kind, $n) };
    (@old_name $version:ident) => {{
        let _: u8 = $version;
        None
    }};
    (@old_name $version:ident $($old:pat => $old_name:literal,)+) => {
        match $version { $($old => Some($old_name),)+ _ => None }
    };
    (@form $version:ident $($versions:pat => $form:expr,)+) => {{
        let form: ErrorNumbers = match $version { $($versions => $form,)+ _ => return None };
        Some(form)
    }};
}

/// By type and code; errors that only Nicira defines come last.
pub(super) const ROWS: &[ErrorRow] = rows! {
    HELLO_FAILED 0 "INCOMPATIBLE" { V1_0.. => of(0, 0) };
    HELLO_FAILED 1 "EPERM" { V1_0.. => of(0, 1) };

    BAD_REQUEST 0 "BAD_VERSION" { V1_0.. => of(1, 0) };
    BAD_REQUEST 1 "BAD_TYPE" { V1_0.. => of(1, 1) };
    BAD_REQUEST 2 "BAD_MULTIPART" [V1_0..=V1_2 => "BAD_STAT"] { V1_0.. => of(1, 2) };
    BAD_REQUEST 3 "BAD_EXPERIMENTER" [V1_0 => "BAD_VENDOR"] { V1_0.. => of(1, 3) };
    BAD_REQUEST 4 "BAD_EXP_TYPE" [V1_0..=V1_1 => "BAD_SUBTYPE"] { V1_0.. => of(1, 4) };
    BAD_REQUEST 5 "EPERM" { V1_0.. => of(1, 5) };
    BAD_REQUEST 6 "BAD_LEN" { V1_0.. => of(1, 6) };
    BAD_REQUEST 7 "BUFFER_EMPTY" { V1_0.. => of(1, 7) };
    BAD_REQUEST 8 "BUFFER_UNKNOWN" { V1_0.. => of(1, 8) };
    BAD_REQUEST 9 "BAD_TABLE_ID" { V1_0 => nx10(1, 512), V1_1.. => of(1, 9) };
    BAD_REQUEST 10 "IS_SLAVE" { V1_2.. => of(1, 10) };
    BAD_REQUEST 11 "BAD_PORT" { V1_0..=V1_1 => nx10(1, 514), V1_2.. => of(1, 11) };
    BAD_REQUEST 12 "BAD_PACKET" { V1_2.. => of(1, 12) };
    BAD_REQUEST 13 "MULTIPART_BUFFER_OVERFLOW" { V1_3.. => of(1, 13) };
    BAD_REQUEST 14 "MULTIPART_REQUEST_TIMEOUT" { V1_3 => onf(2640), V1_4.. => of(1, 14) };
    BAD_REQUEST 15 "MULTIPART_REPLY_TIMEOUT" { V1_3 => onf(2641), V1_4.. => of(1, 15) };
    BAD_REQUEST 16 "MULTIPART_BAD_SCHED" { V1_5.. => of(1, 16) };
    BAD_REQUEST 17 "PIPELINE_FIELDS_ONLY" { V1_5.. => of(1, 17) };
    BAD_REQUEST 18 "UNKNOWN" { V1_5.. => of(1, 18) };

    BAD_ACTION 0 "BAD_TYPE" { V1_0.. => of(2, 0) };
    BAD_ACTION 1 "BAD_LEN" { V1_0.. => of(2, 1) };
    BAD_ACTION 2 "BAD_EXPERIMENTER" [V1_0 => "BAD_VENDOR"] { V1_0.. => of(2, 2) };
    BAD_ACTION 3 "BAD_EXP_TYPE" [V1_0 => "BAD_VENDOR_TYPE", V1_1 => "BAD_EXPERIMENTER_TYPE"] { V1_0.. => of(2, 3) };
    BAD_ACTION 4 "BAD_OUT_PORT" { V1_0.. => of(2, 4) };
    BAD_ACTION 5 "BAD_ARGUMENT" { V1_0.. => of(2, 5) };
    BAD_ACTION 6 "EPERM" { V1_0.. => of(2, 6) };
    BAD_ACTION 7 "TOO_MANY" { V1_0.. => of(2, 7) };
    BAD_ACTION 8 "BAD_QUEUE" { V1_0.. => of(2, 8) };
    BAD_ACTION 9 "BAD_OUT_GROUP" { V1_0 => nx10(2, 9), V1_1.. => of(2, 9) };
    BAD_ACTION 10 "MATCH_INCONSISTENT" { V1_0 => nx10(1, 522), V1_1.. => of(2, 10) };
    BAD_ACTION 11 "UNSUPPORTED_ORDER" { V1_1.. => of(2, 11) };
    BAD_ACTION 12 "BAD_TAG" { V1_1.. => of(2, 12) };
    BAD_ACTION 13 "BAD_SET_TYPE" { V1_0..=V1_1 => nx10(1, 523), V1_2.. => of(2, 13) };
    BAD_ACTION 14 "BAD_SET_LEN" { V1_0..=V1_1 => nx10(1, 524), V1_2.. => of(2, 14) };
    BAD_ACTION 15 "BAD_SET_ARGUMENT" { V1_0..=V1_1 => nx10(1, 525), V1_2.. => of(2, 15) };
    BAD_ACTION 16 "BAD_SET_MASK" { V1_3..=V1_4 => onf(4250), V1_5.. => of(2, 16) };
    BAD_ACTION 17 "BAD_METER" { V1_5.. => of(2, 17) };

    BAD_INSTRUCTION 0 "UNKNOWN_INST" { V1_1.. => of(3, 0) };
    BAD_INSTRUCTION 1 "UNSUP_INST" { V1_0 => nx10(2, 257), V1_1.. => of(3, 1) };
    BAD_INSTRUCTION 2 "BAD_TABLE_ID" { V1_1.. => of(3, 2) };
    BAD_INSTRUCTION 3 "UNSUP_METADATA" { V1_1.. => of(3, 3) };
    BAD_INSTRUCTION 4 "UNSUP_METADATA_MASK" { V1_1.. => of(3, 4) };
    BAD_INSTRUCTION 5 "BAD_EXPERIMENTER" [V1_1 => "UNSUP_EXP_INST"] { V1_1.. => of(3, 5) };
    BAD_INSTRUCTION 6 "BAD_EXP_TYPE" { V1_2.. => of(3, 6) };
    BAD_INSTRUCTION 7 "BAD_LEN" { V1_2.. => of(3, 7) };
    BAD_INSTRUCTION 8 "EPERM" { V1_2.. => of(3, 8) };
    BAD_INSTRUCTION 9 "DUP_INST" { V1_1 => nx10(3, 256), V1_2..=V1_3 => onf(2600), V1_4.. => of(3, 9) };

    BAD_MATCH 0 "BAD_TYPE" { V1_1.. => of(4, 0) };
    BAD_MATCH 1 "BAD_LEN" { V1_1.. => of(4, 1) };
    BAD_MATCH 2 "BAD_TAG" { V1_1.. => of(4, 2) };
    BAD_MATCH 3 "BAD_DL_ADDR_MASK" { V1_1.. => of(4, 3) };
    BAD_MATCH 4 "BAD_NW_ADDR_MASK" { V1_1.. => of(4, 4) };
    BAD_MATCH 5 "BAD_WILDCARDS" { V1_0 => nx10(1, 262), V1_1.. => of(4, 5) };
    BAD_MATCH 6 "BAD_FIELD" { V1_0 => nx10(0, 263), V1_1.. => of(4, 6) };
    BAD_MATCH 7 "BAD_VALUE" { V1_0 => nx10(1, 258), V1_1.. => of(4, 7) };
    BAD_MATCH 8 "BAD_MASK" { V1_0..=V1_1 => nx10(1, 259), V1_2.. => of(4, 8) };
    BAD_MATCH 9 "BAD_PREREQ" { V1_0..=V1_1 => nx10(1, 260), V1_2.. => of(4, 9) };
    BAD_MATCH 10 "DUP_FIELD" { V1_0..=V1_1 => nx10(1, 261), V1_2.. => of(4, 10) };
    BAD_MATCH 11 "EPERM" { V1_2.. => of(4, 11) };

    FLOW_MOD_FAILED 0 "UNKNOWN" { V1_1.. => of(5, 0) };
    FLOW_MOD_FAILED 1 "TABLE_FULL" [V1_0 => "ALL_TABLES_FULL"] { V1_0 => of(3, 0), V1_1.. => of(5, 1) };
    FLOW_MOD_FAILED 2 "BAD_TABLE_ID" { V1_1.. => of(5, 2) };
    FLOW_MOD_FAILED 3 "OVERLAP" { V1_0 => of(3, 1), V1_1.. => of(5, 3) };
    FLOW_MOD_FAILED 4 "EPERM" { V1_0 => of(3, 2), V1_1.. => of(5, 4) };
    FLOW_MOD_FAILED 5 "BAD_TIMEOUT" { V1_1.. => of(5, 5) };
    FLOW_MOD_FAILED 6 "BAD_COMMAND" { V1_0 => of(3, 4), V1_1.. => of(5, 6) };
    FLOW_MOD_FAILED 7 "BAD_FLAGS" { V1_0 => nx10(3, 258), V1_1 => nx10(5, 258), V1_2.. => of(5, 7) };
    FLOW_MOD_FAILED 8 "CANT_SYNC" { V1_4.. => of(5, 8) };
    FLOW_MOD_FAILED 9 "BAD_PRIORITY" { V1_3 => onf(2360), V1_4.. => of(5, 9) };
    FLOW_MOD_FAILED 10 "IS_SYNC" { V1_5.. => of(5, 10) };
    FLOW_MOD_FAILED 0x10003 "BAD_EMERG_TIMEOUT" { V1_0 => of(3, 3) };
    FLOW_MOD_FAILED 0x10005 "UNSUPPORTED" { V1_0 => of(3, 5) };

    GROUP_MOD_FAILED 0 "GROUP_EXISTS" { V1_0 => nx10(6, 0), V1_1.. => of(6, 0) };
    GROUP_MOD_FAILED 1 "INVALID_GROUP" { V1_0 => nx10(6, 1), V1_1.. => of(6, 1) };
    GROUP_MOD_FAILED 2 "WEIGHT_UNSUPPORTED" { V1_0 => nx10(6, 2), V1_1.. => of(6, 2) };
    GROUP_MOD_FAILED 3 "OUT_OF_GROUPS" { V1_0 => nx10(6, 3), V1_1.. => of(6, 3) };
    GROUP_MOD_FAILED 4 "OUT_OF_BUCKETS" { V1_0 => nx10(6, 4), V1_1.. => of(6, 4) };
    GROUP_MOD_FAILED 5 "CHAINING_UNSUPPORTED" { V1_0 => nx10(6, 5), V1_1.. => of(6, 5) };
    GROUP_MOD_FAILED 6 "WATCH_UNSUPPORTED" { V1_0 => nx10(6, 6), V1_1.. => of(6, 6) };
    GROUP_MOD_FAILED 7 "LOOP" { V1_0 => nx10(6, 7), V1_1.. => of(6, 7) };
    GROUP_MOD_FAILED 8 "UNKNOWN_GROUP" { V1_0 => nx10(6, 8), V1_1.. => of(6, 8) };
    GROUP_MOD_FAILED 9 "CHAINED_GROUP" { V1_0 => nx10(6, 9), V1_2.. => of(6, 9) };
    GROUP_MOD_FAILED 10 "BAD_TYPE" { V1_0 => nx10(6, 10), V1_2.. => of(6, 10) };
    GROUP_MOD_FAILED 11 "BAD_COMMAND" { V1_0 => nx10(6, 11), V1_2.. => of(6, 11) };
    GROUP_MOD_FAILED 12 "BAD_BUCKET" { V1_0 => nx10(6, 12), V1_2.. => of(6, 12) };
    GROUP_MOD_FAILED 13 "BAD_WATCH" { V1_0 => nx10(6, 13), V1_2.. => of(6, 13) };
    GROUP_MOD_FAILED 14 "EPERM" { V1_0 => nx10(6, 14), V1_2.. => of(6, 14) };
    GROUP_MOD_FAILED 15 "UNKNOWN_BUCKET" { V1_0 => nx10(6, 15), V1_5.. => of(6, 15) };
    GROUP_MOD_FAILED 16 "BUCKET_EXISTS" { V1_0 => nx10(6, 16), V1_5.. => of(6, 16) };

    PORT_MOD_FAILED 0 "BAD_PORT" { V1_0 => of(4, 0), V1_1.. => of(7, 0) };
    PORT_MOD_FAILED 1 "BAD_HW_ADDR" { V1_0 => of(4, 1), V1_1.. => of(7, 1) };
    PORT_MOD_FAILED 2 "BAD_CONFIG" { V1_1.. => of(7, 2) };
    PORT_MOD_FAILED 3 "BAD_ADVERTISE" { V1_1.. => of(7, 3) };
    PORT_MOD_FAILED 4 "EPERM" { V1_2.. => of(7, 4) };

    TABLE_MOD_FAILED 0 "BAD_TABLE" { V1_1.. => of(8, 0) };
    TABLE_MOD_FAILED 1 "BAD_CONFIG" { V1_1.. => of(8, 1) };
    TABLE_MOD_FAILED 2 "EPERM" { V1_2.. => of(8, 2) };

    QUEUE_OP_FAILED 0 "BAD_PORT" { V1_0 => of(5, 0), V1_1.. => of(9, 0) };
    QUEUE_OP_FAILED 1 "BAD_QUEUE" { V1_0 => of(5, 1), V1_1.. => of(9, 1) };
    QUEUE_OP_FAILED 2 "EPERM" { V1_0 => of(5, 2), V1_1.. => of(9, 2) };

    SWITCH_CONFIG_FAILED 0 "BAD_FLAGS" { V1_1.. => of(10, 0) };
    SWITCH_CONFIG_FAILED 1 "BAD_LEN" { V1_1.. => of(10, 1) };
    SWITCH_CONFIG_FAILED 2 "EPERM" { V1_2.. => of(10, 2) };

    ROLE_REQUEST_FAILED 0 "STALE" { V1_2.. => of(11, 0) };
    ROLE_REQUEST_FAILED 1 "UNSUP" { V1_2.. => of(11, 1) };
    ROLE_REQUEST_FAILED 2 "BAD_ROLE" { V1_0..=V1_1 => nx10(1, 513), V1_2.. => of(11, 2) };
    ROLE_REQUEST_FAILED 3 "ID_UNSUP" { V1_5.. => of(11, 3) };
    ROLE_REQUEST_FAILED 4 "ID_IN_USE" { V1_5.. => of(11, 4) };

    METER_MOD_FAILED 0 "UNKNOWN" { V1_3.. => of(12, 0) };
    METER_MOD_FAILED 1 "METER_EXISTS" { V1_3.. => of(12, 1) };
    METER_MOD_FAILED 2 "INVALID_METER" { V1_3.. => of(12, 2) };
    METER_MOD_FAILED 3 "UNKNOWN_METER" { V1_3.. => of(12, 3) };
    METER_MOD_FAILED 4 "BAD_COMMAND" { V1_3.. => of(12, 4) };
    METER_MOD_FAILED 5 "BAD_FLAGS" { V1_3.. => of(12, 5) };
    METER_MOD_FAILED 6 "BAD_RATE" { V1_3.. => of(12, 6) };
    METER_MOD_FAILED 7 "BAD_BURST" { V1_3.. => of(12, 7) };
    METER_MOD_FAILED 8 "BAD_BAND" { V1_3.. => of(12, 8) };
    METER_MOD_FAILED 9 "BAD_BAND_VALUE" { V1_3.. => of(12, 9) };
    METER_MOD_FAILED 10 "OUT_OF_METERS" { V1_3.. => of(12, 10) };
    METER_MOD_FAILED 11 "OUT_OF_BANDS" { V1_3.. => of(12, 11) };

    TABLE_FEATURES_FAILED 0 "BAD_TABLE" { V1_3.. => of(13, 0) };
    TABLE_FEATURES_FAILED 1 "BAD_METADATA" { V1_3.. => of(13, 1) };
    TABLE_FEATURES_FAILED 2 "BAD_TYPE" { V1_3 => of(13, 2) };
    TABLE_FEATURES_FAILED 3 "BAD_LEN" { V1_3 => of(13, 3) };
    TABLE_FEATURES_FAILED 4 "BAD_ARGUMENT" { V1_3 => of(13, 4) };
    TABLE_FEATURES_FAILED 5 "EPERM" { V1_3.. => of(13, 5) };
    TABLE_FEATURES_FAILED 6 "BAD_CAPA" { V1_5.. => of(13, 6) };
    TABLE_FEATURES_FAILED 7 "BAD_MAX_ENT" { V1_5.. => of(13, 7) };
    TABLE_FEATURES_FAILED 8 "BAD_FEATURES" { V1_5.. => of(13, 8) };
    TABLE_FEATURES_FAILED 9 "BAD_COMMAND" { V1_5.. => of(13, 9) };
    TABLE_FEATURES_FAILED 10 "TOO_MANY" { V1_5.. => of(13, 10) };

    BAD_PROPERTY 0 "BAD_TYPE" { V1_0..=V1_1 => nx10(13, 2), V1_2 => nx(25), V1_4.. => of(14, 0) };
    BAD_PROPERTY 1 "BAD_LEN" { V1_0..=V1_1 => nx10(13, 3), V1_2 => nx(26), V1_4.. => of(14, 1) };
    BAD_PROPERTY 2 "BAD_VALUE" { V1_0..=V1_1 => nx10(13, 4), V1_2 => nx(27), V1_4.. => of(14, 2) };
    BAD_PROPERTY 3 "TOO_MANY" { V1_0..=V1_1 => nx10(14, 3), V1_2 => nx(28), V1_3 => onf(4443), V1_4.. => of(14, 3) };
    BAD_PROPERTY 4 "DUP_TYPE" { V1_0..=V1_1 => nx10(14, 4), V1_2 => nx(29), V1_3 => onf(4444), V1_4.. => of(14, 4) };
    BAD_PROPERTY 5 "BAD_EXPERIMENTER" { V1_0..=V1_1 => nx10(14, 5), V1_2 => nx(30), V1_3 => onf(4445), V1_4.. => of(14, 5) };
    BAD_PROPERTY 6 "BAD_EXP_TYPE" { V1_0..=V1_1 => nx10(14, 6), V1_2 => nx(31), V1_3 => onf(4446), V1_4.. => of(14, 6) };
    BAD_PROPERTY 7 "BAD_EXP_VALUE" { V1_0..=V1_1 => nx10(14, 7), V1_2 => nx(32), V1_3 => onf(4447), V1_4.. => of(14, 7) };
    BAD_PROPERTY 8 "EPERM" { V1_0..=V1_1 => nx10(14, 8), V1_2 => nx(33), V1_3 => onf(4448), V1_4.. => of(14, 8) };

    ASYNC_CONFIG_FAILED 0 "INVALID" { V1_3 => onf(2370), V1_4.. => of(15, 0) };
    ASYNC_CONFIG_FAILED 1 "UNSUPPORTED" { V1_3 => onf(2371), V1_4.. => of(15, 1) };
    ASYNC_CONFIG_FAILED 2 "EPERM" { V1_3 => onf(2372), V1_4.. => of(15, 2) };

    FLOW_MONITOR_FAILED 0 "UNKNOWN" { V1_4.. => of(16, 0) };
    FLOW_MONITOR_FAILED 1 "MONITOR_EXISTS" { V1_0..=V1_1 => nx10(1, 517), V1_2..=V1_3 => nx(6), V1_4.. => of(16, 1) };
    FLOW_MONITOR_FAILED 2 "INVALID_MONITOR" { V1_4.. => of(16, 2) };
    FLOW_MONITOR_FAILED 3 "UNKNOWN_MONITOR" { V1_0..=V1_1 => nx10(1, 519), V1_2..=V1_3 => nx(8), V1_4.. => of(16, 3) };
    FLOW_MONITOR_FAILED 4 "BAD_COMMAND" { V1_4.. => of(16, 4) };
    FLOW_MONITOR_FAILED 5 "BAD_FLAGS" { V1_0..=V1_1 => nx10(1, 518), V1_2..=V1_3 => nx(7), V1_4.. => of(16, 5) };
    FLOW_MONITOR_FAILED 6 "BAD_TABLE_ID" { V1_4.. => of(16, 6) };
    FLOW_MONITOR_FAILED 7 "BAD_OUT" { V1_4.. => of(16, 7) };

    BUNDLE_FAILED 0 "UNKNOWN" { V1_3 => onf(2300), V1_4.. => of(17, 0) };
    BUNDLE_FAILED 1 "EPERM" { V1_3 => onf(2301), V1_4.. => of(17, 1) };
    BUNDLE_FAILED 2 "BAD_ID" { V1_3 => onf(2302), V1_4.. => of(17, 2) };
    BUNDLE_FAILED 3 "BUNDLE_EXIST" { V1_3 => onf(2303), V1_4.. => of(17, 3) };
    BUNDLE_FAILED 4 "BUNDLE_CLOSED" { V1_3 => onf(2304), V1_4.. => of(17, 4) };
    BUNDLE_FAILED 5 "OUT_OF_BUNDLES" { V1_3 => onf(2305), V1_4.. => of(17, 5) };
    BUNDLE_FAILED 6 "BAD_TYPE" { V1_3 => onf(2306), V1_4.. => of(17, 6) };
    BUNDLE_FAILED 7 "BAD_FLAGS" { V1_3 => onf(2307), V1_4.. => of(17, 7) };
    BUNDLE_FAILED 8 "MSG_BAD_LEN" { V1_3 => onf(2308), V1_4.. => of(17, 8) };
    BUNDLE_FAILED 9 "MSG_BAD_XID" { V1_3 => onf(2309), V1_4.. => of(17, 9) };
    BUNDLE_FAILED 10 "MSG_UNSUP" { V1_3 => onf(2310), V1_4.. => of(17, 10) };
    BUNDLE_FAILED 11 "MSG_CONFLICT" { V1_3 => onf(2311), V1_4.. => of(17, 11) };
    BUNDLE_FAILED 12 "MSG_TOO_MANY" { V1_3 => onf(2312), V1_4.. => of(17, 12) };
    BUNDLE_FAILED 13 "MSG_FAILED" { V1_3 => onf(2313), V1_4.. => of(17, 13) };
    BUNDLE_FAILED 14 "TIMEOUT" { V1_3 => onf(2314), V1_4.. => of(17, 14) };
    BUNDLE_FAILED 15 "BUNDLE_IN_PROGRESS" { V1_3 => onf(2315), V1_4.. => of(17, 15) };
    BUNDLE_FAILED 16 "SCHED_NOT_SUPPORTED" { V1_5.. => of(17, 16) };
    BUNDLE_FAILED 17 "SCHED_FUTURE" { V1_5.. => of(17, 17) };
    BUNDLE_FAILED 18 "SCHED_PAST" { V1_5.. => of(17, 18) };

    NICIRA 2 "NXBRC_NXM_INVALID" { V1_0..=V1_1 => nx10(1, 256), V1_2.. => nx(2) };
    NICIRA 3 "NXBRC_NXM_BAD_TYPE" { V1_0..=V1_1 => nx10(1, 257), V1_2.. => nx(3) };
    NICIRA 4 "NXBRC_MUST_BE_ZERO" { V1_0..=V1_1 => nx10(1, 515), V1_2.. => nx(4) };
    NICIRA 5 "NXBRC_BAD_REASON" { V1_0..=V1_1 => nx10(1, 516), V1_2.. => nx(5) };
    NICIRA 9 "NXBRC_FM_BAD_EVENT" { V1_0..=V1_1 => nx10(1, 520), V1_2.. => nx(9) };
    NICIRA 10 "NXBRC_UNENCODABLE_ERROR" { V1_0..=V1_1 => nx10(1, 521), V1_2.. => nx(10) };
    NICIRA 11 "NXBAC_MUST_BE_ZERO" { V1_0..=V1_1 => nx10(2, 256), V1_2.. => nx(11) };
    NICIRA 12 "NXFMFC_HARDWARE" { V1_0..=V1_1 => nx10(5, 256), V1_2.. => nx(12) };
    NICIRA 13 "NXFMFC_BAD_TABLE_ID" { V1_0..=V1_1 => nx10(5, 257), V1_2.. => nx(13) };
    NICIRA 15 "NXBAC_BAD_CONJUNCTION" { V1_0..=V1_1 => nx10(2, 526), V1_2.. => nx(15) };
    NICIRA 16 "NXTTMFC_BAD_COMMAND" { V1_0..=V1_1 => nx10(1, 527), V1_2.. => nx(16) };
    NICIRA 17 "NXTTMFC_BAD_OPT_LEN" { V1_0..=V1_1 => nx10(1, 528), V1_2.. => nx(17) };
    NICIRA 18 "NXTTMFC_BAD_FIELD_IDX" { V1_0..=V1_1 => nx10(1, 529), V1_2.. => nx(18) };
    NICIRA 19 "NXTTMFC_TABLE_FULL" { V1_0..=V1_1 => nx10(1, 530), V1_2.. => nx(19) };
    NICIRA 20 "NXTTMFC_ALREADY_MAPPED" { V1_0..=V1_1 => nx10(1, 531), V1_2.. => nx(20) };
    NICIRA 21 "NXTTMFC_DUP_ENTRY" { V1_0..=V1_1 => nx10(1, 532), V1_2.. => nx(21) };
    NICIRA 22 "OFPBFC_BAD_VERSION" { V1_4.. => nx(22) };
    NICIRA 23 "NXQOFC_QUEUE_ERROR" { V1_4.. => nx(23) };
    NICIRA 34 "NXR_NOT_SUPPORTED" { V1_0..=V1_1 => nx10(1, 533), V1_2.. => nx(34) };
    NICIRA 35 "NXR_STALE" { V1_0..=V1_1 => nx10(1, 534), V1_2.. => nx(35) };
    NICIRA 36 "NXST_NOT_CONFIGURED" { V1_0..=V1_1 => nx10(1, 535), V1_2.. => nx(36) };
    NICIRA 37 "NXFMFC_INVALID_TLV_FIELD" { V1_0..=V1_1 => nx10(1, 536), V1_2.. => nx(37) };
    NICIRA 38 "NXTTMFC_INVALID_TLV_DEL" { V1_0..=V1_1 => nx10(1, 537), V1_2.. => nx(38) };
    NICIRA 39 "NXBAC_BAD_HEADER_TYPE" { V1_3.. => nx(39) };
    NICIRA 40 "NXBAC_UNKNOWN_ED_PROP" { V1_3.. => nx(40) };
    NICIRA 41 "NXBAC_BAD_ED_PROP" { V1_3.. => nx(41) };
    NICIRA 42 "NXBAC_CT_DATAPATH_SUPPORT" { V1_0..=V1_1 => nx10(1, 265), V1_2.. => nx(42) };
    NICIRA 43 "NXBMC_CT_DATAPATH_SUPPORT" { V1_0..=V1_1 => nx10(1, 264), V1_2.. => nx(43) };
    NICIRA 44 "NXTFFC_DUP_TABLE" { V1_3.. => nx(44) };
};
