//! Tests of the model, which judges the engine.

use super::*;

fn shared(bytes: &[u8]) -> Shared {
    Shared::from(bytes)
}

fn put(key: &[u8], value: &[u8]) -> (FamilyIndex, Operation) {
    let operation = Operation::Put { key: shared(key), value: shared(value), expiry_ms: None };
    (DEFAULT, operation)
}

fn put_expiring(key: &[u8], value: &[u8], expiry_ms: u64) -> (FamilyIndex, Operation) {
    let expiry_ms = Some(expiry_ms);
    (DEFAULT, Operation::Put { key: shared(key), value: shared(value), expiry_ms })
}

fn merge(key: &[u8], operand: &[u8]) -> (FamilyIndex, Operation) {
    (DEFAULT, Operation::Merge { key: shared(key), operand: shared(operand) })
}

fn delete(key: &[u8]) -> (FamilyIndex, Operation) {
    (DEFAULT, Operation::Delete { key: shared(key) })
}

fn delete_range(start: &[u8], end: &[u8]) -> (FamilyIndex, Operation) {
    (DEFAULT, Operation::DeleteRange { start: shared(start), end: shared(end) })
}

/// A model with one acknowledged commit for each list.
fn model(commits: &[&[(FamilyIndex, Operation)]]) -> Model {
    let mut model = Model::new(Operator::Append);
    for (index, operations) in commits.iter().enumerate() {
        model.begin(Durability::Buffered, Clock::Silent, operations);
        model.acknowledge(index as u64 + 1, 0);
    }
    model
}

fn at(commit: u64, wall_ms: u64) -> Moment {
    Moment { commit, wall_ms, flushed: u64::MAX }
}

fn value(model: &Model, key: &[u8], moment: Moment) -> Option<Vec<u8>> {
    model.value(DEFAULT, key, moment).map(|value| value.to_vec())
}

#[test]
fn each_commit_is_a_state_of_its_own() {
    let model = model(&[&[put(b"k", b"1")], &[put(b"k", b"2")], &[delete(b"k")]]);
    let states: Vec<_> = (0..=3).map(|commit| value(&model, b"k", at(commit, 0))).collect();
    assert_eq!(states, [None, Some(b"1".to_vec()), Some(b"2".to_vec()), None]);
}

#[test]
fn a_batch_takes_effect_in_its_order() {
    let model = model(&[&[put(b"k", b"1"), delete(b"k"), put(b"k", b"2"), merge(b"k", b"3")]]);
    assert_eq!(value(&model, b"k", at(1, 0)), Some(b"23".to_vec()));
}

#[test]
fn a_range_deletion_spares_its_end_and_what_comes_later() {
    let model = model(&[
        &[put(b"a", b"1"), put(b"b", b"1"), put(b"c", b"1")],
        &[delete_range(b"a", b"c"), put(b"b", b"2")],
    ]);
    let pairs = model.pairs(DEFAULT, at(2, 0));
    let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert_eq!(pairs, [(&b"b"[..], &b"2"[..]), (b"c", b"1")]);
    assert_eq!(model.pairs(DEFAULT, at(1, 0)).len(), 3);
}

#[test]
fn an_expired_value_hides_older_ones_and_is_no_base() {
    let model =
        model(&[&[put(b"k", b"old")], &[put_expiring(b"k", b"short", 100)], &[merge(b"k", b"+")]]);
    assert_eq!(value(&model, b"k", at(2, 99)), Some(b"short".to_vec()));
    assert_eq!(value(&model, b"k", at(2, 100)), None);
    assert_eq!(value(&model, b"k", at(3, 99)), Some(b"short+".to_vec()));
    assert_eq!(value(&model, b"k", at(3, 100)), Some(b"+".to_vec()));
}

#[test]
fn a_commit_in_doubt_goes_when_the_next_begins() {
    let mut model = model(&[&[put(b"k", b"1")]]);
    model.begin(Durability::Synced, Clock::Silent, &[put(b"k", b"2")]);
    assert_eq!((model.acknowledged(), model.possible()), (1, 2));
    assert_eq!(value(&model, b"k", at(2, 0)), Some(b"2".to_vec()));
    let number = model.begin(Durability::Synced, Clock::Silent, &[put(b"k", b"3")]);
    model.acknowledge(9, 5);
    assert_eq!((number, model.acknowledged(), model.possible()), (2, 2, 2));
    assert_eq!(value(&model, b"k", at(2, 0)), Some(b"3".to_vec()));
}

#[test]
fn truncation_forgets_whole_commits() {
    let mut model = model(&[&[put(b"a", b"1")], &[put(b"a", b"2"), put(b"b", b"2")]]);
    model.truncate(1);
    assert_eq!(model.pairs(DEFAULT, at(9, 0)).len(), 1);
    assert_eq!(value(&model, b"a", at(9, 0)), Some(b"1".to_vec()));
    assert_eq!(model.keys(DEFAULT).count(), 1);
}

#[test]
fn volatile_commits_after_the_last_flush_are_lost_and_others_stay() {
    let mut model = Model::new(Operator::Append);
    let durabilities = [Durability::Volatile, Durability::Buffered, Durability::Volatile];
    for (durability, value) in durabilities.into_iter().zip([b"1", b"2", b"3"]) {
        model.begin(durability, Clock::Silent, &[merge(b"k", value)]);
        model.acknowledge(0, 0);
    }
    let after = |flushed| value(&model, b"k", Moment { flushed, ..at(3, 0) });
    let expected = [&b"2"[..], b"12", b"12", b"123"].map(|value| Some(value.to_vec()));
    assert_eq!([0, 1, 2, 3].map(after), expected);
    assert_eq!(model.volatile(1..=3), [1, 3]);
    model.recovered(3, 1, 0);
    assert_eq!(value(&model, b"k", at(3, 0)), Some(b"12".to_vec()));
}

#[test]
fn a_single_deletion_needs_exactly_one_put() {
    let model = model(&[
        &[put(b"once", b""), put(b"twice", b""), put(b"twice", b"")],
        &[put(b"again", b""), delete(b"again"), put(b"again", b"")],
        &[put(b"merged", b""), merge(b"merged", b"x"), put_expiring(b"expiring", b"", 5)],
    ]);
    let keys: [&[u8]; 6] = [b"once", b"again", b"twice", b"merged", b"expiring", b"missing"];
    let allowed = keys.map(|key| model.was_put_once(DEFAULT, key));
    assert_eq!(allowed, [true, true, false, false, false, false]);
}
