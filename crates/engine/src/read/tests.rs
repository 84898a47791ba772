//! What readers remember for later readers.

use crate::{
    fixture::{commit_payload, contents, open, put_range},
    write::commit::Payload,
};
use siltdb_base::{cursor::Direction, fs::mem::MemFs, id::SequenceNumber, key::EntryKind};

#[test]
fn the_first_reader_across_many_deleted_keys_leaves_an_empty_range_to_all_others() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "key", 0..500, b"value");
    let family = engine.database().catalog.families.named("default").unwrap();
    for number in 1..500 {
        let key = format!("key{number:05}");
        let delete = Payload::one(&family, EntryKind::Delete, key.as_bytes(), b"");
        commit_payload(&engine, &delete).unwrap();
    }
    assert_eq!(contents(&engine, "default", None).len(), 1);
    let skip = |key: &[u8]| {
        let (present, mut border) =
            (SequenceNumber(engine.database().stats().sequence), Vec::new());
        let skips = family.tree.empty_ranges().skip(
            key,
            present,
            u64::MAX,
            Direction::Forward,
            &mut border,
        );
        skips.then_some(border)
    };
    let last = b"key00499\0".to_vec();
    assert_eq!(skip(b"key00200"), Some(last));
    put_range(&engine, "key", 300..301, b"value");
    assert_eq!(skip(b"key00200"), Some(b"key00300".to_vec()), "writers report at once");
    assert_eq!(contents(&engine, "default", None).len(), 2);
}
