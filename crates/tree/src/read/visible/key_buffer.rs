//! Keys in buffers that are used again, so that a move of an iterator allocates nothing.

#[inline]
pub(super) fn copy(into: &mut Vec<u8>, bytes: &[u8]) {
    into.clear();
    into.extend_from_slice(bytes);
}

/// Makes `into` the smallest key greater than `key`.
pub(super) fn successor_into(into: &mut Vec<u8>, key: &[u8]) {
    copy(into, key);
    into.push(0);
}
