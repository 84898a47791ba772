//! Concurrent openings of a database, and that reading changes nothing.
#![expect(clippy::unwrap_used, reason = "a test that fails names the line")]

use crate::place::Place;
use siltdb::Db;
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    thread,
    time::{Duration, SystemTime},
};

/// Verbs that only read, with arguments.
const READING: [&[&str]; 9] = [
    &["get", "db", "a"],
    &["scan", "db"],
    &["count", "db"],
    &["export", "db", "-", "--format", "lines"],
    &["stats", "db"],
    &["families", "db"],
    &["retain", "db"],
    &["check", "db"],
    &["inspect", "wal", "db"],
];

fn filled() -> Place {
    let place = Place::new();
    place.run_with(&["import", "db", "-", "--format", "lines"], b"a\t1\nb\t2\nc\t3\n", 0);
    place
}

/// The files of a directory with their contents and times of change.
fn picture(dir: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let changed = entry.metadata().unwrap().modified().unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, (fs::read(entry.path()).unwrap(), changed))
        })
        .collect()
}

#[test]
fn verbs_that_read_write_nothing_and_need_no_lock_file() {
    let place = filled();
    fs::remove_file(place.path("db").join("LOCK")).unwrap();
    let before = picture(&place.path("db"));
    for verb in READING {
        place.run(verb, 0);
        assert!(picture(&place.path("db")) == before, "{verb:?}");
    }
}

#[test]
fn verbs_that_read_run_beside_each_other_and_beside_a_writer() {
    let place = filled();
    let reader = siltdb::Options::new().read_only(true).open(place.path("db")).unwrap();
    for verb in READING {
        place.run(verb, 0);
    }
    place.run(&["put", "db", "a", "2"], 4).says(&["has it open"]);
    drop(reader);
    // Without threads, so that the writer writes nothing meanwhile.
    let writer = siltdb::Options::new().workers(0).open(place.path("db")).unwrap();
    let holder = format!("process {} (", std::process::id());
    writer.put("d", "4").unwrap();
    let before = picture(&place.path("db"));
    for verb in &READING[..7] {
        place.run(verb, 0).says(&["read beside a writer", &holder]);
    }
    place.ok(&["inspect", "wal", "db"]);
    assert!(picture(&place.path("db")) == before);
    assert_eq!(place.run(&["get", "db", "d"], 0).stdout, "4\n");
    place.run(&["scan", "db", "--recovery", "point-in-time"], 0).says(&["read beside", &holder]);
    place.run(&["put", "db", "a", "2"], 4).says(&[&holder]);
    writer.close().unwrap();
}

#[test]
fn a_copy_of_a_database_in_use_can_be_read() {
    let place = filled();
    let writer = Db::open(place.path("db")).unwrap();
    writer.put(b"d", b"4").unwrap();
    fs::create_dir(place.path("copy")).unwrap();
    for (name, (bytes, _)) in picture(&place.path("db")) {
        fs::write(place.path("copy").join(name), bytes).unwrap();
    }
    assert_eq!(place.ok(&["get", "copy", "d"]), "4\n");
    writer.close().unwrap();
}

#[test]
fn a_verb_waits_for_the_lock_as_long_as_it_is_told() {
    let place = filled();
    let writer = Db::open(place.path("db")).unwrap();
    place.run(&["put", "db", "a", "2", "--wait", "50ms"], 4).says(&["has it open"]);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| place.ok(&["put", "db", "a", "2", "--wait", "1m"]));
        thread::sleep(Duration::from_millis(300));
        writer.close().unwrap();
        waiting.join().unwrap();
    });
    assert_eq!(place.ok(&["get", "db", "a"]), "2\n");
    // Verbs that only lock the database wait as well. A verb that does not lock it refuses the
    // option.
    let writer = Db::open(place.path("db")).unwrap();
    for (verb, code) in [(&["check", "db"][..], 0), (&["recover", "db", "saved"], 4)] {
        let before = std::time::Instant::now();
        place.run(&[verb, &["--wait", "300ms"]].concat(), code).says(&["has it open"]);
        assert!(before.elapsed() >= Duration::from_millis(300), "{verb:?} did not wait");
    }
    thread::scope(|scope| {
        let checking = scope.spawn(|| place.ok(&["check", "db", "--wait", "1m"]));
        let saving = scope.spawn(|| place.ok(&["recover", "db", "saved", "--wait", "1m"]));
        thread::sleep(Duration::from_millis(300));
        writer.close().unwrap();
        checking.join().unwrap();
        saving.join().unwrap();
    });
    assert_eq!(place.ok(&["get", "saved", "a"]), "2\n");
    place.run(&["inspect", "wal", "db", "--wait", "1s"], 2).says(&["--wait", "inspect"]);
    place.run(&["check", "db", "--recovery", "strict"], 2).says(&["--recovery", "check"]);
    for wrong in ["5", "s", "-1s", "1h", "99999999999999999999s"] {
        place.run(&["get", "db", "a", &format!("--wait={wrong}")], 2).says(&["5s"]);
    }
}
