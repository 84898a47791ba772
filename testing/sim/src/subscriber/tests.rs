//! What a subscriber is content with, and what it notices.

use super::*;
use crate::{
    model::{Clock, DEFAULT},
    operator::Operator,
};
use siltdb::{Db, Durability, Options, WriteOptions};
use siltdb_base::fs::mem::MemFs;

/// A database, and the model of it.
struct World {
    db: Db,
    model: Model,
    subscriber: Subscriber,
}

impl World {
    fn new() -> Self {
        let options = Options::new().fs(Arc::new(MemFs::new())).workers(0).seed(1);
        let db = options.open("/db").unwrap();
        let mut subscriber = Subscriber::default();
        subscriber.learn(DEFAULT, db.default_family().id());
        let subscription = db.subscribe(&SubscribeOptions::new().from(1)).unwrap();
        subscriber.begin(subscription, Interest::default());
        Self { db, model: Model::new(Operator::Append), subscriber }
    }

    fn model_put(&mut self, key: &[u8], durability: Durability) {
        let (key, value) = (Shared::from(key), Shared::from(&b"value"[..]));
        let operation = Operation::Put { key, value, expiry_ms: None };
        self.model.begin(durability, Clock::Silent, &[(DEFAULT, operation)]);
    }

    fn put(&mut self, key: &[u8], durability: Durability) {
        self.model_put(key, durability);
        self.db.put_with(key, "value", &WriteOptions::new().durability(durability)).unwrap();
        self.model.acknowledge(self.db.snapshot().sequence(), 0);
    }

    fn pull(&mut self) -> Option<Event> {
        self.subscriber.subscription.as_mut().unwrap().try_next().unwrap()
    }

    fn check(&mut self, event: &Event) -> Checked<Seen> {
        self.subscriber.check_event(event, &mut self.model, Retained::Nothing)
    }

    fn check_next(&mut self) -> Checked<Seen> {
        let event = self.pull().unwrap();
        self.check(&event)
    }

    fn check_end(&self) -> Checked<()> {
        self.subscriber.check_end(&self.model, Retained::Nothing)
    }
}

#[test]
fn what_was_committed_is_told_and_nothing_is_missing() {
    let mut world = World::new();
    world.put(b"a", Durability::Buffered);
    world.put(b"b", Durability::Volatile);
    world.put(b"c", Durability::Buffered);
    assert!(world.check_end().is_err(), "nothing was told yet");
    assert_eq!(world.check_next(), Ok(Seen::Commit));
    assert_eq!(world.check_next(), Ok(Seen::Unlogged));
    assert!(world.check_end().is_err(), "the last was not told yet");
    assert_eq!(world.check_next(), Ok(Seen::Commit));
    assert!(world.pull().is_none());
    world.check_end().unwrap();
}

#[test]
fn a_commit_that_is_passed_over_is_noticed() {
    let mut world = World::new();
    world.put(b"a", Durability::Buffered);
    world.put(b"b", Durability::Buffered);
    world.pull().unwrap();
    let violation = world.check_next().unwrap_err().to_string();
    assert!(violation.contains("was to come"), "{violation}");
}

#[test]
fn a_commit_that_is_told_twice_is_noticed() {
    let mut world = World::new();
    world.put(b"a", Durability::Buffered);
    let event = world.pull().unwrap();
    world.check(&event).unwrap();
    world.check(&event).unwrap_err();
}

#[test]
fn a_commit_that_is_told_otherwise_is_noticed() {
    let mut world = World::new();
    world.model_put(b"a", Durability::Buffered);
    world.db.put("b", "value").unwrap();
    world.model.acknowledge(world.db.snapshot().sequence(), 0);
    let violation = world.check_next().unwrap_err().to_string();
    assert!(violation.contains("was to come"), "{violation}");
}

#[test]
fn a_commit_that_is_told_as_unlogged_is_noticed() {
    let mut world = World::new();
    world.put(b"a", Durability::Buffered);
    world.pull().unwrap();
    let violation = world.check(&Event::Unlogged(1..=1)).unwrap_err().to_string();
    assert!(violation.contains("was in the log"), "{violation}");
}

#[test]
fn of_what_was_there_before_an_opening_only_what_is_retained_must_be_told() {
    let mut world = World::new();
    world.put(b"a", Durability::Buffered);
    world.subscriber.reopened(1);
    world.check_end().unwrap();
    let retained = world.subscriber.check_end(&world.model, Retained::Everything);
    assert!(retained.is_err());
    world.put(b"b", Durability::Buffered);
    assert!(world.check_end().is_err());
}

#[test]
fn a_commit_in_doubt_may_be_told_and_may_be_absent() {
    let mut world = World::new();
    world.model_put(b"a", Durability::Buffered);
    world.db.put("a", "value").unwrap();
    world.model.recovered(1, u64::MAX, 1);
    world.check_end().unwrap();
    assert_eq!(world.check_next(), Ok(Seen::Commit));
    assert!(world.model.commit(1).unwrap().is_sequence_known);
}
