//! A cache that follows a database. Run it with `cargo run --example change_feed`.
//!
//! The program keeps the totals of accounts beside the database. It stores the sequence number up
//! to which it has processed commits, so that a restart reads only later ones.

use siltdb::{Action, Db, Event, Options, Result, SubscribeOptions};
use std::collections::BTreeMap;
use std::path::Path;

/// The derived data, and the sequence number from which to continue.
struct Totals {
    position: u64,
    cents: BTreeMap<String, u64>,
}

impl Totals {
    /// Processes the commits since the last call.
    fn follow(&mut self, db: &Db) -> Result<usize> {
        let orders = SubscribeOptions::new().prefix("order/").from(self.position);
        let mut feed = db.subscribe(&orders)?;
        let mut commits = 0;
        while let Some(event) = feed.try_next()? {
            // The log has everything, since there are no `Volatile` commits.
            let Event::Commit(commit) = event else { continue };
            commits += 1;
            for change in commit.changes() {
                if let Action::Put(cents) = change.operation.action {
                    let customer = customer(change.operation.key);
                    *self.cents.entry(customer).or_default() += number(cents);
                }
            }
        }
        self.position = feed.position();
        Ok(commits)
    }
}

/// The customer in `order/CUSTOMER/NUMBER`.
fn customer(key: &[u8]) -> String {
    String::from_utf8_lossy(key).split('/').nth(1).unwrap_or_default().to_owned()
}

fn number(text: &[u8]) -> u64 {
    String::from_utf8_lossy(text).parse().unwrap_or(0)
}

/// Keeps 64 MiB of flushed log, for a follower that is away for a while.
fn open(path: &Path) -> Result<Db> {
    Options::new().retain_log_bytes(64 << 20).open(path)
}

fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("siltdb-change-feed-{}", std::process::id()));
    let mut totals = Totals { position: 1, cents: BTreeMap::new() };

    let db = open(&dir)?;
    db.put("order/ada/1", "1200")?;
    db.put("stock/book", "11")?;
    db.put("order/bob/2", "300")?;
    assert_eq!(totals.follow(&db)?, 2);
    db.put("order/ada/3", "80")?;
    db.flush()?;
    db.close()?;

    // A second process reads only the new commits.
    let db = open(&dir)?;
    assert_eq!(totals.follow(&db)?, 1);
    for (customer, cents) in &totals.cents {
        println!("{customer}: {cents} cents");
    }
    assert_eq!(
        totals.cents.into_iter().collect::<Vec<_>>(),
        [("ada".to_owned(), 1280), ("bob".to_owned(), 300)]
    );
    db.close()?;
    siltdb::Db::destroy(&dir)
}
