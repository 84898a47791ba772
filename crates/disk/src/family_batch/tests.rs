//! Batches with changes of families are read back as they were written, and anything else is an
//! error.

use super::*;
use siltdb_base::id::{FamilyId, FileNumber};

fn changes() -> Edit {
    let (id, name, options) = (FamilyId(9), "users".to_owned(), vec![1, 2, 3]);
    let creation = Change::CreateFamily { id, name, options };
    Edit { changes: vec![Change::DropFamily { id: FamilyId(4) }, creation] }
}

#[test]
fn changes_and_operations_are_read_back() {
    for edit in [changes(), Edit::default()] {
        for operations in [&b""[..], b"operations"] {
            let mut payload = Vec::new();
            encode_changes(&edit, &mut payload);
            payload.extend_from_slice(operations);
            assert_eq!(split(&payload).unwrap(), (edit.clone(), operations));
        }
    }
}

#[test]
fn a_payload_that_is_cut_or_damaged_never_panics() {
    let mut payload = Vec::new();
    encode_changes(&changes(), &mut payload);
    for end in 0..payload.len() {
        assert!(split(&payload[..end]).is_err(), "{end}");
    }
    for at in 0..payload.len() {
        for bit in 0..8 {
            let mut damaged = payload.clone();
            damaged[at] ^= 1 << bit;
            let _ = split(&damaged);
        }
    }
}

#[test]
fn other_changes_are_refused() {
    let refused = |change, kind| {
        let mut payload = Vec::new();
        encode_changes(&Edit { changes: vec![change] }, &mut payload);
        assert_eq!(split(&payload).unwrap_err().kind(), kind);
    };
    refused(Change::NextFile(FileNumber(1)), ErrorKind::Corruption);
    refused(Change::Unknown { tag: 64, value: Vec::new() }, ErrorKind::Unsupported);
}
