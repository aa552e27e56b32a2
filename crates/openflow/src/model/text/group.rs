//! Groups as text: `group_id=1,type=select,bucket=weight:1,watch_port:2,actions=output:1`.

use super::action::{MatchContext, list};
use super::field_action::name_of;
use super::field_value::port;
use super::matching::{field_of, print_value, read_value};
use super::token::{KeyValue, TextError, TextSpan};
use crate::model::value::hex;
use crate::model::{
    Action, Bucket, BucketId, BucketProp, Field, FieldId, FixedString, GroupCommand, GroupId,
    GroupMod, GroupProp, GroupType, Match, Oxm,
};

/// Group types by name.
const TYPES: &[(GroupType, &str)] = &[
    (GroupType::ALL, "all"),
    (GroupType::SELECT, "select"),
    (GroupType::INDIRECT, "indirect"),
    (GroupType::FF, "ff"),
    (GroupType::FF, "fast_failover"),
];

impl GroupMod {
    /// Parses a group in the syntax of `ovs-ofctl add-group`, for use with `command`.
    ///
    /// # Errors
    /// What is wrong in the line, and at which column.
    pub fn from_text(line: &str, command: GroupCommand) -> Result<Self, TextError> {
        let all = TextSpan::of(line);
        let mut group = Self { command, ..Self::default() };
        let (mut named, mut typed, mut selects, mut buckets) = (false, false, None, None);
        let mut pairs = all.pairs();
        while let Some(pair) = pairs.next()? {
            match pair.name() {
                "group_id" => (group.group_id, named) = (group_id(pair.required()?)?, true),
                "type" => (group.group_type, typed) = (group_type(pair.required()?)?, true),
                "command_bucket_id" => group.command_bucket_id = bucket_id(pair.required()?)?,
                "selection_method" | "selection_method_param" | "fields" => {
                    group.selection(&pair)?;
                    selects = Some(pair.key);
                }
                "bucket" => {
                    buckets = Some(pairs.text_from_value(&pair));
                    break;
                }
                _ => return Err(pair.unknown("group keyword")),
            }
        }
        if !named {
            if command != GroupCommand::DELETE || !line.trim().is_empty() {
                return Err(all.error_after("missing `group_id=`"));
            }
            group.group_id = GroupId::ALL;
        }
        let whole = [GroupCommand::ADD, GroupCommand::MODIFY, GroupCommand::ADD_OR_MOD];
        if whole.contains(&command) && !typed {
            return Err(all.error_after("missing `type=`"));
        }
        if let (Some(place), true) = (selects, group.selects_without_method()) {
            return Err(place.error(format!("`{}` requires `selection_method`", place.text())));
        }
        if let Some(buckets) = buckets {
            let pieces = apart(buckets);
            let read = pieces.into_iter().map(|piece| bucket(piece, group.group_type));
            group.buckets = read.collect::<Result<_, _>>()?;
        }
        Ok(group)
    }

    /// The group in the syntax of `ovs-ofctl add-group`, without the command.
    pub fn to_text(&self) -> String {
        let mut parts = vec![format!("group_id={}", print_group_id(self.group_id))];
        if self.command_bucket_id != BucketId::ALL {
            parts.push(format!("command_bucket_id={}", print_bucket_id(self.command_bucket_id)));
        }
        let typeless =
            [GroupCommand::DELETE, GroupCommand::INSERT_BUCKET, GroupCommand::REMOVE_BUCKET];
        if !typeless.contains(&self.command) || self.group_type != GroupType::ALL {
            let word = TYPES.iter().find(|row| row.0 == self.group_type);
            let word = word.map_or_else(|| self.group_type.0.to_string(), |row| row.1.to_owned());
            parts.push(format!("type={word}"));
        }
        parts.extend(self.properties.iter().map(print_property));
        parts.extend(self.buckets.iter().map(|it| print_bucket(it, self.group_type)));
        parts.join(",")
    }

    /// Whether selection parameters are given without `selection_method`.
    fn selects_without_method(&self) -> bool {
        let none = |it: &GroupProp| {
            matches!(it, GroupProp::SelectionMethod { selection_method, .. }
                if *selection_method == FixedString::default())
        };
        self.properties.iter().any(none)
    }

    /// Parses one of the selection parameters.
    fn selection(&mut self, pair: &KeyValue<'_>) -> Result<(), TextError> {
        if self.properties.is_empty() {
            self.properties.push(GroupProp::SelectionMethod {
                selection_method: FixedString::default(),
                selection_method_param: 0,
                fields: Match::default(),
            });
        }
        let Some(GroupProp::SelectionMethod { selection_method, selection_method_param, fields }) =
            self.properties.first_mut()
        else {
            return Ok(());
        };
        match pair.name() {
            "selection_method" => {
                let value = pair.required()?;
                if value.text().len() >= 16 {
                    return Err(value.error("selection method longer than 15 bytes"));
                }
                let odd = |c: char| !c.is_ascii_alphanumeric() && !"_-.+".contains(c);
                if value.text().contains(odd) {
                    return Err(
                        value.error("invalid selection method (expected letters, digits or _-.+)")
                    );
                }
                *selection_method = value.text().into();
            }
            "selection_method_param" => *selection_method_param = pair.int()?,
            _ => *fields = hashed(pair.required()?)?,
        }
        Ok(())
    }
}

/// Parses a group number, `all` or `any`.
pub(crate) fn group_id(piece: TextSpan<'_>) -> Result<GroupId, TextError> {
    match GroupId::ROWS.iter().find(|row| row.1.eq_ignore_ascii_case(piece.text())) {
        Some(row) => Ok(row.0),
        None => piece.int().map(GroupId),
    }
}

/// The group's name, or its number if it has none.
pub(crate) fn print_group_id(id: GroupId) -> String {
    id.name().map_or_else(|| id.0.to_string(), str::to_ascii_lowercase)
}

fn group_type(piece: TextSpan<'_>) -> Result<GroupType, TextError> {
    if let Some(row) = TYPES.iter().find(|row| row.1 == piece.text()) {
        return Ok(row.0);
    }
    if piece.text().starts_with(|c: char| c.is_ascii_digit()) {
        return piece.int().map(GroupType);
    }
    Err(piece.error(format!(
        "unknown group type `{}` (expected all, select, indirect or ff)",
        piece.text()
    )))
}

fn bucket_id(piece: TextSpan<'_>) -> Result<BucketId, TextError> {
    match BucketId::ROWS.iter().find(|row| row.1.eq_ignore_ascii_case(piece.text())) {
        Some(row) => Ok(row.0),
        None => piece.int().map(BucketId),
    }
}

fn print_bucket_id(id: BucketId) -> String {
    id.name().map_or_else(|| id.0.to_string(), str::to_ascii_lowercase)
}

/// Splits the text after the first `bucket=` into buckets.
fn apart(piece: TextSpan<'_>) -> Vec<TextSpan<'_>> {
    let (mut rest, mut apart) = (piece, Vec::new());
    while let Some((one, more)) = rest.split("bucket=") {
        let len = one.text().trim_end_matches([',', ' ', '\t']).len();
        apart.push(one.sub(0, len));
        rest = more;
    }
    apart.push(rest);
    apart
}

fn bucket(piece: TextSpan<'_>, group_type: GroupType) -> Result<Bucket, TextError> {
    let mut bucket = Bucket::default();
    let mut weight = u16::from(group_type == GroupType::SELECT);
    let (mut watch, mut actions) = (Vec::new(), None);
    let mut pairs = piece.pairs();
    loop {
        let before = pairs.left();
        let Some(pair) = pairs.next()? else { break };
        match pair.name() {
            "bucket_id" => bucket.bucket_id = bucket_id(pair.required()?)?,
            "weight" => weight = pair.int()?,
            "watch_port" => watch.push(BucketProp::WatchPort { watch: port(pair.required()?)? }),
            "watch_group" => {
                watch.push(BucketProp::WatchGroup { watch: group_id(pair.required()?)? });
            }
            "action" | "actions" => {
                actions = Some(pairs.text_from_value(&pair));
                break;
            }
            // Actions are also accepted without `actions=`.
            _ => {
                actions = Some(before);
                break;
            }
        }
    }
    let missing = || piece.error_after("missing `actions=` in the bucket");
    bucket.actions = list(actions.ok_or_else(missing)?, MatchContext::default())?;
    if weight != 0 {
        bucket.properties.push(BucketProp::Weight { weight });
    }
    bucket.properties.extend(watch);
    if group_type == GroupType::FF && !bucket.properties.iter().any(is_watch) {
        return Err(piece.error("a fast-failover bucket requires `watch_port` or `watch_group`"));
    }
    Ok(bucket)
}

fn is_watch(property: &BucketProp) -> bool {
    matches!(property, BucketProp::WatchPort { .. } | BucketProp::WatchGroup { .. })
}

pub(crate) fn print_bucket(bucket: &Bucket, group_type: GroupType) -> String {
    let mut parts = vec![];
    if bucket.bucket_id != BucketId::ALL {
        parts.push(format!("bucket_id:{}", print_bucket_id(bucket.bucket_id)));
    }
    let usual = u16::from(group_type == GroupType::SELECT);
    let weight = bucket.properties.iter().find_map(|property| match property {
        BucketProp::Weight { weight } => Some(*weight),
        _ => None,
    });
    if weight.unwrap_or(0) != usual {
        parts.push(format!("weight:{}", weight.unwrap_or(0)));
    }
    for property in &bucket.properties {
        match property {
            BucketProp::WatchPort { watch } => parts.push(format!("watch_port:{watch}")),
            BucketProp::WatchGroup { watch } => {
                parts.push(format!("watch_group:{}", print_group_id(*watch)));
            }
            _ => {}
        }
    }
    parts.push(format!("actions={}", Action::list_to_text(&bucket.actions)));
    format!("bucket={}", parts.join(","))
}

/// Parses `fields(ip_src,ip_dst=255.255.255.0)`, where each value is a mask.
fn hashed(piece: TextSpan<'_>) -> Result<Match, TextError> {
    let (mut pairs, mut read) = (piece.pairs(), Match::default());
    while let Some(pair) = pairs.next()? {
        let id = field_of(pair.name()).ok_or_else(|| pair.unknown("field"))?.canonical();
        let mask = if pair.value.is_empty() { all_of(id) } else { read_value(id, pair.value)? };
        if mask.is_masked() {
            return Err(pair.value.error("the value is already a mask; `/` is not allowed"));
        }
        read.fields.push(mask);
    }
    Ok(read)
}

/// The mask with all bits of a field, for a field without a value.
fn all_of(id: FieldId) -> Oxm {
    Field::new(id, Field::new(id, 0).significant_bits()).into()
}

fn print_property(property: &GroupProp) -> String {
    match property {
        GroupProp::SelectionMethod { selection_method, selection_method_param, fields } => {
            let mut parts = vec![format!("selection_method={selection_method}")];
            if *selection_method_param != 0 {
                parts.push(format!("selection_method_param={selection_method_param}"));
            }
            let fields: Vec<_> = fields.fields.iter().map(print_hashed).collect();
            if !fields.is_empty() {
                parts.push(format!("fields({})", fields.join(",")));
            }
            parts.join(",")
        }
        GroupProp::Experimenter { experimenter, exp_type, data } => {
            format!("experimenter({experimenter:#x},{exp_type:#x},{})", hex(data))
        }
        GroupProp::Other { code, body } => format!("property({code:#x},{})", hex(body)),
    }
}

fn print_hashed(oxm: &Oxm) -> String {
    let name = name_of(oxm.id());
    if *oxm == all_of(oxm.id()) { name } else { format!("{name}={}", print_value(oxm)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_survives_a_roundtrip_through_text() {
        for line in [
            "group_id=1,type=all,bucket=actions=output:1,bucket=actions=output:2",
            "group_id=2,type=select,selection_method=hash,selection_method_param=5,fields(ip_src,ip_dst=255.255.255.0),bucket=weight:3,watch_port:2,actions=output:1",
            "group_id=3,type=ff,bucket=bucket_id:1,watch_port:1,actions=output:1,bucket=watch_group:7,actions=drop",
            "group_id=2,type=select,selection_method=hash,fields(tun_metadata0=0xffff,tun_metadata1)",
            "group_id=4,type=indirect,bucket=actions=set_field:0x5->reg0,resubmit(,3)",
        ] {
            let group = GroupMod::from_text(line, GroupCommand::ADD)
                .unwrap_or_else(|e| panic!("{line}: {e}"));
            assert_eq!(group.to_text(), line);
        }
        let bare =
            GroupMod::from_text("group_id=1,type=select,bucket=output:1,2", GroupCommand::ADD)
                .unwrap();
        assert_eq!(bare.to_text(), "group_id=1,type=select,bucket=actions=output:1,output:2");
        assert_eq!(GroupMod::from_text("", GroupCommand::DELETE).unwrap().group_id, GroupId::ALL);
        let line = "group_id=1,command_bucket_id=last,bucket=bucket_id:4,actions=output:1";
        let insert = GroupMod::from_text(line, GroupCommand::INSERT_BUCKET).unwrap();
        assert_eq!(insert.to_text(), line);
    }

    #[test]
    fn an_error_names_its_column() {
        for (line, column, what) in [
            ("group_id=1,bucket=actions=output:1", 35, "missing `type=`"),
            ("type=all", 9, "missing `group_id=`"),
            (
                "group_id=1,type=some",
                17,
                "unknown group type `some` (expected all, select, indirect or ff)",
            ),
            ("group_id=1,type=all,bucket=weight:x,actions=1", 35, "`x` is not a number"),
            ("group_id=1,type=all,bucket=weight:1", 36, "missing `actions=` in the bucket"),
            ("group_id=1,type=all,bucket=actions=outptu:1", 36, "unknown action `outptu`"),
            ("group_id=1,type=all,buckets=1", 21, "unknown group keyword `buckets`"),
            ("group_id=1,type=select,fields(ip_src)", 24, "`fields` requires `selection_method`"),
            (
                "group_id=1,type=select,selection_method(a b)",
                41,
                "invalid selection method (expected letters, digits or _-.+)",
            ),
            (
                "group_id=1,type=select,selection_method=hash,fields(ip_src=1.2.3.4/8)",
                60,
                "the value is already a mask; `/` is not allowed",
            ),
        ] {
            let error = GroupMod::from_text(line, GroupCommand::ADD).unwrap_err();
            assert_eq!((error.column, error.message.as_str()), (column, what), "{line}");
        }
    }
}
