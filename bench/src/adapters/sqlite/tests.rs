//! SQLite passes every pass of the benchmark, verified in full.

use super::{Sqlite, SqliteSession};
use crate::{
    engine::{Arm, Class, Config, Durability, Engine, Session},
    job::{Job, Op},
    trial,
};

#[test]
fn every_operation_is_verified() {
    trial::every_operation::<Sqlite>(&[], |_: &mut Job| {}).unwrap();
}

#[test]
fn its_own_defaults_are_verified() {
    let defaults = |job: &mut Job| job.config.arm = Arm::Defaults;
    trial::every_operation::<Sqlite>(&[], defaults).unwrap();
}

#[test]
fn synced_commits_are_verified_and_said_to_survive_power_loss() {
    let report = trial::run::<Sqlite>(Op::Put, |job| {
        job.work.run.ops = 200;
        job.config.durability = Durability::Synced;
    });
    assert_eq!(report.unwrap().facts.class, Class::Power);
    assert_eq!(Sqlite::facts(&Config::default()).class, Class::Process);
}

#[test]
fn families_are_verified() {
    for op in [Op::Mixed, Op::Get] {
        let report = trial::run::<Sqlite>(op, |job| {
            job.config.families = 3;
            job.work.seed[0].batch = 1;
        });
        let verified = report.unwrap().verified;
        assert!(verified.checked > 0 && verified.checked == verified.expected, "{op:?}");
    }
}

/// A reader in a transaction only keeps the log from being emptied.
#[test]
fn a_pinned_view_stays_while_others_write_and_a_refreshed_one_moves_on() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Sqlite::open(dir.path(), &Config::default()).unwrap();
    let (mut reader, mut writer) = (engine.session().unwrap(), engine.session().unwrap());
    let holds = |reader: &mut SqliteSession<'_>| reader.get(b"key", |_| {}).unwrap();
    assert!(!holds(&mut reader));
    writer.put(b"key", b"value").unwrap();
    engine.flush().unwrap();
    assert!(!holds(&mut reader));
    reader.refresh().unwrap();
    assert!(holds(&mut reader));
}
