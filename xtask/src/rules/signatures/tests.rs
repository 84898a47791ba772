//! Tests of the rule on bool parameters.

use super::check;
use crate::checkout::Checkout;

fn count(text: &str) -> usize {
    let mut findings = Vec::new();
    check(&Checkout::of(&[("a.rs", text)]), &mut findings);
    findings.len()
}

#[test]
fn bool_parameters_of_visible_functions_are_found() {
    assert_eq!(count("pub fn open(path: &Path, create: bool) {}"), 1);
    assert_eq!(count("pub(crate) const fn open(create: bool) -> A {}"), 1);
    assert_eq!(count("pub trait A { fn open(&self, create: bool); }"), 1);
    assert_eq!(count("impl A { pub fn set(&mut self, on: &mut bool) {} }"), 1);
}

#[test]
fn other_bools_are_not() {
    assert_eq!(count("fn open(create: bool) {}"), 0);
    assert_eq!(count("pub fn each(keep: impl Fn(u8) -> bool, all: &[bool]) -> bool {}"), 0);
    assert_eq!(count("trait A { fn open(&self, create: bool); }"), 0);
}

#[test]
fn only_options_have_bool_setters() {
    assert_eq!(count("impl ReadOptions { pub fn verify(mut self, on: bool) -> Self {} }"), 0);
    assert_eq!(count("impl ReadOptions { pub fn verify(&mut self, on: bool) {} }"), 1);
    assert_eq!(count("impl ReadOptions { pub fn f(mut self, on: bool, n: u8) -> Self {} }"), 1);
    assert_eq!(count("impl Reader { pub fn verify(mut self, on: bool) -> Self {} }"), 1);
}
