//! Decodes frames within bounds.
//!
//! The decoder of the crate keeps a window of its own. It is no longer than what is decoded,
//! because a frame that states a longer one is refused, and it grows by one block before the length
//! is compared.

use ruzstd::decoding::{self, BlockDecodingStrategy, FrameDecoder};
use siltdb_base::{
    error::{Error, Result},
    sync::lock,
};
use std::{cell::Cell, fmt, io::Read, sync::Mutex};

/// Longest frame after which its decoder is kept, in bytes when decoded: the window stays as long.
const KEPT_RAW_BYTES_MAX: usize = 1 << 20;

/// The same for a decoder with a dictionary, of which there may be two for each table.
const KEPT_WITH_DICTIONARY_RAW_BYTES_MAX: usize = 12 << 10;

/// Decoders that a dictionary keeps, at most: each has a copy of it.
const IDLE_DECODERS_MAX: usize = 2;

/// Bytes of memory of a kept decoder beside its dictionary, at most: twice 26 KiB of tables, those
/// of the dictionary and those of the frame, and 48 KiB for the window, literals and sequences.
const DECODER_BYTES: usize = 100 << 10;

/// A dictionary, ready to decode with.
///
/// # Thread safety
/// Any number of threads may decode with it, each with a decoder of its own.
pub struct Dictionary {
    id: u32,
    bytes: Box<[u8]>,
    /// Decoders that have it and that no thread uses.
    idle: Mutex<Vec<FrameDecoder>>,
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Dictionary {
    /// Reads a dictionary that fills all of `bytes`.
    ///
    /// # Errors
    /// Corruption, if there is none.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let dictionary = parse(bytes)?;
        let last_offsets = dictionary.offset_hist;
        let content_bytes = dictionary.dict_content.len();
        let is_within = |&offset: &u32| offset > 0 && offset as usize <= content_bytes;
        if dictionary.id == 0 || !last_offsets.iter().all(is_within) {
            return Err(Error::corruption("a zstd dictionary with a wrong id or offset"));
        }
        Ok(Self { id: dictionary.id, bytes: bytes.into(), idle: Mutex::default() })
    }

    /// Bytes of memory that one of `bytes` takes at most, with the decoders that it keeps.
    #[must_use]
    pub fn memory_bytes(bytes: usize) -> usize {
        // A decoder has the dictionary, and a copy for the frame that it decodes.
        bytes + IDLE_DECODERS_MAX * (2 * bytes + DECODER_BYTES)
    }

    fn decoder(&self) -> Result<FrameDecoder> {
        if let Some(decoder) = lock(&self.idle).pop() {
            return Ok(decoder);
        }
        let mut decoder = FrameDecoder::new();
        decoder.add_dict(parse(&self.bytes)?).map_err(bad_payload)?;
        Ok(decoder)
    }

    fn keep(&self, decoder: FrameDecoder) {
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_DECODERS_MAX {
            idle.push(decoder);
        }
    }
}

fn parse(bytes: &[u8]) -> Result<decoding::Dictionary> {
    decoding::Dictionary::decode_dict(bytes)
        .map_err(|error| Error::corruption("bad zstd dictionary").with_source(error))
}

/// Decodes `payload` to all of `out`. A frame that names a dictionary needs that one.
///
/// Takes as much memory as `out` has, and that of one block, 128 KiB.
///
/// # Errors
/// Corruption, if the payload is no frame, does not decode to that length, or names another
/// dictionary.
pub fn decode(payload: &[u8], dictionary: Option<&Dictionary>, out: &mut [u8]) -> Result<()> {
    thread_local! {
        static IDLE: Cell<Option<FrameDecoder>> = Cell::default();
    }
    let mut decoder = match dictionary {
        Some(dictionary) => dictionary.decoder()?,
        None => IDLE.take().unwrap_or_default(),
    };
    // After a failure it is dropped, whatever state it is in.
    decode_with(&mut decoder, payload, out)?;
    match dictionary {
        Some(dictionary) if out.len() <= KEPT_WITH_DICTIONARY_RAW_BYTES_MAX => {
            dictionary.keep(decoder);
        }
        None if out.len() <= KEPT_RAW_BYTES_MAX => IDLE.set(Some(decoder)),
        Some(_) | None => {}
    }
    Ok(())
}

fn decode_with(decoder: &mut FrameDecoder, payload: &[u8], out: &mut [u8]) -> Result<()> {
    let mut rest = payload;
    decoder.set_max_window_size(out.len() as u64);
    decoder.init(&mut rest).map_err(bad_payload)?;
    if decoder.content_size() != out.len() as u64 {
        return Err(wrong_length(out.len(), decoder.content_size()));
    }
    let mut decoded = 0;
    loop {
        let block = BlockDecodingStrategy::UptoBlocks(1);
        let is_last = decoder.decode_blocks(&mut rest, block).map_err(bad_payload)?;
        let held = decoder.can_collect();
        let room = out.get_mut(decoded..decoded + held);
        let room = room.ok_or_else(|| wrong_length(held, "more"))?;
        decoder.read_exact(room).map_err(bad_payload)?;
        decoded += held;
        if is_last {
            break;
        }
    }
    if decoded != out.len() || !rest.is_empty() {
        return Err(wrong_length(out.len(), decoded));
    }
    Ok(())
}

#[cold]
fn bad_payload(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::corruption("bad zstd payload").with_source(error)
}

#[cold]
fn wrong_length(expected: impl fmt::Display, found: impl fmt::Display) -> Error {
    Error::corruption("payload and raw length disagree").with_mismatch(expected, found)
}
