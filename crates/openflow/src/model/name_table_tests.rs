//! Numbers and flags of every set survive a roundtrip in the versions that have them, and are refused by name in the others.

use std::collections::BTreeSet;
use std::fmt::Debug;

use super::codec::Codec;
use super::name_table::{NameTable, Named, NamedRow};
use super::random_values::Rng;
use super::reader::Reader;
use super::value::NeutralForm;
use super::*;
use crate::{EncodeError, Encoder, Version};

/// Calls `$check::<T>()` for each type of `codes!` and `flags!`; evaluates to their names.
macro_rules! for_each_named_type {
    ($check:ident) => {
        for_each_named_type!(@ $check ActionBits BandTypes BucketId BundleAlgorithm BundleCtrlType BundleFeatureFlags
            BundleFlags Capabilities ChannelStatus ConfigFlags ControllerStatusReason ControllerStatusReasons CtFlags
            ErrorType EvictionFlags FlowModCommand FlowModFlags FlowMonitorCommand FlowMonitorFlags FlowRemovedReason
            FlowRemovedReasons FlowStatsReason FlowStatsReasons GroupCapabilities GroupCommand GroupId GroupType
            GroupTypes HashFields LearnFlags MeterCapabilities MeterCommand MeterFeatureFlags MeterFlags MeterId
            MultipartFlags MultipathAlgorithm NatFlags NxFlowFormat NxPacketInFormat NxRole NxTlvCommand
            OpticalFeatures OpticalStatsFlags PacketInReason PacketInReasons PortConfig PortFeatures PortReason
            PortReasons PortState RequestForwardReasons Role RoleReason RoleReasons SampleDirection StatTriggerFlags
            TableActions TableConfig TableFeatureFlags TableFeaturesCommand TableFields TableInstructions TableReason
            TableReasons)
    };
    (@ $check:ident $($name:ident)*) => {{
        $( $check::<$name>(); )*
        BTreeSet::from([$( stringify!($name) ),*])
    }};
}

const VERSIONS: [Version; 6] =
    [Version::V1_0, Version::V1_1, Version::V1_2, Version::V1_3, Version::V1_4, Version::V1_5];

fn encoded(it: &impl Codec, version: Version) -> Result<Vec<u8>, EncodeError> {
    let (mut tx, mut xid) = (vec![], 1);
    it.encode(&mut Encoder::new(&mut tx, version, &mut xid)).map(|()| tx)
}

fn parsed<T: Codec>(bytes: &[u8], version: Version) -> T {
    T::parse(&mut Reader::new(version, bytes, 0)).unwrap()
}

/// `n` as it is on the wire.
fn bytes(n: u128, table: &NameTable) -> Vec<u8> {
    n.to_be_bytes()[16 - table.wire_bits as usize / 8..].to_vec()
}

/// Whether `version` has the value of `row`, perhaps under another name.
fn has_value(table: &NameTable, row: &NamedRow, version: Version) -> bool {
    let here = table.rows.iter().filter(|it| it.in_version(version).is_some());
    if table.is_flags {
        return row.value & !here.fold(0, |bits, it| bits | it.value) == 0;
    }
    here.into_iter().any(|it| it.value == row.value)
}

/// Numbers to parse: all of up to 16 bits; of larger sets those around the rows, single bits and random ones.
fn numbers(table: &NameTable) -> Vec<u128> {
    if table.wire_bits <= 16 {
        return (0..1 << table.wire_bits).collect();
    }
    let mut rng = Rng::new(1, Version::V1_3);
    let wire = table.rows.iter().flat_map(|row| row.wire).map(|span| span.2);
    let rows = table.rows.iter().map(|row| row.value).chain(wire);
    let near = rows.flat_map(|n| [n.wrapping_sub(1), n, n + 1, n | 1 << 31]);
    let bits = (0..table.wire_bits).map(|bit| 1 << bit);
    let random = std::iter::repeat_with(|| rng.bits().into()).take(2000);
    let mask = (1 << table.wire_bits) - 1;
    near.chain(bits).chain(random).map(|n: u128| n & mask).collect()
}

fn check_rows<T: Named + Codec + PartialEq + Debug>() {
    let table = T::TABLE;
    for row in table.rows {
        let it = T::from_number(row.value);
        for version in VERSIONS {
            let result = encoded(&it, version);
            if has_value(table, row, version) {
                let again: T = parsed(&result.unwrap(), version);
                assert_eq!(again, it, "{} in {version}", row.constant);
                continue;
            }
            let error = result.expect_err(row.constant);
            let text = error.to_string();
            let type_name = row.constant.split_once("::").unwrap().0;
            assert!(text.starts_with(type_name), "{text}");
            let later = VERSIONS.into_iter().find(|&v| v > version && has_value(table, row, v));
            assert_eq!((error.version, error.needs), (version, later), "{text}");
            assert!(text.contains(&version.to_string()), "{text}");
        }
    }
}

fn check_numbers<T: Named + Codec + NeutralForm + PartialEq + Debug>() {
    let table = T::TABLE;
    let numbers = numbers(table);
    for version in VERSIONS {
        // A type without room for undefined numbers occurs only in versions that have its rows.
        let is_used = table.bits > table.wire_bits
            || table.rows.iter().all(|row| row.in_version(version).is_some());
        for &n in numbers.iter().filter(|_| is_used) {
            let wire = bytes(n, table);
            let it: T = parsed(&wire, version);
            assert_eq!(encoded(&it, version).as_ref(), Ok(&wire), "{it:?} in {version}");
            let value = it.to_value(version);
            assert_eq!(T::from_value(&value, version), Ok(it), "{value:?} in {version}");
        }
    }
}

fn check_other_versions<T: Named + Codec + PartialEq + Debug>() {
    let table = T::TABLE;
    if table.bits == table.wire_bits {
        return;
    }
    for from in VERSIONS {
        for n in numbers(table).into_iter().take(300) {
            let it: T = parsed(&bytes(n, table), from);
            for to in VERSIONS {
                if let Ok(wire) = encoded(&it, to) {
                    assert_eq!(parsed::<T>(&wire, to), it, "{n:#x} of {from} in {to}");
                }
            }
        }
    }
}

fn check_versions_of_rows<T: Named>() {
    let table = T::TABLE;
    let versions = |row: &NamedRow| VERSIONS.map(|version| row.in_version(version).is_some());
    let all: BTreeSet<_> = table.rows.iter().map(versions).collect();
    let has_room = table.bits > table.wire_bits;
    assert_eq!(
        has_room,
        all.len() > 1,
        "{}: `as` is for rows of different versions",
        table.unknown
    );
}

#[test]
fn what_a_version_does_not_have_is_refused_by_name_and_the_rest_survives_a_roundtrip() {
    let checked = for_each_named_type!(check_rows);
    let mut all = BTreeSet::new();
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/model");
    for file in std::fs::read_dir(dir).unwrap() {
        let source = std::fs::read_to_string(file.unwrap().path()).unwrap_or_default();
        for set in source.split("\ncodes! {\n").skip(1).chain(source.split("\nflags! {\n").skip(1))
        {
            let name = set.split_once("pub struct ").unwrap().1.split_once('(').unwrap().0;
            all.insert(name.to_owned());
        }
    }
    assert_eq!(all, checked.into_iter().map(str::to_owned).collect());
}

#[test]
fn numbers_from_the_wire_are_written_back_in_the_version_in_which_they_came() {
    _ = for_each_named_type!(check_numbers);
}

#[test]
fn a_number_means_the_same_in_every_version_that_encodes_it() {
    _ = for_each_named_type!(check_other_versions);
}

#[test]
fn types_with_room_for_undefined_numbers_are_those_whose_rows_have_different_versions() {
    _ = for_each_named_type!(check_versions_of_rows);
}

#[test]
fn undefined_numbers_do_not_pass_for_what_they_mean_elsewhere() {
    let of_1_3: GroupCommand = parsed(&[0, 3], Version::V1_3);
    assert_ne!(of_1_3, GroupCommand::INSERT_BUCKET);
    assert_eq!(encoded(&of_1_3, Version::V1_2), Ok(vec![0, 3]));
    let error = encoded(&of_1_3, Version::V1_5).unwrap_err();
    let text = "unknown GroupCommand 3 cannot be encoded in OpenFlow 1.5";
    assert_eq!(error.to_string(), text);
    let error = encoded(&GroupCommand::INSERT_BUCKET, Version::V1_3).unwrap_err();
    let text = "GroupCommand::INSERT_BUCKET requires OpenFlow 1.5; this session speaks 1.3";
    assert_eq!(error.to_string(), text);
    let error = encoded(&PortConfig::NO_FLOOD, Version::V1_3).unwrap_err();
    assert_eq!(error.to_string(), "PortConfig::NO_FLOOD cannot be encoded in OpenFlow 1.3");
    let error = encoded(&FlowModFlags::NO_PKT_COUNTS, Version::V1_0).unwrap_err();
    let text = "FlowModFlags::NO_PKT_COUNTS requires OpenFlow 1.3; this session speaks 1.0";
    assert_eq!(error.to_string(), text);
}

#[test]
fn one_bit_with_two_meanings_is_two_flags() {
    let stp: Capabilities = parsed(&[0, 0, 0, 8], Version::V1_0);
    assert_eq!(stp, Capabilities::STP);
    assert!(!stp.contains(Capabilities::GROUP_STATS));
    let groups: Capabilities = parsed(&[0, 0, 0, 8], Version::V1_3);
    assert_eq!(groups, Capabilities::GROUP_STATS);

    let fields = TableFields::IN_PORT | TableFields::ETH_SRC | TableFields::IPV4_DST;
    for (version, bits) in [
        (Version::V1_0, 1 | 1 << 2 | 0x3f << 14),
        (Version::V1_1, 1 | 1 << 11 | 1 << 14),
        (Version::V1_2, 1 | 1 << 4 | 1 << 12),
    ] {
        let wire = u64::to_be_bytes(bits).to_vec();
        assert_eq!(encoded(&fields, version).as_ref(), Ok(&wire), "{version}");
        assert_eq!(parsed::<TableFields>(&wire, version), fields, "{version}");
    }
}
