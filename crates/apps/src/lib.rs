//! The applications that come with Sluice, strangers to one another.
