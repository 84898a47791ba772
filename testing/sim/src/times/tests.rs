//! What a clock that is set back may do to the time of a database, and what not.

use super::Times;

#[test]
fn the_time_goes_on_and_a_crash_takes_it_back_to_a_durable_one_at_most() {
    let mut times = Times::new(1000, &[900]);
    times.read(1200);
    times.read(300);
    assert_eq!(times.at(300), 1200);
    assert_eq!(times.at(1300), 1300);
    assert_eq!(times.floors_ms(), [900, 1000, 1200]);
    times.made_durable();
    assert_eq!(times.floors_ms(), [1200]);
}
