//! Encodings of every key type against the values: order, round trip, delimiting and damage.

use super::*;
use crate::key_order::KeyOrder;
use std::fmt::Debug;

/// Numbers that look random; the seed decides all of them.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 29)
    }

    /// Bytes of an alphabet in which prefixes, zero bytes and escapes are likely.
    fn bytes(&mut self) -> Vec<u8> {
        let length = self.next() % 5;
        (0..length).map(|_| [0, 0, 1, b'a', 0xfe, 0xff][(self.next() % 6) as usize]).collect()
    }

    fn text(&mut self) -> String {
        let length = self.next() % 11;
        let characters =
            ['\0', '\u{1}', 'a', 'A', 'b', 'B', 'z', '[', '"', '\\', 'é', '\u{10ffff}'];
        (0..length).map(|_| characters[(self.next() % 12) as usize]).collect()
    }
}

const SEED: u64 = 45;

fn many<T>(mut draw: impl FnMut(&mut Draw) -> T) -> Vec<T> {
    let mut source = Draw(SEED);
    (0..60).map(|_| draw(&mut source)).collect()
}

/// Checks all pairs of `values`, whose order is `order`.
fn check_by<K: Key + Debug>(values: &[K], order: impl Fn(&K, &K) -> Ordering) {
    let encoded: Vec<(Vec<u8>, Vec<u8>)> =
        values.iter().map(|value| (value.to_key(), delimited(value))).collect();
    for (value, (key, inner)) in values.iter().zip(&encoded) {
        assert_eq!(&K::from_key(key).unwrap().to_key(), key, "{value:?}");
        check_delimited::<K>(inner, value);
        check_damage::<K>(key, value);
        let order = KeyOrder::of::<K>();
        let text = order.text_of(key).unwrap();
        assert_eq!(order.key_of(&text).as_ref().unwrap(), key, "{value:?} as {text}");
    }
    for (a, (a_key, a_inner)) in values.iter().zip(&encoded) {
        for (b, (b_key, b_inner)) in values.iter().zip(&encoded) {
            let expected = order(a, b);
            assert_eq!(a_key.cmp(b_key), expected, "{a:?} and {b:?} as whole keys");
            // Whatever follows decides nothing, unless the fields are equal.
            for (a_next, b_next) in [(0, 0xff), (0xff, 0), (7, 7)] {
                let (a_all, b_all) = (with(a_inner, a_next), with(b_inner, b_next));
                let whole = expected.then(a_next.cmp(&b_next));
                assert_eq!(a_all.cmp(&b_all), whole, "{a:?} and {b:?} before other fields");
            }
        }
    }
}

fn check<K: Key + Ord + Debug>(values: &[K]) {
    check_by(values, K::cmp);
    // Made again from their keys, because a value moves into `Reverse`.
    let again = values.iter().map(|value| K::from_key(&value.to_key()).unwrap());
    let reversed: Vec<_> = again.map(Reverse).collect();
    for (value, a) in values.iter().zip(&reversed) {
        assert_eq!(*value, a.0);
        assert_eq!(Reverse::<K>::from_key(&a.to_key()).unwrap(), *a);
        for b in &reversed {
            assert_eq!(a.to_key().cmp(&b.to_key()), a.cmp(b), "{a:?} and {b:?}");
        }
    }
}

fn delimited<K: Key>(value: &K) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

fn with(bytes: &[u8], next: u8) -> Vec<u8> {
    [bytes, &[next]].concat()
}

/// The field ends where it ends, and each part of it is an error.
fn check_delimited<K: Key + Debug>(inner: &[u8], value: &K) {
    let followed = with(inner, 9);
    let mut from = KeyReader::new(&followed);
    assert_eq!(delimited(&K::decode(&mut from).unwrap()), inner, "{value:?}");
    assert_eq!(from.rest(), [9], "{value:?}");
    for end in 0..inner.len() {
        let part = K::decode(&mut KeyReader::new(&inner[..end]));
        assert!(part.is_err(), "{value:?} cut at {end}");
    }
}

/// A damaged key is an error or another value, never a second encoding of one.
fn check_damage<K: Key + Debug>(key: &[u8], value: &K) {
    let mut damaged: Vec<Vec<u8>> = (0..key.len()).map(|end| key[..end].to_vec()).collect();
    damaged.extend([0, 1, 0xff].map(|next| with(key, next)));
    for bit in 0..key.len() * 8 {
        let mut flipped = key.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        damaged.push(flipped);
    }
    for bytes in damaged {
        if let Ok(read) = K::from_key(&bytes) {
            assert_eq!(read.to_key(), bytes, "{value:?} damaged reads as {read:?}");
        }
    }
}

#[test]
fn integers_have_their_order_up_to_both_ends() {
    macro_rules! check_integers {
        ($($type:ident)*) => {$({
            let mut values = many(|draw| draw.next() as $type);
            values.extend([$type::MIN, $type::MIN + 1, 0, 1, 0x7f, $type::MAX - 1, $type::MAX]);
            values.extend([$type::MAX / 2, $type::MAX / 2 + 1, (0 as $type).wrapping_sub(1)]);
            check(&values);
        })*};
    }
    check_integers!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128);
}

#[test]
fn floats_have_their_total_order() {
    let special = [
        f64::NEG_INFINITY,
        f64::MIN,
        -1.5,
        -f64::MIN_POSITIVE,
        -0.0,
        0.0,
        f64::from_bits(1),
        f64::MIN_POSITIVE,
        1.5,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
        -f64::NAN,
        f64::from_bits(f64::NAN.to_bits() + 1),
    ];
    let mut values = many(|draw| f64::from_bits(draw.next()));
    values.extend(special);
    check_by(&values, f64::total_cmp);
    let mut values = many(|draw| f32::from_bits(draw.next() as u32));
    values.extend(special.map(|value| value as f32));
    check_by(&values, f32::total_cmp);
}

#[test]
fn text_and_bytes_have_their_order_with_zero_bytes_and_prefixes() {
    let mut values = many(Draw::bytes);
    values.extend([vec![], vec![0], vec![0, 0], vec![0, 0xff], vec![0xff], vec![0xff, 0xff]]);
    check(&values);
    check(&many(Draw::text));
    check(&[[0_u8, 0], [0, 1], [0, 0xff], [1, 0], [0xff, 0]]);
    check(&[[0_u8; 0]]);
    check(&[false, true]);
}

#[test]
fn little_endian_integers_have_the_order_of_the_numbers() {
    let numbers = many(|draw| draw.next() >> (draw.next() % 64));
    let mut values: Vec<_> =
        numbers.iter().map(|number| LittleEndian(number.to_le_bytes())).collect();
    values.extend([0, 1, 255, 256, u64::MAX].map(|number| LittleEndian(number.to_le_bytes())));
    check(&values);
    let number = |value: &LittleEndian<8>| u64::from_le_bytes(value.0);
    check_by(&values, |a, b| number(a).cmp(&number(b)));
    assert_eq!(KeyOrder::of::<LittleEndian<4>>().text_of(&[0, 0, 1, 0]).unwrap(), "256");
}

#[test]
fn caseless_text_has_the_order_of_its_lower_case_and_keeps_its_case() {
    let mut values: Vec<_> = many(|draw| Caseless(draw.text()));
    let words = ["", "a", "A", "ab", "aB", "Ab", "b", "B", "[", "abcdefgh", "ABCDEFGHi", "É", "é"];
    values.extend(words.map(|word| Caseless(word.to_owned())));
    check(&values);
    let folded = |text: &Caseless| text.0.to_ascii_lowercase();
    for a in &values {
        for b in &values {
            if folded(a) != folded(b) {
                assert_eq!(a.to_key().cmp(&b.to_key()), folded(a).cmp(&folded(b)), "{a:?} {b:?}");
            }
        }
        let spellings = Caseless::spellings(&a.0);
        assert!(spellings.contains(a));
        assert!(values.iter().all(|b| spellings.contains(b) == (folded(a) == folded(b))));
    }
}

#[test]
fn options_and_tuples_have_their_order() {
    check(&many(|draw| (draw.next() % 3 > 0).then(|| draw.bytes())));
    check(&many(|draw| (draw.bytes(), draw.bytes())));
    check(&many(|draw| (draw.text(), draw.next() % 3)));
    check(&many(|draw| (draw.next() as i8 % 2, draw.text(), draw.bytes())));
    check(&many(|draw| (Reverse(draw.bytes()), draw.bytes())));
    check(&many(|draw| (draw.bytes(), Reverse(draw.bytes()))));
    check(&many(|draw| ((draw.bytes(), draw.text()), Some(draw.bytes()))));
    check(&many(|draw| (Some(Reverse(draw.text())), (Caseless(draw.text()), draw.bytes()))));
    check(&many(|draw| (draw.next() % 2, draw.next() % 2 > 0, draw.bytes(), draw.bytes())));
    check(&many(|draw| {
        let mut bit = || draw.next() % 2 > 0;
        (bit(), bit(), bit(), bit(), Some(bit()))
    }));
    check(&many(|draw| {
        let mut bytes = || draw.bytes();
        (bytes(), bytes(), bytes(), bytes(), bytes(), bytes())
    }));
}

#[test]
fn a_prefix_has_the_bytes_with_which_exactly_its_keys_begin() {
    let keys = many(|draw| (draw.bytes(), draw.next() % 2, draw.bytes()));
    for (a, b, _) in &keys {
        let (first, both) = ((a.clone(),), (a.clone(), *b));
        let first = KeyPrefix::<(Vec<u8>, u64, Vec<u8>)>::prefix(&first);
        let both = KeyPrefix::<(Vec<u8>, u64, Vec<u8>)>::prefix(&both);
        for key in &keys {
            assert_eq!(key.to_key().starts_with(&first), key.0 == *a, "{key:?}");
            assert_eq!(key.to_key().starts_with(&both), (&key.0, key.1) == (a, *b), "{key:?}");
        }
    }
    assert_eq!(KeyPrefix::<String>::prefix("a"), b"a");
    assert_eq!(KeyPrefix::<Vec<u8>>::prefix(&b"a"[..]), b"a");
}

#[test]
fn borrowed_forms_encode_as_the_owned_ones() {
    assert_eq!(KeyForm::<String>::form("a\0b"), "a\0b".to_owned().to_key());
    assert_eq!(KeyForm::<Vec<u8>>::form(&b"a\0b"[..]), b"a\0b".to_vec().to_key());
}

#[test]
fn encodings_are_as_documented() {
    assert_eq!(1_u32.to_key(), [0, 0, 0, 1]);
    assert_eq!((-1_i16).to_key(), [0x7f, 0xff]);
    assert_eq!(1.0_f32.to_key(), [0xbf, 0x80, 0, 0]);
    assert_eq!((-1.0_f32).to_key(), [0x40, 0x7f, 0xff, 0xff]);
    assert_eq!("a\0".to_owned().to_key(), b"a\0");
    assert_eq!(("a\0".to_owned(), "b".to_owned()).to_key(), b"a\0\xff\0\0b");
    assert_eq!(Reverse("a".to_owned()).to_key(), [!b'a', 0xff, 0xff]);
    assert_eq!(Caseless("aB".to_owned()).to_key(), b"ab\0\0\x80");
    assert_eq!(Some(true).to_key(), [1, 1]);
    assert_eq!(LittleEndian([1, 2]).to_key(), [2, 1]);
}

#[test]
fn a_damaged_key_is_told_with_its_order_and_its_bytes() {
    let error = <(u16, bool)>::from_key(&[0, 1, 7]).unwrap_err();
    assert_eq!(error.kind(), siltdb_base::error::ErrorKind::Corruption);
    let text = error.to_string();
    assert!(text.contains("(u16,bool)") && text.contains(r"\x00\x01\x07"), "{text}");
}
