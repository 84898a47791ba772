//! The order in which many keys are read.

use super::*;

#[test]
fn keys_are_read_in_their_order_whatever_they_have_in_common() {
    let mut state = 11_u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % bound
    };
    for round in 0..300 {
        let start = vec![b'k'; below(20) as usize];
        let keys: Vec<Vec<u8>> = (0..below(40))
            .map(|_| {
                let rest = (0..below(14)).map(|_| [0, 1, 0xff][below(3) as usize]);
                start.iter().copied().chain(rest).collect()
            })
            .collect();
        let mut expected = keys.clone();
        expected.sort();
        let order = sorted(&keys);
        let read: Vec<_> = order.iter().map(|placed| keys[placed.index].clone()).collect();
        assert_eq!(read, expected, "round {round}");
    }
}
