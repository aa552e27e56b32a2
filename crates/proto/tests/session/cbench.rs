//! The peculiarities of `cbench` (mininet/oflops).

use sluice_openflow::view::Multipart;
use sluice_openflow::{MessageType, MultipartType, Version};
use sluice_proto::Config;

use crate::test_switch::{OwnedEvent, TestSwitch, echo_request, types_and_xids};

/// Its first packet-in, a gratuitous ARP: 84 bytes, `total_len` 64, 66 bytes of packet.
fn first_packet() -> Vec<u8> {
    let mut bytes = vec![1, 10, 0, 84, 0, 0, 0, 0, 0, 0, 1, 1, 0, 64, 0, 1, 0, 0];
    bytes.extend([0xff; 6]);
    bytes.extend([2, 0, 0, 0, 0, 1, 8, 6]);
    bytes.resize(84, 0);
    bytes
}

#[test]
fn the_handshake_completes() {
    let mut switch = TestSwitch::connect(&Config::default());
    // A HELLO of 1.0 without elements.
    switch.tx.clear();
    assert_eq!(switch.send_bytes(&[1, 0, 0, 8, 0, 0, 0, 0]), Ok(None));
    assert_eq!(switch.session.version(), Version::V1_0);
    let requests = types_and_xids(&switch.tx);
    // It would answer GET_CONFIG_REQUEST with a length in the wrong byte order.
    assert!(
        !requests.iter().any(|&(kind, _)| kind == MessageType::GET_CONFIG_REQUEST),
        "{requests:?}"
    );
    // It would not answer multipart requests other than DESC.
    assert!(
        !requests.iter().any(|&(kind, _)| kind == MessageType::MULTIPART_REQUEST),
        "{requests:?}"
    );
    // FEATURES_REPLY of 224 bytes: four ports.
    let [.., xid] = requests
        .iter()
        .find(|request| request.0 == MessageType::FEATURES_REQUEST)
        .unwrap()
        .1
        .to_be_bytes();
    let mut features = vec![1, 6, 0, 224, 0, 0, 0, xid];
    features.resize(224, 0);
    features[15] = 3;
    let up = switch.send_bytes(&features);
    assert!(
        matches!(&up, Ok(Some(OwnedEvent::SwitchConnected(f))) if f.ports.len() == 4 && f.datapath_id.0 == 3)
    );
    assert_eq!(switch.send_bytes(&first_packet()), Ok(Some(OwnedEvent::PacketIn)));
}

#[test]
fn an_echo_reply_without_the_payload_is_accepted() {
    let mut switch = TestSwitch::established(&Config::default(), Version::V1_0);
    switch.advance_ms(5000).unwrap();
    assert_eq!(switch.received(), [echo_request(&[])]);
    let reply = switch.send_bytes(&[1, 3, 0, 8, 0, 0, 0, 0]);
    assert_eq!(reply, Ok(Some(OwnedEvent::Other(MessageType::ECHO_REPLY))));
    switch.advance_ms(4999).unwrap();
    assert_eq!(switch.received(), []);
}

#[test]
fn its_description_is_passed_on() {
    let mut switch = TestSwitch::established(&Config::default(), Version::V1_0);
    let (kind, body) = (MultipartType::DESC, vec![b'c'; 1056]);
    let reply = Multipart { kind, more: false, body: &body };
    assert_eq!(switch.send_part(5, reply), Ok(Some(OwnedEvent::MultipartReply(5, kind, body))));
}
