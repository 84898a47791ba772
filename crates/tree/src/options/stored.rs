//! Single values of stored options.

use crate::strategy::{CompactionStrategy, FIFO_BYTES};
use siltdb_base::{
    codec::ByteReader,
    error::{Error, ErrorKind, Result},
};
use siltdb_disk::options::Compression;

/// The compression with a stored number and level; without a level, with its usual one.
pub(super) fn with_level(number: u8, level: Option<u8>) -> Result<Compression> {
    let [zstd, usual] = Compression::ZSTD.to_bytes();
    let level = level.unwrap_or(if number == zstd { usual } else { 0 });
    Compression::from_bytes([number, level])
}

pub(super) fn filter_name<'v>(value: &mut ByteReader<'v>) -> Result<&'v str> {
    std::str::from_utf8(value.take_all()).map_err(|error| {
        Error::corruption("the name of a compaction filter is not UTF-8").with_source(error)
    })
}

pub(super) fn has_whole_keys(value: &mut ByteReader<'_>) -> Result<bool> {
    match value.u8()? {
        1 => Ok(false),
        other => {
            Err(Error::corruption("bad mark of filters without whole keys").with_mismatch(1, other))
        }
    }
}

/// The strategy of this number with its default parameters, which other fields replace.
pub(super) fn strategy_of(number: u8) -> Result<CompactionStrategy> {
    match number {
        1 => Ok(CompactionStrategy::tiered()),
        2 => Ok(CompactionStrategy::Fifo { bytes_max: *FIFO_BYTES.end(), age_max: None }),
        other => Err(Error::new(ErrorKind::Unsupported, "unknown compaction strategy of a family")
            .with_mismatch("1 or 2", other)),
    }
}
