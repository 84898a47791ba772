//! The facts that adapters state, compared with the engines that are built in.

use super::{
    fjall::Fjall, lmdb::Lmdb, mdbx::Mdbx, redb::Redb, siltdb::Siltdb, sled::Sled, sqlite::Sqlite,
    thunder::Thunder,
};
use crate::engine::{Arm, Config, Engine, Facts};

/// The version of a package that is built in.
fn locked(package: &str) -> &'static str {
    let lock = include_str!("../../Cargo.lock");
    let named = format!("name = \"{package}\"\nversion = \"");
    let (_, rest) = lock.split_once(&named).expect("it is a dependency");
    rest.split('"').next().expect("a text has a first part")
}

fn facts<E: Engine>(arm: Arm) -> Facts {
    E::facts(&Config { arm, ..Config::default() })
}

#[test]
fn versions_are_those_that_are_built() {
    let said = [
        (facts::<Fjall>(Arm::Equal).version, locked("fjall").to_owned()),
        (facts::<Lmdb>(Arm::Equal).version, format!("0.9.70 (heed {})", locked("heed"))),
        (
            facts::<Mdbx>(Arm::Equal).version,
            format!("0.13.7 (signet-libmdbx {})", locked("signet-libmdbx")),
        ),
        (
            facts::<Sqlite>(Arm::Equal).version,
            format!("{} (rusqlite {})", rusqlite::version(), locked("rusqlite")),
        ),
        (facts::<Redb>(Arm::Equal).version, locked("redb").to_owned()),
        (facts::<Siltdb>(Arm::Equal).version, locked("siltdb").to_owned()),
        (facts::<Sled>(Arm::Equal).version, locked("sled").to_owned()),
        (facts::<Thunder>(Arm::Equal).version, locked("thunderdb").to_owned()),
    ];
    for (said, locked) in said {
        assert_eq!(said, locked);
    }
}

#[test]
fn defaults_are_not_said_to_be_as_asked() {
    let said = [
        facts::<Fjall>(Arm::Defaults),
        facts::<Mdbx>(Arm::Defaults),
        facts::<Redb>(Arm::Defaults),
        facts::<Sled>(Arm::Defaults),
        facts::<Sqlite>(Arm::Defaults),
        facts::<Thunder>(Arm::Defaults),
    ];
    for Facts { options, .. } in said {
        assert!(options.starts_with("its own defaults"), "{options}");
        assert!(!options.contains("MiB") && !options.contains("as asked"), "{options}");
    }
}
