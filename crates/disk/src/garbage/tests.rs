//! What the buckets promise, compared with the entries themselves; and the codec.

use super::*;
use crate::fields::{FieldList, StoredField, UnknownFields, read_fields};
use proptest::prelude::*;
use siltdb_base::error::ErrorKind;

/// Key, sequence number, kind and value of each entry, in the order of a table.
type Entries = Vec<(u8, u64, EntryKind, Vec<u8>)>;

fn garbage_of(entries: &Entries) -> Garbage {
    let mut builder = GarbageBuilder::default();
    let mut before = None;
    for (key, sequence, kind, value) in entries {
        let position = match before == Some(key) {
            true => KeyPosition::Repeated,
            false => KeyPosition::First,
        };
        let (sequence, kind) = (SequenceNumber(*sequence), *kind);
        builder.add(position, SizedEntry { key_bytes: 1, sequence, kind, value }).unwrap();
        before = Some(key);
    }
    builder.finish()
}

fn expiring(expiries: impl IntoIterator<Item = u64>) -> Garbage {
    let mut builder = GarbageBuilder::default();
    for expiry_ms in expiries {
        let value = expiry_ms.to_le_bytes();
        let (sequence, kind) = (SequenceNumber(1), EntryKind::PutExpiring);
        let entry = SizedEntry { key_bytes: 12, sequence, kind, value: &value };
        builder.add(KeyPosition::First, entry).unwrap();
    }
    builder.finish()
}

#[test]
fn rising_and_shuffled_expiries_are_known_within_four_percent() {
    let rising = 0..10_000_u64;
    let shuffled = (0..10_000_u64).map(|number| number * 7_919 % 10_000);
    for garbage in [expiring(rising), expiring(shuffled)] {
        assert!(garbage.expiring().len() <= EXPIRING_MAX);
        assert_eq!(garbage.expiring_entries(), 10_000);
        assert_eq!(garbage.expiry_max_ms(), Some(9_999));
        for now_ms in 0..10_000 {
            let (known, expired) = (garbage.expired_bytes(now_ms), (now_ms + 1) * 20);
            assert!(known <= expired && expired - known <= 10_000 * 20 / 25, "{now_ms}: {known}");
        }
    }
}

#[test]
fn entries_that_expire_soon_and_late_stay_apart() {
    let expiries = (0..10_000_u64).map(|number| number + (number % 2) * 30_000_000);
    let garbage = expiring(expiries);
    let known = garbage.expired_bytes(10_000);
    assert!(known <= 5_000 * 20 && known > 4_600 * 20, "{known}");
}

#[test]
fn a_value_or_deletion_supersedes_what_is_older_and_an_operand_does_not() {
    use EntryKind::{Delete, Merge, Put, SingleDelete};
    let entry = |key, sequence, kind| (key, sequence, kind, vec![0; 9]);
    let entries = vec![
        entry(1, 20, Merge),
        entry(1, 15, Put),
        entry(1, 9, Put),
        entry(1, 4, SingleDelete),
        entry(2, 30, Delete),
        entry(2, 3, Put),
        entry(3, 1, Put),
    ];
    let superseded = garbage_of(&entries).superseded().to_vec();
    let bucket =
        |from, to| Superseded { from: SequenceNumber(from), to: SequenceNumber(to), bytes: 10 };
    assert_eq!(superseded, [bucket(9, 15), bucket(3, 30)]);
}

#[test]
fn many_versions_fit_into_the_buckets() {
    let entries = (0..1000).rev().map(|sequence| (1, sequence, EntryKind::Put, vec![0; 9]));
    let garbage = garbage_of(&entries.collect());
    assert!(garbage.superseded().len() <= SUPERSEDED_MAX);
    assert_eq!(garbage.superseded().iter().map(|bucket| bucket.bytes).sum::<u64>(), 999 * 10);
}

const LIST: FieldList = FieldList { of: "garbage", reserved: &[] };

fn decode(bytes: &[u8]) -> Result<Garbage> {
    let mut garbage = Garbage::default();
    read_fields(&LIST, bytes, |tag, value| {
        match tag {
            1 => garbage.decode_expiring(value)?,
            2 => garbage.decode_superseded(value)?,
            _ => return Ok(StoredField::Unknown),
        }
        Ok(StoredField::Known)
    })?;
    Ok(garbage)
}

fn round_trip(garbage: &Garbage) {
    let (mut bytes, none) = (Vec::new(), UnknownFields::default());
    garbage.encode(&mut FieldsWriter::new(&mut bytes, &none), [1, 2]);
    assert_eq!(decode(&bytes).unwrap(), *garbage);
    let lists = [!garbage.expiring.is_empty(), !garbage.superseded.is_empty()];
    let fields = lists.into_iter().filter(|&is_there| is_there).count();
    // A cut between two fields leaves an absent list; all other cuts are seen.
    let refused = (0..bytes.len()).filter(|&end| decode(&bytes[..end]).is_err()).count();
    assert_eq!(refused, bytes.len() - fields);
}

#[test]
fn buckets_out_of_order_or_impossible_are_corrupt() {
    for bytes in
        [&[2, 6, 5, 1, 1, 0, 1, 1][..], &[1, 6, 5, 1, 1, 0, 1, 1], &[2, 3, 5, 6, 1], &[1, 2, 5, 1]]
    {
        assert_eq!(decode(bytes).unwrap_err().kind(), ErrorKind::Corruption, "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn no_bucket_claims_what_a_snapshot_between_sees(
        mut drawn in prop::collection::vec((0..4_u8, 0..200_u64, 0..5_u8), 0..200),
        snapshot in 0..200_u64,
    ) {
        drawn.sort_by_key(|&(key, sequence, _)| (key, std::cmp::Reverse(sequence)));
        drawn.dedup_by_key(|&mut (key, sequence, _)| (key, sequence));
        let entries: Entries = drawn
            .into_iter()
            .map(|(key, sequence, kind)| match kind {
                0 => (key, sequence, EntryKind::Delete, Vec::new()),
                1 => (key, sequence, EntryKind::SingleDelete, Vec::new()),
                2 => (key, sequence, EntryKind::Merge, vec![1]),
                3 => (key, sequence, EntryKind::PutExpiring, (sequence % 9).to_le_bytes().into()),
                _ => (key, sequence, EntryKind::Put, vec![1]),
            })
            .collect();
        let garbage = garbage_of(&entries);
        round_trip(&garbage);
        // Of the entries that something hides from the present, the snapshot sees this many bytes.
        let (mut hidden, mut seen) = (0, 0);
        for (index, (key, sequence, kind, value)) in entries.iter().enumerate() {
            let newer = entries[..index].iter().rev().take_while(|other| other.0 == *key);
            let hider = newer.filter(|other| other.2 != EntryKind::Merge).map(|other| other.1);
            let Some(hider) = hider.min().filter(|_| *kind != EntryKind::SingleDelete) else {
                continue;
            };
            let bytes = 1 + value.len() as u64;
            hidden += bytes;
            seen += if (*sequence..hider).contains(&snapshot) { bytes } else { 0 };
        }
        let is_between = |bucket: &&Superseded| {
            (bucket.from.0..bucket.to.0).contains(&snapshot)
        };
        let claims = |garbage: &Garbage| {
            garbage.superseded().iter().map(|bucket| bucket.bytes).sum::<u64>()
        };
        prop_assert_eq!(claims(&garbage), hidden);
        let kept: u64 =
            garbage.superseded().iter().filter(is_between).map(|bucket| bucket.bytes).sum();
        prop_assert!(kept >= seen, "{kept} kept, {seen} seen");
    }
}
