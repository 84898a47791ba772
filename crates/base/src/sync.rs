//! The synchronisation primitives of the engine: `std`'s, or `loom`'s under `cfg(loom)`.
//!
//! It adds nothing of its own; a structure that is model-checked takes its atomics from here.

#[cfg(loom)]
pub use loom::{
    sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, atomic},
    thread,
};
#[cfg(not(loom))]
pub use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, atomic},
    thread,
};

/// Tells the processor (or the model checker) that this thread waits in a loop.
#[inline]
pub fn spin_loop() {
    #[cfg(loom)]
    loom::hint::spin_loop();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}

/// Locks a mutex of the standard library. A panic of another holder is passed over, because every
/// critical section of this engine leaves its data consistent wherever it can panic.
#[inline]
pub fn lock<T: ?Sized>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
