//! Reports a blob file: its header, its records, and bytes between them that are none.
//!
//! Stored bytes are verified only if operations are asked for. Which records anything refers to,
//! the tables say.

use super::line::{Detail, Line, OnLine};
use siltdb_base::{error::Result, fs::Fs, id::FileNumber};
use siltdb_disk::blob::{BlobScan, FoundBlob, verify_stored};
use siltdb_engine::open::foreign::check_not_foreign;
use std::{path::Path, sync::Arc};

/// Reports the records of the blob file `path`.
///
/// # Errors
/// `NotFound`; `Unsupported` and `Corruption`, with file and offset; the system's; the errors of
/// `on_line`. A record whose stored bytes are damaged is reported, and then the first such damage.
pub fn inspect_blob(fs: &dyn Fs, path: &Path, detail: Detail, on_line: OnLine<'_>) -> Result<()> {
    check_not_foreign(fs, path)?;
    let file = fs.open(path)?;
    let mut scan = BlobScan::new(Arc::clone(&file)).map_err(|error| error.or_file(path))?;
    let uid = scan.uid();
    on_line(
        Line::new("file")
            .with_file(path)
            .with_number("file_bytes", file.len())
            .with("uid", format_args!("{:016x}", uid.0)),
    )?;
    let mut damage = Ok(());
    while let Some(found) = scan.next_blob().map_err(|error| error.or_file(path))? {
        if found.gap_bytes > 0 {
            let gap = Line::new("gap").with_number("offset", found.offset - found.gap_bytes);
            on_line(gap.with_number("bytes", found.gap_bytes))?;
        }
        let mut line = blob_line(&found);
        if detail >= Detail::Operations {
            // Any number: the file is known.
            let pointer = found.header.pointer(FileNumber(0), found.offset, None);
            let verified = verify_stored(&*file, uid, &pointer);
            line = line.with("verified", if verified.is_ok() { "yes" } else { "no" });
            damage = damage.and(verified.map_err(|error| error.or_file(path)));
        }
        on_line(line)?;
    }
    damage
}

fn blob_line(found: &FoundBlob) -> Line {
    let header = &found.header;
    Line::new("blob")
        .with_number("offset", found.offset)
        .with_number("family", header.family.0.into())
        .with("key_hash", format_args!("{:016x}", header.key_hash))
        .with_number("length", header.length.into())
        .with_number("stored", header.stored_bytes.into())
        .with_number("codec", header.codec.into())
        .with("checksum", format_args!("{:08x}", header.checksum))
}
