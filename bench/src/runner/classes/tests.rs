//! Tests of the class derived from observations. `tests/command.rs` has the crash test itself.

use super::*;

fn concluded(claimed: Class, found: u64, flushes: Option<u64>) -> Class {
    let survived = Survived { class: claimed, found, beyond: 0 };
    conclude(Seen { acknowledged: 100, survived, flushes }).class
}

#[test]
fn a_lost_commit_makes_the_class_memory_whatever_is_claimed() {
    assert_eq!(concluded(Class::Power, 99, Some(1000)), Class::Memory);
    assert_eq!(concluded(Class::Process, 0, None), Class::Memory);
}

#[test]
fn surviving_a_kill_is_process_and_no_more() {
    assert_eq!(concluded(Class::Process, 100, Some(3)), Class::Process);
    assert_eq!(concluded(Class::Process, 101, None), Class::Process);
    assert_eq!(concluded(Class::Process, 100, Some(1000)), Class::Process);
    assert_eq!(concluded(Class::Memory, 100, None), Class::Memory);
}

#[test]
fn power_takes_a_flush_for_each_commit() {
    assert_eq!(concluded(Class::Power, 100, Some(100)), Class::Power);
    assert_eq!(concluded(Class::Power, 100, Some(99)), Class::Process);
    assert_eq!(concluded(Class::Power, 100, None), Class::Process);
}
