//! What it takes to drive the whole binary against real networks.
//!
//! A [`Lab`] is Open vSwitch in a network namespace of its own, with hosts beside it; a
//! [`Controller`] is the binary under test; a [`Capture`] keeps what they say to one another.
//! Everything here panics with a sentence when it cannot do its work: a test that cannot run
//! has failed. What the machine needs is installed by `scripts/setup.sh`.
#![expect(clippy::panic, reason = "the failures of a test library are the test's failures")]

mod capture;
mod controller;
mod flow;
mod host;
mod lab;
mod link;
mod mininet;
mod namespace;
mod osken;
mod room;
mod shell;
mod turn;

use std::thread::sleep;
use std::time::{Duration, Instant};

pub use capture::{Capture, kinds_of};
pub use controller::{Controller, Ended, binary};
pub use flow::Flow;
pub use host::{Host, Loss, Pinging};
pub use lab::Lab;
pub use link::{FAR, Link};
pub use mininet::pingall;
pub use osken::kinds_read_by_osken;
pub use room::Room;

/// Long enough for anything that should happen at once, on a machine that is busy.
pub const SOON: Duration = Duration::from_secs(10);

/// Long enough for what waits for somebody's timer: probes, back-off, idle rules.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks of [`wait_until`]: short beside what is waited for, long beside a look.
const POLL: Duration = Duration::from_millis(20);

/// A version of OpenFlow that a network is made to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpenFlow {
    /// 1.0, `0x01` on the wire.
    V10,
    /// 1.1, `0x02`.
    V11,
    /// 1.2, `0x03`.
    V12,
    /// 1.3, `0x04`.
    V13,
    /// 1.4, `0x05`.
    V14,
    /// 1.5, `0x06`.
    V15,
}

impl OpenFlow {
    /// As Open vSwitch and Mininet spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::V10 => "OpenFlow10",
            Self::V11 => "OpenFlow11",
            Self::V12 => "OpenFlow12",
            Self::V13 => "OpenFlow13",
            Self::V14 => "OpenFlow14",
            Self::V15 => "OpenFlow15",
        }
    }
}

/// Looks until `happened` is true; the only place in these tests that lets time pass.
///
/// # Panics
/// When it has not happened `within` that time; `what` completes "still waiting for …".
#[track_caller]
pub fn wait_until(within: Duration, what: &str, mut happened: impl FnMut() -> bool) {
    let late = deadline(within);
    while !happened() {
        assert!(!late(), "after {} s, still waiting for {what}", within.as_secs());
        pause(POLL);
    }
}

/// Like [`wait_until`], for what may also never happen; true when it did.
pub fn happens(within: Duration, mut happened: impl FnMut() -> bool) -> bool {
    let late = deadline(within);
    loop {
        match (happened(), late()) {
            (true, _) => return true,
            (false, true) => return false,
            (false, false) => pause(POLL),
        }
    }
}

/// What `act` returns, and how long it took.
#[expect(clippy::disallowed_methods, reason = "other programs have only the clock of the wall")]
pub fn timed<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    (act(), start.elapsed())
}

#[expect(clippy::disallowed_methods, reason = "other programs have only the clock of the wall")]
fn deadline(within: Duration) -> impl Fn() -> bool {
    let at = Instant::now() + within;
    move || Instant::now() > at
}

/// Lets others do what they do for so long.
pub fn let_pass(time: Duration) {
    pause(time);
}

#[expect(clippy::disallowed_methods, reason = "other programs cannot be waited for through Io")]
fn pause(time: Duration) {
    sleep(time);
}

/// One story as two tests, for the versions that most networks speak.
///
/// `both_versions! { a_sentence(arguments) = story; }` calls `story(version, arguments)`.
#[macro_export]
macro_rules! both_versions {
    ($($(#[$doc:meta])* $name:ident($($arg:expr),*) = $story:ident;)+) => {$(
        $(#[$doc])*
        mod $name {
            $crate::over!(over_openflow_1_0, V10, $story($($arg),*));
            $crate::over!(over_openflow_1_3, V13, $story($($arg),*));
        }
    )+};
}

/// The same as four tests, for the versions that few do.
#[macro_export]
macro_rules! other_versions {
    ($($(#[$doc:meta])* $name:ident($($arg:expr),*) = $story:ident;)+) => {$(
        $(#[$doc])*
        mod $name {
            $crate::over!(over_openflow_1_1, V11, $story($($arg),*));
            $crate::over!(over_openflow_1_2, V12, $story($($arg),*));
            $crate::over!(over_openflow_1_4, V14, $story($($arg),*));
            $crate::over!(over_openflow_1_5, V15, $story($($arg),*));
        }
    )+};
}

/// The same as six tests, one for each version that there is.
#[macro_export]
macro_rules! every_version {
    ($($(#[$doc:meta])* $name:ident($($arg:expr),*) = $story:ident;)+) => {$(
        $(#[$doc])*
        mod $name {
            $crate::over!(over_openflow_1_0, V10, $story($($arg),*));
            $crate::over!(over_openflow_1_1, V11, $story($($arg),*));
            $crate::over!(over_openflow_1_2, V12, $story($($arg),*));
            $crate::over!(over_openflow_1_3, V13, $story($($arg),*));
            $crate::over!(over_openflow_1_4, V14, $story($($arg),*));
            $crate::over!(over_openflow_1_5, V15, $story($($arg),*));
        }
    )+};
}

/// One of those tests.
#[macro_export]
macro_rules! over {
    ($test:ident, $version:ident, $story:ident($($arg:expr),*)) => {
        #[test]
        fn $test() {
            super::$story($crate::OpenFlow::$version, $($arg),*);
        }
    };
}
