//! OpenFlow messages: octets to values and back, 1.0 to 1.5.
