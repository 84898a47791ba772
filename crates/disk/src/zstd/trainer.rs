//! The trainer of libzstd for dictionaries, with tables of a size that we choose.
//!
//! The safe bindings lead to a trainer that takes 10 MiB, which is too much of a small budget.

#![expect(unsafe_code, reason = "the border to C")]

use siltdb_base::{memory::allocator::give_back_freed, sync::lock};
use std::sync::Mutex;
use zstd_safe::zstd_sys::{
    ZDICT_fastCover_params_t, ZDICT_isError, ZDICT_optimizeTrainFromBuffer_fastCover,
    ZDICT_params_t,
};

/// Binary logarithm of the number of counters for what the samples share: of 10 bytes each, in
/// three tables. 1.3 MiB for at most 13 MiB of samples, most of which is rare and needs no counter.
const COUNTERS_LOG2: u32 = 17;

/// Bytes of a string that a counter stands for, as in the default of the library.
const STRING_BYTES: u32 = 8;

/// Lengths of segments that are tried, as in the default of the library.
const STEPS: u32 = 4;

/// The level that the dictionaries are tried with, as in the default of the library.
const LEVEL: i32 = 3;

/// A dictionary of at most `bytes_max` bytes for what is like the `samples`, which lie one after
/// the other and have these `lengths`; `None`, if they are too few.
///
/// Calls `before` when its turn has come, because one dictionary is trained at a time: training
/// takes [`super::TRAINER_BYTES`] of memory, which are given back to the system before it returns.
///
/// # Panics
/// If the lengths are not those of all samples.
#[must_use]
pub fn train(
    samples: &[u8],
    lengths: &[usize],
    bytes_max: usize,
    before: impl FnOnce(),
) -> Option<Vec<u8>> {
    /// Taken before any other lock, and held while nothing waits for files.
    static TURN: Mutex<()> = Mutex::new(());
    let total = lengths.iter().try_fold(0_usize, |total, &length| total.checked_add(length));
    assert_eq!(total, Some(samples.len()), "the lengths of all samples");
    let count = u32::try_from(lengths.len()).ok()?;
    let _turn = lock(&TURN);
    before();
    let mut dictionary = vec![0_u8; bytes_max];
    let mut parameters = ZDICT_fastCover_params_t {
        k: 0,
        d: STRING_BYTES,
        f: COUNTERS_LOG2,
        steps: STEPS,
        nbThreads: 1,
        splitPoint: 0.0,
        accel: 0,
        shrinkDict: 0,
        shrinkDictMaxRegression: 0,
        zParams: ZDICT_params_t { compressionLevel: LEVEL, notificationLevel: 0, dictID: 0 },
    };
    // SAFETY: the dictionary has room for its length, the samples are as long as the lengths say in
    // sum, and the library keeps none of the pointers.
    let length = unsafe {
        ZDICT_optimizeTrainFromBuffer_fastCover(
            dictionary.as_mut_ptr().cast(),
            dictionary.len(),
            samples.as_ptr().cast(),
            lengths.as_ptr(),
            count,
            &raw mut parameters,
        )
    };
    give_back_freed();
    // SAFETY: it looks at a number.
    let is_error = unsafe { ZDICT_isError(length) } != 0;
    dictionary.truncate(length);
    (!is_error).then_some(dictionary)
}
