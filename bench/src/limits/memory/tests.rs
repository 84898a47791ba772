//! Tests that a walk misses: it must visit every line.

use super::*;

#[test]
fn the_ring_goes_through_all_lines() {
    let lines = ring(1000);
    let mut seen = vec![false; lines.len()];
    let mut line = 0;
    for _ in 0..lines.len() {
        assert!(!seen[line], "back at {line} too early");
        seen[line] = true;
        line = lines[line][0] as usize;
    }
    assert_eq!(line, 0);
}
