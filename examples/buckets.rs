//! A mailbox: buckets within buckets, moved and deleted as a whole.
//!
//! `cargo run --example buckets`

use siltdb::Db;
use std::{error::Error, io::Write};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    let dir = std::env::temp_dir().join(format!("siltdb-buckets-{}", std::process::id()));
    let db = Db::open(&dir)?;
    let mail = db.default_family();

    let inbox = mail.bucket(["ada", "inbox"])?;
    inbox.create_if_missing()?;
    for text in ["hello", "lunch?", "buy now"] {
        // Ids of a bucket ascend, and so do keys made of them.
        inbox.put(inbox.next_id()?.to_be_bytes(), text)?;
    }

    // An update moves a message to another bucket, as a whole or not at all.
    mail.bucket(["ada", "spam"])?.create()?;
    db.update(|tx| {
        let (inbox, spam) = (tx.bucket(["ada", "inbox"])?, tx.bucket(["ada", "spam"])?);
        if let Some(text) = inbox.take(3_u64.to_be_bytes())? {
            spam.put(spam.next_id()?.to_be_bytes(), text)?;
        }
        Ok::<(), siltdb::Error>(())
    })?;

    // A whole tree moves to another path, at a cost that does not depend on its contents.
    mail.bucket(["archive"])?.create()?;
    mail.bucket(["ada"])?.rename(["archive", "ada"])?;
    for name in mail.bucket(["archive", "ada"])?.children()? {
        let bucket = mail.bucket([&b"archive"[..], b"ada", &name])?;
        writeln!(out, "{}: {} messages", name.escape_ascii(), bucket.count(..)?)?;
        for pair in bucket.range(..)? {
            writeln!(out, "    {}", pair?.1.escape_ascii())?;
        }
    }
    assert_eq!(mail.bucket(["archive", "ada", "inbox"])?.count(..)?, 2);

    mail.bucket(["archive"])?.remove()?;
    mail.reclaim_buckets()?;
    assert!(mail.bucket([""; 0])?.children()?.is_empty());
    drop((inbox, mail));
    db.close()?;
    Db::destroy(&dir)?;
    Ok(())
}
