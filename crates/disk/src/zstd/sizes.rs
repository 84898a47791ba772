//! What libzstd says of its memory before it takes it.

#![expect(unsafe_code, reason = "the border to C")]

use zstd_safe::zstd_sys::{ZSTD_estimateCCtxSize_usingCParams, ZSTD_getCParams};

/// Bytes of memory that an encoder of `level` without a dictionary takes for an input of
/// `raw_bytes`, at most, beside the output.
#[must_use]
pub fn encoder_bytes(level: i8, raw_bytes: usize) -> usize {
    // SAFETY: it looks up numbers.
    let parameters = unsafe { ZSTD_getCParams(level.into(), raw_bytes as u64, 0) };
    // SAFETY: it computes with numbers.
    unsafe { ZSTD_estimateCCtxSize_usingCParams(parameters) }
}
