//! Why what is declared cannot be changed: the store could not be opened, or the last change could not be written.

use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use sluice_declared::WriteError;
use sluice_declared::store::StoreError;
use utoipa::ToSchema;

use super::ApiState;

/// The error of the last change that had to be stored; `None` if it was stored.
#[derive(Debug, Default)]
pub(super) struct LastWrite(Mutex<Option<StoreError>>);

impl LastWrite {
    /// Records whether a change was stored. A result for which `is_stored` is `false`, such as that of a dry run, says nothing about the store.
    pub(super) fn record<R>(
        &self,
        written: &Result<R, WriteError>,
        is_stored: impl FnOnce(&R) -> bool,
    ) {
        let error = match written {
            Ok(result) => {
                if !is_stored(result) {
                    return;
                }
                None
            }
            Err(WriteError::Store(error) | WriteError::StaysDeclared(_, error)) => {
                Some(error.clone())
            }
            Err(_) => return,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    fn error(&self) -> Option<StoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Why what is declared cannot be changed.
#[derive(Serialize, ToSchema)]
pub(super) struct StoreErrorDocument {
    operation: StoreOperation,
    /// The file, and why it cannot be used.
    message: String,
}

/// What the store cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum StoreOperation {
    /// It could not be opened at the start: until a restart, what is declared is neither known nor changed.
    Open,
    /// The last change could not be written. The next one may be.
    Write,
}

impl StoreErrorDocument {
    /// `None` if the store can be used, or there is none.
    pub(super) fn new(state: &ApiState) -> Option<Self> {
        let opened = state.declared.as_ref()?.store_error();
        let (operation, error) = match opened {
            Some(error) => (StoreOperation::Open, error),
            None => (StoreOperation::Write, state.last_write.error()?),
        };
        Some(Self { operation, message: error.to_string() })
    }
}
