//! Branches by id, by name and by family say the same after any change.

use super::*;
use crate::kit::random::Random;
use siltdb_base::id::SequenceNumber;

/// A record with two bases if `next` is given.
pub fn record(id: u32, name: &str, families: &[(u32, u32, Option<u32>)]) -> Arc<BranchRecord> {
    let families = families.iter().map(|&(head, base, next)| BranchFamily {
        head: FamilyId(head),
        base: FamilyId(base),
        next_base: next.map(FamilyId),
    });
    Arc::new(BranchRecord {
        id: BranchId(id),
        name: name.to_owned(),
        parent: BranchId::MAIN,
        begun: SequenceNumber(1),
        begun_ms: 0,
        families: families.collect(),
    })
}

fn check(branches: &Branches, model: &BTreeMap<BranchId, Arc<BranchRecord>>) {
    assert!(branches.iter().eq(model.values()));
    assert_eq!(branches.by_name.len(), model.len());
    let mut members = BTreeMap::new();
    for record in model.values() {
        assert_eq!(branches.named(&record.name).unwrap().unwrap().id, record.id);
        members.extend(members_of(record).map(|(family, role)| (family, (record.id, role))));
    }
    let found = branches.members().map(|family| {
        let Membership { branch, role } = branches.membership(family).unwrap();
        assert_eq!(branches.of_family(family).unwrap().0.id, branch);
        (family, (branch, role))
    });
    assert!(found.eq(members));
}

#[test]
fn records_names_and_families_agree_after_any_change_and_none_after_a_refused_one() {
    for seed in 1..6 {
        println!("seed {seed}");
        let mut random = Random::new(Some(seed));
        let mut below = |end: u64| (random.next_u64() % end) as u32;
        let (mut branches, mut model) = (Branches::default(), BTreeMap::new());
        let mut copies = Vec::new();
        for round in 0..2_000 {
            let id = BranchId(1 + below(40));
            let change = if below(3) == 0 {
                BranchChange::Dropped(id)
            } else {
                let name = format!("branch {}", below(60));
                let next = (below(2) == 0).then(|| below(300));
                BranchChange::Recorded(record(id.0, &name, &[(below(300), below(300), next)]))
            };
            let (before, of_copy) = (branches.clone(), model.clone());
            match (branches.apply(&change), &change) {
                (Ok(touched), BranchChange::Recorded(new)) => {
                    let old = model.insert(id, new.clone());
                    let all = old.iter().chain([new]).flat_map(|record| members_of(record));
                    assert!(touched.into_iter().eq(all.map(|(family, _)| family)));
                }
                (Ok(touched), _) => {
                    let old = model.remove(&id).unwrap();
                    assert!(touched.into_iter().eq(members_of(&old).map(|(family, _)| family)));
                }
                (Err(_), BranchChange::Recorded(new)) => {
                    let others = || model.values().filter(|other| other.id != id);
                    let mut named: Vec<_> = members_of(new).map(|(family, _)| family).collect();
                    let own = named.len();
                    named.sort_unstable();
                    named.dedup();
                    let is_named = others().any(|other| other.name == new.name);
                    let mut of_others = others().flat_map(|record| members_of(record));
                    let is_taken = of_others.any(|(family, _)| named.contains(&family));
                    assert!(is_named || is_taken || named.len() < own, "round {round}: {new:?}");
                }
                (Err(error), _) => {
                    assert_eq!(error.kind(), ErrorKind::NotFound);
                    assert!(!model.contains_key(&id));
                }
            }
            check(&branches, &model);
            if round % 100 == 0 {
                copies.push((before, of_copy));
            }
        }
        copies.iter().for_each(|(copy, model)| check(copy, model));
    }
}

#[test]
fn a_branch_that_goes_is_not_checked_out_any_more() {
    let mut branches = Branches::default();
    branches.apply(&BranchChange::Recorded(record(4, "feature", &[(5, 6, None)]))).unwrap();
    branches.apply(&BranchChange::CheckedOut(BranchId(4))).unwrap();
    assert!(branches.apply(&BranchChange::CheckedOut(BranchId(5))).is_err());
    assert_eq!(branches.checked_out(), BranchId(4));
    branches.apply(&BranchChange::Dropped(BranchId(4))).unwrap();
    assert_eq!(branches.checked_out(), BranchId::MAIN);
    assert!(branches.members().next().is_none());
}
