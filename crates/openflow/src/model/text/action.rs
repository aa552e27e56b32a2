//! Actions and instructions as text: `output:2`, `set_field:10.0.0.1->ip_src`, `goto_table:3`.

use core::fmt::Write as _;

use super::field_value::{hex, port};
use super::stat_trigger;
use super::token::{Int, KeyValue, TextError, TextSpan};
use super::{conntrack, field_action, learn, nicira};
use crate::PortNo;
use crate::model::reader::DEPTH_MAX;
use crate::model::value;
use crate::model::{Action, Instruction};

/// What is known about the matched packets, and the nesting depth; some keywords depend on it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MatchContext {
    /// IP protocol that is matched.
    pub(crate) ip_proto: Option<u8>,
    /// Number of enclosing action lists.
    pub(crate) depth: u8,
}

/// Maximum number of enclosing action lists: the parser of messages counts the instruction and the innermost action
/// as well.
const NESTED_MAX: u8 = DEPTH_MAX - 2;

impl MatchContext {
    /// The same for the nested action list at `piece`.
    ///
    /// # Errors
    /// Nested too deep.
    pub(crate) fn inside(self, piece: TextSpan<'_>) -> Result<Self, TextError> {
        let depth = self.depth.saturating_add(1);
        if depth > NESTED_MAX {
            let message = format!("actions are nested too deep (maximum {NESTED_MAX} levels)");
            return Err(piece.error(message));
        }
        Ok(Self { depth, ..self })
    }
}

/// Actions without a value. Of two names for one action, the first is printed.
const PLAIN_ACTIONS: &[(&str, Action)] = &[
    ("copy_ttl_in", Action::CopyTtlIn),
    ("copy_ttl_out", Action::CopyTtlOut),
    ("ct_clear", Action::CtClear),
    ("debug_recirc", Action::DebugRecirc),
    ("debug_slow", Action::DebugSlow),
    ("dec_mpls_ttl", Action::DecMplsTtl),
    ("dec_nsh_ttl", Action::DecNshTtl),
    ("dec_ttl", Action::DecNwTtl),
    ("exit", Action::Exit),
    ("pop_pbb", Action::PopPbb),
    ("pop_queue", Action::PopQueue),
    ("pop_vlan", Action::PopVlan),
    ("strip_vlan", Action::PopVlan),
];

/// How the number of an action is printed.
#[derive(Debug, Clone, Copy)]
enum NumberStyle {
    /// `group:7`
    Decimal,
    /// `set_mpls_ttl(7)`
    Parens,
    /// `push_vlan:0x8100`
    Hex,
    /// `push_mpls:0x8847`, four digits at least.
    Ethertype,
}

/// An action with one number.
struct NumericAction {
    word: &'static str,
    style: NumberStyle,
    make: fn(TextSpan<'_>) -> Result<Action, TextError>,
    read: fn(&Action) -> Option<u64>,
}

macro_rules! numbers {
    ($($word:literal $style:ident $variant:ident.$field:ident: $t:ty;)*) => {
        &[$(NumericAction {
            word: $word,
            style: NumberStyle::$style,
            make: |piece| Ok(Action::$variant { $field: piece.int::<$t>()? }),
            read: |action| match action {
                Action::$variant { $field } => Some(u64::from(*$field)),
                _ => None,
            },
        }),*]
    };
}

/// Actions with one number. Of two names for one action, the first is printed.
const NUMERIC_ACTIONS: &[NumericAction] = numbers! {
    "group" Decimal Group.group_id: u32;
    "meter" Decimal Meter.meter_id: u32;
    "mod_nw_ttl" Decimal SetNwTtl.nw_ttl: u8;
    "pop_mpls" Ethertype PopMpls.ethertype: u16;
    "push_mpls" Ethertype PushMpls.ethertype: u16;
    "push_pbb" Ethertype PushPbb.ethertype: u16;
    "push_vlan" Hex PushVlan.ethertype: u16;
    "set_mpls_ttl" Parens SetMplsTtl.mpls_ttl: u8;
    "set_nw_ttl" Decimal SetNwTtl.nw_ttl: u8;
    "set_queue" Decimal SetQueue.queue_id: u32;
    "set_tunnel" Hex SetTunnel.tun_id: u32;
    "set_tunnel64" Hex SetTunnel64.tun_id: u64;
};

impl Action {
    /// Parses the actions in `line`, in the syntax of `ovs-actions(7)`; `drop` is an empty list.
    ///
    /// # Errors
    /// What is wrong in the line, and at which column.
    pub fn list_from_text(line: &str) -> Result<Vec<Self>, TextError> {
        list(TextSpan::of(line), MatchContext::default())
    }

    /// The actions in the syntax of `ovs-actions(7)`; `drop` for an empty list.
    pub fn list_to_text(list: &[Self]) -> String {
        if list.is_empty() { "drop".into() } else { print_list(list) }
    }

    /// The action in the syntax of `ovs-actions(7)`.
    ///
    /// Actions that `ovs-actions(7)` does not have are printed as `experimenter(…)` or `other(…)`.
    pub fn to_text(&self) -> String {
        if let Some((word, _)) = PLAIN_ACTIONS.iter().find(|(_, action)| action == self) {
            return (*word).into();
        }
        let number = NUMERIC_ACTIONS.iter().find_map(|row| Some((row, (row.read)(self)?)));
        if let Some((NumericAction { word, style, .. }, n)) = number {
            return match style {
                NumberStyle::Decimal => format!("{word}:{n}"),
                NumberStyle::Parens => format!("{word}({n})"),
                NumberStyle::Hex => format!("{word}:{}", hex(n.into())),
                NumberStyle::Ethertype => format!("{word}:{n:#06x}"),
            };
        }
        let rest = field_action::print(self).or_else(|| nicira::print(self));
        rest.or_else(|| learn::print(self))
            .or_else(|| conntrack::print(self))
            .unwrap_or_else(|| print_other(self))
    }
}

impl Instruction {
    /// Parses the instructions in `line`, in the syntax of `ovs-actions(7)`: plain actions are applied; `drop` is an
    /// empty list.
    ///
    /// # Errors
    /// What is wrong in the line, and at which column.
    pub fn list_from_text(line: &str) -> Result<Vec<Self>, TextError> {
        instructions(TextSpan::of(line), MatchContext::default())
    }

    /// The instructions in the syntax of `ovs-actions(7)`; `drop` for an empty list.
    pub fn list_to_text(list: &[Self]) -> String {
        let texts: Vec<_> =
            list.iter().map(Self::to_text).filter(|text| !text.is_empty()).collect();
        if texts.is_empty() { "drop".into() } else { texts.join(",") }
    }

    /// The instruction in the syntax of `ovs-actions(7)`; empty for an `apply_actions` without actions.
    pub fn to_text(&self) -> String {
        match self {
            Self::GotoTable { table_id } => format!("goto_table:{table_id}"),
            Self::WriteMetadata { metadata, metadata_mask } => {
                nicira::print_write_metadata(*metadata, *metadata_mask)
            }
            Self::WriteActions { actions } => {
                format!("write_actions({})", Action::list_to_text(actions))
            }
            Self::ApplyActions { actions } => print_list(actions),
            Self::ClearActions => "clear_actions".into(),
            Self::Meter { meter_id } => format!("meter:{meter_id}"),
            Self::StatTrigger { flags, thresholds } => stat_trigger::print(*flags, thresholds),
            Self::Experimenter { experimenter, data } => {
                format!("instruction_experimenter(id={experimenter:#x},data={})", value::hex(data))
            }
            Self::Other { code, body } => {
                format!("instruction_other(code={code:#x},body={})", value::hex(body))
            }
        }
    }
}

/// Actions, separated by commas.
pub(crate) fn print_list(list: &[Action]) -> String {
    let texts: Vec<_> = list.iter().map(Action::to_text).collect();
    texts.join(",")
}

/// Parses actions; `drop` is an empty list.
pub(crate) fn list(piece: TextSpan<'_>, context: MatchContext) -> Result<Vec<Action>, TextError> {
    let (mut pairs, mut list) = (piece.pairs(), Vec::new());
    let mut drop = None;
    while let Some(pair) = pairs.next()? {
        if let Some(error) = drop {
            return Err(error);
        }
        if pair.name().eq_ignore_ascii_case("drop") {
            let alone = || pair.key.error("`drop` cannot be combined with other actions");
            pair.no_value()?;
            if !list.is_empty() {
                return Err(alone());
            }
            drop = Some(alone());
            continue;
        }
        list.extend(actions(&pair, context)?);
    }
    Ok(list)
}

/// Parses instructions in the order given; all actions are applied at the position of the first.
pub(crate) fn instructions(
    piece: TextSpan<'_>,
    context: MatchContext,
) -> Result<Vec<Instruction>, TextError> {
    let (mut pairs, mut all) = (piece.pairs(), Vec::<Instruction>::new());
    let mut drop = None;
    while let Some(pair) = pairs.next()? {
        if let Some(error) = drop {
            return Err(error);
        }
        if pair.name().eq_ignore_ascii_case("drop") {
            let alone = || pair.key.error("`drop` cannot be combined with other actions");
            pair.no_value()?;
            if !all.is_empty() {
                return Err(alone());
            }
            drop = Some(alone());
        } else if let Some(one) = instruction(&pair, context)? {
            let same = |other: &Instruction| {
                core::mem::discriminant(other) == core::mem::discriminant(&one)
            };
            let open = matches!(one, Instruction::Experimenter { .. } | Instruction::Other { .. });
            if !open && all.iter().any(same) {
                return Err(pair.key.error(format!("duplicate instruction `{}`", pair.name())));
            }
            all.push(one);
        } else {
            apply(&mut all, actions(&pair, context)?, &pair)?;
        }
    }
    Ok(all)
}

/// Adds actions to the `ApplyActions` instruction, which must be the last one so far.
fn apply(
    all: &mut Vec<Instruction>,
    more: Vec<Action>,
    pair: &KeyValue<'_>,
) -> Result<(), TextError> {
    if let Some(Instruction::ApplyActions { actions }) = all.last_mut() {
        actions.extend(more);
        return Ok(());
    }
    if all.iter().any(|it| matches!(it, Instruction::ApplyActions { .. })) {
        return Err(pair.key.error(
            "actions must be adjacent, not separated by instructions such as `goto_table`",
        ));
    }
    all.push(Instruction::ApplyActions { actions: more });
    Ok(())
}

/// Parses an instruction; `None` if `pair` is an action.
fn instruction(
    pair: &KeyValue<'_>,
    context: MatchContext,
) -> Result<Option<Instruction>, TextError> {
    Ok(Some(match pair.name().to_ascii_lowercase().as_str() {
        "goto_table" => Instruction::GotoTable { table_id: pair.int()? },
        "write_metadata" => {
            let (metadata, metadata_mask) = nicira::write_metadata(pair)?;
            Instruction::WriteMetadata { metadata, metadata_mask }
        }
        "write_actions" => {
            Instruction::WriteActions { actions: list(pair.value, context.inside(pair.value)?)? }
        }
        "clear_actions" => {
            pair.no_value()?;
            Instruction::ClearActions
        }
        "meter" => Instruction::Meter { meter_id: pair.int()? },
        "stat_trigger" => stat_trigger::parse(pair)?,
        "instruction_experimenter" => {
            let (id, data) = coded(pair, "id", "data")?;
            let experimenter = u32::of(id.into())
                .ok_or_else(|| pair.value.error("experimenter ID above 32 bits"))?;
            Instruction::Experimenter { experimenter, data }
        }
        "instruction_other" => {
            let (code, body) = coded(pair, "code", "body")?;
            Instruction::Other { code, body }
        }
        _ => return Ok(None),
    }))
}

/// Parses an action, or several for a `load` of more than 64 bits.
fn actions(pair: &KeyValue<'_>, context: MatchContext) -> Result<Vec<Action>, TextError> {
    if pair.name().eq_ignore_ascii_case("load") {
        return field_action::load(pair);
    }
    action(pair, context).map(|one| vec![one])
}

/// Parses an action other than `load`.
fn action(pair: &KeyValue<'_>, context: MatchContext) -> Result<Action, TextError> {
    let name = pair.name().to_ascii_lowercase();
    let name = name.as_str();
    if let Some(read) = output(name, pair)
        .or_else(|| field_action::parse(name, pair, context))
        .or_else(|| nicira::parse(name, pair, context))
        .or_else(|| learn::parse(name, pair))
        .or_else(|| conntrack::parse(name, pair, context))
    {
        return read;
    }
    if let Some((_, action)) = PLAIN_ACTIONS.iter().find(|row| row.0 == name) {
        pair.no_value()?;
        return Ok(action.clone());
    }
    if let Some(row) = NUMERIC_ACTIONS.iter().find(|row| row.word == name) {
        let long =
            name == "set_tunnel" && pair.int::<u64>().is_ok_and(|id| u32::try_from(id).is_err());
        if long {
            return Ok(Action::SetTunnel64 { tun_id: pair.int()? });
        }
        return (row.make)(pair.required()?);
    }
    match name {
        "experimenter" => {
            let (id, data) = coded(pair, "id", "data")?;
            let experimenter = u32::of(id.into())
                .ok_or_else(|| pair.value.error("experimenter ID above 32 bits"))?;
            Ok(Action::Experimenter { experimenter, data })
        }
        "other" => {
            let (code, body) = coded(pair, "code", "body")?;
            Ok(Action::Other { code, body })
        }
        _ => Err(pair.unknown("action")),
    }
}

/// Parses a number and bytes, `id=0x5,data=00ff`.
fn coded(pair: &KeyValue<'_>, number: &str, bytes: &str) -> Result<(u64, Vec<u8>), TextError> {
    let (mut inside, mut read) = (pair.value.pairs(), (0, Vec::new()));
    while let Some(one) = inside.next()? {
        match one.name() {
            name if name == number => read.0 = one.int()?,
            name if name == bytes => read.1 = one.value.bytes()?,
            _ => return Err(one.unknown("key")),
        }
    }
    Ok(read)
}

/// Parses an output, with or without the keyword `output`.
fn output(name: &str, pair: &KeyValue<'_>) -> Option<Result<Action, TextError>> {
    match name {
        "output" => Some(output_of(pair)),
        "enqueue" => Some(enqueue(pair)),
        "in_port" | "normal" | "flood" | "all" | "local" | "table" | "none" | "any" => {
            Some(pair.no_value().and_then(|()| port(pair.key)).map(to))
        }
        _ if name.starts_with(|c: char| c.is_ascii_digit()) => {
            Some(pair.no_value().and_then(|()| port(pair.key)).map(to))
        }
        _ => None,
    }
}

/// Sends the whole packet to `port`.
fn to(port: PortNo) -> Action {
    let max_len = if port == PortNo::CONTROLLER { Action::WHOLE } else { 0 };
    Action::Output { port, max_len }
}

/// `output:2`, `output:reg0[0..15]`, `output(port=2,max_len=100)`.
fn output_of(pair: &KeyValue<'_>) -> Result<Action, TextError> {
    let value = pair.required()?;
    if pair.parens && value.text().contains('=') {
        let (mut inside, mut read) = (value.pairs(), (None, None));
        while let Some(one) = inside.next()? {
            match one.name() {
                "port" => read.0 = Some(port(one.required()?)?),
                "max_len" => read.1 = Some(one.int()?),
                _ => return Err(one.unknown("`output` key")),
            }
        }
        let missing = |what| value.error_after(format!("missing `{what}=`"));
        let port = read.0.ok_or_else(|| missing("port"))?;
        return Ok(Action::OutputTrunc {
            port,
            max_len: read.1.ok_or_else(|| missing("max_len"))?,
        });
    }
    match port(value) {
        Ok(port) => Ok(to(port)),
        Err(no_port) if value.text().starts_with(|c: char| c.is_ascii_digit()) => Err(no_port),
        Err(_) => field_action::output(value),
    }
}

/// `enqueue:PORT:QUEUE`, `enqueue(PORT,QUEUE)`.
fn enqueue(pair: &KeyValue<'_>) -> Result<Action, TextError> {
    let value = pair.required()?;
    let split = value.split(":").or_else(|| value.split(",")).or_else(|| value.split("q"));
    let (to, queue) = split.ok_or_else(|| value.error_after("missing queue number"))?;
    let queue = queue.strip("q").unwrap_or(queue);
    Ok(Action::Enqueue { port: port(to.trim())?, queue_id: queue.trim().int()? })
}

/// Outputs, and actions without a syntax of their own.
fn print_other(action: &Action) -> String {
    match action {
        Action::Output { port: PortNo::CONTROLLER, max_len } => format!("CONTROLLER:{max_len}"),
        Action::Output { port, .. } if port.0 <= PortNo::MAX.0 || *port == PortNo::UNSET => {
            format!("output:{port}")
        }
        Action::Output { port, .. } => port.to_string(),
        Action::OutputTrunc { port, max_len } => format!("output(port={port},max_len={max_len})"),
        Action::Enqueue { port, queue_id } => format!("enqueue:{port}:{queue_id}"),
        Action::Experimenter { experimenter, data } => {
            format!("experimenter(id={experimenter:#x},data={})", value::hex(data))
        }
        Action::Other { code, body } => {
            format!("other(code={code:#x},body={})", value::hex(body))
        }
        // All other actions have a syntax of their own; the debug form is a fallback.
        other => {
            let mut text = String::new();
            let _ = write!(text, "{other:?}");
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_survive_a_roundtrip_through_text() {
        for line in [
            "output:2",
            "LOCAL,IN_PORT,FLOOD,ALL,NORMAL,TABLE",
            "CONTROLLER:128",
            "controller(reason=no_match,max_len=64,id=7)",
            "controller(id=7,userdata=01.02,pause,meter_id=3)",
            "enqueue:2:3",
            "output(port=2,max_len=100)",
            "output:NXM_NX_REG0[0..15]",
            "group:7,set_queue:3,pop_queue,exit",
            "push_vlan:0x8100,set_field:4105->vlan_vid,set_field:3->vlan_pcp,pop_vlan",
            "push_mpls:0x8847,set_mpls_ttl(64),dec_mpls_ttl,pop_mpls:0x0800",
            "push_pbb:0x88e7,pop_pbb,copy_ttl_in,copy_ttl_out",
            "set_field:02:00:00:00:00:01->eth_src,set_field:10.0.0.1->ip_src",
            "set_field:2001:db8::1->ipv6_dst,set_field:0x5/0xff->reg0",
            "dec_ttl,dec_ttl(1,2),mod_nw_ttl:64",
            "load:0x5->NXM_NX_REG0[0..7],move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
            "push:NXM_NX_REG0[],pop:NXM_NX_REG1[3]",
            "set_tunnel:0x5,set_tunnel64:0x5",
            "resubmit:2,resubmit(,3),resubmit(2,3),resubmit(2,3,ct)",
            "write_metadata:0x5/0xff",
            "note:01.02.03.04.05.06",
            "fin_timeout(idle_timeout=5,hard_timeout=15)",
            "sample(probability=1,collector_set_id=2,obs_domain_id=3,obs_point_id=4)",
            "sample(probability=1,collector_set_id=2,obs_domain_id=3,obs_point_id=4,sampling_port=5,egress)",
            "sample(probability=1,collector_set_id=2,obs_domain_id=NXM_NX_REG0[],obs_point_id=4)",
            "conjunction(7,1/2)",
            "clone(set_queue:1,output:2)",
            "encap(nsh(md_type=1,tlv(0x1000,10,0x12345678))),decap()",
            "decap(packet_type(ns=1,type=0x894f)),encap(ethernet),dec_nsh_ttl",
            "check_pkt_larger(1500)->NXM_NX_REG0[0]",
            "delete_field:tun_metadata0",
            "multipath(eth_src,50,modulo_n,12,0,NXM_NX_REG0[0..3])",
            "bundle(symmetric_l4,60,hrw,ofport,members:2,3)",
            "bundle_load(eth_src,0,active_backup,ofport,NXM_NX_REG0[],members:4,8)",
            "learn(table=1,idle_timeout=5,NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],eth_type=0x800,load:0x5->NXM_NX_REG0[0..7],output:NXM_OF_IN_PORT[])",
            "learn(table=1,limit=5,result_dst=NXM_NX_REG0[1])",
            "ct(commit,force,table=3,zone=5,nat(src=10.0.0.1-10.0.0.9:1000-2000,random),exec(set_field:0x1->ct_mark),alg=ftp)",
            "ct(zone=NXM_NX_REG0[0..15],nat(dst=[2001:db8::1]-[2001:db8::9]:80)),ct_clear,ct(nat)",
            "experimenter(id=0x1234,data=0001),other(code=0x1234,body=00ff)",
            "meter:5",
        ] {
            let actions = Action::list_from_text(line).unwrap_or_else(|e| panic!("{line}: {e}"));
            assert_eq!(Action::list_to_text(&actions), line);
        }
    }

    #[test]
    fn instructions_survive_a_roundtrip_through_text() {
        for line in [
            "drop",
            "output:1",
            "meter:5,output:1,clear_actions,write_actions(output:2),write_metadata:0x5/0xff,goto_table:3",
            "clear_actions,goto_table:7",
            "instruction_experimenter(id=0x5,data=00)",
        ] {
            let read = Instruction::list_from_text(line).unwrap();
            assert_eq!(Instruction::list_to_text(&read), line);
        }
    }
}
