//! The calls that reach a memory file system: what they are, and which of them shall fail.
//!
//! It decides and counts; what a failed call leaves behind is decided where the call is carried
//! out.

use crate::error::Error;
use std::{fmt, io, path::Path, sync::Arc};

/// A kind of call. One call stands for what would be one request to an operating system; appended
/// bytes that are still held back made none.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// `create_dir_all`, for each directory it makes.
    CreateDir,
    /// `list`.
    List,
    /// `metadata`.
    Metadata,
    /// `open`.
    Open,
    /// A read from an open file.
    Read,
    /// `create`.
    Create,
    /// Appended bytes handed over.
    Write,
    /// `open_log`.
    OpenLog,
    /// `prepare` of a log file that had to grow.
    Prepare,
    /// `fill` of a log file.
    Fill,
    /// `shorten` of a log file.
    Shorten,
    /// `sync` of a file or log file.
    Sync,
    /// `sync_dir`.
    SyncDir,
    /// `rename`.
    Rename,
    /// `hard_link`.
    Link,
    /// `remove`.
    Remove,
    /// `remove_dir`.
    RemoveDir,
    /// `lock`.
    Lock,
}

impl CallKind {
    /// Whether it may change what a crash leaves behind.
    #[must_use]
    pub fn is_mutating(self) -> bool {
        !matches!(self, Self::List | Self::Metadata | Self::Open | Self::Read)
    }

    /// The action as errors name it.
    pub(super) fn action(self) -> &'static str {
        match self {
            Self::CreateDir => "create directory",
            Self::List => "list directory",
            Self::Metadata => "read metadata",
            Self::Open => "open",
            Self::Read => "read",
            Self::Create => "create",
            Self::Write | Self::Fill => "write",
            Self::OpenLog => "open log",
            Self::Prepare => "allocate space",
            Self::Shorten => "shorten",
            Self::Sync => "sync",
            Self::SyncDir => "sync directory",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::Remove => "remove",
            Self::RemoveDir => "remove directory",
            Self::Lock => "lock",
        }
    }
}

/// A call that is about to be carried out.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Its number: 1 is the first call on this file system.
    pub number: u64,
    /// Which call it is.
    pub kind: CallKind,
    /// On which path (of a rename or link: the new name).
    pub path: &'a Path,
    /// From which byte on, where that applies.
    pub offset: u64,
    /// How many bytes, where that applies.
    pub bytes: u64,
}

/// A failure to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Only calls of this kind count; `None`: all do.
    pub kind: Option<CallKind>,
    /// Which of them fails: 1 is the next one, 0 is as 1.
    pub nth: u64,
    /// Whether later ones fail too.
    pub span: FaultSpan,
    /// How it fails.
    pub error: FaultError,
}

/// How long a fault lasts.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultSpan {
    /// One call fails.
    Once,
    /// It and all later ones fail, until the fault is taken away.
    FromThenOn,
}

/// How a call fails.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultError {
    /// An input/output error.
    Io,
    /// No space is left.
    NoSpace,
}

/// What is called before each mutating call; it may take a crash clone or set a fault.
pub type Observer = Arc<dyn Fn(Call<'_>) + Send + Sync>;

/// Counts calls and fails the chosen ones.
#[derive(Default)]
pub(super) struct Gate {
    pub(super) calls: u64,
    pub(super) faults: u64,
    pub(super) fault: Option<Fault>,
    pub(super) observer: Option<Observer>,
}

impl Gate {
    /// Whether the fault hits a call of `kind`: the error to return.
    pub(super) fn hit(&mut self, kind: CallKind, path: &Path) -> Option<Error> {
        let fault = self.fault.as_mut()?;
        if fault.kind.is_some_and(|only| only != kind) {
            return None;
        }
        if fault.nth > 1 {
            fault.nth -= 1;
            return None;
        }
        let source = match fault.error {
            FaultError::Io => io::Error::other("injected input/output error"),
            FaultError::NoSpace => io::ErrorKind::StorageFull.into(),
        };
        if fault.span == FaultSpan::Once {
            self.fault = None;
        }
        self.faults += 1;
        Some(Error::io(kind.action(), path, source))
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("calls", &self.calls).field("fault", &self.fault).finish()
    }
}
