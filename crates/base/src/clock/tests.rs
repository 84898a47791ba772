//! Time that is set back, and time that jumps.

use super::*;

const HOUR: Duration = Duration::from_secs(3600);
const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;
const NOW_MS: u64 = 56 * YEAR_MS;

fn forward(manual: &Arc<ManualClock>, latest_ms: u64, jump_ms: u64) -> ForwardClock {
    ForwardClock::new(manual.clone(), StoredTime { latest_ms, jump_ms })
}

#[test]
fn a_forward_clock_never_goes_back() {
    let manual = Arc::new(ManualClock::at(Duration::from_millis(1000)));
    let clock = forward(&manual, 500, 0);
    assert_eq!(clock.wall_ms(), 1000);
    manual.set(Duration::from_millis(10));
    assert_eq!(clock.wall_ms(), 1000);
    manual.set(Duration::from_millis(2000));
    assert_eq!(clock.wall_ms(), 2000);
    assert_eq!(forward(&manual, 9000, 0).wall_ms(), 9000);
}

#[test]
fn time_runs_on_while_the_wall_is_far_behind_and_waits_while_it_is_a_little() {
    let manual = Arc::new(ManualClock::at(Duration::from_millis(NOW_MS)));
    let clock = forward(&manual, 0, 0);
    assert_eq!(clock.wall_ms(), NOW_MS);
    manual.set(Duration::from_millis(NOW_MS - LAG_MS_MAX));
    manual.advance(Duration::from_millis(LAG_MS_MAX / 2));
    assert_eq!(clock.wall_ms(), NOW_MS, "the wall catches up");
    manual.set(Duration::from_millis(NOW_MS - YEAR_MS));
    for step in 1..=5 {
        manual.advance(Duration::from_micros(60_000_500));
        assert_eq!(clock.wall_ms(), NOW_MS + step * 60_000 + step / 2);
        // Asking often loses nothing.
        (0..9).for_each(|_| assert_eq!(clock.wall_ms(), NOW_MS + step * 60_000 + step / 2));
    }
    let reached = clock.wall_ms();
    manual.set(Duration::from_millis(reached + 5));
    assert_eq!(clock.wall_ms(), reached + 5);
}

#[test]
fn a_jump_of_years_counts_at_once_and_is_settled_when_it_has_lasted() {
    let manual = Arc::new(ManualClock::at(Duration::from_millis(NOW_MS)));
    let clock = forward(&manual, NOW_MS - 1000, 0);
    assert_eq!((clock.wall_ms(), clock.settled_ms()), (NOW_MS, NOW_MS));
    let future = NOW_MS + 70 * YEAR_MS;
    manual.set(Duration::from_millis(future));
    assert_eq!((clock.wall_ms(), clock.settled_ms()), (future, NOW_MS));
    assert_eq!(clock.stored(), StoredTime { latest_ms: NOW_MS, jump_ms: future });
    manual.advance(HOUR / 2);
    assert_eq!((clock.wall_ms(), clock.settled_ms()), (future + 1_800_000, NOW_MS + 1_800_000));
    manual.advance(HOUR / 2);
    assert_eq!((clock.wall_ms(), clock.settled_ms()), (future + 3_600_000, future + 3_600_000));
    assert_eq!(clock.stored().jump_ms, 0);
}

#[test]
fn a_jump_that_is_taken_back_leaves_nothing_behind() {
    let manual = Arc::new(ManualClock::at(Duration::from_millis(NOW_MS)));
    let clock = forward(&manual, NOW_MS, 0);
    manual.set(Duration::from_millis(NOW_MS + 70 * YEAR_MS));
    assert!(clock.wall_ms() > NOW_MS + YEAR_MS);
    manual.advance(Duration::from_secs(60));
    manual.set(Duration::from_millis(NOW_MS + 60_000));
    assert_eq!((clock.wall_ms(), clock.settled_ms()), (NOW_MS + 60_000, NOW_MS + 60_000));
    // One wrong year after the other: each has to last by itself.
    for years in [70, 30, 50] {
        manual.set(Duration::from_millis(NOW_MS + years * YEAR_MS));
        assert_eq!(clock.wall_ms(), NOW_MS + years * YEAR_MS);
        manual.advance(HOUR - Duration::from_millis(1));
        clock.wall_ms();
        assert!(clock.settled_ms() < NOW_MS + YEAR_MS, "{years}");
    }
}

#[test]
fn short_openings_settle_a_jump_that_lasts_and_forget_one_that_does_not() {
    let future = NOW_MS + 2 * YEAR_MS;
    let manual = Arc::new(ManualClock::at(Duration::from_millis(future)));
    let first = forward(&manual, NOW_MS, 0);
    assert_eq!((first.wall_ms(), first.settled_ms()), (future, NOW_MS));
    let StoredTime { latest_ms, jump_ms } = first.stored();
    assert_eq!((latest_ms, jump_ms), (NOW_MS, future));
    manual.advance(HOUR);
    let lasted = forward(&manual, latest_ms, jump_ms);
    assert_eq!((lasted.wall_ms(), lasted.settled_ms()), (future + 3_600_000, future + 3_600_000));
    // Another year, or the true one, and the jump was none of it.
    for (wall_ms, settled_ms) in
        [(future + 9 * YEAR_MS, NOW_MS), (NOW_MS + 7, NOW_MS + 7), (NOW_MS - 7, NOW_MS)]
    {
        manual.set(Duration::from_millis(wall_ms));
        let clock = forward(&manual, latest_ms, jump_ms);
        assert_eq!((clock.wall_ms(), clock.settled_ms()), (wall_ms.max(NOW_MS), settled_ms));
    }
}

/// Keeps what it is told, unless it is full.
#[derive(Debug, Default)]
struct Notes {
    told: Mutex<Vec<u64>>,
    is_full: std::sync::atomic::AtomicBool,
}

impl TimeLog for Arc<Notes> {
    fn note(&self, time: StoredTime) -> bool {
        let is_kept = !self.is_full.load(Ordering::Relaxed);
        if is_kept {
            lock(&self.told).push(time.latest_ms);
        }
        is_kept
    }
}

#[test]
fn a_time_is_noted_before_more_is_seen_expired_than_is_known() {
    let (clock, notes) =
        (Arc::new(ManualClock::at(Duration::from_millis(1000))), Arc::new(Notes::default()));
    let forward =
        ForwardClock::new(clock.clone(), StoredTime { latest_ms: 1000, ..StoredTime::default() });
    // Nothing is there to note it.
    forward.saw_expired(1500);
    forward.note_in(Box::new(notes.clone()));
    clock.set(Duration::from_millis(2000));
    for expiry_ms in [900, 1000, 1500, 1600, 2000] {
        forward.saw_expired(expiry_ms);
    }
    assert_eq!(*lock(&notes.told), [2000]);
    // What could not be kept is tried again.
    notes.is_full.store(true, Ordering::Relaxed);
    clock.set(Duration::from_millis(3000));
    forward.saw_expired(2500);
    notes.is_full.store(false, Ordering::Relaxed);
    forward.saw_expired(2400);
    assert_eq!(*lock(&notes.told), [2000, 3000]);
    // The manifest has a later time.
    clock.set(Duration::from_millis(4000));
    forward.note_known(forward.stored());
    forward.saw_expired(3500);
    // A jump shows what it does not settle.
    clock.set(Duration::from_millis(4000 + 2 * JUMP_MS_MIN));
    forward.saw_expired(5000);
    assert_eq!(*lock(&notes.told), [2000, 3000]);
}

#[test]
fn a_clock_goes_on_from_the_later_time_of_another_process() {
    let manual = Arc::new(ManualClock::at(Duration::from_millis(1000)));
    let forward = ForwardClock::new(manual.clone(), StoredTime::default());
    assert_eq!(forward.wall_ms(), 1000);
    let at = |latest_ms| StoredTime { latest_ms, jump_ms: 0 };
    forward.go_on_from(at(900));
    assert_eq!(forward.wall_ms(), 1000);
    forward.go_on_from(at(90_000));
    assert_eq!((forward.wall_ms(), forward.settled_ms()), (90_000, 90_000));
    // It is as far ahead of the wall as that process was, and runs on.
    manual.advance(Duration::from_secs(5));
    assert_eq!(forward.wall_ms(), 95_000);
    forward.go_on_from(at(92_000));
    assert_eq!(forward.wall_ms(), 95_000);
    // Time that has passed while the wall was set back is not known yet.
    manual.set(Duration::from_millis(96_000));
    assert_eq!(forward.wall_ms(), 96_000);
    manual.advance(Duration::from_millis(700));
    manual.set(Duration::from_millis(96_100));
    forward.go_on_from(at(96_300));
    assert_eq!(forward.wall_ms(), 96_300);
    // A year that is far ahead and that the other one has not settled decides nothing for good.
    let far = 95_000 + 2 * JUMP_MS_MIN;
    manual.set(Duration::from_millis(far));
    forward.go_on_from(StoredTime { latest_ms: 97_000, jump_ms: far });
    assert_eq!((forward.wall_ms(), forward.settled_ms()), (far, 97_000));
    manual.set(Duration::from_millis(97_500));
    assert_eq!(forward.wall_ms(), 97_500);
}
