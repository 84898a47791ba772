//! The change feed: order, each commit once, across rotations, flushes, reopens and crashes.

use siltdb::{
    Action, Db, Durability, ErrorKind, Event, FamilyChange, FamilyOptions, Isolation, LockMode,
    Options, SubscribeOptions, Subscription, WriteBatch, WriteOptions,
};
use siltdb_base::fs::{Fs, mem::MemFs};
use std::{
    path::Path,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

fn options() -> Options {
    Options::new().memtable_bytes(16 << 10).memory_budget(8 << 20).seed(1)
}

fn oldest() -> SubscribeOptions {
    SubscribeOptions::new().from_oldest()
}

/// Reads all available commits as text: sequence numbers and actions, one commit a line.
fn read(subscription: &mut Subscription) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(event) = subscription.try_next().unwrap() {
        lines.push(text(&event));
    }
    lines
}

fn text(event: &Event) -> String {
    let utf8 = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match event {
        Event::Unlogged(range) => format!("{}..{} unlogged", range.start(), range.end()),
        Event::Commit(commit) => {
            let mut parts = vec![format!("{}..{}", commit.first, commit.last)];
            for family in commit.families() {
                parts.push(match family {
                    FamilyChange::Created { name, .. } => format!("created {name}"),
                    FamilyChange::Dropped { .. } => "dropped".to_owned(),
                    _ => unreachable!("no other change of families"),
                });
            }
            for change in commit.changes() {
                let key = utf8(change.operation.key);
                let action = match change.operation.action {
                    Action::Put(value) => format!("{key}={}", utf8(value)),
                    Action::Delete => format!("-{key}"),
                    Action::DeleteRange(end) => format!("-{key}..{}", utf8(end)),
                    other => format!("{other:?}"),
                };
                parts.push(format!("{}:{action}", change.sequence));
            }
            parts.join(" ")
        }
        _ => unreachable!("no other event"),
    }
}

/// Writes the keys of `range`, each with a value of 100 bytes and its number.
fn fill(db: &Db, range: std::ops::Range<u64>) {
    for number in range {
        db.put(format!("{number:06}"), [b'v'; 100]).unwrap();
    }
}

/// Returns the first sequence numbers of the available commits.
fn sequences(subscription: &mut Subscription) -> Vec<u64> {
    let mut sequences = Vec::new();
    while let Some(event) = subscription.try_next().unwrap() {
        let Event::Commit(commit) = event else { panic!("unlogged: {event:?}") };
        sequences.push(commit.first);
    }
    sequences
}

fn log_files(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    entries.filter(|name| name.to_string_lossy().ends_with(".log")).count()
}

#[test]
fn a_feed_tells_commits_as_groups_with_their_operations() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().open(dir.path()).unwrap();
    let mut feed = db.subscribe(&SubscribeOptions::new()).unwrap();
    db.put("a", "1").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&db.default_family(), "b", "2").unwrap();
    batch.delete(&db.default_family(), "a").unwrap();
    batch.delete_range(&db.default_family(), "c".."d").unwrap();
    db.write(&batch).unwrap();
    let expected = ["1..1 1:a=1", "2..4 2:b=2 3:-a 4:-c..d"];
    assert_eq!(read(&mut feed), expected);
    assert_eq!(feed.position(), 5);
    assert!(feed.next_within(Duration::from_millis(5)).unwrap().is_none());
    let transaction = db.begin(Isolation::Serializable);
    transaction.put("t", "1").unwrap();
    transaction.put("u", "2").unwrap();
    transaction.commit().unwrap();
    assert_eq!(read(&mut feed), ["5..6 5:t=1 6:u=2"]);
}

#[test]
fn a_feed_tells_only_what_its_family_and_prefix_have() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().open(dir.path()).unwrap();
    let other = db.create_family("other", FamilyOptions::new()).unwrap();
    let mut by_prefix = db.subscribe(&SubscribeOptions::new().prefix("k/")).unwrap();
    let mut by_family = db.subscribe(&SubscribeOptions::new().family(&other)).unwrap();
    db.put("k/1", "x").unwrap();
    db.put("l", "x").unwrap();
    other.put("k/2", "y").unwrap();
    other.put("l", "y").unwrap();
    db.delete_range("a".."k/").unwrap();
    db.delete_range("a".."k/0").unwrap();
    db.delete_range("k0".."z").unwrap();
    assert_eq!(read(&mut by_prefix), ["1..1 1:k/1=x", "3..3 3:k/2=y", "6..6 6:-a..k/0"]);
    assert_eq!(read(&mut by_family), ["3..3 3:k/2=y", "4..4 4:l=y"]);
}

#[test]
fn families_that_a_batch_creates_and_drops_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().open(dir.path()).unwrap();
    let mut feed = db.subscribe(&SubscribeOptions::new()).unwrap();
    let family = db.prepare_family("new", FamilyOptions::new()).unwrap();
    let of_family = |family| db.subscribe(&SubscribeOptions::new().family(family)).unwrap();
    let (mut this, mut other) = (of_family(&family), of_family(&db.default_family()));
    let mut batch = WriteBatch::new();
    batch.create_family(&family).unwrap();
    batch.put(&family, "k", "v").unwrap();
    db.write(&batch).unwrap();
    let mut batch = WriteBatch::new();
    batch.drop_family(&family).unwrap();
    db.write(&batch).unwrap();
    let told = ["1..2 created new 2:k=v", "3..3 dropped"];
    assert_eq!(read(&mut feed), told);
    assert_eq!(read(&mut this), told);
    assert_eq!(read(&mut other), [""; 0]);
}

#[test]
fn volatile_commits_are_marked_and_refused_ones_are_not_told() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().open(dir.path()).unwrap();
    let mut feed = db.subscribe(&SubscribeOptions::new()).unwrap();
    let volatile = WriteOptions::new().durability(Durability::Volatile);
    db.put_with("a", "1", &volatile).unwrap();
    let transaction = db.begin(Isolation::Snapshot);
    transaction.put("b", "2").unwrap();
    db.put("b", "1").unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
    db.put("c", "3").unwrap();
    let read = read(&mut feed);
    assert_eq!(read[..2], ["1..1 unlogged", "2..2 2:b=1"]);
    assert!(read[2].ends_with(":c=3"), "{read:?}");
    assert_eq!(read.len(), 3);
}

/// Its place in the log is void: the number is used up, and no event tells of it.
#[test]
fn a_commit_that_a_lock_kept_out_is_not_told() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().lock_timeout(Duration::ZERO).open(dir.path()).unwrap();
    db.put("a", "1").unwrap();
    let locker = db.begin(Isolation::ReadCommitted);
    locker.lock_key("k", LockMode::Exclusive).unwrap();
    assert_eq!(db.put("k", "2").unwrap_err().kind(), ErrorKind::Busy);
    db.put("b", "3").unwrap();
    let all = ["1..1 1:a=1", "3..3 3:b=3"];
    for (from, expected) in [(1, &all[..]), (2, &all[1..]), (3, &all[1..]), (4, &all[2..])] {
        let mut feed = db.subscribe(&SubscribeOptions::new().from(from)).unwrap();
        assert_eq!(read(&mut feed), expected, "from {from}");
        assert_eq!(feed.position(), 4);
    }
}

#[test]
fn every_commit_of_eight_writers_is_told_once_and_in_order_across_rotations() {
    const WRITERS: u64 = 8;
    const COMMITS: u64 = 1500;
    let dir = tempfile::tempdir().unwrap();
    let db = options().workers(1).open(dir.path()).unwrap();
    let mut feed = db.subscribe(&SubscribeOptions::new()).unwrap();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let db = db.clone();
            scope.spawn(move || {
                for number in 0..COMMITS {
                    let mut batch = WriteBatch::new();
                    for _ in 0..number % 3 + 1 {
                        batch
                            .put(&db.default_family(), format!("{writer}/{number}"), [7; 60])
                            .unwrap();
                    }
                    db.write(&batch).unwrap();
                }
            });
        }
        let mut next = 1;
        let mut seen = vec![0; WRITERS as usize];
        while seen.iter().any(|seen| *seen < COMMITS) {
            let event = feed.next_within(Duration::from_secs(20)).unwrap();
            let Some(Event::Commit(commit)) = event else { panic!("{event:?} after {next}") };
            assert_eq!(commit.first, next);
            next = commit.last + 1;
            let key = commit.changes().next().unwrap().operation.key.to_vec();
            let key = String::from_utf8(key).unwrap();
            let (writer, number) = key.split_once('/').unwrap();
            let writer: usize = writer.parse().unwrap();
            assert_eq!(number.parse(), Ok(seen[writer]));
            assert_eq!(commit.changes().count() as u64, seen[writer] % 3 + 1);
            seen[writer] += 1;
        }
    });
    assert!(feed.try_next().unwrap().is_none());
    assert!(db.stats().flushes > 20, "there were many rotations");
}

#[test]
fn a_feed_goes_on_after_a_reopen_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let options = || options().retain_log_bytes(64 << 20);
    let mut position = 1;
    let mut told = Vec::new();
    for round in 0..6 {
        let db = options().open(dir.path()).unwrap();
        fill(&db, round * 300..(round + 1) * 300);
        if round % 2 == 0 {
            db.flush().unwrap();
        }
        fill(&db, 0..10);
        let mut feed = db.subscribe(&SubscribeOptions::new().from(position)).unwrap();
        for _ in 0..200 {
            let Event::Commit(commit) = feed.next().unwrap().unwrap() else { panic!("a commit") };
            told.push(commit.first);
            position = feed.position();
        }
        drop(feed);
        db.close().unwrap();
    }
    assert_eq!(told, (1..=1200).collect::<Vec<_>>());
    let db = options().open(dir.path()).unwrap();
    let mut all = db.subscribe(&oldest()).unwrap();
    assert_eq!(sequences(&mut all), (1..=1860).collect::<Vec<_>>());
}

#[test]
fn the_log_is_retained_up_to_its_bytes_and_not_beyond() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().retain_log_bytes(100 << 10).open(dir.path()).unwrap();
    fill(&db, 0..5000);
    db.flush().unwrap();
    let mut feed = db.subscribe(&oldest()).unwrap();
    let first = feed.next().unwrap().unwrap();
    let Event::Commit(first) = first else { panic!("a commit") };
    // A commit takes about 140 bytes of the log.
    assert!((3800..4900).contains(&first.first), "{}", first.first);
    let error = db.subscribe(&SubscribeOptions::new().from(first.first - 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains(&format!("at least {}", first.first)), "{error}");
    let rest = sequences(&mut feed);
    assert_eq!(rest, (first.first + 1..=5000).collect::<Vec<_>>());
}

#[test]
fn the_log_is_retained_for_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let clock = std::sync::Arc::new(siltdb::testing::ManualClock::default());
    let options = options().workers(0).retain_log_for(Duration::from_secs(60));
    let db = options.clock(clock.clone()).open(dir.path()).unwrap();
    fill(&db, 0..300);
    db.flush().unwrap();
    clock.advance(Duration::from_secs(59));
    fill(&db, 0..1);
    db.flush().unwrap();
    assert_eq!(sequences(&mut db.subscribe(&oldest()).unwrap()), (1..=301).collect::<Vec<_>>());
    clock.advance(Duration::from_secs(2));
    fill(&db, 0..1);
    db.flush().unwrap();
    assert_eq!(sequences(&mut db.subscribe(&oldest()).unwrap()), [301, 302]);
}

#[test]
fn a_feed_keeps_its_log_and_gives_it_back_when_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().workers(0).open(dir.path()).unwrap();
    let feed = db.subscribe(&SubscribeOptions::new()).unwrap();
    fill(&db, 0..3000);
    db.flush().unwrap();
    let kept = log_files(dir.path());
    assert!(kept > 15, "{kept} files");
    assert_eq!(sequences(&mut db.subscribe(&oldest()).unwrap()).len(), 3000);
    drop(feed);
    fill(&db, 0..1);
    db.flush().unwrap();
    assert!(log_files(dir.path()) <= 3);
    let error = db.subscribe(&SubscribeOptions::new().from(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_feed_that_keeps_too_much_log_loses_its_place_and_says_what_it_lost() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().workers(0).feed_bytes_max(64 << 10).open(dir.path()).unwrap();
    let mut feed = db.subscribe(&SubscribeOptions::new()).unwrap();
    fill(&db, 0..10);
    assert_eq!(feed.try_next().unwrap().map(|event| text(&event).len() > 100), Some(true));
    fill(&db, 10..3000);
    db.flush().unwrap();
    fill(&db, 0..1);
    let error = feed.try_next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("operations 2..=3000 were released"), "{error}");
    assert!(feed.try_next().is_err(), "it does not go on behind a hole");
    let mut later = db.subscribe(&oldest()).unwrap();
    assert_eq!(sequences(&mut later), [3001]);
    assert!(log_files(dir.path()) <= 4);
}

#[test]
fn a_subscription_from_a_number_that_is_not_given_yet_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().open(dir.path()).unwrap();
    fill(&db, 0..3);
    let at = |sequence| db.subscribe(&SubscribeOptions::new().from(sequence));
    assert_eq!(at(5).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let mut next = at(4).unwrap();
    assert!(next.try_next().unwrap().is_none());
    fill(&db, 3..4);
    assert_eq!(sequences(&mut next), [4]);
    assert_eq!(sequences(&mut at(0).unwrap()), [1, 2, 3, 4]);
}

#[test]
fn a_commit_in_whose_middle_a_feed_begins_is_told_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().open(dir.path()).unwrap();
    let mut batch = WriteBatch::new();
    for key in ["a", "b", "c"] {
        batch.put(&db.default_family(), key, "").unwrap();
    }
    db.write(&batch).unwrap();
    let mut feed = db.subscribe(&SubscribeOptions::new().from(2)).unwrap();
    assert_eq!(read(&mut feed), ["1..3 1:a= 2:b= 3:c="]);
}

#[test]
fn a_database_that_is_open_for_reading_tells_what_its_log_holds() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().retain_log_bytes(1 << 20).open(dir.path()).unwrap();
    fill(&db, 0..500);
    db.flush().unwrap();
    fill(&db, 0..3);
    db.close().unwrap();
    let db = options().read_only(true).open(dir.path()).unwrap();
    assert_eq!(sequences(&mut db.subscribe(&oldest()).unwrap()), (1..=503).collect::<Vec<_>>());
}

#[test]
fn a_waiting_feed_is_woken_by_a_commit_and_ended_by_a_close() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().open(dir.path()).unwrap();
    let mut feed = db.subscribe(&SubscribeOptions::new()).unwrap();
    let (told, is_told) = mpsc::channel();
    let reader = thread::spawn(move || {
        let first = feed.next().unwrap().map(|event| text(&event));
        told.send(first.unwrap()).unwrap();
        (feed.next().unwrap().unwrap_err().kind(), feed.next().is_none())
    });
    // Most probably it waits by then.
    thread::sleep(Duration::from_millis(30));
    db.put("k", "v").unwrap();
    assert_eq!(is_told.recv().unwrap(), "1..1 1:k=v");
    thread::sleep(Duration::from_millis(30));
    db.close().unwrap();
    assert_eq!(reader.join().unwrap(), (ErrorKind::Closed, true));
}

#[test]
fn a_damaged_commit_is_an_error_that_names_file_and_offset_and_is_not_passed_over() {
    let fs = MemFs::new();
    let db = options().workers(0).fs(Arc::new(fs.clone())).open("/db").unwrap();
    for (key, value) in [("a", "first"), ("b", "damaged"), ("c", "third")] {
        db.put(key, value).unwrap();
    }
    let mut feed = db.subscribe(&SubscribeOptions::new().from(1)).unwrap();
    let logs = fs.list(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name);
    let (path, at) = logs
        .filter(|name| name.ends_with(".log"))
        .find_map(|name| {
            let path = Path::new("/db").join(name);
            let bytes = fs.read_all(&path).unwrap();
            let at = bytes.windows(7).position(|part| part == b"damaged")?;
            Some((path, at as u64))
        })
        .unwrap();
    fs.bytes_flip(&path, at, 1).unwrap();
    assert_eq!(feed.try_next().unwrap().map(|event| text(&event)).unwrap(), "1..1 1:a=first");
    for _ in 0..2 {
        let error = feed.try_next().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        let message = error.to_string();
        let file = path.file_name().unwrap().to_str().unwrap();
        assert!(message.contains(file) && message.contains("offset="), "{message}");
        assert_eq!(feed.position(), 2);
    }
}

/// A reader of the feed sees gaps where nothing was committed.
#[test]
fn the_numbers_of_preparations_and_rollbacks_are_in_no_event() {
    let db = options().fs(Arc::new(MemFs::new())).open("db").unwrap();
    let mut subscription = db.subscribe(&oldest()).unwrap();
    let last = || db.snapshot().sequence();
    let prepare = |id: &[u8]| {
        let transaction = db.begin(Isolation::Serializable);
        transaction.put(id, "value").unwrap();
        transaction.prepare(id).unwrap();
        last()
    };
    db.put("a", "1").unwrap();
    let committed = prepare(b"committed");
    db.put("b", "2").unwrap();
    db.commit_prepared(b"committed").unwrap();
    let undone = prepare(b"undone");
    db.rollback_prepared(b"undone").unwrap();
    let rollback = last();
    db.put("c", "3").unwrap();
    let (mut told, mut keys) = (Vec::new(), Vec::new());
    while let Some(event) = subscription.try_next().unwrap() {
        let Event::Commit(commit) = event else { panic!("not a commit: {event:?}") };
        told.extend(commit.first..=commit.last);
        keys.extend(commit.changes().map(|change| change.operation.key.to_vec()));
    }
    assert_eq!(keys, [&b"a"[..], b"b", b"committed", b"c"]);
    let missing: Vec<u64> = (1..=last()).filter(|number| !told.contains(number)).collect();
    assert_eq!(missing, [committed, undone, rollback]);
}
