//! Tests of the rule on floors.

use super::{FLOORS, check};
use crate::checkout::Checkout;

const UPPER: [(&str, &str); 8] = [
    ("cli", "siltdb-cli"),
    ("bench", "silt-bench"),
    ("bindings/c", "siltdb-c"),
    ("peers/lmdb", "peer-lmdb"),
    ("testing/sim", "siltdb-sim"),
    ("testing/fuzz", "siltdb-fuzz"),
    ("testing/sweep", "siltdb-sweep"),
    ("xtask", "xtask"),
];

/// Whether `user` may list `used` in `section`.
fn allowed(user: &str, section: &str, used: &str) -> bool {
    let floors = FLOORS.map(|(name, _)| (format!("crates/{name}/Cargo.toml"), name));
    let upper = UPPER.map(|(folder, name)| (format!("{folder}/Cargo.toml"), name));
    let files = floors.into_iter().chain(upper).map(|(path, name)| {
        let list = if name == user { format!("[{section}]\n{used}") } else { String::new() };
        (path, format!("[package]\nname = \"{name}\"\n{list}\n").into_bytes())
    });
    let mut findings = Vec::new();
    check(&Checkout::new(files.collect()), &mut findings);
    assert!(findings.iter().all(|finding| finding.line == 4), "{findings:?}");
    findings.is_empty()
}

#[test]
fn a_floor_uses_lower_floors_only() {
    for (user, own) in FLOORS {
        for (used, other) in FLOORS {
            for section in ["dependencies", "dev-dependencies", "target.'cfg(x)'.dependencies"] {
                let line = format!("{used}.workspace = true");
                assert_eq!(allowed(user, section, &line), other < own, "{user} {section} {used}");
            }
        }
        assert!(!allowed(user, "dependencies", "siltdb-cli.workspace = true"), "{user}");
        assert!(allowed(user, "dependencies", "log = \"1\""), "{user}");
    }
}

#[test]
fn what_stands_above_enters_through_siltdb() {
    for (_, user) in UPPER {
        for (used, _) in FLOORS {
            let line = format!("{used}.workspace = true");
            let tests = user == "siltdb-sim" || user == "siltdb-fuzz";
            let is_upper = user != "xtask" && user != "siltdb-sweep";
            let front = is_upper && used == "siltdb" || tests && used == "siltdb-base";
            assert_eq!(allowed(user, "dependencies", &line), front, "{user} {used}");
        }
    }
    assert!(allowed("peer-lmdb", "dependencies", "silt-bench.workspace = true"));
    assert!(!allowed("silt-bench", "dependencies", "siltdb-cli.workspace = true"));
}

#[test]
fn what_only_tests_need_is_used_by_tests_of_any_crate() {
    let line = "siltdb-sweep.workspace = true";
    for user in ["siltdb-base", "siltdb-disk", "siltdb", "siltdb-cli", "siltdb-sim", "xtask"] {
        assert!(allowed(user, "dev-dependencies", line), "{user}");
    }
    for user in ["siltdb-base", "siltdb-disk", "siltdb", "siltdb-cli"] {
        assert!(!allowed(user, "dependencies", line), "{user}");
    }
}

#[test]
fn another_key_hides_no_package() {
    let line = "x = { workspace = true, package = \"siltdb-engine\" }";
    assert!(!allowed("siltdb-cli", "dependencies", line));
}

#[test]
fn a_crate_without_a_floor_is_found() {
    let checkout = Checkout::of(&[("crates/new/Cargo.toml", "[package]\nname = \"new\"")]);
    let mut findings = Vec::new();
    check(&checkout, &mut findings);
    assert_eq!(findings.len(), 1);
}
