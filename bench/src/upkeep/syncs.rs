//! The syncs of an opening, one put and a close, counted by `strace` in a process that does only
//! this.
//!
//! Only a count at the system call border sees every sync, whatever its source.

use crate::{
    engine::{Failure, Result},
    upkeep::{data::compare, part::Teller},
};
use siltdb::Db;
use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

/// Rounds over which syncs are averaged.
const ROUNDS: usize = 50;
/// The system calls that make data durable.
const CALLS: &str = "trace=fsync,fdatasync,msync,sync,syncfs,sync_file_range";
/// The traced part.
pub const TRACED: &str = "syncs-traced";

fn name(round: usize) -> Vec<u8> {
    format!("k{round:04}").into_bytes()
}

/// Opens, puts and closes once to create the database, and then under `strace`.
///
/// # Errors
/// Errors of the engine; if the traced process fails; `Verification`.
pub fn syncs(dir: &Path, teller: &Teller<'_>) -> Result<()> {
    let version = Command::new("strace").arg("--version").stdout(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        teller.lacks("openings/syncs", "strace is not installed");
        return Ok(());
    }
    let data = dir.join("data");
    let db = Db::open(&data)?;
    db.put(name(0), b"x")?;
    db.close()?;
    let summary = dir.join("strace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "-e", CALLS, "-o"]).arg(&summary).arg(env::current_exe()?);
    strace.args(["upkeep-part", TRACED, "--seconds", "60", "--dir"]).arg(&data);
    let output = strace.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().lines().next_back().unwrap_or("").to_owned();
        if said.contains("ptrace") || said.contains("PTRACE") {
            teller.lacks("openings/syncs", format!("strace may not trace: {said}"));
            return Ok(());
        }
        return Err(Failure::error(format!("the traced process failed: {said}")));
    }
    let calls = calls(&fs::read_to_string(&summary)?)?;
    let db = Db::open(&data)?;
    let wanted = (0..=ROUNDS).map(|round| (name(round), b"x".to_vec()));
    compare(&db, wanted, teller)?;
    db.close()?;
    let note = format!("{calls} in {ROUNDS} rounds");
    teller.figure("openings/syncs", calls as f64 / ROUNDS as f64, (ROUNDS, ROUNDS), note)
}

/// The traced work.
///
/// # Errors
/// Errors of the engine.
pub fn traced(dir: &Path) -> Result<()> {
    for round in 1..=ROUNDS {
        let db = Db::open(dir)?;
        db.put(name(round), b"x")?;
        db.close()?;
    }
    Ok(())
}

/// The sum of calls in a summary of `strace -c`: the fourth column of each call.
fn calls(summary: &str) -> Result<u64> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_sync = words.last().is_some_and(|call| CALLS.contains(call));
        (is_sync && words.len() >= 5).then(|| words[3].parse::<u64>().ok()).flatten()
    };
    if !summary.contains("syscall") {
        // Without a single call `strace` prints no table.
        return Err(Failure::error("strace counted no sync at all"));
    }
    Ok(summary.lines().filter_map(line).sum())
}

#[cfg(test)]
mod tests;
