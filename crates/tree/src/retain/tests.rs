//! What is kept against the definition of the operations: no reader sees a difference.

use crate::{
    merge_operator::{MergeOperator, RESULT_BYTES_MAX},
    read::merge::{
        Merge, MergeSource,
        fixture::{Owned, VecCursor, sort},
    },
    read::visible::{
        bounds::Bounds,
        iter::VisibleIter,
        model::{Append, History, KEYS, ModelOperation, NOW_MS, key, merge, operations, reader},
        resolve::Resolver,
    },
    retain::{
        entries::{CompactionIter, OPERAND_BYTES_MAX, Rules},
        range::retain_tombstones,
        stripes::{OlderEntries, Stripes},
    },
};
use proptest::{collection::vec, prelude::*, sample::Index};
use siltdb_base::{
    cursor::EntryCursor,
    error::{ErrorKind, Result},
    id::{FileNumber, SequenceNumber},
    key::{BlobPointer, EntryKind, SortKey},
    tombstone::{Fragments, RangeTombstone},
};
use std::{collections::BTreeMap, sync::Arc};

/// How much the closure knows of deeper data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knowledge {
    Exact,
    /// Says "something" always, as key ranges of tables may.
    None,
}

/// A flush or compaction of `inputs`, with `deeper` data below the output.
struct Job<'a> {
    inputs: &'a [History],
    deeper: &'a [History],
    knowledge: Knowledge,
    stripes: Stripes,
    operator: Option<Arc<dyn MergeOperator>>,
    block: usize,
}

impl Job<'_> {
    fn run(&self) -> History {
        let deeper = History::union(self.deeper);
        let says = |is_something: bool| match self.knowledge {
            Knowledge::Exact if !is_something => OlderEntries::None,
            _ => OlderEntries::Possible,
        };
        let all = History::union(self.inputs);
        let rules = Rules {
            stripes: self.stripes.clone(),
            tombstones: all.fragments(),
            now_ms: NOW_MS,
            operator: self.operator.clone(),
            filter: None,
        };
        let mut asked: Option<Vec<u8>> = None;
        let mut cursor = merge(self.inputs, self.block);
        cursor.seek_to_first().unwrap();
        let mut retain = CompactionIter::new(cursor, rules, |key: &[u8]| {
            assert!(asked.as_deref().is_none_or(|asked| asked <= key));
            asked = Some(key.to_vec());
            says(deeper.entries.iter().any(|entry| entry.key == key))
        });
        let mut entries: Vec<Owned> = Vec::new();
        while let Some(entry) = retain.next().unwrap() {
            if let Some(last) = entries.last() {
                assert!(last.place() < SortKey::new(entry.key, entry.sequence));
            }
            entries.push(Owned::from(entry));
        }
        assert!(retain.next().unwrap().is_none());
        let tombstones = retain_tombstones(&all.fragments(), &self.stripes, |fragment| {
            says(deeper.entries.iter().any(|entry| {
                fragment.start.as_bytes() <= &entry.key[..]
                    && &entry.key[..] < fragment.end.as_bytes()
            }))
        });
        History { entries, tombstones }
    }
}

/// Makes every third key a key of single deletes, and their use lawful.
fn lawful(operations: &[(usize, ModelOperation)]) -> Vec<(usize, ModelOperation)> {
    let mut puts: BTreeMap<u8, u32> = BTreeMap::new();
    let mut lawful = Vec::new();
    for (source, operation) in operations {
        let mut add = |operation| lawful.push((*source, operation));
        let mut put = |key: u8, operation: ModelOperation| {
            let count = puts.entry(key).or_default();
            *count += 1;
            if key.is_multiple_of(3) && *count > 1 {
                *count = 0;
                add(ModelOperation::SingleDelete(key));
            } else {
                add(operation);
            }
        };
        match *operation {
            ModelOperation::PutRun(first, run) => {
                (first..(first + run).min(KEYS)).for_each(|key| put(key, ModelOperation::Put(key)));
            }
            ModelOperation::PutExpiring(key, _) if key.is_multiple_of(3) => {
                put(key, ModelOperation::Put(key))
            }
            ModelOperation::Blob(key, _) if key.is_multiple_of(3) => {
                put(key, ModelOperation::Blob(key, None))
            }
            ModelOperation::Put(key)
            | ModelOperation::PutExpiring(key, _)
            | ModelOperation::Blob(key, _) => {
                put(key, operation.clone());
            }
            ModelOperation::Delete(key)
            | ModelOperation::Merge(key)
            | ModelOperation::SingleDelete(key) => {
                if key.is_multiple_of(3) {
                    puts.insert(key, 0);
                    add(ModelOperation::SingleDelete(key));
                } else if matches!(operation, ModelOperation::Merge(_)) {
                    add(operation.clone());
                } else {
                    add(ModelOperation::Delete(key));
                }
            }
            ModelOperation::DeleteRange(from, to) => {
                puts.iter_mut().filter(|(key, _)| (from..to).contains(key)).for_each(
                    |(_, count)| {
                        *count = 0;
                    },
                );
                add(operation.clone());
            }
        }
    }
    lawful
}

/// Histories of `cuts + 1` parts of the operations, the oldest first, each of `sources` sources.
fn parts(
    operations: &[(usize, ModelOperation)],
    cuts: &[Index],
    sources: usize,
) -> Vec<Vec<History>> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(operations.len() + 1)).collect();
    cuts.extend([0, operations.len()]);
    cuts.sort_unstable();
    let mut sequence = 1;
    let part = |cut: &[usize]| {
        let mut histories = vec![History::default(); sources];
        for (source, operation) in &operations[cut[0]..cut[1]] {
            histories[source % sources].apply(operation, &mut sequence);
        }
        histories
    };
    cuts.windows(2).map(part).collect()
}

fn sequences(numbers: &[u64]) -> Vec<SequenceNumber> {
    numbers.iter().copied().map(SequenceNumber).collect()
}

fn operator(is_there: u8) -> Option<Arc<dyn MergeOperator>> {
    (is_there > 0).then(|| Arc::new(Append) as Arc<dyn MergeOperator>)
}

fn knowledge() -> impl Strategy<Value = Knowledge> {
    prop_oneof![3 => Just(Knowledge::Exact), 1 => Just(Knowledge::None)]
}

/// No reader in `snapshots`, or at or after `present`, sees a difference.
fn assert_unchanged(before: &History, after: &History, snapshots: &[u64], present: u64) {
    let points = snapshots.iter().copied().filter(|&snapshot| snapshot < present);
    for snapshot in points.chain(present..=before.sequence_max().max(present)) {
        assert_eq!(after.seen_at(snapshot), before.seen_at(snapshot), "at {snapshot}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn no_listed_reader_sees_what_a_job_did(
        operations in operations(),
        cuts in vec(any::<Index>(), 2),
        sources in 1_usize..4,
        block in 0_usize..5,
        snapshots in vec(0_u64..90, 0..6),
        present in 0_u64..120,
        knowledge in knowledge(),
        with_operator in 0_u8..4,
    ) {
        let parts = parts(&lawful(&operations), &cuts, sources);
        let [deeper, inputs, newer] = &parts[..] else { unreachable!("two cuts") };
        let stripes = Stripes::new(&sequences(&snapshots), SequenceNumber(present));
        let operator = operator(with_operator);
        let output = Job { inputs, deeper, knowledge, stripes, operator, block }.run();
        let others = History::union(deeper.iter().chain(newer));
        let before = History::union([&others, &History::union(inputs)]);
        let after = History::union([&others, &output]);
        assert_unchanged(&before, &after, &snapshots, present);
        // The real reader agrees.
        let at = before.sequence_max().max(present);
        let all = [others, output];
        let tombstones = all.iter().map(History::fragments).collect();
        let merged = merge(&all, block);
        let mut iter = VisibleIter::new(merged, tombstones, reader(at), Bounds::default());
        iter.seek_to_first().unwrap();
        for (key, value) in before.seen_at(at) {
            prop_assert_eq!(iter.key(), Some(&key[..]));
            prop_assert_eq!(iter.value(), Some(&value[..]));
            iter.next().unwrap();
        }
        prop_assert_eq!(iter.key(), None);
    }

    #[test]
    fn no_listed_reader_sees_what_many_jobs_did(
        operations in operations(),
        cuts in vec(any::<Index>(), 5),
        snapshots in vec(0_u64..90, 0..3),
        jobs in vec((0_u8..3, any::<Index>(), knowledge()), 5..25),
        block in 0_usize..4,
    ) {
        let mut waiting = parts(&lawful(&operations), &cuts, 2).into_iter();
        let mut before = History::default();
        // The deepest first.
        let mut levels: Vec<History> = Vec::new();
        for (what, index, knowledge) in jobs {
            let (inputs, output) = if what == 0 || levels.len() < 2 {
                let Some(flushed) = waiting.next() else { continue };
                before = History::union(flushed.iter().chain([&before]));
                (flushed, levels.len())
            } else {
                let output = index.index(levels.len() - 1);
                (levels.drain(output..output + 2).collect(), output)
            };
            let present = before.sequence_max();
            let snapshots: Vec<_> = snapshots.iter().copied().filter(|&it| it < present).collect();
            let job = Job {
                inputs: &inputs,
                deeper: &levels[..output],
                knowledge,
                stripes: Stripes::new(&sequences(&snapshots), SequenceNumber(present)),
                operator: operator(1),
                block,
            };
            let result = job.run();
            levels.insert(output, result);
            assert_unchanged(&before, &History::union(&levels), &snapshots, present);
        }
    }

    #[test]
    fn unlawful_single_deletes_bring_nothing_back_that_is_at_hand(
        operations in operations(),
        snapshots in vec(0_u64..90, 0..4),
        block in 0_usize..4,
    ) {
        let inputs = History::distribute(&operations, 2);
        let before = History::union(&inputs);
        let present = before.sequence_max();
        let stripes = Stripes::new(&sequences(&snapshots), SequenceNumber(present));
        let (knowledge, operator) = (Knowledge::Exact, operator(1));
        let job = Job { inputs: &inputs, deeper: &[], knowledge, stripes, operator, block };
        assert_unchanged(&before, &job.run(), &snapshots, present);
    }
}

/// What is kept of one source with `operations`, nothing or something being deeper.
fn kept(operations: &[ModelOperation], snapshots: &[u64], knowledge: Knowledge) -> History {
    let mut history = History::default();
    let mut sequence = 1;
    operations.iter().for_each(|operation| history.apply(operation, &mut sequence));
    let stripes = Stripes::new(&sequences(snapshots), SequenceNumber(sequence - 1));
    let (inputs, operator) = ([history], operator(1));
    Job { inputs: &inputs, deeper: &[], knowledge, stripes, operator, block: 4 }.run()
}

/// The entries kept: key number, sequence, kind.
fn shape(history: &History) -> Vec<(u8, u64, EntryKind)> {
    let number = |entry: &Owned| (0..KEYS).find(|&number| key(number) == entry.key).unwrap();
    history.entries.iter().map(|entry| (number(entry), entry.sequence.0, entry.kind)).collect()
}

use Knowledge::{Exact, None as Unknown};
use ModelOperation::{Blob, Delete, DeleteRange, Merge as Operand, Put, PutExpiring, SingleDelete};

#[test]
fn only_the_newest_version_of_a_stripe_is_kept() {
    let puts = vec![Put(1); 100];
    assert_eq!(shape(&kept(&puts, &[], Unknown)), [(1, 100, EntryKind::Put)]);
    let expected = [100, 51, 50, 7].map(|sequence| (1, sequence, EntryKind::Put));
    assert_eq!(shape(&kept(&puts, &[7, 50, 51], Unknown)), expected);
}

#[test]
fn deletion_goes_when_it_hides_nothing() {
    let operations = [Put(1), Delete(1)];
    assert_eq!(shape(&kept(&operations, &[], Exact)), []);
    assert_eq!(shape(&kept(&operations, &[], Unknown)), [(1, 2, EntryKind::Delete)]);
    let both = [(1, 2, EntryKind::Delete), (1, 1, EntryKind::Put)];
    assert_eq!(shape(&kept(&operations, &[1], Exact)), both);
    let twice = [Delete(1), Delete(1)];
    assert_eq!(shape(&kept(&twice, &[1], Unknown)), [(1, 1, EntryKind::Delete)]);
    assert_eq!(shape(&kept(&twice, &[1], Exact)), []);
}

#[test]
fn single_delete_and_its_put_vanish_together() {
    let operations = [Put(1), SingleDelete(1)];
    assert_eq!(shape(&kept(&operations, &[], Unknown)), []);
    let both = [(1, 2, EntryKind::SingleDelete), (1, 1, EntryKind::Put)];
    assert_eq!(shape(&kept(&operations, &[1], Unknown)), both);
    let alone = [SingleDelete(1)];
    assert_eq!(shape(&kept(&alone, &[], Unknown)), [(1, 1, EntryKind::SingleDelete)]);
    assert_eq!(shape(&kept(&alone, &[], Exact)), []);
    let unlawful = [Put(1), Put(1), SingleDelete(1)];
    assert_eq!(shape(&kept(&unlawful, &[], Unknown)), [(1, 3, EntryKind::Delete)]);
    let over_deletion = [Delete(1), SingleDelete(1)];
    assert_eq!(shape(&kept(&over_deletion, &[], Unknown)), [(1, 2, EntryKind::Delete)]);
}

#[test]
fn older_of_two_deletions_says_it_for_both() {
    // Sequence numbers 1 and 2 in two stripes; only a pair of single deletes stays bound to a put.
    for (operations, kind) in [
        ([Delete(1), Delete(1)], EntryKind::Delete),
        ([SingleDelete(1), Delete(1)], EntryKind::Delete),
        ([Delete(1), SingleDelete(1)], EntryKind::Delete),
        ([SingleDelete(1), SingleDelete(1)], EntryKind::SingleDelete),
    ] {
        assert_eq!(shape(&kept(&operations, &[1], Unknown)), [(1, 1, kind)]);
    }
    let in_one_stripe = [SingleDelete(1), SingleDelete(1)];
    assert_eq!(shape(&kept(&in_one_stripe, &[], Unknown)), [(1, 1, EntryKind::SingleDelete)]);
    let below_a_put = [SingleDelete(1), Put(1)];
    let both = [(1, 2, EntryKind::Put), (1, 1, EntryKind::SingleDelete)];
    assert_eq!(shape(&kept(&below_a_put, &[], Unknown)), both);
    assert_eq!(shape(&kept(&below_a_put, &[], Exact)), both[..1]);
}

#[test]
fn expired_value_becomes_a_deletion() {
    for expired in [PutExpiring(1, NOW_MS), Blob(1, Some(NOW_MS))] {
        let operations = [Put(1), expired];
        let after = kept(&operations, &[], Unknown);
        assert_eq!(shape(&after), [(1, 2, EntryKind::Delete)]);
        assert_eq!(after.entries[0].value, b"");
        assert_eq!(shape(&kept(&operations, &[], Exact)), []);
    }
    let alive = [PutExpiring(1, NOW_MS + 1)];
    assert_eq!(shape(&kept(&alive, &[], Exact)), [(1, 1, EntryKind::PutExpiring)]);
}

#[test]
fn operands_are_folded_where_their_base_is_known() {
    let on_put = [Put(1), Operand(1), Operand(1)];
    let after = kept(&on_put, &[], Unknown);
    assert_eq!(shape(&after), [(1, 3, EntryKind::Put)]);
    assert_eq!(after.entries[0].value, b"v1,v2,v3");
    assert_eq!(shape(&kept(&on_put[1..], &[], Exact)), [(1, 2, EntryKind::Put)]);
    // "v1" and "v2" have an even number of bytes together: the operator can join them.
    let after = kept(&on_put[1..], &[], Unknown);
    assert_eq!(shape(&after), [(1, 2, EntryKind::Merge)]);
    assert_eq!(after.entries[0].value, b"v1,v2");
    let across = [(1, 3, EntryKind::Merge), (1, 2, EntryKind::Put)];
    assert_eq!(shape(&kept(&on_put, &[2], Unknown)), across);
    let on_expiring = [PutExpiring(1, NOW_MS + 1), Operand(1)];
    let both = [(1, 2, EntryKind::Merge), (1, 1, EntryKind::PutExpiring)];
    assert_eq!(shape(&kept(&on_expiring, &[], Exact)), both);
}

#[test]
fn range_tombstone_goes_when_it_hides_nothing() {
    let operations = [Put(1), Put(12), DeleteRange(0, 10)];
    let after = kept(&operations, &[], Exact);
    assert_eq!(shape(&after), [(12, 2, EntryKind::Put)]);
    assert_eq!(after.tombstones, []);
    assert_eq!(kept(&operations, &[], Unknown).tombstones.len(), 1);
    let after = kept(&operations, &[1], Exact);
    assert_eq!((shape(&after).len(), after.tombstones.len()), (2, 1));
}

#[test]
fn range_tombstones_are_kept_once_per_stripe_and_joined_again() {
    let tombstone = |start: u8, end: u8, sequence: u64| RangeTombstone {
        start: vec![start].into(),
        end: vec![end].into(),
        sequence: SequenceNumber(sequence),
    };
    let all = [tombstone(0, 9, 5), tombstone(2, 4, 3), tombstone(3, 6, 9), tombstone(1, 3, 20)];
    let fragments = Fragments::new(&all);
    let stripes = Stripes::new(&sequences(&[6]), SequenceNumber(10));
    let after = retain_tombstones(&fragments, &stripes, |_| OlderEntries::Possible);
    let mut expected = vec![all[0].clone(), all[2].clone(), all[3].clone()];
    expected.sort();
    let mut found = after.clone();
    found.sort();
    assert_eq!(found, expected);
    let after = retain_tombstones(&fragments, &stripes, |_| OlderEntries::None);
    let mut found = after.clone();
    found.sort();
    assert_eq!(found, expected[1..]);
}

#[test]
fn pieces_of_a_range_tombstone_with_a_gap_between_stay_apart() {
    let piece = |start: u8, end: u8| RangeTombstone {
        start: vec![start].into(),
        end: vec![end].into(),
        sequence: SequenceNumber(4),
    };
    let pieces = [piece(1, 3), piece(5, 7), piece(7, 9)];
    let stripes = Stripes::new(&[], SequenceNumber(10));
    let fragments = Fragments::new(&pieces);
    let after = retain_tombstones(&fragments, &stripes, |_| OlderEntries::Possible);
    assert_eq!(after, [piece(1, 3), piece(5, 9)]);
}

#[test]
fn operands_the_operator_refuses_are_kept_as_they_are() {
    let entry = |sequence, kind, value: &[u8]| Owned::new(b"a", sequence, kind, value);
    let entries = vec![
        entry(1, EntryKind::Put, b"base"),
        entry(2, EntryKind::Merge, b"!"),
        entry(3, EntryKind::Merge, b"x"),
    ];
    let inputs = [History { entries: entries.clone(), tombstones: Vec::new() }];
    let job = Job {
        inputs: &inputs,
        deeper: &[],
        knowledge: Exact,
        stripes: Stripes::new(&[], SequenceNumber(3)),
        operator: operator(1),
        block: 0,
    };
    let after = job.run().entries;
    assert_eq!(after.last(), entries.first());
    let operands = after[..after.len() - 1].iter().rev().map(|entry| entry.value.as_slice());
    assert_eq!(operands.collect::<Vec<_>>().join(&b","[..]), b"!,x");
}

#[test]
fn operands_beyond_the_bound_are_kept_and_still_mean_the_same() {
    for length in [OPERAND_BYTES_MAX / 2, OPERAND_BYTES_MAX, OPERAND_BYTES_MAX + 1] {
        let entry =
            |sequence, kind, letter| Owned::new(b"a", sequence, kind, &vec![letter; length]);
        let mut entries = vec![
            Owned::new(b"a", 1, EntryKind::Put, b"base"),
            entry(2, EntryKind::Merge, b'x'),
            entry(3, EntryKind::Merge, b'y'),
            Owned::new(b"a", 4, EntryKind::Merge, b"z"),
        ];
        sort(&mut entries);
        let inputs = [History { entries, tombstones: Vec::new() }];
        let job = Job {
            inputs: &inputs,
            deeper: &[],
            knowledge: Unknown,
            stripes: Stripes::new(&[], SequenceNumber(4)),
            operator: operator(1),
            block: 0,
        };
        let after = job.run();
        assert!(after.entries.len() > 1, "nothing was kept early");
        assert!(after.seen_at(4) == inputs[0].seen_at(4), "the value changed");
    }
}

/// Adds the first eight bytes of each as numbers.
#[derive(Debug)]
struct Sum;

fn sum(lists: &[&[u8]]) -> Vec<u8> {
    let numbers = lists.iter().map(|bytes| u64::from_le_bytes(*bytes.first_chunk().unwrap()));
    numbers.sum::<u64>().to_le_bytes().to_vec()
}

impl MergeOperator for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        Ok(sum(&[base.as_slice(), operands].concat()))
    }

    fn partial(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(sum(&[older, newer]))
    }
}

#[test]
fn operands_that_combine_to_little_are_folded_however_many_there_are() {
    let count = 3 * OPERAND_BYTES_MAX as u64 / 24;
    let one = 1_u64.to_le_bytes();
    let kind = |sequence| if sequence == 1 { EntryKind::Put } else { EntryKind::Merge };
    let entries =
        (1..=count).rev().map(|sequence| Owned::new(b"a", sequence, kind(sequence), &one));
    let job = Job {
        inputs: &[History { entries: entries.collect(), tombstones: Vec::new() }],
        deeper: &[],
        knowledge: Unknown,
        stripes: Stripes::new(&[], SequenceNumber(count)),
        operator: Some(Arc::new(Sum)),
        block: 0,
    };
    let after = job.run().entries;
    assert_eq!(after, [Owned::new(b"a", count, EntryKind::Put, &count.to_le_bytes())]);
}

/// Makes values and operands of the length that an operand says.
#[derive(Debug)]
struct Inflate;

impl MergeOperator for Inflate {
    fn name(&self) -> &str {
        "inflate"
    }

    fn full(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        let length = std::str::from_utf8(operands[0]).unwrap().parse().unwrap();
        Ok(vec![b'x'; length])
    }

    fn partial(&self, key: &[u8], older: &[u8], _: &[u8]) -> Option<Vec<u8>> {
        self.full(key, None, &[older]).ok()
    }
}

#[test]
fn what_an_operator_makes_too_long_to_be_stored_is_not_made() {
    for (length, is_made) in [(RESULT_BYTES_MAX, true), (RESULT_BYTES_MAX + 1, false)] {
        let operand = length.to_string();
        let entry = |sequence, kind| Owned::new(b"a", sequence, kind, operand.as_bytes());
        let operands = [entry(2, EntryKind::Merge), entry(3, EntryKind::Merge)];
        for (oldest, kind) in [
            // Folded onto a value, and combined above one that is not at hand.
            (EntryKind::Put, EntryKind::Put),
            (EntryKind::BlobPointer, EntryKind::Merge),
        ] {
            let mut payload = Vec::new();
            let pointer = BlobPointer {
                file: FileNumber(1),
                offset: 1,
                length: 9,
                stored_bytes: 5,
                codec: 1,
                checksum: 7,
                expiry_ms: None,
            };
            pointer.encode(&mut payload);
            let oldest = Owned::new(b"a", 1, oldest, &payload);
            let mut entries = [&[oldest], &operands[..]].concat();
            sort(&mut entries);
            let job = Job {
                inputs: &[History { entries: entries.clone(), tombstones: Vec::new() }],
                deeper: &[],
                knowledge: Exact,
                stripes: Stripes::new(&[], SequenceNumber(3)),
                operator: Some(Arc::new(Inflate)),
                block: 0,
            };
            let after = job.run().entries;
            if is_made {
                assert_eq!((after[0].kind, after[0].value.len()), (kind, length));
            } else {
                assert!(after == entries, "not kept as they were");
            }
        }
        let resolver = Resolver { operator: Some(&Inflate), ..Resolver::default() };
        let read = resolver.combine(b"a", None, &[operand.as_bytes()]);
        match is_made {
            true => assert_eq!(read.unwrap().len(), length),
            false => assert_eq!(read.unwrap_err().kind(), ErrorKind::InvalidArgument),
        }
    }
}

#[test]
fn failed_source_fails_the_output_for_good() {
    let entry = |number: u8| Owned::new(&[number], 1, EntryKind::Delete, b"");
    let entries: Vec<_> = (0..40).map(entry).collect();
    for block in [0, 4] {
        let mut cursor = VecCursor::new(entries.clone(), block);
        cursor.seek_to_first().unwrap();
        cursor.fail_in(10);
        let merge = Merge::new(vec![MergeSource { cursor, sequence_max: SequenceNumber(1) }]);
        let rules = Rules {
            stripes: Stripes::new(&[], SequenceNumber(1)),
            tombstones: Arc::default(),
            now_ms: NOW_MS,
            operator: None,
            filter: None,
        };
        let mut merge = merge;
        merge.seek_to_first().unwrap();
        let mut retain = CompactionIter::new(merge, rules, |_: &[u8]| OlderEntries::Possible);
        let mut written = 0;
        while retain.next().is_ok_and(|entry| entry.is_some()) {
            written += 1;
        }
        assert!(written < 10);
        assert!(retain.next().is_err() && retain.next().is_err());
    }
}

#[test]
fn what_is_newer_than_the_floor_is_in_no_stripe() {
    let stripes = Stripes::new(&sequences(&[3, 7]), SequenceNumber(9));
    assert_eq!(stripes.clone().with_floor(None), stripes);
    let floored = stripes.clone().with_floor(Some(SequenceNumber(5)));
    let index = |sequence| floored.find(SequenceNumber(sequence)).map(|stripe| stripe.index);
    let expected = [Some(0), Some(0), Some(0), Some(0), Some(1), Some(1), None, None, None, None];
    assert_eq!((0..10).map(index).collect::<Vec<_>>(), expected);
    assert_eq!(floored.snapshots(), sequences(&[3]));
    assert_eq!(floored.floor(), Some(SequenceNumber(5)));
    let separate = |older, newer| floored.separate(SequenceNumber(older), SequenceNumber(newer));
    assert!(!separate(4, 5) && separate(5, 6) && separate(6, 7) && separate(6, 6));
    // Nothing is published from there on yet.
    let above = stripes.clone().with_floor(Some(SequenceNumber(20)));
    assert_eq!(above.snapshots(), stripes.snapshots());
    assert_eq!(above.find(SequenceNumber(9)), stripes.find(SequenceNumber(9)));
    assert_eq!(above.find(SequenceNumber(10)), None);
}

#[test]
fn everything_above_the_floor_is_kept_as_it_was_written() {
    let operations = [
        Put(1),
        Put(1),
        Operand(2),
        Put(1),
        Operand(2),
        Put(3),
        SingleDelete(3),
        PutExpiring(4, NOW_MS),
        Delete(4),
        DeleteRange(0, 10),
    ];
    let run = |floor: Option<u64>| {
        let mut history = History::default();
        let mut sequence = 1;
        operations.iter().for_each(|operation| history.apply(operation, &mut sequence));
        let stripes = Stripes::new(&[], SequenceNumber(sequence - 1));
        let stripes = stripes.with_floor(floor.map(SequenceNumber));
        let (inputs, operator) = ([history], operator(1));
        let job =
            Job { inputs: &inputs, deeper: &[], knowledge: Exact, stripes, operator, block: 4 };
        let after = job.run();
        (inputs[0].clone(), after)
    };
    let (before, after) = run(None);
    assert_eq!((before.entries.len(), after.entries.len(), after.tombstones.len()), (9, 0, 0));
    for floor in 0..10 {
        let (before, after) = run(Some(floor));
        let newer = |history: &History| -> Vec<Owned> {
            let newer = history.entries.iter().filter(|entry| entry.sequence.0 > floor);
            let mut newer: Vec<_> = newer.cloned().collect();
            sort(&mut newer);
            newer
        };
        assert_eq!(newer(&after), newer(&before), "floor {floor}");
        assert_eq!(after.tombstones, before.tombstones, "floor {floor}");
        assert_unchanged(&before, &after, &[], floor);
    }
}

#[test]
fn stripe_holds_what_its_snapshot_is_the_first_to_see() {
    let stripes = Stripes::new(&sequences(&[7, 3, 7]), SequenceNumber(9));
    let index = |sequence| stripes.find(SequenceNumber(sequence)).map(|stripe| stripe.index);
    let expected = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2].map(Some);
    assert_eq!((0..10).map(index).collect::<Vec<_>>(), expected);
    assert_eq!(index(10), None);
}
