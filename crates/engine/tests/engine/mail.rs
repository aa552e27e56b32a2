//! What applications write to other switches.

use sluice_engine::Config;
use sluice_io::READ_BYTES_MAX;
use sluice_openflow::view::PacketIn;
use sluice_openflow::{DatapathId, Message, Version};
use sluice_sdk::{App, Ctx, Verdict};

use crate::lab::{Lab, wait_until};
use crate::peer::{Peer, broadcast, echo_request};

/// Who gets all the mail.
const RECEIVER: u64 = 2;

/// Bytes of a message.
const LEN: usize = 50_000;

/// Messages for a frame.
const EACH: usize = 3;

/// For each frame, some messages to one and the same switch.
struct Writer;

impl App for Writer {
    fn on_packet_in(&mut self, _: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        for _ in 0..EACH {
            ctx.send_to(DatapathId(RECEIVER), echo_request(&vec![7; LEN]));
        }
        Verdict::Stop
    }
}

/// The engine, a switch that makes the application write, and the one it writes to.
fn lab(change: impl FnOnce(&mut Config)) -> (Lab<Writer>, Peer, Peer) {
    let lab = Lab::with(change, || Writer);
    let sender = Peer::switch(lab.addr, Version::V1_3, 1);
    wait_until("the first", || lab.count("switches_connected", "") == 1);
    let receiver = Peer::switch(lab.addr, Version::V1_3, RECEIVER);
    wait_until("the second", || lab.count("switches_connected", "") == 2);
    (lab, sender, receiver)
}

#[test]
fn a_switch_of_another_worker_gets_its_mail() {
    let (lab, mut sender, mut receiver) = lab(|cfg| cfg.workers.threads = 2);
    sender.say(&broadcast(None));
    for _ in 0..EACH {
        assert_eq!(receiver.hear(), Some(echo_request(&vec![7; LEN])));
    }
    assert_eq!(
        (lab.count("app_messages_dropped", ""), lab.count("app_messages_undeliverable", "")),
        (0, 0)
    );
}

#[test]
fn mail_for_which_there_is_no_room_is_counted() {
    let (lab, mut sender, _receiver) = lab(|cfg| {
        cfg.workers.threads = 2;
        cfg.limits.mail_max = 0;
    });
    sender.say(&broadcast(None));
    wait_until("the count", || lab.count("app_messages_dropped", "") == EACH as u64);
    assert_eq!(lab.ended(""), 0);
}

/// It is at the worker of the switch that makes it be written to, or at another one.
#[test]
fn mail_to_a_switch_that_does_not_read_does_not_pile_up() {
    for threads in [1, 2] {
        let (lab, mut sender, _receiver) = lab(|cfg| {
            cfg.workers.threads = threads;
            cfg.limits.backlog_bytes_max = 64 << 10;
            cfg.socket.send_buffer = Some(16 << 10);
        });
        wait_until("refusal", || {
            sender.say(&broadcast(None));
            // One at a time, however late a busy machine reads them: what one read asks for is answered in full.
            sender.say(&echo_request(b"heard?"));
            while !matches!(sender.hear().unwrap(), Message::EchoReply { .. }) {}
            let waiting = lab.count("backlog_bytes", "");
            assert!(waiting < (2 * READ_BYTES_MAX) as u64, "{waiting} bytes wait");
            lab.count("app_messages_dropped", "") > 100
        });
        assert_eq!(lab.ended(""), 0);
    }
}
