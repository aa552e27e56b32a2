//! `FLOW_MOD`: adds, changes or deletes rules. §7.3.4.1.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::match10::Match10;
use crate::{
    Action, Error, Field, Frame, Inexpressible, Kind, Match, NO_BUFFER, Out, PortNo, Result,
    Version, Why, action, buffered, matching,
};

/// What a `FLOW_MOD` does. An open set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Command(pub u8);

impl Command {
    /// Adds a rule, replacing an identical one.
    pub const ADD: Self = Self(0);
    /// Changes the actions of all rules that the match covers.
    pub const MODIFY: Self = Self(1);
    /// Changes the actions of the rule with just this match and priority.
    pub const MODIFY_STRICT: Self = Self(2);
    /// Deletes all rules that the match covers.
    pub const DELETE: Self = Self(3);
    /// Deletes the rule with just this match and priority.
    pub const DELETE_STRICT: Self = Self(4);
}

/// `OFPFF_*` bits. The third is `EMERG` in 1.0 and `RESET_COUNTS` since 1.2; neither has a name here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FlowFlags(pub u16);

impl FlowFlags {
    /// The switch says so when the rule is gone.
    pub const SEND_FLOW_REM: Self = Self(1);
    /// Refused if it overlaps a rule of the same priority.
    pub const CHECK_OVERLAP: Self = Self(2);
}

/// A rule, and what to do with it.
///
/// The instructions are `APPLY_ACTIONS` with [`actions`](Self::actions), then `GOTO_TABLE`.
#[derive(Debug, Clone, Copy)]
pub struct FlowMod<'a> {
    /// What to do.
    pub command: Command,
    /// In which table; [`TABLE_ALL`](Self::TABLE_ALL) for all, in deletions. Not in 1.0.
    pub table_id: u8,
    /// The controller's own mark.
    pub cookie: u64,
    /// Restricts changes and deletions to rules whose cookie agrees in these bits. Not in 1.0.
    pub cookie_mask: u64,
    /// Seconds without a packet after which the rule goes; 0 never.
    pub idle_timeout_s: u16,
    /// Seconds after which the rule goes; 0 never.
    pub hard_timeout_s: u16,
    /// The highest that matches wins.
    pub priority: u16,
    /// A frame in the switch that the new rule is applied to.
    pub buffer_id: Option<u32>,
    /// Restricts deletions to rules that output here; [`PortNo::ANY`] for all.
    pub out_port: PortNo,
    /// Flags.
    pub flags: FlowFlags,
    /// What a packet must have.
    pub fields: &'a [Field],
    /// What is done with it; nothing drops it.
    pub actions: &'a [Action],
    /// The table that goes on with the packet.
    pub goto_table: Option<u8>,
}

impl FlowMod<'_> {
    /// `OFPTT_ALL`: every table.
    pub const TABLE_ALL: u8 = 0xff;
    /// `OFP_DEFAULT_PRIORITY`.
    pub const PRIORITY_DEFAULT: u16 = 0x8000;
}

impl Default for FlowMod<'_> {
    #[inline]
    fn default() -> Self {
        Self {
            command: Command::ADD,
            table_id: 0,
            cookie: 0,
            cookie_mask: 0,
            idle_timeout_s: 0,
            hard_timeout_s: 0,
            priority: Self::PRIORITY_DEFAULT,
            buffer_id: None,
            out_port: PortNo::ANY,
            flags: FlowFlags(0),
            fields: &[],
            actions: &[],
            goto_table: None,
        }
    }
}

/// What follows the match in 1.0; then actions. OpenFlow 1.0.0 §5.3.3.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed10 {
    cookie: U64,
    command: U16,
    idle_timeout: U16,
    hard_timeout: U16,
    priority: U16,
    buffer_id: U32,
    out_port: U16,
    flags: U16,
}

/// The fixed part of 1.1 and later; then match, instructions.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed13 {
    cookie: U64,
    cookie_mask: U64,
    table_id: u8,
    command: u8,
    idle_timeout: U16,
    hard_timeout: U16,
    priority: U16,
    buffer_id: U32,
    out_port: U32,
    out_group: U32,
    flags: U16,
    importance: U16,
}

const _: () = assert!(size_of::<Fixed10>() == 24);
const _: () = assert!(size_of::<Fixed13>() == 40);

/// `OFPG_ANY`: any group, in deletions.
const GROUP_ANY: u32 = 0xffff_ffff;

/// `OFPIT_*`. §7.2.4.
mod instruction {
    pub(super) const GOTO_TABLE: u16 = 1;
    pub(super) const APPLY_ACTIONS: u16 = 4;
}

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Instruction {
    kind: U16,
    len: U16,
    /// The table in the first octet of `GOTO_TABLE`, else padding.
    table_id: u8,
    pad: [u8; 3],
}

impl Out<'_> {
    /// Writes a `FLOW_MOD`; returns its transaction id.
    ///
    /// # Errors
    /// Names what the version cannot say; nothing is written then.
    #[inline]
    pub fn flow_mod(&mut self, f: &FlowMod<'_>) -> Result<u32, Inexpressible> {
        self.message(Kind::FLOW_MOD, |out| match out.version() {
            Version::V1_0 => emit_10(f, out),
            _ => emit_13(f, out),
        })
    }
}

impl Out<'_> {
    /// Has frames that no rule matches sent up, `max_len` octets of them ([`Action::WHOLE`] for all and no
    /// slot): a table-miss entry where the version needs one, nothing where they come up by themselves. §5.4.
    ///
    /// # Errors
    /// None that a version has; those of [`flow_mod`](Self::flow_mod).
    pub fn send_misses_up(&mut self, max_len: u16) -> Result<(), Inexpressible> {
        if self.version() < Version::V1_3 {
            return Ok(());
        }
        let actions = [Action::Output { port: PortNo::CONTROLLER, max_len }];
        self.flow_mod(&FlowMod { priority: 0, actions: &actions, ..FlowMod::default() }).map(drop)
    }
}

#[inline]
fn emit_10(f: &FlowMod<'_>, out: &mut Out<'_>) -> Result<(), Inexpressible> {
    if f.goto_table.is_some() {
        out.needs(Version::V1_1, "goto_table")?;
    }
    if f.table_id != 0 && f.table_id != FlowMod::TABLE_ALL {
        out.needs(Version::V1_1, "table_id")?;
    }
    if f.cookie_mask != 0 {
        out.needs(Version::V1_1, "cookie_mask")?;
    }
    matching::emit(f.fields, out)?;
    out.put(&Fixed10 {
        cookie: f.cookie.into(),
        command: u16::from(f.command.0).into(),
        idle_timeout: f.idle_timeout_s.into(),
        hard_timeout: f.hard_timeout_s.into(),
        priority: f.priority.into(),
        buffer_id: f.buffer_id.unwrap_or(NO_BUFFER).into(),
        out_port: f.out_port.to_u16()?.into(),
        flags: f.flags.0.into(),
    });
    action::emit(f.actions, out)
}

#[inline]
fn emit_13(f: &FlowMod<'_>, out: &mut Out<'_>) -> Result<(), Inexpressible> {
    out.put(&Fixed13 {
        cookie: f.cookie.into(),
        cookie_mask: f.cookie_mask.into(),
        table_id: f.table_id,
        command: f.command.0,
        idle_timeout: f.idle_timeout_s.into(),
        hard_timeout: f.hard_timeout_s.into(),
        priority: f.priority.into(),
        buffer_id: f.buffer_id.unwrap_or(NO_BUFFER).into(),
        out_port: f.out_port.0.into(),
        out_group: GROUP_ANY.into(),
        flags: f.flags.0.into(),
        importance: U16::ZERO,
    });
    matching::emit(f.fields, out)?;
    if !f.actions.is_empty() {
        let start = out.len();
        let (kind, pad) = (instruction::APPLY_ACTIONS.into(), [0; 3]);
        out.put(&Instruction { kind, len: U16::ZERO, table_id: 0, pad });
        action::emit(f.actions, out)?;
        out.patch_len(start, 2)?;
    }
    if let Some(table_id) = f.goto_table {
        let (kind, pad) = (instruction::GOTO_TABLE.into(), [0; 3]);
        out.put(&Instruction { kind, len: U16::new(8), table_id, pad });
    }
    Ok(())
}

/// One `FLOW_MOD` of any version, read in place as far as the bench and model switches need it in bulk.
#[derive(Debug, Clone, Copy)]
pub struct FlowModView<'a> {
    /// What to do.
    pub command: Command,
    /// A frame in the switch that the new rule is applied to.
    pub buffer_id: Option<u32>,
    fixed: Either<'a>,
    msg: Frame<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Either<'a> {
    V10(&'a Match10, &'a Fixed10),
    V13(&'a Fixed13),
}

/// A rule that was read, and what to do with it. The owned form of [`FlowMod`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What a packet must have.
    pub matching: Match,
    /// What is done with it.
    pub actions: Vec<Action>,
    /// The table that goes on with the packet.
    pub goto_table: Option<u8>,
}

impl<'a> FlowModView<'a> {
    /// Reads the fixed part of `msg`.
    ///
    /// # Errors
    /// `Short` if it is cut off.
    #[inline]
    pub fn new(msg: Frame<'a>) -> Result<Self> {
        if msg.version() == Version::V1_0 {
            let (matching, rest) = msg.fixed::<Match10>("flow_mod")?;
            let short = Error::new("flow_mod", 48, Why::Short);
            let (fixed, _) = Fixed10::ref_from_prefix(rest).map_err(|_| short)?;
            #[expect(clippy::cast_possible_truncation, reason = "the high octet is an extension's")]
            let command = Command(fixed.command.get() as u8);
            let buffer_id = buffered(fixed.buffer_id.get());
            return Ok(Self { command, buffer_id, fixed: Either::V10(matching, fixed), msg });
        }
        let (fixed, _) = msg.fixed::<Fixed13>("flow_mod")?;
        let buffer_id = buffered(fixed.buffer_id.get());
        Ok(Self { command: Command(fixed.command), buffer_id, fixed: Either::V13(fixed), msg })
    }

    /// The rest of the rule.
    ///
    /// # Errors
    /// As for any match, any list of actions; `Length` for an instruction that overruns; `Kind` for one that is
    /// neither `APPLY_ACTIONS` nor `GOTO_TABLE`.
    ///
    /// # Cost
    /// Allocates the lists.
    pub fn rule(self) -> Result<Rule> {
        let version = self.msg.version();
        match self.fixed {
            Either::V10(matching, _) => {
                let actions = self.msg.octets().get(72..).unwrap_or_default();
                let actions = action::parse(version, actions, 72)?;
                Ok(Rule { matching: matching.to_match(), actions, goto_table: None })
            }
            Either::V13(_) => {
                let (matching, rest) = matching::parse_oxm(self.msg, 48)?;
                let at = self.msg.octets().len() - rest.len();
                let (actions, goto_table) =
                    instructions(version, rest, u16::try_from(at).unwrap_or(u16::MAX))?;
                Ok(Rule { matching, actions, goto_table })
            }
        }
    }

    /// The rule as one that can be written again, over what [`rule`](Self::rule) returned.
    pub fn to_flow_mod(self, rule: &Rule) -> FlowMod<'_> {
        let shared = FlowMod {
            command: self.command,
            buffer_id: self.buffer_id,
            fields: &rule.matching.fields,
            actions: &rule.actions,
            goto_table: rule.goto_table,
            ..FlowMod::default()
        };
        match self.fixed {
            Either::V10(_, fixed) => FlowMod {
                cookie: fixed.cookie.get(),
                idle_timeout_s: fixed.idle_timeout.get(),
                hard_timeout_s: fixed.hard_timeout.get(),
                priority: fixed.priority.get(),
                out_port: PortNo::from_u16(fixed.out_port.get()),
                flags: FlowFlags(fixed.flags.get()),
                ..shared
            },
            Either::V13(fixed) => FlowMod {
                table_id: fixed.table_id,
                cookie: fixed.cookie.get(),
                cookie_mask: fixed.cookie_mask.get(),
                idle_timeout_s: fixed.idle_timeout.get(),
                hard_timeout_s: fixed.hard_timeout.get(),
                priority: fixed.priority.get(),
                out_port: PortNo(fixed.out_port.get()),
                flags: FlowFlags(fixed.flags.get()),
                ..shared
            },
        }
    }
}

fn instructions(version: Version, octets: &[u8], at: u16) -> Result<(Vec<Action>, Option<u8>)> {
    let (mut rest, mut at) = (octets, at);
    let (mut actions, mut goto_table) = (Vec::new(), None);
    while !rest.is_empty() {
        let short = Error::new("instruction", at, Why::Short);
        let (head, _) = Instruction::ref_from_prefix(rest).map_err(|_| short)?;
        let len = head.len.get();
        if len < 8 || len % 8 != 0 {
            return Err(Error::new("instruction length", at.saturating_add(2), Why::Length));
        }
        let (one, after) = rest.split_at_checked(usize::from(len)).ok_or(short)?;
        match head.kind.get() {
            instruction::APPLY_ACTIONS => {
                let list = one.get(8..).unwrap_or_default();
                actions.extend(action::parse(version, list, at.saturating_add(8))?);
            }
            instruction::GOTO_TABLE => goto_table = Some(head.table_id),
            _ => return Err(Error::new("instruction", at, Why::Kind)),
        }
        (rest, at) = (after, at.saturating_add(len));
    }
    Ok((actions, goto_table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MacAddr;

    fn octets(version: Version, f: &FlowMod<'_>) -> Result<Vec<u8>, Inexpressible> {
        let (mut tx, mut xid) = (vec![], 1);
        Out::new(&mut tx, version, &mut xid).flow_mod(f)?;
        Ok(tx)
    }

    #[test]
    fn what_is_read_is_written_again_octet_by_octet() {
        let actions = [Action::output(PortNo(4))];
        let fields = [Field::in_port(PortNo(1)), Field::eth_dst(MacAddr([2, 0, 0, 0, 0, 9]))];
        let f = FlowMod {
            cookie: 7,
            idle_timeout_s: 60,
            hard_timeout_s: 600,
            priority: 100,
            buffer_id: Some(33),
            flags: FlowFlags::SEND_FLOW_REM,
            fields: &fields,
            actions: &actions,
            ..FlowMod::default()
        };
        for version in [Version::V1_0, Version::V1_2, Version::V1_3, Version::V1_4, Version::V1_5] {
            let first = octets(version, &f).unwrap();
            let view = FlowModView::new(Frame::new(&first).unwrap()).unwrap();
            assert_eq!(view.buffer_id, Some(33));
            let rule = view.rule().unwrap();
            assert_eq!(octets(version, &view.to_flow_mod(&rule)).unwrap(), first, "{version}");
        }
        assert_eq!(octets(Version::V1_0, &f).unwrap().len(), 80);
    }

    #[test]
    fn a_second_table_needs_1_1() {
        let f = FlowMod { goto_table: Some(1), ..FlowMod::default() };
        let no = octets(Version::V1_0, &f).unwrap_err();
        assert_eq!(no.to_string(), "goto_table needs 1.1, this is 1.0");
        let view = octets(Version::V1_3, &f).unwrap();
        let rule = FlowModView::new(Frame::new(&view).unwrap()).unwrap().rule().unwrap();
        assert_eq!(rule.goto_table, Some(1));
    }
}
