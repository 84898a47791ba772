//! Blocks against the plain list of their entries, and damaged blocks.

use super::*;
use proptest::prelude::*;
use siltdb_base::{
    codec::put_varint,
    key::{Entry, SortKey},
};

type Owned = (Vec<u8>, u64, EntryKind, Vec<u8>);

const KINDS: [EntryKind; 6] = [
    EntryKind::Put,
    EntryKind::PutExpiring,
    EntryKind::Delete,
    EntryKind::SingleDelete,
    EntryKind::Merge,
    EntryKind::BlobPointer,
];

fn raw(entries: &[Owned]) -> Vec<u8> {
    raw_as(BlockLayout::Entries, entries)
}

fn place(entry: &Owned) -> SortKey<'_> {
    SortKey::new(&entry.0, SequenceNumber(entry.1))
}

fn raw_as(layout: BlockLayout, entries: &[Owned]) -> Vec<u8> {
    let mut builder = BlockBuilder::default();
    for (key, sequence, kind, value) in entries {
        builder.add(Entry { key, sequence: SequenceNumber(*sequence), kind: *kind, value });
    }
    assert_eq!(builder.first_key().unwrap(), &entries[0].0[..]);
    let last = entries.last().unwrap();
    assert_eq!(builder.last().unwrap(), place(last));
    let mut out = vec![1];
    builder.encode(layout, &mut out);
    builder.clear();
    assert!(builder.is_empty() && builder.last().is_none());
    out
}

fn entry_of(block: &Block, index: usize) -> Owned {
    let entry = block.entry(index);
    let mut key = Vec::new();
    block.copy_key(index, &mut key);
    assert_eq!(key, [block.prefix(), entry.suffix].concat());
    (key, entry.sequence.0, entry.kind, entry.value.to_vec())
}

/// The block where it lies, with other bytes behind it than zeros.
fn map(raw: &[u8]) -> Result<Block> {
    Block::map([raw, &[0xff; Block::BYTES_BEHIND]].concat().into(), Buffer::copy_on_heap)
}

fn check_against(entries: &[Owned], probes: &[(Vec<u8>, u64)]) {
    let raw = raw(entries);
    let copied = Block::parse(&raw).unwrap();
    let mapped = map(&raw).unwrap();
    let arrays_bytes = copied.arrays.len() - raw.len() - PADDING_BYTES;
    assert_eq!(mapped.bytes(), region::piece_bytes(arrays_bytes) + OWNER_BYTES);
    check_glances(&raw, entries, probes);
    let copy_of_mapped = mapped.copy_into(Buffer::copy_on_heap);
    assert_eq!(copy_of_mapped.bytes(), copied.bytes());
    for block in [copied, mapped, copy_of_mapped] {
        check_block(&block, entries, probes);
    }
    let searchable = raw_as(BlockLayout::Searchable, entries);
    let padded = bytes::Bytes::from([&searchable[..], &[0xff; Block::BYTES_BEHIND]].concat());
    check_glances(&searchable, entries, probes);
    let copied = Block::parse(&searchable).unwrap();
    assert_eq!(copied.arrays.len() - PADDING_BYTES, searchable.len(), "arrays stand once");
    let mapped = map(&searchable).unwrap();
    assert!(mapped.is_searchable());
    let copy_of_mapped = mapped.copy_into(Buffer::copy_on_heap);
    for block in [copied, mapped, copy_of_mapped, Block::in_place(&padded).unwrap()] {
        check_block(&block, entries, probes);
    }
    // Arrays that say something else are refused.
    for at in [raw.len(), searchable.len() - 1] {
        let mut wrong = searchable.clone();
        wrong[at] ^= 1;
        assert!(map(&wrong).is_err() && Block::parse(&wrong).is_err());
    }
}

fn check_block(block: &Block, entries: &[Owned], probes: &[(Vec<u8>, u64)]) {
    let mut before: Option<Vec<u8>> = None;
    let in_order = block.each_in_order(|entry, is_version| {
        let key = [block.prefix(), entry.suffix].concat();
        assert_eq!(is_version, before.as_ref() == Some(&key));
        before = Some(key);
        Ok(())
    });
    in_order.unwrap();
    assert_eq!(block.count(), entries.len());
    for (index, expected) in entries.iter().enumerate() {
        assert_eq!(entry_of(block, index), *expected);
    }
    for (key, sequence) in own(entries).chain(probes.iter().cloned()) {
        let sought = SortKey::new(&key, SequenceNumber(sequence));
        let expected = entries.partition_point(|entry| place(entry) < sought);
        assert_eq!(block.lower_bound(sought.key, sought.sequence), expected, "{sought:?}");
        let found = block.get(sought.key, sought.sequence);
        let expected = entries.get(expected).filter(|entry| entry.0 == key);
        assert_eq!(found.map(|located| located.sequence.0), expected.map(|entry| entry.1));
        if let (Some(located), Some(expected)) = (found, expected) {
            assert_eq!(block.value_at(&located), expected.3);
            assert_eq!(block.pinnable_value_at(&located).pin(), expected.3[..]);
        }
    }
}

/// Every key at the numbers around its own.
fn own(entries: &[Owned]) -> impl Iterator<Item = (Vec<u8>, u64)> {
    entries.iter().flat_map(|entry| {
        [entry.1.saturating_sub(1), entry.1, entry.1 + 1]
            .map(|sequence| (entry.0.clone(), sequence))
    })
}

fn check_glances(raw: &[u8], entries: &[Owned], probes: &[(Vec<u8>, u64)]) {
    let raw = [raw, &[0xff; Block::BYTES_BEHIND]].concat();
    for (key, sequence) in own(entries).chain(probes.iter().cloned()) {
        let of_key: Vec<_> = entries.iter().filter(|entry| entry.0 == key).collect();
        let expected = of_key.iter().find(|entry| entry.1 <= sequence);
        match glance(&raw, entries.len() as u64, &key, SequenceNumber(sequence)).unwrap() {
            Glance::Found(located) => {
                let found = (located.sequence.0, located.kind, located.value(&raw));
                assert_eq!(Some(found), expected.map(|entry| (entry.1, entry.2, &entry.3[..])));
            }
            Glance::Newer => assert!(!of_key.is_empty() && expected.is_none(), "{key:?}"),
            Glance::Absent => assert!(of_key.is_empty(), "{key:?}"),
        }
    }
    assert!(glance(&raw, entries.len() as u64 + 1, b"", SequenceNumber::MAX).is_err());
}

fn put(key: &[u8], sequence: u64, value: &[u8]) -> Owned {
    (key.to_vec(), sequence, EntryKind::Put, value.to_vec())
}

#[test]
fn keys_at_the_edges_are_found() {
    check_against(&[put(b"", 1, b"")], &[(b"a".to_vec(), 1)]);
    let longest = vec![b'x'; KEY_BYTES_MAX];
    check_against(&[put(&longest, 7, &[3; 20_000])], &[(b"x".to_vec(), 1), (b"y".to_vec(), 1)]);
    // Keys that agree in their heads, and zeros that look like the filling of short keys.
    let mut same: Vec<Owned> = Vec::new();
    for tail in 0..40_u8 {
        same.push(put(&[b"prefix--eightchars".as_slice(), &[tail]].concat(), 5, &[tail; 200]));
    }
    same.push(put(b"q", SequenceNumber::MAX.0, b"newest"));
    same.push(put(b"q", 0, b"oldest"));
    same.push(put(b"q\0", 1, b""));
    same.push(put(b"q\0\0", 1, b""));
    check_against(&same, &[(b"prefix".to_vec(), 0), (b"r".to_vec(), 0), (b"".to_vec(), 0)]);
}

#[test]
fn offsets_take_two_bytes_up_to_64_kib_and_four_beyond() {
    let block = |last_bytes: usize| {
        let mut entries: Vec<Owned> = Vec::new();
        for number in 0..20_u8 {
            entries.push(put(&[b'k', number], 9, &[number; 3000]));
        }
        entries.push(put(b"last", 9, &vec![1; last_bytes]));
        // Lies as far behind as an entry can.
        entries.push(put(b"very last", 9, b""));
        entries
    };
    let beside = raw(&block(4000)).len() - 4000;
    for (bytes, offset_bytes) in [(65_000, 2), (1 << 16, 2), ((1 << 16) + 1, 4), (70_000, 4)] {
        let entries = block(bytes - beside);
        let raw = raw(&entries);
        assert_eq!(raw.len(), bytes);
        check_against(&entries, &[(b"lasting".to_vec(), 9), (b"l".to_vec(), 9)]);
        let arrays = Block::parse(&raw).unwrap().arrays.len() - raw.len() - PADDING_BYTES;
        assert_eq!(arrays, entries.len() * (4 + offset_bytes));
    }
}

#[test]
fn a_key_without_the_prefix_lies_before_or_after() {
    let entries = [put(b"user:10", 4, b"a"), put(b"user:19", 4, b"b")];
    let probes = [b"", &b"user:"[..], b"user:1", b"user;", b"a", b"z", b"user:0", b"user:2"];
    check_against(&entries, &probes.map(|key| (key.to_vec(), 9)));
    assert_eq!(Block::parse(&raw(&entries)).unwrap().prefix(), b"user:1");
}

#[test]
fn the_bytes_are_the_documented_ones() {
    let bytes = raw(&[
        put(b"ka", 9, b"v"),
        put(b"kb", 300, b""),
        (b"kb".to_vec(), 8, EntryKind::Delete, Vec::new()),
    ]);
    let trailer = (300_u16 - 8) << 3 | 1;
    let [low, high] = trailer.to_le_bytes();
    let expected = [
        &[3, 1, 8, 2, b'k'][..],
        &[1, 1, 1 << 3 | 1, 0, b'a', b'v'],
        &[1, 0, low, high, b'b'],
        &[1, 0, 3, 0, b'b'],
    ];
    assert_eq!(bytes, expected.concat());
}

#[test]
fn the_estimate_is_near_the_length() {
    let mut builder = BlockBuilder::default();
    for number in 0..50_u32 {
        let key = format!("customer/00000000/{number:08}");
        assert!(builder.raw_bytes_with(key.as_bytes(), 10) >= builder.raw_bytes_with(b"", 0));
        let sequence = SequenceNumber(u64::from(number));
        builder.add(Entry { key: key.as_bytes(), sequence, kind: EntryKind::Put, value: &[1; 10] });
    }
    let estimate = builder.raw_bytes_with(b"", 0);
    let mut out = Vec::new();
    builder.encode(BlockLayout::Entries, &mut out);
    assert!(estimate.abs_diff(out.len()) < 150, "{estimate} {}", out.len());
}

#[test]
fn disorder_is_found() {
    for entries in [
        [put(b"b", 1, b""), put(b"a", 1, b"")],
        [put(b"a", 1, b""), put(b"a", 1, b"")],
        [put(b"a", 1, b""), put(b"a", 2, b"")],
    ] {
        let block = Block::parse(&raw(&entries)).unwrap();
        assert!(block.each_in_order(|_, _| Ok(())).is_err());
        let _ = (block.get(b"a", SequenceNumber::MAX), block.get(b"b", SequenceNumber(1)));
    }
}

#[test]
fn blocks_that_break_an_invariant_are_refused() {
    let good = raw(&[put(b"a", 1, b"x"), put(b"b", 1, b"y")]);
    Block::parse(&good).unwrap();
    let damaged = |index: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[index] = byte;
        Block::parse(&bytes).is_err()
    };
    assert!(damaged(0, 0) && damaged(0, 1) && damaged(0, 3) && damaged(0, 200), "count");
    assert!(damaged(1, 100), "prefix");
    assert!(damaged(3, 0) && damaged(3, 9) && damaged(3, 255), "width");
    assert!(damaged(6, 0) && damaged(6, EntryKind::RangeDelete as u8), "kind");
    assert!(damaged(6, EntryKind::PutExpiring as u8), "expiry");
    for end in 0..good.len() {
        assert!(Block::parse(&good[..end]).is_err());
    }
    assert!(Block::parse(&[&good[..], &[0]].concat()).is_err());
    // A sequence number beyond 56 bits.
    let newest = raw(&[put(b"a", SequenceNumber::MAX.0, b"")]);
    let mut beyond = newest.clone();
    let trailer = beyond.len() - 1;
    assert_eq!(beyond[trailer], 1);
    Block::parse(&newest).unwrap();
    beyond[trailer] |= 1 << 3;
    assert!(Block::parse(&beyond).is_err());
}

/// A length that leads beyond the end, or around to an earlier entry.
#[test]
fn lengths_that_lead_out_of_the_block_are_refused() {
    for value_bytes in [1, 2, 128, u64::MAX, u64::MAX - 4, u64::MAX / 2] {
        // One entry, no prefix, sequence numbers from 0, one byte of trailer.
        let mut raw = vec![1, 0, 0, 1];
        put_varint(&mut raw, 1);
        put_varint(&mut raw, value_bytes);
        raw.extend([EntryKind::Put as u8, b'k', b'v']);
        assert_eq!(Block::parse(&raw).is_ok(), value_bytes == 1, "{value_bytes} bytes");
    }
}

#[test]
fn too_long_keys_are_refused() {
    let longest = raw(&[put(&vec![1; KEY_BYTES_MAX], 1, b"")]);
    Block::parse(&longest).unwrap();
    assert!(Block::parse(&raw(&[put(&vec![1; KEY_BYTES_MAX + 1], 1, b"")])).is_err());
}

fn entries() -> impl Strategy<Value = Vec<Owned>> {
    let key = prop_oneof![
        proptest::collection::vec(0_u8..3, 0..5),
        proptest::collection::vec(0_u8..2, 8..12),
        proptest::collection::vec(any::<u8>(), 0..20),
    ];
    let value = prop_oneof![
        proptest::collection::vec(any::<u8>(), 8..20),
        proptest::collection::vec(any::<u8>(), 120..300),
        proptest::collection::vec(any::<u8>(), 16_380..16_390),
    ];
    let sequence = prop_oneof![0_u64..10, 0..=SequenceNumber::MAX.0];
    let entry = (key, sequence, 0..KINDS.len(), value)
        .prop_map(|(key, sequence, kind, value)| (key, sequence, KINDS[kind], value));
    (proptest::collection::vec(entry, 1..40), proptest::collection::vec(0_u8..3, 0..12)).prop_map(
        |(mut entries, prefix)| {
            for entry in &mut entries {
                entry.0.splice(0..0, prefix.iter().copied());
            }
            entries.sort_by(|a, b| place(a).cmp(&place(b)));
            entries.dedup_by(|a, b| (&a.0, a.1) == (&b.0, b.1));
            entries
        },
    )
}

proptest! {
    #[test]
    fn a_block_answers_as_the_list_of_its_entries(
        entries in entries(),
        probes in proptest::collection::vec(
            (proptest::collection::vec(0_u8..3, 0..16), 0_u64..12), 0..20,
        ),
    ) {
        check_against(&entries, &probes);
    }

    #[test]
    fn damaged_blocks_are_refused_or_stay_in_bounds(
        entries in entries(),
        damage in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = raw(&entries);
        for (at, byte) in damage {
            let at = usize::from(at) % bytes.len().min(300);
            bytes[at] = byte;
        }
        let padded = [&bytes[..], &[0xff; Block::BYTES_BEHIND]].concat();
        for (key, sequence) in own(&entries) {
            let count = entries.len() as u64;
            if let Ok(Glance::Found(located)) =
                glance(&padded, count, &key, SequenceNumber(sequence))
            {
                let _ = located.value(&padded);
            }
        }
        let (copied, mapped) = (Block::parse(&bytes), map(&bytes));
        prop_assert_eq!(copied.is_ok(), mapped.is_ok());
        for block in copied.into_iter().chain(mapped) {
            for index in 0..block.count() {
                let (key, sequence, ..) = entry_of(&block, index);
                let _ = block.get(&key, SequenceNumber(sequence));
            }
            let _ = block.each_in_order(|_, _| Ok(()));
        }
    }
}

#[test]
fn block_of_one_entry_is_what_comes_before_its_value_and_the_value() {
    for kind in KINDS {
        for (key, sequence, length) in
            [(&b""[..], 0, 0), (b"key", 1 << 40, 127), (b"k", SequenceNumber::MAX.0, 70_000)]
        {
            let value = vec![7; length];
            let mut out = vec![1];
            let sequence = SequenceNumber(sequence);
            let entry = Entry { key, sequence, kind, value: &value };
            BlockBuilder::encode_around_value(&entry, BlockLayout::Entries, &mut out);
            out.extend_from_slice(&value);
            assert!(out == raw(&[(key.to_vec(), sequence.0, kind, value)]), "{kind:?} {length}");
        }
    }
}
