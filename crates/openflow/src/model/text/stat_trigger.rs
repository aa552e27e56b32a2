//! The instruction `stat_trigger` as text: `stat_trigger(periodic,packet_count=1000,duration=2.5)`. OpenFlow 1.5.1
//! §7.2.5; Open vSwitch has no syntax for it.

use super::token::{KeyValue, TextError};
use crate::Version;
use crate::model::value::{NeutralForm, Value, hex};
use crate::model::{Elapsed, Instruction, Stat, StatTriggerFlags, Stats};

/// Flags by name.
const FLAGS: &[(StatTriggerFlags, &str)] =
    &[(StatTriggerFlags::PERIODIC, "periodic"), (StatTriggerFlags::ONLY_FIRST, "only_first")];

/// Parses the instruction.
///
/// # Errors
/// Unknown flag or statistic, or an invalid value.
pub(crate) fn parse(pair: &KeyValue<'_>) -> Result<Instruction, TextError> {
    let (mut inside, mut flags, mut entries) = (pair.value.pairs(), 0, Vec::new());
    while let Some(one) = inside.next()? {
        let name = one.name();
        if let Some((flag, _)) = FLAGS.iter().find(|row| row.1 == name) {
            one.no_value()?;
            flags |= flag.0;
            continue;
        }
        let value = match name {
            "flags" => {
                flags |= one.int::<u32>()?;
                continue;
            }
            "duration" | "idle_time" => {
                let wrong = || one.value.error("invalid duration (expected seconds such as `2.5`)");
                elapsed(one.required()?.text()).ok_or_else(wrong)?.to_value(Version::V1_5)
            }
            _ if name.starts_with("oxs_") => Value::Text(hex(&one.value.bytes()?)),
            _ => one.int::<u64>()?.to_value(Version::V1_5),
        };
        let map = Value::Map(vec![(name.to_owned().into(), value)]);
        let read = Stats::from_value(&map, Version::V1_5);
        entries.extend(read.map_err(|e| one.key.error(e.to_string()))?.fields);
    }
    Ok(Instruction::StatTrigger {
        flags: StatTriggerFlags(flags),
        thresholds: Stats { fields: entries },
    })
}

/// Parses seconds with up to nine decimal places.
fn elapsed(text: &str) -> Option<Elapsed> {
    let (sec, fraction) = text.split_once('.').unwrap_or((text, "0"));
    // `parse` accepts a sign, which is not allowed here.
    if !sec.bytes().chain(fraction.bytes()).all(|c| c.is_ascii_digit()) {
        return None;
    }
    Some(Elapsed { sec: sec.parse().ok()?, nsec: format!("{fraction:0<9}").parse().ok()? })
}

/// The instruction as text.
pub(crate) fn print(flags: StatTriggerFlags, thresholds: &Stats) -> String {
    let named = FLAGS.iter().filter(|row| flags.contains(row.0));
    let mut parts: Vec<_> = named.map(|row| row.1.to_owned()).collect();
    let left = FLAGS.iter().fold(flags.0, |left, row| left & !row.0.0);
    if left != 0 {
        parts.push(format!("flags={left:#x}"));
    }
    parts.extend(thresholds.fields.iter().map(|stat| {
        let value = match stat {
            Stat::Duration(t) | Stat::IdleTime(t) => format!("{}.{:09}", t.sec, t.nsec),
            Stat::FlowCount(n) => n.to_string(),
            Stat::PacketCount(n) | Stat::ByteCount(n) => n.to_string(),
            Stat::Other { value, .. } => hex(value),
        };
        format!("{}={value}", stat.name())
    }));
    format!("stat_trigger({})", parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_survives_a_roundtrip_through_text() {
        let fields = vec![
            Stat::Duration(Elapsed { sec: 2, nsec: 500_000_000 }),
            Stat::IdleTime(Elapsed { sec: 0, nsec: 4_000_000_000 }),
            Stat::FlowCount(7),
            Stat::PacketCount(u64::MAX),
            Stat::Other { class: 0x8002, number: 40, value: vec![1, 2] },
        ];
        let trigger = Instruction::StatTrigger {
            flags: StatTriggerFlags(0x13),
            thresholds: Stats { fields },
        };
        let text = Instruction::list_to_text(core::slice::from_ref(&trigger));
        assert!(text.starts_with("stat_trigger(periodic,only_first,flags=0x10,duration=2.5"));
        assert_eq!(Instruction::list_from_text(&text), Ok(vec![trigger]), "{text}");
    }

    #[test]
    fn an_unknown_statistic_is_refused_at_its_column() {
        let wrong = Instruction::list_from_text("stat_trigger(context=5)").unwrap_err();
        assert_eq!(wrong.column, 14);
        assert!(Instruction::list_from_text("stat_trigger(duration=x)").is_err());
    }
}
