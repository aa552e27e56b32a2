//! `FromStr` and `Display` in the syntax of `ovs-ofctl`.

use core::fmt;
use core::str::FromStr;

use super::TextError;
use super::field_value::port;
use super::token::TextSpan;
use crate::model::{
    Action, Field, FlowMod, FlowModCommand, GroupCommand, GroupMod, Instruction, Match,
    MeterCommand, MeterMod,
};
use crate::{DatapathId, MacAddr, PortNo, Version};

macro_rules! display_as_text {
    ($($t:ty),*) => {$(
        /// In the syntax of `ovs-ofctl`.
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.to_text())
            }
        }
    )*};
}

display_as_text!(Action, FlowMod, GroupMod, Instruction, Match, MeterMod);

/// `name=value`, or `name=value/mask`.
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.id.name(), self.value_text())
    }
}

/// Parses the syntax of `ovs-fields(7)`, as [`Match::from_text`] does.
impl FromStr for Match {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        Self::from_text(text)
    }
}

/// Parses a single action in the syntax of `ovs-actions(7)`; see [`Action::list_from_text`] for lists.
impl FromStr for Action {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let mut actions = Self::list_from_text(text)?.into_iter();
        match (actions.next(), actions.len()) {
            (Some(action), 0) => Ok(action),
            (first, more) => {
                let n = usize::from(first.is_some()) + more;
                Err(TextSpan::of(text).error(format!("expected one action, found {n}")))
            }
        }
    }
}

/// Parses a flow entry to add, in the syntax of `ovs-ofctl add-flow`; see [`FlowMod::from_text`] for other commands.
impl FromStr for FlowMod {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        Self::from_text(text, FlowModCommand::ADD)
    }
}

/// Parses a group to add, in the syntax of `ovs-ofctl add-group`; see [`GroupMod::from_text`] for other commands.
impl FromStr for GroupMod {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        Self::from_text(text, GroupCommand::ADD)
    }
}

/// Parses a meter to add, in the syntax of `ovs-ofctl add-meter`; see [`MeterMod::from_text`] for other commands.
impl FromStr for MeterMod {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        Self::from_text(text, MeterCommand::ADD)
    }
}

/// Parses a number, or the name of a reserved port in any case.
impl FromStr for PortNo {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        port(TextSpan::of(text))
    }
}

/// Parses six pairs of hexadecimal digits, `02:00:00:00:00:01`.
impl FromStr for MacAddr {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let what = "(expected six pairs of hex digits: 02:00:00:00:00:01)";
        let invalid = || TextSpan::of(text).error(format!("invalid MAC address `{text}` {what}"));
        Self::from_text(text).ok_or_else(invalid)
    }
}

/// Parses up to sixteen hexadecimal digits, with or without `0x` and colons.
impl FromStr for DatapathId {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let digits = text.strip_prefix("0x").unwrap_or(text).replace(':', "");
        let id = u64::from_str_radix(&digits, 16).ok().filter(|_| !digits.contains('+'));
        let what = "(expected 1 to 16 hex digits)";
        let invalid = || TextSpan::of(text).error(format!("invalid datapath ID `{text}` {what}"));
        id.map(Self).ok_or_else(invalid)
    }
}

/// Parses `1.0` to `1.5`.
impl FromStr for Version {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let invalid =
            || TextSpan::of(text).error(format!("unknown version `{text}` (known: 1.0 to 1.5)"));
        Self::from_text(text).ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Field;

    fn error<T: FromStr<Err = TextError>>(text: &str) -> String {
        text.parse::<T>().err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn values_survive_a_roundtrip_through_text() {
        let flow: FlowMod = "priority=10,ip,nw_dst=10.0.0.0/24,actions=output:2".parse().unwrap();
        assert_eq!(flow.matching.to_string(), "ip,nw_dst=10.0.0.0/24");
        assert_eq!(flow.to_string().parse(), Ok(flow));
        let action: Action = "output:2".parse().unwrap();
        assert_eq!(action, Action::Output { port: PortNo(2), max_len: 0 });
        assert_eq!(action.to_string(), "output:2");
        let group: GroupMod = "group_id=1,type=all,bucket=actions=output:1".parse().unwrap();
        assert_eq!(group.to_string().parse(), Ok(group));
        let meter: MeterMod = "meter=1,kbps,band=type=drop,rate=10".parse().unwrap();
        assert_eq!(meter.to_string().parse(), Ok(meter));
        assert_eq!(("local".parse(), "7".parse()), (Ok(PortNo::LOCAL), Ok(PortNo(7))));
        assert_eq!("02:00:00:00:00:01".parse(), Ok(MacAddr([2, 0, 0, 0, 0, 1])));
        assert_eq!("00:00:00:00:00:00:00:2a".parse(), Ok(DatapathId(42)));
        assert_eq!("1.3".parse(), Ok(Version::V1_3));
        assert_eq!(Field::tcp_dst(80).to_string(), "tcp_dst=80");
    }

    #[test]
    fn errors_of_from_str_say_what_was_expected() {
        let two = "column 1: expected one action, found 2";
        assert_eq!(error::<Action>("output:1,output:2"), two);
        let mac = "column 1: invalid MAC address `x` (expected six pairs of hex digits: 02:00:00:00:00:01)";
        assert_eq!(error::<MacAddr>("x"), mac);
        let version = "column 1: unknown version `1.6` (known: 1.0 to 1.5)";
        assert_eq!(error::<Version>("1.6"), version);
    }
}
