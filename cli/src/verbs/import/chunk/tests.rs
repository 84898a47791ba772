//! New and present keys, compared with a set.

use super::*;
use siltdb::Db;
use std::collections::BTreeSet;

fn fill(chunk: &mut Chunk, keys: &[String]) {
    chunk.clear();
    for (line, key) in keys.iter().enumerate() {
        let slot = chunk.next_slot();
        slot.line = line as u64;
        slot.record.key = key.clone().into_bytes();
        chunk.accept();
    }
}

#[test]
fn presence_is_that_of_a_set() {
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("db")).unwrap();
    let family = db.default_family();
    family.put(b"k050", b"").unwrap();
    let mut known = BTreeSet::from(["k050".to_owned()]);
    let (mut greatest, mut chunk) = (Some(b"k050".to_vec()), Chunk::default());
    let mut state = seed | 1;
    for _ in 0..200 {
        let keys: Vec<String> = (0..7)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                format!("k{:03}", state % 300)
            })
            .collect();
        fill(&mut chunk, &keys);
        chunk.look_up(&family, &mut greatest).unwrap();
        for (placed, key) in chunk.records().iter().zip(&keys) {
            let expected =
                if known.insert(key.clone()) { Presence::New } else { Presence::Present };
            assert_eq!(placed.presence, expected, "{key} of {keys:?}");
            family.put(key, b"").unwrap();
        }
        assert_eq!(greatest.as_deref(), known.last().map(String::as_bytes));
    }
}

#[test]
fn sorted_keys_are_not_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("db")).unwrap();
    let family = db.create_family("f", siltdb::FamilyOptions::new()).unwrap();
    // A family that was dropped answers no question.
    db.drop_family("f").unwrap();
    let (mut greatest, mut chunk) = (None, Chunk::default());
    fill(&mut chunk, &["a", "b", "c"].map(str::to_owned));
    chunk.look_up(&family, &mut greatest).unwrap();
    fill(&mut chunk, &["d", "f", "e", "f"].map(str::to_owned));
    chunk.look_up(&family, &mut greatest).unwrap();
    let found: Vec<_> = chunk.records().iter().map(|placed| placed.presence).collect();
    assert_eq!(found, [Presence::New, Presence::New, Presence::New, Presence::Present]);
    fill(&mut chunk, &["a".to_owned()]);
    assert!(chunk.look_up(&family, &mut greatest).is_err());
}
