//! Times a piece of work repeatedly, and makes a limit of it. Also makes the data for the work.

use crate::result::{Limit, LimitUnit, Spread};
use std::io;
use std::time::Instant;

/// The name and the words of a limit.
pub struct Named(pub &'static str, pub String);

/// Bytes a second of `work`, which handles `bytes`.
pub fn rate(
    named: Named,
    bytes: usize,
    repeat: usize,
    work: impl FnMut() -> io::Result<()>,
) -> io::Result<Limit> {
    let seconds = seconds(repeat, work)?;
    let rates: Vec<f64> = seconds.iter().map(|seconds| bytes as f64 / seconds).collect();
    Ok(limit(named, LimitUnit::BytesPerS, &rates))
}

/// Nanoseconds for one of the `count` items of `work`.
pub fn each(
    named: Named,
    count: usize,
    repeat: usize,
    work: impl FnMut() -> io::Result<()>,
) -> io::Result<Limit> {
    let seconds = seconds(repeat, work)?;
    let times: Vec<f64> = seconds.iter().map(|seconds| 1e9 * seconds / count as f64).collect();
    Ok(limit(named, LimitUnit::Ns, &times))
}

/// The duration of each of `repeat` runs; the first run of all warms up and does not count.
fn seconds(repeat: usize, mut work: impl FnMut() -> io::Result<()>) -> io::Result<Vec<f64>> {
    work()?;
    let mut seconds = Vec::with_capacity(repeat);
    for _ in 0..repeat.max(1) {
        let start = Instant::now();
        work()?;
        // A clock that did not advance would give an infinite rate.
        seconds.push(start.elapsed().as_secs_f64().max(1e-9));
    }
    Ok(seconds)
}

fn limit(Named(limit, about): Named, unit: LimitUnit, values: &[f64]) -> Limit {
    let value = Spread::of(values).expect("at least one run, and no division by zero");
    Limit { limit: limit.to_owned(), about, unit, value }
}

/// A well-mixed number for each `index` (Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", 2014).
pub fn mixed(index: u64) -> u64 {
    let mut z = index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// `bytes` of data, of which half does not compress.
pub fn half_compressible(bytes: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(bytes + 64);
    for stretch in 0..bytes.div_ceil(64) as u64 {
        (0..4).for_each(|word| data.extend(mixed(stretch * 4 + word).to_le_bytes()));
        data.extend([b'='; 32]);
    }
    data.truncate(bytes);
    data
}
