//! One OpenFlow conversation as a pure state machine, both ends.
