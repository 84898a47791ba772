//! Which lists a backup may follow, those of earlier versions among them.

use super::*;
use siltdb_base::{
    error::ErrorKind,
    id::{DatabaseId, FileNumber, SequenceNumber},
};
use siltdb_disk::fields::UnknownFields;

const MARK: BackupMark = BackupMark { directory: 1, mark: 2, after: 1 };

fn state(identity: Option<u128>, marks: &[BackupMark]) -> Edit {
    let identity = identity.map(|id| Change::Identity(DatabaseId(id)));
    let marks = marks.iter().copied().map(Change::BackedUp);
    Edit { changes: identity.into_iter().chain(marks).collect() }
}

fn list(identity: Option<u128>, mark: Option<BackupMark>) -> BackupList {
    BackupList {
        number: 3,
        sequence: SequenceNumber(9),
        manifest: FileNumber(4),
        state: state(identity, &[]),
        objects: Vec::new(),
        blobs: Vec::new(),
        may_blobs_grow: false,
        created_ms: 0,
        source: "theirs".to_owned(),
        mark,
        unknown: UnknownFields::default(),
    }
}

/// Whether a backup of the database 7, which has [`MARK`], may go there; the words of the refusal.
fn refusal(newest: Newest<'_>, adoption: Adoption) -> Option<String> {
    let ours = state(Some(7), &[MARK]);
    let last = SequenceNumber(9);
    let refused = check_past(newest, &ours, last, adoption, Path::new("ours")).err()?;
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    Some(refused.to_string())
}

#[test]
fn a_list_with_a_mark_of_the_database_is_followed() {
    let theirs = list(Some(7), Some(MARK));
    // By a follower, which is the first one to make a backup there.
    let unmarked = list(Some(7), None);
    for newest in [Newest::Absent, Newest::Known(&theirs), Newest::Known(&unmarked)] {
        assert_eq!(refusal(newest, Adoption::Refuses), None);
    }
}

#[test]
fn another_mark_and_a_list_of_an_earlier_version_need_an_adoption() {
    let diverged = list(Some(7), Some(BackupMark { mark: 3, ..MARK }));
    let elsewhere = list(Some(7), Some(BackupMark { directory: 3, ..MARK }));
    let later = BackupList { sequence: SequenceNumber(10), ..list(Some(7), None) };
    let earlier = list(None, None);
    for (newest, words) in [
        (Newest::Known(&diverged), "no past of this database"),
        (Newest::Known(&elsewhere), "no past of this database"),
        (Newest::Known(&later), "no past of this database"),
        (Newest::Known(&earlier), "do not say of which database"),
        (Newest::Unreadable, "says whose backups"),
    ] {
        let text = refusal(newest, Adoption::Refuses).unwrap();
        assert!(text.contains(words) && text.contains("`CopyOptions::adopt`"), "{text}");
        assert_eq!(refusal(newest, Adoption::Adopts), None);
    }
}

#[test]
fn another_database_is_refused_whatever_was_asked_for() {
    let theirs = list(Some(8), Some(MARK));
    for adoption in [Adoption::Refuses, Adoption::Adopts] {
        let text = refusal(Newest::Known(&theirs), adoption).unwrap();
        assert!(text.contains("foreign backups") && text.contains("theirs"), "{text}");
    }
}
