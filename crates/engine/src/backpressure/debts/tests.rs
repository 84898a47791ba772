//! The largest share, while families come, reduce their debt and go.

use super::*;

#[test]
fn the_worst_share_is_that_of_the_family_that_owes_most_now() {
    let debts = LevelDebts::default();
    let worst = |family, share| {
        debts.note(FamilyId(family), share);
        debts.worst()
    };
    assert_eq!(worst(1, 0.0), 0.0);
    assert_eq!(worst(1, 0.5), 0.5);
    assert_eq!(worst(2, 0.25), 0.5);
    assert_eq!(worst(3, 7.0), 7.0);
    assert_eq!(worst(3, 0.3), 0.5);
    assert_eq!(worst(1, 0.0), 0.3);
    assert_eq!(worst(3, 0.0), 0.25);
    assert_eq!(worst(2, 0.0), 0.0);
}
