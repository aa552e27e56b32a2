//! TUN devices: interfaces whose packets a program carries.

use std::ffi::c_int;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

use crate::netns::NetNs;

/// Where devices come from.
const CLONE: &str = "/dev/net/tun";

/// Bytes of the name of an interface, without the zero at its end.
pub const NAME_MAX: usize = 15;

/// Packets that the system keeps for us while we are not looking: some 10 ms of the fastest TCP.
const QUEUE_PACKETS: u32 = 10_000;

/// `TUNSETIFF` of `linux/if_tun.h`.
const SET_IFF: Opcode = opcode::write::<c_int>(b'T', 202);

/// `IFF_TUN`, packets without Ethernet; `IFF_NO_PI`, and nothing before them; `IFF_TUN_EXCL`, and none that is there
/// already.
const FLAGS: u16 = 0x0001 | 0x1000 | 0x8000;

/// `struct ifreq` of `linux/if.h`, with its flags.
#[repr(C)]
struct IfReq {
    name: [u8; NAME_MAX + 1],
    flags: u16,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<IfReq>() == 40);

/// What an interface is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, at most [`NAME_MAX`] bytes.
    pub name: String,
    /// Its address, and how many bits of it are the network's.
    pub address: (IpAddr, u8),
    /// Bytes of the longest packet.
    pub mtu: u16,
}

/// A TUN device that is up, with an address. It goes when this is dropped, or the process ends.
///
/// # Kernel
/// Linux 3.8, with `CONFIG_TUN`.
#[derive(Debug)]
pub struct Tun {
    file: File,
    place: NetNs,
    name: String,
}

/// Why there is no device: what, where, and what to do.
#[derive(Debug)]
pub enum TunError {
    /// The file that devices come from cannot be opened.
    OpenDevice(io::Error),
    /// The namespace cannot be entered.
    EnterNamespace {
        /// Its name.
        place: String,
        /// What the system says.
        error: io::Error,
    },
    /// The system makes none of that name.
    Create {
        /// Name of the device.
        name: String,
        /// Name of the namespace.
        place: String,
        /// What the system says.
        error: io::Error,
    },
    /// The program that sets addresses does not start.
    IpCommandNotFound(io::Error),
    /// It refuses something.
    IpCommandFailed {
        /// What it was asked.
        command: String,
        /// Name of the namespace.
        place: String,
        /// Its answer.
        said: String,
    },
}

impl fmt::Display for TunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenDevice(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "{CLONE} may not be opened: run this as root")
            }
            Self::OpenDevice(e) => write!(
                f,
                "{CLONE}: {e}: load the driver with `modprobe tun`, or make the file with `mknod {CLONE} c 10 200`"
            ),
            Self::EnterNamespace { place, error } => {
                write!(f, "{place} cannot be entered: {error}: run this as root")
            }
            Self::Create { name, place, error } => {
                write!(f, "there can be no device {name} in {place}: {error}: ")?;
                f.write_str(match Errno::from_io_error(error) {
                    Some(Errno::BUSY) => "the name is taken, give another",
                    Some(Errno::INVAL) => "the name is none for an interface, give another",
                    _ => "run this as root, or with the capability CAP_NET_ADMIN",
                })
            }
            Self::IpCommandNotFound(e) => {
                write!(f, "the program ip does not start: {e}: install iproute2")
            }
            Self::IpCommandFailed { command, place, said } => {
                write!(f, "`{command}` in {place} failed: {said}")
            }
        }
    }
}

impl std::error::Error for TunError {}

impl TunError {
    /// Whether it takes the rights of root.
    pub fn is_permission(&self) -> bool {
        match self {
            Self::OpenDevice(e)
            | Self::EnterNamespace { error: e, .. }
            | Self::Create { error: e, .. } => e.kind() == io::ErrorKind::PermissionDenied,
            Self::IpCommandNotFound(_) | Self::IpCommandFailed { .. } => false,
        }
    }
}

impl Tun {
    /// Makes one in `place`, up and with its address.
    ///
    /// # Errors
    /// See [`TunError`].
    ///
    /// # Cost
    /// A thread, and four runs of `ip`.
    pub fn new(place: NetNs, interface: &Interface) -> Result<Self, TunError> {
        let made = place.within(|| {
            let file = create(&place, &interface.name)?;
            configure(&place, interface)?;
            Ok(file)
        });
        let enter = |error| TunError::EnterNamespace { place: place.to_string(), error };
        let file = made.map_err(enter)??;
        Ok(Self { file, place, name: interface.name.clone() })
    }

    /// Takes the next packet that the system sends through it into `buffer`; `None` if there is none yet.
    ///
    /// # Errors
    /// The device is gone, perhaps with its namespace.
    pub fn recv<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        loop {
            match (&self.file).read(buffer) {
                Ok(n) => return Ok(buffer.get(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Lets the system receive `packet` from it.
    ///
    /// # Errors
    /// The system refuses: it is no packet of IP, or the interface is down.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(drop)
    }

    /// Packets that the system has dropped before we could take them.
    ///
    /// # Errors
    /// The namespace cannot be entered, or does not tell.
    ///
    /// # Cost
    /// A thread.
    pub fn dropped(&self) -> io::Result<u64> {
        let table = self.place.within(|| fs::read_to_string("/proc/thread-self/net/dev"))??;
        Ok(dropped(&table, &self.name).unwrap_or_default())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Makes a device in the namespace of the calling thread.
#[expect(unsafe_code, reason = "a request that has no wrapper")]
fn create(place: &NetNs, name: &str) -> Result<File, TunError> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(CLONE);
    let file = file.map_err(TunError::OpenDevice)?;
    let failed =
        |error| TunError::Create { name: name.to_owned(), place: place.to_string(), error };
    let mut request = IfReq { name: [0; NAME_MAX + 1], flags: FLAGS, rest: [0; 22] };
    match request.name.get_mut(..name.len()).filter(|_| name.len() <= NAME_MAX) {
        Some(room) => room.copy_from_slice(name.as_bytes()),
        None => return Err(failed(Errno::INVAL.into())),
    }
    // SAFETY: TUNSETIFF reads a `struct ifreq`, whose layout this is, and nothing else; the name ends with a zero.
    let made = unsafe { ioctl(&file, Setter::<SET_IFF, IfReq>::new(request)) };
    made.map(|()| file).map_err(|errno| failed(errno.into()))
}

/// Gives it its address and sets it up.
fn configure(place: &NetNs, interface: &Interface) -> Result<(), TunError> {
    let Interface { name, address: (address, bits), mtu } = interface;
    // Else the system talks to nobody through it, in neighbour and router solicitations. Where there is no IPv6 this
    // fails, and nobody talks.
    let _ = ip(place, &format!("link set dev {name} addrgenmode none"));
    ip(place, &format!("link set dev {name} mtu {mtu} txqueuelen {QUEUE_PACKETS}"))?;
    // It need not wait until nobody else has the address: there is nobody else.
    let at_once = if address.is_ipv6() { " nodad" } else { "" };
    ip(place, &format!("address add {address}/{bits} dev {name}{at_once}"))?;
    ip(place, &format!("link set dev {name} up"))
}

/// Runs `ip` in the namespace of the calling thread, which it inherits.
fn ip(place: &NetNs, words: &str) -> Result<(), TunError> {
    let done =
        Command::new("ip").args(words.split(' ')).output().map_err(TunError::IpCommandNotFound)?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or_default().to_owned();
    Err(TunError::IpCommandFailed {
        command: format!("ip {words}"),
        place: place.to_string(),
        said,
    })
}

/// What `/proc/net/dev` says of packets that `name` should have sent and dropped.
fn dropped(table: &str, name: &str) -> Option<u64> {
    let named = |line: &&str| line.split(':').next().is_some_and(|word| word.trim() == name);
    let (_, counts) = table.lines().find(named)?.split_once(':')?;
    counts.split_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_read_off_the_line_of_the_device() {
        let table = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
 link0:     100       2    0    0    0     0          0         0     5000      50    0   17    0     0       0          0
link01: 1 2 3 4 5 6 7 8 9 10 11 99 13 14 15 16
";
        assert_eq!(dropped(table, "link0"), Some(17));
        assert_eq!(dropped(table, "link"), None);
    }

    #[test]
    fn a_name_that_is_too_long_is_refused_before_the_system_is_asked() {
        if File::open(CLONE).is_err() {
            println!("SKIP: {CLONE} cannot be opened here");
            return;
        }
        let place = NetNs::here().unwrap();
        let error = create(&place, "sixteen-bytes-xx").unwrap_err().to_string();
        assert!(error.contains("sixteen-bytes-xx in this namespace"), "{error}");
    }
}
