//! Moves of a cursor, each compared with the model at once.

use crate::{
    draw::Draw,
    model::Shared,
    truth::{Pairs, Truth, compare_pairs},
    violation::{Checked, Violation, must, show},
};
use siltdb::{Cursor, Read};
use siltdb_base::cursor::Direction;
use std::ops::ControlFlow;

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

/// Compares some moves of a cursor.
pub fn compare_cursor(
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
