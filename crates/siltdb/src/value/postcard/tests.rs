//! Values of serde: round trip, within tuples, and damage.

use super::*;
use std::collections::BTreeMap;

type Map = BTreeMap<String, Option<(i64, Vec<f64>)>>;

fn map() -> Map {
    BTreeMap::from([("none".to_owned(), None), ("some".to_owned(), Some((-7, vec![1.5, 2.5])))])
}

#[test]
fn values_round_trip_alone_and_before_other_fields() {
    let bytes = Postcard(map()).to_value().unwrap();
    assert_eq!(Postcard::<Map>::from_value(&bytes).unwrap().0, map());
    let both = (Postcard(map()), Postcard("text".to_owned())).to_value().unwrap();
    let read = <(Postcard<Map>, Postcard<String>)>::from_value(&both).unwrap();
    assert_eq!((read.0.0, &read.1.0[..]), (map(), "text"));
}

#[test]
fn damaged_values_are_errors() {
    let bytes = Postcard(map()).to_value().unwrap();
    for end in 0..bytes.len() {
        assert!(Postcard::<Map>::from_value(&bytes[..end]).is_err(), "cut at {end}");
    }
    assert!(Postcard::<Map>::from_value(&[&bytes[..], b"x"].concat()).is_err());
    // A length beyond the input.
    assert!(Postcard::<Vec<u8>>::from_value(&[0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
}

#[test]
fn a_value_that_cannot_be_serialized_is_refused() {
    /// Serde gives an iterator no length, which postcard needs.
    #[derive(Debug)]
    struct Endless;
    impl Serialize for Endless {
        fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
            serde::ser::SerializeSeq::end(to.serialize_seq(None)?)
        }
    }
    impl<'de> serde::Deserialize<'de> for Endless {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> std::result::Result<Self, D::Error> {
            Ok(Self)
        }
    }
    let refused = Postcard(Endless).to_value().unwrap_err();
    assert_eq!(refused.kind(), siltdb_base::error::ErrorKind::InvalidArgument);
}
