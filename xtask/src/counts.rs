//! `cargo xtask counts`: the instructions of small operations, counted under callgrind and compared
//! with the table of the checkout.
//!
//! Counts repeat where times do not, so a change of two percent can be seen. They leave out caches,
//! branches and the kernel: what they cannot show, `silt-bench` must. `testing/counts` has the
//! operations.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// The table: what it was counted with in the first line, then a case and its count in each.
const TABLE: &str = "testing/counts/table.txt";

/// A count may be above its line in the table by one part in this many.
const TOLERANCE_OF: u64 = 50;

/// What to do with the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Compare them with the table.
    Compare,
    /// Make them the table.
    Store,
}

/// The instructions of each case, by name.
type Counts = Vec<(String, u64)>;

/// The counts of a build.
#[derive(Debug, PartialEq, Eq)]
struct Table {
    /// What decides the counts beside the code: compiler, C library and processor.
    with: String,
    counts: Counts,
}

/// Counts, and compares or stores.
pub fn run(root: &Path, how: Use) -> ExitCode {
    let done = count(root).and_then(|counted| match counted {
        Ok(counted) => use_counts(root, &counted, how),
        Err(reason) => {
            println!("skipped: {reason}");
            Ok(true)
        }
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

/// Builds and counts; the inner error is the reason why this machine cannot.
fn count(root: &Path) -> Result<Result<Table, String>, String> {
    if output(Command::new("valgrind").arg("--version")).is_err() {
        return Ok(Err("no instruction counts: valgrind is not installed".to_owned()));
    }
    let with = counted_with(root)?;
    let program = build(root)?;
    let work = root.join("target/counts");
    let cases = output(&mut Command::new(&program))?;
    let counts =
        cases.lines().map(|case| Ok((case.to_owned(), count_case(&program, case, &work)?)));
    Ok(Ok(Table { with, counts: counts.collect::<Result<_, String>>()? }))
}

/// Builds the program that has the operations. Returns its path.
pub fn build(root: &Path) -> Result<PathBuf, String> {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "--release", "-p", "siltdb-counts"]);
    build.args(["--target-dir", "target"]).current_dir(root);
    if !build.status().map_err(|error| format!("cargo: {error}"))?.success() {
        return Err("siltdb-counts does not build".to_owned());
    }
    Ok(root.join("target/release/siltdb-counts"))
}

/// Compiler, C library and processor: with others the counts differ though the code does not.
fn counted_with(root: &Path) -> Result<String, String> {
    let compiler = output(Command::new("rustc").arg("--version").current_dir(root))?;
    let library = output(Command::new("ldd").arg("--version")).unwrap_or_default();
    let library = library.lines().next().unwrap_or("another C library");
    Ok(format!("{}, {library}, {}", compiler.trim(), processor()))
}

/// The part of the processor that decides which of several routines runs.
fn processor() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return "x86_64 with avx2";
    }
    std::env::consts::ARCH
}

/// The instructions of one operation of a case.
fn count_case(program: &Path, case: &str, work: &Path) -> Result<u64, String> {
    let said = |error: std::io::Error| format!("{}: {error}", work.display());
    if work.exists() {
        fs::remove_dir_all(work).map_err(said)?;
    }
    fs::create_dir_all(work).map_err(said)?;
    let log: PathBuf = work.join("callgrind.log");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"]);
    valgrind.arg("--toggle-collect=*measured*").arg(format!("--log-file={}", log.display()));
    valgrind.arg(program).arg(case).arg(work.join("db"));
    let operations = output(&mut valgrind)?;
    let operations: u64 = operations.trim().parse().map_err(|_| format!("{case}: {operations}"))?;
    let log = fs::read_to_string(&log).map_err(said)?;
    let counted = collected(&log).ok_or_else(|| format!("{case}: callgrind counted nothing"))?;
    fs::remove_dir_all(work).map_err(said)?;
    Ok(counted / operations.max(1))
}

/// The sum in what callgrind says at its end.
fn collected(log: &str) -> Option<u64> {
    let sum = log.lines().find_map(|line| line.split_once("Collected :"))?.1;
    sum.trim().parse().ok().filter(|sum| *sum > 0)
}

/// Runs a command and returns what it printed.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().display().to_string();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Prints the counts beside the table. Returns whether they may stand.
fn use_counts(root: &Path, counted: &Table, how: Use) -> Result<bool, String> {
    let path = root.join(TABLE);
    let stored = match fs::read_to_string(&path) {
        Ok(text) => Some(Table::parse(&text).ok_or_else(|| format!("{TABLE} is no table"))?),
        Err(_) => None,
    };
    if how == Use::Store {
        if let Some(stored) = &stored {
            print!("{}", changes(stored, counted));
        }
        fs::write(&path, counted.text()).map_err(|error| format!("{TABLE}: {error}"))?;
        return Ok(true);
    }
    let stored = stored.ok_or_else(|| format!("no {TABLE}: cargo xtask counts --store"))?;
    if stored.with != counted.with {
        println!("skipped: the table is of {}, and this is {}", stored.with, counted.with);
        return Ok(true);
    }
    let (text, above) = compare(&stored, counted);
    print!("{text}");
    if above > 0 {
        println!("{above} above the table by more than {} %", 100 / TOLERANCE_OF);
        println!("if the change is worth it: cargo xtask counts --store, and say so in the commit");
    }
    Ok(above == 0)
}

impl Table {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let with = lines.next()?.to_owned();
        let count = |line: &str| {
            let (name, count) = line.split_once(' ')?;
            Some((name.to_owned(), count.trim().parse().ok()?))
        };
        Some(Self { with, counts: lines.map(count).collect::<Option<_>>()? })
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n", self.with);
        for (name, count) in &self.counts {
            text.push_str(&format!("{name} {count}\n"));
        }
        text
    }

    fn get(&self, name: &str) -> Option<u64> {
        self.counts.iter().find(|(known, _)| known == name).map(|(_, count)| *count)
    }
}

/// A line for each case, and how many are above the table by more than the tolerance. A case that
/// one of the two lacks counts as above: the table must have all.
fn compare(stored: &Table, counted: &Table) -> (String, usize) {
    let (mut text, mut above) = (String::new(), 0);
    for (name, count) in &counted.counts {
        let known = stored.get(name);
        let is_above = known.is_none_or(|known| *count > known + known / TOLERANCE_OF);
        above += usize::from(is_above);
        let mark = if is_above { "  above" } else { "" };
        let known =
            known.map_or_else(|| "not in the table".to_owned(), |known| change(known, *count));
        text.push_str(&format!("{name:<22} {count:>7}  {known}{mark}\n"));
    }
    for (name, _) in stored.counts.iter().filter(|(name, _)| counted.get(name).is_none()) {
        above += 1;
        text.push_str(&format!("{name:<22} in the table, and no case\n"));
    }
    (text, above)
}

/// The lines for the commit that changes the table.
fn changes(stored: &Table, counted: &Table) -> String {
    let mut text = String::new();
    for (name, count) in &counted.counts {
        match stored.get(name) {
            Some(known) if known == *count => {}
            Some(known) => {
                text.push_str(&format!(
                    "counts: {name} {known} -> {count} ({})\n",
                    change(known, *count)
                ));
            }
            None => text.push_str(&format!("counts: {name} {count}, new\n")),
        }
    }
    text
}

fn change(from: u64, to: u64) -> String {
    format!("{:+.1} %", (to as f64 / from.max(1) as f64 - 1.0) * 100.0)
}

#[cfg(test)]
mod tests;
