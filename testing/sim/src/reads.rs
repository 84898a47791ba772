//! All ways of reading, each compared with the model at once.
//!
//! It never writes; the caller gives the expected state.

use crate::{
    draw::Draw,
    keys::KeyShape,
    model::{FamilyIndex, Model, Moment, Shared},
    violation::{Checked, Violation, must, show, show_option},
};
use siltdb::{Cursor, Expiry, Family, Iter, Read, ReadOptions};
use siltdb_base::cursor::Direction;
use std::{
    collections::VecDeque,
    ops::{Bound, ControlFlow},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

/// The pairs of a family, in order.
pub type Pairs = Vec<(Shared, Shared)>;

/// One family at one moment, as the model sees it.
#[derive(Clone, Copy, Debug)]
pub struct Truth<'a> {
    /// The model.
    pub model: &'a Model,
    /// The family.
    pub family: FamilyIndex,
    /// The moment.
    pub at: Moment,
}

impl Truth<'_> {
    /// All pairs of the family at that moment.
    #[must_use]
    pub fn pairs(&self) -> Pairs {
        self.model.pairs(self.family, self.at)
    }

    fn value(&self, key: &[u8]) -> Option<Shared> {
        self.model.value(self.family, key, self.at)
    }

    /// The keys of the family whose values expire.
    #[must_use]
    pub fn expiring(&self) -> Vec<Shared> {
        self.model.expiries(self.family, self.at).into_keys().collect()
    }

    /// Adds the place of the difference to a violation.
    #[must_use]
    pub fn blame(&self, violation: Violation) -> Violation {
        let (family, at) = (self.family.0, self.at);
        violation.during(format!("family #{family} at commit {}, {} ms", at.commit, at.wall_ms))
    }
}

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

/// All pairs of a family, not compared.
///
/// # Errors
/// If reading fails.
pub fn collect(source: &impl Read) -> Checked<Pairs> {
    let mut pairs = Vec::new();
    for pair in must(source.iter(), "iter")? {
        let (key, value) = must(pair, "iterating")?;
        pairs.push((Shared::from(&*key), Shared::from(&*value)));
    }
    Ok(pairs)
}

/// Describes the first difference of two lists of pairs.
///
/// # Errors
/// If they differ.
pub fn compare_pairs(found: &Pairs, expected: &Pairs) -> Checked<()> {
    let mut walks = (found.iter(), expected.iter());
    loop {
        match (walks.0.next(), walks.1.next()) {
            (None, None) => return Ok(()),
            (found, expected) if found == expected => {}
            (found, expected) => {
                let pair = |pair: Option<&(Shared, Shared)>| {
                    pair.map_or("the end".to_owned(), |(k, v)| {
                        format!("\"{}\" = \"{}\"", show(k), show(v))
                    })
                };
                let (found, expected) = (pair(found), pair(expected));
                return Err(Violation::new(format!("found {found}, expected {expected}")));
            }
        }
    }
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

/// A cursor, with its expected position among `pairs`.
struct Pointer<'a> {
    cursor: Cursor,
    pairs: &'a Pairs,
    position: Option<usize>,
}

impl Pointer<'_> {
    fn seek(&mut self, key: &[u8]) -> siltdb::Result<()> {
        self.cursor.seek(key)?;
        let index = self.pairs.partition_point(|(other, _)| &other[..] < key);
        self.position = Some(index).filter(|index| *index < self.pairs.len());
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> siltdb::Result<()> {
        self.cursor.seek_for_prev(key)?;
        self.position = self.pairs.partition_point(|(other, _)| &other[..] <= key).checked_sub(1);
        Ok(())
    }

    fn step(&mut self, draw: &mut Draw) -> siltdb::Result<&'static str> {
        let len = self.pairs.len();
        match draw.below(20) {
            0 => {
                self.cursor.seek_to_first()?;
                self.position = Some(0).filter(|_| len > 0);
                Ok("seek_to_first")
            }
            1 => {
                self.cursor.seek_to_last()?;
                self.position = len.checked_sub(1);
                Ok("seek_to_last")
            }
            2..11 => {
                self.cursor.next()?;
                self.position = self.position.map(|at| at + 1).filter(|at| *at < len);
                Ok("next")
            }
            _ => {
                self.cursor.prev()?;
                self.position = self.position.and_then(|at| at.checked_sub(1));
                Ok("prev")
            }
        }
    }

    /// Visits up to `limit` pairs, or stops early at one of them; compares them.
    fn walk(&mut self, direction: Direction, limit: u64, draw: &mut Draw) -> Checked<String> {
        let mut stop_at = draw.within(1..=2 * limit);
        let what = format!("walk {direction:?} over {limit} or {stop_at}");
        let most = limit.min(stop_at) as usize;
        let mut shown = Pairs::new();
        let seen = |key: &[u8], value: &[u8]| {
            shown.push((key.into(), value.into()));
            stop_at -= 1;
            if stop_at == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let walked = match direction {
            Direction::Forward => self.cursor.walk(limit, seen),
            Direction::Backward => self.cursor.walk_back(limit, seen),
        };
        let count = must(walked, &what)?;
        let (from, pairs) = (self.position, self.pairs);
        let expected: Pairs = match (from, direction) {
            (None, _) => Pairs::new(),
            (Some(at), Direction::Forward) => pairs[at..].iter().take(most).cloned().collect(),
            (Some(at), Direction::Backward) => {
                pairs[..=at].iter().rev().take(most).cloned().collect()
            }
        };
        compare_pairs(&shown, &expected).map_err(|violation| violation.during(&what))?;
        if count != shown.len() as u64 {
            return Err(Violation::new(format!("{what} reported {count}, showed {}", shown.len())));
        }
        self.position = match direction {
            Direction::Forward => from.map(|at| at + shown.len()).filter(|at| *at < pairs.len()),
            Direction::Backward => from.and_then(|at| at.checked_sub(shown.len())),
        };
        Ok(what)
    }

    fn compare(&self, moves: &[String]) -> Checked<()> {
        let pairs = |pair: Option<(&[u8], &[u8])>| -> Pairs {
            pair.into_iter().map(|(k, v)| (Shared::from(k), Shared::from(v))).collect()
        };
        let expected = self.position.map(|at| (&*self.pairs[at].0, &*self.pairs[at].1));
        compare_pairs(&pairs(self.cursor.entry()), &pairs(expected))
            .map_err(|violation| violation.during(format!("cursor after {}", moves.join(", "))))
    }
}

fn compare_cursor(
    source: &impl Read,
    truth: Truth<'_>,
    steps: u64,
    draw: &mut Draw,
    key: &mut impl FnMut(&mut Draw) -> Shared,
) -> Checked<u64> {
    let pairs = truth.pairs();
    let cursor = must(source.cursor(), "cursor")?;
    let mut pointer = Pointer { cursor, pairs: &pairs, position: None };
    let mut moves = Vec::new();
    for _ in 0..steps {
        let result = match draw.below(10) {
            0 | 1 => {
                let key = key(draw);
                pointer.seek(&key).map(|()| format!("seek \"{}\"", show(&key)))
            }
            2 | 3 => {
                let key = key(draw);
                pointer.seek_for_prev(&key).map(|()| format!("seek_for_prev \"{}\"", show(&key)))
            }
            4 => {
                let direction = draw.pick(&[Direction::Forward, Direction::Backward]);
                let limit = draw.pick(&[1, 2, 7, 40, 1000]);
                Ok(pointer.walk(direction, limit, draw)?)
            }
            _ => pointer.step(draw).map(str::to_owned),
        };
        moves.push(must(result, "moving a cursor")?);
        pointer.compare(&moves)?;
    }
    Ok(steps)
}
