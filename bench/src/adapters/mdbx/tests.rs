//! libmdbx passes every pass of the benchmark, verified in full.

use super::Mdbx;
use crate::{
    engine::{Arm, Class, Config, Durability, Engine},
    job::{Job, Op},
    trial,
};

#[test]
fn every_operation_is_verified() {
    trial::every_operation::<Mdbx>(&[Op::Compact], |_: &mut Job| {}).unwrap();
}

#[test]
fn its_own_defaults_are_verified() {
    let defaults = |job: &mut Job| job.config.arm = Arm::Defaults;
    trial::every_operation::<Mdbx>(&[Op::Compact], defaults).unwrap();
}

#[test]
fn synced_commits_are_verified_and_said_to_survive_power_loss() {
    let report = trial::run::<Mdbx>(Op::Put, |job| {
        job.work.run.ops = 200;
        job.config.durability = Durability::Synced;
    });
    assert_eq!(report.unwrap().facts.class, Class::Power);
    assert_eq!(Mdbx::facts(&Config::default()).class, Class::Process);
}

#[test]
fn families_are_verified() {
    for op in [Op::Mixed, Op::Get] {
        let report = trial::run::<Mdbx>(op, |job| {
            job.config.families = 3;
            job.work.seed[0].batch = 1;
        });
        let verified = report.unwrap().verified;
        assert!(verified.checked > 0 && verified.checked == verified.expected, "{op:?}");
    }
}
