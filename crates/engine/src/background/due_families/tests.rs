//! Which families are looked at, by what happened to them and by the load.

use super::*;

fn ids(numbers: &[u32]) -> Vec<FamilyId> {
    numbers.iter().map(|&number| FamilyId(number)).collect()
}

fn with_due(numbers: &[u32]) -> DueFamilies {
    let mut families = DueFamilies::default();
    numbers.iter().for_each(|&family| families.note(FamilyId(family)));
    families
}

fn due(families: &mut DueFamilies, load: WriteLoad) -> Vec<FamilyId> {
    families.look(load).families
}

#[test]
fn a_family_that_was_passed_waits_for_a_note_or_for_less_load() {
    let mut families = with_due(&[3, 1, 2]);
    let look = families.look(WriteLoad::Light);
    assert_eq!(look.families, ids(&[1, 2, 3]));
    families.pass(&look, FamilyId(1), Until::LessLoad);
    families.pass(&look, FamilyId(2), Until::Noted);
    families.pass(&look, FamilyId(9), Until::LessLoad);
    assert_eq!(due(&mut families, WriteLoad::Light), ids(&[3]));
    assert_eq!(due(&mut families, WriteLoad::Heavy), ids(&[3]));
    assert_eq!(due(&mut families, WriteLoad::Throttled), ids(&[3]));
    assert_eq!(due(&mut families, WriteLoad::Light), ids(&[3]));
    assert_eq!(due(&mut families, WriteLoad::Idle), ids(&[1, 3]));
    families.note(FamilyId(2));
    assert_eq!(due(&mut families, WriteLoad::Idle), ids(&[1, 2, 3]));
    families.forget(FamilyId(1));
    assert_eq!(due(&mut families, WriteLoad::Idle), ids(&[2, 3]));
}

#[test]
fn a_look_passes_no_family_that_was_noted_after_it_began() {
    for until in [Until::Noted, Until::LessLoad] {
        let mut families = with_due(&[1, 2]);
        let look = families.look(WriteLoad::Light);
        families.note(FamilyId(1));
        families.pass(&look, FamilyId(1), until);
        families.pass(&look, FamilyId(2), until);
        assert_eq!(due(&mut families, WriteLoad::Light), ids(&[1]), "{until:?}");
    }
}

#[test]
fn what_was_found_out_for_a_load_that_is_over_counts_if_the_load_now_is_not_less() {
    let mut families = with_due(&[1, 2]);
    let heavy = families.look(WriteLoad::Heavy);
    let light = families.look(WriteLoad::Light);
    families.pass(&heavy, FamilyId(1), Until::LessLoad);
    families.look(WriteLoad::Throttled);
    families.pass(&light, FamilyId(2), Until::LessLoad);
    assert_eq!(due(&mut families, WriteLoad::Throttled), ids(&[1]));
    families.pass(&heavy, FamilyId(1), Until::LessLoad);
    assert_eq!(due(&mut families, WriteLoad::Heavy), ids(&[]));
    assert_eq!(due(&mut families, WriteLoad::Light), ids(&[1]));
}

#[test]
fn a_family_that_is_gone_is_due_under_no_load() {
    let mut families = with_due(&[1, 2]);
    let look = families.look(WriteLoad::Light);
    families.pass(&look, FamilyId(1), Until::LessLoad);
    ids(&[1, 2]).into_iter().for_each(|family| families.forget(family));
    families.pass(&look, FamilyId(2), Until::LessLoad);
    assert_eq!(due(&mut families, WriteLoad::Idle), ids(&[]));
}

#[test]
fn no_family_is_passed_while_writers_are_throttled_unless_it_is_quiet() {
    let mut families = with_due(&[1, 2]);
    let look = families.look(WriteLoad::Throttled);
    families.pass(&look, FamilyId(1), Until::LessLoad);
    families.pass(&look, FamilyId(2), Until::Noted);
    assert_eq!(due(&mut families, WriteLoad::Throttled), ids(&[1]));
}
