//! Extents against a list of units, and that what comes back is joined.

use super::*;
use crate::checksum::xxh3;

const CHUNK: u32 = 1024;

/// The holder of each unit, as a number from 1; 0 for none.
struct Model {
    extents: Extents,
    owners: Vec<u64>,
    out: Vec<(u32, u32, u64)>,
}

impl Model {
    fn take(&mut self, length: u32, owner: u64) {
        let is_there = self.longest_gap() >= 2 * length;
        match self.extents.take(length) {
            Some(first) => {
                let units = &mut self.owners[first as usize..(first + length) as usize];
                assert!(units.iter().all(|&owner| owner == 0), "{first} for {length} is taken");
                units.fill(owner);
                assert_eq!(first / CHUNK, (first + length - 1) / CHUNK);
                self.out.push((first, length, owner));
            }
            None => assert!(!is_there, "{length} units were free"),
        }
    }

    fn give(&mut self, index: usize) {
        let (first, length, owner) = self.out.swap_remove(index);
        let units = &mut self.owners[first as usize..(first + length) as usize];
        assert!(units.iter().all(|&other| other == owner));
        units.fill(0);
        self.extents.give(first, length);
    }

    fn longest_gap(&self) -> u32 {
        let chunks = self.owners.chunks(CHUNK as usize);
        let gaps = chunks.flat_map(|chunk| chunk.split(|&owner| owner != 0));
        gaps.map(|gap| gap.len() as u32).max().unwrap_or(0)
    }

    /// Compares bins and tags with what is free (1), (2), (3).
    fn check(&self) {
        let binned: usize = self.extents.bins.iter().map(Vec::len).sum();
        let (mut gaps, mut borders) = (0, 0);
        for (number, chunk) in self.owners.chunks(CHUNK as usize).enumerate() {
            let mut first = number as u32 * CHUNK;
            for run in chunk.chunk_by(|left, right| (*left == 0) == (*right == 0)) {
                let length = run.len() as u32;
                if run[0] == 0 {
                    let [tag, last] =
                        [first, first + length - 1].map(|unit| self.extents.tags[&unit]);
                    assert_eq!((tag.length, tag.index), (last.length, last.index));
                    assert_eq!(tag.length, length, "a gap at {first}");
                    let bin = bin_of(length);
                    assert_eq!(self.extents.bins[bin as usize][tag.index as usize], first);
                    assert_ne!(self.extents.filled & 1 << bin, 0);
                    gaps += 1;
                    borders += if length > 1 { 2 } else { 1 };
                }
                first += length;
            }
        }
        assert_eq!(borders, self.extents.tags.len());
        assert_eq!(gaps, binned);
        let filled = self.extents.bins.iter().filter(|gaps| !gaps.is_empty()).count();
        assert_eq!(self.extents.filled.count_ones() as usize, filled);
    }
}

#[test]
fn extents_are_disjoint_and_what_comes_back_is_joined() {
    let mut model = Model { extents: Extents::new(CHUNK), owners: Vec::new(), out: Vec::new() };
    for round in 1..=if cfg!(miri) { 300 } else { 20_000_u64 } {
        let random = xxh3(&round.to_le_bytes());
        if round % 5_000 == 1 {
            model.extents.grow();
            model.owners.resize(model.owners.len() + CHUNK as usize, 0);
        }
        let length = match random % 8 {
            0 => 1 + (random >> 8) as u32 % CHUNK,
            _ => 1 + (random >> 8) as u32 % 40,
        };
        match random >> 60 {
            0..=8 => model.take(length, round),
            _ if model.out.is_empty() => {}
            _ => model.give((random >> 20) as usize % model.out.len()),
        }
        if round % 100 == 0 {
            model.check();
        }
    }
    while !model.out.is_empty() {
        model.give(model.out.len() / 2);
    }
    model.check();
    // Each chunk is one gap again.
    for _ in 0..model.owners.len() as u32 / CHUNK {
        model.take(CHUNK, 1);
    }
    assert!(model.owners.iter().all(|&owner| owner == 1));
    assert_eq!(model.extents.take(1), None);
}

#[test]
fn every_gap_of_a_fitting_bin_fits() {
    for length in 1..=20_000_u32 {
        let bin = fitting_bin(length);
        assert!(bin >= bin_of(length) && bin <= bin_of(length) + 1, "{length}");
        assert!(bin_of(length) <= bin_of(length + 1));
        // The shortest length of the bin.
        if length > 1 && bin_of(length - 1) < bin_of(length) {
            assert_eq!(bin, bin_of(length), "{length} begins a bin");
        }
        if length > 1 && bin_of(length - 1) == bin_of(length) {
            assert_eq!(bin, bin_of(length) + 1, "{length} is within a bin");
        }
    }
}

#[test]
fn nothing_comes_of_nothing() {
    let mut extents = Extents::new(8);
    assert_eq!(extents.take(1), None);
    extents.grow();
    assert_eq!((extents.take(0), extents.take(9), extents.take(u32::MAX >> 1)), (None, None, None));
    let first = extents.take(8).unwrap();
    assert_eq!(extents.take(1), None);
    extents.give(first, 8);
    assert_eq!(extents.take(8), Some(first));
}

#[test]
#[should_panic(expected = "begins no extent")]
fn what_is_not_out_does_not_come_back() {
    let mut extents = Extents::new(8);
    extents.grow();
    let first = extents.take(3).unwrap();
    extents.give(first, 3);
    extents.give(first, 3);
}

#[test]
fn a_closed_chunk_is_vacant_when_all_came_back_and_the_next_takes_its_place() {
    let mut extents = Extents::new(8);
    assert_eq!((extents.grow(), extents.grow()), (0, 1));
    let out: Vec<u32> = (0..3).map(|_| extents.take(4).unwrap()).collect();
    let (fewer, more) = (out[2], [out[0], out[1]]);
    // The one with the fewest units out goes first.
    let closed = fewer as usize / 8;
    assert_eq!(extents.close_one(), Some((closed, 4)));
    assert_eq!(extents.take(4), None, "what is closed is not handed out");
    assert_eq!(extents.give(fewer, 4), Some(closed));
    assert_eq!(extents.take(1), None);
    assert_eq!(extents.grow(), closed);
    assert_eq!(extents.take(8), Some(closed as u32 * 8));
    assert_eq!(extents.give(more[0], 4), None);
    assert_eq!(extents.close_one().map(|(index, out)| (index == closed, out)), Some((false, 4)));
    assert_eq!(extents.give(more[1], 2), None, "units are out yet");
    assert_eq!(extents.close_one(), Some((closed, 8)));
    assert_eq!(extents.close_one(), None);
}
