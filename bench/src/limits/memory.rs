//! The limits of memory: a copy of more than a cache holds, and misses of every cache.

use crate::limits::effort::Effort;
use crate::limits::timing::{Named, each, half_compressible, mixed, rate};
use crate::result::Limit;
use std::hint::black_box;
use std::io;

/// A cache line; its first word is the number of the next line of the ring.
type Line = [u32; 16];

/// Measures a copy, and dependent and independent misses.
pub fn measure(effort: &Effort) -> io::Result<[Limit; 3]> {
    let copy = copy(effort)?;
    let lines = ring(effort.memory_bytes / size_of::<Line>());
    let mib = effort.memory_bytes >> 20;
    let hops = effort.calls;
    let mut line = 0;
    let about = format!("a read of a random line of {mib} MiB that says where the next one is");
    let dependent = each(Named("dram-miss-dependent", about), hops, effort.repeat, || {
        for _ in 0..hops {
            line = lines[line][0] as usize;
        }
        line = black_box(line);
        Ok(())
    })?;
    let mut first = 0;
    let about = format!("reads of random lines of {mib} MiB that are known beforehand");
    let independent = each(Named("dram-miss-independent", about), hops, effort.repeat, || {
        // New lines in each run, because those of the last one may still be cached.
        first += hops as u64;
        let sum = (first..first + hops as u64)
            .map(|index| u64::from(lines[spread(mixed(index), lines.len())][1]))
            .fold(0, u64::wrapping_add);
        black_box(sum);
        Ok(())
    })?;
    Ok([copy, dependent, independent])
}

fn copy(effort: &Effort) -> io::Result<Limit> {
    let from = half_compressible(effort.memory_bytes);
    let mut to = vec![1; effort.memory_bytes];
    let about = format!("copy of {} MiB from memory to memory", effort.memory_bytes >> 20);
    rate(Named("memory-copy", about), from.len(), effort.repeat, || {
        black_box(&mut to[..]).copy_from_slice(black_box(&from[..]));
        black_box(&to);
        Ok(())
    })
}

/// One ring through all lines in random order (Sattolo's algorithm), so that a walk visits every
/// line before it visits one twice.
fn ring(count: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = (0..count as u32).map(|index| [index; 16]).collect();
    for index in (1..count).rev() {
        let other = spread(mixed(index as u64), index);
        let next = lines[index][0];
        lines[index][0] = lines[other][0];
        lines[other][0] = next;
    }
    lines
}

/// Maps a mixed number to a position below `count`, without a division.
fn spread(mixed: u64, count: usize) -> usize {
    ((u128::from(mixed) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests;
