//! `sluice control-link` between network namespaces, measured with the system's ping and TCP.
//!
//! No test depends on the load of the machine: packets may be late, but never early, and never exceed the rate.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use sluice_system_tests::{ExitReport, FAR_ADDR, LinkProcess, binary, timed};

/// Exit code of errors at run time.
const RUN_TIME: Option<i32> = Some(1);

/// Sums of the columns of a time series, without the column of times.
fn sums(csv: &str) -> [u64; 4] {
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("time_ms,up_offered,up_delivered,down_offered,down_delivered"));
    let mut sums = [0; 4];
    for (n, line) in lines.enumerate() {
        let numbers: Vec<u64> = line.split(',').map(|number| number.parse().unwrap()).collect();
        assert_eq!((numbers.len(), numbers[0]), (5, n as u64 * 10), "{line}");
        for (sum, number) in sums.iter_mut().zip(&numbers[1..]) {
            *sum += number;
        }
    }
    sums
}

/// The bytes in a line of the last report, for example in `up: delivered`.
fn bytes(report: &str, line: &str) -> u64 {
    let found = report.lines().rev().find_map(|text| text.strip_prefix(&format!("{line}: ")));
    let (_, bytes) = found.unwrap().split_once(" packets, ").unwrap();
    bytes.strip_suffix(" bytes").unwrap().parse().unwrap()
}

#[test]
fn no_reply_arrives_before_the_configured_delay() {
    let mut link = LinkProcess::open("--delay 20ms,30ms");
    let (loss, shortest) = link.ping(5, 64);
    assert_eq!(loss.lost(), 0);
    assert!(shortest.unwrap() >= 50.0, "{shortest:?}");
    link.command("up delay 100ms");
    let (_, shortest) = link.ping(3, 64);
    assert!(shortest.unwrap() >= 130.0, "after the change: {shortest:?}");
    link.command("delay 0");
    link.command("jitter 1ms");
    assert_eq!(link.ping(5, 1500).0.lost(), 0);
}

#[test]
fn a_loss_of_100_percent_blocks_until_it_is_changed() {
    let mut link = LinkProcess::open("--loss 0%,100%");
    let (loss, _) = link.ping(4, 64);
    assert_eq!((loss.sent, loss.received), (4, 0));
    link.command("down loss 0%");
    assert_eq!(link.ping(4, 64).0.lost(), 0);
    let report = link.close().stdout;
    assert!(report.contains("down: lost: 4 packets"), "{report}");
    assert!(report.contains("up: lost: 0 packets"), "{report}");
}

#[test]
fn a_time_series_adds_up_to_what_was_sent() {
    let mut link = LinkProcess::open("--delay 3ms --series series.csv");
    let (loss, _) = link.ping(10, 1000);
    assert_eq!(loss.lost(), 0);
    let exit = link.close();
    assert_eq!(exit.code, Some(0), "{exit:?}");
    let csv = fs::read_to_string(link.file("series.csv")).unwrap();
    assert_eq!(sums(&csv), [10_000; 4], "{csv}");
    assert_eq!(bytes(&exit.stdout, "up: delivered"), 10_000);
}

#[test]
fn tcp_does_not_exceed_the_rate() {
    const BYTES: usize = 200_000;
    let mut link = LinkProcess::open("--rate 1Mbit --queue 30kB --delay 5ms --series series.csv");
    let listener = link.within_far(|| TcpListener::bind((FAR_ADDR, 0))).unwrap();
    let port = listener.local_addr().unwrap().port();
    let sent: Vec<u8> = (0..BYTES).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let (received, took) = timed(|| {
        let mut near = link.within_near(|| TcpStream::connect((FAR_ADDR, port))).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let sent = &sent;
        std::thread::scope(|scope| {
            scope.spawn(move || near.write_all(sent).unwrap());
            let mut received = Vec::new();
            far.read_to_end(&mut received).unwrap();
            received
        })
    });
    assert!(received == sent, "{} of {BYTES} bytes received", received.len());
    assert!(took.as_micros() >= BYTES as u128 * 8, "{took:?} for {BYTES} bytes at 1 Mbit/s");
    let report = link.close().stdout;
    let csv = fs::read_to_string(link.file("series.csv")).unwrap();
    let [offered, delivered, ..] = sums(&csv);
    let dropped = ["lost", "dropped (queue full)", "in transit"]
        .map(|what| bytes(&report, &format!("up: {what}")));
    assert_eq!(offered, delivered + dropped.iter().sum::<u64>(), "{report}");
    assert!(delivered >= BYTES as u64);
}

#[test]
fn the_link_reads_commands_from_a_named_pipe_and_removes_pipe_and_devices_at_the_end() {
    let mut link = LinkProcess::open("--control link.ctl --device near0,far0");
    let pipe = link.file("link.ctl");
    fs::write(&pipe, "down delay 40ms\n").unwrap();
    link.wait_for("ok: down delay 40ms");
    fs::write(&pipe, "show\n").unwrap();
    link.wait_for("uptime: ");
    let (_, shortest) = link.ping(3, 64);
    assert!(shortest.unwrap() >= 40.0, "{shortest:?}");
    assert!(link.has_device("near0") && link.has_device("far0"));
    let exit = link.close();
    assert_eq!((exit.code, exit.stderr.as_str()), (Some(0), ""));
    assert!(!pipe.exists());
    assert!(!link.has_device("near0") && !link.has_device("far0"));
}

#[test]
fn the_link_ends_with_an_error_when_its_device_is_deleted() {
    let mut link = LinkProcess::open("--device gone0");
    link.env().ip("link delete gone0");
    let exit = link.wait_for_end();
    assert_eq!(exit.code, RUN_TIME, "{exit:?}");
    assert!(exit.stderr.starts_with("error: the link failed: "), "{exit:?}");
}

#[test]
fn errors_about_namespaces_devices_and_addresses_say_what_to_do() {
    let link = LinkProcess::open("--device taken0");
    let far = link.far_name();
    for (arguments, parts) in [
        (
            "control-link --to nowhere".to_owned(),
            ["--to: ", "no network namespace nowhere", "ip netns"],
        ),
        (
            format!("control-link --from {far} --to {far}"),
            ["--to: ", "same network namespace", "another"],
        ),
        (
            format!("control-link --to {far} --device taken0"),
            ["--device: ", "taken0", "choose another"],
        ),
        (
            format!("control-link --to {far} --addresses 10.8.0.255/24,300::1/64 --device free0"),
            ["ip address add", "failed", far],
        ),
    ] {
        let mut sluice = link.env().command(&binary().to_string_lossy());
        let exit = ExitReport::of(sluice.args(arguments.split_whitespace()));
        assert_eq!(exit.code, RUN_TIME, "{exit:?}");
        let errors: Vec<_> = exit.stderr.lines().collect();
        assert_eq!(errors.len(), 1, "{exit:?}");
        assert!(parts.iter().all(|part| errors[0].contains(part)), "{arguments}: {exit:?}");
    }
}

#[test]
fn without_privileges_the_error_names_the_modes_that_need_none() {
    let link = LinkProcess::open("");
    let mut nobody = link.env().command("setpriv");
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(binary());
    let exit = ExitReport::of(nobody.args([
        "control-link",
        "--to",
        link.far_name(),
        "--device",
        "other0",
    ]));
    assert_eq!((exit.code, exit.stderr.lines().count()), (RUN_TIME, 1), "{exit:?}");
    for part in ["as root", "TCP proxy", "--listen"] {
        assert!(exit.stderr.contains(part), "{part}: {exit:?}");
    }
}
