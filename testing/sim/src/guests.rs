//! Guests: two families that are always there and that other steps do not write to, because a merge
//! operator does not fit them.
//!
//! Values leave both by themselves. Those of the TTL family leave at a time that the model knows,
//! so it holds exactly what the model says. Those of the FIFO family leave whenever the engine
//! finds that there are too many. What has left must be the oldest part, must not come back while
//! the database is open, and must be there for each snapshot that saw it.
//!
//! Both may have separated values. They get ingests, and are compared in checkpoints, backups,
//! archives, salvaged databases, and by readers and followers.

use crate::{draw::Draw, model::FamilyIndex};
use siltdb::{CompactionStrategy, FamilyOptions};
use std::time::Duration;

/// The FIFO family.
pub const FIFO: FamilyIndex = FamilyIndex(1);

/// The family with a TTL.
pub const TTL: FamilyIndex = FamilyIndex(2);

/// The names of both.
pub const GUESTS: [(&str, FamilyIndex); 2] = [("guest-fifo", FIFO), ("guest-ttl", TTL)];

/// The key of the FIFO family that each commit to it overwrites at its end: the last one in order.
pub const NEWEST: [u8; 9] = [0xff; 9];

/// When values leave the guests.
#[derive(Clone, Copy, Debug)]
pub struct GuestSettings {
    /// The TTL of the TTL family.
    pub ttl: Duration,
    bytes_max: u64,
    /// The age from which values leave the FIFO family; with `None` they leave by its size alone.
    pub age_max: Option<Duration>,
}

impl GuestSettings {
    /// Draws the settings of a run.
    pub fn new(draw: &mut Draw) -> Self {
        let time = |draw: &mut Draw| Duration::from_millis(draw.pick(&[20, 300, 2000, 100_000]));
        Self {
            ttl: time(draw),
            bytes_max: draw.pick(&[2 << 10, 16 << 10, 64 << 10]),
            age_max: draw.chance(1, 3).then(|| time(draw)),
        }
    }

    /// The options of a guest; `options` are those that do not make values leave.
    #[must_use]
    pub fn options(self, guest: FamilyIndex, options: FamilyOptions) -> FamilyOptions {
        let Self { ttl, bytes_max, age_max } = self;
        match guest {
            FIFO => options.compaction(CompactionStrategy::Fifo { bytes_max, age_max }),
            _ => options.ttl(ttl),
        }
    }
}

/// Whether a family with this name is a guest.
#[must_use]
pub fn is_guest(name: &str) -> bool {
    GUESTS.iter().any(|(guest, _)| *guest == name)
}
