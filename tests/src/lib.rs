//! Helpers of the system tests, which run the binary against real networks.
//!
//! An [`OvsNetwork`] is Open vSwitch with hosts in network namespaces; a [`Controller`] is the binary under test; a
//! [`Capture`] records their OpenFlow connections, [`LiveDecode`] decodes them meanwhile. All helpers panic with an explanation when they fail: a test that
//! cannot run has failed. `scripts/setup.sh` installs what the machine needs.
#![expect(clippy::panic, reason = "the failures of a test library are the test's failures")]

mod callgrind;
mod capture;
mod control_link;
mod controller;
mod conversations;
mod dhcp;
mod flow;
mod host;
mod link;
mod live_decode;
mod machine_lock;
mod mininet;
mod namespace;
mod osken;
mod ovs;
mod pki;
mod process;
mod service_manager;
mod socket;
mod test_env;
mod topologies;
mod traffic;
mod unmanaged;

use std::thread::sleep;
use std::time::{Duration, Instant};

pub use callgrind::{Count, CountedController};
pub use capture::{Capture, count_by_type, decoded_by_ovs};
pub use control_link::{ControlLink, EmulatedControlLink};
pub use controller::{Controller, ExitReport, binary};
pub use conversations::Conversations;
pub use dhcp::DhcpServer;
pub use flow::ListedFlow;
pub use host::{BackgroundPing, Host, PingCounts};
pub use link::{FAR_ADDR, LinkProcess};
pub use live_decode::LiveDecode;
pub use mininet::pingall;
pub use osken::message_types_read_by_osken;
pub use ovs::{OvsNetwork, PoweredOff};
pub use pki::Pki;
pub use process::output_of;
pub use service_manager::{Service, ServiceManager};
pub use socket::connect_from;
pub use test_env::{TestEnv, sum_of_samples};
pub use traffic::{BackgroundTraffic, send_at_intervals};

/// Time limit for what should happen at once, on a busy machine.
pub const SHORT_TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit for what waits for a timer: probes, reconnection back-off, idle timeouts.
pub const LONG_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval at which [`wait_until`] checks its condition.
const POLL: Duration = Duration::from_millis(20);

/// The version of OpenFlow that a network is configured to use.
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
    /// The name that Open vSwitch and Mininet use.
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

/// Polls `condition` until it is true.
///
/// # Panics
/// When that takes longer than `within`; `what` completes the message "still waiting for …".
#[track_caller]
pub fn wait_until(within: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let late = deadline(within);
    while !condition() {
        assert!(!late(), "after {} s, still waiting for {what}", within.as_secs());
        pause(POLL);
    }
}

/// Like [`wait_until`], but returns `false` instead of panicking when the time is over.
pub fn becomes_true(within: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let late = deadline(within);
    loop {
        match (condition(), late()) {
            (true, _) => return true,
            (false, true) => return false,
            (false, false) => pause(POLL),
        }
    }
}

/// Result of `act` and the time that it took.
pub fn timed<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let start = Stopwatch::start();
    (act(), start.elapsed())
}

/// Measures the time since it was started.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::disallowed_methods, reason = "other programs run in real time")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Waits until that is `time`: for loads that last for a time, or are sent at an interval.
    pub fn wait_until(self, time: Duration) {
        pause(time.saturating_sub(self.elapsed()));
    }
}

#[expect(clippy::disallowed_methods, reason = "other programs run in real time")]
fn deadline(within: Duration) -> impl Fn() -> bool {
    let at = Instant::now() + within;
    move || Instant::now() > at
}

#[expect(clippy::disallowed_methods, reason = "other programs run in real time")]
fn pause(time: Duration) {
    sleep(time);
}

/// Defines each scenario as two tests, for OpenFlow 1.0 and 1.3, the versions that most networks use.
///
/// `both_versions! { name_of_the_test(arguments) = scenario; }` calls `scenario(version, arguments)`.
#[macro_export]
macro_rules! both_versions {
    ($($(#[$doc:meta])* $name:ident($($arg:expr),*) = $scenario:ident;)+) => {$(
        $(#[$doc])*
        mod $name {
            $crate::over!(over_openflow_1_0, V10, $scenario($($arg),*));
            $crate::over!(over_openflow_1_3, V13, $scenario($($arg),*));
        }
    )+};
}

/// Like [`both_versions`], for 1.1, 1.2, 1.4 and 1.5.
#[macro_export]
macro_rules! other_versions {
    ($($(#[$doc:meta])* $name:ident($($arg:expr),*) = $scenario:ident;)+) => {$(
        $(#[$doc])*
        mod $name {
            $crate::over!(over_openflow_1_1, V11, $scenario($($arg),*));
            $crate::over!(over_openflow_1_2, V12, $scenario($($arg),*));
            $crate::over!(over_openflow_1_4, V14, $scenario($($arg),*));
            $crate::over!(over_openflow_1_5, V15, $scenario($($arg),*));
        }
    )+};
}

/// Like [`both_versions`], for all six versions.
#[macro_export]
macro_rules! every_version {
    ($($(#[$doc:meta])* $name:ident($($arg:expr),*) = $scenario:ident;)+) => {$(
        $(#[$doc])*
        mod $name {
            $crate::over!(over_openflow_1_0, V10, $scenario($($arg),*));
            $crate::over!(over_openflow_1_1, V11, $scenario($($arg),*));
            $crate::over!(over_openflow_1_2, V12, $scenario($($arg),*));
            $crate::over!(over_openflow_1_3, V13, $scenario($($arg),*));
            $crate::over!(over_openflow_1_4, V14, $scenario($($arg),*));
            $crate::over!(over_openflow_1_5, V15, $scenario($($arg),*));
        }
    )+};
}

/// Defines one test of [`both_versions`] and its siblings.
#[macro_export]
macro_rules! over {
    ($test:ident, $version:ident, $scenario:ident($($arg:expr),*)) => {
        #[test]
        fn $test() {
            super::$scenario($crate::OpenFlow::$version, $($arg),*);
        }
    };
}
