//! What one file holds: what readers see, what is durable, and what lies between.
//!
//! # Invariants
//! 1. `current` is `durable` with all of `unsynced` applied in order, except for bytes that a
//!    failed sync gave up. Those are in `current` only, and no later sync brings them back.
//! 2. After power loss each sector (512 bytes) holds `durable` or what `current` held there after
//!    some unsynced write. A page cache writes sectors whole and in any order.

use super::{pages::MemPages, seed::Seed};
use std::sync::Arc;

/// What a device writes whole, in bytes.
pub(super) const SECTOR_BYTES: u64 = 512;

/// The bytes of a file, with their fate.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    current: MemPages,
    durable: MemPages,
    unsynced: Vec<Write>,
}

/// A write since the last sync.
#[derive(Clone, Debug)]
struct Write {
    offset: u64,
    bytes: Arc<[u8]>,
    /// The file's length after it.
    len: u64,
}

impl Write {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// Which unsynced writes of a file reached the device.
enum Fate {
    None,
    All,
    AllBut(usize),
    /// The first `n` writes, and a torn part of the next one.
    Prefix(usize),
    /// Each write by itself: with a chance of `n` in 16 kept, with the same chance dropped, else
    /// torn.
    Each(u64),
}

impl Fate {
    fn draw(seed: &mut Seed, writes: usize) -> Self {
        let some = seed.below(writes as u64) as usize;
        match seed.below(10) {
            0 => Self::None,
            1 => Self::All,
            2 => Self::AllBut(some),
            3 | 4 => Self::Prefix(some),
            5 => Self::Each(7),
            6 => Self::Each(5),
            _ => Self::Each(1 + seed.below(7)),
        }
    }

    /// How many of 16 sectors of the write survive.
    fn kept(&self, write: usize, seed: &mut Seed) -> u64 {
        let yes = |yes| if yes { 16 } else { 0 };
        match *self {
            Self::None => 0,
            Self::All => 16,
            Self::AllBut(lost) => yes(write != lost),
            Self::Prefix(count) if write == count => 8,
            Self::Prefix(count) => yes(write < count),
            Self::Each(part) => match seed.below(16) {
                draw if draw < part => 16,
                draw if draw < 2 * part => 0,
                _ => 8,
            },
        }
    }
}

impl Content {
    /// The length that readers see.
    pub(super) fn len(&self) -> u64 {
        self.current.len()
    }

    /// Copies from `offset` as much as there is; returns the bytes copied.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> usize {
        self.current.read(offset, out)
    }

    /// Overwrites from `offset`, growing if need be.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.current.write(offset, bytes);
            self.unsynced.push(Write { offset, bytes: bytes.into(), len: self.current.len() });
        }
    }

    /// Grows with zeros to `len`, if it is shorter.
    pub(super) fn grow(&mut self, len: u64) {
        if len > self.current.len() {
            self.current.set_len(len);
            self.unsynced.push(Write { offset: len, bytes: Arc::default(), len });
        }
    }

    /// Cuts it to `len`, if it is longer.
    pub(super) fn shorten(&mut self, len: u64) {
        if len < self.current.len() {
            self.current.set_len(len);
            self.unsynced.push(Write { offset: len, bytes: Arc::default(), len });
        }
    }

    /// Makes every write that begins before `end` durable, with the pages it touches, except what a
    /// failed sync gave up. The length becomes durable as a whole: it is no part of any page.
    pub(super) fn sync(&mut self, end: u64) {
        let is_synced = |write: &mut Write| write.offset < end || write.bytes.is_empty();
        for write in self.unsynced.extract_if(.., is_synced) {
            self.durable.share(&self.current, write.offset..write.end());
        }
        self.durable.set_len(self.current.len());
    }

    /// A sync fails: some of what was unsynced becomes durable, the rest is given up for good. So
    /// does a kernel that marks pages clean after it could not write them.
    pub(super) fn fail_sync(&mut self, seed: u64) {
        self.durable = self.after_power_loss(&mut Seed::new(seed, 0));
        self.unsynced.clear();
    }

    /// Loses the power: what survives is now what readers see, and durable.
    pub(super) fn lose_power(&mut self, seed: &mut Seed) {
        self.durable = self.after_power_loss(seed);
        self.current = self.durable.clone();
        self.unsynced.clear();
    }

    /// Changes the bytes as damage to the device would: at once, for good.
    pub(super) fn damage(&mut self, change: impl FnOnce(&mut MemPages)) {
        self.sync(u64::MAX);
        change(&mut self.current);
        self.durable = self.current.clone();
    }

    fn after_power_loss(&self, seed: &mut Seed) -> MemPages {
        if self.unsynced.is_empty() {
            return self.durable.clone();
        }
        let fate = Fate::draw(seed, self.unsynced.len());
        let mut version = self.durable.clone();
        let mut survived = self.durable.clone();
        let mut sector = [0; SECTOR_BYTES as usize];
        for (index, write) in self.unsynced.iter().enumerate() {
            version.write(write.offset, &write.bytes);
            let kept = fate.kept(index, seed);
            let mut start = write.offset - write.offset % SECTOR_BYTES;
            while start < write.end() {
                if seed.chance(kept, 16) {
                    let count = version.read(start, &mut sector);
                    survived.write(start, &sector[..count]);
                }
                start += SECTOR_BYTES;
            }
        }
        survived.set_len(self.len_after_power_loss(&fate, seed));
        survived
    }

    /// A length between the durable and the current one: one the file had, or a sector border.
    fn len_after_power_loss(&self, fate: &Fate, seed: &mut Seed) -> u64 {
        let (durable, current) = (self.durable.len(), self.current.len());
        let (least, most) = (durable.min(current), durable.max(current));
        match fate {
            Fate::None => return durable,
            Fate::All => return current,
            _ => {}
        }
        match seed.below(4) {
            0 => durable,
            1 => current,
            2 => {
                let write = &self.unsynced[seed.below(self.unsynced.len() as u64) as usize];
                write.len.clamp(least, most)
            }
            _ => {
                let between = least + seed.below(most - least + 1);
                (between - between % SECTOR_BYTES).max(least)
            }
        }
    }
}
