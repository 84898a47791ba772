//! Tokens that cancel long work from another thread.
//!
//! A token ends nothing by itself: the work checks it between its steps.

use crate::error::{Error, ErrorKind, Result};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Cancels the calls that it was passed to. Clones share the state.
///
/// ```
/// use siltdb_base::cancel::CancelToken;
///
/// let token = CancelToken::new();
/// let child = token.child();
/// child.cancel();
/// assert!(child.is_cancelled() && !token.is_cancelled());
/// token.cancel();
/// assert!(token.clone().is_cancelled() && token.child().is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    is_cancelled: AtomicBool,
    parent: Option<CancelToken>,
}

impl CancelToken {
    /// Returns a token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a token that is cancelled together with this one, or by itself.
    #[must_use]
    pub fn child(&self) -> Self {
        let parent = Some(self.clone());
        Self { shared: Arc::new(Shared { is_cancelled: AtomicBool::new(false), parent }) }
    }

    /// Cancels the token, for good.
    pub fn cancel(&self) {
        // Relaxed: the flag carries no other data with it.
        self.shared.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns whether the token was cancelled. Costs a load, and one for each ancestor.
    #[inline]
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        let mut token = Some(self);
        while let Some(CancelToken { shared }) = token {
            // Relaxed: as in `cancel`.
            if shared.is_cancelled.load(Ordering::Relaxed) {
                return true;
            }
            token = shared.parent.as_ref();
        }
        false
    }

    /// Succeeds until the token is cancelled.
    ///
    /// # Errors
    /// `Cancelled`.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(cancelled()) } else { Ok(()) }
    }
}

/// The error of work that was cancelled.
#[cold]
#[must_use]
pub fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the call was cancelled")
}

#[cfg(test)]
mod tests;
