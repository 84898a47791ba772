//! Every kind of bound, at and beside the greatest key.

use super::*;

fn before(start: &[u8], end: &[u8]) -> Deletion {
    Deletion::Before { start: Slice::copy_from(start), end: Slice::copy_from(end) }
}

fn through(start: &[u8]) -> Deletion {
    Deletion::Through { start: Slice::copy_from(start), end: Slice::copy_from(&GREATEST) }
}

#[test]
fn bounds_of_any_kind_become_a_first_key_and_the_first_that_stays() {
    assert_eq!(Deletion::of(&("a".."c")), before(b"a", b"c"));
    assert_eq!(Deletion::of(&("a"..="c")), before(b"a", b"c\0"));
    assert_eq!(Deletion::of(&(.."c")), before(b"", b"c"));
    assert_eq!(Deletion::of(&("a"..)), through(b"a"));
    assert_eq!(Deletion::of(&(..)), through(b""));
    let excluded = (Bound::Excluded("a"), Bound::Excluded("c"));
    assert_eq!(Deletion::of(&excluded), before(b"a\0", b"c"));
}

#[test]
fn a_range_without_keys_is_nothing() {
    for range in ["c".."a", "a".."a", "".."", "b".."ab"] {
        assert_eq!(Deletion::of(&range), Deletion::Nothing, "{range:?}");
    }
    let between = (Bound::Excluded("a"), Bound::Excluded("a\0"));
    assert_eq!(Deletion::of(&between), Deletion::Nothing);
    let after_all = (Bound::Excluded(&GREATEST[..]), Bound::Unbounded);
    assert_eq!(Deletion::of(&after_all), Deletion::Nothing);
}

#[test]
fn the_longest_keys_have_a_next_one_but_for_the_greatest() {
    let longest = [&[b'k'; KEY_BYTES_MAX - 1][..], b"x"].concat();
    let next = [&[b'k'; KEY_BYTES_MAX - 1][..], b"y"].concat();
    assert_eq!(Deletion::of(&(..=&longest)), before(b"", &next));
    let carried = [b"k".as_slice(), &[u8::MAX; KEY_BYTES_MAX - 1]].concat();
    assert_eq!(Deletion::of(&(..=&carried)), before(b"", b"l"));
    assert_eq!(Deletion::of(&(..=&GREATEST[..])), through(b""));
}

#[test]
fn a_prefix_ends_where_the_next_one_begins() {
    assert_eq!(Deletion::of_prefix(b"ab"), before(b"ab", b"ac"));
    assert_eq!(Deletion::of_prefix(b"a\xff"), before(b"a\xff", b"b"));
    assert_eq!(Deletion::of_prefix(b"\xff\xff"), through(b"\xff\xff"));
    assert_eq!(Deletion::of_prefix(b""), through(b""));
}
