//! Disturbances: calls that fail, and a disk that runs full.

use crate::{
    run::{Excuse, Run, Trace},
    settings::Weather,
};
use siltdb_base::fs::mem::{CallKind, Fault, FaultError, FaultSpan};

impl Run {
    /// Makes a call fail, or fills or enlarges the disk.
    pub(crate) fn disturb(&mut self) {
        match self.settings.weather {
            Weather::Faults => self.fault(),
            Weather::FullDisk if self.disk == Excuse::None => {
                let room = self.draw.pick(&[0, 1000, 20_000, 200_000]);
                let limit = self.database.fs.space_used() + room;
                self.note(format!("space limited to {limit} bytes"));
                self.database.fs.set_space_limit(Some(limit));
                self.disk = Excuse::FullDisk;
            }
            Weather::FullDisk => {
                self.note("space is back".to_owned());
                self.database.fs.set_space_limit(None);
                self.disk = Excuse::None;
            }
            Weather::Crashes | Weather::Calm => {}
        }
    }

    pub(crate) fn fault(&mut self) {
        let kind = Some(self.draw.pick(&[
            CallKind::Fill,
            CallKind::Sync,
            CallKind::Sync,
            CallKind::Write,
            CallKind::Create,
            CallKind::OpenLog,
            CallKind::Prepare,
            CallKind::SyncDir,
            CallKind::Rename,
            CallKind::Remove,
            CallKind::Read,
            CallKind::Read,
        ]));
        let nth = self.draw.within(1..=8);
        let span = self.draw.pick(&[FaultSpan::Once, FaultSpan::Once, FaultSpan::FromThenOn]);
        let error = self.draw.pick(&[FaultError::Io, FaultError::NoSpace]);
        // A reader that always fails shows nothing.
        let span = if kind == Some(CallKind::Read) { FaultSpan::Once } else { span };
        if span == FaultSpan::FromThenOn || kind.is_some_and(may_poison) {
            self.trace = Trace::Lasting;
        }
        let fault = Fault { kind, nth, span, error };
        self.note(format!("to fail: {fault:?}"));
        self.database.fs.set_fault(Some(fault));
    }
}

/// Whether a failure of such a call poisons the log or the manifest. Its effect on the disk is then
/// unknown, or it left bytes at a place where others follow.
pub(crate) fn may_poison(kind: CallKind) -> bool {
    matches!(kind, CallKind::Fill | CallKind::Sync | CallKind::SyncDir | CallKind::Rename)
}
