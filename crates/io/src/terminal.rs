//! Who may read from a terminal.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

/// Whether reading from `stream` stops nobody: it is no terminal, or one in whose foreground this process is. The system
/// stops those in the background that read from it.
pub fn can_read(stream: &(impl AsFd + IsTerminal)) -> bool {
    !stream.is_terminal() || tcgetpgrp(stream).is_ok_and(|group| group == getpgrp())
}
