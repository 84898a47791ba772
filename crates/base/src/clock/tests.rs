//! Time that is set back.

use super::*;

#[test]
fn a_forward_clock_never_goes_back() {
    let manual = Arc::new(ManualClock::new(1000));
    let clock = ForwardClock::new(manual.clone(), 500);
    assert_eq!(clock.wall_ms(), 1000);
    manual.set_wall_ms(10);
    assert_eq!(clock.wall_ms(), 1000);
    manual.set_wall_ms(2000);
    assert_eq!(clock.wall_ms(), 2000);
    assert_eq!(ForwardClock::new(manual, 9000).wall_ms(), 9000);
}
