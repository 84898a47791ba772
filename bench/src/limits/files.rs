//! The limits of files: the page cache written, mapped and read, and the medium synced.

use crate::limits::effort::Effort;
use crate::limits::timing::{Named, each, half_compressible, mixed, rate};
use crate::result::Limit;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use vmap::MapMut;

const BLOCK: usize = 4096;
/// A thousand records of 116 bytes: a batch as the suites write it.
const BATCH: usize = 116_000;
const RECORD: usize = 116;

/// Measures with unnamed files in `dir`, which the system removes.
pub fn measure(dir: &Path, effort: &Effort) -> io::Result<Vec<Limit>> {
    let data = half_compressible(effort.file_bytes);
    let file = tempfile::tempfile_in(dir)?;
    let mut limits = vec![write(&file, &data, effort)?];
    limits.push(read(&file, &data, effort)?);
    drop(file);
    limits.push(call(dir, &data, effort)?);
    limits.push(fill(dir, &data, effort)?);
    limits.push(touch(dir, effort)?);
    limits.push(sync_written(dir, &data, effort)?);
    limits.push(sync_append(dir, &data, effort)?);
    Ok(limits)
}

fn write(file: &File, data: &[u8], effort: &Effort) -> io::Result<Limit> {
    let about = "`pwrite` of 116 KB into pages that the page cache holds".to_owned();
    rate(Named("page-cache-write", about), data.len(), effort.repeat, || {
        for (index, piece) in data.chunks(BATCH).enumerate() {
            file.write_all_at(piece, (index * BATCH) as u64)?;
        }
        Ok(())
    })
}

fn read(file: &File, data: &[u8], effort: &Effort) -> io::Result<Limit> {
    let blocks = data.len() / BLOCK;
    let mut block = [0; BLOCK];
    for index in 0..blocks {
        file.read_exact_at(&mut block, (index * BLOCK) as u64)?;
        expect_same(&block, &data[index * BLOCK..][..BLOCK])?;
    }
    let about = "`pread` of a random 4 KiB that the page cache holds".to_owned();
    each(Named("cached-pread", about), effort.calls, effort.repeat, || {
        for index in 0..effort.calls {
            let place = mixed(index as u64) as usize % blocks;
            file.read_exact_at(&mut block, (place * BLOCK) as u64)?;
            black_box(&block);
        }
        Ok(())
    })
}

fn call(dir: &Path, data: &[u8], effort: &Effort) -> io::Result<Limit> {
    let mut file = tempfile::tempfile_in(dir)?;
    let about = "one `write` of 116 bytes into the page cache".to_owned();
    each(Named("write-call", about), effort.calls, effort.repeat, || {
        file.rewind()?;
        for record in data.chunks_exact(RECORD).cycle().take(effort.calls) {
            file.write_all(record)?;
        }
        Ok(())
    })
}

fn fill(dir: &Path, data: &[u8], effort: &Effort) -> io::Result<Limit> {
    let file = tempfile::tempfile_in(dir)?;
    file.write_all_at(data, 0)?;
    let mut map = MapMut::with_options().len(data.len()).map(&file).map_err(io::Error::other)?;
    let about = "copy into a shared mapping of a file whose pages are there".to_owned();
    let limit = rate(Named("mapping-fill", about), data.len(), effort.repeat, || {
        black_box(&mut map[..]).copy_from_slice(black_box(data));
        Ok(())
    })?;
    // Checks that the mapping is the file, not a copy of it.
    map[..8].copy_from_slice(b"mapping!");
    let mut start = [0; 8];
    file.read_exact_at(&mut start, 0)?;
    expect_same(&start, b"mapping!")?;
    Ok(limit)
}

fn touch(dir: &Path, effort: &Effort) -> io::Result<Limit> {
    let pages = effort.file_bytes / BLOCK;
    let about = "first touch of a 4 KiB page of a new file through a shared mapping".to_owned();
    each(Named("page-touch", about), pages, effort.repeat, || {
        let file = tempfile::tempfile_in(dir)?;
        file.set_len(effort.file_bytes as u64)?;
        let length = effort.file_bytes;
        let mut map = MapMut::with_options().len(length).map(&file).map_err(io::Error::other)?;
        for page in 0..pages {
            map[page * BLOCK] = 1;
        }
        black_box(&map[..]);
        Ok(())
    })
}

fn sync_written(dir: &Path, data: &[u8], effort: &Effort) -> io::Result<Limit> {
    let file = tempfile::tempfile_in(dir)?;
    file.write_all_at(&data[..effort.syncs * BLOCK], 0)?;
    file.sync_all()?;
    let about = "`fdatasync` after 4 KiB over blocks that were written before".to_owned();
    each(Named("fdatasync-written", about), effort.syncs, effort.repeat, || {
        sync_each(&file, data, effort.syncs)
    })
}

fn sync_append(dir: &Path, data: &[u8], effort: &Effort) -> io::Result<Limit> {
    let about = "`fdatasync` after 4 KiB that make the file longer".to_owned();
    each(Named("fdatasync-append", about), effort.syncs, effort.repeat, || {
        sync_each(&tempfile::tempfile_in(dir)?, data, effort.syncs)
    })
}

fn sync_each(file: &File, data: &[u8], syncs: usize) -> io::Result<()> {
    for (index, block) in data.chunks_exact(BLOCK).take(syncs).enumerate() {
        file.write_all_at(block, (index * BLOCK) as u64)?;
        file.sync_data()?;
    }
    Ok(())
}

fn expect_same(found: &[u8], expected: &[u8]) -> io::Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(io::Error::other("a file did not return what was written to it"))
}
