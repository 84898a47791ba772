//! The worker's side of a crash test: it commits one by one until it is killed, or counts the
//! commits that another worker left.
//!
//! The runner kills the worker, and judges the count.

use super::data::Data;
use crate::{
    engine::{Engine, Failure, Result, Session},
    job::{CrashTest, Progress, Survived},
    keys::{KeyMaker, KeyStyle},
    values::{Shape, ValueMaker, ValueStyle},
};
use std::io::{self, Read};

const KEY_BYTES: u32 = 16;
const VALUES: Shape = Shape { style: ValueStyle::Marked, bytes: 100, compressible_percent: 50 };
/// The only version of a value.
const VERSION: u32 = 1;

fn data() -> Data {
    Data {
        keys: KeyMaker::new(KeyStyle::Sparse, KEY_BYTES),
        values: ValueMaker::new(VALUES),
        families: 1,
    }
}

/// Commits, and reports each acknowledged commit. Then waits until its input ends.
///
/// # Errors
/// Errors of the engine.
pub fn commit<E: Engine>(test: &CrashTest, tell: &dyn Fn(&Progress)) -> Result<()> {
    let engine = E::open(&test.dir, &test.config)?;
    let mut session = engine.session()?;
    let mut data = data();
    let total = u64::from(test.commits);
    for id in 0..test.commits {
        session.put(data.keys.key(id), data.values.value(id, VERSION))?;
        let (phase, done) = ("commit".to_owned(), u64::from(id) + 1);
        tell(&Progress { phase, done, total, second_ops: 0 });
    }
    // Not closed, because closing would make durable what the commits did not.
    let _ = io::stdin().read(&mut [0]);
    Ok(())
}

/// Counts the commits that are there.
///
/// # Errors
/// Errors of the engine; `Verification`, if a value differs from the one written.
pub fn count<E: Engine>(test: &CrashTest) -> Result<Survived> {
    let engine = E::open(&test.dir, &test.config)?;
    let mut survived = Survived { class: E::facts(&test.config).class, found: 0, beyond: 0 };
    {
        let mut session = engine.session()?;
        let mut data = data();
        let mut is_whole = true;
        for id in 0..test.commits {
            let expected = data.values.value(id, VERSION);
            let mut is_right = false;
            let is_there = session.get(data.keys.key(id), |value| is_right = value == expected)?;
            if is_there && !is_right {
                return Err(Failure::verification(format!("commit {id} has another value")));
            }
            is_whole &= is_there;
            survived.found += u64::from(is_whole);
            survived.beyond += u64::from(is_there && !is_whole);
        }
    }
    engine.close()?;
    Ok(survived)
}
