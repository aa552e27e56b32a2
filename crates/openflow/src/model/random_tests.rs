//! Random messages of every version: what can be said is read again, what cannot is refused by name.

use std::collections::{BTreeMap, BTreeSet};

use super::async_config::{AsyncConfig, AsyncProp};
use super::codec::{Choice, ChoiceRow};
use super::random_values::{Rng, Rows, Sample};
use super::*;
use crate::{EncodeError, Encoder, PortNo, RawMessage, Version};

/// Messages of each version.
const ROUNDS: u64 = 40_000;

/// Parts of a random message that do not survive encoding and parsing unchanged.
struct Freedom {
    name: &'static str,
    /// Whether it is why `read` stands at `path` where `meant` was written.
    holds: fn(path: &str, version: Version, meant: &Value, read: &Value) -> bool,
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

/// Whether `read` has all of `meant` that says something, in whichever order.
fn same_set<T: PartialEq>(meant: &[T], read: &[T], says_nothing: fn(&T) -> bool) -> bool {
    meant.iter().all(|it| read.contains(it) || says_nothing(it))
        && read.iter().all(|it| meant.contains(it))
}

/// Whether actions of the type `from` are read as those of the types `to` in its place.
fn said_as(meant: &Value, read: &Value, from: &str, to: &[&str]) -> bool {
    let (meant, read) = (items(meant), items(read).iter().map(kind));
    let said = meant.iter().flat_map(|action| match kind(action) {
        it if it == from => to.to_vec(),
        other => vec![other],
    });
    meant.iter().any(|action| kind(action) == from) && said.eq(read)
}

const FREEDOMS: &[Freedom] = &[
    Freedom {
        name: "all ones are no slot of a frame",
        holds: |path, _, meant, read| {
            path.ends_with(".buffer_id")
                && (meant, read) == (&Value::Number(0xffff_ffff), &Value::Null)
        },
    },
    Freedom {
        name: "zeros that fill an action or an instruction up are part of what has no row or no end",
        holds: |path, _, meant, read| {
            let open = [".note", ".data", ".body"].iter().any(|end| path.ends_with(end));
            let rest = text(read).strip_prefix(text(meant));
            open && rest.is_some_and(|rest| rest.len() < 16 && rest.bytes().all(|c| c == b'0'))
        },
    },
    Freedom {
        name: "fixed matches have an order of their own, and wild fields are not there",
        holds: |path, version, meant, read| {
            let is_wild = |(_, value): &(_, Value)| {
                text(value).ends_with("/0")
                    || text(value).ends_with("/0x0")
                    || text(value).ends_with("/00:00:00:00:00:00")
            };
            path.ends_with("matching")
                && version < Version::V1_2
                && same_set(entries(meant), entries(read), is_wild)
        },
    },
    Freedom {
        name: "counters in fixed places have an order of their own, and all ones are not counted",
        holds: |path, _, meant, read| {
            let unknown = |(_, n): &(_, Value)| match n {
                Value::Map(parts) => parts.iter().all(|(_, n)| *n == Value::Number(0xffff_ffff)),
                n => [Value::text("0xffffffffffffffff"), Value::Number(0xffff_ffff)].contains(n),
            };
            path.rsplit_once('.').is_some_and(|(_, last)| last == "stats")
                && same_set(entries(meant), entries(read), unknown)
        },
    },
    Freedom {
        name: "before 1.5 the number of a bucket is its place",
        holds: |path, version, meant, _| {
            path.ends_with(".bucket_id") && version < Version::V1_5 && text(meant) == "all"
        },
    },
    Freedom {
        name: "before 1.5 properties of buckets have fixed places, and none say nothing",
        holds: |path, version, meant, read| {
            let nothing = |it: &Value| match it.get("watch") {
                Some(watch) => text(watch) == "any",
                None => it.get("weight") == Some(&Value::Number(0)),
            };
            path.ends_with(".buckets.properties")
                && version < Version::V1_5
                && same_set(items(meant), items(read), nothing)
        },
    },
    Freedom {
        name: "before 1.4 a property whose fields are all zero is not there",
        holds: |path, version, meant, read| {
            let alone = items(meant).len() == 1 && items(read).is_empty();
            path.ends_with(".properties") && version < Version::V1_4 && alone
        },
    },
    Freedom {
        name: "after 1.0 enqueue is set_queue and output",
        holds: |_, version, meant, read| {
            version > Version::V1_0 && said_as(meant, read, "enqueue", &["set_queue", "output"])
        },
    },
    Freedom {
        name: "before 1.3 copy_field is reg_move",
        holds: |_, version, meant, read| {
            version < Version::V1_3 && said_as(meant, read, "copy_field", &["reg_move"])
        },
    },
    Freedom {
        name: "in 1.5 reg_move is copy_field",
        holds: |_, version, meant, read| {
            version == Version::V1_5 && said_as(meant, read, "reg_move", &["copy_field"])
        },
    },
    Freedom {
        name: "in 1.5 reg_load and reg_load2 are set_field",
        holds: |_, version, meant, read| {
            let one = |from| said_as(meant, read, from, &["set_field"]);
            version == Version::V1_5 && (one("reg_load") || one("reg_load2"))
        },
    },
    Freedom {
        name: "in 1.0 and 1.1 set_tp_src and set_tp_dst set the ports of all protocols",
        holds: |path, version, meant, read| {
            let port = |value: &Value| match entries(value) {
                [(name, port)] => Some((name.split_once('_')?.1.to_owned(), port.clone())),
                _ => None,
            };
            path.ends_with(".set_field.field")
                && version < Version::V1_2
                && port(meant).is_some()
                && port(meant) == port(read)
        },
    },
    Freedom {
        name: "nothing to apply is no instruction where rules have a bare list of actions",
        holds: |path, version, meant, read| {
            let nothing = |it: &Value| {
                kind(it) == "apply_actions" && it.get("actions") == Some(&Value::List(vec![]))
            };
            path.ends_with(".instructions")
                && version < Version::V1_3
                && items(read).is_empty()
                && items(meant).iter().all(nothing)
        },
    },
    Freedom {
        name: "a meter is an instruction in 1.3 and 1.4 and an action in 1.5",
        holds: |path, version, meant, read| {
            let has = |list: &Value| items(list).iter().any(|it| kind(it) == "meter");
            let acts = |list: &Value| {
                let mut all = items(list).iter().filter_map(|it| it.get("actions"));
                all.any(|list| items(list).first().is_some_and(|it| kind(it) == "meter"))
            };
            path.ends_with(".instructions")
                && match version {
                    Version::V1_5 => has(meant) && acts(read),
                    _ => acts(meant) && has(read),
                }
        },
    },
];

fn written(message: &Message, version: Version) -> Result<Vec<u8>, EncodeError> {
    let (mut tx, mut xid) = (vec![], 1);
    let said = message.encode(7, &mut Encoder::new(&mut tx, version, &mut xid));
    if let Err(no) = said {
        assert!(tx.is_empty(), "{no}, but something is written");
        assert!(!no.what.is_empty() && no.version == version, "{no:?}: {message:?}");
        assert!(no.needs.is_none_or(|needs| needs > version), "{no:?}: {message:?}");
        return Err(no);
    }
    Ok(tx)
}

/// The place of the row `name`.
fn row<T: Choice>(name: &str) -> (&'static str, usize) {
    (T::TYPE_NAME, T::ROWS.iter().position(|row| row.name == name).unwrap())
}

/// The `n`th of the rows that `version` has, from the first again behind the last; now and then of all.
fn nth<T: Choice>(n: u64, version: Version) -> (&'static str, usize) {
    let here = |at: &usize| n % 64 == 63 || (T::ROWS[*at].code)(version).is_some();
    let rows: Vec<_> = (0..T::ROWS.len()).filter(here).collect();
    (T::TYPE_NAME, rows[usize::try_from(n).unwrap() % rows.len()])
}

/// A message; `n` says which, so that each comes as often as the others, and so do actions and multiparts.
fn drawn(n: u64, version: Version) -> Message {
    let mut rng = Rng::new(n << 8 | u64::from(version.0), version);
    let turn = n / 5;
    rng.aims = match n % 5 {
        0 => vec![row::<Message>("multipart_request"), nth::<MultipartRequest>(turn, version)],
        1 => vec![row::<Message>("multipart_reply"), nth::<MultipartReply>(turn, version)],
        // Other versions say these otherwise.
        2 if turn.is_multiple_of(16) => {
            vec![row::<Message>("packet_out"), row::<Action>("set_field")]
        }
        3 if turn % 16 == 1 => vec![row::<Message>("flow_mod"), row::<Instruction>("meter")],
        2 => vec![row::<Message>("packet_out"), nth::<Action>(turn, version)],
        3 if turn.is_multiple_of(32) => vec![],
        _ => vec![nth::<Message>(turn, version)],
    };
    rng.aims.push(nth::<BucketProp>(turn, version));
    rng.aims.push(nth::<Controller2Prop>(turn, version));
    let mut message = Message::sample(&mut rng);
    if turn % 8 < 7 {
        fit(&mut message, version, &mut rng);
    }
    message
}

/// Makes those of `message` fit that hardly ever would by chance.
fn fit(message: &mut Message, version: Version, rng: &mut Rng) {
    match message {
        // What looks like an element is read as one.
        Message::Hello(hello) => hello.extra.truncate(3),
        // All six masks, and no others.
        Message::GetAsyncReply(AsyncConfig { properties })
        | Message::SetAsync(AsyncConfig { properties })
            if version == Version::V1_3 =>
        {
            *properties = six(rng);
        }
        Message::NxSetAsyncConfig { properties } => *properties = six(rng),
        // Few fields can be set so early.
        Message::PacketOut(PacketOut { actions, .. }) if version < Version::V1_2 => {
            if let Some(Action::SetField { field }) = actions.first_mut()
                && rng.once_in(4)
            {
                *field = Field::new(FieldId::UDP_SRC, u16::sample(rng).into()).into();
            }
        }
        // Numbered by their place.
        Message::GroupMod(GroupMod { buckets, .. }) if version < Version::V1_5 => {
            for bucket in buckets {
                bucket.bucket_id = BucketId::ALL;
            }
        }
        _ => {}
    }
}

fn six(rng: &mut Rng) -> Vec<AsyncProp> {
    vec![
        AsyncProp::PacketInSlave { mask: Sample::sample(rng) },
        AsyncProp::PacketInMaster { mask: Sample::sample(rng) },
        AsyncProp::PortStatusSlave { mask: Sample::sample(rng) },
        AsyncProp::PortStatusMaster { mask: Sample::sample(rng) },
        AsyncProp::FlowRemovedSlave { mask: Sample::sample(rng) },
        AsyncProp::FlowRemovedMaster { mask: Sample::sample(rng) },
    ]
}

/// The first difference that no freedom is the reason of.
fn difference(
    path: &str,
    version: Version,
    meant: &Value,
    read: &Value,
    met: &mut BTreeSet<&'static str>,
) -> Option<String> {
    if meant == read {
        return None;
    }
    if let Some(freedom) = FREEDOMS.iter().find(|it| (it.holds)(path, version, meant, read)) {
        met.insert(freedom.name);
        return None;
    }
    let kind = |value: &Value| match value.get("type") {
        Some(Value::Text(name)) => format!("{path}.{name}"),
        _ => path.to_owned(),
    };
    match (meant, read) {
        (Value::Map(a), Value::Map(b)) if a.iter().map(|e| &e.0).eq(b.iter().map(|e| &e.0)) => {
            let path = kind(meant);
            let both = a.iter().zip(b);
            let mut differ = both.filter_map(|((name, a), (_, b))| {
                difference(&format!("{path}.{name}"), version, a, b, met)
            });
            differ.next()
        }
        (Value::List(a), Value::List(b)) if a.len() == b.len() => {
            a.iter().zip(b).find_map(|(a, b)| difference(path, version, a, b, met))
        }
        _ => Some(format!("{path} in {version}: {meant:?} is read as {read:?}")),
    }
}

/// Every row of every set of alternatives: what they are, and the rows.
pub(super) const ALL: &[(&str, &[ChoiceRow])] = &[
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

/// Proves what is to be proved of one message; what of it could be said is added to `seen` and `met`.
fn prove(message: &Message, version: Version, seen: &mut Rows, met: &mut BTreeSet<&'static str>) {
    let Ok(bytes) = written(message, version) else { return };
    message.rows(seen);
    let value = message.to_value(version);
    assert_eq!(Message::from_value(&value, version).as_ref(), Ok(message), "neutral form");
    let read = Message::parse_raw(RawMessage::new(&bytes).unwrap());
    let read = read.unwrap_or_else(|error| panic!("{error}: {message:?}"));
    assert_eq!(written(&read, version).as_ref(), Ok(&bytes), "{message:?} is read as {read:?}");
    if read != *message {
        let told = read.to_value(version);
        let unmet = "told alike but not the same";
        assert_ne!(told, value, "{unmet}: {message:?} is read as {read:?}");
        if let Some(difference) = difference("", version, &value, &told, met) {
            panic!("{difference}");
        }
    }
}

#[test]
fn what_can_be_said_is_read_again_and_every_row_is_said() {
    let (mut met, mut missing, mut unknown) = (BTreeSet::new(), vec![], BTreeSet::new());
    for version in (1..=6).map(Version) {
        let mut seen = Rows::new();
        for n in 0..ROUNDS {
            let message = drawn(n, version);
            let proof =
                std::panic::AssertUnwindSafe(|| prove(&message, version, &mut seen, &mut met));
            if let Err(panic) = std::panic::catch_unwind(proof) {
                eprintln!("that was number {n} of {version}: {message:?}");
                std::panic::resume_unwind(panic);
            }
        }
        for (what, rows) in ALL {
            for row in rows.iter().filter(|row| (row.code)(version).is_some()) {
                if !seen.contains(&(what, row.name)) {
                    missing.push(format!("{what} {} in {version}", row.name));
                }
            }
        }
        unknown.extend(
            seen.iter().map(|row| row.0).filter(|what| ALL.iter().all(|all| all.0 != *what)),
        );
    }
    assert_eq!(unknown, BTreeSet::new(), "alternatives that are not in the list here");
    assert_eq!(missing, NEVER, "rows that were never said");
    let unmet: Vec<_> = FREEDOMS.iter().map(|it| it.name).filter(|it| !met.contains(it)).collect();
    assert_eq!(unmet, [""; 0], "freedoms that nothing needs");
}

/// Rows with a number where nothing can hold them.
const NEVER: &[&str] = &[];

#[test]
fn what_was_once_written_and_not_read_again_is_refused() {
    let no = |message: Message, version| written(&message, version).unwrap_err().to_string();
    let told = |body| Message::MultipartReply(Multipart { flags: MultipartFlags::default(), body });

    let update = FlowUpdate::Other { code: 99, body: vec![1] };
    let updates = told(MultipartReply::FlowMonitor { updates: vec![update] });
    assert_eq!(no(updates, Version::V1_4), "flow_update cannot be encoded in OpenFlow 1.4");

    // Port 0 was taken for the one that the reply names.
    let queue = Queue { port_no: PortNo(0), queue_id: 1, properties: vec![] };
    let reply = QueueGetConfigReply { port: PortNo(7), queues: vec![queue] };
    let reply = Message::QueueGetConfigReply(reply);
    assert_eq!(no(reply, Version::V1_1), "port_no requires OpenFlow 1.2; this session speaks 1.1");

    let other = Stat::Other { class: 1, number: 2, value: vec![3] };
    let removed = NxFlowRemoved { stats: Stats { fields: vec![other] }, ..Default::default() };
    let removed = Message::NxFlowRemoved(removed);
    assert_eq!(
        no(removed, Version::V1_5),
        "statistic without a row cannot be encoded in OpenFlow 1.5"
    );

    let field = FieldHeader::from(FieldId::from_name("nsh_ttl").unwrap());
    let zone = NumberSource::Field { field, bits: BitRange::first(8) };
    let ct = Action::Ct(Box::new(CtAction { zone, ..CtAction::default() }));
    let out = Message::PacketOut(PacketOut { actions: vec![ct], ..PacketOut::default() });
    let words = "source with an experimenter field cannot be encoded in OpenFlow 1.3";
    assert_eq!(no(out, Version::V1_3), words);
}

#[test]
fn texts_of_fields_without_a_row_and_of_headers_not_known_are_read() {
    let error = Action::list_from_text("push:oxm_7000_1[3]").unwrap_err();
    assert!(error.message.contains("the size of this field is unknown"), "{error}");
    for line in ["encap(ethernet(property(0x77,0x0102)))", "output:UNSET"] {
        let read = Action::list_from_text(line).unwrap();
        assert_eq!(Action::list_to_text(&read), line);
    }
}

/// Actions of which a text says less, or which texts are not taken for: the action, or all of them; what the reader
/// says of the text, or nothing if it reads another one; the reason.
const TEXTS: &[(&str, &str, &str)] = &[
    ("", "bit out of range", "on the wire bits may lie beyond the field"),
    ("", "the size of this field is unknown", "on the wire a field may have no row"),
    ("", "the last bit is less than the first", "on the wire there may be no bits"),
    ("", "unknown hash fields", "on the wire the set of what is hashed is open"),
    ("", "unknown algorithm", "on the wire the set of algorithms is open"),
    ("", "unknown header", "on the wire the set of headers is open"),
    ("", "is over ", "on the wire a value may have more bits than count"),
    ("", "does not fit into ", "on the wire a value may have more bits than count"),
    (
        "",
        "number of clauses out of range",
        "on the wire there may be less than 2 clauses, or more than 64",
    ),
    (
        "",
        "clause out of range",
        "on the wire there may be fewer clauses than the number of this one",
    ),
    ("", "missing `probability=`", "on the wire a sample may be of no packets"),
    ("", "mutually exclusive", "on the wire all flags go together"),
    ("", " requires `", "on the wire all flags go together"),
    ("", "unknown field", "what cannot be written is printed all the same"),
    ("nat", " ", "on the wire the ends of a range come in any combination"),
    ("clone", "", "it may hold one of the others"),
    ("controller", "", "a shorter form says the same"),
    ("controller2", "", "a shorter form says the same"),
    ("copy_field", "", "on the wire there may be no bits"),
    ("ct", "", "it may hold one of the others"),
    ("dec_ttl_cnt_ids", "", "without a controller it is `dec_ttl`"),
    ("stack_pop", "", "on the wire there may be no bits"),
    ("stack_push", "", "on the wire there may be no bits"),
    ("note", "", "a note is filled up to the end of its action"),
];

#[test]
fn actions_are_read_from_their_text() {
    let (mut agreed, mut met, mut fails) = (Rows::new(), BTreeSet::new(), BTreeMap::new());
    for n in 0..40_000 {
        let version = Version(1 + u8::try_from(n % 6).unwrap());
        let mut rng = Rng::new(n, version);
        rng.aims = vec![nth::<Action>(n / 6, version)];
        let action = Action::sample(&mut rng);
        let text = action.to_text();
        assert!(!text.contains('{'), "{action:?} has no text of its own: {text}");
        let read = Action::list_from_text(&text).map(|list| Action::list_to_text(&list));
        if read.as_ref() == Ok(&text) {
            agreed.insert((Action::TYPE_NAME, action.name()));
            continue;
        }
        let said = read.as_ref().map_or_else(|error| error.message.clone(), |_| String::new());
        let reason = TEXTS.iter().position(|(name, what, _)| {
            (name.is_empty() || *name == action.name())
                && if what.is_empty() { said.is_empty() } else { said.contains(what) }
        });
        match reason {
            Some(reason) => {
                met.insert(reason);
            }
            None => {
                fails.entry((action.name(), said)).or_insert((text, read));
            }
        }
    }
    assert_eq!(fails, BTreeMap::new(), "texts that are not taken");
    let unmet: Vec<_> =
        (0..TEXTS.len()).filter(|at| !met.contains(at)).map(|at| TEXTS[at]).collect();
    assert_eq!(unmet, [], "exceptions that nothing needs");
    let silent = Action::ROWS.iter().filter(|row| !agreed.contains(&(Action::TYPE_NAME, row.name)));
    assert_eq!(silent.map(|row| row.name).collect::<Vec<_>>(), [""; 0], "actions that never agree");
}
