//! Encodings of every value type: round trip, and damage.

use super::*;
use std::fmt::Debug;

fn check<V: Value + Debug + Clone>(values: &[V]) {
    for value in values {
        let bytes = value.to_value().unwrap();
        let read = V::from_value(&bytes).unwrap();
        assert_eq!(read.to_value().unwrap(), bytes, "{value:?}");
        assert_eq!(format!("{read:?}"), format!("{value:?}"));
        let pair = (value.clone(), 7_u8);
        let (again, seven) = <(V, u8)>::from_value(&pair.to_value().unwrap()).unwrap();
        assert_eq!((format!("{again:?}"), seven), (format!("{value:?}"), 7));
        let mut inner = Vec::new();
        value.pack(&mut inner).unwrap();
        for end in 0..inner.len() {
            assert!(V::unpack(&mut &inner[..end]).is_err(), "{value:?} cut at {end}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            if let Ok(read) = V::from_value(&flipped) {
                assert_eq!(
                    read.to_value().unwrap(),
                    flipped,
                    "{value:?} damaged reads as {read:?}"
                );
            }
        }
    }
}

#[test]
fn values_round_trip_and_damaged_ones_are_errors_or_other_values() {
    check(&[0_u8, 1, 0xff]);
    check(&[0_u64, 1, u64::MAX]);
    check(&[i128::MIN, -1, 0, i128::MAX]);
    check(&[-0.0, 1.5, f64::NAN, f64::INFINITY]);
    check(&[1.5_f32]);
    check(&[false, true]);
    check(&[()]);
    check(&[[1_u8, 2, 3]]);
    check(&["".to_owned(), "a\0é".to_owned()]);
    check(&[vec![], vec![0, 0xff]]);
    check(&[None, Some("a".to_owned())]);
    check(&[("a".to_owned(), Some(7_u16), vec![1_u8]), (String::new(), None, vec![])]);
    check(&[(1_u8, 2_u8, 3_u8, 4_u8, vec![5_u8]), (0, 0, 0, 0, vec![])]);
    check(&[("a".to_owned(), "b".to_owned(), (), 1_i8, false, "c".to_owned())]);
}

#[test]
fn encodings_are_as_documented() {
    assert_eq!(258_u32.to_value().unwrap(), [2, 1, 0, 0]);
    assert_eq!("abc".to_owned().to_value().unwrap(), b"abc");
    assert_eq!(("ab".to_owned(), "c".to_owned()).to_value().unwrap(), b"\x02\0\0\0abc");
    assert_eq!(Some(vec![9_u8]).to_value().unwrap(), [1, 9]);
    assert!(().to_value().unwrap().is_empty());
}

#[test]
fn a_value_that_is_too_long_or_a_length_beyond_it_is_an_error() {
    assert!(u32::from_value(&[0; 5]).is_err());
    assert!(<()>::from_value(b"x").is_err());
    assert!(<(Vec<u8>, u8)>::from_value(&[0xff, 0xff, 0xff, 0xff, 1]).is_err());
    assert!(String::from_value(&[0xff]).is_err());
}
