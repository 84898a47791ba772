//! Sessions of users that expire by themselves. Run it with `cargo run --example sessions`.
//!
//! A session has an entry in each of two families. The entry by token serves requests; the entry by
//! user lists all sessions of a user. One batch keeps both in step. A real program needs no clock;
//! this one advances a manual clock instead of waiting.

use siltdb::testing::ManualClock;
use siltdb::{Db, Durability, Family, FamilyOptions, Options, Read, Result, WriteBatch};
use std::{sync::Arc, time::Duration};

/// Time after the last request at which a session expires.
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

    /// Begins or extends a session. Both entries expire at the same time.
    fn touch(&self, token: &str, user: &str) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put_for(&self.users, token, user, SESSION_TIME)?;
        batch.put_for(&self.tokens, key_of(user, token), "", SESSION_TIME)?;
        self.db.write(&batch)
    }

    /// Returns the user of a session that has not expired, and extends the session.
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

    /// Ends all sessions of a user. The write is synced, so a power loss does not restore them.
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

/// Names of users have no zero byte, so no user's prefix matches the keys of another user.
fn key_of(user: &str, token: &str) -> Vec<u8> {
    [user.as_bytes(), b"\0", token.as_bytes()].concat()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn main() -> Result<()> {
    let clock = Arc::new(ManualClock::at(Duration::ZERO));
    let sessions = Sessions::new(Options::new().clock(clock.clone()).temporary()?)?;

    sessions.touch("t1", "ada")?;
    sessions.touch("t2", "ada")?;
    sessions.touch("t3", "adam")?;
    assert_eq!(sessions.tokens_of("ada")?, ["t1", "t2"]);

    // A request after twenty minutes extends the first session.
    clock.advance(Duration::from_secs(20 * 60));
    assert_eq!(sessions.user("t1")?.as_deref(), Some("ada"));

    // After ten more minutes the others have expired. Compactions drop them without a delete.
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
