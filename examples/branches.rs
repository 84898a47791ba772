//! A change is made on a branch, looked over, and merged back while the database is in use.
//!
//! `cargo run --example branches`

use siltdb::{Db, FamilyOptions, MergeOptions, OnConflict, Read};
use std::{error::Error, io::Write};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    let dir = std::env::temp_dir().join(format!("siltdb-branches-{}", std::process::id()));
    let db = Db::open(&dir)?;
    let stock = db.create_family("stock", FamilyOptions::new())?;
    for (name, count) in [("apple", "50"), ("bread", "20"), ("cheese", "7")] {
        stock.put(name, count)?;
    }

    // All families, and no entry is copied.
    let recount = db.create_branch("recount")?;
    let counted = recount.family("stock")?;
    counted.put("apple", "48")?;
    counted.delete("cheese")?;
    // Meanwhile the shop is open.
    stock.put("bread", "15")?;
    assert_eq!(stock.get("apple")?.as_deref(), Some(&b"50"[..]));

    for difference in db.diff("main", "recount")? {
        let difference = difference?;
        let text = |value: &Option<siltdb::BranchValue>| match value {
            Some(value) => value.value.escape_ascii().to_string(),
            None => "none".to_owned(),
        };
        let (main, branch) = (text(&difference.left), text(&difference.right));
        writeln!(out, "{}: {main} on main, {branch} counted", difference.key.escape_ascii())?;
    }
    let report = db.merge_branch("recount")?;
    assert!(report.is_applied && report.written == 2 && report.conflicts == 0);
    assert_eq!(stock.get("apple")?.as_deref(), Some(&b"48"[..]));
    assert_eq!(stock.get("bread")?.as_deref(), Some(&b"15"[..]));

    // Both sides change the same key: nothing is merged until a side is chosen.
    counted.put("bread", "14")?;
    stock.put("bread", "13")?;
    let report = db.merge_branch("recount")?;
    assert!(!report.is_applied);
    for conflict in &report.conflicting_keys {
        writeln!(out, "conflict: {} of {}", conflict.key.escape_ascii(), conflict.family)?;
    }
    let theirs = MergeOptions::new().on_conflict(OnConflict::Theirs);
    assert!(db.merge_branch_with("recount", &theirs)?.is_applied);
    assert_eq!(stock.get("bread")?.as_deref(), Some(&b"14"[..]));

    drop((stock, counted, recount));
    db.drop_branch("recount")?;
    db.close()?;
    Db::destroy(&dir)?;
    Ok(())
}
