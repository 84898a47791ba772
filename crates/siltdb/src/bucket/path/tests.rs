//! Bounds of paths, and damaged entries.

use super::{
    BUCKET_DEPTH_MAX, BUCKET_IDS_KEY, BUCKET_KEY_PREFIX, BUCKET_NAME_BYTES_MAX, Entry, Part, Path,
    ROOT, is_link, key,
};
use siltdb_base::error::ErrorKind;

#[test]
fn names_and_depth_have_bounds() {
    let kind = |names: Vec<Vec<u8>>| Path::new(names).map(|_| ()).map_err(|error| error.kind());
    assert_eq!(kind(vec![vec![0xff; BUCKET_NAME_BYTES_MAX]; BUCKET_DEPTH_MAX]), Ok(()));
    assert_eq!(kind(vec![]), Ok(()));
    let invalid = Err(ErrorKind::InvalidArgument);
    assert_eq!(kind(vec![vec![b'a']; BUCKET_DEPTH_MAX + 1]), invalid);
    assert_eq!(kind(vec![vec![b'a'; BUCKET_NAME_BYTES_MAX + 1]]), invalid);
    assert_eq!(kind(vec![vec![b'a'], vec![]]), invalid);
}

#[test]
fn keys_are_in_the_order_of_what_they_hold() {
    let keys = [
        key(1, Part::Child, b"\xff"),
        key(1, Part::Sequence, b""),
        key(1, Part::Data, b""),
        key(1, Part::Data, b"a"),
        key(1, Part::Data, b"a\0"),
        key(1, Part::Data, b"\xff\xff"),
        key(1, Part::Trash, b""),
        key(256, Part::Child, b""),
    ];
    assert!(keys.is_sorted());
    assert!(keys.iter().all(|key| key.starts_with(&BUCKET_KEY_PREFIX)));
    assert_eq!(key(ROOT, Part::Sequence, b""), BUCKET_IDS_KEY);
}

#[test]
fn entries_come_back_and_damaged_ones_are_refused() {
    let entry = Entry { id: 77, height: 16 };
    assert_eq!(Entry::decode(&entry.encode()).unwrap(), entry);
    let mut bytes = entry.encode().to_vec();
    for height in [0, 17, 255] {
        bytes[8] = height;
        assert_eq!(Entry::decode(&bytes).unwrap_err().kind(), ErrorKind::Corruption);
    }
    for length in [0, 8, 10] {
        bytes.resize(length, 1);
        assert_eq!(Entry::decode(&bytes).unwrap_err().kind(), ErrorKind::Corruption);
    }
    assert!(Entry::decode(&[0, 0, 0, 0, 0, 0, 0, 0, 1]).is_err());
}

#[test]
fn data_and_counters_of_buckets_are_no_links() {
    for (key, expected) in [
        (key(ROOT, Part::Sequence, b""), true),
        (key(ROOT, Part::Child, b"name"), true),
        (key(ROOT, Part::Trash, &[0; 8]), true),
        (key(7, Part::Child, b"name"), true),
        (key(7, Part::Sequence, b""), false),
        (key(7, Part::Data, b"key"), false),
        (BUCKET_KEY_PREFIX.to_vec(), true),
    ] {
        assert_eq!(is_link(&key), expected, "{key:?}");
    }
}
