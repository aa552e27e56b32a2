//! What `sluice --version` prints.

use sluice_engine::IS_IN_KERNEL_ENGINE_BUILT;

/// The lines with the optional parts of this build.
macro_rules! version_with {
    ($features:literal) => {
        concat!(
            env!("CARGO_PKG_VERSION"),
            "\ncommit: ",
            env!("SLUICE_COMMIT"),
            "\ntarget: ",
            env!("SLUICE_TARGET"),
            "\nfeatures: ",
            $features
        )
    };
}

/// The version, and what the binary was built of.
pub(crate) const LONG: &str = if IS_IN_KERNEL_ENGINE_BUILT {
    version_with!("in-kernel engine")
} else {
    version_with!("none")
};
