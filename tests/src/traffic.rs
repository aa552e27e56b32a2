//! Traffic of sockets: a number of packets, or in the background.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::pause;

/// Interval at which a receiver checks whether it has been stopped.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Calls `send` with 0, 1, 2… up to `count` - 1, and waits for `interval` after each call.
pub fn send_at_intervals(count: u32, interval: Duration, mut send: impl FnMut(u32)) {
    for number in 0..count {
        send(number);
        pause(interval);
    }
}

/// A thread that sends or receives packets until it is dropped.
#[derive(Debug)]
pub struct BackgroundTraffic {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundTraffic {
    /// Calls `send` with 0, 1, 2…, and waits for `interval` after each call.
    pub fn send(interval: Duration, mut send: impl FnMut(u32) + Send + 'static) -> Self {
        let mut number = 0;
        Self::repeat(move || {
            send(number);
            pause(interval);
            number += 1;
        })
    }

    /// Calls `handle` with each packet that `socket` receives, and its sender.
    ///
    /// # Panics
    /// When the socket does not allow a time limit.
    #[track_caller]
    pub fn receive(
        socket: UdpSocket,
        mut handle: impl FnMut(&[u8], SocketAddr) + Send + 'static,
    ) -> Self {
        let limited = socket.set_read_timeout(Some(STOP_CHECK_INTERVAL));
        limited.unwrap_or_else(|e| panic!("read timeout of {socket:?}: {e}"));
        let mut bytes = [0; 64];
        Self::repeat(move || {
            if let Ok((len, from)) = socket.recv_from(&mut bytes) {
                handle(bytes.get(..len).unwrap_or_default(), from);
            }
        })
    }

    /// Calls `step` again and again.
    pub fn repeat(mut step: impl FnMut() + Send + 'static) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let is_over_in_thread = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !is_over_in_thread.load(Relaxed) {
                step();
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for BackgroundTraffic {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        // A panic of the thread has been printed; what it did not send or receive makes the test fail.
        _ = self.thread.take().map(JoinHandle::join);
    }
}
