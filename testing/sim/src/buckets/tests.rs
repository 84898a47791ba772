//! Calls of buckets, as the page on them says.

use super::*;

fn path(names: &[&str]) -> BucketPath {
    names.iter().map(|name| Shared::from(name.as_bytes())).collect()
}

fn shared(bytes: &[u8]) -> Shared {
    bytes.into()
}

fn call(
    state: &mut BucketState,
    names: &[&str],
    call: &BucketCall,
) -> Result<BucketAnswer, ErrorKind> {
    state.call(&path(names), call, RECLAIMED_AT_ONCE)
}

#[test]
fn a_moved_bucket_takes_its_keys_and_those_in_it_along() {
    let mut state = BucketState::new([]);
    call(&mut state, &["a", "b"], &BucketCall::CreateIfMissing).unwrap();
    let put = BucketCall::Put(shared(b"k"), shared(b"v"));
    call(&mut state, &["a", "b"], &put).unwrap();
    assert_eq!(call(&mut state, &["a", "b"], &BucketCall::NextId), Ok(BucketAnswer::Id(1)));
    call(&mut state, &["a"], &BucketCall::Rename(path(&["c"]))).unwrap();
    assert_eq!(state.contents(&path(&["a", "b"])), None);
    let moved = state.contents(&path(&["c", "b"])).unwrap();
    assert_eq!(moved.pairs, [(shared(b"k"), shared(b"v"))]);
    assert_eq!(call(&mut state, &["c", "b"], &BucketCall::NextId), Ok(BucketAnswer::Id(2)));
    assert_eq!(state.contents(&[]).unwrap().children, [shared(b"c")]);
}

#[test]
fn a_removed_tree_leaves_the_counter_of_ids_alone() {
    let mut state = BucketState::new([(shared(b"plain"), shared(b"1"))]);
    for names in [&["a", "b", "c"][..], &["a", "d"], &["e"]] {
        call(&mut state, names, &BucketCall::CreateIfMissing).unwrap();
        call(&mut state, names, &BucketCall::Put(shared(b"k"), shared(b"v"))).unwrap();
    }
    call(&mut state, &["e"], &BucketCall::Remove).unwrap();
    // Within a transaction those in it wait in the trash.
    state.call(&path(&["a"]), &BucketCall::Remove, 0).unwrap();
    assert!(state.pairs.len() > 2);
    assert!(state.contents(&[]).unwrap().children.is_empty());
    call(&mut state, &["f"], &BucketCall::Create).unwrap();
    call(&mut state, &["f"], &BucketCall::Remove).unwrap();
    assert_eq!(state.pairs.len(), 1);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut state = BucketState::new([]);
    call(&mut state, &["a", "b"], &BucketCall::CreateIfMissing).unwrap();
    let before = state.operations.len();
    let refused = [
        (path(&[]), BucketCall::Create, ErrorKind::InvalidArgument),
        (path(&["a"]), BucketCall::Create, ErrorKind::AlreadyExists),
        (path(&["x", "y"]), BucketCall::Create, ErrorKind::NotFound),
        (path(&["x"]), BucketCall::Remove, ErrorKind::NotFound),
        (path(&["a"]), BucketCall::Rename(path(&["a", "b", "c"])), ErrorKind::InvalidArgument),
        (path(&["a", "b"]), BucketCall::Rename(path(&["a"])), ErrorKind::AlreadyExists),
        (path(&["x"]), BucketCall::NextId, ErrorKind::NotFound),
    ];
    for (names, refused, kind) in refused {
        let found = state.call(&names, &refused, RECLAIMED_AT_ONCE);
        assert_eq!(found, Err(kind), "{names:?} {refused:?}");
    }
    assert_eq!(state.operations.len(), before);
}
