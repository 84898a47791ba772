//! Checks of invariants that only a bug can break, where a broken one would cost data.
//!
//! What is cheap is a plain `assert!`, and stays in released builds. What is costly is an
//! `invariant!`. Tests and the simulator check it, because they are built with debug assertions; so
//! does any build with `RUSTFLAGS="--cfg invariants"`.

/// As `assert!`, in builds with debug assertions or with `cfg(invariants)`.
#[macro_export]
macro_rules! invariant {
    ($($assertion:tt)+) => {
        if cfg!(any(invariants, debug_assertions)) {
            assert!($($assertion)+);
        }
    };
}
