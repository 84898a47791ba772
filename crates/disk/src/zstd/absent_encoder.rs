//! What stands for the encoder in a build without the cargo feature `zstd`: nothing can be made.

/// Encodes frames in builds with the cargo feature `zstd`; here there is none.
pub struct AbsentEncoder(());

impl AbsentEncoder {
    /// # Panics
    /// Always: options that need it are refused where they are set.
    #[must_use]
    pub fn new(level: i8, dictionary: Option<&[u8]>) -> Self {
        let bytes = dictionary.map_or(0, <[u8]>::len);
        panic!("zstd level {level}, dictionary of {bytes} bytes: options are checked before")
    }

    /// No memory.
    #[must_use]
    pub fn working_bytes(_level: i8, _raw_bytes: usize) -> usize {
        0
    }

    /// No memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        0
    }

    /// No frame.
    pub fn encode(&mut self, _raw: &[u8], _out: &mut Vec<u8>) -> Option<usize> {
        None
    }
}

/// No dictionary.
#[must_use]
pub fn train(
    _samples: &[u8],
    _lengths: &[usize],
    _bytes_max: usize,
    _before: impl FnOnce(),
) -> Option<Vec<u8>> {
    None
}
