//! What a rule matches. §7.2.3.

use super::codec::Codec;
use super::reader::Reader;
use super::value::{Misread, Plain, Value};
use crate::{Inexpressible, Out, Result, Version};

/// Fields that a packet must have; with none, every packet matches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Match {}

impl Codec for Match {
    fn parse(_: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {})
    }

    fn emit(&self, _: &mut Out<'_>) -> Result<(), Inexpressible> {
        Ok(())
    }
}

impl Plain for Match {
    fn to_value(&self, _: Version) -> Value {
        Value::Null
    }

    fn from_value(_: &Value, _: Version) -> Result<Self, Misread> {
        Ok(Self {})
    }
}
