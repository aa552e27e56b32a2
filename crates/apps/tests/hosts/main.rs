//! What the application that knows hosts does.

mod ageing;
mod answering;
mod claiming;
mod frames;
mod learning;
mod moving;
mod net;
mod random;
