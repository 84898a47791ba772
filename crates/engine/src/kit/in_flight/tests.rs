//! No call is in flight once the calls were ended.

use super::*;
use crate::fixture::held_up;
use std::sync::Arc;

#[test]
fn ending_waits_for_every_call_and_refuses_the_next() {
    let calls = Arc::new(CallsInFlight::default());
    let (first, second) = (calls.begin(), calls.begin());
    let ends = Arc::clone(&calls);
    let ended = held_up(move || ends.end());
    assert!(calls.begin().is_none());
    drop(first);
    assert!(ended.try_recv().is_err());
    drop(second);
    ended.recv().unwrap();
    assert!(calls.begin().is_none());
}
