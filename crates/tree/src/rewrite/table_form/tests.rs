//! Tables against what the options want.

use super::*;

const RAW_BYTES: u64 = 1 << 20;

fn form(compression: Compression, has_dictionary: bool) -> TableForm {
    TableForm { compression, has_dictionary, raw_bytes: RAW_BYTES }
}

fn wanted(compression: Compression, dictionary_bytes: u32) -> TableOptions {
    TableOptions { compression, dictionary_bytes, ..TableOptions::default() }
}

#[test]
fn blocks_are_the_same_if_codec_and_level_are_and_no_dictionary_is_there() {
    let same = |form: TableForm, wanted: TableOptions| form.block_form(&wanted) == BlockForm::Same;
    for compression in [Compression::None, Compression::Lz4, Compression::ZSTD] {
        assert!(same(form(compression, false), wanted(compression, 0)));
    }
    assert!(!same(form(Compression::None, false), wanted(Compression::Lz4, 0)));
    assert!(!same(form(Compression::Zstd(3), false), wanted(Compression::Zstd(9), 0)));
    // Each table has another dictionary.
    assert!(!same(form(Compression::ZSTD, true), wanted(Compression::ZSTD, 1024)));
    assert!(!same(form(Compression::ZSTD, true), wanted(Compression::ZSTD, 0)));
    assert!(!same(form(Compression::ZSTD, true), wanted(Compression::Lz4, 0)));
    assert!(!same(form(Compression::ZSTD, false), wanted(Compression::ZSTD, 1024)));
    // Without zstd no dictionary is made.
    assert!(same(form(Compression::Lz4, false), wanted(Compression::Lz4, 1024)));
}

#[test]
fn a_table_has_the_form_that_is_wanted_or_is_too_small_for_a_dictionary() {
    let is = |form: TableForm, wanted: TableOptions| form.is(&wanted);
    assert!(is(form(Compression::ZSTD, true), wanted(Compression::ZSTD, 1024)));
    assert!(!is(form(Compression::ZSTD, true), wanted(Compression::ZSTD, 0)));
    assert!(!is(form(Compression::ZSTD, false), wanted(Compression::ZSTD, 1024)));
    let too_few_samples = (RAW_BYTES / RAW_PER_DICTIONARY_BYTE) as u32 + 1;
    assert!(is(form(Compression::ZSTD, false), wanted(Compression::ZSTD, too_few_samples)));
    assert!(!is(form(Compression::Lz4, false), wanted(Compression::None, 0)));
}
