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
        let threads: Vec<_> = (0..IN_FLIGHT_MAX)
            .map(|ticket| {
                let publisher = publisher.clone();
                thread::spawn(move || publisher.complete(ticket, SequenceNumber(ticket + 1)))
            })
            .collect();
        // The ring is full. No later commit wakes it.
        publisher.wait_for_ticket(IN_FLIGHT_MAX + 1);
        assert_eq!(publisher.published(), SequenceNumber(IN_FLIGHT_MAX));
        for thread in threads {
            thread.join().unwrap();
        }
    });
}
