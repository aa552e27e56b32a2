//! Reading from a terminal.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

/// Whether this process can read from `stream` without being stopped: the system stops a background process that reads from
/// its terminal.
pub fn can_read(stream: &(impl AsFd + IsTerminal)) -> bool {
    !stream.is_terminal() || tcgetpgrp(stream).is_ok_and(|group| group == getpgrp())
}
