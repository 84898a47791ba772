//! The map passes every pass. Its data outlives closing, but not its process.

use super::Btreemap;
use crate::{
    engine::{Class, Config, Engine, FailureKind, Session},
    job::{Job, Op},
    trial,
};

#[test]
fn every_operation_is_verified() {
    trial::every_operation::<Btreemap>(&[Op::Compact], |_: &mut Job| {}).unwrap();
}

#[test]
fn a_closed_map_is_found_again_and_a_dropped_one_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Btreemap::open(dir.path(), &Config::default()).unwrap();
    let holds = |key: &[u8]| open().session().unwrap().get(key, |_| {}).unwrap();
    let closed = open();
    closed.session().unwrap().put(b"closed", b"").unwrap();
    closed.close().unwrap();
    let dropped = open();
    dropped.session().unwrap().put(b"dropped", b"").unwrap();
    drop(dropped);
    assert!(holds(b"closed") && !holds(b"dropped"));
    assert_eq!(Btreemap::facts(&Config::default()).class, Class::Memory);
}

#[test]
fn a_file_that_was_cut_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("map"), [4, 0, 0, 0, b'k']).unwrap();
    let failure = Btreemap::open(dir.path(), &Config::default()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Error);
    assert!(failure.message.contains("cut off"), "{failure}");
}
