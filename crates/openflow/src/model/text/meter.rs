//! Meters as text: `meter=1,kbps,burst,stats,bands=type=drop,rate=100,burst_size=10`.

use core::fmt::Write as _;

use super::token::{KeyValue, TextError, TextSpan};
use crate::model::value;
use crate::model::{MeterBand, MeterCommand, MeterFlags, MeterId, MeterMod};

/// Flags by name.
const FLAGS: &[(MeterFlags, &str)] = &[
    (MeterFlags::KBPS, "kbps"),
    (MeterFlags::PKTPS, "pktps"),
    (MeterFlags::BURST, "burst"),
    (MeterFlags::STATS, "stats"),
];

impl MeterMod {
    /// Parses a meter in the syntax of `ovs-ofctl add-meter`, for use with `command`.
    ///
    /// # Errors
    /// What is wrong in the line, and at which column.
    pub fn from_text(line: &str, command: MeterCommand) -> Result<Self, TextError> {
        let all = TextSpan::of(line);
        let mut meter = Self { command, ..Self::default() };
        let (mut pairs, mut named) = (all.pairs(), false);
        while let Some(pair) = pairs.next()? {
            if let Some(row) = FLAGS.iter().find(|row| row.1 == pair.name()) {
                pair.no_value()?;
                meter.flags |= row.0;
                continue;
            }
            match pair.name() {
                "meter" => {
                    (meter.meter_id, named) = (meter_id(pair.required()?)?, true);
                }
                "flags" => meter.flags |= MeterFlags(pair.int()?),
                "band" | "bands" => {
                    meter.bands = bands(pairs.text_from_value(&pair))?;
                    break;
                }
                _ => return Err(pair.unknown("meter keyword")),
            }
        }
        if named { Ok(meter) } else { Err(all.error_after("missing `meter=`")) }
    }

    /// The meter in the syntax of `ovs-ofctl add-meter`, without the command.
    pub fn to_text(&self) -> String {
        let mut text = format!("meter={}", print_meter_id(self.meter_id));
        let known = FLAGS.iter().fold(0, |bits, row| bits | row.0.0);
        for row in FLAGS.iter().filter(|row| self.flags.contains(row.0)) {
            let _ = write!(text, ",{}", row.1);
        }
        if self.flags.0 & !known != 0 {
            let _ = write!(text, ",flags={:#x}", self.flags.0 & !known);
        }
        if !self.bands.is_empty() {
            let bands: Vec<_> = self.bands.iter().map(print_band).collect();
            let _ = write!(text, ",bands={}", bands.join(","));
        }
        text
    }
}

/// Parses a meter number, or the name of a virtual meter.
pub(crate) fn meter_id(piece: TextSpan<'_>) -> Result<MeterId, TextError> {
    match MeterId::ROWS.iter().find(|row| row.1.eq_ignore_ascii_case(piece.text())) {
        Some(row) => Ok(row.0),
        None => piece.int().map(MeterId),
    }
}

/// The meter's name, or its number if it has none.
pub(crate) fn print_meter_id(id: MeterId) -> String {
    id.name().map_or_else(|| id.0.to_string(), str::to_ascii_lowercase)
}

fn bands(piece: TextSpan<'_>) -> Result<Vec<MeterBand>, TextError> {
    let (mut pairs, mut bands) = (piece.pairs(), Vec::new());
    while let Some(pair) = pairs.next()? {
        if pair.name() == "type" {
            bands.push(new_band(pair.required()?)?);
            continue;
        }
        let first = || pair.key.error("a band must start with `type=`");
        fill(bands.last_mut().ok_or_else(first)?, &pair)?;
    }
    if bands.is_empty() { Err(piece.error("missing band")) } else { Ok(bands) }
}

fn new_band(kind: TextSpan<'_>) -> Result<MeterBand, TextError> {
    let (rate, burst_size) = (0, 0);
    Ok(match kind.text() {
        "drop" => MeterBand::Drop { rate, burst_size },
        "dscp_remark" => MeterBand::DscpRemark { rate, burst_size, prec_level: 0 },
        "experimenter" => {
            MeterBand::Experimenter { rate, burst_size, experimenter: 0, data: Vec::new() }
        }
        text if text.starts_with(|c: char| c.is_ascii_digit()) => {
            MeterBand::Other { code: kind.int()?, body: Vec::new() }
        }
        text => {
            return Err(kind.error(format!(
                "unknown band type `{text}` (expected drop, dscp_remark or experimenter)"
            )));
        }
    })
}

fn fill(band: &mut MeterBand, pair: &KeyValue<'_>) -> Result<(), TextError> {
    match (band, pair.name()) {
        (
            MeterBand::Drop { rate, .. }
            | MeterBand::DscpRemark { rate, .. }
            | MeterBand::Experimenter { rate, .. },
            "rate",
        ) => *rate = pair.int()?,
        (
            MeterBand::Drop { burst_size, .. }
            | MeterBand::DscpRemark { burst_size, .. }
            | MeterBand::Experimenter { burst_size, .. },
            "burst_size",
        ) => *burst_size = pair.int()?,
        (MeterBand::DscpRemark { prec_level, .. }, "prec_level") => *prec_level = pair.int()?,
        (MeterBand::Experimenter { experimenter, .. }, "experimenter") => {
            *experimenter = pair.int()?;
        }
        (MeterBand::Experimenter { data: bytes, .. }, "data")
        | (MeterBand::Other { body: bytes, .. }, "body") => {
            *bytes = pair.value.bytes()?;
        }
        _ => return Err(pair.unknown("band keyword")),
    }
    Ok(())
}

fn print_band(band: &MeterBand) -> String {
    let with = |name: &str, rate: &u32, burst_size: &u32| {
        let burst =
            if *burst_size == 0 { String::new() } else { format!(",burst_size={burst_size}") };
        format!("type={name},rate={rate}{burst}")
    };
    match band {
        MeterBand::Drop { rate, burst_size } => with("drop", rate, burst_size),
        MeterBand::DscpRemark { rate, burst_size, prec_level } => {
            format!("{},prec_level={prec_level}", with("dscp_remark", rate, burst_size))
        }
        MeterBand::Experimenter { rate, burst_size, experimenter, data } => format!(
            "{},experimenter={experimenter:#x},data={}",
            with("experimenter", rate, burst_size),
            value::hex(data)
        ),
        MeterBand::Other { code, body } => format!("type={code:#x},body={}", value::hex(body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_survives_a_roundtrip_through_text() {
        for line in [
            "meter=1,kbps,burst,stats,bands=type=drop,rate=100,burst_size=10",
            "meter=7,pktps,bands=type=drop,rate=5,type=dscp_remark,rate=9,prec_level=1",
            "meter=controller,kbps,bands=type=experimenter,rate=1,experimenter=0x1234,data=0001",
            "meter=all",
            "meter=3,flags=0x8000",
            "meter=4,pktps,bands=type=0x9,body=00ff",
        ] {
            let meter = MeterMod::from_text(line, MeterCommand::ADD).unwrap();
            assert_eq!(meter.to_text(), line);
        }
        let loose =
            MeterMod::from_text("meter=1 pktps bands= type=drop rate=3", MeterCommand::MODIFY);
        let loose = loose.unwrap();
        assert_eq!(loose.bands, [MeterBand::Drop { rate: 3, burst_size: 0 }]);
        assert_eq!((loose.command, loose.flags), (MeterCommand::MODIFY, MeterFlags::PKTPS));
    }

    #[test]
    fn an_error_names_its_column() {
        for (line, column, what) in [
            ("kbps,bands=type=drop,rate=1", 28, "missing `meter=`"),
            ("meter=x", 7, "`x` is not a number"),
            ("meter=1,kpbs", 9, "unknown meter keyword `kpbs`"),
            ("meter=1,kbps,bands=rate=1", 20, "a band must start with `type=`"),
            (
                "meter=1,kbps,bands=type=pop",
                25,
                "unknown band type `pop` (expected drop, dscp_remark or experimenter)",
            ),
            ("meter=1,bands=type=drop,prec_level=1", 25, "unknown band keyword `prec_level`"),
            ("meter=1,bands=", 15, "missing band"),
            ("meter=1,kbps=2", 14, "`kbps` takes no value"),
        ] {
            let error = MeterMod::from_text(line, MeterCommand::ADD).unwrap_err();
            assert_eq!((error.column, error.message.as_str()), (column, what), "{line}");
        }
    }
}
