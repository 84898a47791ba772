//! Publication order under threads, and the whole protocol under loom.

use super::*;
use siltdb_base::sync::Arc;

#[cfg(not(loom))]
#[test]
fn what_is_published_is_always_a_prefix() {
    use std::sync::atomic::AtomicBool;

    const TICKETS: u64 = 40_000;
    let publisher = Arc::new(Publisher::new(SequenceNumber(0)));
    let next = Arc::new(Mutex::new(0_u64));
    let done: Arc<Vec<AtomicBool>> =
        Arc::new((0..TICKETS).map(|_| AtomicBool::new(false)).collect());
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (publisher, next, done) = (publisher.clone(), next.clone(), done.clone());
            thread::spawn(move || {
                loop {
                    let ticket = {
                        let mut next = next.lock().unwrap();
                        if *next == TICKETS {
                            return;
                        }
                        assert!(*next < publisher.tickets_end());
                        *next += 1;
                        *next - 1
                    };
                    done[ticket as usize].store(true, Ordering::Relaxed);
                    publisher.complete(ticket, SequenceNumber(ticket + 1));
                    let published = publisher.published().0;
                    assert!(published > ticket);
                    assert!(done[published as usize - 1].load(Ordering::Relaxed));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(publisher.published(), SequenceNumber(TICKETS));
}

#[cfg(loom)]
#[test]
fn loom_two_commits_publish_in_order_and_nobody_sleeps_for_ever() {
    loom::model(|| {
        let publisher = Arc::new(Publisher::new(SequenceNumber(0)));
        let data = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let threads: Vec<_> = (0..2_u64)
            .map(|ticket| {
                let (publisher, data) = (publisher.clone(), data.clone());
                thread::spawn(move || {
                    data[ticket as usize].store(1, Ordering::Relaxed);
                    publisher.complete(ticket, SequenceNumber(ticket + 1));
                    assert!(publisher.published().0 > ticket);
                })
            })
            .collect();
        let published = publisher.published().0;
        for ticket in 0..published {
            assert_eq!(data[ticket as usize].load(Ordering::Relaxed), 1);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(publisher.published(), SequenceNumber(2));
    });
}

#[cfg(loom)]
#[test]
fn loom_nothing_is_published_from_a_failed_ticket_on_and_nobody_sleeps_for_ever() {
    loom::model(|| {
        let publisher = Arc::new(Publisher::new(SequenceNumber(0)));
        let failing = publisher.clone();
        let failing = thread::spawn(move || failing.fail(0));
        let behind = publisher.clone();
        let behind = thread::spawn(move || behind.complete(1, SequenceNumber(2)));
        publisher.wait_for_ticket(IN_FLIGHT_MAX);
        assert!(publisher.has_failed());
        publisher.wait(SequenceNumber(2));
        assert_eq!(publisher.published(), SequenceNumber(0));
        for thread in [failing, behind] {
            thread.join().unwrap();
        }
        publisher.wait_for_all(2);
        assert_eq!(publisher.published(), SequenceNumber(0));
    });
}

#[cfg(loom)]
#[test]
fn loom_who_waits_for_a_ticket_draws_it_when_the_last_before_it_is_published() {
    loom::model(|| {
        let publisher = Arc::new(Publisher::new(SequenceNumber(0)));
        publisher.complete(0, SequenceNumber(1));
        let threads: Vec<_> = (1..IN_FLIGHT_MAX)
            .map(|ticket| {
                let publisher = publisher.clone();
                thread::spawn(move || publisher.complete(ticket, SequenceNumber(ticket + 1)))
            })
            .collect();
        // The ring is full. No later commit wakes it.
        publisher.wait_for_ticket(2 * IN_FLIGHT_MAX - 1);
        assert_eq!(publisher.published(), SequenceNumber(IN_FLIGHT_MAX));
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[cfg(not(loom))]
#[test]
fn a_commit_publishes_all_that_completed_behind_it_in_one_step() {
    let publisher = Arc::new(Publisher::new(SequenceNumber(0)));
    for ticket in 1..=40 {
        publisher.mark_complete(ticket, SequenceNumber(2 * ticket + 2));
    }
    // Ticket 41 is still at work.
    publisher.mark_complete(42, SequenceNumber(86));
    assert_eq!(publisher.completed_from(1), Some((41, 82)));
    assert_eq!(publisher.completed_from(41), None);
    publisher.complete(0, SequenceNumber(2));
    assert_eq!(publisher.published(), SequenceNumber(82));
    assert_eq!(publisher.tickets_end(), 41 + IN_FLIGHT_MAX);
    publisher.complete(41, SequenceNumber(84));
    assert_eq!(publisher.published(), SequenceNumber(86));
    publisher.wait_before(43);
    publisher.wait(SequenceNumber(86));
}

#[cfg(not(loom))]
#[test]
fn a_group_wakes_the_sleepers_of_its_tickets_and_no_other() {
    let publisher = Arc::new(Publisher::new(SequenceNumber(0)));
    let asleep = |ticket: u64| publisher.slot(ticket).sleepers.load(Ordering::SeqCst) > 0;
    let sleep_before = |end: u64| {
        let sleeper = publisher.clone();
        let thread = thread::spawn(move || sleeper.wait_before(end));
        while !asleep(end - 1) {
            thread::yield_now();
        }
        thread
    };
    let sleepers: Vec<_> = (1..=4).map(sleep_before).collect();
    publisher.mark_complete(1, SequenceNumber(2));
    publisher.complete(0, SequenceNumber(1));
    for (ticket, thread) in (0..).zip(sleepers) {
        if ticket == 2 {
            // Those of the two later tickets sleep on.
            assert!(asleep(2) && asleep(3));
            publisher.mark_complete(3, SequenceNumber(4));
            publisher.complete(2, SequenceNumber(3));
        }
        thread.join().unwrap();
    }
    assert_eq!(publisher.sleepers.load(Ordering::SeqCst), 0);
}

#[cfg(not(loom))]
#[test]
fn a_wait_for_a_number_ends_with_its_group_or_its_time() {
    let publisher = Arc::new(Publisher::new(SequenceNumber(0)));
    assert!(!publisher.wait_within(SequenceNumber(1), Duration::ZERO));
    assert!(!publisher.wait_within(SequenceNumber(1), Duration::from_millis(1)));
    let waiting = publisher.clone();
    // The first group does not reach it, the second one passes it.
    let waiting = thread::spawn(move || {
        waiting.wait(SequenceNumber(3));
        assert!(waiting.wait_within(SequenceNumber(4), Duration::from_secs(60)));
    });
    publisher.complete(0, SequenceNumber(2));
    publisher.mark_complete(2, SequenceNumber(5));
    publisher.complete(1, SequenceNumber(3));
    waiting.join().unwrap();
    assert_eq!(publisher.sleepers.load(Ordering::SeqCst), 0);
}

#[cfg(loom)]
#[test]
fn loom_a_group_behind_a_commit_is_published_once_and_wakes_each_of_its_sleepers() {
    loom::model(|| {
        let publisher = Arc::new(Publisher::new(SequenceNumber(0)));
        publisher.mark_complete(2, SequenceNumber(3));
        let sleeping = publisher.clone();
        let sleeping = thread::spawn(move || {
            sleeping.wait_before(3);
            assert_eq!(sleeping.published(), SequenceNumber(3));
        });
        // The neighbours complete at once: either of them may publish the group.
        let behind = publisher.clone();
        let behind = thread::spawn(move || behind.complete(1, SequenceNumber(2)));
        publisher.complete(0, SequenceNumber(1));
        assert!(publisher.published() >= SequenceNumber(1));
        for thread in [sleeping, behind] {
            thread.join().unwrap();
        }
        assert_eq!(publisher.published(), SequenceNumber(3));
        assert_eq!(publisher.sleepers.load(Ordering::SeqCst), 0);
    });
}

#[cfg(loom)]
#[test]
fn loom_a_wait_for_a_number_outlasts_the_groups_before_it() {
    loom::model(|| {
        let publisher = Arc::new(Publisher::new(SequenceNumber(0)));
        let waiting = publisher.clone();
        let waiting = thread::spawn(move || {
            waiting.wait(SequenceNumber(3));
            assert_eq!(waiting.published(), SequenceNumber(3));
        });
        publisher.complete(0, SequenceNumber(1));
        publisher.mark_complete(2, SequenceNumber(3));
        publisher.complete(1, SequenceNumber(2));
        waiting.join().unwrap();
    });
}
