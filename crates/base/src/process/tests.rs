//! A forked child knows that it is one, and so does its own child.

use super::*;

#[test]
fn a_forked_child_is_another_process() {
    let parent = Process::current();
    assert!(parent.is_current() && parent.check().is_ok());
    let code = run_in_fork(|| {
        let child = Process::current();
        let grandchild = run_in_fork(|| u8::from(child.is_current()));
        let named = parent.check().is_err_and(|error| error.kind() == ErrorKind::Forked);
        u8::from(named && child.is_current() && grandchild == Some(0))
    });
    assert_eq!(code, Some(1));
    assert!(parent.is_current(), "a fork changes nothing in the parent");
}

#[test]
fn a_child_that_panics_is_told_from_one_that_returns() {
    assert_eq!(run_in_fork(|| 7), Some(7));
    assert_eq!(run_in_fork(|| panic!("on purpose")), Some(255));
}
