//! The reference state of the database: every version of every key, by commit.
//!
//! It keeps every version and uses the simplest lookups, so that it can be trusted.
//!
//! # Invariants
//! 1. Commits are numbered from 1, without gaps. Only the last one may be in doubt (`in_doubt`).
//! 2. The versions of a key are ordered by commit, and within a commit by their place in the batch.
//! 3. A range deletion is expanded: each key it covers gets a deletion.

use crate::operator::Operator;
use siltdb::Durability;
use std::{collections::BTreeMap, ops::RangeInclusive, sync::Arc};

/// The permanent number of a family; that of a dropped family is not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FamilyIndex(pub usize);

/// The family every database has.
pub const DEFAULT: FamilyIndex = FamilyIndex(0);

/// Shared bytes of a key or value.
pub type Shared = Arc<[u8]>;

/// A half-open range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first key.
    pub lower: Shared,
    /// The first key after the range; `None` if there is no end.
    pub upper: Option<Shared>,
}

impl Span {
    /// A single key.
    #[must_use]
    pub fn of_key(key: &Shared) -> Self {
        Self { lower: Arc::clone(key), upper: Some(successor(key)) }
    }

    /// Every key.
    #[must_use]
    pub fn all() -> Self {
        Self { lower: Shared::from(&b""[..]), upper: None }
    }

    /// The keys that begin with `prefix`.
    #[must_use]
    pub fn of_prefix(prefix: &Shared) -> Self {
        let kept = prefix.iter().rposition(|byte| *byte < 0xff);
        let upper = kept.map(|last| {
            let mut upper = prefix[..=last].to_vec();
            upper[last] += 1;
            Shared::from(upper)
        });
        Self { lower: Arc::clone(prefix), upper }
    }

    /// Whether the range contains the key.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        &self.lower[..] <= key && self.upper.as_ref().is_none_or(|upper| key < &upper[..])
    }

    /// Whether a key may lie in both ranges.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let lower = (&self.lower).max(&other.lower);
        self.contains(lower) && other.contains(lower)
    }
}

/// The smallest key above `key`.
#[must_use]
pub fn successor(key: &[u8]) -> Shared {
    [key, b"\0"].concat().into()
}

/// One operation of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sets a value, until the expiry if there is one.
    Put {
        /// The key.
        key: Shared,
        /// The value.
        value: Shared,
        /// Expiry in ms since 1970.
        expiry_ms: Option<u64>,
    },
    /// Deletes a key.
    Delete {
        /// The key.
        key: Shared,
    },
    /// Deletes a key that was put once.
    SingleDelete {
        /// The key.
        key: Shared,
    },
    /// Deletes `start..end`.
    DeleteRange {
        /// The first key deleted.
        start: Shared,
        /// The first key that is not deleted.
        end: Shared,
    },
    /// Deletes the keys with a prefix; all keys, if it is empty.
    DeletePrefix {
        /// The prefix.
        prefix: Shared,
    },
    /// Adds a merge operand.
    Merge {
        /// The key.
        key: Shared,
        /// The operand.
        operand: Shared,
    },
}

impl Operation {
    /// The keys that the operation changes, present or not.
    #[must_use]
    pub fn span(&self) -> Span {
        match self {
            Self::Put { key, .. }
            | Self::Delete { key }
            | Self::SingleDelete { key }
            | Self::Merge { key, .. } => Span::of_key(key),
            Self::DeleteRange { start, end } => {
                Span { lower: Arc::clone(start), upper: Some(Arc::clone(end)) }
            }
            Self::DeletePrefix { prefix } => Span::of_prefix(prefix),
        }
    }

    fn is_range_deletion(&self) -> bool {
        matches!(self, Self::DeleteRange { .. } | Self::DeletePrefix { .. })
    }
}

#[derive(Clone, Debug)]
enum Effect {
    Put { value: Shared, expiry_ms: Option<u64> },
    Delete,
    Merge { operand: Shared },
}

#[derive(Clone, Debug)]
struct Version {
    commit: u64,
    effect: Effect,
}

/// The facts about a commit; its operations are kept with the keys.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The durability that the commit asked for.
    pub durability: Durability,
    /// Whether the commit wrote its number under the clock key.
    pub clock: Clock,
    /// The database's sequence number once it was acknowledged.
    pub sequence: u64,
    /// Whether `sequence` is that of its last operation. Otherwise it is an upper bound of that, or
    /// the commit is not in the log and left no trace.
    pub is_sequence_known: bool,
    /// Whether the log has its operations.
    pub is_logged: bool,
    /// Its operations, in order.
    pub operations: Arc<[(FamilyIndex, Operation)]>,
    /// The time of its acknowledgement, by the monotonic clock.
    pub acknowledged_ns: u64,
    /// The ranges that it deleted.
    deletions: Arc<[(FamilyIndex, Span)]>,
}

/// Whether a commit writes its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The commit writes it under the clock key.
    Written,
    /// The commit does not write it.
    Silent,
}

/// A moment at which the database can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The last visible commit.
    pub commit: u64,
    /// The wall time that decides expiry.
    pub wall_ms: u64,
    /// Volatile commits after this one are not visible, because a crash took them.
    pub flushed: u64,
}

/// The history of a database.
#[derive(Clone, Debug)]
pub struct Model {
    operator: Operator,
    commits: Vec<Commit>,
    in_doubt: bool,
    families: Vec<BTreeMap<Shared, Vec<Version>>>,
    /// The key order of each family; `None` for the order of bytes.
    key_orders: Vec<Option<&'static str>>,
}

impl Model {
    /// An empty database.
    #[must_use]
    pub fn new(operator: Operator) -> Self {
        let (families, key_orders) = (vec![BTreeMap::new()], vec![None]);
        Self { operator, commits: Vec::new(), in_doubt: false, families, key_orders }
    }

    /// Adds an empty family.
    pub fn add_family(&mut self, key_order: Option<&'static str>) -> FamilyIndex {
        self.families.push(BTreeMap::new());
        self.key_orders.push(key_order);
        FamilyIndex(self.families.len() - 1)
    }

    /// Whether a family was added.
    #[must_use]
    pub fn has_family(&self, family: FamilyIndex) -> bool {
        family.0 < self.families.len()
    }

    /// The key order of a family, by name; `None` for the order of bytes.
    #[must_use]
    pub fn key_order(&self, family: FamilyIndex) -> Option<&'static str> {
        self.key_orders[family.0]
    }

    /// Makes room for a new family that holds what `source` held after commit number `last`. Each
    /// commit up to that did the same to both.
    pub fn clone_family(&mut self, source: FamilyIndex, last: u64) -> FamilyIndex {
        let clone = self.add_family(self.key_order(source));
        let seen = |versions: &Vec<Version>| -> Vec<Version> {
            versions.iter().filter(|version| version.commit <= last).cloned().collect()
        };
        let versions = self.families[source.0].iter();
        let versions = versions.map(|(key, versions)| (Arc::clone(key), seen(versions)));
        let keys = versions.filter(|(_, versions)| !versions.is_empty()).collect();
        self.families[clone.0] = keys;
        for commit in self.commits.iter_mut().take(last as usize) {
            let deletions = commit.deletions.iter().filter(|(family, _)| *family == source);
            let more: Vec<_> = deletions.map(|(_, span)| (clone, span.clone())).collect();
            if !more.is_empty() {
                commit.deletions = commit.deletions.iter().cloned().chain(more).collect();
            }
        }
        clone
    }

    /// The number of the last commit that was acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.commits.len() as u64 - u64::from(self.in_doubt)
    }

    /// The number of the last commit that may have happened.
    #[must_use]
    pub fn possible(&self) -> u64 {
        self.commits.len() as u64
    }

    /// The commit number `number`, from 1 on.
    #[must_use]
    pub fn commit(&self, number: u64) -> Option<&Commit> {
        self.commits.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    /// Adds a commit that is in doubt until it is acknowledged, and returns its number. An earlier
    /// commit in doubt has then not happened.
    pub fn begin(
        &mut self,
        durability: Durability,
        clock: Clock,
        operations: &[(FamilyIndex, Operation)],
    ) -> u64 {
        self.truncate(self.acknowledged());
        let deletions = operations.iter().filter(|(_, operation)| operation.is_range_deletion());
        let deletions = deletions.map(|(family, operation)| (*family, operation.span())).collect();
        self.commits.push(Commit {
            durability,
            clock,
            sequence: 0,
            is_sequence_known: false,
            is_logged: durability != Durability::Volatile,
            operations: operations.into(),
            acknowledged_ns: 0,
            deletions,
        });
        self.in_doubt = true;
        let number = self.possible();
        for (family, operation) in operations {
            self.apply(number, *family, operation);
        }
        number
    }

    fn apply(&mut self, commit: u64, family: FamilyIndex, operation: &Operation) {
        let family = &mut self.families[family.0];
        let mut push = |key: &Shared, effect| {
            family.entry(Arc::clone(key)).or_default().push(Version { commit, effect });
        };
        match operation {
            Operation::Put { key, value, expiry_ms } => {
                push(key, Effect::Put { value: Arc::clone(value), expiry_ms: *expiry_ms });
            }
            Operation::Delete { key } | Operation::SingleDelete { key } => {
                push(key, Effect::Delete);
            }
            Operation::Merge { key, operand } => {
                push(key, Effect::Merge { operand: Arc::clone(operand) });
            }
            Operation::DeleteRange { start, end } if start < end => {
                let range = Arc::clone(start)..Arc::clone(end);
                for (_, versions) in family.range_mut(range) {
                    versions.push(Version { commit, effect: Effect::Delete });
                }
            }
            Operation::DeleteRange { .. } => {}
            Operation::DeletePrefix { prefix } => {
                let from = family.range_mut(Arc::clone(prefix)..);
                for (_, versions) in from.take_while(|(key, _)| key.starts_with(prefix)) {
                    versions.push(Version { commit, effect: Effect::Delete });
                }
            }
        }
    }

    /// Acknowledges the last commit. `sequence` is the database's sequence number after it.
    pub fn acknowledge(&mut self, sequence: u64, now_ns: u64) {
        if let Some(commit) = self.commits.last_mut() {
            commit.sequence = sequence;
            commit.is_sequence_known = true;
            commit.acknowledged_ns = now_ns;
        }
        self.in_doubt = false;
    }

    /// Notes that the last commit is an ingest, which goes past the log.
    pub fn goes_past_log(&mut self) {
        if let Some(commit) = self.commits.last_mut() {
            commit.is_logged = false;
        }
    }

    /// Removes all commits after number `last`. A commit in doubt that stays has happened.
    pub fn truncate(&mut self, last: u64) {
        self.in_doubt = false;
        if last >= self.possible() {
            return;
        }
        self.commits.truncate(last as usize);
        for family in &mut self.families {
            family.retain(|_, versions| {
                versions.retain(|version| version.commit <= last);
                !versions.is_empty()
            });
        }
    }

    /// Adopts the state that a recovery found: that after commit `last`, without the volatile
    /// commits after `flushed`, at sequence number `sequence`. Commits that changed nothing may be
    /// missing, so earlier commits may have had higher sequence numbers.
    pub fn recovered(&mut self, last: u64, flushed: u64, sequence: u64) {
        self.truncate(last);
        // The last commit may have been in doubt, and has a number by now.
        if let Some(commit) = self.commits.last_mut()
            && !commit.is_sequence_known
            && commit.sequence == 0
        {
            commit.sequence = sequence;
        }
        for commit in self.commits.iter_mut().filter(|commit| commit.sequence > sequence) {
            (commit.sequence, commit.is_sequence_known) = (sequence, false);
        }
        let Self { commits, families, .. } = self;
        for family in families {
            family.retain(|_, versions| {
                versions.retain(|version| !is_lost(commits, version.commit, flushed));
                !versions.is_empty()
            });
        }
    }

    /// Notes that the commits with numbers in `range` may be absent, because they left no trace.
    pub fn doubt(&mut self, range: RangeInclusive<u64>) {
        for number in range {
            if let Some(commit) = self.commits.get_mut(number as usize - 1) {
                commit.is_sequence_known = false;
            }
        }
    }

    /// The number of the first commit whose last sequence number may be `sequence` or greater.
    #[must_use]
    pub fn first_from(&self, sequence: u64) -> u64 {
        self.commits.partition_point(|commit| commit.sequence < sequence) as u64 + 1
    }

    /// Notes the sequence number of the last operation of commit number `number`.
    pub fn found(&mut self, number: u64, sequence: u64) {
        if let Some(commit) = self.commits.get_mut(number as usize - 1) {
            (commit.sequence, commit.is_sequence_known) = (sequence, true);
        }
    }

    /// Volatile commits with numbers in `range`.
    #[must_use]
    pub fn volatile(&self, range: RangeInclusive<u64>) -> Vec<u64> {
        range.filter(|number| is_volatile(&self.commits, *number)).collect()
    }

    /// Whether the last commit leaves the key put exactly once since its last deletion: the
    /// contract of a single deletion.
    #[must_use]
    pub fn was_put_once(&self, family: FamilyIndex, key: &[u8]) -> bool {
        let versions = self.families[family.0].get(key).map_or(&[][..], Vec::as_slice);
        let newest = versions.last().map(|version| &version.effect);
        let before = versions.len().checked_sub(2).map(|index| &versions[index].effect);
        matches!(newest, Some(Effect::Put { expiry_ms: None, .. }))
            && matches!(before, None | Some(Effect::Delete))
    }

    /// The value of a key.
    #[must_use]
    pub fn value(&self, family: FamilyIndex, key: &[u8], at: Moment) -> Option<Shared> {
        let versions = self.families[family.0].get(key)?;
        self.fold(versions, at)
    }

    /// The latest expiry of the values that have expired by a moment, and that nothing hides.
    #[must_use]
    pub fn last_expiry(&self, family: FamilyIndex, at: Moment) -> Option<u64> {
        let expired = self.families[family.0].values().filter_map(|versions| {
            let seen = versions.partition_point(|version| version.commit <= at.commit);
            let mut seen = versions[..seen].iter().rev();
            let newest = seen.find(|seen| !is_lost(&self.commits, seen.commit, at.flushed))?;
            match newest.effect {
                Effect::Put { expiry_ms, .. } => expiry_ms.filter(|ms| *ms <= at.wall_ms),
                _ => None,
            }
        });
        expired.max()
    }

    /// When the value that a key has at a moment expires. One that operands were applied to does
    /// not.
    #[must_use]
    pub fn expiry_ms(&self, family: FamilyIndex, key: &[u8], at: Moment) -> Option<u64> {
        let versions = self.families[family.0].get(key)?;
        let seen = versions.partition_point(|version| version.commit <= at.commit);
        let mut seen = versions[..seen].iter().rev();
        let newest = seen.find(|seen| !is_lost(&self.commits, seen.commit, at.flushed))?;
        match newest.effect {
            Effect::Put { expiry_ms, .. } => expiry_ms.filter(|ms| *ms > at.wall_ms),
            _ => None,
        }
    }

    /// The keys of a family whose values expire, and when.
    #[must_use]
    pub fn expiries(&self, family: FamilyIndex, at: Moment) -> BTreeMap<Shared, u64> {
        let expiry = |key| Some((Arc::clone(key), self.expiry_ms(family, key, at)?));
        self.keys(family).filter_map(expiry).collect()
    }

    fn fold(&self, versions: &[Version], at: Moment) -> Option<Shared> {
        let seen = versions.partition_point(|version| version.commit <= at.commit);
        let mut operands = Vec::new();
        let mut base = None;
        for version in versions[..seen].iter().rev() {
            if is_lost(&self.commits, version.commit, at.flushed) {
                continue;
            }
            match &version.effect {
                Effect::Merge { operand } => operands.push(operand),
                Effect::Delete => break,
                Effect::Put { value, expiry_ms } => {
                    base = Some(value).filter(|_| expiry_ms.is_none_or(|ms| ms > at.wall_ms));
                    break;
                }
            }
        }
        if operands.is_empty() {
            return base.cloned();
        }
        let mut value = base.map(|base| base.to_vec());
        for operand in operands.iter().rev() {
            value = Some(self.operator.apply(value.as_deref(), operand));
        }
        value.map(Shared::from)
    }

    /// All pairs of a family, in order.
    #[must_use]
    pub fn pairs(&self, family: FamilyIndex, at: Moment) -> Vec<(Shared, Shared)> {
        let versions = self.families[family.0].iter();
        let pair = |(key, versions): (&Shared, &Vec<Version>)| {
            Some((Arc::clone(key), self.fold(versions, at)?))
        };
        versions.filter_map(pair).collect()
    }

    /// One family as a transaction sees it: the state after commit `commit`, with the transaction's
    /// writes on top as the last commit.
    #[must_use]
    pub fn with_own(
        &self,
        family: FamilyIndex,
        commit: u64,
        writes: &[(FamilyIndex, Operation)],
    ) -> Self {
        let seen = |versions: &Vec<Version>| {
            let seen = versions.iter().filter(|version| version.commit <= commit);
            seen.cloned().collect::<Vec<_>>()
        };
        let versions = self.families[family.0].iter();
        let mut families = vec![BTreeMap::new(); self.families.len()];
        families[family.0] = versions.map(|(key, of)| (Arc::clone(key), seen(of))).collect();
        let commits = self.commits[..commit as usize].to_vec();
        let key_orders = self.key_orders.clone();
        let mut own =
            Self { operator: self.operator, commits, in_doubt: false, families, key_orders };
        let writes: Vec<_> = writes.iter().filter(|(of, _)| *of == family).cloned().collect();
        own.begin(Durability::Buffered, Clock::Silent, &writes);
        own
    }

    /// Whether a key of `span` has different values at two moments.
    #[must_use]
    pub fn differs(&self, family: FamilyIndex, span: &Span, moments: [Moment; 2]) -> bool {
        let keys = self.families[family.0].iter().filter(|(key, _)| span.contains(key));
        let values = keys.map(|(_, versions)| moments.map(|at| self.fold(versions, at)));
        values.into_iter().any(|[before, after]| before != after)
    }

    /// Whether a commit after number `after` wrote or deleted a key of `span`, present or not.
    #[must_use]
    pub fn touched(&self, family: FamilyIndex, span: &Span, after: u64) -> bool {
        let mut keys = self.families[family.0].iter().filter(|(key, _)| span.contains(key));
        let is_newer = |versions: &Vec<Version>| versions.iter().any(|one| one.commit > after);
        let mut deletions = self.commits[after as usize..].iter().flat_map(|one| &*one.deletions);
        keys.any(|(_, versions)| is_newer(versions))
            || deletions.any(|(of, deleted)| *of == family && deleted.overlaps(span))
    }

    /// Every key that a family ever had.
    pub fn keys(&self, family: FamilyIndex) -> impl Iterator<Item = &Shared> {
        self.families[family.0].keys()
    }
}

fn is_volatile(commits: &[Commit], number: u64) -> bool {
    let commit = number.checked_sub(1).and_then(|index| commits.get(index as usize));
    commit.is_some_and(|commit| commit.durability == Durability::Volatile)
}

/// Whether a commit was volatile and lost, if only volatile commits up to number `flushed`
/// survived.
fn is_lost(commits: &[Commit], number: u64, flushed: u64) -> bool {
    number > flushed && is_volatile(commits, number)
}

#[cfg(test)]
mod tests;
