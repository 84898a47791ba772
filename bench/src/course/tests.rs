//! Tests of the effect of the command line on results, and of what results keep of it.

use super::{Class, Durability, Established, HashMap, Results, Row, Status, command, fails};

#[test]
fn siltdb_fails_the_run_by_what_a_peer_may_do() {
    let results = Results::from_json(include_str!("../../tests/data/run.json")).unwrap();
    let of = |engine: &str, status, is_right: bool| {
        let right = results.rows[0].clone();
        let verified = right.verified.filter(|_| is_right);
        [Row { engine: engine.to_owned(), status, verified, ..right }]
    };
    let none = HashMap::new();
    for (status, is_right, is_failure) in [
        (Status::Ok, true, false),
        (Status::Capped, true, false),
        (Status::Capped, false, true),
        (Status::Failed, false, true),
        (Status::Unsupported, false, false),
        (Status::NotRun, false, false),
    ] {
        for ours in ["siltdb", "siltdb-mimalloc"] {
            assert_eq!(fails(&of(ours, status, is_right), &none), is_failure, "{status:?}");
        }
        assert!(!fails(&of("rocksdb", status, is_right), &none), "{status:?}");
    }
    let lost = |engine: &str, class| {
        let established = Established { class, how: String::new() };
        fails(&[], &HashMap::from([((engine.to_owned(), Durability::Synced), established)]))
    };
    assert!(lost("siltdb", Class::Memory) && !lost("siltdb", Class::Process));
    assert!(!lost("sled", Class::Memory));
}

#[test]
fn results_keep_no_path_from_the_root() {
    let words = ["run", "--dir", "/disk/somebody/data", "--json", "out/a.json", "--scale", "2"];
    let kept = command(words.into_iter().map(str::to_owned));
    assert_eq!(kept, "silt-bench run --dir data --json out/a.json --scale 2");
}
