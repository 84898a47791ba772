//! Steps of buckets: calls on a family and in transactions, and comparisons of whole trees.
//!
//! `buckets` is their model.

use crate::{
    buckets::{
        BucketAnswer, BucketCall, BucketContents, BucketPath, BucketState, RECLAIMED_AT_ONCE,
    },
    draw::Draw,
    keys::value,
    model::{Clock, FamilyIndex, Moment, Shared},
    plan::{Form, Planned},
    run::Run,
    transaction::{Look, OpenTransaction},
    violation::{Checked, Violation, must},
};
use siltdb::{Bucket, BucketTarget, Durability, ErrorKind, Family, Isolation, Snapshot};

/// Names of buckets.
const NAMES: [&[u8]; 3] = [b"a", b"\0", b"\xff/"];

/// Longest path.
const DEPTH_MAX: u64 = 4;

/// Longest value in a bucket, in bytes.
const VALUE_BYTES_MAX: usize = 300;

impl Run {
    /// Changes buckets of a family, or compares all of them.
    pub(crate) fn use_buckets(&mut self) -> Checked<()> {
        if self.visible > self.model.acknowledged() {
            // Readers see the commit in doubt: the database is poisoned, and takes no other.
            return self.read();
        }
        let family = self.bucket_family();
        if self.draw.chance(1, 3) {
            return self.look_at_buckets(family);
        }
        for _ in 0..self.draw.within(1..=8) {
            if !self.database.families.contains_key(&family) || self.poisoned {
                break;
            }
            self.change_bucket(family)?;
        }
        Ok(())
    }

    /// Mostly one of the first two families, so that calls meet the same buckets. A family with a
    /// key order has none.
    fn bucket_family(&mut self) -> FamilyIndex {
        let may_have = |index: &FamilyIndex| self.model.key_order(*index).is_none();
        let indexes: Vec<_> = self.database.families.keys().copied().filter(may_have).collect();
        let is_first = self.draw.chance(7, 8);
        self.draw.pick(if is_first { &indexes[..indexes.len().min(2)] } else { &indexes })
    }

    /// The buckets of a family now.
    fn bucket_state(&self, family: FamilyIndex, at: Moment) -> BucketState {
        BucketState::new(self.model.pairs(family, at))
    }

    fn change_bucket(&mut self, family: FamilyIndex) -> Checked<()> {
        let mut state = self.bucket_state(family, self.now());
        let (path, call) = draw_call(&mut self.draw, &state);
        let had = state.contents(&path).unwrap_or_default();
        let expected = state.call(&path, &call, RECLAIMED_AT_ONCE);
        let operations: Vec<_> = state.operations.into_iter().map(|one| (family, one)).collect();
        if self.is_locked(&operations) {
            // Such a call waits longer than a run can.
            self.end_lockers();
        }
        self.note(format!("bucket {path:?} of #{}: {call:?} gives {expected:?}", family.0));
        let (form, durability) = (Form::Batch, Durability::Buffered);
        let planned = Planned { operations, form, durability, clock: Clock::Silent };
        let handle = self.database.families[&family].clone();
        let done = self.commit_planned(&planned, |_| {
            let bucket = handle.bucket(&path)?;
            answer_or_kind(carry_out(&bucket, &call))
        })?;
        let Some(found) = done else { return Ok(()) };
        compare_answers(&call, &found, &expected)?;
        self.count_call(&call, &found, &had);
        Ok(())
    }

    fn count_call(
        &mut self,
        call: &BucketCall,
        found: &Result<BucketAnswer, ErrorKind>,
        had: &BucketContents,
    ) {
        let counts = &mut self.report.buckets;
        match (found, call) {
            (Err(_), _) => counts.refused += 1,
            (Ok(_), BucketCall::Create | BucketCall::CreateIfMissing) => counts.made += 1,
            (Ok(_), BucketCall::Rename(_)) => counts.moved += 1,
            (Ok(_), BucketCall::Remove) => {
                counts.removed += 1;
                counts.removed_nested += u64::from(!had.children.is_empty());
            }
            (Ok(_), BucketCall::NextId) => counts.ids += 1,
            (Ok(_), _) => counts.keys += 1,
        }
    }

    /// Changes a bucket in a transaction. The entries on its path count as read.
    pub(crate) fn use_buckets_in(&mut self, open: &mut OpenTransaction) -> Checked<()> {
        let family = self.bucket_family();
        let handle = self.database.families[&family].clone();
        let (shape, key_count) = (self.settings.key_shape, self.settings.key_count);
        let look = Look { family, handle: &handle, now: self.now(), shape, key_count };
        let own = open.own_model(&self.model, &look);
        let mut state = BucketState::new(own.pairs(family, open.sees(&own, &look)));
        let (path, call) = draw_call(&mut self.draw, &state);
        let had = state.contents(&path).unwrap_or_default();
        let may_write = matches!(
            open.transaction.isolation(),
            Isolation::RepeatableRead | Isolation::Serializable
        );
        let expected = match may_write {
            true => state.call(&path, &call, 0),
            false => Err(ErrorKind::InvalidArgument),
        };
        let to = must(open.transaction.family(&handle), "a family in a transaction")?;
        let bucket = must(to.bucket(&path), "a bucket of a transaction")?;
        // The call may have read any of the family's keys, also if it fails.
        open.read_anything(family);
        let found = match answer_or_kind(carry_out(&bucket, &call)) {
            Err(error) if self.excuse().kinds().contains(&error.kind()) => {
                // A failed call leaves nothing in the transaction.
                return Ok(());
            }
            found => must(found, "a bucket of a transaction")?,
        };
        compare_answers(&call, &found, &expected)?;
        if found.is_ok() {
            for key in &state.way_keys {
                open.read_key(family, key);
            }
            let operations = state.operations.into_iter();
            open.writes.extend(operations.map(|operation| (family, operation)));
            self.report.buckets.in_transactions += 1;
        }
        self.count_call(&call, &found, &had);
        Ok(())
    }

    /// Compares all buckets of a family, now or at a snapshot.
    fn look_at_buckets(&mut self, family: FamilyIndex) -> Checked<()> {
        let held = match self.snapshots.is_empty() || self.draw.chance(1, 2) {
            true => None,
            false => Some(&self.snapshots[self.draw.index(self.snapshots.len())]),
        };
        let held = held.and_then(|held| Some((held, held.families.get(&family)?)));
        let at = held.map_or_else(|| self.now(), |(held, _)| held.at);
        let state = self.bucket_state(family, at);
        let absent = draw_path(&mut self.draw);
        let handle = &self.database.families[&family];
        let compare = || match held {
            Some((held, handle)) => {
                let snapshot = must(held.snapshot.family(handle), "a family in a snapshot")?;
                compare_tree(&state, &absent, |path| contents_of_snapshot(&snapshot, path))
            }
            None => compare_tree(&state, &absent, |path| contents_of_family(handle, path)),
        };
        let faults = self.database.fs.faults();
        let mut compared = compare();
        if self.database.fs.faults() > faults {
            // A call failed meanwhile. It must leave nothing wrong behind.
            compared = compare();
        }
        let what = |violation: Violation| {
            violation.during(format!("buckets of family #{} at commit {}", family.0, at.commit))
        };
        let count = compared.map_err(what)?;
        self.report.buckets.trees += 1;
        let before = self.bucket_state(family, Moment { commit: self.opened_at, ..at });
        let is_older = before.contents(&[]).is_some_and(|root| !root.children.is_empty());
        self.report.buckets.trees_after_opening += u64::from(count > 0 && is_older);
        Ok(())
    }
}

fn draw_path(draw: &mut Draw) -> BucketPath {
    let depth = draw.within(0..=DEPTH_MAX);
    (0..depth).map(|_| Shared::from(draw.pick(&NAMES))).collect()
}

/// Mostly the path of an existing bucket, of up to `depth_max` names.
fn draw_known_path(draw: &mut Draw, state: &BucketState, depth_max: u64) -> BucketPath {
    if draw.chance(1, 12) {
        return draw_path(draw);
    }
    let mut path = BucketPath::new();
    for _ in 0..draw.within(1..=depth_max) {
        let children = state.contents(&path).unwrap_or_default().children;
        if children.is_empty() {
            break;
        }
        path.push(children[draw.index(children.len())].clone());
    }
    path
}

fn draw_call(draw: &mut Draw, state: &BucketState) -> (BucketPath, BucketCall) {
    let key: Shared = [draw.below(6) as u8, 0xff][..draw.index(3)].into();
    let known = |draw: &mut Draw| draw_known_path(draw, state, DEPTH_MAX);
    let new = |draw: &mut Draw| {
        let mut path = draw_known_path(draw, state, DEPTH_MAX - 1);
        path.push(Shared::from(draw.pick(&NAMES)));
        path
    };
    match draw.below(20) {
        0..3 => (new(draw), BucketCall::Create),
        3..6 => (draw_path(draw), BucketCall::CreateIfMissing),
        6..9 => (known(draw), BucketCall::Rename(new(draw))),
        9 => (draw_known_path(draw, state, 1), BucketCall::Remove),
        10 => (known(draw), BucketCall::Remove),
        11..15 => {
            let value = value(draw, VALUE_BYTES_MAX);
            (known(draw), BucketCall::Put(key, value))
        }
        15 => (known(draw), BucketCall::Delete(key)),
        16 => (known(draw), BucketCall::DeleteFrom(key)),
        17 => (known(draw), BucketCall::Take(key)),
        _ => (known(draw), BucketCall::NextId),
    }
}

fn carry_out<S: BucketTarget>(
    bucket: &Bucket<S>,
    call: &BucketCall,
) -> siltdb::Result<BucketAnswer> {
    match call {
        BucketCall::Create => bucket.create()?,
        BucketCall::CreateIfMissing => bucket.create_if_missing()?,
        BucketCall::Rename(to) => drop(bucket.rename(to)?),
        BucketCall::Remove => bucket.remove()?,
        BucketCall::Put(key, value) => bucket.put(key, value)?,
        BucketCall::Delete(key) => bucket.delete(key)?,
        BucketCall::DeleteFrom(key) => bucket.delete_range(&**key..)?,
        BucketCall::Take(key) => {
            let value = bucket.take(key)?;
            return Ok(BucketAnswer::Value(value.map(|value| Shared::from(&*value))));
        }
        BucketCall::NextId => return bucket.next_id().map(BucketAnswer::Id),
    }
    Ok(BucketAnswer::Done)
}

/// Turns the errors that belong to the contract of a call into answers.
fn answer_or_kind(
    answer: siltdb::Result<BucketAnswer>,
) -> siltdb::Result<Result<BucketAnswer, ErrorKind>> {
    match answer {
        Err(error) => match error.kind() {
            kind
            @ (ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::InvalidArgument) => {
                Ok(Err(kind))
            }
            _ => Err(error),
        },
        Ok(answer) => Ok(Ok(answer)),
    }
}

fn compare_answers(
    call: &BucketCall,
    found: &Result<BucketAnswer, ErrorKind>,
    expected: &Result<BucketAnswer, ErrorKind>,
) -> Checked<()> {
    if found == expected {
        return Ok(());
    }
    Err(Violation::new(format!("bucket {call:?}: found {found:?}, expected {expected:?}")))
}

/// The contents of a bucket, or the error `NotFound`.
type Contents = siltdb::Result<BucketContents>;

fn contents(
    children: siltdb::Result<Vec<Vec<u8>>>,
    pairs: impl IntoIterator<Item = siltdb::Result<(siltdb::Slice, siltdb::Slice)>>,
) -> Contents {
    let children = children?.into_iter().map(Shared::from).collect();
    let pairs = pairs.into_iter().map(|pair| {
        let (key, value) = pair?;
        Ok((Shared::from(&*key), Shared::from(&*value)))
    });
    Ok(BucketContents { children, pairs: pairs.collect::<siltdb::Result<_>>()? })
}

fn contents_of_family(family: &Family, path: &[Shared]) -> Contents {
    let bucket = family.bucket(path)?;
    let pairs = if path.is_empty() { None } else { Some(bucket.range(..)?) };
    contents(bucket.children(), pairs.into_iter().flatten())
}

fn contents_of_snapshot(snapshot: &Snapshot, path: &[Shared]) -> Contents {
    let bucket = snapshot.bucket(path)?;
    let pairs = if path.is_empty() { None } else { Some(bucket.range(..)?) };
    contents(bucket.children(), pairs.into_iter().flatten())
}

/// Compares every bucket, and `other`, which need not exist. Returns the number of buckets.
fn compare_tree(
    state: &BucketState,
    other: &[Shared],
    read: impl Fn(&[Shared]) -> Contents,
) -> Checked<u64> {
    let found = read(other).map_err(|error| error.kind());
    let expected = state.contents(other).ok_or(ErrorKind::NotFound);
    if found != expected {
        let message = format!("{other:?} has {found:?}, expected {expected:?}");
        return Err(Violation::new(message));
    }
    let mut todo = vec![BucketPath::new()];
    let mut count = 0;
    while let Some(path) = todo.pop() {
        let found = must(read(&path), "reading a bucket")?;
        let expected = state.contents(&path).unwrap_or_default();
        if found != expected {
            let message = format!("{path:?} has {found:?}, expected {expected:?}");
            return Err(Violation::new(message));
        }
        count += u64::from(!path.is_empty());
        todo.extend(found.children.into_iter().map(|name| [&path[..], &[name]].concat()));
    }
    Ok(count)
}
