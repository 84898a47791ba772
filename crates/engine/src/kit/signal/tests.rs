//! No event is lost, and no wait exceeds its timeout.

use super::*;
use std::thread;

/// Longer than any test may take.
const FOR_EVER: Duration = Duration::from_secs(3600);

#[test]
fn an_event_between_looking_and_waiting_is_not_lost() {
    let signal = Signal::default();
    let seen = signal.seen();
    signal.raise();
    signal.wait(seen, FOR_EVER);
    assert_ne!(signal.seen(), seen);
}

#[test]
fn one_event_wakes_all_who_wait() {
    let signal = Arc::new(Signal::default());
    let seen = signal.seen();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let signal = Arc::clone(&signal);
            thread::spawn(move || signal.wait(seen, FOR_EVER))
        })
        .collect();
    signal.raise();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn without_an_event_a_wait_ends_in_time() {
    let signal = Signal::default();
    signal.wait(signal.seen(), Duration::from_millis(1));
    assert_eq!(signal.seen(), 0);
}

#[test]
fn an_event_is_one_of_the_other_signal_too_while_that_is_there() {
    let (signal, other) = (Signal::default(), Arc::new(Signal::default()));
    signal.raise();
    signal.forward_to(&other);
    assert_eq!((signal.seen(), other.seen()), (1, 0));
    let seen = other.seen();
    signal.raise();
    other.wait(seen, FOR_EVER);
    other.raise();
    assert_eq!((signal.seen(), other.seen()), (2, 2));
    drop(other);
    signal.raise();
    assert_eq!(signal.seen(), 3);
}
