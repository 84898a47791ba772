//! Tests of the simulator itself: it is repeatable, it crashes in each phase, and it detects
//! faults.

use siltdb_sim::campaign::{campaign, single};

#[test]
fn a_run_repeated_is_the_same_run() {
    for run in 0..6 {
        let reports =
            [(), ()].map(|()| single(11, run).unwrap_or_else(|failure| panic!("{failure}")));
        assert_eq!(reports[0], reports[1], "run {run}");
        assert_ne!(reports[0].fingerprint, 0);
    }
}

#[test]
fn a_short_simulation_keeps_every_promise_and_shows_something() {
    let seed = 2026;
    let campaign = campaign(seed, 5000, 2);
    if let Some(failure) = campaign.failures.first() {
        panic!("{failure}");
    }
    assert_eq!(campaign.report.gaps(), [""; 0], "{}", campaign.report);
}
