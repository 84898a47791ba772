//! Changes of the expiry of a value that leave the value as it is.
//!
//! Each is an update of one key, as in `single_key`.

use crate::{
    db::Db, expiry::Expiry, family::Family, read::Read, transaction::Transaction,
    write_options::WriteOptions,
};
use siltdb_base::error::Result;
use std::time::Duration;

impl Transaction {
    /// Changes the expiry of a value as [`Family::touch`], within the transaction.
    ///
    /// # Errors
    /// As [`Read::get`] and [`Transaction::put`].
    pub fn touch(&self, key: impl AsRef<[u8]>, time: Duration) -> Result<bool> {
        self.touch_with(key, &WriteOptions::new().ttl(time))
    }

    /// Removes the expiry of a value as [`Family::persist`], within the transaction.
    ///
    /// # Errors
    /// As [`Transaction::touch`].
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.touch_with(key, &WriteOptions::new().expiry(Expiry::Never))
    }

    /// Gives a value the expiry of `options`, as [`Family::touch_with`], within the transaction.
    ///
    /// # Errors
    /// As [`Transaction::touch`].
    pub fn touch_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<bool> {
        let Some(value) = self.get(key.as_ref())? else { return Ok(false) };
        self.put_with(key, &value, options)?;
        Ok(true)
    }
}

impl Family {
    /// Has the value of a key expire after `time`, counted from this call, atomically. Returns
    /// whether the key has a value. Costs a read of the value and a put of it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Expiry, Read};
    /// use std::time::Duration;
    ///
    /// db.put("session", "alice")?;
    /// assert!(db.touch("session", Duration::from_secs(60))?);
    /// assert_ne!(db.expires_at("session")?, Some(Expiry::Never));
    /// assert!(db.persist("session")?);
    /// assert_eq!(db.expires_at("session")?, Some(Expiry::Never));
    /// assert!(!db.touch("nothing", Duration::from_secs(60))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`].
    pub fn touch(&self, key: impl AsRef<[u8]>, time: Duration) -> Result<bool> {
        self.touch_with(key, &WriteOptions::new().ttl(time))
    }

    /// Removes the expiry of the value of a key, atomically. Otherwise as [`Family::touch`].
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`].
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.touch_with(key, &WriteOptions::new().expiry(Expiry::Never))
    }

    /// Gives the value of a key the expiry of `options`; where they say nothing of it, that of a
    /// new put. Otherwise as [`Family::touch`].
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`].
    pub fn touch_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<bool> {
        self.step(options, |step| step.touch_with(key.as_ref(), options))
    }
}

impl Db {
    /// Changes the expiry of a value of the default family; see
    /// [`Family::touch`](crate::Family::touch).
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn touch(&self, key: impl AsRef<[u8]>, time: Duration) -> Result<bool> {
        self.default.touch(key, time)
    }

    /// Removes the expiry of a value of the default family; see
    /// [`Family::persist`](crate::Family::persist).
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.default.persist(key)
    }

    /// Gives a value of the default family the expiry of `options`; see
    /// [`Family::touch_with`](crate::Family::touch_with).
    ///
    /// # Errors
    /// As [`Family::compare_and_swap`](crate::Family::compare_and_swap).
    pub fn touch_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<bool> {
        self.default.touch_with(key, options)
    }
}
