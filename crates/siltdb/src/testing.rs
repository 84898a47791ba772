//! Tools for tests of programs: a manual clock, files in memory with injected faults and crash
//! states, and code that runs in a forked child.
//!
//! The engine's own tests use them. They may change with any release.
//!
//! ```
//! use siltdb::{Options, Read, testing::{ManualClock, MemFs}};
//! use std::{sync::Arc, time::Duration};
//!
//! let clock = Arc::new(ManualClock::at(Duration::ZERO));
//! let db = Options::new().fs(Arc::new(MemFs::new())).clock(clock.clone()).open("data")?;
//! db.default_family().put_for(b"session", b"alice", Duration::from_secs(60))?;
//! assert!(db.contains(b"session")?);
//! clock.advance(Duration::from_secs(60));
//! assert!(!db.contains(b"session")?);
//! # Ok::<(), siltdb::Error>(())
//! ```

pub use siltdb_base::{
    clock::{Clock, ManualClock},
    fs::{
        Fs,
        mem::{Call, CallKind, Crash, Fault, FaultError, FaultSpan, MemFs, Observer},
    },
    process::run_in_fork,
};
