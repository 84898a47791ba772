//! Tests of the rule on tuple parameters.

use super::judge;
use crate::checkout::Checkout;

fn findings(files: &[(&str, &str)], ceiling: usize) -> Vec<String> {
    let mut findings = Vec::new();
    judge(&Checkout::of(files), "a/src/", ceiling, &mut findings);
    findings.into_iter().map(|finding| finding.message).collect()
}

fn is_found(text: &str) -> bool {
    !findings(&[("a/src/b.rs", text)], 0).is_empty()
}

#[test]
fn tuples_that_functions_take_are_found() {
    assert!(is_found("fn f(&self, (key, sequence): (&[u8], u64)) {}"));
    assert!(is_found("pub fn f(a: u8, range: (u8, u8)) {}"));
    assert!(is_found("trait T { fn f(&self, pair: &(u8, u8)); }"));
    assert!(is_found("fn f(pair: &mut (u8, u8)) {}"));
}

#[test]
fn other_parameters_are_not() {
    assert!(!is_found("fn f(&self, key: &[u8], unit: ()) -> (u8, u8) { (1, 2) }"));
    assert!(!is_found("fn f(keep: impl Fn((u8, u8)) -> u8, all: &[(u8, u8)]) {}"));
    assert!(!is_found("fn f(Pair { a, b }: Pair) {}"));
    assert!(!is_found("#[cfg(test)]\nmod tests { fn f(pair: (u8, u8)) {} }"));
    assert!(findings(&[("a/src/b/tests.rs", "fn f(pair: (u8, u8)) {}")], 0).is_empty());
    assert!(findings(&[("b/src/b.rs", "fn f(pair: (u8, u8)) {}")], 0).is_empty());
}

#[test]
fn the_ceiling_of_a_crate_is_the_number_it_has() {
    let files = [
        ("a/src/b.rs", "fn f(a: (u8, u8), b: (u8, u8)) {}"),
        ("a/src/c.rs", "fn g(c: (u8, u8)) {}"),
    ];
    assert!(findings(&files, 3).is_empty());
    let above = findings(&files, 2).join("");
    assert!(above.contains("take 3 tuples") && above.contains("names"), "{above}");
    let below = findings(&files, 4).join("");
    assert!(below.contains("lower the ceiling"), "{below}");
}
