//! Message templates, and loops that answer bursts of `PACKET_IN` messages.
//!
//! An application that answers most packet-ins with messages of one shape encodes that shape once, as a
//! [`MessageTemplate`], and patches a few values into a copy for each answer. That is several times as fast as encoding
//! the message anew.
//!
//! Most packet-ins of a loaded network look alike: an untagged frame from a physical port. For these there are loops that
//! read the message and write the answer at offsets that the compiler knows:
//!
//! - [`install_flows_v1_0`], [`install_flows_v1_3`]: one flow entry per packet-in, and the frame itself if the switch has
//!   not buffered it. `learning` uses them.
//! - [`install_paths_v1_0`], [`install_paths_v1_3`]: flow entries for one or both directions of a conversation, and the
//!   frame likewise. `forwarding` uses them.
//!
//! Each loop ends at the first packet-in that looks different, which the application then handles on its general path.
//! The functions for OpenFlow 1.0 do nothing for a switch of another version, and so do those for 1.3 and 1.4: an application
//! calls both, and need not know which version its switch speaks.

mod flow_mod_layout;
mod install_flows;
mod install_paths;
mod packet_in_layout;
mod packet_out_layout;
mod template;

pub use install_flows::{FlowTemplates, install_flows_v1_0, install_flows_v1_3};
pub use install_paths::{
    ForwardingDecision, PathTemplates, install_paths_v1_0, install_paths_v1_3,
};
pub use template::{MessageTemplate, TemplateValues};
