//! A database under one option set, and what each operation shows.
//!
//! A text is all that can be seen of an operation: values, their order, the kind of an error, and
//! the newest sequence number. It says nothing of files, levels and times of the machine. An ingest
//! may take more than one number, if it begins again because of what lies in memtables. So numbers
//! are shown less those that ingests took besides.

use crate::{
    operations::{Look, Move, Operation, Place, SLOTS, Side, Source, Span, Step, Write},
    option_sets::{OptionSet, SETS},
    ordered::Ordered,
};
use siltdb::{
    BranchOptions, Db, Event, Family, Iter, MergeOptions, OnConflict, Options, Read, Result,
    RetentionFloor, Slice, Snapshot, SubscribeOptions, Subscription, Swap, Transaction, WriteBatch,
    archive,
};
use siltdb_base::{
    checksum::xxh3,
    clock::Clock,
    fs::mem::{Crash, MemFs},
};
use siltdb_sim::{keys::single_key, operator::Operator};
use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

const DIRECTORY: &str = "/data/db";

const BRANCH: &str = "work";

/// The families that always exist, and that of single deletes, which no other operation reaches.
const FAMILIES: [&str; 3] = ["default", "a", "b"];
const SINGLE: &str = "single";

/// Bytes that are shown as they are.
const SHOWN_BYTES_MAX: usize = 40;

/// A clock whose wall time operations set, whatever the engine waits for.
#[derive(Debug)]
struct SetClock {
    wall_ms: AtomicU64,
    monotonic_ns: AtomicU64,
}

impl SetClock {
    fn pass(&self, ms: u64) {
        // Relaxed, as all below: a reader sees the time before or after.
        self.wall_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for SetClock {
    fn wall_ms(&self) -> u64 {
        self.wall_ms.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        self.monotonic_ns.fetch_add(1000, Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4);
        self.monotonic_ns.fetch_add(ns, Ordering::Relaxed);
    }
}

/// Jobs that the engine has done in all openings.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobsDone {
    pub flushes: u64,
    pub compactions: u64,
    pub expiry_notes: u64,
}

/// A database and what is open in it.
pub struct World {
    set: OptionSet,
    fs: MemFs,
    clock: Arc<SetClock>,
    db: Db,
    open: Handles,
    ordered: Ordered,
    /// The keys of [`Operation::Single`] that have a value.
    is_put: [bool; 6],
    copies: u32,
    before: JobsDone,
    /// The newest sequence number after each operation.
    sequences: Vec<u64>,
    /// Sequence numbers that ingests took, but for one of each, and notes of expiry.
    void: u64,
}

/// What an opening ends.
struct Handles {
    snapshots: [Option<Snapshot>; SLOTS],
    transactions: [Option<Transaction>; SLOTS],
    iterators: [Option<Iter>; SLOTS],
    feed: Subscription,
}

impl Handles {
    fn new(db: &Db) -> Result<Self> {
        Ok(Self {
            snapshots: [const { None }; SLOTS],
            transactions: [const { None }; SLOTS],
            iterators: [const { None }; SLOTS],
            feed: db.subscribe(&SubscribeOptions::new())?,
        })
    }
}

/// What an operation has shown.
type Shown = Result<String>;

impl World {
    /// Creates the database of one option set.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn new(set: OptionSet) -> Result<Self> {
        let fs = MemFs::new();
        let clock = SetClock { wall_ms: AtomicU64::new(1_000_000), monotonic_ns: 1.into() };
        let clock = Arc::new(clock);
        let db = options(set, &fs, &clock).open(DIRECTORY)?;
        let (_, family) = set.options();
        for name in FAMILIES.into_iter().skip(1).chain([SINGLE]) {
            let options = family.clone().merge_operator(Arc::new(Operator::Append));
            db.create_family(name, options)?;
        }
        let ordered = Ordered::new(&db, family)?;
        let open = Handles::new(&db)?;
        let (is_put, copies, before) = ([false; 6], 0, JobsDone::default());
        let (sequences, void) = (Vec::new(), 0);
        Ok(Self { set, fs, clock, db, open, ordered, is_put, copies, before, sequences, void })
    }

    /// Carries out an operation, and returns what it has shown.
    pub fn run(&mut self, operation: &Operation) -> String {
        let (before, noted) = (self.db.snapshot().sequence(), self.jobs_done().expiry_notes);
        let mut text = match self.shown(operation) {
            Ok(text) => text,
            Err(error) => format!("error {:?}", error.kind()),
        };
        // When a reader notes an expiry, depends on what compactions have stored of the time.
        let notes = self.jobs_done().expiry_notes - noted;
        let after = self.db.snapshot().sequence();
        self.void += notes;
        if operation.ingests() {
            self.void += (after - before - notes).saturating_sub(1);
        }
        self.sequences.push(after);
        let _ = write!(text, " @{}", after - self.void);
        text
    }

    /// The jobs done so far.
    pub fn jobs_done(&self) -> JobsDone {
        let stats = self.db.stats();
        JobsDone {
            flushes: self.before.flushes + stats.flushes,
            compactions: self.before.compactions + stats.compactions,
            expiry_notes: self.before.expiry_notes + stats.expiry_notes,
        }
    }

    fn shown(&mut self, operation: &Operation) -> Shown {
        match operation {
            Operation::Write(place, write) => {
                let family = self.family(*place)?;
                self.write(&family, write)
            }
            Operation::Batch(writes) => {
                let mut batch = WriteBatch::new();
                for (place, write) in writes {
                    if let Ok(family) = self.family(*place) {
                        add(&mut batch, &family, write)?;
                    }
                }
                done(self.db.write(&batch))
            }
            Operation::Read(source, place, look) => self.read(*source, *place, look),
            Operation::Step(place, key, step) => self.step(*place, key, step),
            Operation::Single(index) => self.single(*index),
            Operation::Ordered(step) => self.ordered.run(&self.db, self.clock.wall_ms(), step),
            Operation::Begin(..)
            | Operation::Change(..)
            | Operation::ReadForUpdate(..)
            | Operation::Savepoint(_)
            | Operation::RollbackTo(_)
            | Operation::Commit(_)
            | Operation::Rollback(_)
            | Operation::Prepare(_)
            | Operation::Decide(..) => self.transaction(operation),
            Operation::Snapshot(slot) => {
                self.open.snapshots[*slot] = Some(self.db.snapshot());
                Ok("taken".to_owned())
            }
            Operation::DropSnapshot(slot) => {
                Ok(self.open.snapshots[*slot].take().is_some().to_string())
            }
            Operation::Hold(slot, place, span) => {
                let iterator = self.family(*place)?.range(range(span))?;
                self.open.iterators[*slot] = Some(iterator);
                Ok("held".to_owned())
            }
            Operation::Walk(slot, count, side) => {
                let Some(iterator) = &mut self.open.iterators[*slot] else { return none() };
                match side {
                    Side::Lt | Side::Le => pairs(iterator.rev().take(*count)),
                    Side::Gt | Side::Ge => pairs(iterator.take(*count)),
                }
            }
            _ => self.upkeep(operation),
        }
    }

    fn upkeep(&mut self, operation: &Operation) -> Shown {
        match operation {
            Operation::Pass(ms) => {
                self.clock.pass(*ms);
                Ok("passed".to_owned())
            }
            Operation::Flush => done(self.db.flush()),
            Operation::CompactAll => done(self.db.compact()),
            Operation::Compact(place, span) => {
                done(self.family(*place)?.compact_range(range(span)))
            }
            Operation::RunJobs(count) => {
                for _ in 0..*count {
                    self.db.run_job()?;
                }
                Ok("run".to_owned())
            }
            Operation::Settle => done(self.db.settle()),
            Operation::Close => self.reopen(End::Close),
            Operation::Kill => self.reopen(End::Kill),
            Operation::Floor(is_set) => {
                let floor = if *is_set { RetentionFloor::Now } else { RetentionFloor::None };
                Ok(format!("floor {}", self.db.set_retention_floor(floor)?.is_some()))
            }
            Operation::Feed => self.feed(),
            Operation::Check => {
                let report = self.db.check(&mut |_| {})?;
                Ok(format!("{:?}", report.errors))
            }
            Operation::All => Self::all(&self.db),
            _ => self.copies(operation),
        }
    }

    /// Operations that copy families, or bring entries from elsewhere.
    fn copies(&mut self, operation: &Operation) -> Shown {
        match operation {
            Operation::Clone(place, number) => {
                let source = self.family(*place)?;
                done(self.db.clone_family(&source, &clone_name(*number)).map(|_| ()))
            }
            Operation::CloneAt(slot, place, number) => {
                let source = self.family(*place)?;
                let Some(at) = &self.open.snapshots[*slot] else { return none() };
                done(self.db.clone_family_at(at, &source, &clone_name(*number)).map(|_| ()))
            }
            Operation::DropClone(number) => done(self.db.drop_family(&clone_name(*number))),
            Operation::Branch => {
                let options = BranchOptions::new().families(["default", "a"]);
                done(self.db.create_branch_with(BRANCH, &options).map(|_| ()))
            }
            Operation::DropBranch => done(self.db.drop_branch(BRANCH)),
            Operation::MergeBranch(rule) => {
                let rules = [OnConflict::Refuse, OnConflict::Ours, OnConflict::Theirs];
                let options = MergeOptions::new().on_conflict(rules[usize::from(*rule)]);
                shown(self.db.merge_branch_with(BRANCH, &options)?)
            }
            Operation::Diff => {
                let mut text = String::new();
                for difference in self.db.diff("main", BRANCH)? {
                    let difference = difference?;
                    let _ = write!(text, "{}:{}", difference.family, brief(&difference.key));
                    for value in [&difference.left, &difference.right] {
                        let value = value.as_ref().map(|value| (&value.value, value.expiry_ms));
                        let _ = write!(text, "{:?}", value.map(|(v, at)| (brief(v), at)));
                    }
                }
                Ok(summary(text))
            }
            Operation::Ingest(place, entries) => {
                let ingested = self.family(*place)?.ingest_sorted(entries.iter().cloned())?;
                Ok(format!("{} ingested", ingested.entries))
            }
            Operation::Checkpoint => self.checkpoint(),
            Operation::Archive => self.archive(),
            other => unreachable!("{other:?} is carried out before"),
        }
    }

    fn family(&self, place: Place) -> Result<Family> {
        match place {
            Place::Main(index) => self.db.family(FAMILIES[usize::from(index)]),
            Place::Clone(number) => self.db.family(&clone_name(number)),
            Place::Branch(index) => self.db.branch(BRANCH)?.family(FAMILIES[usize::from(index)]),
        }
    }

    fn write(&self, family: &Family, write: &Write) -> Shown {
        done(match write {
            Write::Put(key, value) => family.put(key, value),
            Write::PutFor(key, value, ms) => family.put_for(key, value, Duration::from_millis(*ms)),
            Write::Delete(key) => family.delete(key),
            Write::DeleteRange(span) => family.delete_range(range(span)),
            Write::DeletePrefix(prefix) => family.delete_prefix(prefix),
            Write::Merge(key, operand) => family.merge(key, operand),
        })
    }

    fn single(&mut self, index: u8) -> Shown {
        let (family, key) = (self.db.family(SINGLE)?, single_key(index));
        let found = brief_of(family.get(&key)?.as_ref());
        let mut batch = WriteBatch::new();
        if self.is_put[usize::from(index)] {
            batch.single_delete(&family, &key)?;
        } else {
            batch.put(&family, &key, b"once")?;
        }
        self.db.write(&batch)?;
        self.is_put[usize::from(index)] ^= true;
        Ok(format!("{found}, now {}", brief_of(family.get(&key)?.as_ref())))
    }

    fn step(&self, place: Place, key: &[u8], step: &Step) -> Shown {
        let family = self.family(place)?;
        match step {
            Step::PutIfAbsent(value) => Ok(brief_of(family.put_if_absent(key, value)?.as_ref())),
            Step::Swap(value, fits) => {
                let old = family.get(key)?;
                let expected = if *fits { old.as_deref() } else { Some(&b"never"[..]) };
                Ok(swapped(&family.compare_and_swap(key, expected, Some(value))?))
            }
            Step::Take => Ok(brief_of(family.take(key)?.as_ref())),
            Step::PopFirst => pair(family.pop_first()?),
            Step::PopLast => pair(family.pop_last()?),
            Step::NextId => Ok(family.next_id("/ids")?.to_string()),
        }
    }

    fn transaction(&mut self, operation: &Operation) -> Shown {
        let slots = &mut self.open.transactions;
        match operation {
            Operation::Begin(slot, isolation) => {
                slots[*slot] = Some(self.db.begin(*isolation));
                return Ok("began".to_owned());
            }
            Operation::Decide(slot, commits) => {
                let id = format!("p{slot}");
                return match commits {
                    true => done(self.db.commit_prepared(id).map(|_| ())),
                    false => done(self.db.rollback_prepared(id)),
                };
            }
            _ => {}
        }
        let (Operation::Change(slot, ..)
        | Operation::ReadForUpdate(slot, ..)
        | Operation::Savepoint(slot)
        | Operation::RollbackTo(slot)
        | Operation::Commit(slot)
        | Operation::Rollback(slot)
        | Operation::Prepare(slot)) = operation
        else {
            unreachable!("{operation:?} is not of a transaction");
        };
        let Some(open) = slots[*slot].clone() else { return none() };
        match operation {
            Operation::Change(_, place, write) => {
                let open = open.family(&self.family(*place)?)?;
                return done(change(&open, write));
            }
            Operation::ReadForUpdate(_, place, key) => {
                let open = open.family(&self.family(*place)?)?;
                return Ok(brief_of(open.get_for_update(key)?.as_ref()));
            }
            Operation::Savepoint(_) => return done(open.savepoint("s")),
            Operation::RollbackTo(_) => return done(open.rollback_to("s")),
            _ => {}
        }
        self.open.transactions[*slot] = None;
        match operation {
            Operation::Commit(_) => {
                let written = open.written();
                open.commit()?;
                Ok(format!("committed {written}"))
            }
            Operation::Rollback(_) => done(open.rollback()),
            _ => {
                let prepared = open.prepare(format!("p{slot}"))?;
                Ok(format!("{} prepared", prepared.operations()))
            }
        }
    }

    fn read(&self, source: Source, place: Place, look: &Look) -> Shown {
        let family = self.family(place)?;
        match source {
            Source::Newest => looked(&family, look),
            Source::Snapshot(slot) => match &self.open.snapshots[slot] {
                Some(snapshot) => looked(&snapshot.family(&family)?, look),
                None => none(),
            },
            Source::Transaction(slot) => match &self.open.transactions[slot] {
                Some(transaction) => looked(&transaction.family(&family)?, look),
                None => none(),
            },
            Source::Past(back) => {
                let at = self.sequences.iter().rev().nth(back).copied().unwrap_or(0);
                looked(&self.db.snapshot_at(at)?.family(&family)?, look)
            }
        }
    }

    fn feed(&mut self) -> Shown {
        let mut text = String::new();
        while let Some(event) = self.open.feed.try_next()? {
            // Other events are the numbers of an ingest, one or several.
            if let Event::Commit(commit) = event {
                for change in commit.changes() {
                    let (key, action) = (change.operation.key, change.operation.action);
                    let _ = write!(text, "{} {action:?}", brief(key));
                }
                let _ = write!(text, "{:?}", commit.families().len());
            }
        }
        Ok(summary(text))
    }

    fn checkpoint(&mut self) -> Shown {
        self.copies += 1;
        let dir = format!("/data/checkpoint{}", self.copies);
        self.db.checkpoint(&dir)?;
        // All tables are hot in the copy, whatever the set.
        let copy = options(SETS[1], &self.fs, &self.clock).open(&dir)?;
        Self::all(&copy)
    }

    fn archive(&mut self) -> Shown {
        self.copies += 1;
        let path = format!("/data/{}.siltar", self.copies);
        let made = self.db.archive(&path)?;
        let read_by = options(self.set, &self.fs, &self.clock);
        let archive = archive::Archive::open_with(&path, &read_by)?;
        let mut text = String::new();
        for family in &made.families {
            let entries = pairs(archive.family(&family.name)?.iter()?)?;
            let _ = write!(text, "{} {entries};", family.name);
        }
        archive::remove(&path, &read_by)?;
        Ok(text)
    }

    /// All that `db` has.
    fn all(db: &Db) -> Shown {
        let mut text = String::new();
        for name in db.families() {
            let family = db.family(&name)?;
            let (forward, backward) = (pairs(family.iter()?)?, pairs(family.iter()?.rev())?);
            let count = family.count(..)?;
            let _ = write!(text, "{name} {count} {forward} {backward};");
        }
        for branch in db.branches() {
            for name in &branch.families {
                let family = db.branch(&branch.name)?.family(name)?;
                let _ = write!(text, "{}/{name} {};", branch.name, pairs(family.iter()?)?);
            }
        }
        let _ = write!(text, "{} prepared", db.prepared().len());
        Ok(text)
    }

    fn reopen(&mut self, end: End) -> Shown {
        self.before = self.jobs_done();
        let fs = match end {
            End::Close => self.fs.clone(),
            End::Kill => self.fs.crash_clone(Crash::Kill),
        };
        let killed = std::mem::replace(&mut self.fs, fs);
        let nowhere = Options::new().workers(0).fs(Arc::new(MemFs::new())).open("none")?;
        self.open = Handles::new(&nowhere)?;
        let closed = std::mem::replace(&mut self.db, nowhere);
        if matches!(end, End::Close) {
            closed.close()?;
        } else {
            drop((closed, killed));
        }
        let opened = options(self.set, &self.fs, &self.clock).open(DIRECTORY);
        self.db = opened.unwrap_or_else(|error| panic!("it does not open: {error}"));
        self.open = Handles::new(&self.db)?;
        Self::all(&self.db)
    }
}

/// How an opening ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Close,
    Kill,
}

fn options(set: OptionSet, fs: &MemFs, clock: &Arc<SetClock>) -> Options {
    let (database, family) = set.options();
    let operator = Arc::new(Operator::Append);
    database
        .fs(Arc::new(fs.clone()))
        .clock(Arc::clone(clock) as Arc<_>)
        .default_family(family.merge_operator(operator))
}

fn clone_name(number: u8) -> String {
    format!("clone{number}")
}

fn range(span: &Span) -> std::ops::Range<&[u8]> {
    &span.from[..]..&span.to[..]
}

fn add(batch: &mut WriteBatch, family: &Family, write: &Write) -> Result<()> {
    match write {
        Write::Put(key, value) => batch.put(family, key, value),
        Write::PutFor(key, value, ms) => {
            batch.put_for(family, key, value, Duration::from_millis(*ms))
        }
        Write::Delete(key) => batch.delete(family, key),
        Write::DeleteRange(span) => batch.delete_range(family, range(span)),
        Write::DeletePrefix(prefix) => batch.delete_prefix(family, prefix),
        Write::Merge(key, operand) => batch.merge(family, key, operand),
    }
}

fn change(open: &Transaction, write: &Write) -> Result<()> {
    match write {
        Write::Put(key, value) => open.put(key, value),
        Write::PutFor(key, value, ms) => open.put_for(key, value, Duration::from_millis(*ms)),
        Write::Delete(key) => open.delete(key),
        Write::DeleteRange(span) => open.delete_range(range(span)),
        Write::DeletePrefix(prefix) => open.delete_prefix(prefix),
        Write::Merge(key, operand) => open.merge(key, operand),
    }
}

fn looked(from: &impl Read, look: &Look) -> Shown {
    match look {
        Look::Get(key) => Ok(brief_of(from.get(key)?.as_ref())),
        Look::GetMany(keys) => {
            let values = from.get_many(keys)?;
            let values = values.iter().map(|value| brief_of(value.as_ref()));
            Ok(values.collect::<Vec<_>>().join(" "))
        }
        Look::Contains(key) => Ok(from.contains(key)?.to_string()),
        Look::Neighbour(Side::Lt, key) => pair(from.get_lt(key)?),
        Look::Neighbour(Side::Le, key) => pair(from.get_le(key)?),
        Look::Neighbour(Side::Gt, key) => pair(from.get_gt(key)?),
        Look::Neighbour(Side::Ge, key) => pair(from.get_ge(key)?),
        Look::Ends => Ok([pair(from.first()?)?, pair(from.last()?)?].join(" ")),
        Look::Count(span) => Ok(from.count(range(span))?.to_string()),
        Look::Forward(span, count) => pairs(from.range(range(span))?.take(*count)),
        Look::Backward(span, count) => pairs(from.range(range(span))?.rev().take(*count)),
        Look::Keys(span) => {
            let mut text = String::new();
            for key in from.range(range(span))?.keys() {
                let _ = write!(text, "{} ", brief(&key?));
            }
            Ok(summary(text))
        }
        Look::Prefix(prefix) => pairs(from.prefix(prefix)?),
        Look::Cursor(moves) => {
            let mut cursor = from.cursor()?;
            let mut text = String::new();
            for a_move in moves {
                match a_move {
                    Move::First => cursor.seek_to_first()?,
                    Move::Last => cursor.seek_to_last()?,
                    Move::Seek(key) => cursor.seek(key)?,
                    Move::SeekForPrev(key) => cursor.seek_for_prev(key)?,
                    // A move from nowhere is a mistake of the caller.
                    Move::Next | Move::Prev if cursor.key().is_none() => {}
                    Move::Next => cursor.next()?,
                    Move::Prev => cursor.prev()?,
                }
                let at = cursor.entry().map(|(key, value)| (brief(key), brief(value)));
                let _ = write!(text, "{at:?} ");
            }
            Ok(summary(text))
        }
    }
}

fn done(result: Result<()>) -> Shown {
    result.map(|()| "done".to_owned())
}

fn none() -> Shown {
    Ok("nothing there".to_owned())
}

fn shown(what: impl std::fmt::Debug) -> Shown {
    Ok(summary(format!("{what:?}")))
}

fn swapped(swap: &Swap) -> String {
    match swap {
        Swap::Swapped => "swapped".to_owned(),
        Swap::Differs(value) => format!("differs: {}", brief_of(value.as_ref())),
    }
}

fn pair(pair: Option<(Slice, Slice)>) -> Shown {
    Ok(match pair {
        Some((key, value)) => format!("{}={}", brief(&key), brief(&value)),
        None => "none".to_owned(),
    })
}

/// All pairs, by their number and a hash; the first of them as it is.
fn pairs(entries: impl Iterator<Item = Result<(Slice, Slice)>>) -> Shown {
    let (mut text, mut count) = (String::new(), 0);
    for entry in entries {
        let (key, value) = entry?;
        let _ = write!(text, "{}={} ", brief(&key), brief(&value));
        count += 1;
    }
    Ok(format!("{count}: {}", summary(text)))
}

fn brief_of(value: Option<&Slice>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| brief(value))
}

/// Bytes, or the first of them, their length and a hash.
fn brief(bytes: &[u8]) -> String {
    match bytes.get(..SHOWN_BYTES_MAX) {
        Some(first) => {
            format!("{}… {} {:x}", first[..12].escape_ascii(), bytes.len(), xxh3(bytes))
        }
        None => bytes.escape_ascii().to_string(),
    }
}

/// A text, or its beginning, its length and a hash.
fn summary(text: String) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}… {} {:x}", &text[..end], text.len(), xxh3(text.as_bytes())),
        None => text,
    }
}
