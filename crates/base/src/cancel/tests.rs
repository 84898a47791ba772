//! Tokens and their children.

use super::*;

#[test]
fn a_token_cancels_its_children_and_no_other() {
    let (token, other) = (CancelToken::new(), CancelToken::new());
    let (first, second) = (token.child(), token.child());
    let grandchild = first.child();
    assert!(token.check().is_ok() && grandchild.check().is_ok());
    first.cancel();
    assert!(first.is_cancelled() && grandchild.is_cancelled());
    assert!(!token.is_cancelled() && !second.is_cancelled());
    token.clone().cancel();
    assert!(token.is_cancelled() && second.is_cancelled() && !other.is_cancelled());
    assert_eq!(second.check().unwrap_err().kind(), ErrorKind::Cancelled);
}
