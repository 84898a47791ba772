//! Reading in every way there is, each compared with the model at once.
//!
//! It reads and never writes; what the model should hold is given.

use crate::{
    draw::Draw,
    keys::KeyShape,
    model::{FamilyIndex, Model, Moment, Shared},
    violation::{Checked, Violation, must, show, show_option},
};
use siltdb::{Cursor, Iter, Read};
use std::{collections::VecDeque, ops::Bound};

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
    fn pairs(&self) -> Pairs {
        self.model.pairs(self.family, self.at)
    }

    fn value(&self, key: &[u8]) -> Option<Shared> {
        self.model.value(self.family, key, self.at)
    }

    fn blame(&self, violation: Violation) -> Violation {
        let (family, at) = (self.family.0, self.at);
        violation.during(format!("family #{family} at commit {}, {} ms", at.commit, at.wall_ms))
    }
}

/// Compares all of a family: both ways, and up to `lookups_max` of the keys it ever had. Returns
/// how many reads were compared.
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

/// Everything a family holds, unchecked.
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

/// Where two lists of pairs differ first, in words.
///
/// # Errors
/// If they do.
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

fn compare_walk<'a>(
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

fn compare_get(source: &impl Read, truth: Truth<'_>, key: &[u8]) -> Checked<()> {
    let found = must(source.get(key), "get")?;
    compare_value(found.as_deref(), truth, key, "get")
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

/// Reads a little in a way that `draw` chooses. Returns how many reads were compared.
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
    let result = match draw.below(4) {
        0 => {
            let keys: Vec<Shared> = (0..10).map(|_| key(draw)).collect();
            keys.iter().try_for_each(|key| compare_get(source, truth, key)).map(|()| 10)
        }
        1 => {
            let keys: Vec<Shared> = (0..draw.below(20)).map(|_| key(draw)).collect();
            compare_get_many(source, truth, &keys)
        }
        2 => {
            let range = (bound(key(draw), draw), bound(key(draw), draw));
            compare_range(source, truth, range, draw)
        }
        _ => {
            let steps = draw.within(5..=40);
            compare_cursor(source, truth, steps, draw, &mut key)
        }
    };
    result.map_err(|violation| truth.blame(violation))
}

fn compare_get_many(source: &impl Read, truth: Truth<'_>, keys: &[Shared]) -> Checked<u64> {
    let found = must(source.get_many(keys), "get_many")?;
    if found.len() != keys.len() {
        return Err(Violation::new(format!("{} values for {} keys", found.len(), keys.len())));
    }
    for (key, value) in keys.iter().zip(&found) {
        compare_value(value.as_deref(), truth, key, "get_many")?;
    }
    Ok(keys.len() as u64)
}

fn bound(key: Shared, draw: &mut Draw) -> Bound<Shared> {
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
    let mut expected: VecDeque<_> = truth.pairs().into();
    expected.retain(|(key, _)| lies_within(key, &range));
    let what = format!("range {range:?}").chars().take(200).collect::<String>();
    let iter = must(source.range(range), "range")?;
    Walk { iter, expected }.go(u64::MAX, draw).map_err(|violation| violation.during(what))
}

/// An iterator and what it has still to yield.
#[derive(Debug)]
pub struct Walk {
    /// The iterator.
    pub iter: Iter,
    /// What it has still to yield.
    pub expected: VecDeque<(Shared, Shared)>,
}

impl Walk {
    /// Takes up to `steps` steps from either end, as `draw` decides, and one past the end if it
    /// comes there. Returns how many.
    ///
    /// # Errors
    /// If it yields anything else.
    pub fn go(&mut self, steps: u64, draw: &mut Draw) -> Checked<u64> {
        let forward_of_four = draw.below(5);
        for step in 0..steps {
            let (found, expected) = if draw.chance(forward_of_four, 4) {
                (self.iter.next(), self.expected.pop_front())
            } else {
                (self.iter.next_back(), self.expected.pop_back())
            };
            let ended = expected.is_none();
            let found = must(found.transpose(), "iterating")?;
            let found: Pairs =
                found.iter().map(|(k, v)| (Shared::from(&**k), Shared::from(&**v))).collect();
            compare_pairs(&found, &expected.into_iter().collect())?;
            if ended {
                return Ok(step + 1);
            }
        }
        Ok(steps)
    }
}

/// A cursor beside the position it should have among `pairs`.
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
            _ => pointer.step(draw).map(str::to_owned),
        };
        moves.push(must(result, "moving a cursor")?);
        pointer.compare(&moves)?;
    }
    Ok(steps)
}
