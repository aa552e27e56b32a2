//! Each application by itself, as transcripts or on workers without sockets, and the default applications on emulated switches.
//! One test target, since each target compiles the engine and the applications for itself.

mod control_delay;
mod drain;
mod fast_path;
mod forwarding;
mod hosts;
mod hosts_cost;
mod hub;
mod learning;
mod limiter;
mod match_fallback;
mod model;
mod multicast;
mod path_answers;
mod startup;
mod topology;
mod topology_cost;
