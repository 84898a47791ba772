//! The pace between a simulated producer and a simulated consumer, over minutes.

use super::*;

const MIB: f64 = (1 << 20) as f64;

/// The step of the simulation.
const STEP: Duration = Duration::from_millis(50);
const STEP_SECONDS: f64 = 0.05;

/// A producer, a consumer, and the debt between them.
struct World {
    pace: WritePace,
    /// The debt beyond the trigger, in bytes; negative while none is due.
    debt: f64,
    /// The debt from the trigger to the hard limit, in bytes.
    room: f64,
    /// What the pace takes for `room`.
    believed_room: f64,
    seconds: f64,
}

impl World {
    fn new() -> Self {
        let (debt, room) = (-8.0 * 64.0 * MIB, 32.0 * 64.0 * MIB);
        Self { pace: WritePace::default(), debt, room, believed_room: room, seconds: 0.0 }
    }

    fn share(&self) -> f64 {
        (self.debt / self.room).clamp(0.0, 1.0)
    }

    /// Offers and drains so many bytes a second for `seconds`. Returns what was written in each
    /// second, in MiB.
    fn run(
        &mut self,
        seconds: u32,
        offered: impl Fn(f64) -> f64,
        drained: impl Fn(f64) -> f64,
    ) -> Vec<f64> {
        let steps = (1.0 / STEP_SECONDS) as u32;
        let mut second = || {
            let mut sum = 0.0;
            for _ in 0..steps {
                let rate = self.pace.rate().unwrap_or(f64::INFINITY);
                let stopped = if self.share() >= 1.0 { 0.0 } else { 1.0 };
                let written = offered(self.seconds).min(rate) * STEP_SECONDS * stopped;
                let is_due = self.debt > 0.0;
                let gone = if is_due { drained(self.seconds) * STEP_SECONDS } else { 0.0 };
                self.debt += written - gone;
                self.seconds += STEP_SECONDS;
                sum += written;
                self.pace = self.pace.step(&Observation {
                    share: self.share(),
                    bytes_per_share: self.believed_room,
                    written_bytes: written as u64,
                    elapsed: STEP,
                    drain: if is_due { Drain::Running } else { Drain::Resting },
                });
            }
            sum / MIB
        };
        (0..seconds).map(|_| second()).collect()
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The slowest and the fastest second, as parts of the median.
fn spread(values: &[f64]) -> (f64, f64) {
    let (median, least) = (median(values), values.iter().copied().fold(f64::MAX, f64::min));
    (least / median, values.iter().copied().fold(0.0, f64::max) / median)
}

#[test]
fn the_rate_becomes_that_of_the_consumer_and_stays_there() {
    for drained in [5.0, 20.0, 60.0, 200.0] {
        let mut world = World::new();
        let start = world.run(600, |_| 300.0 * MIB, |_| drained * MIB);
        assert!(start[0] > 299.0, "nothing is due yet: {start:?}");
        let settled = world.run(360, |_| 300.0 * MIB, |_| drained * MIB);
        let (least, most) = spread(&settled);
        assert!(least > 0.9 && most < 1.1, "{drained}: {least} to {most}");
        assert!((median(&settled) / drained - 1.0).abs() < 0.05, "{drained}: {settled:?}");
        assert!((world.share() - SHARE_WANTED).abs() < 0.1, "{drained}: {}", world.share());
    }
}

#[test]
fn a_debt_that_is_not_what_the_pace_takes_it_for_does_not_make_it_swing() {
    for part in [0.0, 0.3, 3.0] {
        let mut world = World::new();
        world.believed_room *= part;
        world.run(300, |_| 300.0 * MIB, |_| 60.0 * MIB);
        let (least, most) = spread(&world.run(300, |_| 300.0 * MIB, |_| 60.0 * MIB));
        assert!(least > 0.7 && most < 1.3, "{part}: {least} to {most}");
    }
}

#[test]
fn a_consumer_in_fits_makes_an_even_producer() {
    let mut world = World::new();
    let fits = |seconds: f64| {
        if ((seconds / 8.0) as u64).is_multiple_of(2) { 90.0 * MIB } else { 30.0 * MIB }
    };
    world.run(120, |_| 300.0 * MIB, fits);
    let settled = world.run(300, |_| 300.0 * MIB, fits);
    let (least, most) = spread(&settled);
    assert!(least > 0.65 && most < 1.4, "{least} to {most}");
}

#[test]
fn the_rate_follows_a_consumer_that_becomes_slower_and_recovers_with_it() {
    let mut world = World::new();
    world.run(120, |_| 300.0 * MIB, |_| 60.0 * MIB);
    world.run(60, |_| 300.0 * MIB, |_| 10.0 * MIB);
    let slow = world.run(60, |_| 300.0 * MIB, |_| 10.0 * MIB);
    assert!((5.0..15.0).contains(&median(&slow)), "{slow:?}");
    assert!(world.share() < 0.9);
    world.run(60, |_| 300.0 * MIB, |_| 60.0 * MIB);
    let again = world.run(60, |_| 300.0 * MIB, |_| 60.0 * MIB);
    assert!((54.0..66.0).contains(&median(&again)), "{again:?}");
    assert!((world.share() - SHARE_WANTED).abs() < 0.1, "{}", world.share());
}

#[test]
fn after_a_pause_writers_are_free() {
    let mut world = World::new();
    world.run(120, |_| 300.0 * MIB, |_| 60.0 * MIB);
    assert!(world.pace.rate().is_some());
    world.run(60, |_| 0.0, |_| 60.0 * MIB);
    assert_eq!(world.pace.rate(), None);
    // The last merge has taken all runs.
    world.debt = World::new().debt;
    assert!(world.run(1, |_| 300.0 * MIB, |_| 60.0 * MIB)[0] > 299.0);
}

#[test]
fn a_writer_below_what_compactions_drain_is_never_held_back() {
    let mut world = World::new();
    world.run(120, |_| 300.0 * MIB, |_| 60.0 * MIB);
    let paced = world.run(300, |_| 36.0 * MIB, |_| 60.0 * MIB);
    let held = paced.iter().filter(|&&second| second < 35.9).count();
    assert_eq!(held, 0, "{paced:?}");
}

#[test]
fn a_database_that_is_opened_with_debt_first_watches_its_writers() {
    let mut world = World::new();
    world.debt = world.room * 0.5;
    assert!(world.run(1, |_| 300.0 * MIB, |_| 60.0 * MIB)[0] > 284.0);
    assert!(world.pace.rate().unwrap() > 100.0 * MIB);
    world.run(300, |_| 300.0 * MIB, |_| 60.0 * MIB);
    assert!((world.share() - SHARE_WANTED).abs() < 0.1, "{}", world.share());
}

#[test]
fn what_is_not_watched_is_not_learned() {
    let mut world = World::new();
    world.run(120, |_| 300.0 * MIB, |_| 60.0 * MIB);
    let observed = Observation {
        share: 0.4,
        bytes_per_share: world.room,
        written_bytes: 0,
        elapsed: Duration::from_secs(3600),
        drain: Drain::Running,
    };
    let rate = |pace: WritePace| pace.rate().unwrap() / MIB;
    // An hour in which nothing was seen counts as two seconds.
    assert!(rate(world.pace.step(&observed)) > 45.0);
    // While no compaction runs, nothing is learned at all.
    let (before, resting) = (world.pace, Observation { drain: Drain::Resting, ..observed });
    assert_eq!(before.step(&resting).base, before.base);
    assert_eq!(before.step(&Observation { elapsed: Duration::ZERO, ..observed }), before);
}

#[test]
fn a_compaction_without_progress_stops_no_writer() {
    let mut pace = WritePace { base: Some(1e8), share: 0.9, flow: 1e8, watched: 3.0 };
    for _ in 0..1000 {
        pace = pace.step(&Observation {
            share: 0.9,
            bytes_per_share: 2048.0 * MIB,
            written_bytes: 0,
            elapsed: STEP,
            drain: Drain::Running,
        });
    }
    assert!(pace.rate().unwrap() > BASE_MIN / 3.0);
}
