//! What follows from what a crash test saw; the test itself, see `tests/command.rs`.

use super::*;

fn concluded(class: Class, found: u64, flushes: Option<u64>, durability: Durability) -> Class {
    let survived = Survived { class, found, beyond: 0 };
    conclude(Seen { acknowledged: 100, survived, flushes }, durability).class
}

#[test]
fn a_lost_commit_makes_the_class_memory_whatever_is_claimed() {
    for durability in [Durability::Buffered, Durability::Synced] {
        assert_eq!(concluded(Class::Power, 99, Some(1000), durability), Class::Memory);
    }
}

#[test]
fn surviving_a_kill_is_process_and_no_more() {
    assert_eq!(concluded(Class::Power, 100, Some(1000), Durability::Buffered), Class::Process);
    assert_eq!(concluded(Class::Process, 101, None, Durability::Buffered), Class::Process);
    assert_eq!(concluded(Class::Memory, 100, None, Durability::Buffered), Class::Memory);
}

#[test]
fn power_takes_a_flush_for_each_commit() {
    assert_eq!(concluded(Class::Power, 100, Some(100), Durability::Synced), Class::Power);
    assert_eq!(concluded(Class::Power, 100, Some(99), Durability::Synced), Class::Process);
    assert_eq!(concluded(Class::Power, 100, None, Durability::Synced), Class::Process);
    assert_eq!(concluded(Class::Process, 100, Some(100), Durability::Synced), Class::Process);
}
