//! Why what is declared cannot be changed: the store could not be opened, or the last write has failed.

use serde::Serialize;
use utoipa::ToSchema;

use super::ApiState;

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
    /// The last write has failed. The next one may succeed.
    Write,
}

impl StoreErrorDocument {
    /// `None` if the store can be used, or there is none.
    pub(super) fn new(state: &ApiState) -> Option<Self> {
        let declared = state.declared.as_ref()?;
        let (operation, error) = match declared.store_error() {
            Some(error) => (StoreOperation::Open, error),
            None => (StoreOperation::Write, declared.write_error()?),
        };
        Some(Self { operation, message: error.to_string() })
    }
}
