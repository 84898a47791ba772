//! A dry run: a change is tried on a clone, compared, and thrown away.
//!
//! `cargo run --example clones`

use siltdb::{Db, FamilyOptions, Read};
use std::{error::Error, io::Write};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    let dir = std::env::temp_dir().join(format!("siltdb-clones-{}", std::process::id()));
    let db = Db::open(&dir)?;
    let prices = db.create_family("prices", FamilyOptions::new())?;
    for (name, cents) in [("apple", 50_u32), ("bread", 320), ("cheese", 780)] {
        prices.put(name, cents.to_le_bytes())?;
    }
    let before = db.snapshot();

    // No entry is copied, whatever there is.
    let trial = db.clone_family(&prices, "trial")?;
    for pair in trial.iter()? {
        let (name, cents) = pair?;
        let raised = u32::from_le_bytes((*cents).try_into()?) * 11 / 10;
        trial.put(&name, raised.to_le_bytes())?;
    }
    prices.delete("bread")?;

    // Neither sees what was written to the other.
    for pair in trial.iter()? {
        let (name, cents) = pair?;
        let cents = u32::from_le_bytes((*cents).try_into()?);
        let now = if prices.contains(&name)? { "" } else { ", no longer sold" };
        writeln!(out, "{}: {cents} after the rise{now}", name.escape_ascii())?;
    }
    assert_eq!(trial.count(..)?, 3);
    assert_eq!(prices.count(..)?, 2);
    drop(trial);
    db.drop_family("trial")?;

    // What was deleted since is in a clone of the moment before.
    let restored = db.clone_family_at(&before, &prices, "restored")?;
    assert!(restored.contains("bread")?);
    writeln!(out, "restored: {} of {}", restored.count(..)?, db.families().join(", "))?;

    drop((before, prices, restored));
    db.close()?;
    Db::destroy(&dir)?;
    Ok(())
}
