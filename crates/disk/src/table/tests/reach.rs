//! Cursors with a reach read no block beyond it: damage there does not matter to them.

use super::*;

/// A table of more than ten blocks in which the block `damaged` does not verify, and what the
/// index says of that block.
fn with_damage(read_io: ReadIo, damaged: usize) -> (Arc<Table>, BlockInfo<'static>, Vec<Owned>) {
    let entries: Vec<_> =
        (0..300).map(|number| put(format!("key{number:04}"), number + 1, [7; 60])).collect();
    let mut file = Bytes::default();
    let meta = write(&mut file, &options(Compression::None), 7, &entries, &[]);
    let sound = open(&file.0, Some(&meta), &new_cache(1 << 20)).unwrap();
    assert!(sound.block_count() > 10, "{}", sound.block_count());
    let info = sound.block_info(damaged);
    file.0[info.offset as usize + 20] ^= 1;
    let table = open_by(read_io, &file.0, Some(&meta), &new_cache(1 << 20)).unwrap();
    (table, info, entries)
}

/// The keys that a cursor within `lower..upper` shows along `direction`.
fn keys(
    table: &Arc<Table>,
    direction: Direction,
    lower: Option<&[u8]>,
    upper: Option<&[u8]>,
) -> Result<Vec<Vec<u8>>> {
    let (from, to) = (lower, upper);
    let bound = |key: &[u8]| Slice::copy_from(key);
    let reach = Reach { lower: lower.map(bound), upper: upper.map(bound) };
    let mut cursor = table.cursor().within(Some(Arc::new(reach)));
    match (direction, from, to) {
        (Direction::Forward, Some(lower), _) => cursor.seek(lower, SequenceNumber::MAX)?,
        (Direction::Forward, None, _) => cursor.seek_to_first()?,
        (Direction::Backward, _, Some(upper)) => cursor.seek_before(upper, SequenceNumber::MAX)?,
        (Direction::Backward, _, None) => cursor.seek_to_last()?,
    }
    let mut found = Vec::new();
    while let Some(entry) = cursor.entry() {
        let is_within = lower.is_none_or(|lower| lower <= entry.key)
            && upper.is_none_or(|upper| entry.key < upper);
        if is_within {
            found.push(entry.key.to_vec());
        }
        match direction {
            Direction::Forward => cursor.next()?,
            Direction::Backward => cursor.prev()?,
        }
    }
    Ok(found)
}

#[test]
pub(super) fn a_cursor_reads_no_block_beyond_its_reach() {
    for read_io in [ReadIo::Read, ReadIo::Map] {
        for damaged in [0, 1, 5, 10] {
            let (table, info, entries) = with_damage(read_io, damaged);
            let (first, last) = (info.first_key, info.last_key);
            let all = |range: &dyn Fn(&[u8]) -> bool| -> Vec<Vec<u8>> {
                let keys = entries.iter().map(|entry| entry.0.clone());
                keys.filter(|key| range(key)).collect()
            };
            let before = all(&|key| key < first);
            let after = all(&|key| key > last);
            let behind = [last, &[0]].concat();
            for direction in [Direction::Forward, Direction::Backward] {
                let shown = |lower, upper| {
                    let mut found = keys(&table, direction, lower, upper).unwrap();
                    if direction == Direction::Backward {
                        found.reverse();
                    }
                    found
                };
                assert_eq!(shown(None, Some(first)), before, "{direction:?} {damaged}");
                assert_eq!(shown(Some(&behind), None), after, "{direction:?} {damaged}");
                // Two ends in the neighbouring blocks, or where the range is empty.
                assert_eq!(shown(Some(first), Some(first)), Vec::<Vec<u8>>::new());
                assert!(keys(&table, direction, None, None).is_err());
                let into = keys(&table, direction, Some(first), Some(&behind));
                assert!(into.is_err(), "{direction:?} {damaged}");
            }
        }
    }
}

#[test]
pub(super) fn a_cursor_returns_into_its_reach_after_it_has_left_it() {
    let (table, info, _) = with_damage(ReadIo::Read, 5);
    let reach = Reach { lower: None, upper: Some(Slice::copy_from(info.first_key)) };
    let mut cursor = table.cursor().within(Some(Arc::new(reach)));
    cursor.seek(info.first_key, SequenceNumber::MAX).unwrap();
    assert!(cursor.entry().is_none());
    cursor.seek(b"key0003", SequenceNumber::MAX).unwrap();
    assert_eq!(cursor.entry().unwrap().key, b"key0003");
    cursor.seek_before(info.first_key, SequenceNumber::MAX).unwrap();
    let key = cursor.entry().unwrap().key.to_vec();
    cursor.next().unwrap();
    assert!(cursor.entry().is_none());
    cursor.seek(&key, SequenceNumber::MAX).unwrap();
    assert_eq!(cursor.entry().unwrap().key, key);
}
