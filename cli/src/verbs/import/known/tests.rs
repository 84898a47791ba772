//! Which keys are asked for.

use super::*;
use siltdb::{Db, FamilyOptions};

#[test]
fn new_keys_in_any_order_are_not_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("db")).unwrap();
    let family = db.create_family("f", FamilyOptions::new()).unwrap();
    family.put("m", "").unwrap();
    let mut known = Known::of(&family).unwrap();
    assert_eq!(known.before(), Before::Keys);
    // A family that was dropped answers no question.
    db.drop_family("f").unwrap();
    for number in 0..1000_u32 {
        let key = format!("n{:08x}", number.wrapping_mul(2_654_435_761));
        assert!(!known.import(&family, key.as_bytes()).unwrap(), "{key}");
    }
    known.raise(b"o");
    assert!(known.import(&family, b"n00000000").is_err());
    assert!(known.import(&family, b"a").is_err());
    assert!(!known.import(&family, b"p").unwrap());
}

#[test]
fn a_family_without_keys_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("db")).unwrap();
    assert_eq!(Known::of(&db.default_family()).unwrap().before(), Before::Empty);
}
