//! The counts of a simulation: a run that crashed nothing proves nothing.
//!
//! It counts and adds up; other modules judge promises.

use crate::counts::{
    Archives, Buckets, Checkpoints, Copies, Feeds, Guests, Locks, SingleKeys, Tiers,
};
use std::fmt;

/// The engine's work at the time of a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing: between two operations.
    Idle,
    /// A commit.
    Commit,
    /// The commit of a transaction.
    Transaction,
    /// A flush of memtables, from the freeze to the edit.
    Flush,
    /// A compaction.
    Compaction,
    /// Any change of the manifest.
    Install,
    /// The creation, renaming or dropping of a family.
    Family,
    /// A family being cloned, from its flush to the edit.
    Clone,
    /// Recovery at open.
    Recovery,
    /// A checkpoint.
    Checkpoint,
    /// A backup.
    Backup,
    /// An ingest.
    Ingest,
    /// A family being frozen or thawed.
    Tier,
    /// A copy of the directory being used.
    Copy,
    /// A sync on demand, a close, and jobs that neither flush nor compact.
    Other,
}

const PHASES: [(Phase, &str); 15] = [
    (Phase::Idle, "idle"),
    (Phase::Commit, "commit"),
    (Phase::Transaction, "transaction"),
    (Phase::Flush, "flush"),
    (Phase::Compaction, "compaction"),
    (Phase::Install, "install"),
    (Phase::Family, "family"),
    (Phase::Clone, "clone"),
    (Phase::Recovery, "recovery"),
    (Phase::Checkpoint, "checkpoint"),
    (Phase::Backup, "backup"),
    (Phase::Ingest, "ingest"),
    (Phase::Tier, "tier"),
    (Phase::Copy, "copy"),
    (Phase::Other, "other"),
];

/// The phases in which a complete simulation must have crashed.
const REQUIRED: [Phase; 14] = [
    Phase::Idle,
    Phase::Commit,
    Phase::Transaction,
    Phase::Flush,
    Phase::Compaction,
    Phase::Install,
    Phase::Family,
    Phase::Clone,
    Phase::Recovery,
    Phase::Checkpoint,
    Phase::Backup,
    Phase::Ingest,
    Phase::Tier,
    Phase::Copy,
];

/// Counts of operations and checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Runs finished.
    pub runs: u64,
    /// Crash states opened and checked, by phase.
    pub crashes: [u64; PHASES.len()],
    /// Of these, power losses; the others are kills.
    pub power_losses: u64,
    /// Crash states taken inside the recovery of another crash state.
    pub nested: u64,
    /// Commits acknowledged.
    pub commits: u64,
    /// Of these, acknowledged as synced.
    pub commits_synced: u64,
    /// Of these, ingests.
    pub ingests: u64,
    /// Of these, ingests into several families.
    pub ingests_of_several: u64,
    /// Of these, those that created a family, and may have dropped one.
    pub families_committed: u64,
    /// Of these, those by a transaction that applied a batch.
    pub families_of_transactions: u64,
    /// Commits acknowledged after a failed call, by a database that was not reopened.
    pub commits_resumed: u64,
    /// Commits that were in progress at a crash and were found after it.
    pub in_flight_kept: u64,
    /// Commits that a power loss took and may take.
    pub commits_lost: u64,
    /// Unflushed volatile commits that a crash took.
    pub volatile_lost: u64,
    /// Recoveries, each followed by a comparison of everything.
    pub recoveries: u64,
    /// Salvages compared with what a recovery of the same files holds.
    pub salvages: u64,
    /// Salvages with a damaged table, compared with those without retired log segments.
    pub rescues: u64,
    /// Keys that retired segments have given back in them.
    pub rescued_keys: u64,
    /// Read-only openings, compared with the opening after them.
    pub looks: u64,
    /// States of a follower that were compared with the database.
    pub followed: u64,
    /// Copies that followers made, compared with what they show.
    pub followed_copies: u64,
    /// Counts of transactions.
    pub transactions: Transactions,
    /// Counts of locks.
    pub locks: Locks,
    /// Counts of buckets.
    pub buckets: Buckets,
    /// Counts of steps on single keys.
    pub single_keys: SingleKeys,
    /// Counts of the change feed.
    pub feeds: Feeds,
    /// Counts of tiers.
    pub tiers: Tiers,
    /// Counts of copies of the directory.
    pub copies: Copies,
    /// Counts of the guests.
    pub guests: Guests,
    /// Counts of checkpoints.
    pub checkpoints: Checkpoints,
    /// Families cloned.
    pub clones: u64,
    /// Of these, as of a snapshot.
    pub clones_at_snapshots: u64,
    /// Of all, families that were clones.
    pub clones_of_clones: u64,
    /// Changes of the retention floor.
    pub floors: u64,
    /// Earlier states that were compared.
    pub looks_back: u64,
    /// Branches created.
    pub branches: u64,
    /// Counts of backups.
    pub backups: Backups,
    /// Counts of archives.
    pub archives: Archives,
    /// Temporary renamings of the directory.
    pub moves: u64,
    /// The longest series of commits of which each was followed by a flush or an opening.
    pub tiny_steps_max: u64,
    /// Reads compared with the model: keys looked up and positions walked.
    pub reads: u64,
    /// Calls to the file system that failed on purpose.
    pub faults: u64,
    /// Permitted failures of operations, after a fault or on a full disk.
    pub refusals: u64,
    /// Times that the clock was set back.
    pub turns_back: u64,
    /// Comparisons of everything in which something had expired.
    pub expiries_seen: u64,
    /// Checks that found nothing superfluous in the directory of a database at rest.
    pub directories: u64,
    /// Tables flushed and compactions finished.
    pub jobs: u64,
    /// Steps of merges that others of the same merge followed, at least.
    pub steps: u64,
    /// Tables removed unread.
    pub dropped_tables: u64,
    /// Compactions that free space.
    pub space_compactions: u64,
    /// Values that compaction filters have written anew.
    pub filter_changes: u64,
    /// Scrubs that found everything sound.
    pub scrubs: u64,
    /// Pauses of the background work.
    pub pauses: u64,
    /// Manual compactions that were cancelled.
    pub cancelled: u64,
    /// A hash of all events: the same for the same seed.
    pub fingerprint: u64,
}

/// Counts of transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transactions {
    /// Committed with what they wrote.
    pub committed: u64,
    /// Of these, begun before the commit of another.
    pub overtaken: u64,
    /// Of these, begun before a flush or a compaction.
    pub across_jobs: u64,
    /// Committed without writes.
    pub read_only: u64,
    /// Refused with `Conflict`, as the model predicted.
    pub conflicts: u64,
    /// Of these, because a value that was read had expired.
    pub expired: u64,
    /// Rolled back.
    pub rolled_back: u64,
    /// Returns to a savepoint.
    pub returns: u64,
    /// Refused because a family that they wrote to had been dropped.
    pub dropped: u64,
    /// Prepared.
    pub prepared: u64,
    /// Prepared ones that were committed or rolled back.
    pub decided: u64,
    /// Prepared ones that waited for their decision when a database was opened.
    pub found_undecided: u64,
}

impl Transactions {
    fn add(&mut self, other: &Self) {
        self.committed += other.committed;
        self.overtaken += other.overtaken;
        self.across_jobs += other.across_jobs;
        self.read_only += other.read_only;
        self.conflicts += other.conflicts;
        self.expired += other.expired;
        self.rolled_back += other.rolled_back;
        self.returns += other.returns;
        self.dropped += other.dropped;
        self.prepared += other.prepared;
        self.decided += other.decided;
        self.found_undecided += other.found_undecided;
    }

    /// Each count with the case that it covers, except dropped families and expired values, which
    /// are too rare.
    fn counts(&self) -> [(&'static str, u64); 10] {
        [
            ("transactions", self.committed),
            ("transactions overtaken by a commit", self.overtaken),
            ("transactions across a flush or compaction", self.across_jobs),
            ("transactions that only read", self.read_only),
            ("transactions that conflict", self.conflicts),
            ("transactions rolled back", self.rolled_back),
            ("returns to a savepoint", self.returns),
            ("transactions prepared", self.prepared),
            ("decisions about prepared transactions", self.decided),
            ("prepared transactions found after an opening", self.found_undecided),
        ]
    }
}

impl fmt::Display for Transactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "transactions {:>9}  committed, {} of them overtaken, {} across a flush or compaction; \
             {} only read",
            self.committed, self.overtaken, self.across_jobs, self.read_only
        )?;
        writeln!(
            f,
            "             {:>9}  conflicts, {} by expiry; {} rolled back, {} returns to a \
             savepoint, {} without their family",
            self.conflicts, self.expired, self.rolled_back, self.returns, self.dropped
        )?;
        write!(
            f,
            "             {:>9}  prepared, {} decided; {} found undecided by an opening",
            self.prepared, self.decided, self.found_undecided
        )
    }
}

/// Counts of backups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backups {
    /// Made, restored, and compared with the model.
    pub made: u64,
    /// Of these, with files that an earlier one had copied.
    pub shared: u64,
    /// Older ones that were restored and checked.
    pub old: u64,
    /// Failed, as they may after a fault or on a full disk.
    pub refused: u64,
    /// Crash states inside one that held all of it.
    pub whole: u64,
    /// Crash states inside one that held none of it.
    pub absent: u64,
    /// Files that were removed because no backup needed them any more.
    pub pruned: u64,
}

impl Backups {
    fn add(&mut self, other: &Self) {
        self.made += other.made;
        self.shared += other.shared;
        self.old += other.old;
        self.refused += other.refused;
        self.whole += other.whole;
        self.absent += other.absent;
        self.pruned += other.pruned;
    }

    /// Each count with what it would show; not of pruned files, which short simulations lack.
    fn counts(&self) -> [(&'static str, u64); 6] {
        [
            ("backups", self.made),
            ("backups that share files", self.shared),
            ("older backups restored", self.old),
            ("backups that fail", self.refused),
            ("backups that a crash leaves", self.whole),
            ("backups that a crash takes", self.absent),
        ]
    }
}

impl fmt::Display for Backups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "backups      {:>9}  restored and compared, {} with shared files; {} older ones \
             restored; {} refused; {} whole after a crash in them, {} absent; {} files pruned",
            self.made, self.shared, self.old, self.refused, self.whole, self.absent, self.pruned
        )
    }
}

impl Report {
    /// Counts a crash state.
    pub fn crashed(&mut self, phase: Phase) {
        self.crashes[phase as usize] += 1;
    }

    /// Crash states, in all phases.
    #[must_use]
    pub fn crashes(&self) -> u64 {
        self.crashes.iter().sum()
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        for (sum, count) in self.crashes.iter_mut().zip(other.crashes) {
            *sum += count;
        }
        self.power_losses += other.power_losses;
        self.nested += other.nested;
        self.commits += other.commits;
        self.commits_synced += other.commits_synced;
        self.ingests += other.ingests;
        self.ingests_of_several += other.ingests_of_several;
        self.families_committed += other.families_committed;
        self.families_of_transactions += other.families_of_transactions;
        self.commits_resumed += other.commits_resumed;
        self.in_flight_kept += other.in_flight_kept;
        self.commits_lost += other.commits_lost;
        self.volatile_lost += other.volatile_lost;
        self.recoveries += other.recoveries;
        self.salvages += other.salvages;
        self.rescues += other.rescues;
        self.rescued_keys += other.rescued_keys;
        self.looks += other.looks;
        self.followed += other.followed;
        self.followed_copies += other.followed_copies;
        self.transactions.add(&other.transactions);
        self.locks.add(&other.locks);
        self.buckets.add(&other.buckets);
        self.single_keys.add(&other.single_keys);
        self.feeds.add(&other.feeds);
        self.tiers.add(&other.tiers);
        self.copies.add(&other.copies);
        self.guests.add(&other.guests);
        self.checkpoints.add(&other.checkpoints);
        self.clones += other.clones;
        self.clones_at_snapshots += other.clones_at_snapshots;
        self.clones_of_clones += other.clones_of_clones;
        self.floors += other.floors;
        self.looks_back += other.looks_back;
        self.branches += other.branches;
        self.backups.add(&other.backups);
        self.archives.add(&other.archives);
        self.moves += other.moves;
        self.tiny_steps_max = self.tiny_steps_max.max(other.tiny_steps_max);
        self.reads += other.reads;
        self.faults += other.faults;
        self.refusals += other.refusals;
        self.directories += other.directories;
        self.jobs += other.jobs;
        self.steps += other.steps;
        self.dropped_tables += other.dropped_tables;
        self.space_compactions += other.space_compactions;
        self.filter_changes += other.filter_changes;
        self.scrubs += other.scrubs;
        self.pauses += other.pauses;
        self.cancelled += other.cancelled;
        self.turns_back += other.turns_back;
        self.expiries_seen += other.expiries_seen;
        self.fingerprint ^= other.fingerprint;
    }

    /// Names the required cases that no run covered; empty if all were.
    #[must_use]
    pub fn gaps(&self) -> Vec<&'static str> {
        let mut gaps: Vec<&str> = PHASES
            .iter()
            .filter(|(phase, _)| REQUIRED.contains(phase) && self.crashes[*phase as usize] == 0)
            .map(|(_, name)| *name)
            .collect();
        let transactions = self.transactions.counts();
        let checkpoints = self.checkpoints.counts();
        let backups = self.backups.counts();
        let counts = [
            ("power losses", self.power_losses),
            ("crashes inside a recovery", self.nested),
            ("acknowledged commits", self.commits),
            ("synced commits", self.commits_synced),
            ("ingests", self.ingests),
            ("ingests into several families", self.ingests_of_several),
            ("commits of families", self.families_committed),
            ("families committed by transactions", self.families_of_transactions),
            ("commits after a failed call", self.commits_resumed),
            ("commits in flight that are kept", self.in_flight_kept),
            ("commits lost to a power loss", self.commits_lost),
            ("volatile commits that a crash takes", self.volatile_lost),
            ("recoveries", self.recoveries),
            ("salvages", self.salvages),
            ("rescues from retired segments", self.rescues),
            ("keys that retired segments give back", self.rescued_keys),
            ("openings that only read", self.looks),
            ("states of a follower", self.followed),
            ("copies of a follower", self.followed_copies),
            ("clones", self.clones),
            ("clones at snapshots", self.clones_at_snapshots),
            ("clones of clones", self.clones_of_clones),
            ("changes of the floor", self.floors),
            ("states of history", self.looks_back),
            ("branches", self.branches),
            ("directories renamed", self.moves),
            ("tiny steps", self.tiny_steps_max),
            ("reads", self.reads),
            ("failed calls", self.faults),
            ("refused operations", self.refusals),
            ("directories at rest", self.directories),
            ("jobs", self.jobs),
            ("steps of merges that others follow", self.steps),
            ("tables removed unread", self.dropped_tables),
            ("compactions for space", self.space_compactions),
            ("values written anew by a filter", self.filter_changes),
            ("scrubs", self.scrubs),
            ("pauses", self.pauses),
            ("cancelled compactions", self.cancelled),
            ("a clock set back", self.turns_back),
            ("values seen expired", self.expiries_seen),
        ];
        let (locks, buckets) = (self.locks.counts(), self.buckets.counts());
        let (single_keys, feeds) = (self.single_keys.counts(), self.feeds.counts());
        let archives = self.archives.counts();
        let counts = counts.iter().chain(&transactions).chain(&checkpoints);
        let counts = counts.chain(&backups).chain(&locks).chain(&buckets);
        let (tiers, guests) = (self.tiers.counts(), self.guests.counts());
        let copies = self.copies.counts();
        let counts = counts.chain(&single_keys).chain(&feeds).chain(&tiers).chain(&copies);
        let counts = counts.chain(&guests).chain(&archives);
        gaps.extend(counts.filter(|(_, count)| *count == 0).map(|(name, _)| name));
        gaps
    }
}

impl Report {
    /// The lines of clones and history.
    fn write_earlier_states(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "clones       {:>9}  compared, {} of a snapshot, {} of a clone; {} branches",
            self.clones, self.clones_at_snapshots, self.clones_of_clones, self.branches
        )?;
        writeln!(
            f,
            "history      {:>9}  states compared, {} changes of the retention floor",
            self.looks_back, self.floors
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crash states {:>9}  (", self.crashes())?;
        for (index, (phase, name)) in PHASES.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{name} {}", self.crashes[*phase as usize])?;
        }
        writeln!(f, ")")?;
        writeln!(
            f,
            "             {:>9}  power losses, {} taken inside a recovery",
            self.power_losses, self.nested
        )?;
        writeln!(
            f,
            "commits      {:>9}  acknowledged, {} of them synced, {} ingests; {} in flight at a \
             crash kept, {} unsynced lost to power, {} volatile to any crash",
            self.commits,
            self.commits_synced,
            self.ingests,
            self.in_flight_kept,
            self.commits_lost,
            self.volatile_lost
        )?;
        writeln!(
            f,
            "recoveries   {:>9}  {} of them compared with a salvage, {} with reader and follower; \
             {} rescues from retired segments, of {} keys",
            self.recoveries, self.salvages, self.looks, self.rescues, self.rescued_keys
        )?;
        writeln!(f, "{}", self.transactions)?;
        writeln!(f, "{}", self.locks)?;
        writeln!(f, "{}", self.buckets)?;
        writeln!(f, "{}", self.single_keys)?;
        writeln!(f, "{}\n{}\n{}\n{}", self.feeds, self.tiers, self.copies, self.guests)?;
        writeln!(f, "{}", self.checkpoints)?;
        self.write_earlier_states(f)?;
        writeln!(f, "{}\n{}", self.backups, self.archives)?;
        writeln!(f, "reads        {:>9}  compared with the model", self.reads)?;
        writeln!(
            f,
            "faults       {:>9}  injected; {} operations refused, {} commits after them",
            self.faults, self.refusals, self.commits_resumed
        )?;
        writeln!(
            f,
            "jobs         {:>9}  flushes and compactions, {} steps more; {} times at rest",
            self.jobs, self.steps, self.directories
        )?;
        writeln!(
            f,
            "space        {:>9}  tables removed unread, {} compactions for it, {} values filtered",
            self.dropped_tables, self.space_compactions, self.filter_changes
        )?;
        writeln!(
            f,
            "upkeep       {:>9}  scrubs, {} pauses, {} cancelled compactions",
            self.scrubs, self.pauses, self.cancelled
        )?;
        let (back, seen) = (self.turns_back, self.expiries_seen);
        writeln!(f, "clock        {back:>9}  times set back; something had expired {seen} times")?;
        writeln!(
            f,
            "ground       {:>9}  times renamed; at most {} tiny steps in a row",
            self.moves, self.tiny_steps_max
        )?;
        write!(f, "followed     {:>9}  states compared with the database, ", self.followed)?;
        writeln!(f, "{} copies of them", self.followed_copies)?;
        write!(f, "runs         {:>9}  fingerprint {:016x}", self.runs, self.fingerprint)
    }
}
