//! A subscriber of the change feed: compares the events with the commits of the model.
//!
//! `feeds` subscribes and pulls.
//!
//! The last sequence number of an acknowledged commit is known. The feed tells the commit under
//! this number, whole, once and in order; a volatile commit and an ingest are told as unlogged. For
//! commits from before the opening this holds only if the whole log is retained.

use crate::{
    model::{Commit, FamilyIndex, Model, Operation, Shared, Span},
    settings::Retained,
    violation::{Checked, Violation},
};
use siltdb::{Action, Event, FamilyId, KEY_BYTES_MAX, SubscribeOptions, Subscription};
use std::{collections::BTreeMap, sync::Arc};

/// Most sequence numbers that a subscriber remembers.
const MARKS_MAX: usize = 8;

/// The changes that a subscription asks for.
#[derive(Clone, Debug, Default)]
pub struct Interest {
    /// The family, if only its changes are wanted.
    pub family: Option<FamilyIndex>,
    /// The prefix, if only keys with it are wanted.
    pub prefix: Option<Shared>,
}

impl Interest {
    fn is_all(&self) -> bool {
        self.family.is_none() && self.prefix.is_none()
    }
}

/// An operation as the feed tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    /// `None`, if the number of the family is not known.
    family: Option<FamilyId>,
    key: Shared,
    action: ToldAction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ToldAction {
    Put(Shared),
    PutUntil(Shared, u64),
    Delete,
    SingleDelete,
    DeleteRange(Shared),
    Merge(Shared),
}

/// The kind of an event that was as expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A commit.
    Commit,
    /// A commit that an earlier subscription had told before the opening.
    CommitAgain,
    /// A range of sequence numbers.
    Unlogged,
}

/// A program that pulls from a subscription and remembers its position over crashes.
#[derive(Debug, Default)]
pub struct Subscriber {
    /// The subscription, if one is open.
    pub subscription: Option<Subscription>,
    /// The changes that it asks for.
    pub interest: Interest,
    /// The position behind the last event.
    pub position: u64,
    /// Earlier positions.
    pub marks: Vec<u64>,
    /// Whether the database was reopened since the last subscription.
    pub is_reopened: bool,
    /// Whether there was a subscription since the opening.
    pub has_subscribed: bool,
    /// Whether the subscription has told nothing yet.
    is_fresh: bool,
    /// The greatest sequence number told so far.
    told: u64,
    /// The same at the opening, at most the number at which the database was opened.
    told_before: u64,
    /// The sequence number at which the database was opened.
    opened: u64,
    /// The numbers of families.
    ids: BTreeMap<FamilyIndex, FamilyId>,
}

impl Subscriber {
    /// Notes that the database was opened at `sequence`.
    pub fn reopened(&mut self, sequence: u64) {
        self.subscription = None;
        self.told = self.told.min(sequence);
        (self.told_before, self.opened) = (self.told, sequence);
        (self.is_reopened, self.has_subscribed) = (true, false);
    }

    /// Notes the number of a family.
    pub fn learn(&mut self, index: FamilyIndex, id: FamilyId) {
        self.ids.insert(index, id);
    }

    /// Continues with a new subscription, at its position.
    pub fn begin(&mut self, subscription: Subscription, interest: Interest) {
        self.position = subscription.position();
        (self.subscription, self.interest) = (Some(subscription), interest);
        (self.is_fresh, self.has_subscribed) = (true, true);
    }

    /// Remembers the position.
    pub fn mark(&mut self) {
        if self.marks.len() == MARKS_MAX {
            self.marks.remove(0);
        }
        self.marks.push(self.position);
    }

    /// The options that ask for `interest`.
    #[must_use]
    pub fn options(interest: &Interest, family: Option<&siltdb::Family>) -> SubscribeOptions {
        let options = SubscribeOptions::new();
        let options = match family {
            Some(family) => options.family(family),
            None => options,
        };
        match &interest.prefix {
            Some(prefix) => options.prefix(prefix),
            None => options,
        }
    }

    /// Compares an event that the subscription has just told.
    ///
    /// # Errors
    /// If the model expects another one.
    pub fn check_event(
        &mut self,
        event: &Event,
        model: &mut Model,
        retained: Retained,
    ) -> Checked<Seen> {
        let (first, last) = match event {
            Event::Commit(commit) => (commit.first, commit.last),
            Event::Unlogged(range) => (*range.start(), *range.end()),
            _ => return Err(Violation::new(format!("a feed told {event:?}"))),
        };
        let place = format!("a feed at {} told {first}..={last}", self.position);
        // The first event may begin before the position: a commit is told as a whole.
        let follows = first >= self.position || self.is_fresh && last >= self.position;
        let position = self.subscription.as_ref().map(Subscription::position);
        if first > last || !follows || position != Some(last + 1) {
            return Err(Violation::new(format!("{place}, and goes on at {position:?}")));
        }
        let seen = match event {
            Event::Commit(commit) => {
                let number = self.find(commit, model, retained);
                let number = number.map_err(|violation| violation.during(place))?;
                // Several commits may look alike through a filter.
                if self.interest.is_all() {
                    model.found(number, last);
                }
                if last <= self.told_before { Seen::CommitAgain } else { Seen::Commit }
            }
            _ => {
                self.check_unlogged((first, last), model, retained)
                    .map_err(|violation| violation.during(place))?;
                Seen::Unlogged
            }
        };
        (self.position, self.is_fresh) = (last + 1, false);
        self.told = self.told.max(last);
        Ok(seen)
    }

    /// Checks that no commit is missing when the feed has no further event.
    ///
    /// # Errors
    /// If one is.
    pub fn check_end(&self, model: &Model, retained: Retained) -> Checked<()> {
        for number in model.first_from(self.position)..=model.acknowledged() {
            let Some(commit) = model.commit(number) else { continue };
            if self.must_tell(commit, retained) && self.is_told(commit) {
                let (position, last) = (self.position, commit.sequence);
                let message = format!(
                    "a feed ends at {position}, without commit {number}, which ended at {last}"
                );
                return Err(Violation::new(message));
            }
        }
        Ok(())
    }

    /// Finds the commit of an event.
    fn find(&self, told: &siltdb::Commit, model: &Model, retained: Retained) -> Checked<u64> {
        let changes: Vec<Told> = told.changes().map(|change| of_change(&change)).collect();
        let sequences = told.changes().map(|change| change.sequence);
        let is_ascending =
            sequences.clone().is_sorted() && sequences.clone().all(|s| s <= told.last);
        if !is_ascending || self.interest.is_all() && sequences.last() != Some(told.last) {
            return Err(Violation::new(format!("sequence numbers of {told:?}")));
        }
        for number in model.first_from(self.position)..=model.acknowledged() {
            let Some(commit) = model.commit(number) else { continue };
            let wanted = self.wanted(commit);
            let is_at = if commit.is_sequence_known {
                commit.sequence == told.last
            } else {
                commit.sequence >= told.last
            };
            if is_at && commit.is_logged && are_same(&wanted, &changes) {
                return Ok(number);
            }
            if self.must_tell(commit, retained) && self.is_told(commit) {
                let message = format!("commit {number}, which ended at {}", commit.sequence);
                return Err(Violation::new(format!("{message}, was to come, not {told:?}")));
            }
        }
        Err(Violation::new(format!("no commit did {told:?}")))
    }

    fn check_unlogged(
        &self,
        (first, last): (u64, u64),
        model: &Model,
        retained: Retained,
    ) -> Checked<()> {
        for number in model.first_from(self.position)..=model.acknowledged() {
            let Some(commit) = model.commit(number).filter(|commit| commit.sequence <= last) else {
                break;
            };
            let is_within = commit.sequence >= first;
            let is_wrong = match is_within {
                true => commit.is_logged && !stored(commit).is_empty(),
                false => self.is_told(commit),
            };
            if is_wrong && self.must_tell(commit, retained) {
                return Err(Violation::new(format!("commit {number} was in the log")));
            }
        }
        Ok(())
    }

    /// Whether the feed must tell this commit, as a commit or as unlogged.
    fn must_tell(&self, commit: &Commit, retained: Retained) -> bool {
        let is_kept = retained == Retained::Everything || commit.sequence > self.opened;
        commit.is_sequence_known && is_kept
    }

    /// Whether this subscription asks for a commit. Volatile ones are told to every subscription.
    fn is_told(&self, commit: &Commit) -> bool {
        match commit.is_logged {
            false => !stored(commit).is_empty(),
            true => !self.wanted(commit).is_empty(),
        }
    }

    /// The operations of a commit that this subscription asks for.
    fn wanted(&self, commit: &Commit) -> Vec<Told> {
        let Interest { family, prefix } = &self.interest;
        let span = prefix.as_ref().map(Span::of_prefix);
        let is_wanted = |told: &Told| match (&span, &told.action) {
            (None, _) => true,
            (Some(span), ToldAction::DeleteRange(end)) => {
                let lower = Arc::clone(&told.key);
                Span { lower, upper: Some(Arc::clone(end)) }.overlaps(span)
            }
            (Some(span), _) => span.contains(&told.key),
        };
        let of_family = stored(commit);
        let of_family = of_family.into_iter().filter(|(of, _)| family.is_none_or(|one| one == *of));
        let told = of_family.map(|(index, told)| {
            let family = self.ids.get(&index).copied();
            Told { family, ..told }
        });
        told.filter(is_wanted).collect()
    }
}

fn are_same(wanted: &[Told], told: &[Told]) -> bool {
    let is_same = |(wanted, told): (&Told, &Told)| {
        let is_family = wanted.family.is_none() || wanted.family == told.family;
        is_family && wanted.key == told.key && wanted.action == told.action
    };
    wanted.len() == told.len() && wanted.iter().zip(told).all(is_same)
}

fn of_change(change: &siltdb::KeyChange<'_>) -> Told {
    let action = match change.operation.action {
        Action::Put(value) => ToldAction::Put(value.into()),
        Action::PutUntil { value, expiry_ms } => ToldAction::PutUntil(value.into(), expiry_ms),
        Action::SingleDelete => ToldAction::SingleDelete,
        Action::DeleteRange(end) => ToldAction::DeleteRange(end.into()),
        Action::Merge(operand) => ToldAction::Merge(operand.into()),
        // A kind that is not known here differs from what was to come.
        _ => ToldAction::Delete,
    };
    Told { family: Some(change.operation.family), key: change.operation.key.into(), action }
}

/// The operations of a commit as the log stores them: none for an empty range, two for a range
/// without an end.
fn stored(commit: &Commit) -> Vec<(FamilyIndex, Told)> {
    let mut all = Vec::new();
    for (index, operation) in &*commit.operations {
        let mut add = |key: &Shared, action| {
            all.push((*index, Told { family: None, key: Arc::clone(key), action }));
        };
        match operation {
            Operation::Put { key, value, expiry_ms: None } => {
                add(key, ToldAction::Put(Arc::clone(value)));
            }
            Operation::Put { key, value, expiry_ms: Some(ms) } => {
                add(key, ToldAction::PutUntil(Arc::clone(value), *ms));
            }
            Operation::Delete { key } => add(key, ToldAction::Delete),
            Operation::SingleDelete { key } => add(key, ToldAction::SingleDelete),
            Operation::Merge { key, operand } => add(key, ToldAction::Merge(Arc::clone(operand))),
            Operation::DeleteRange { .. } | Operation::DeletePrefix { .. } => {
                let Span { lower, upper } = operation.span();
                match upper {
                    Some(upper) if lower < upper => add(&lower, ToldAction::DeleteRange(upper)),
                    Some(_) => {}
                    None => {
                        let greatest = Shared::from(vec![0xff; KEY_BYTES_MAX]);
                        add(&lower, ToldAction::DeleteRange(Arc::clone(&greatest)));
                        add(&greatest, ToldAction::Delete);
                    }
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
