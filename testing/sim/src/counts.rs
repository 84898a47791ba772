//! Counts of locks, buckets, steps on single keys, checkpoints, copies, the change feed, guests and
//! archives in a simulation.
//!
//! It counts and adds up; other modules judge promises.

use std::fmt;

/// A struct of counts, each with the name under which a report shows it.
macro_rules! counts {
    ($(#[$doc:meta])* $name:ident $title:literal {
        $($(#[$field_doc:meta])* $field:ident: $shown:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: u64,)*
        }

        impl $name {
            /// Adds what another run counted.
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }

            /// Each count with its name.
            #[must_use]
            pub fn counts(&self) -> Vec<(&'static str, u64)> {
                vec![$(($shown, self.$field)),*]
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:<13}", $title)?;
                for (index, (shown, count)) in self.counts().iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{shown} {count}")?;
                }
                Ok(())
            }
        }
    };
}

counts! {
    /// Counts of locks.
    Locks "locks" {
        /// Locks of keys that were granted.
        keys: "locks of keys",
        /// Locks of ranges that were granted.
        ranges: "locks of ranges",
        /// Reads with a lock.
        reads: "reads with a lock",
        /// Reads with a lock that conflicted, because the key had changed meanwhile.
        late: "late reads with a lock",
        /// Lock requests that failed, because another transaction held a conflicting lock.
        busy: "busy locks",
        /// Plain commits that failed because of a lock.
        kept_out: "commits kept out by a lock",
        /// Commits of transactions that failed because of another transaction's lock.
        transactions_kept_out: "transactions kept out by a lock",
        /// Deadlocks, each reported to one transaction.
        deadlocks: "deadlocks",
    }
}

counts! {
    /// Counts of buckets.
    Buckets "buckets" {
        /// Creations.
        made: "buckets made",
        /// Moves.
        moved: "buckets moved",
        /// Deletions.
        removed: "buckets removed",
        /// Deletions of buckets that held others.
        removed_nested: "buckets removed with others in them",
        /// Changes of keys: put, delete, delete of a range, take.
        keys: "keys of buckets changed",
        /// Ids given.
        ids: "ids of buckets",
        /// Changes in a transaction.
        in_transactions: "changes of buckets in transactions",
        /// Calls that failed with the expected error.
        refused: "calls of buckets refused",
        /// Trees of buckets compared with the model.
        trees: "trees of buckets compared",
        /// Of these, families that had buckets when the database was opened.
        trees_after_opening: "trees of buckets after an opening",
    }
}

counts! {
    /// Counts of steps on single keys.
    SingleKeys "single keys" {
        /// Swaps.
        swapped: "swaps",
        /// Swaps that met another value.
        differed: "swaps refused",
        /// Absent keys that were put.
        inserted: "absent keys put",
        /// Updates.
        updated: "values updated",
        /// Values that got another expiry.
        touched: "values touched",
        /// Keys taken.
        taken: "keys taken",
        /// First and last keys popped.
        popped: "keys popped",
        /// Ids given.
        ids: "ids",
        /// Of these, first ids after an opening, of counters that had given ids before.
        ids_after_opening: "ids after an opening",
    }
}

counts! {
    /// Counts of the guests.
    Guests "guests" {
        /// Rows put into the FIFO family.
        rows: "FIFO rows",
        /// The most pairs that had left it in a state of a run, over all runs.
        left: "FIFO pairs that left",
        /// Operations on the TTL family.
        timed: "TTL operations",
        /// The most pairs of it that had expired in a state of a run, over all runs.
        expired: "TTL pairs that expired",
        /// Operations of ingests into both.
        ingested: "guest operations ingested",
        /// Of these, in table files with expiries.
        timed_in_files: "TTL operations in table files",
        /// Comparisons of both in copies: what archives brought, what was salvaged, and copies of
        /// followers.
        copied: "guests compared in copies",
        /// Imports of both into a database that has them.
        beside: "imports beside guests",
        /// Comparisons of both in snapshots.
        snapshots: "guests compared in snapshots",
    }
}

counts! {
    /// Counts of tiers.
    Tiers "tiers" {
        /// Families frozen.
        frozen: "families frozen",
        /// Families thawed.
        thawed: "families thawed",
        /// Tables moved, in the background too.
        moved: "tables moved",
        /// Openings of a database with cold tables.
        found: "openings with cold tables",
    }
}

counts! {
    /// Counts of checkpoints.
    Checkpoints "checkpoints" {
        /// Made, and compared with the model.
        made: "checkpoints",
        /// Of these, made while a flush was due.
        busy: "checkpoints while a flush is due",
        /// Of these, made while snapshots or iterators were held.
        held: "checkpoints while snapshots are held",
        /// Of these, opened beside their source while both were written to.
        beside: "checkpoints open beside their source",
        /// Permitted failures, after a fault or on a full disk.
        refused: "checkpoints that fail",
        /// Begun over the remains of an earlier one.
        resumed: "checkpoints where a part of one lies",
        /// Crash states inside one that held a complete checkpoint.
        whole: "checkpoints that a crash leaves",
        /// Crash states inside one that held no checkpoint.
        absent: "checkpoints that a crash takes",
    }
}

counts! {
    /// Counts of copies of the directory of a killed database.
    Copies "copies" {
        /// Made as `cp -r` does.
        by_bytes: "by bytes",
        /// Made as `cp -al` does.
        by_links: "by hard links",
        /// Refused because they share a cold directory, and read.
        refused: "refused",
        /// Adopted with copies of the cold tables.
        adopted: "adopted",
        /// Made the owner of the cold directory.
        taken_over: "taken over",
        /// Used alone, before the original was recovered.
        used: "copies used",
        /// Left alone while the original was used.
        originals_used: "originals used",
        /// Open and used together with the original.
        both_used: "both used in turns",
        /// Destroyed.
        destroyed: "destroyed",
        /// Crashes while one was used.
        crashed: "crashes in their use",
    }
}

counts! {
    /// Counts of the change feed.
    Feeds "feeds" {
        /// Commits told.
        told: "commits told",
        /// Of these, told to a subscription with a family or prefix.
        filtered: "commits told by a filter",
        /// Of all, commits that an earlier subscription had told before an opening.
        told_again: "commits told again after an opening",
        /// Unlogged ranges told.
        unlogged: "ranges told as unlogged",
        /// Ends of the feed at which no commit was missing.
        ends: "ends of the feed",
        /// First subscriptions after an opening, from a remembered sequence number.
        resumed: "feeds resumed after an opening",
        /// Subscriptions that failed, because the log does not reach back so far.
        too_old: "feeds from too far back",
        /// Subscriptions that failed, because a power loss took the commits before their position.
        too_new: "feeds from what power took",
        /// Subscriptions that lost their pin.
        slow: "feeds too slow",
    }
}

counts! {
    /// Counts of archives.
    Archives "archives" {
        /// Exports, each imported and compared.
        made: "archives made",
        /// Of these, exports of another branch than `main`.
        of_branches: "archives of branches",
        /// Exports that failed.
        refused: "archives refused",
        /// Whole after a crash in the export.
        whole: "archives whole after a crash",
        /// Absent after a crash in the export.
        absent: "archives absent after a crash",
        /// Values of imports that expired after the import.
        expired: "imported values that expired",
    }
}
