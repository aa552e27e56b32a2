//! What `cbench` says and does not say (mininet/oflops).

use sluice_openflow::view::Multipart;
use sluice_openflow::{MessageType, MultipartType, Version};
use sluice_proto::Config;

use crate::peer::{OwnedEvent, Peer, echo_request, kinds};

/// A gratuitous ARP whose message says 84 bytes and whose `total_len` says 64, with 66 behind it.
fn first_packet() -> Vec<u8> {
    let mut bytes = vec![1, 10, 0, 84, 0, 0, 0, 0, 0, 0, 1, 1, 0, 64, 0, 1, 0, 0];
    bytes.extend([0xff; 6]);
    bytes.extend([2, 0, 0, 0, 0, 1, 8, 6]);
    bytes.resize(84, 0);
    bytes
}

#[test]
fn its_handshake_is_one() {
    let mut peer = Peer::connect(&Config::default());
    // A HELLO of 1.0 without anything in it.
    peer.tx.clear();
    assert_eq!(peer.sends(&[1, 0, 0, 8, 0, 0, 0, 0]), Ok(None));
    assert_eq!(peer.session.version(), Version::V1_0);
    let asked = kinds(&peer.tx);
    // A GET_CONFIG it would answer with a length in the wrong order of bytes.
    assert!(!asked.iter().any(|&(kind, _)| kind == MessageType::GET_CONFIG_REQUEST), "{asked:?}");
    // Statistics but DESC it would never answer.
    assert!(!asked.iter().any(|&(kind, _)| kind == MessageType::MULTIPART_REQUEST), "{asked:?}");
    // FEATURES_REPLY of 224 bytes: four ports.
    let [.., xid] = asked
        .iter()
        .find(|asked| asked.0 == MessageType::FEATURES_REQUEST)
        .unwrap()
        .1
        .to_be_bytes();
    let mut features = vec![1, 6, 0, 224, 0, 0, 0, xid];
    features.resize(224, 0);
    features[15] = 3;
    let up = peer.sends(&features);
    assert!(
        matches!(&up, Ok(Some(OwnedEvent::SwitchConnected(f))) if f.ports.len() == 4 && f.datapath_id.0 == 3)
    );
    assert_eq!(peer.sends(&first_packet()), Ok(Some(OwnedEvent::PacketIn)));
}

#[test]
fn its_echo_comes_back_without_payload() {
    let mut peer = Peer::up(&Config::default(), Version::V1_0);
    peer.wait(5000).unwrap();
    assert_eq!(peer.told(), [echo_request(&[])]);
    assert_eq!(peer.sends(&[1, 3, 0, 8, 0, 0, 0, 0]), Ok(None));
    peer.wait(4999).unwrap();
    assert_eq!(peer.told(), []);
}

#[test]
fn its_description_is_a_reply_like_others() {
    let mut peer = Peer::up(&Config::default(), Version::V1_0);
    let (kind, body) = (MultipartType::DESC, vec![b'c'; 1056]);
    let reply = Multipart { kind, more: false, body: &body };
    assert_eq!(peer.says_part(5, reply), Ok(Some(OwnedEvent::MultipartReply(5, kind, body))));
}
