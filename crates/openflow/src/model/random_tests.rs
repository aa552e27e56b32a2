//! Random messages of every version survive a roundtrip, or are refused with the name of what the version lacks.

use std::collections::{BTreeMap, BTreeSet};

use super::async_config::{AsyncConfig, AsyncProp};
use super::codec::{Choice, ChoiceRow};
use super::random_values::{Rng, Rows, Sample};
use super::*;
use crate::{EncodeError, Encoder, PortNo, RawMessage, Version};

/// Number of random messages per version.
const MESSAGES: u64 = 40_000;

/// A difference between a message and what is parsed from its bytes that is allowed because the meaning is the same.
struct AllowedDifference {
    name: &'static str,
    /// Whether this is why `original` at `path` is parsed as `parsed`.
    applies: fn(path: &str, version: Version, original: &Value, parsed: &Value) -> bool,
}

fn items(value: &Value) -> &[Value] {
    if let Value::List(items) = value { items } else { &[] }
}

fn entries(value: &Value) -> &[(std::borrow::Cow<'static, str>, Value)] {
    if let Value::Map(entries) = value { entries } else { &[] }
}

fn kind(value: &Value) -> &str {
    if let Some(Value::Text(name)) = value.get("type") { name } else { "" }
}

fn text(value: &Value) -> &str {
    if let Value::Text(text) = value { text } else { "" }
}

/// Whether `parsed` has the items of `original` in any order, except those that are `redundant`.
fn same_set<T: PartialEq>(original: &[T], parsed: &[T], redundant: fn(&T) -> bool) -> bool {
    original.iter().all(|it| parsed.contains(it) || redundant(it))
        && parsed.iter().all(|it| original.contains(it))
}

/// Whether actions of type `from` are replaced by actions of the types `to`.
fn is_replaced(original: &Value, parsed: &Value, from: &str, to: &[&str]) -> bool {
    let (original, parsed) = (items(original), items(parsed).iter().map(kind));
    let expected = original.iter().flat_map(|action| match kind(action) {
        it if it == from => to.to_vec(),
        other => vec![other],
    });
    original.iter().any(|action| kind(action) == from) && expected.eq(parsed)
}

const ALLOWED_DIFFERENCES: &[AllowedDifference] = &[
    AllowedDifference {
        name: "buffer_id 0xffffffff means that there is no buffer",
        applies: |path, _, original, parsed| {
            path.ends_with(".buffer_id")
                && (original, parsed) == (&Value::Number(0xffff_ffff), &Value::Null)
        },
    },
    AllowedDifference {
        name: "padding becomes part of data that extends to the end of an action or instruction",
        applies: |path, _, original, parsed| {
            let open = [".note", ".data", ".body"].iter().any(|end| path.ends_with(end));
            let rest = text(parsed).strip_prefix(text(original));
            open && rest.is_some_and(|rest| rest.len() < 16 && rest.bytes().all(|c| c == b'0'))
        },
    },
    AllowedDifference {
        name: "in 1.0 and 1.1 the fields of a match have a fixed order, and wildcarded fields are omitted",
        applies: |path, version, original, parsed| {
            let is_wild = |(_, value): &(_, Value)| {
                text(value).ends_with("/0")
                    || text(value).ends_with("/0x0")
                    || text(value).ends_with("/00:00:00:00:00:00")
            };
            path.ends_with("matching")
                && version < Version::V1_2
                && same_set(entries(original), entries(parsed), is_wild)
        },
    },
    AllowedDifference {
        name: "counters at fixed positions have a fixed order, and all ones mean that a counter is unavailable",
        applies: |path, _, original, parsed| {
            let unknown = |(_, n): &(_, Value)| match n {
                Value::Map(parts) => parts.iter().all(|(_, n)| *n == Value::Number(0xffff_ffff)),
                n => [Value::text("0xffffffffffffffff"), Value::Number(0xffff_ffff)].contains(n),
            };
            path.rsplit_once('.').is_some_and(|(_, last)| last == "stats")
                && same_set(entries(original), entries(parsed), unknown)
        },
    },
    AllowedDifference {
        name: "a packet-out without an ingress port comes from the controller",
        applies: |path, _, original, parsed| {
            let in_port = ("in_port".into(), Value::text("controller"));
            path.ends_with(".packet_out.matching")
                && entries(parsed).split_first() == Some((&in_port, entries(original)))
        },
    },
    AllowedDifference {
        name: "before 1.5 buckets have no ID",
        applies: |path, version, original, _| {
            path.ends_with(".bucket_id") && version < Version::V1_5 && text(original) == "all"
        },
    },
    AllowedDifference {
        name: "before 1.5 the properties of buckets are fixed fields, and defaults are omitted",
        applies: |path, version, original, parsed| {
            let nothing = |it: &Value| match it.get("watch") {
                Some(watch) => text(watch) == "any",
                None => it.get("weight") == Some(&Value::Number(0)),
            };
            path.ends_with(".buckets.properties")
                && version < Version::V1_5
                && same_set(items(original), items(parsed), nothing)
        },
    },
    AllowedDifference {
        name: "before 1.4 properties are fixed fields, and one whose fields are all zero is omitted",
        applies: |path, version, original, parsed| {
            let alone = items(original).len() == 1 && items(parsed).is_empty();
            path.ends_with(".properties") && version < Version::V1_4 && alone
        },
    },
    AllowedDifference {
        name: "after 1.0 enqueue becomes set_queue and output",
        applies: |_, version, original, parsed| {
            version > Version::V1_0
                && is_replaced(original, parsed, "enqueue", &["set_queue", "output"])
        },
    },
    AllowedDifference {
        name: "before 1.3 copy_field becomes reg_move",
        applies: |_, version, original, parsed| {
            version < Version::V1_3 && is_replaced(original, parsed, "copy_field", &["reg_move"])
        },
    },
    AllowedDifference {
        name: "in 1.5 reg_move becomes copy_field",
        applies: |_, version, original, parsed| {
            version == Version::V1_5 && is_replaced(original, parsed, "reg_move", &["copy_field"])
        },
    },
    AllowedDifference {
        name: "in 1.5 reg_load and reg_load2 become set_field",
        applies: |_, version, original, parsed| {
            let one = |from| is_replaced(original, parsed, from, &["set_field"]);
            version == Version::V1_5 && (one("reg_load") || one("reg_load2"))
        },
    },
    AllowedDifference {
        name: "in 1.0 and 1.1 set_tp_src and set_tp_dst set the ports of all protocols",
        applies: |path, version, original, parsed| {
            let port = |value: &Value| match entries(value) {
                [(name, port)] => Some((name.split_once('_')?.1.to_owned(), port.clone())),
                _ => None,
            };
            path.ends_with(".set_field.field")
                && version < Version::V1_2
                && port(original).is_some()
                && port(original) == port(parsed)
        },
    },
    AllowedDifference {
        name: "in messages with a plain list of actions, an empty apply_actions is omitted",
        applies: |path, version, original, parsed| {
            let nothing = |it: &Value| {
                kind(it) == "apply_actions" && it.get("actions") == Some(&Value::List(vec![]))
            };
            path.ends_with(".instructions")
                && version < Version::V1_3
                && items(parsed).is_empty()
                && items(original).iter().all(nothing)
        },
    },
    AllowedDifference {
        name: "meter is an instruction in 1.3 and 1.4, and an action in 1.5",
        applies: |path, version, original, parsed| {
            let has = |list: &Value| items(list).iter().any(|it| kind(it) == "meter");
            let acts = |list: &Value| {
                let mut all = items(list).iter().filter_map(|it| it.get("actions"));
                all.any(|list| items(list).first().is_some_and(|it| kind(it) == "meter"))
            };
            path.ends_with(".instructions")
                && match version {
                    Version::V1_5 => has(original) && acts(parsed),
                    _ => acts(original) && has(parsed),
                }
        },
    },
];

fn encoded(message: &Message, version: Version) -> Result<Vec<u8>, EncodeError> {
    let (mut tx, mut xid) = (vec![], 1);
    let result = message.encode(7, &mut Encoder::new(&mut tx, version, &mut xid));
    if let Err(error) = result {
        assert!(tx.is_empty(), "{error}, but the buffer is not empty");
        assert!(!error.what.is_empty() && error.version == version, "{error:?}: {message:?}");
        assert!(error.needs.is_none_or(|needs| needs > version), "{error:?}: {message:?}");
        return Err(error);
    }
    Ok(tx)
}

/// Set and index of the row `name`.
fn row<T: Choice>(name: &str) -> (&'static str, usize) {
    (T::TYPE_NAME, T::ROWS.iter().position(|row| row.name == name).unwrap())
}

/// Set and index of the `n`th row that `version` has, modulo their number; sometimes of all rows.
fn nth<T: Choice>(n: u64, version: Version) -> (&'static str, usize) {
    let is_candidate = |at: &usize| n % 64 == 63 || (T::ROWS[*at].code)(version).is_some();
    let rows: Vec<_> = (0..T::ROWS.len()).filter(is_candidate).collect();
    (T::TYPE_NAME, rows[usize::try_from(n).unwrap() % rows.len()])
}

/// The `n`th random message: all messages, actions and multipart bodies occur equally often.
fn random_message(n: u64, version: Version) -> Message {
    let mut rng = Rng::new(n << 8 | u64::from(version.0), version);
    let index = n / 5;
    rng.forced_rows = match n % 5 {
        0 => vec![row::<Message>("multipart_request"), nth::<MultipartRequest>(index, version)],
        1 => vec![row::<Message>("multipart_reply"), nth::<MultipartReply>(index, version)],
        // These are encoded differently in other versions.
        2 if index.is_multiple_of(16) => {
            vec![row::<Message>("packet_out"), row::<Action>("set_field")]
        }
        3 if index % 16 == 1 => vec![row::<Message>("flow_mod"), row::<Instruction>("meter")],
        2 => vec![row::<Message>("packet_out"), nth::<Action>(index, version)],
        3 if index.is_multiple_of(32) => vec![],
        _ => vec![nth::<Message>(index, version)],
    };
    rng.forced_rows.push(nth::<BucketProp>(index, version));
    rng.forced_rows.push(nth::<Controller2Prop>(index, version));
    let mut message = Message::sample(&mut rng);
    if index % 8 < 7 {
        make_valid(&mut message, version, &mut rng);
    }
    message
}

/// Makes messages valid that rarely are by chance.
fn make_valid(message: &mut Message, version: Version, rng: &mut Rng) {
    match message {
        // Longer extra data could be parsed as an element.
        Message::Hello(hello) => hello.extra.truncate(3),
        // Exactly the six masks.
        Message::GetAsyncReply(AsyncConfig { properties })
        | Message::SetAsync(AsyncConfig { properties })
            if version == Version::V1_3 =>
        {
            *properties = six_masks(rng);
        }
        Message::NxSetAsyncConfig { properties } => *properties = six_masks(rng),
        // Few fields can be set in 1.0 and 1.1.
        Message::PacketOut(PacketOut { actions, .. }) if version < Version::V1_2 => {
            if let Some(Action::SetField { field }) = actions.first_mut()
                && rng.once_in(4)
            {
                *field = Field::new(FieldId::UDP_SRC, u16::sample(rng).into()).into();
            }
        }
        // Buckets have no ID.
        Message::GroupMod(GroupMod { buckets, .. }) if version < Version::V1_5 => {
            for bucket in buckets {
                bucket.bucket_id = BucketId::ALL;
            }
        }
        _ => {}
    }
}

fn six_masks(rng: &mut Rng) -> Vec<AsyncProp> {
    vec![
        AsyncProp::PacketInSlave { mask: Sample::sample(rng) },
        AsyncProp::PacketInMaster { mask: Sample::sample(rng) },
        AsyncProp::PortStatusSlave { mask: Sample::sample(rng) },
        AsyncProp::PortStatusMaster { mask: Sample::sample(rng) },
        AsyncProp::FlowRemovedSlave { mask: Sample::sample(rng) },
        AsyncProp::FlowRemovedMaster { mask: Sample::sample(rng) },
    ]
}

/// The first difference that is not allowed; adds the names of allowed ones to `applied`.
fn difference(
    path: &str,
    version: Version,
    original: &Value,
    parsed: &Value,
    applied: &mut BTreeSet<&'static str>,
) -> Option<String> {
    if original == parsed {
        return None;
    }
    if let Some(allowed) =
        ALLOWED_DIFFERENCES.iter().find(|it| (it.applies)(path, version, original, parsed))
    {
        applied.insert(allowed.name);
        return None;
    }
    let kind = |value: &Value| match value.get("type") {
        Some(Value::Text(name)) => format!("{path}.{name}"),
        _ => path.to_owned(),
    };
    match (original, parsed) {
        (Value::Map(a), Value::Map(b)) if a.iter().map(|e| &e.0).eq(b.iter().map(|e| &e.0)) => {
            let path = kind(original);
            let both = a.iter().zip(b);
            let mut differ = both.filter_map(|((name, a), (_, b))| {
                difference(&format!("{path}.{name}"), version, a, b, applied)
            });
            differ.next()
        }
        (Value::List(a), Value::List(b)) if a.len() == b.len() => {
            a.iter().zip(b).find_map(|(a, b)| difference(path, version, a, b, applied))
        }
        _ => Some(format!("{path} in {version}: {original:?} is parsed as {parsed:?}")),
    }
}

/// All sets of alternatives: name and rows.
pub(super) const ALL_CHOICES: &[(&str, &[ChoiceRow])] = &[
    (Action::TYPE_NAME, Action::ROWS),
    (AsyncProp::TYPE_NAME, AsyncProp::ROWS),
    (BundleProp::TYPE_NAME, BundleProp::ROWS),
    (BundleFeaturesProp::TYPE_NAME, BundleFeaturesProp::ROWS),
    (ControllerStatusProp::TYPE_NAME, ControllerStatusProp::ROWS),
    (EncapProp::TYPE_NAME, EncapProp::ROWS),
    (FlowUpdate::TYPE_NAME, FlowUpdate::ROWS),
    (BucketProp::TYPE_NAME, BucketProp::ROWS),
    (GroupProp::TYPE_NAME, GroupProp::ROWS),
    (HelloElement::TYPE_NAME, HelloElement::ROWS),
    (Instruction::TYPE_NAME, Instruction::ROWS),
    (LearnSrc::TYPE_NAME, LearnSrc::ROWS),
    (LearnDst::TYPE_NAME, LearnDst::ROWS),
    (Message::TYPE_NAME, Message::ROWS),
    (MeterBand::TYPE_NAME, MeterBand::ROWS),
    (MultipartRequest::TYPE_NAME, MultipartRequest::ROWS),
    (MultipartReply::TYPE_NAME, MultipartReply::ROWS),
    (NxCtTupleProp::TYPE_NAME, NxCtTupleProp::ROWS),
    (NxCtProp::TYPE_NAME, NxCtProp::ROWS),
    (Controller2Prop::TYPE_NAME, Controller2Prop::ROWS),
    (PacketInProp::TYPE_NAME, PacketInProp::ROWS),
    (PortProp::TYPE_NAME, PortProp::ROWS),
    (PortModProp::TYPE_NAME, PortModProp::ROWS),
    (PortStatsProp::TYPE_NAME, PortStatsProp::ROWS),
    (QueueProp::TYPE_NAME, QueueProp::ROWS),
    (QueueStatsProp::TYPE_NAME, QueueStatsProp::ROWS),
    (RoleProp::TYPE_NAME, RoleProp::ROWS),
    (TableModProp::TYPE_NAME, TableModProp::ROWS),
    (TableFeatureProp::TYPE_NAME, TableFeatureProp::ROWS),
];

/// Checks the roundtrips of one message; adds its alternatives to `seen` and the allowed differences to `applied`.
fn check_message(
    message: &Message,
    version: Version,
    seen: &mut Rows,
    applied: &mut BTreeSet<&'static str>,
) {
    let Ok(bytes) = encoded(message, version) else { return };
    message.rows(seen);
    let value = message.to_value(version);
    assert_eq!(Message::from_value(&value, version).as_ref(), Ok(message), "neutral form");
    let parsed = Message::parse_raw(RawMessage::new(&bytes).unwrap());
    let parsed = parsed.unwrap_or_else(|error| panic!("{error}: {message:?}"));
    assert_eq!(
        encoded(&parsed, version).as_ref(),
        Ok(&bytes),
        "{message:?} is parsed as {parsed:?}"
    );
    if parsed != *message {
        let parsed_value = parsed.to_value(version);
        let reason = "same neutral form, but not equal";
        assert_ne!(parsed_value, value, "{reason}: {message:?} is parsed as {parsed:?}");
        if let Some(difference) = difference("", version, &value, &parsed_value, applied) {
            panic!("{difference}");
        }
    }
}

#[test]
fn random_messages_survive_a_roundtrip_and_every_row_is_encoded() {
    let (mut applied, mut missing, mut unknown) = (BTreeSet::new(), vec![], BTreeSet::new());
    for version in (1..=6).map(Version) {
        let mut seen = Rows::new();
        for n in 0..MESSAGES {
            let message = random_message(n, version);
            let check = std::panic::AssertUnwindSafe(|| {
                check_message(&message, version, &mut seen, &mut applied);
            });
            if let Err(panic) = std::panic::catch_unwind(check) {
                eprintln!("message {n} of {version}: {message:?}");
                std::panic::resume_unwind(panic);
            }
        }
        for (what, rows) in ALL_CHOICES {
            for row in rows.iter().filter(|row| (row.code)(version).is_some()) {
                if !seen.contains(&(what, row.name)) {
                    missing.push(format!("{what} {} in {version}", row.name));
                }
            }
        }
        unknown.extend(
            seen.iter()
                .map(|row| row.0)
                .filter(|what| ALL_CHOICES.iter().all(|all| all.0 != *what)),
        );
    }
    assert_eq!(unknown, BTreeSet::new(), "sets that are missing in ALL_CHOICES");
    assert_eq!(missing, NEVER_ENCODED, "rows that were never encoded");
    let unused: Vec<_> =
        ALLOWED_DIFFERENCES.iter().map(|it| it.name).filter(|it| !applied.contains(it)).collect();
    assert_eq!(unused, [""; 0], "allowed differences that never occurred");
}

/// Rows that cannot be encoded although they have a number.
const NEVER_ENCODED: &[&str] = &[];

#[test]
fn messages_that_could_not_be_parsed_again_are_not_encoded() {
    let error = |message: Message, version| encoded(&message, version).unwrap_err().to_string();
    let multipart_reply =
        |body| Message::MultipartReply(Multipart { flags: MultipartFlags::default(), body });

    let update = FlowUpdate::Other { code: 99, body: vec![1] };
    let updates = multipart_reply(MultipartReply::FlowMonitor { updates: vec![update] });
    assert_eq!(error(updates, Version::V1_4), "flow_update cannot be encoded in OpenFlow 1.4");

    // Port 0 was parsed as the port of the reply.
    let queue = Queue { port_no: PortNo(0), queue_id: 1, properties: vec![] };
    let reply = QueueGetConfigReply { port: PortNo(7), queues: vec![queue] };
    let reply = Message::QueueGetConfigReply(reply);
    assert_eq!(
        error(reply, Version::V1_1),
        "port_no requires OpenFlow 1.2; this session speaks 1.1"
    );

    let other = Stat::Other { class: 1, number: 2, value: vec![3] };
    let removed = NxFlowRemoved { stats: Stats { fields: vec![other] }, ..Default::default() };
    let removed = Message::NxFlowRemoved(removed);
    assert_eq!(
        error(removed, Version::V1_5),
        "statistic without a row cannot be encoded in OpenFlow 1.5"
    );

    let field = FieldHeader::from(FieldId::from_name("nsh_ttl").unwrap());
    let zone = NumberSource::Field { field, bits: BitRange::new(0, 8).unwrap() };
    let ct = Action::Ct(Box::new(CtAction { zone, ..CtAction::default() }));
    let out = Message::PacketOut(PacketOut { actions: vec![ct], ..PacketOut::default() });
    let words = "source with an experimenter field cannot be encoded in OpenFlow 1.3";
    assert_eq!(error(out, Version::V1_3), words);
}

#[test]
fn texts_with_unknown_fields_are_parsed_or_refused() {
    let error = Action::list_from_text("push:oxm_7000_1[3]").unwrap_err();
    assert!(error.message.contains("the size of this field is unknown"), "{error}");
    for line in ["encap(ethernet(property(0x77,0x0102)))", "output:UNSET"] {
        let parsed = Action::list_from_text(line).unwrap();
        assert_eq!(Action::list_to_text(&parsed), line);
    }
}

/// Random actions whose text is refused or changes by parsing and printing: action (empty: any), part of the error message
/// (empty: the text changes), reason.
const TEXT_EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("", "bit out of range", "the encoding allows bits beyond the field"),
    ("", "the size of this field is unknown", "the encoding allows unknown fields"),
    ("", "the last bit is less than the first", "the encoding allows ranges without bits"),
    ("", "unknown hash fields", "the encoding allows unknown hash fields"),
    ("", "unknown algorithm", "the encoding allows unknown algorithms"),
    ("", "unknown header", "the encoding allows unknown headers"),
    ("", "is over ", "the encoding allows values with more bits than the range"),
    ("", "does not fit into ", "the encoding allows values with more bits than the range"),
    (
        "",
        "number of clauses out of range",
        "the encoding allows less than 2 clauses, or more than 64",
    ),
    ("", "clause out of range", "the encoding allows clause numbers beyond the number of clauses"),
    ("", "missing `probability=`", "the encoding allows probability 0"),
    ("", "mutually exclusive", "the encoding allows any combination of flags"),
    ("", " requires `", "the encoding allows any combination of flags"),
    ("", "unknown field", "actions that cannot be encoded are printed too"),
    ("nat", " ", "the encoding allows any combination of the ends of a range"),
    ("clone", "", "it may contain one of the other actions"),
    ("controller", "", "the shorter form is printed"),
    ("controller2", "", "the shorter form is printed"),
    ("copy_field", "", "the encoding allows ranges without bits"),
    ("ct", "", "it may contain one of the other actions"),
    ("dec_ttl_cnt_ids", "", "without controller IDs it is printed as `dec_ttl`"),
    ("stack_pop", "", "the encoding allows ranges without bits"),
    ("stack_push", "", "the encoding allows ranges without bits"),
    ("note", "", "notes are padded"),
];

#[test]
fn random_actions_survive_a_roundtrip_through_text() {
    let (mut passed, mut used, mut failed) = (Rows::new(), BTreeSet::new(), BTreeMap::new());
    for n in 0..40_000 {
        let version = Version(1 + u8::try_from(n % 6).unwrap());
        let mut rng = Rng::new(n, version);
        rng.forced_rows = vec![nth::<Action>(n / 6, version)];
        let action = Action::sample(&mut rng);
        let text = action.to_text();
        assert!(!text.contains('{'), "{action:?} is printed in debug format: {text}");
        let reprinted = Action::list_from_text(&text).map(|list| Action::list_to_text(&list));
        if reprinted.as_ref() == Ok(&text) {
            passed.insert((Action::TYPE_NAME, action.name()));
            continue;
        }
        let message =
            reprinted.as_ref().map_or_else(|error| error.message.clone(), |_| String::new());
        let reason = TEXT_EXCEPTIONS.iter().position(|(name, what, _)| {
            (name.is_empty() || *name == action.name())
                && if what.is_empty() { message.is_empty() } else { message.contains(what) }
        });
        match reason {
            Some(reason) => {
                used.insert(reason);
            }
            None => {
                failed.entry((action.name(), message)).or_insert((text, reprinted));
            }
        }
    }
    assert_eq!(failed, BTreeMap::new(), "texts that are refused or change");
    let unused: Vec<_> = (0..TEXT_EXCEPTIONS.len())
        .filter(|at| !used.contains(at))
        .map(|at| TEXT_EXCEPTIONS[at])
        .collect();
    assert_eq!(unused, [], "exceptions that never occurred");
    let never_passed =
        Action::ROWS.iter().filter(|row| !passed.contains(&(Action::TYPE_NAME, row.name)));
    assert_eq!(
        never_passed.map(|row| row.name).collect::<Vec<_>>(),
        [""; 0],
        "actions that never passed"
    );
}
