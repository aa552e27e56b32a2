//! How much a TCP connection has taken.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

/// Offset of `tcpi_bytes_acked` in `struct tcp_info` (RFC 4898, `tcpEStatsAppHCThruOctetsAcked`; Linux 4.2).
const BYTES_ACKED: usize = 120;

/// Bytes of the part of `struct tcp_info` that is read.
const INFO_BYTES: usize = BYTES_ACKED + 8;

/// Number of bytes that a TCP connection has taken since it was opened, from whomever; a constant may be added, which is the same for the
/// whole time until one end closes. If bytes are acknowledged meanwhile, it may be too small by these.
///
/// # Errors
/// Errors of the system calls; `Unsupported` if the kernel does not count.
pub fn taken_bytes(socket: impl AsFd) -> io::Result<u64> {
    let mut info = MaybeUninit::<[u8; INFO_BYTES]>::zeroed();
    let mut len = libc::socklen_t::try_from(INFO_BYTES).unwrap_or(0);
    // SAFETY: the option writes at most `len` bytes to `info`, which has them, and the number of those to `len`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if usize::try_from(len).unwrap_or(0) < INFO_BYTES {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: all bytes were zero before, so that they are initialized whatever was written.
    let info = unsafe { info.assume_init() };
    let acked = info.get(BYTES_ACKED..).and_then(|bytes| bytes.first_chunk());
    let acked = u64::from_ne_bytes(*acked.ok_or(io::ErrorKind::Unsupported)?);
    // After the other one, so that an acknowledgement in between makes the sum too small, not too large.
    Ok(acked + unacknowledged_bytes(socket)?)
}

/// Bytes in the send buffer, sent or not (`SIOCOUTQ`).
fn unacknowledged_bytes(socket: impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one `int` to `bytes`.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn bytes_count_from_when_they_are_taken() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let start = taken_bytes(&sender).unwrap();
        for round in 1..=100 {
            sender.write_all(&[7; 1000]).unwrap();
            if round % 2 == 0 {
                receiver.read_exact(&mut [0; 2000]).unwrap();
            }
            let deadline = crate::clock::now() + std::time::Duration::from_secs(10);
            while taken_bytes(&sender).unwrap() != start + 1000 * round {
                assert!(crate::clock::now() < deadline, "{round}");
            }
        }
    }
}
