//! TUN devices: network interfaces whose packets a program sends and receives.

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
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

use crate::netns::NetNs;

/// The file that creates devices.
const CLONE: &str = "/dev/net/tun";

/// Bytes of an interface name without the terminating zero.
pub const NAME_MAX: usize = 15;

/// Length of the transmit queue: about 10 ms of TCP at full speed.
const QUEUE_PACKETS: u32 = 10_000;

/// `TUNSETIFF` of `linux/if_tun.h`.
const SET_IFF: Opcode = opcode::write::<c_int>(b'T', 202);

/// `IFF_TUN`: IP packets without an Ethernet header; `IFF_NO_PI`: without packet information; `IFF_TUN_EXCL`: the device
/// must not exist.
const FLAGS: u16 = 0x0001 | 0x1000 | 0x8000;

/// `struct ifreq` of `linux/if.h`, with its flags.
#[repr(C)]
struct IfReq {
    name: [u8; NAME_MAX + 1],
    flags: u16,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<IfReq>() == 40);

/// The settings of a new interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// At most [`NAME_MAX`] bytes.
    pub name: String,
    /// IP address and prefix length.
    pub address: (IpAddr, u8),
    /// Maximum packet length in bytes.
    pub mtu: u16,
}

/// A TUN device that is up and has an address. Removed when it is dropped or the process ends.
///
/// # Kernel
/// Linux 3.8, with `CONFIG_TUN`.
#[derive(Debug)]
pub struct Tun {
    file: File,
    netns: NetNs,
    name: String,
}

/// Why a device cannot be created. `Display` says what to do.
#[derive(Debug)]
pub enum TunError {
    /// `/dev/net/tun` cannot be opened.
    OpenDevice(io::Error),
    /// The namespace cannot be entered.
    EnterNamespace {
        /// Name of the namespace.
        netns: String,
        /// Error of the system.
        error: io::Error,
    },
    /// The system refuses to create the device.
    Create {
        /// Name of the device.
        name: String,
        /// Name of the namespace.
        netns: String,
        /// Error of the system.
        error: io::Error,
    },
    /// The program `ip` cannot be started.
    IpCommandNotFound(io::Error),
    /// The program `ip` failed.
    IpCommandFailed {
        /// The whole command.
        command: String,
        /// Name of the namespace.
        netns: String,
        /// First line of its standard error.
        stderr: String,
    },
}

impl fmt::Display for TunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenDevice(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "cannot open {CLONE}: permission denied: run this as root")
            }
            Self::OpenDevice(e) => write!(
                f,
                "cannot open {CLONE}: {e}: load the driver with `modprobe tun`, or create the file with `mknod {CLONE} c 10 200`"
            ),
            Self::EnterNamespace { netns, error } => {
                write!(f, "cannot enter {netns}: {error}: run this as root")
            }
            Self::Create { name, netns, error } => {
                write!(f, "cannot create device {name} in {netns}: {error}: ")?;
                f.write_str(match Errno::from_io_error(error) {
                    Some(Errno::BUSY) => "the name is in use, choose another one",
                    Some(Errno::INVAL) => {
                        "the name is not valid for an interface, choose another one"
                    }
                    _ => "run this as root, or with the capability CAP_NET_ADMIN",
                })
            }
            Self::IpCommandNotFound(e) => {
                write!(f, "cannot start the program ip: {e}: install iproute2")
            }
            Self::IpCommandFailed { command, netns, stderr } => {
                write!(f, "`{command}` in {netns} failed: {stderr}")
            }
        }
    }
}

impl std::error::Error for TunError {}

impl TunError {
    /// Whether the cause is a missing privilege.
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
    /// Creates a device in `netns`, sets its address and sets it up.
    ///
    /// # Errors
    /// See [`TunError`].
    ///
    /// # Cost
    /// A thread, and four runs of `ip`.
    pub fn new(netns: NetNs, interface: &Interface) -> Result<Self, TunError> {
        let result = netns.run_inside(|| {
            let file = create(&netns, &interface.name)?;
            configure(&netns, interface)?;
            Ok(file)
        });
        let enter = |error| TunError::EnterNamespace { netns: netns.to_string(), error };
        let file = result.map_err(enter)??;
        Ok(Self { file, netns, name: interface.name.clone() })
    }

    /// Reads the next packet that the system sends on the device into `buffer`; `None` if there is none.
    ///
    /// # Errors
    /// The device was removed, perhaps with its namespace.
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

    /// Lets the system receive `packet` on the device.
    ///
    /// # Errors
    /// It is not an IP packet, or the interface is down.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(drop)
    }

    /// Number of packets that the system dropped because the transmit queue was full.
    ///
    /// # Errors
    /// The namespace cannot be entered, or `/proc` cannot be read.
    ///
    /// # Cost
    /// A thread.
    pub fn dropped(&self) -> io::Result<u64> {
        let table = self.netns.run_inside(|| fs::read_to_string("/proc/thread-self/net/dev"))??;
        Ok(parse_dropped(&table, &self.name).unwrap_or_default())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Creates a device in the namespace of the calling thread; `netns` is its name for errors.
#[expect(unsafe_code, reason = "rustix has no wrapper of this request")]
fn create(netns: &NetNs, name: &str) -> Result<File, TunError> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(CLONE);
    let file = file.map_err(TunError::OpenDevice)?;
    let failed =
        |error| TunError::Create { name: name.to_owned(), netns: netns.to_string(), error };
    let mut request = IfReq { name: [0; NAME_MAX + 1], flags: FLAGS, rest: [0; 22] };
    match request.name.get_mut(..name.len()).filter(|_| name.len() <= NAME_MAX) {
        Some(target) => target.copy_from_slice(name.as_bytes()),
        None => return Err(failed(Errno::INVAL.into())),
    }
    // SAFETY: TUNSETIFF reads a `struct ifreq`, which `IfReq` has the layout of, and writes it back with the name of the
    // device; every content is valid for its fields. The name ends with a zero.
    let result = unsafe { ioctl(&file, Updater::<SET_IFF, IfReq>::new(&mut request)) };
    result.map(|()| file).map_err(|errno| failed(errno.into()))
}

/// Sets MTU and address of the device and sets it up.
fn configure(netns: &NetNs, interface: &Interface) -> Result<(), TunError> {
    let Interface { name, address: (address, bits), mtu } = interface;
    // Prevents neighbor and router solicitations of the system. Fails on a system without IPv6, where there are none.
    let _ = ip(netns, &format!("link set dev {name} addrgenmode none"));
    ip(netns, &format!("link set dev {name} mtu {mtu} txqueuelen {QUEUE_PACKETS}"))?;
    // No other host can have the address, so duplicate address detection would only delay.
    let nodad = if address.is_ipv6() { " nodad" } else { "" };
    ip(netns, &format!("address add {address}/{bits} dev {name}{nodad}"))?;
    ip(netns, &format!("link set dev {name} up"))
}

/// Runs `ip` in the namespace of the calling thread, which it inherits.
fn ip(netns: &NetNs, args: &str) -> Result<(), TunError> {
    let output =
        Command::new("ip").args(args.split(' ')).output().map_err(TunError::IpCommandNotFound)?;
    if output.status.success() {
        return Ok(());
    }
    let stderr =
        String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned();
    Err(TunError::IpCommandFailed {
        command: format!("ip {args}"),
        netns: netns.to_string(),
        stderr,
    })
}

/// The number of dropped transmit packets of `name` in `/proc/net/dev`.
fn parse_dropped(table: &str, name: &str) -> Option<u64> {
    let named = |line: &&str| line.split(':').next().is_some_and(|word| word.trim() == name);
    let (_, counts) = table.lines().find(named)?.split_once(':')?;
    counts.split_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_packets_are_read_from_the_line_of_the_device() {
        let table = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
 link0:     100       2    0    0    0     0          0         0     5000      50    0   17    0     0       0          0
link01: 1 2 3 4 5 6 7 8 9 10 11 99 13 14 15 16
";
        assert_eq!(parse_dropped(table, "link0"), Some(17));
        assert_eq!(parse_dropped(table, "link"), None);
    }

    #[test]
    fn a_name_that_is_too_long_is_an_error() {
        if File::open(CLONE).is_err() {
            println!("SKIP: {CLONE} cannot be opened here");
            return;
        }
        let netns = NetNs::current().unwrap();
        let error = create(&netns, "sixteen-bytes-xx").unwrap_err().to_string();
        assert!(error.contains("sixteen-bytes-xx in this namespace"), "{error}");
    }
}
