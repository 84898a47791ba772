//! The state of a memory file system with the gate before it: how each call is carried out.
//!
//! # Thread safety
//! Two locks, never held together, and neither while the observer runs: it may call anything.

use super::{
    call::{Call, CallKind, Gate},
    place::NodeId,
    state::{InFlight, State},
};
use crate::error::{Error, Result};
use std::{
    io,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What all handles of a memory file system share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    gate: Mutex<Gate>,
}

/// A range of a file that a call is about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl Shared {
    pub(super) fn new(state: State) -> Self {
        Self { state: Mutex::new(state), gate: Mutex::default() }
    }

    /// The state; a panic elsewhere is passed over, since no critical section breaks off midway.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gate, in the same way.
    pub(super) fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, shows it to the observer, and fails it if that is its turn.
    pub(super) fn enter(&self, kind: CallKind, path: &Path, span: Span) -> Result<u64> {
        self.enter_with(kind, path, span, |_| {})
    }

    /// As `enter`; `begin` is told the call's number before the observer sees the call.
    fn enter_with(
        &self,
        kind: CallKind,
        path: &Path,
        span: Span,
        begin: impl FnOnce(u64),
    ) -> Result<u64> {
        let (number, observer) = {
            let mut gate = self.gate();
            gate.calls += 1;
            (gate.calls, gate.observer.clone().filter(|_| kind.is_mutating()))
        };
        if let Some(observer) = observer {
            begin(number);
            let Span { offset, bytes } = span;
            observer(Call { number, kind, path, offset, bytes });
        }
        match self.gate().hit(kind, path) {
            Some(error) => Err(error),
            None => Ok(number),
        }
    }

    /// Carries out a call on the state.
    pub(super) fn call<T>(
        &self,
        kind: CallKind,
        path: &Path,
        work: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> Result<T> {
        self.enter(kind, path, Span::default())?;
        work(&mut self.state()).map_err(|error| Error::io(kind.action(), path, error))
    }

    /// Writes to a file; if it fails, a part may be written.
    pub(super) fn write(
        &self,
        kind: CallKind,
        path: &Path,
        node: NodeId,
        offset: u64,
        bytes: Vec<u8>,
    ) -> Result<()> {
        let span = Span { offset, bytes: bytes.len() as u64 };
        let mut begun = None;
        let entered = self.enter_with(kind, path, span, |number| {
            begun = Some(number);
            let write = InFlight { node, offset, bytes: bytes.clone() };
            self.state().in_flight.insert(number, write);
        });
        let mut state = self.state();
        if let Some(number) = begun {
            state.in_flight.remove(&number);
        }
        let done = match &entered {
            Ok(_) => bytes.len(),
            Err(_) => bytes.len() / 2,
        };
        let written = state.write(node, offset, &bytes[..done]);
        entered?;
        written.map_err(|error| Error::io(kind.action(), path, error).with_offset(offset))
    }

    /// Makes the bytes of a file before `end` durable; if it fails, what was unsynced is given up.
    pub(super) fn sync(&self, path: &Path, node: NodeId, end: u64) -> Result<()> {
        let entered = self.enter(CallKind::Sync, path, Span::default());
        let seed = self.gate().calls;
        let mut state = self.state();
        let content = state.content_mut(node);
        match entered {
            Ok(_) => {
                content.sync(end);
                Ok(())
            }
            Err(error) => {
                content.fail_sync(seed);
                Err(error)
            }
        }
    }
}
