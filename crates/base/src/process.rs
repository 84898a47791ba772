//! Which process this is: a child that was forked with an open database must not write to it.
//!
//! A forked child has copies of its parent's memory and shares its files and mappings. What it
//! writes lands in the parent's database, at places that the parent gives out again. So an opener
//! remembers its process, and calls that write ask whether this is still that one.
//!
//! # Invariants
//! 1. `FORKS` is changed only by the handler that the system calls in a child. It runs before
//!    `fork` returns there, while the child has one thread.

use crate::error::{Error, ErrorKind, Result};
use std::sync::{
    Once,
    atomic::{AtomicU32, Ordering},
};

/// How many forks lie between the process that began and this one, as far as they were noted.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A process, for telling a forked child from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    forks: u32,
}

impl Process {
    /// This process; forks from now on are noted.
    #[must_use]
    pub fn current() -> Self {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(|| {
            // SAFETY: the handler only adds to an atomic, which is safe after a fork. If the system
            // has no memory to note it, forks go unnoticed, as they would without it.
            let _ = unsafe { libc::pthread_atfork(None, None, Some(note_fork)) };
        });
        // Relaxed: by (1) no other thread changes it.
        Self { forks: FORKS.load(Ordering::Relaxed) }
    }

    /// Whether this is the process: not a child that was forked from it.
    ///
    /// Cost: one relaxed load. A child made by the bare system call `clone` goes unnoticed.
    #[inline]
    #[must_use]
    pub fn is_current(self) -> bool {
        // Relaxed: as in `current`.
        crate::seeded_fault!("write_after_fork") || FORKS.load(Ordering::Relaxed) == self.forks
    }

    /// Passes if this is the process.
    ///
    /// # Errors
    /// `Forked`, in a child of the process that made this.
    #[inline]
    pub fn check(self) -> Result<()> {
        if self.is_current() { Ok(()) } else { Err(forked()) }
    }
}

#[cold]
fn forked() -> Error {
    Error::new(ErrorKind::Forked, "the database was opened before this process was forked")
        .with_hint("open databases after the fork, or start the child anew (spawn, exec)")
}

extern "C" fn note_fork() {
    // Relaxed: by (1).
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Runs `work` in a forked child, which ends with its result as the exit code, and returns that
/// code: for tests. Without one the child was killed, or ran longer than ten seconds and is then.
///
/// The child has the calling thread alone. Locks that others held stay locked in it for good.
#[must_use]
pub fn run_in_fork(work: impl FnOnce() -> u8) -> Option<u8> {
    // SAFETY: the child runs `work` and ends by `_exit`, without the parent's exit handlers. That
    // it may wait for a lock for good is what the deadline is for.
    let child = unsafe { libc::fork() };
    match child {
        0 => {
            // SAFETY: an alarm ends the child, which has no handler for it.
            unsafe { libc::alarm(10) };
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(255);
            // SAFETY: it ends the process at once.
            unsafe { libc::_exit(i32::from(code)) }
        }
        child if child > 0 => {
            let mut status = 0;
            // SAFETY: `status` is a place for the answer, and the child is ours to wait for.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            let is_answer = waited == child && libc::WIFEXITED(status);
            is_answer.then(|| libc::WEXITSTATUS(status) as u8)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
