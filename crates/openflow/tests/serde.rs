//! The optional feature `serde`: values become JSON and come back.
#![cfg(feature = "serde")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use sluice_openflow::value::Value;
use sluice_openflow::{
    Action, Field, FlowMod, FlowModFlags, MacAddr, Match, Message, PortNo, RawMessage,
};

#[test]
fn a_flow_entry_is_a_json_object_with_the_names_of_the_specification() {
    let matching =
        Match::from([Field::eth_dst(MacAddr([2, 0, 0, 0, 0, 1])), Field::eth_type(0x800)]);
    let json = serde_json::to_string(&matching).unwrap();
    assert_eq!(json, r#"{"eth_dst":"02:00:00:00:00:01","eth_type":"0x800"}"#);
    let json = serde_json::to_string(&Action::output(PortNo::FLOOD)).unwrap();
    assert_eq!(json, r#"{"type":"output","port":"flood","max_len":65535}"#);
    let flow = FlowMod {
        flags: FlowModFlags::SEND_FLOW_REM | FlowModFlags::CHECK_OVERLAP,
        ..FlowMod::add(matching, [Action::output(PortNo(2))])
    };
    let json = serde_json::to_string(&flow).unwrap();
    assert!(json.contains(r#""priority":32768"#), "{json}");
    assert_eq!(serde_json::from_str::<FlowMod>(&json).unwrap(), flow);
}

#[test]
fn every_message_of_the_golden_files_survives_a_roundtrip_through_json() {
    for golden in support::golden_files() {
        let Ok(message) = RawMessage::new(&golden.bytes).and_then(Message::parse_raw) else {
            continue;
        };
        let json = serde_json::to_string(&message).unwrap();
        let again: Result<Message, _> = serde_json::from_str(&json);
        assert_eq!(
            again.unwrap_or_else(|e| panic!("{}: {e}: {json}", golden.name)),
            message,
            "{json}"
        );
    }
}

#[test]
fn a_value_keeps_its_order_through_json() {
    let text = r#"{"type":"flow_mod","b":[1,null,true,"x"],"a":{"z":9007199254740992,"y":[]}}"#;
    let value: Value = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&value).unwrap(), text);
}

#[test]
fn errors_have_their_position() {
    let error = serde_json::from_str::<Value>(r#"{"a": -1}"#).unwrap_err();
    assert_eq!((error.line(), error.column()), (1, 8));
    let error = serde_json::from_str::<Match>(r#"{"eth_dst": "x"}"#).unwrap_err();
    assert!(error.to_string().contains("eth_dst"), "{error}");
}
