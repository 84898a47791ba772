//! The encoder of libzstd.

use super::sizes::encoder_bytes;
use zstd_safe::{CCtx, CParameter, compress_bound};

/// Encodes one frame after the other, keeping its working memory.
pub struct Encoder {
    context: CCtx<'static>,
}

impl Encoder {
    /// An encoder of `level`, perhaps with a dictionary, whose id its frames have.
    #[must_use]
    pub fn new(level: i8, dictionary: Option<&[u8]>) -> Self {
        let mut context = CCtx::create();
        // Levels beyond the range of the library are clamped by it, so none is refused.
        let _ = context.set_parameter(CParameter::CompressionLevel(level.into()));
        if let Some(dictionary) = dictionary {
            // A dictionary that it refuses is left out: frames then name none.
            let _ = context.load_dictionary(dictionary);
        }
        Self { context }
    }

    /// Bytes of memory that one without a dictionary takes for an input of `raw_bytes`, at most,
    /// beside the output, as the library says.
    #[must_use]
    pub fn working_bytes(level: i8, raw_bytes: usize) -> usize {
        encoder_bytes(level, raw_bytes)
    }

    /// Bytes of memory it takes now.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.context.sizeof()
    }

    /// Writes the frame of `raw` to the front of `out`, which grows if it has to, and says how long
    /// it is; `None`, if it cannot be made.
    pub fn encode(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let most = compress_bound(raw.len());
        if out.len() < most {
            out.resize(most, 0);
        }
        self.context.compress2(&mut out[..], raw).ok()
    }
}
