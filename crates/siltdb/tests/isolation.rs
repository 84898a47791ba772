//! Interleavings of transactions: each anomaly at each isolation level, over each state of the
//! data. `docs/isolation.md` has the table. `cargo test -p siltdb isolation` lists them all.
//!
//! An anomaly is a function of a [`World`](world::World). It asserts what must not
//! happen and what must commit. For levels that permit the anomaly, it asserts that the anomaly
//! happens.

/// One module for each anomaly, in it one for each level, in it one test for each state.
macro_rules! every_level_and_state {
    ($($anomaly:ident)+) => { $(
        mod $anomaly {
            every_level_and_state! { @level $anomaly read_uncommitted ReadUncommitted }
            every_level_and_state! { @level $anomaly read_committed ReadCommitted }
            every_level_and_state! { @level $anomaly repeatable_read RepeatableRead }
            every_level_and_state! { @level $anomaly snapshot Snapshot }
            every_level_and_state! { @level $anomaly serializable Serializable }
        }
    )+ };
    (@level $anomaly:ident $module:ident $level:ident) => {
        mod $module {
            every_level_and_state! { @state $anomaly $level memtable Memtable }
            every_level_and_state! { @state $anomaly $level flushed Flushed }
            every_level_and_state! { @state $anomaly $level compacted Compacted }
            every_level_and_state! { @state $anomaly $level reopened Reopened }
            every_level_and_state! { @state $anomaly $level flushed_meanwhile FlushedMeanwhile }
            every_level_and_state! {
                @state $anomaly $level compacted_meanwhile CompactedMeanwhile
            }
        }
    };
    (@state $anomaly:ident $level:ident $test:ident $state:ident) => {
        #[test]
        fn $test() {
            use crate::isolation::world::{State, World};
            super::super::$anomaly(&World::new(siltdb::Isolation::$level, State::$state));
        }
    };
}

mod world;
mod writes;
mod reads;
mod updates;
mod skew;
mod expiry;
mod drops;
