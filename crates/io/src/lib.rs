//! Sockets, threads, clocks: every system call.
