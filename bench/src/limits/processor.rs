//! The limits of the processor on a cached block: checksum and LZ4.

use crate::limits::effort::Effort;
use crate::limits::timing::{Named, each, half_compressible, rate};
use crate::result::Limit;
use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};
use std::hint::black_box;
use std::io;

const BLOCK: usize = 4096;
/// Blocks of a run: together they fit the first-level cache of a core.
const BLOCKS: usize = 4;

/// Measures checksum, encoding and decoding.
pub fn measure(effort: &Effort) -> io::Result<[Limit; 3]> {
    let data = half_compressible(BLOCK * BLOCKS);
    let rounds = (effort.calls / BLOCKS / 4).max(1);
    let mut packed = vec![0; get_maximum_output_size(BLOCK)];
    let mut blocks = Vec::new();
    for block in data.chunks_exact(BLOCK) {
        let length = compress_into(block, &mut packed).map_err(io::Error::other)?;
        blocks.push(packed[..length].to_vec());
    }
    let mut plain = vec![0; BLOCK];
    for (packed, block) in blocks.iter().zip(data.chunks_exact(BLOCK)) {
        let length = decompress_into(packed, &mut plain).map_err(io::Error::other)?;
        if plain[..length] != *block {
            return Err(io::Error::other("LZ4 did not return what it was given"));
        }
    }
    let about = "CRC-32C of 4 KiB blocks in the first cache".to_owned();
    let checksum = rate(Named("checksum", about), rounds * data.len(), effort.repeat, || {
        for _ in 0..rounds {
            for block in data.chunks_exact(BLOCK) {
                black_box(crc_fast::crc32_iscsi(black_box(block)));
            }
        }
        Ok(())
    })?;
    let about = "LZ4 of a 4 KiB block, of which half does not compress".to_owned();
    let encode = each(Named("lz4-encode", about), rounds * BLOCKS, effort.repeat, || {
        for _ in 0..rounds {
            for block in data.chunks_exact(BLOCK) {
                black_box(compress_into(black_box(block), &mut packed).map_err(io::Error::other)?);
                black_box(&packed);
            }
        }
        Ok(())
    })?;
    let about = "the same block decoded, checked".to_owned();
    let decode = each(Named("lz4-decode", about), rounds * BLOCKS, effort.repeat, || {
        for _ in 0..rounds {
            for block in &blocks {
                let block = black_box(&block[..]);
                black_box(decompress_into(block, &mut plain).map_err(io::Error::other)?);
                black_box(&plain);
            }
        }
        Ok(())
    })?;
    Ok([checksum, encode, decode])
}
