//! Ctrl-C as a flag that verbs check between entries or records.
//!
//! It applies only while a [`Watched`] lives: elsewhere the signal ends the process at once, and no
//! commit is lost. A second signal always ends the process. This module cancels nothing itself.

use crate::failure::{Failure, INTERRUPTED, Result};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

/// A signal has come for the running verb. It guards no other memory, so relaxed loads suffice.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// The handler is installed.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// A verb that checks the flag is running.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// The scope in which a verb checks the flag.
pub struct Watched(());

/// Watches for signals while the result lives. [`check`] reports the first signal; the second ends
/// the process.
///
/// # Errors
/// [`Failure::File`] if the system refuses the handler.
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

/// Returns whether a verb that checks the flag is running.
pub fn is_watched() -> bool {
    RUNNING.load(Ordering::Relaxed)
}

/// Fails if a signal has come.
///
/// # Errors
/// [`Failure::Interrupted`] after a signal.
pub fn check() -> Result<()> {
    if REQUESTED.load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(()) }
}
