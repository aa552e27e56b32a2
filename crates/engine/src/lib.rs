//! Listener, front and workers: connections, threads, applications.
