//! One cursor over many: the entries of all sources in the one order of entries.
//!
//! It hides nothing and decides nothing: every version and every tombstone comes out. Range
//! tombstones do not travel through it.
//!
//! The sources play a tournament (a *loser tree*; Knuth, The Art of Computer Programming 3, 5.4.1).
//! Each inner node remembers the source that lost there, so that after a step only the matches on
//! one path are played again. Three things make most steps cheaper than that:
//!
//! 1. A player carries the first 8 bytes of its key as a number; keys are compared only if those
//!    are equal.
//! 2. Once a source has won some times in a row, it is compared with the *runner-up* alone.
//! 3. While the rest of the winner's block lies strictly before the runner-up's user key, the
//!    block is walked without any comparison.
//!
//! A seek to a key that is there ends before the tournament begins. Some sources are *deferred*
//! until the cursor moves on from there. These are the sources whose filters do not know the key,
//! and those whose entries are all older than the one found. So a reader of one entry at a time
//! searches one source.
//!
//! # Invariants
//! 1. With a direction, every source stands on its first entry along it that is not yet passed.
//! 2. `winner` and `losers[1..]` name every source exactly once; `winner` beats them all.
//! 3. `runner_up`, if known, beats all sources but the winner; it is known only if the entry
//!    passed last came from the winner too.
//! 4. For `free` more steps the winner stays the winner, and no other source has an entry whose
//!    user key is among those of the stretch. By (3) this holds for entries already passed too: a
//!    key that is single in its source is single in the merge.
//! 5. While sources are deferred, (1) to (3) do not hold yet. The winner stands on the newest entry
//!    of the key that was sought. The deferred ones stand anywhere, and have nothing between the
//!    place that was sought and that entry. `free` is 0, and the direction leads forward.

mod deferred;
mod hidden;

pub use hidden::HiddenRange;

use deferred::Deferred;
use siltdb_base::{
    cursor::{Direction, EntryCursor, Stretch},
    error::Result,
    id::SequenceNumber,
    key::{Entry, LookupKey, SortKey, head},
};
use std::ops::ControlFlow;

/// Steps before a winner that knows of no span is asked for one again.
const SPANLESS_STEPS: usize = 64;

/// Wins in a row after which the runner-up is looked for. Where sources alternate, it would be
/// another one at every step.
const STREAK: u32 = 3;

/// The head of a source that has no more entries; the tie with real heads is settled in full.
const EXHAUSTED: u64 = u64::MAX;

/// One input of a [`Merge`].
#[derive(Debug)]
pub struct MergeSource<C> {
    /// The cursor over the entries.
    pub cursor: C,
    /// No entry of the source is or will be newer; `SequenceNumber::MAX` if that is not known.
    pub sequence_max: SequenceNumber,
}

/// A source in the tournament: the smallest wins.
#[derive(Clone, Copy, Debug)]
struct Player {
    /// The head of its key; its complement on the way backward.
    head: u64,
    source: usize,
}

/// A cursor over the entries of all its sources.
///
/// (key, sequence) should be unique over the sources. If it is not, because a file is damaged,
/// both entries come out, that of the source with the smaller index first.
///
/// After an error the merge stands nowhere until it is positioned anew.
#[derive(Debug)]
pub struct Merge<C> {
    sources: Vec<MergeSource<C>>,
    /// Where it is going; `None` if it stands nowhere.
    direction: Option<Direction>,
    winner: Player,
    losers: Vec<Player>,
    runner_up: Option<Player>,
    /// How often the winner has won in a row, while there is no runner-up.
    streak: u32,
    free: usize,
    /// Steps until the winner's span is worth a look.
    span_wait: usize,
    /// The first round of the tournament, while it is being set up.
    bracket: Vec<Player>,
    /// The key at which the direction is reversed, or the deferred sources are sought.
    turning_key: Vec<u8>,
    deferred: Deferred,
}

impl<C: EntryCursor> Merge<C> {
    /// A merge of `sources`, standing nowhere.
    #[must_use]
    pub fn new(sources: Vec<MergeSource<C>>) -> Self {
        let nobody = Player { head: EXHAUSTED, source: 0 };
        Self {
            losers: vec![nobody; sources.len()],
            bracket: vec![nobody; 2 * sources.len()],
            deferred: Deferred::new(sources.len()),
            sources,
            direction: None,
            winner: nobody,
            runner_up: None,
            streak: 0,
            free: 0,
            span_wait: 0,
            turning_key: Vec::new(),
        }
    }

    /// Passes over entries that a range tombstone hides, without walking over them.
    ///
    /// Every source whose entries are all older than `tombstone` goes on to `border`. That is the
    /// end of the range on the way forward, its start on the way backward. The others stay where
    /// they are, and with them, possibly, the merge.
    ///
    /// # Errors
    /// What reading a source fails with.
    pub fn skip_hidden(&mut self, border: &[u8], tombstone: SequenceNumber) -> Result<()> {
        self.catch_up()?;
        let direction = self.direction.take();
        for source in self.sources.iter_mut().filter(|source| source.sequence_max < tombstone) {
            let Some(entry) = source.cursor.entry() else { continue };
            match direction {
                Some(Direction::Forward) if entry.key < border => {
                    source.cursor.seek(border, SequenceNumber::MAX)?;
                }
                Some(Direction::Backward) if entry.key >= border => {
                    source.cursor.seek_before(border, SequenceNumber::MAX)?;
                }
                _ => {}
            }
        }
        self.set_out(direction);
        Ok(())
    }

    /// Positions every source with `position`, then starts along `direction`.
    fn position(
        &mut self,
        direction: Direction,
        mut position: impl FnMut(&mut MergeSource<C>) -> Result<()>,
    ) -> Result<()> {
        self.direction = None;
        self.deferred.clear();
        for source in &mut self.sources {
            position(source)?;
        }
        self.set_out(Some(direction));
        Ok(())
    }

    /// Seeks in sources that may hold `key`, until nothing newer of it is to be expected; names the
    /// others in `deferred`. Returns the source that stands on the newest entry of `key` that is
    /// not newer than `sequence`.
    fn seek_exactly(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<Option<usize>> {
        let sought = LookupKey::new(key);
        for source in &self.sources {
            source.cursor.prefetch_filter(sought);
        }
        let mut found: Option<(SequenceNumber, usize)> = None;
        for (index, source) in self.sources.iter_mut().enumerate() {
            let is_older = found.is_some_and(|(newest, _)| source.sequence_max < newest);
            if is_older || !source.cursor.may_hold(sought) {
                self.deferred.push(index);
                continue;
            }
            source.cursor.seek(key, sequence)?;
            let entry = source.cursor.entry().filter(|entry| entry.key == key);
            if let Some(Entry { sequence, .. }) = entry
                && found.is_none_or(|(newest, _)| newest < sequence)
            {
                found = Some((sequence, index));
            }
        }
        Ok(found.map(|(_, index)| index))
    }

    /// Seeks as [`EntryCursor::seek`]; what is not needed is left for later.
    fn seek_deferring(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        let found = self.seek_exactly(key, sequence);
        if found.is_err() {
            self.deferred.clear();
        }
        match found? {
            None => self.seek_deferred(key, sequence),
            Some(source) if !self.deferred.is_empty() => {
                self.winner.source = source;
                self.free = 0;
                self.direction = Some(Direction::Forward);
                Ok(())
            }
            Some(_) => {
                self.set_out(Some(Direction::Forward));
                Ok(())
            }
        }
    }

    /// Brings the deferred sources to (`key`, `sequence`), and starts anew from there.
    fn seek_deferred(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        self.direction = None;
        for &index in self.deferred.sources() {
            self.sources[index].cursor.prefetch(key, sequence);
        }
        for index in self.deferred.recall() {
            self.sources[index].cursor.seek(key, sequence)?;
        }
        self.set_out(Some(Direction::Forward));
        Ok(())
    }

    /// Brings the deferred sources, if there are any, to where the merge stands.
    #[inline]
    fn catch_up(&mut self) -> Result<()> {
        if self.deferred.is_empty() { Ok(()) } else { self.seek_deferred_here() }
    }

    // Cold: so that a step is not made larger by it.
    #[cold]
    fn seek_deferred_here(&mut self) -> Result<()> {
        let Some(entry) = self.sources[self.winner.source].cursor.entry() else { return Ok(()) };
        let (mut key, sequence) = (std::mem::take(&mut self.turning_key), entry.sequence);
        key.clear();
        key.extend_from_slice(entry.key);
        let sought = self.seek_deferred(&key, sequence);
        self.turning_key = key;
        sought
    }

    /// Starts along `direction` from where the sources stand: plays the whole tournament.
    fn set_out(&mut self, direction: Option<Direction>) {
        let count = self.sources.len();
        self.direction = direction.filter(|_| count > 0);
        self.runner_up = None;
        self.streak = 0;
        self.span_wait = 0;
        // A single source has no rival, ever.
        self.free = if count == 1 { usize::MAX } else { 0 };
        if self.direction.is_none() {
            return;
        }
        for source in 0..count {
            self.bracket[count + source] = Player { head: self.head_of(source), source };
        }
        for node in (1..count).rev() {
            let (left, right) = (self.bracket[2 * node], self.bracket[2 * node + 1]);
            let (winner, loser) =
                if self.beats(right, left) { (right, left) } else { (left, right) };
            self.bracket[node] = winner;
            self.losers[node] = loser;
        }
        self.winner = self.bracket[1];
    }

    /// The head under which `source` plays.
    #[inline]
    fn head_of(&self, source: usize) -> u64 {
        match self.sources[source].cursor.entry() {
            None => EXHAUSTED,
            Some(entry) if self.direction == Some(Direction::Backward) => !head(entry.key),
            Some(entry) => head(entry.key),
        }
    }

    #[inline]
    fn beats(&self, a: Player, b: Player) -> bool {
        if a.head == b.head { self.beats_in_full(a.source, b.source) } else { a.head < b.head }
    }

    fn beats_in_full(&self, a: usize, b: usize) -> bool {
        match (self.sources[a].cursor.entry(), self.sources[b].cursor.entry()) {
            (Some(x), Some(y)) => {
                let order = SortKey::new(x.key, x.sequence).cmp(&SortKey::new(y.key, y.sequence));
                let order = match self.direction {
                    Some(Direction::Backward) => order.reverse(),
                    _ => order,
                };
                order.then(a.cmp(&b)).is_lt()
            }
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => a < b,
        }
    }

    /// Moves the winner one entry along the direction.
    #[inline]
    fn move_winner(&mut self) -> Result<()> {
        let cursor = &mut self.sources[self.winner.source].cursor;
        let moved = match self.direction {
            Some(Direction::Backward) => cursor.prev(),
            _ => cursor.next(),
        };
        if moved.is_err() {
            self.direction = None;
        }
        moved
    }

    /// Goes one entry along the direction.
    #[inline]
    fn step(&mut self) -> Result<()> {
        if self.free == 0 {
            self.catch_up()?;
        }
        self.move_winner()?;
        if self.free > 0 {
            self.free -= 1;
            return Ok(());
        }
        self.play();
        Ok(())
    }

    /// Goes forward entry by entry and shows each. It ends when `seen` says that it is enough, a
    /// stretch begins that can be walked without comparing, or the entries end. Stands on the entry
    /// shown last, or nowhere if they ended. Returns how many were shown.
    ///
    /// # Errors
    /// What reading a source fails with.
    #[inline]
    pub fn walk_shuffled(
        &mut self,
        seen: &mut impl FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<usize> {
        let mut shown = 0;
        while self.direction == Some(Direction::Forward) && self.free == 0 {
            self.step()?;
            let Some(entry) = self.entry() else { break };
            shown += 1;
            if seen(entry).is_break() {
                break;
            }
        }
        Ok(shown)
    }

    /// Finds the winner after the former one has moved.
    #[inline]
    fn play(&mut self) {
        let former = self.winner.source;
        self.winner.head = self.head_of(former);
        match self.runner_up {
            Some(runner_up) if self.beats(self.winner, runner_up) => self.look_ahead(),
            Some(_) => {
                self.replay();
                self.runner_up = None;
                self.streak = 0;
            }
            None => {
                self.replay();
                self.streak = if self.winner.source == former { self.streak + 1 } else { 0 };
                if self.streak == STREAK {
                    self.runner_up = Some(self.second());
                    self.span_wait = 0;
                    self.look_ahead();
                }
            }
        }
    }

    /// Plays the matches on the winner's path again.
    fn replay(&mut self) {
        let mut player = self.winner;
        let mut node = (self.sources.len() + player.source) / 2;
        while node > 0 {
            if self.beats(self.losers[node], player) {
                std::mem::swap(&mut self.losers[node], &mut player);
            }
            node /= 2;
        }
        self.winner = player;
    }

    /// The player that would win without the winner: the best of those that lost to it.
    fn second(&self) -> Player {
        let mut node = (self.sources.len() + self.winner.source) / 2;
        let mut best = self.losers[node];
        node /= 2;
        while node > 0 {
            if self.beats(self.losers[node], best) {
                best = self.losers[node];
            }
            node /= 2;
        }
        best
    }

    /// Finds out how far the winner can go without comparing.
    fn look_ahead(&mut self) {
        if self.span_wait > 0 {
            self.span_wait -= 1;
            return;
        }
        let cursor = &self.sources[self.winner.source].cursor;
        let Some(near) = cursor.stretch() else {
            self.span_wait = SPANLESS_STEPS;
            return;
        };
        let rival = self.runner_up.and_then(|player| self.sources[player.source].cursor.entry());
        let direction = self.direction.unwrap_or(Direction::Forward);
        let steps = |span: &Stretch<'_>| match direction {
            Direction::Backward => span.before,
            Direction::Forward => span.after,
        };
        let is_clear = |span: &Stretch<'_>| match (rival, direction) {
            (None, _) => true,
            (Some(rival), Direction::Backward) => rival.key < span.first_key,
            (Some(rival), Direction::Forward) => span.last_key < rival.key,
        };
        if is_clear(&near) {
            let far = cursor.stretch_along(direction).filter(is_clear);
            self.free = steps(&far.unwrap_or(near));
        } else {
            self.span_wait = steps(&near);
        }
    }

    /// Reverses the direction: the next step leads back over the entry under the cursor.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let winner = self.winner.source;
        let Some(entry) = self.sources[winner].cursor.entry() else {
            return Ok(());
        };
        self.turning_key.clear();
        self.turning_key.extend_from_slice(entry.key);
        let sequence = entry.sequence;
        self.direction = None;
        self.deferred.clear();
        for (index, source) in self.sources.iter_mut().enumerate() {
            let cursor = &mut source.cursor;
            match direction {
                Direction::Backward if index == winner => cursor.prev()?,
                Direction::Backward => cursor.seek_before(&self.turning_key, sequence)?,
                _ if index == winner => cursor.next()?,
                _ => cursor.seek(&self.turning_key, sequence)?,
            }
        }
        self.set_out(Some(direction));
        Ok(())
    }
}

impl<C: EntryCursor> EntryCursor for Merge<C> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.direction.and_then(|_| self.sources[self.winner.source].cursor.entry())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.position(Direction::Forward, |source| source.cursor.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.position(Direction::Backward, |source| source.cursor.seek_to_last())
    }

    fn seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        self.direction = None;
        if self.deferred.begin() && self.sources.len() > 1 {
            return self.seek_deferring(key, sequence);
        }
        // One alone would ask for what it is about to look at anyway.
        if self.sources.len() > 1 {
            for source in &self.sources {
                source.cursor.prefetch(key, sequence);
            }
        }
        self.position(Direction::Forward, |source| source.cursor.seek(key, sequence))
    }

    fn seek_before(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        self.position(Direction::Backward, |source| source.cursor.seek_before(key, sequence))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        match self.direction {
            Some(Direction::Forward) => self.step(),
            Some(Direction::Backward) => self.turn(Direction::Forward),
            None => Ok(()),
        }
    }

    #[inline]
    fn walk(
        &mut self,
        direction: Direction,
        steps: usize,
        seen: &mut impl FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<usize> {
        if self.direction != Some(direction) {
            return Ok(0);
        }
        // By (4) the winner stays the winner.
        let steps = steps.min(self.free);
        let walked = self.sources[self.winner.source].cursor.walk(direction, steps, seen);
        match &walked {
            Ok(made) => self.free -= made,
            Err(_) => self.direction = None,
        }
        walked
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        match self.direction {
            Some(Direction::Backward) => self.step(),
            Some(Direction::Forward) => self.turn(Direction::Backward),
            None => Ok(()),
        }
    }

    /// The rest of a stretch that is walked without comparing; it begins (forward) or ends
    /// (backward) with the entry under the cursor.
    fn stretch(&self) -> Option<Stretch<'_>> {
        if self.direction.is_none() || self.free == 0 {
            return None;
        }
        let cursor = &self.sources[self.winner.source].cursor;
        let span = cursor.stretch()?;
        if self.sources.len() == 1 {
            return Some(span);
        }
        let key = cursor.entry()?.key;
        Some(match self.direction {
            Some(Direction::Backward) => Stretch { last_key: key, after: 0, ..span },
            _ => Stretch { first_key: key, before: 0, ..span },
        })
    }

    fn stretch_along(&self, direction: Direction) -> Option<Stretch<'_>> {
        // Of several sources, a rival may lie behind the block.
        if self.sources.len() == 1 && self.direction.is_some() {
            self.sources[0].cursor.stretch_along(direction)
        } else {
            self.stretch()
        }
    }
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
