//! What several tests use.

use std::thread::sleep;
use std::time::Duration;

use sluice_io::clock;

/// Time after which something that is waited for will not happen.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until something is there.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let deadline = clock::now() + TIMEOUT;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(clock::now() < deadline, "waited for {what}");
        #[expect(clippy::disallowed_methods, reason = "another thread needs the time")]
        sleep(Duration::from_millis(2));
    }
}

/// Waits until something is true.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    wait_for(what, || is_true().then_some(()));
}
