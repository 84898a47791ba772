//! Faults that are built in on purpose, and that the tests must notice.
//!
//! A build with `RUSTFLAGS="--cfg seeded_faults"` has all of them, and the environment variable
//! `SILT_SEEDED_FAULT` names the one that it makes. Any other build has none: the compiler removes
//! their code. `.ci/seeded-faults` makes one after the other and runs the tests that must fail.

use std::{env, sync::LazyLock};

/// Whether this process makes the fault of this name: `if seeded_fault!("skip_sync") { .. }`.
#[macro_export]
macro_rules! seeded_fault {
    ($name:literal) => {
        cfg!(seeded_faults) && $crate::seeded_fault::is_made($name)
    };
}

/// Whether the environment of this process names the fault `name`. For [`seeded_fault!`] alone.
///
/// [`seeded_fault!`]: crate::seeded_fault!
#[must_use]
pub fn is_made(name: &str) -> bool {
    static MADE: LazyLock<Option<String>> = LazyLock::new(|| env::var("SILT_SEEDED_FAULT").ok());
    MADE.as_deref() == Some(name)
}
