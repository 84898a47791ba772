//! Sessions of users that expire by themselves. Run it with `cargo run --example sessions`.
//!
//! A session lies twice, in two families: under its token, to be looked up by each request, and
//! under its user, so that all sessions of a user are found. One batch keeps the two in step.
//! A program leaves the clock out; here it is turned by hand, so that nothing waits.

use siltdb::testing::ManualClock;
use siltdb::{Db, Durability, Family, FamilyOptions, Options, Read, Result, WriteBatch};
use std::{sync::Arc, time::Duration};

/// How long a session lasts after the last request in it.
const SESSION_TIME: Duration = Duration::from_secs(30 * 60);

struct Sessions {
    db: Db,
    /// Token to user.
    users: Family,
    /// User, a zero byte, token, to nothing.
    tokens: Family,
}

impl Sessions {
    fn new(db: Db) -> Result<Self> {
        let users = db.family_or_create("users", FamilyOptions::new())?;
        let tokens = db.family_or_create("tokens", FamilyOptions::new())?;
        Ok(Self { db, users, tokens })
    }

    /// Begins a session, or lets one last longer. Both entries expire at the same time.
    fn touch(&self, token: &str, user: &str) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put_for(&self.users, token, user, SESSION_TIME)?;
        batch.put_for(&self.tokens, key_of(user, token), "", SESSION_TIME)?;
        self.db.write(&batch)
    }

    /// The user of a session that has not expired; the session lasts longer by this.
    fn user(&self, token: &str) -> Result<Option<String>> {
        let Some(user) = self.users.read(token, text)? else { return Ok(None) };
        self.touch(token, &user)?;
        Ok(Some(user))
    }

    /// The tokens of a user's sessions.
    fn tokens_of(&self, user: &str) -> Result<Vec<String>> {
        let prefix = key_of(user, "");
        let keys = self.tokens.prefix(&prefix)?.keys();
        keys.map(|key| key.map(|key| text(&key[prefix.len()..]))).collect()
    }

    /// Ends all sessions of a user. It is synced: a power cut does not bring them back.
    fn end_all(&self, user: &str) -> Result<()> {
        let mut batch = WriteBatch::new();
        for token in self.tokens_of(user)? {
            batch.delete(&self.users, token)?;
        }
        batch.delete_prefix(&self.tokens, key_of(user, ""))?;
        let synced = siltdb::WriteOptions::new().durability(Durability::Synced);
        self.db.write_with(&batch, &synced)
    }
}

/// Names of users have no zero byte, so that no user's keys begin as those of another.
fn key_of(user: &str, token: &str) -> Vec<u8> {
    [user.as_bytes(), b"\0", token.as_bytes()].concat()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn main() -> Result<()> {
    let clock = Arc::new(ManualClock::new(0));
    let sessions = Sessions::new(Options::new().clock(clock.clone()).temporary()?)?;

    sessions.touch("t1", "ada")?;
    sessions.touch("t2", "ada")?;
    sessions.touch("t3", "adam")?;
    assert_eq!(sessions.tokens_of("ada")?, ["t1", "t2"]);

    // A request after twenty minutes lets the first session last longer.
    clock.advance(Duration::from_secs(20 * 60));
    assert_eq!(sessions.user("t1")?.as_deref(), Some("ada"));

    // After ten more the others have expired. They need not be deleted; compactions drop them.
    clock.advance(Duration::from_secs(10 * 60));
    assert_eq!(sessions.tokens_of("ada")?, ["t1"]);
    assert_eq!(sessions.user("t2")?, None);
    assert_eq!(sessions.user("t3")?, None);

    sessions.end_all("ada")?;
    assert_eq!(sessions.user("t1")?, None);
    assert!(sessions.tokens.is_empty()?);
    println!("sessions: three began, two expired, one was ended");
    Ok(())
}
