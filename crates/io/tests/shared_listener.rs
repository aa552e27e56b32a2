//! A listener that another process has open as well.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use sluice_io::{Epoll, Io as _, WaitStrategy};

#[test]
fn connections_to_a_closed_listener_do_not_wake_the_set_that_had_it() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut io = Epoll::new(WaitStrategy::default()).unwrap();
    let id = io.listen(listener.try_clone().unwrap()).unwrap();
    io.close(id);
    // Accepted by the kernel for the other one, who does not take it.
    let _connection = TcpStream::connect(address).unwrap();
    let deadline = io.now() + Duration::from_millis(50);
    let woken_at = io.wait(Some(deadline)).unwrap();
    assert!(woken_at >= deadline, "{:?} too early", deadline - woken_at);
    assert!(io.next_event().is_none());
}
