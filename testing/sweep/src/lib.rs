//! Sweeps: tests that break one call, or one byte, after the other.
//!
//! Neighbouring cases mostly end the same, and all of them take minutes. So a sweep visits each
//! n-th case, and begins at another one each day: after n days all were visited. With
//! `SILT_SWEEPS=all` it visits every case, as `.ci/nightly` does. A test prints its day:
//! `SILT_SWEEP_DAY` repeats it.
#![forbid(unsafe_code)]

use std::{
    env,
    time::{SystemTime, UNIX_EPOCH},
};

/// The cases of a sweep that are visited.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    every: u64,
    first: u64,
}

impl Sweep {
    /// Visits each `every`-th case, or all if the environment says so.
    ///
    /// # Panics
    /// If `every` is 0, or a variable has another value than the documented ones.
    #[must_use]
    pub fn every(every: u64) -> Self {
        let variable = |name: &str| env::var(name).ok();
        match variable("SILT_SWEEPS").as_deref() {
            Some("all") => return Self { every: 1, first: 0 },
            Some(other) => panic!("SILT_SWEEPS is {other:?}, and can be \"all\""),
            None => {}
        }
        let day = variable("SILT_SWEEP_DAY")
            .map_or_else(today, |day| day.parse().expect("SILT_SWEEP_DAY is a number"));
        println!("SILT_SWEEP_DAY={day}: each case {} of {every}", day % every + 1);
        Self { every, first: day % every }
    }

    /// Whether the case of this number is visited. Cases are counted from 0.
    #[must_use]
    pub fn visits(self, case: u64) -> bool {
        case % self.every == self.first
    }

    /// The cases that are visited.
    pub fn of<T>(self, cases: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
        let (first, every) = (self.first as usize, self.every as usize);
        cases.into_iter().skip(first).step_by(every)
    }

    /// Whether `count` of the visited cases are enough, where more than `bound` of all are. A part
    /// of the cases may have less than its share, and must have half of it.
    #[must_use]
    pub fn has_enough(self, count: usize, bound: usize) -> bool {
        match self.every as usize {
            1 => count > bound,
            every => count > bound / every / 2,
        }
    }

    /// Whether `count` of the visited cases show what only a few of all do: a part may have none of
    /// them.
    #[must_use]
    pub fn has_met(self, count: usize) -> bool {
        self.every > 1 || count > 0
    }
}

/// The days since 1970.
fn today() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    now.as_secs() / (24 * 60 * 60)
}

#[cfg(test)]
mod tests;
