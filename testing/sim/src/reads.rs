//! All ways of reading, each compared with the model at once.
//!
//! It never writes; the caller gives the expected state.

use crate::{
    cursor_moves::compare_cursor,
    draw::Draw,
    keys::KeyShape,
    model::{FamilyIndex, Model, Moment, Shared},
    truth::{Pairs, Truth, compare_pairs},
    violation::{Checked, Violation, must, show, show_option},
};
use siltdb::{Expiry, Family, Iter, Read, ReadOptions};
use std::{
    collections::VecDeque,
    ops::{Bound, ControlFlow},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

/// Compares all of a family: in both directions, and by up to `lookups_max` lookups of keys that it
/// ever had. Returns the number of reads compared.
///
/// # Errors
/// If anything differs.
pub fn compare_all(
    source: &impl Read,
    truth: Truth<'_>,
    draw: &mut Draw,
    lookups_max: u64,
) -> Checked<u64> {
    let compare = |draw: &mut Draw| -> Checked<u64> {
        let expected = truth.pairs();
        let forward = must(source.iter(), "iter")?;
        compare_walk(forward, expected.iter(), "forward scan")?;
        let backward = must(source.iter(), "iter")?.rev();
        compare_walk(backward, expected.iter().rev(), "backward scan")?;
        let keys = truth.model.keys(truth.family).count() as u64;
        let mut reads = 2 * expected.len() as u64;
        for key in truth.model.keys(truth.family) {
            if !draw.chance(lookups_max, keys) {
                continue;
            }
            compare_get(source, truth, key)?;
            let absent = [&key[..], b"\0?"].concat();
            if truth.value(&absent).is_none() && absent.len() < 1000 {
                compare_get(source, truth, &absent)?;
            }
            reads += 2;
        }
        Ok(reads)
    };
    compare(draw).map_err(|violation| truth.blame(violation))
}

/// Compares a whole family, as [`compare_all`] does, and the name of its key order.
///
/// # Errors
/// If anything differs.
pub fn compare_family(
    family: &Family,
    truth: Truth<'_>,
    draw: &mut Draw,
    lookups_max: u64,
) -> Checked<u64> {
    let expected = truth.model.key_order(truth.family);
    let found = family.key_order();
    if found.name() != expected.unwrap_or("bytewise") {
        let message = format!("the key order is {found:?}, expected {expected:?}");
        return Err(truth.blame(Violation::new(message)));
    }
    compare_all(family, truth, draw, lookups_max)
}

/// Compares what an iterator yields.
///
/// # Errors
/// If anything differs.
pub fn compare_walk<'a>(
    found: impl Iterator<Item = siltdb::Result<(siltdb::Slice, siltdb::Slice)>>,
    expected: impl Iterator<Item = &'a (Shared, Shared)>,
    what: &str,
) -> Checked<()> {
    let mut pairs = Vec::new();
    for pair in found {
        let (key, value) = must(pair, what)?;
        pairs.push((Shared::from(&*key), Shared::from(&*value)));
    }
    let expected: Pairs = expected.cloned().collect();
    compare_pairs(&pairs, &expected).map_err(|violation| violation.during(what))
}

/// Compares the value of a key, and when it expires.
///
/// # Errors
/// If one of them differs.
pub fn compare_get(source: &impl Read, truth: Truth<'_>, key: &[u8]) -> Checked<()> {
    let found = must(source.get(key), "get")?;
    compare_value(found.as_deref(), truth, key, "get")?;
    let found = must(source.expires_at(key), "expires_at")?;
    let at = |ms| Expiry::At(UNIX_EPOCH + Duration::from_millis(ms));
    let expiry_ms = truth.model.expiry_ms(truth.family, key, truth.at);
    let expected = truth.value(key).map(|_| expiry_ms.map_or(Expiry::Never, at));
    if found == expected {
        return Ok(());
    }
    let key = show(key);
    Err(Violation::new(format!("\"{key}\" expires at {found:?}, expected {expected:?}")))
}

fn compare_value(found: Option<&[u8]>, truth: Truth<'_>, key: &[u8], what: &str) -> Checked<()> {
    let expected = truth.value(key);
    if found == expected.as_deref() {
        return Ok(());
    }
    Err(Violation::new(format!(
        "{what} of \"{}\" gave {}, expected {}",
        show(key),
        show_option(found),
        show_option(expected.as_deref()),
    )))
}

/// Reads a little in ways that `draw` chooses. Returns the number of reads compared.
///
/// # Errors
/// If anything differs.
pub fn compare_some(
    source: &impl Read,
    truth: Truth<'_>,
    shape: KeyShape,
    key_count: u64,
    draw: &mut Draw,
) -> Checked<u64> {
    let mut key = |draw: &mut Draw| shape.key(draw.below(key_count + 1));
    let result = match draw.below(9) {
        0 => {
            // Twice, because the second read of a key may use what the first one cached.
            let keys: Vec<Shared> = (0..10).map(|_| key(draw)).collect();
            let mut twice = keys.iter().chain(&keys);
            twice.try_for_each(|key| compare_get(source, truth, key)).map(|()| 20)
        }
        1 => {
            let keys: Vec<Shared> = (0..draw.below(20)).map(|_| key(draw)).collect();
            compare_get_many(source, truth, &keys)
        }
        2 => {
            let range = (bound(key(draw), draw), bound(key(draw), draw));
            compare_range(source, truth, range, draw)
        }
        3 => compare_prefix(source, truth, &key(draw), draw),
        4 => {
            let keys: Vec<Shared> = (0..10).map(|_| key(draw)).collect();
            keys.iter().try_for_each(|key| compare_look(source, truth, key)).map(|()| 20)
        }
        5 => compare_ends(source, truth),
        6 => {
            let keys: Vec<Shared> = (0..5).map(|_| key(draw)).collect();
            compare_neighbours(source, truth, &keys)
        }
        7 => {
            let range = (bound(key(draw), draw), bound(key(draw), draw));
            compare_keys(source, truth, range)
        }
        _ => {
            let steps = draw.within(5..=40);
            compare_cursor(source, truth, steps, draw, &mut key)
        }
    };
    result.map_err(|violation| truth.blame(violation))
}

/// Reads a value in place, and its existence.
fn compare_look(source: &impl Read, truth: Truth<'_>, key: &[u8]) -> Checked<()> {
    let found = must(source.read(key, <[u8]>::to_vec), "read")?;
    compare_value(found.as_deref(), truth, key, "read")?;
    let (found, expected) = (must(source.contains(key), "contains")?, truth.value(key).is_some());
    if found == expected {
        return Ok(());
    }
    Err(Violation::new(format!("contains \"{}\": {found}, expected {expected}", show(key))))
}

/// Compares the first and the last pair.
fn compare_ends(source: &impl Read, truth: Truth<'_>) -> Checked<u64> {
    let pairs = truth.pairs();
    let shared =
        |(key, value): (siltdb::Slice, siltdb::Slice)| (Shared::from(&*key), Shared::from(&*value));
    let first = must(source.first(), "first")?.map(shared);
    let last = must(source.last(), "last")?.map(shared);
    for (what, found, expected) in [("first", first, pairs.first()), ("last", last, pairs.last())] {
        let found: Pairs = found.into_iter().collect();
        let expected: Pairs = expected.into_iter().cloned().collect();
        compare_pairs(&found, &expected).map_err(|violation| violation.during(what))?;
    }
    Ok(2)
}

/// Compares the neighbours of keys.
fn compare_neighbours(source: &impl Read, truth: Truth<'_>, keys: &[Shared]) -> Checked<u64> {
    let pairs = truth.pairs();
    for key in keys {
        let at = pairs.partition_point(|(other, _)| other < key);
        let after = pairs.partition_point(|(other, _)| other <= key);
        let before = |index: usize| index.checked_sub(1).map(|index| &pairs[index]);
        for (what, found, expected) in [
            ("get_lt", source.get_lt(key), before(at)),
            ("get_le", source.get_le(key), before(after)),
            ("get_gt", source.get_gt(key), pairs.get(after)),
            ("get_ge", source.get_ge(key), pairs.get(at)),
        ] {
            compare_walk(found.transpose().into_iter(), expected.into_iter(), what)
                .map_err(|violation| violation.during(format!("\"{}\"", show(key))))?;
        }
    }
    Ok(4 * keys.len() as u64)
}

/// Compares the keys of a range without their values: by an iterator, by a cursor and by counting.
fn compare_keys(
    source: &impl Read,
    truth: Truth<'_>,
    range: (Bound<Shared>, Bound<Shared>),
) -> Checked<u64> {
    let mut expected = truth.pairs();
    expected.retain(|(key, _)| lies_within(key, &range));
    let empty = Shared::from(&b""[..]);
    expected.iter_mut().for_each(|(_, value)| *value = Arc::clone(&empty));
    let keys = must(source.range(range.clone()), "range")?.keys();
    let backward = keys.rev().map(|key| key.map(|key| (key, siltdb::Slice::default())));
    compare_walk(backward, expected.iter().rev(), "keys backward")?;
    let options = ReadOptions::new().range(range.clone()).keys_only(true);
    let mut cursor = must(source.cursor_with(&options), "cursor_with")?;
    must(cursor.seek_to_first(), "seek_to_first")?;
    let mut shown = Pairs::new();
    let walked = cursor.walk(u64::MAX, |key, value| {
        shown.push((key.into(), value.into()));
        ControlFlow::Continue(())
    });
    must(walked, "walking over keys")?;
    compare_pairs(&shown, &expected).map_err(|violation| violation.during("keys of a cursor"))?;
    let count = must(source.count(range), "count")?;
    if count == expected.len() as u64 {
        return Ok(2 * count + 1);
    }
    Err(Violation::new(format!("{count} keys counted, expected {}", expected.len())))
}

/// Compares the values of some keys.
///
/// # Errors
/// If one differs.
pub fn compare_get_many(source: &impl Read, truth: Truth<'_>, keys: &[Shared]) -> Checked<u64> {
    let found = must(source.get_many(keys), "get_many")?;
    if found.len() != keys.len() {
        return Err(Violation::new(format!("{} values for {} keys", found.len(), keys.len())));
    }
    for (key, value) in keys.iter().zip(&found) {
        compare_value(value.as_deref(), truth, key, "get_many")?;
    }
    Ok(keys.len() as u64)
}

/// A bound of a range at a key, or none.
pub(crate) fn bound(key: Shared, draw: &mut Draw) -> Bound<Shared> {
    match draw.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Excluded(key),
        _ => Bound::Included(key),
    }
}

fn lies_within(key: &[u8], range: &(Bound<Shared>, Bound<Shared>)) -> bool {
    let after_start = match &range.0 {
        Bound::Unbounded => true,
        Bound::Included(start) => key >= &start[..],
        Bound::Excluded(start) => key > &start[..],
    };
    after_start
        && match &range.1 {
            Bound::Unbounded => true,
            Bound::Included(end) => key <= &end[..],
            Bound::Excluded(end) => key < &end[..],
        }
}

fn compare_range(
    source: &impl Read,
    truth: Truth<'_>,
    range: (Bound<Shared>, Bound<Shared>),
    draw: &mut Draw,
) -> Checked<u64> {
    let what = format!("range {range:?}").chars().take(200).collect::<String>();
    let iter = must(source.range(range.clone()), "range")?;
    let walk = Walk::new(iter, truth, |key| lies_within(key, &range));
    walk.finish(truth, draw).map_err(|violation| violation.during(what))
}

/// Compares the keys that begin with a prefix of `key`.
fn compare_prefix(
    source: &impl Read,
    truth: Truth<'_>,
    key: &[u8],
    draw: &mut Draw,
) -> Checked<u64> {
    let prefix = &key[..draw.index(key.len() + 1)];
    let iter = must(source.prefix(prefix), "prefix")?;
    let walk = Walk::new(iter, truth, |key| key.starts_with(prefix));
    walk.finish(truth, draw)
        .map_err(|violation| violation.during(format!("prefix \"{}\"", show(prefix))))
}

/// An iterator and the keys that it has not yielded yet.
#[derive(Debug)]
pub struct Walk {
    iter: Iter,
    family: FamilyIndex,
    /// The last commit that the iterator sees.
    commit: u64,
    /// The keys still ahead of it, including those without a value.
    keys: VecDeque<Shared>,
}

impl Walk {
    /// A new iterator over the keys of a family that lie `within`.
    #[must_use]
    pub fn new(iter: Iter, truth: Truth<'_>, within: impl Fn(&[u8]) -> bool) -> Self {
        let Truth { model, family, at } = truth;
        let keys = model.keys(family).filter(|key| within(key)).cloned().collect();
        Self { iter, family, commit: at.commit, keys }
    }

    /// Takes up to `steps` steps from either end, as `draw` decides, and one past the end. Returns
    /// the number of steps, or the error that the iterator met.
    ///
    /// # Errors
    /// If it yields anything else, or anything after its end or an error.
    pub fn go(
        &mut self,
        steps: u64,
        model: &Model,
        now: Moment,
        draw: &mut Draw,
    ) -> Checked<siltdb::Result<u64>> {
        let (family, at) = (self.family, Moment { commit: self.commit, ..now });
        // Skips pairs that have expired meanwhile.
        let pair = |key: Shared| model.value(family, &key, at).map(|value| (key, value));
        let forward_of_four = draw.below(5);
        for step in 0..steps {
            let keys = &mut self.keys;
            let (found, expected) = if draw.chance(forward_of_four, 4) {
                let expected = std::iter::from_fn(|| keys.pop_front()).find_map(pair);
                (self.iter.next(), expected)
            } else {
                let expected = std::iter::from_fn(|| keys.pop_back()).find_map(pair);
                (self.iter.next_back(), expected)
            };
            let ended = expected.is_none();
            let found = match found.transpose() {
                Ok(found) => found,
                Err(error) => {
                    self.check_over()?;
                    return Ok(Err(error));
                }
            };
            let found: Pairs =
                found.iter().map(|(k, v)| (Shared::from(&**k), Shared::from(&**v))).collect();
            compare_pairs(&found, &expected.into_iter().collect())?;
            if ended {
                self.check_over()?;
                return Ok(Ok(step + 1));
            }
        }
        Ok(Ok(steps))
    }

    /// Reads to the end without an error. Returns the number of steps.
    ///
    /// # Errors
    /// As [`Walk::go`], or if it meets an error.
    pub fn finish(mut self, truth: Truth<'_>, draw: &mut Draw) -> Checked<u64> {
        must(self.go(u64::MAX, truth.model, truth.at, draw)?, "iterating")
    }

    /// An iterator that has ended or failed yields nothing more, from either end (law V9).
    fn check_over(&mut self) -> Checked<()> {
        let more = [self.iter.next(), self.iter.next_back(), self.iter.next()];
        if more.iter().all(Option::is_none) {
            return Ok(());
        }
        Err(Violation::new(format!("an iterator that was over yields {more:?}")))
    }
}
