//! `cargo bench-all`: builds silt-bench and the workers of all peers that this machine can build,
//! runs everything, and writes the report. A peer that cannot be built is shown as not run, with
//! the reason.
//!
//! Its arguments are those of `silt-bench run`. It measures nothing itself.

use crate::checkout::root;
use crate::peers;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// Up to this scale all engines take part in each row. Larger runs choose engines by its result.
const SMALL: f64 = 0.05;
/// Defaults of the time limits: phases are cut off after some seconds, rows after some minutes, and
/// engines that are far behind are not repeated. Without these limits a small run takes half a day,
/// mostly for engines thirty times slower than the best.
const UNLESS_ASKED: [(&str, &str); 3] =
    [("--cap", "2"), ("--timeout", "900"), ("--repeat-within", "3")];
/// The directory of results.
const RESULTS: &str = "target/bench";

/// The engines of each worker of a peer.
const ENGINES: [(&str, &[&str]); 4] = [
    ("allocators", &["siltdb-mimalloc", "siltdb-jemalloc"]),
    ("rocksdb", &["rocksdb", "rocksdb-optimistic", "rocksdb-pessimistic"]),
    ("tidesdb", &["tidesdb"]),
    ("go", &["bbolt", "pebble", "badger"]),
];

/// Engines without a worker, and the reasons.
const UNOBTAINABLE: [(&str, &str); 1] =
    [("wildcat", "its Go module cannot be fetched: the module proxy refuses it")];

/// Builds the workers and runs the benchmark.
pub fn run(arguments: &[&str]) -> ExitCode {
    let arguments = arguments.strip_prefix(&["--"]).unwrap_or(arguments);
    match build_and_run(arguments) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn build_and_run(arguments: &[&str]) -> Result<ExitCode, String> {
    let root = root();
    let scale = scale(arguments)?;
    say("silt-bench, with sled, redb, fjall, LMDB, libmdbx, SQLite and ThunderDB");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--release", "--manifest-path", "bench/Cargo.toml"]);
    build.args(["--target-dir", "target", "--features", "peers"]);
    succeeds(build.current_dir(root))?;
    let mut run = Command::new(root.join("target/release/silt-bench"));
    run.current_dir(root).arg("run").args(arguments);
    if !has(arguments, "--scale") {
        run.arg("--scale").arg(scale.to_string());
    }
    for (name, value) in UNLESS_ASKED.into_iter().filter(|(name, _)| !has(arguments, name)) {
        run.arg(name).arg(value);
    }
    for prepared in peers::prepare(root) {
        if let Err(reason) = prepared.outcome {
            eprintln!("{} will not run: {reason}", prepared.name);
            for engine in engines_of(prepared.name) {
                run.arg("--absent").arg(format!("{engine}={reason}"));
            }
        }
    }
    for (engine, reason) in UNOBTAINABLE {
        run.arg("--absent").arg(format!("{engine}={reason}"));
    }
    let results = root.join(RESULTS);
    fs::create_dir_all(&results).map_err(|error| format!("{}: {error}", results.display()))?;
    let small = results.join("small.json");
    let chooses = !["--engines", "--best-of"].iter().any(|name| has(arguments, name));
    if scale > SMALL && chooses && small.exists() {
        run.arg("--best-of").arg(&small);
    }
    let json = results.join("results.json");
    for (form, file) in [("html", "report.html"), ("markdown", "report.md")] {
        run.arg(format!("--{form}")).arg(results.join(file));
    }
    say("everything");
    let code = run.arg("--json").arg(&json).status().map_err(|error| error.to_string())?;
    let parts = ["--suite", "--rows", "--engines", "--published"];
    let is_whole = !parts.iter().any(|name| has(arguments, name));
    if code.success() && is_whole && scale <= SMALL {
        fs::copy(&json, &small).map_err(|error| format!("{}: {error}", small.display()))?;
    }
    println!("results and reports are in {}", results.display());
    Ok(ExitCode::from(code.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// The requested scale, or [`SMALL`].
fn scale(arguments: &[&str]) -> Result<f64, String> {
    let mut after = arguments.iter().skip_while(|one| !has(&[one], "--scale"));
    let text = match after.next() {
        None => return Ok(SMALL),
        Some(one) => match one.split_once('=') {
            Some((_, text)) => text,
            None => after.next().copied().unwrap_or(""),
        },
    };
    text.parse().map_err(|_| format!("--scale takes a number, not `{text}`"))
}

fn has(arguments: &[&str], name: &str) -> bool {
    let is_it =
        |one: &str| one.strip_prefix(name).is_some_and(|r| r.is_empty() || r.starts_with('='));
    arguments.iter().any(|one| is_it(one))
}

fn engines_of(peer: &str) -> &'static [&'static str] {
    ENGINES.iter().find(|(name, _)| *name == peer).map_or(&[], |(_, engines)| engines)
}

fn say(what: &str) {
    eprintln!("== {what}");
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} ended with {status}", program(command).display())),
        Err(error) => Err(format!("{}: {error}", program(command).display())),
    }
}

fn program(command: &Command) -> PathBuf {
    Path::new(command.get_program()).to_owned()
}

#[cfg(test)]
mod tests;
