//! Facts whose types belong to an application.
//!
//! Each worker has an instance of every application. To share state between them, an application defines a type: an
//! [`AppRecord`], whose values every worker's view stores by key, or an [`AppEvent`], which is delivered once to every
//! worker and not stored.
//!
//! ```
//! use std::time::Instant;
//!
//! use sluice_openflow::DatapathId;
//! use sluice_sdk::view::AppRecord;
//! use sluice_sdk::Network;
//!
//! /// How much traffic a switch may carry.
//! #[derive(Debug, Clone, PartialEq)]
//! struct Quota {
//!     bytes_per_s: u64,
//! }
//!
//! impl AppRecord for Quota {
//!     type Key = DatapathId;
//! }
//!
//! # fn example(network: &mut Network, now: Instant) {
//! let id = DatapathId(7);
//! network.publish_record(now, id, Some(Quota { bytes_per_s: 1000 }));
//! assert_eq!(network.view().record::<Quota>(id).map(|quota| quota.bytes_per_s), Some(1000));
//! network.publish_record::<Quota>(now, id, None);
//! # }
//! ```

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::records::{RecordTable, TypedRecords};

/// A value that an application shares with its instances on all workers, stored by key.
///
/// If workers publish different values for a key, the last one wins, and all workers agree which that is.
pub trait AppRecord: Clone + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// What identifies a value; `()` if there is only one.
    type Key: Copy + Ord + fmt::Debug + Send + Sync + 'static;
}

/// An event that an application sends once to its instances on all workers. Views do not store it.
pub trait AppEvent: PartialEq + fmt::Debug + Send + Sync + 'static {}

/// A new or removed value of an [`AppRecord`] of any type. [`Fact::record`](super::Fact::record) returns it by type.
#[derive(Debug, Clone)]
pub struct RecordFact(Arc<dyn RecordChange>);

/// An [`AppEvent`] of any type. [`Fact::event`](super::Fact::event) returns it by type.
#[derive(Debug, Clone)]
pub struct EventFact(Arc<dyn AnyEvent>);

/// A [`TypedRecordChange`] of any type of record.
pub(super) trait RecordChange: Any + fmt::Debug + Send + Sync {
    /// An empty table for records of this type.
    fn new_table(&self) -> Box<dyn RecordTable>;

    fn equals(&self, other: &dyn RecordChange) -> bool;
}

/// Sets the value for `key`; `None` removes it.
#[derive(Debug)]
pub(super) struct TypedRecordChange<T: AppRecord> {
    pub(super) key: T::Key,
    pub(super) value: Option<T>,
}

impl<T: AppRecord> RecordChange for TypedRecordChange<T> {
    fn new_table(&self) -> Box<dyn RecordTable> {
        Box::new(TypedRecords::<T>::default())
    }

    fn equals(&self, other: &dyn RecordChange) -> bool {
        let other = (other as &dyn Any).downcast_ref::<Self>();
        other.is_some_and(|other| self.key == other.key && self.value == other.value)
    }
}

/// An [`AppEvent`] of any type.
trait AnyEvent: Any + fmt::Debug + Send + Sync {
    fn equals(&self, other: &dyn AnyEvent) -> bool;
}

impl<E: AppEvent> AnyEvent for E {
    fn equals(&self, other: &dyn AnyEvent) -> bool {
        (other as &dyn Any).downcast_ref::<Self>().is_some_and(|other| self == other)
    }
}

impl RecordFact {
    /// Sets the value for `key`; `None` removes it.
    pub fn new<T: AppRecord>(key: T::Key, value: Option<T>) -> Self {
        Self(Arc::new(TypedRecordChange { key, value }))
    }

    /// Key and value, if the record is a `T`; the value is `None` if it was removed.
    pub fn get<T: AppRecord>(&self) -> Option<(T::Key, Option<&T>)> {
        let change: &dyn Any = &*self.0;
        let TypedRecordChange { key, value } = change.downcast_ref::<TypedRecordChange<T>>()?;
        Some((*key, value.as_ref()))
    }

    pub(super) fn change(&self) -> &dyn RecordChange {
        &*self.0
    }
}

impl EventFact {
    /// Wraps an event.
    pub fn new<E: AppEvent>(event: E) -> Self {
        Self(Arc::new(event))
    }

    /// The event, if it is an `E`.
    pub fn get<E: AppEvent>(&self) -> Option<&E> {
        let event: &dyn Any = &*self.0;
        event.downcast_ref::<E>()
    }
}

impl PartialEq for RecordFact {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
    }
}

impl PartialEq for EventFact {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
    }
}
