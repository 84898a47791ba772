//! Ctrl-C, seen by a verb between two entries or records.
//!
//! Only where [`watch`] was called: elsewhere the signal ends the process at once, which loses
//! nothing that was committed. A second signal does so everywhere. It cancels nothing itself.

use crate::failure::{Failure, INTERRUPTED, Result};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

/// A signal has come for the verb that runs. It guards no other memory: relaxed loads suffice.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Signals are watched for.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// A verb runs that looks at the signal.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// The time in which a verb looks at the signal.
pub struct Watched(());

/// Watches for signals while the result lives. The first of them is seen by [`check`], the next one
/// ends the process.
///
/// # Errors
/// [`Failure::File`] if the system takes no handler.
pub fn watch() -> Result<Watched> {
    if !WATCHED.swap(true, Ordering::Relaxed) {
        ctrlc::set_handler(on_signal).map_err(|error| {
            let error = std::io::Error::other(error.to_string());
            Failure::file("watch for", "Ctrl-C", error)
        })?;
    }
    REQUESTED.store(false, Ordering::Relaxed);
    RUNNING.store(true, Ordering::Relaxed);
    Ok(Watched(()))
}

impl Drop for Watched {
    fn drop(&mut self) {
        RUNNING.store(false, Ordering::Relaxed);
    }
}

fn on_signal() {
    let is_repeated = REQUESTED.swap(true, Ordering::Relaxed);
    if is_repeated || !RUNNING.load(Ordering::Relaxed) {
        process::exit(i32::from(INTERRUPTED));
    }
}

/// Whether a verb runs that looks at the signal.
pub fn is_watched() -> bool {
    RUNNING.load(Ordering::Relaxed)
}

/// Passes unless a signal has come.
///
/// # Errors
/// [`Failure::Interrupted`] if one has.
pub fn check() -> Result<()> {
    if REQUESTED.load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(()) }
}
