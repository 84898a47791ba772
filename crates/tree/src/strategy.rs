//! The compaction strategies that a family can choose, with their parameters and ranges.
//!
//! The pickers of [`planning`](crate::planning) carry them out.

use siltdb_base::error::{Error, Result};
use std::{fmt::Display, ops::RangeInclusive, time::Duration};

/// Sorted runs below level 0 that a tiered family may keep. One level stays free for the next run,
/// so that level 0 can go down while all other runs are being merged.
pub const TIERED_RUNS: RangeInclusive<u32> = 2..=5;

/// Bounds of the space amplification of a tiered family, in percent.
pub const SPACE_PERCENT: RangeInclusive<u32> = 10..=10_000;

/// Sizes that are permitted for a FIFO family, in bytes.
pub const FIFO_BYTES: RangeInclusive<u64> = 1 << 10..=1 << 60;

/// Ages that are permitted for the data of a FIFO family: up to about 9,000 years.
pub const FIFO_AGE: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_millis(1 << 48);

/// How the tables of a family are merged, and when its data leaves by itself.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompactionStrategy {
    /// Each level is one sorted run, several times larger than the one above it. Reads look at few
    /// runs, and little space is taken by what is deleted or replaced.
    #[default]
    Leveled,
    /// Whole sorted runs are merged with others of similar size. A byte is written less often than
    /// with [`CompactionStrategy::Leveled`], but more runs are read, and more space is taken.
    Tiered {
        /// Sorted runs below level 0 that are kept, 2 to 5.
        runs_max: u32,
        /// All runs are merged into one when the newer ones reach this part of the size of the
        /// oldest, 10 to 10,000 percent. This bounds the space of replaced and deleted data.
        space_percent_max: u32,
    },
    /// Whole tables leave, the oldest first, when the family is too large or too old. For caches
    /// and logs. A merge operator is not permitted.
    ///
    /// A table stays while a live snapshot or the retention floor can see it.
    Fifo {
        /// The size of all tables from which on the oldest leave, in bytes, from 1 KiB on. The
        /// newest table stays, whatever its size.
        bytes_max: u64,
        /// Tables leave once all of their entries were flushed longer ago than this; `None`: only
        /// by size.
        age_max: Option<Duration>,
    },
}

impl CompactionStrategy {
    /// The tiered strategy with the default parameters: 4 runs, 200 percent.
    #[must_use]
    pub const fn tiered() -> Self {
        Self::Tiered { runs_max: 4, space_percent_max: 200 }
    }

    /// The strategy as a word, as it appears in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leveled => "leveled",
            Self::Tiered { .. } => "tiered",
            Self::Fifo { .. } => "fifo",
        }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// `InvalidArgument` that names the parameter that is out of range.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Leveled => Ok(()),
            Self::Tiered { runs_max, space_percent_max } => {
                in_range("runs of the tiered strategy", runs_max, &TIERED_RUNS)?;
                let name = "space percent of the tiered strategy";
                in_range(name, space_percent_max, &SPACE_PERCENT)
            }
            Self::Fifo { bytes_max, age_max } => {
                in_range("bytes of the FIFO strategy", bytes_max, &FIFO_BYTES)?;
                let Some(age) = age_max.filter(|age| !FIFO_AGE.contains(age)) else {
                    return Ok(());
                };
                let permitted = format!("{:?} to {:?}", FIFO_AGE.start(), FIFO_AGE.end());
                Err(Error::invalid("age of the FIFO strategy out of range")
                    .with_mismatch(permitted, format_args!("{age:?}")))
            }
        }
    }
}

/// Checks that the parameter `name` is in its range.
///
/// # Errors
/// `InvalidArgument`, if it is not.
pub(crate) fn in_range<T: PartialOrd + Display>(
    name: &str,
    value: T,
    range: &RangeInclusive<T>,
) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    let permitted = format!("{}..={}", range.start(), range.end());
    Err(Error::invalid(format!("{name} out of range")).with_mismatch(permitted, value))
}
