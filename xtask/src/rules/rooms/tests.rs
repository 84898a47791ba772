//! Tests of the rule on rooms.

use super::{Rooms, check, count};
use crate::checkout::Checkout;

fn functions(text: &str) -> [usize; 2] {
    let Rooms { takes, passes_on, .. } = count(&Checkout::of(&[("crates/a/src/b.rs", text)]));
    [takes, passes_on]
}

#[test]
fn functions_that_take_the_database_count_however_they_take_it() {
    assert_eq!(functions("fn f(database: &Database) { database.log.g(); }"), [1, 0]);
    assert_eq!(functions("fn f(&self, key: u8, d: &'a Arc<Database>) -> u8 { d.log }"), [1, 0]);
    assert_eq!(functions("fn f(run: impl Fn(&Database)) {}"), [1, 0]);
    assert_eq!(functions("fn f(writable: Writable<'_>) { writable.installer(); }"), [1, 0]);
    assert_eq!(functions("fn f(log: &Log) -> Database { Database { log } }"), [0, 0]);
    assert_eq!(functions("#[cfg(test)]\nmod tests { fn f(database: &Database) {} }"), [0, 0]);
}

#[test]
fn a_database_that_is_used_whole_is_passed_on() {
    assert_eq!(functions("fn f(database: &Database) { g(database); }"), [1, 1]);
    assert_eq!(functions("fn f(database: &Database) -> A { A { database, b: 1 } }"), [1, 1]);
    let led = "fn f(w: Writable<'_>) { let database = w.database(); g(database); }";
    assert_eq!(functions(led), [1, 1]);
    assert_eq!(functions(&led.replace("g(database)", "g(&database.log)")), [1, 0]);
    assert_eq!(functions("fn f(database: &Database) { g(database\n.log) }"), [1, 0]);
    assert_eq!(functions("fn f(database: &Database) { g(&database.log, database.dir); }"), [1, 0]);
}

#[test]
fn modules_and_the_pairs_that_use_each_other_count() {
    let files = [
        ("crates/engine/src/lib.rs", "pub mod a;\npub mod b;\n"),
        ("crates/engine/src/a.rs", "pub struct A;\n"),
        ("crates/engine/src/b.rs", "pub mod c;\nuse crate::a::A;\nfn f() -> crate::a::A { A }"),
        ("crates/engine/src/b/c.rs", "use crate::{a::A, b::f};\n"),
    ];
    let rooms = count(&Checkout::of(&files));
    assert_eq!(rooms, Rooms { modules: 2, imports: 1, takes: 0, passes_on: 0 });
}

#[test]
fn a_ceiling_above_the_count_is_found() {
    let mut findings = Vec::new();
    check(
        &Checkout::of(&[("crates/engine/src/lib.rs", "fn f(database: &Database) {}")]),
        &mut findings,
    );
    assert!(
        findings.iter().any(|finding| finding.message.contains("1 functions take the database"))
    );
}
