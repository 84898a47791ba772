//! What is the same is shared, and what only has the same name is not.

use super::*;
use siltdb_base::error::{Error, ErrorKind};
use siltdb_tree::{merge_operator::AbsentOperator, options::TreeOptions};

fn shared(known: &SharedOptions, options: TreeOptions) -> Arc<TreeOptions> {
    let mut bytes = Vec::new();
    options.encode(&mut bytes);
    known.share(&bytes, || Ok(options)).unwrap()
}

#[test]
fn equal_options_are_one_while_a_family_has_them() {
    let known = SharedOptions::default();
    let with = |ttl_ms| TreeOptions { ttl_ms, ..TreeOptions::default() };
    let (first, other) = (shared(&known, with(1)), shared(&known, with(2)));
    assert!(Arc::ptr_eq(&first, &shared(&known, with(1))));
    assert!(!Arc::ptr_eq(&first, &other) && (first.ttl_ms, other.ttl_ms) == (1, 2));
    let gone = Arc::downgrade(&first);
    drop(first);
    assert!(gone.upgrade().is_none(), "what no family has is kept");
    assert_eq!(shared(&known, with(1)).ttl_ms, 1);
    let refused = known.share(b"other bytes", || Err(Error::corruption("no options")));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Corruption);
    // What is gone does not pile up.
    (10..10_000).for_each(|ttl_ms| drop(shared(&known, with(ttl_ms))));
    assert!(lock(&known.known).len() < 100);
}

#[test]
fn operators_of_one_name_are_not_taken_for_each_other() {
    let known = SharedOptions::default();
    let with = |operator: &Arc<AbsentOperator>| TreeOptions {
        merge_operator: Some(Arc::clone(operator) as _),
        ..TreeOptions::default()
    };
    let [one, another] = [(); 2].map(|()| Arc::new(AbsentOperator::new("sum")));
    let (first, second) = (shared(&known, with(&one)), shared(&known, with(&another)));
    let of = |options: &TreeOptions| Arc::as_ptr(options.merge_operator.as_ref().unwrap());
    assert!(!std::ptr::addr_eq(of(&first), of(&second)));
}
