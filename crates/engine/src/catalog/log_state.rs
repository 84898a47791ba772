//! The state that the edits of a manifest lead to, families and tables left out.
//!
//! It reads no manifest and writes none.

use siltdb_base::{
    clock::StoredTime,
    id::{BlobUid, DatabaseId, FamilyId, FileNumber, SegmentId, SequenceNumber},
};
use siltdb_disk::{
    edit::{Change, Edit, identity::BackupMarks, synced::SyncedLog, tier::ColdPlace},
    log::{record::LogPosition, recover::KnownCut},
    prepared::PreparedBatch,
};
use std::{collections::BTreeMap, sync::Arc};

/// What a manifest records of the format, the log, and the numbers in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// The features in use, one bit each.
    pub features: u64,
    /// The first segment that recovery needs.
    pub first: SegmentId,
    /// The cuts that recoveries made in the log.
    pub cuts: Vec<KnownCut>,
    /// The last sequence number that the manifest knows; the log may have later ones.
    pub last_sequence: SequenceNumber,
    /// How far the log is durable.
    pub synced: SyncedLog,
    /// The time that decided expiry.
    pub time: StoredTime,
    /// The manifest has the changes of families of all records before this position.
    pub families: LogPosition,
    /// The retention floor: from there on every version is kept.
    pub retention_floor: Option<SequenceNumber>,
    /// The cold directory, if there is one.
    pub cold: Option<ColdPlace>,
    /// Prepared transactions by number; the log may have decisions about them.
    pub prepared: BTreeMap<SequenceNumber, Arc<PreparedBatch>>,
    /// The identity; `None` in a database of an older version, until the next opening for writing.
    pub identity: Option<DatabaseId>,
    /// Which backups are a past of the database.
    pub backups: BackupMarks,
    /// The blob files.
    pub blob_files: BTreeMap<FileNumber, BlobUid>,
    /// File numbers from here on are unused.
    pub next_file: FileNumber,
    /// Family ids from here on are unused.
    pub next_family: FamilyId,
}

impl LogState {
    /// Applies the parts of an edit that concern this state.
    pub fn note(&mut self, edit: &Edit) {
        for change in &edit.changes {
            match change {
                Change::Format { features, .. } => self.features |= features,
                Change::LogStart { segment } => self.first = self.first.max(*segment),
                Change::LogCut { position, next, .. } => {
                    // The durable records behind the cut are gone, and recovery has accepted that.
                    self.synced.position = self.synced.position.min(*position);
                    self.synced.file_bytes = 0;
                    self.cuts.push(KnownCut { at: *position, next: *next });
                }
                Change::LastSequence(last) => self.last_sequence = self.last_sequence.max(*last),
                // A later one for the same position is that of a close, which shortens the file.
                Change::LogSynced(synced) if synced.position >= self.synced.position => {
                    self.synced = *synced;
                }
                Change::LatestTime(time) => {
                    let latest_ms = self.time.latest_ms.max(time.latest_ms);
                    self.time = StoredTime { latest_ms, ..*time };
                }
                Change::FamiliesLogged { position } => {
                    self.families = self.families.max(*position);
                }
                Change::RetentionFloor(floor) => self.retention_floor = *floor,
                Change::NextFile(next) => self.next_file = self.next_file.max(*next),
                Change::NextFamily(next) => self.next_family = self.next_family.max(*next),
                Change::ColdDirectory(place) => self.cold = Some(place.clone()),
                Change::ColdDirectoryLeft => self.cold = None,
                Change::Identity(id) => self.identity = Some(*id),
                Change::BackedUp(mark) => self.backups.add(*mark),
                Change::Prepared { number, transaction } => {
                    self.prepared.insert(*number, Arc::clone(transaction));
                }
                Change::PreparedDecided { number } => {
                    self.prepared.remove(number);
                }
                Change::BlobFile { file, uid } => {
                    self.blob_files.insert(*file, *uid);
                }
                Change::BlobFileRemoved { file } => {
                    self.blob_files.remove(file);
                }
                _ => {}
            }
        }
        let first = self.first;
        self.cuts.retain(|cut| cut.next > first);
    }

    /// The changes that record this state.
    pub fn changes(&self) -> impl Iterator<Item = Change> + '_ {
        let cuts = self.cuts.iter().map(|cut| Change::LogCut {
            position: cut.at,
            next: cut.next,
            bytes: 0,
        });
        let last = Change::LastSequence(self.last_sequence);
        let start = Change::LogStart { segment: self.first };
        let synced = Change::LogSynced(self.synced);
        // Left out for a database in which no commit has changed families.
        let families = (self.families > LogPosition::ZERO)
            .then_some(Change::FamiliesLogged { position: self.families });
        let floor = self.retention_floor.map(|floor| Change::RetentionFloor(Some(floor)));
        let cold = self.cold.clone().map(Change::ColdDirectory);
        let identity = self.identity.map(Change::Identity);
        let backups = self.backups.iter().copied().map(Change::BackedUp);
        let prepared = self.prepared.iter().map(|(number, transaction)| Change::Prepared {
            number: *number,
            transaction: Arc::clone(transaction),
        });
        let blob_files = self.blob_files.iter();
        let blob_files = blob_files.map(|(file, uid)| Change::BlobFile { file: *file, uid: *uid });
        identity
            .into_iter()
            .chain(cuts)
            .chain([start, last, synced, Change::LatestTime(self.time)])
            .chain(families)
            .chain(floor)
            .chain(cold)
            .chain(backups)
            .chain(prepared)
            .chain(blob_files)
    }
}
