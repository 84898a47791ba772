//! When operations of an open loop are due, and what they are charged.

use super::*;
use std::cell::Cell;

const MS: Duration = Duration::from_millis(1);

/// Runs operations that take so many milliseconds each, one due each two. Returns by how many
/// milliseconds each ended after it was due, and how often the schedule waited.
fn lateness(took_ms: &[u32]) -> (Vec<u128>, usize) {
    let (begin, now_ms, waits) = (Instant::now(), Cell::new(0), Cell::new(0));
    let now = || begin + MS * now_ms.get();
    let mut schedule = Schedule::new(Some(2 * MS), Waits::Sleeping).unwrap();
    schedule.due = begin;
    let late = took_ms.iter().map(|took| {
        schedule.next(now, |how, rest| {
            assert_eq!(how, Waits::Sleeping);
            waits.set(waits.get() + 1);
            // Half of it: a sleep may end early.
            now_ms.set(now_ms.get() + (rest.as_millis() as u32).div_ceil(2));
        });
        now_ms.set(now_ms.get() + took);
        now().saturating_duration_since(schedule.due).as_millis()
    });
    (late.collect(), waits.get())
}

#[test]
fn an_operation_is_due_a_period_after_the_one_before_was_due() {
    let (late, waits) = lateness(&[1, 1, 1]);
    assert_eq!(late, [1, 1, 1]);
    // Two milliseconds in two halves, then one each.
    assert_eq!(waits, 4);
}

#[test]
fn a_stall_is_charged_to_all_operations_that_it_kept_waiting() {
    let (late, waits) = lateness(&[0, 10, 0, 0, 0, 0, 0, 0]);
    assert_eq!(late, [0, 10, 8, 6, 4, 2, 0, 0]);
    assert!(waits <= 6, "no wait while operations are overdue: {waits}");
}

#[test]
fn without_a_period_there_is_no_schedule() {
    assert!(Schedule::new(None, Waits::Spinning).is_none());
    let mut probe = Clocked::new(None);
    probe.begin();
    probe.next();
    probe.call(|| ());
    assert_eq!(probe.histogram.len(), 1);
}

#[test]
fn both_ways_of_waiting_end_when_the_operation_is_due() {
    for waits in [Waits::Spinning, Waits::Sleeping] {
        let mut probe = Clocked::new(Schedule::new(Some(MS), waits));
        probe.begin();
        let begin = Instant::now();
        for _ in 0..20 {
            probe.next();
            probe.call(|| ());
        }
        assert!(begin.elapsed() >= 19 * MS);
        assert_eq!(probe.histogram.len(), 20);
    }
}
