//! Flow entries as text: `priority=10,ip,nw_dst=10.0.0.0/24,actions=output:2`.

use core::fmt::Write as _;

use super::action::{MatchContext, instructions};
use super::field_value::{hex, port};
use super::matching::{self, Protocol};
use super::token::{KeyValue, TextError, TextSpan};
use crate::PortNo;
use crate::model::{FlowMod, FlowModCommand, FlowModFlags, GroupId, Instruction, NxFlowMod};

/// All tables. `OFPTT_ALL`, §7.3.4.1.
const ALL_TABLES: u8 = 255;

/// Flags by name.
const FLAGS: &[(FlowModFlags, &str)] = &[
    (FlowModFlags::SEND_FLOW_REM, "send_flow_rem"),
    (FlowModFlags::CHECK_OVERLAP, "check_overlap"),
    (FlowModFlags::RESET_COUNTS, "reset_counts"),
    (FlowModFlags::NO_PKT_COUNTS, "no_packet_counts"),
    (FlowModFlags::NO_BYT_COUNTS, "no_byte_counts"),
    (FlowModFlags::EMERG, "emerg"),
];

/// Keys that dumps of flow entries contain; they are ignored, so that a line of a dump can be parsed.
const IGNORED: &[&str] = &["duration", "n_packets", "n_bytes", "idle_age", "hard_age"];

impl FlowMod {
    /// Parses a flow entry in the syntax of `ovs-ofctl add-flow`, for use with `command`.
    ///
    /// Without `table=`, the table is 0 for additions and all tables otherwise.
    ///
    /// # Errors
    /// What is wrong in the line, and at which column.
    pub fn from_text(line: &str, command: FlowModCommand) -> Result<Self, TextError> {
        let all = TextSpan::of(line);
        let mut flow = Self { command, table_id: default_table(command), ..Self::default() };
        let (mut pairs, mut fields, mut actions) = (all.pairs(), Vec::new(), None);
        // Actions extend to the end of the line; their meaning can depend on the match.
        while let Some(pair) = next(all, &mut pairs, &mut actions)? {
            if !flow.keyword(&pair)? {
                fields.push(pair);
            }
        }
        let context =
            MatchContext { ip_proto: Protocol::of(&fields).ip_proto, ..MatchContext::default() };
        flow.matching = matching::read(&fields)?;
        match actions {
            Some(actions) => flow.instructions = instructions(actions, context)?,
            None if [FlowModCommand::DELETE, FlowModCommand::DELETE_STRICT].contains(&command) => {}
            None => return Err(all.error_after("missing `actions=`")),
        }
        Ok(flow)
    }

    /// The flow entry in the syntax of `ovs-ofctl add-flow`, without the command and without default values.
    pub fn to_text(&self) -> String {
        let mut parts = Vec::new();
        self.print_cookie(&mut parts);
        if self.table_id != default_table(self.command) {
            parts.push(format!("table={}", self.table_id));
        }
        for (name, n) in [
            ("idle_timeout", self.idle_timeout),
            ("hard_timeout", self.hard_timeout),
            ("importance", self.importance),
        ] {
            if n != 0 {
                parts.push(format!("{name}={n}"));
            }
        }
        parts.extend(print_flags(self.flags));
        parts.extend(self.buffer_id.map(|id| format!("buffer_id={id:#x}")));
        if self.out_port != PortNo::ANY {
            parts.push(format!("out_port={}", self.out_port));
        }
        if self.out_group != GroupId::ANY {
            parts.push(format!("out_group={}", super::group::print_group_id(self.out_group)));
        }
        if self.priority != Self::default().priority {
            parts.push(format!("priority={}", self.priority));
        }
        parts.extend(matching::print(&self.matching));
        let deletes = [FlowModCommand::DELETE, FlowModCommand::DELETE_STRICT];
        if !deletes.contains(&self.command) || !self.instructions.is_empty() {
            parts.push(format!("actions={}", Instruction::list_to_text(&self.instructions)));
        }
        parts.join(",")
    }

    fn print_cookie(&self, parts: &mut Vec<String>) {
        let adds = self.command == FlowModCommand::ADD;
        if self.cookie_mask != 0 || (!adds && self.cookie != 0) {
            let (cookie, mask) = (hex(self.cookie.into()), hex(self.cookie_mask.into()));
            parts.push(format!("cookie={cookie}/{mask}"));
        } else if self.cookie != 0 {
            parts.push(format!("cookie={:#x}", self.cookie));
        }
    }

    /// Parses a keyword; `false` if `pair` is a match field.
    fn keyword(&mut self, pair: &KeyValue<'_>) -> Result<bool, TextError> {
        if let Some(row) = FLAGS.iter().find(|row| row.1 == pair.name()) {
            pair.no_value()?;
            self.flags |= row.0;
            return Ok(true);
        }
        match pair.name() {
            "table" => self.table_id = pair.int()?,
            "priority" => self.priority = pair.int()?,
            "cookie" => self.read_cookie(pair)?,
            "idle_timeout" => self.idle_timeout = pair.int()?,
            "hard_timeout" => self.hard_timeout = pair.int()?,
            "importance" => self.importance = pair.int()?,
            "flags" => self.flags |= FlowModFlags(pair.int()?),
            "buffer_id" => self.buffer_id = Some(pair.int()?),
            "out_port" => self.out_port = port(pair.required()?)?,
            "out_group" => self.out_group = super::group::group_id(pair.required()?)?,
            name => return Ok(IGNORED.contains(&name)),
        }
        Ok(true)
    }

    /// Parses `cookie=5` (cookie of a new flow entry) or `cookie=5/0xff` (which flow entries to change).
    fn read_cookie(&mut self, pair: &KeyValue<'_>) -> Result<(), TextError> {
        let value = pair.required()?;
        let Some((cookie, mask)) = value.split("/") else {
            let deletes = [FlowModCommand::DELETE, FlowModCommand::DELETE_STRICT];
            if deletes.contains(&self.command) {
                let what = "the cookie requires a mask here, such as `cookie=5/-1`; without one it matches all";
                return Err(value.error_after(what));
            }
            (self.cookie, self.cookie_mask) = (value.int()?, 0);
            return Ok(());
        };
        if self.command == FlowModCommand::ADD {
            return Err(mask.error("the cookie of a new flow entry takes no mask"));
        }
        self.cookie = cookie.int()?;
        self.cookie_mask = if mask.text() == "-1" { u64::MAX } else { mask.int()? };
        Ok(())
    }
}

impl From<&NxFlowMod> for FlowMod {
    fn from(flow: &NxFlowMod) -> Self {
        Self {
            command: flow.command,
            cookie: flow.cookie,
            table_id: flow.table_id,
            idle_timeout: flow.idle_timeout,
            hard_timeout: flow.hard_timeout,
            priority: flow.priority,
            buffer_id: flow.buffer_id,
            out_port: flow.out_port,
            flags: flow.flags,
            matching: flow.matching.clone(),
            instructions: flow.instructions.clone(),
            ..Self::default()
        }
    }
}

/// The next key and value; `None` at the end or at the actions, which are stored in `actions`.
fn next<'a>(
    all: TextSpan<'a>,
    pairs: &mut super::token::KeyValues<'a>,
    actions: &mut Option<TextSpan<'a>>,
) -> Result<Option<KeyValue<'a>>, TextError> {
    let text = all.text();
    let left = pairs.left().text().trim_start_matches([',', ' ', '\t', '\r', '\n']);
    for word in ["actions=", "action=", "actions:", "action:"] {
        if left.starts_with(word) {
            *actions = Some(all.skip(text.len() - left.len() + word.len()));
            return Ok(None);
        }
    }
    pairs.next()
}

/// Table of a flow entry without `table=`.
fn default_table(command: FlowModCommand) -> u8 {
    if command == FlowModCommand::ADD { 0 } else { ALL_TABLES }
}

/// Flags by name; bits without a name as a number.
pub(crate) fn print_flags(flags: FlowModFlags) -> Vec<String> {
    let known = FLAGS.iter().fold(0, |bits, row| bits | row.0.0);
    let set = FLAGS.iter().filter(|row| flags.contains(row.0));
    let mut words: Vec<_> = set.map(|row| row.1.to_owned()).collect();
    if flags.0 & !known != 0 {
        let mut word = String::new();
        let _ = write!(word, "flags={:#x}", flags.0 & !known);
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_entry_survives_a_roundtrip_through_text() {
        for line in [
            "priority=10,ip,nw_dst=10.0.0.0/24,actions=output:2",
            "cookie=0x5,table=3,idle_timeout=5,hard_timeout=9,importance=7,send_flow_rem,no_byte_counts,in_port=LOCAL,actions=drop",
            "tcp,nw_src=10.0.0.1,tp_dst=80,tcp_flags=+syn-ack,actions=dec_ttl,goto_table:2",
            "udp6,ipv6_dst=2001:db8::/32,tp_src=0x10/0xfff0,actions=NORMAL",
            "dl_vlan=9,dl_vlan_pcp=3,dl_src=02:00:00:00:00:01,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=pop_vlan,output:1",
            "vlan_tci=0x0000/0x1fff,actions=output:1",
            "dl_vlan_pcp=7,actions=output:1",
            "arp,arp_spa=10.0.0.1,arp_op=1,arp_sha=02:00:00:00:00:01,actions=FLOOD",
            "icmp6,icmp_type=135,icmp_code=0,nd_target=fe80::1,nd_sll=02:00:00:00:00:01,actions=CONTROLLER:65535",
            "ct_state=+est+trk,ct_zone=5,ct_mark=0x1/0xf,ip,actions=drop",
            "ip,reg0=0x5/0xff,metadata=0x1,nw_tos=16,nw_ecn=1,nw_ttl=64,nw_frag=first,actions=drop",
            "mpls,mpls_label=5,mpls_tc=1,mpls_bos=1,actions=drop",
            "tun_id=0x5,tun_src=1.2.3.4,tun_metadata0=0x00ff,dl_type=0x1234,actions=drop",
            "sctp,tp_dst=5,actions=drop",
        ] {
            let flow = FlowMod::from_text(line, FlowModCommand::ADD);
            let flow = flow.unwrap_or_else(|e| panic!("{}", super::super::caret(line, &e)));
            let text = flow.to_text();
            let again = FlowMod::from_text(&text, FlowModCommand::ADD);
            assert_eq!(again, Ok(flow), "{line}");
            let mut words: Vec<_> = line.split(',').collect();
            let mut printed: Vec<_> = text.split(',').collect();
            words.sort_unstable();
            printed.sort_unstable();
            assert_eq!(printed, words);
        }
    }
}
