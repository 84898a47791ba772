//! The one error type of the project: what the caller should do, where it happened, and why.
//!
//! It does not log, retry or translate: an error is made where the fact is known and passed on.

use std::{borrow::Cow, fmt, io, path::Path};

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller can do about an [`Error`].
///
/// Each kind has a number that never changes meaning: bindings and logs may store it. A number
/// that went out of use is not given to another kind. 0 is none, so that it can stand for success.
#[non_exhaustive]
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The thing asked for does not exist.
    NotFound = 1,
    /// The thing to be created exists.
    AlreadyExists = 2,
    /// An argument is outside what is allowed; nothing was changed.
    InvalidArgument = 3,
    /// Bytes on disk are not what was written; the message names file and offset.
    Corruption = 4,
    /// The data was written by a newer version, or with a feature this build lacks.
    Unsupported = 5,
    /// Another opener holds the database.
    Locked = 6,
    /// The disk is full; nothing was lost, and writing resumes when there is space.
    NoSpace = 7,
    /// The operating system refused an operation.
    Io = 8,
    /// An earlier write or sync failed; reads go on, reopen to recover.
    Poisoned = 9,
    /// The database, file or medium cannot be written.
    ReadOnly = 10,
    /// The database was closed.
    Closed = 11,
    /// A resource is held by another thread or process; try again.
    Busy = 12,
    /// This process was forked from the one that opened the database, and must not write to it.
    Forked = 13,
    /// Another transaction committed first what this one depends on, or the two wait for locks of
    /// each other. Nothing was written; the transaction may succeed if it runs again.
    Conflict = 14,
    /// The call was cancelled, by its token or by another call; steps that were finished stay done.
    Cancelled = 15,
}

impl ErrorKind {
    /// Every kind, in the order of the numbers.
    pub const ALL: &'static [Self] = &[
        Self::NotFound,
        Self::AlreadyExists,
        Self::InvalidArgument,
        Self::Corruption,
        Self::Unsupported,
        Self::Locked,
        Self::NoSpace,
        Self::Io,
        Self::Poisoned,
        Self::ReadOnly,
        Self::Closed,
        Self::Busy,
        Self::Forked,
        Self::Conflict,
        Self::Cancelled,
    ];

    /// The number of the kind, from 1 on.
    ///
    /// ```
    /// use siltdb_base::error::ErrorKind;
    ///
    /// assert_eq!(ErrorKind::Corruption.as_u8(), 4);
    /// assert_eq!(ErrorKind::from_u8(4), Some(ErrorKind::Corruption));
    /// assert_eq!(ErrorKind::from_u8(0), None);
    /// ```
    #[must_use]
    pub fn as_u8(self) -> u8 {
        self as u8
    }

    /// The kind that has this number; `None` if this build knows none.
    #[must_use]
    pub fn from_u8(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_u8() == number)
    }

    /// The kind as a word, as it appears in messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not found",
            Self::AlreadyExists => "already exists",
            Self::InvalidArgument => "invalid argument",
            Self::Corruption => "corruption",
            Self::Unsupported => "unsupported",
            Self::Locked => "locked",
            Self::NoSpace => "no space",
            Self::Io => "io",
            Self::Poisoned => "poisoned",
            Self::ReadOnly => "read-only",
            Self::Closed => "closed",
            Self::Busy => "busy",
            Self::Forked => "forked",
            Self::Conflict => "conflict",
            Self::Cancelled => "cancelled",
        }
    }
}

/// An error: its kind, its context and its source.
///
/// It prints as `kind: message. file=F, offset=O, expected=E, found=F; hint`, leaving out what is
/// not known.
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    file: Option<String>,
    offset: Option<u64>,
    mismatch: Option<(String, String)>,
    hint: Option<Cow<'static, str>>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; `message` is lower case, without a full stop.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            inner: Box::new(Inner {
                kind,
                message: message.into(),
                file: None,
                offset: None,
                mismatch: None,
                hint: None,
                source: None,
            }),
        }
    }

    /// Bytes on disk are wrong in the way `message` says.
    #[cold]
    pub fn corruption(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corruption, message)
    }

    /// An argument is outside what is allowed.
    #[cold]
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// An error of the operating system while doing `action` (`read`, `sync`, …) on `file`.
    #[cold]
    pub fn io(action: &'static str, file: &Path, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                ErrorKind::ReadOnly
            }
            _ => ErrorKind::Io,
        };
        let mut error = Self::new(kind, format!("cannot {action}")).with_file(file);
        error.inner.source = Some(Box::new(source));
        error
    }

    /// Names the file.
    #[must_use]
    pub fn with_file(mut self, file: &Path) -> Self {
        self.inner.file = Some(file.display().to_string());
        self
    }

    /// Names the file, unless it is already named.
    #[must_use]
    pub fn or_file(self, file: &Path) -> Self {
        if self.inner.file.is_some() { self } else { self.with_file(file) }
    }

    /// Names the offset in the file, in bytes.
    #[must_use]
    pub fn with_offset(mut self, offset: u64) -> Self {
        self.inner.offset = Some(offset);
        self
    }

    /// Names the offset, unless it is already named.
    #[must_use]
    pub fn or_offset(self, offset: u64) -> Self {
        if self.inner.offset.is_some() { self } else { self.with_offset(offset) }
    }

    /// Says what was expected and what was found instead.
    #[must_use]
    pub fn with_mismatch(mut self, expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        self.inner.mismatch = Some((expected.to_string(), found.to_string()));
        self
    }

    /// Tells the reader what to do next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.inner.hint = Some(hint.into());
        self
    }

    /// Keeps the error that caused this one.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// What the caller can do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The message without kind and context.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The file it happened in.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.inner.file.as_deref()
    }

    /// The offset in [`Error::file`], in bytes.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.inner.offset
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.inner.hint.as_deref()
    }

    /// The same error once more, for a second caller that is told of it; the source becomes its
    /// text.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        let inner = &self.inner;
        Self {
            inner: Box::new(Inner {
                kind: inner.kind,
                message: inner.message.clone(),
                file: inner.file.clone(),
                offset: inner.offset,
                mismatch: inner.mismatch.clone(),
                hint: inner.hint.clone(),
                source: inner.source.as_ref().map(|source| source.to_string().into()),
            }),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.inner;
        write!(f, "{}: {}", inner.kind.as_str(), inner.message)?;
        let mut separator = ". ";
        let mut item = |f: &mut fmt::Formatter<'_>, name: &str, value: &dyn fmt::Display| {
            let result = write!(f, "{separator}{name}={value}");
            separator = ", ";
            result
        };
        if let Some(file) = &inner.file {
            item(f, "file", file)?;
        }
        if let Some(offset) = inner.offset {
            item(f, "offset", &offset)?;
        }
        if let Some((expected, found)) = &inner.mismatch {
            item(f, "expected", expected)?;
            item(f, "found", found)?;
        }
        if let Some(source) = &inner.source {
            item(f, "cause", source)?;
        }
        match &inner.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.inner.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests;
