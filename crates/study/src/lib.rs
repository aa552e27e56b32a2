//! Studies: experiments over many controllers, with a report.
//!
//! [`definition`] has the files that say what is measured, [`record`] what is written.

mod atomic_file;
pub mod compare;
pub mod definition;
mod interval;
pub mod measure;
mod network;
pub mod process;
pub mod record;
pub mod report;
pub mod rfc8456;
pub mod run;
