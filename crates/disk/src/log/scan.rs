//! Looks for the headers of records where they no longer follow each other.
//!
//! What it finds is evidence of what was once durable, never a record to replay.

use super::{
    record::{
        PlacedHeader, RECORD_ALIGNMENT, RECORD_HEADER_BYTES, SEGMENT_AT, SEGMENT_BYTES_MAX, field,
        halves, has_known_form,
    },
    window::Window,
};
use siltdb_base::{error::Result, fs::File, id::SegmentId};
use std::{path::Path, sync::Arc};

/// Whether a header that was found is of a segment that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderMatch {
    /// It is: its payload is passed over.
    Ours,
    /// It is stale: its payload may have been overwritten by records that are looked for.
    Stale,
    /// It is what was looked for: the search ends.
    Enough,
}

/// Where to look, and for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeaderSearch {
    /// The segment that the file holds; `None` if that is not known, and any may be found.
    pub segment: Option<SegmentId>,
    /// Where to begin, in bytes.
    pub offset: u64,
}

/// Shows `visit` every record header in `file` that is searched for, at each multiple of 8.
///
/// Cost: reads the rest of the file once, with one comparison per 8 bytes where there is no header.
/// Where the segment is not known, some of them take a checksum of 24 bytes.
///
/// # Errors
/// `Unsupported`, if the segment is known and a record of it is of a form this build does not know;
/// what reading fails with.
pub(super) fn scan_headers(
    file: &Arc<dyn File>,
    path: &Path,
    search: HeaderSearch,
    visit: &mut dyn FnMut(&PlacedHeader) -> HeaderMatch,
) -> Result<()> {
    let end = file.len().min(SEGMENT_BYTES_MAX);
    let mut window = Window::new(Arc::clone(file), path.to_path_buf());
    let mut offset = search.offset.next_multiple_of(RECORD_ALIGNMENT);
    while offset < end && end - offset >= RECORD_HEADER_BYTES as u64 {
        let bytes = window.view(offset, RECORD_HEADER_BYTES)?;
        let skipped = candidate(bytes, search.segment);
        offset += skipped as u64;
        let Some(header) = bytes[skipped..].first_chunk() else { continue };
        let placed = PlacedHeader::decode(header, offset, search.segment)
            .map_err(|error| error.or_file(path).or_offset(offset))?;
        offset = match placed.map(|placed| (visit(&placed), placed.end())) {
            Some((HeaderMatch::Ours, end)) => end,
            Some((HeaderMatch::Stale, _)) | None => offset + RECORD_ALIGNMENT,
            Some((HeaderMatch::Enough, _)) => return Ok(()),
        };
    }
    Ok(())
}

/// The index of the first bytes that may be a header of `segment`, or of any if it is not known.
/// Where too few bytes are left to tell, the index of the first of those.
fn candidate(bytes: &[u8], segment: Option<SegmentId>) -> usize {
    let mut index = 0;
    while let Some(header) = bytes.get(index..).and_then(<[u8]>::first_chunk) {
        let header: &[u8; RECORD_HEADER_BYTES] = header;
        let may_be = match segment {
            Some(segment) => field(header, SEGMENT_AT) == halves(segment).0,
            None => has_known_form(header),
        };
        if may_be {
            break;
        }
        index += RECORD_ALIGNMENT as usize;
    }
    index
}
