//! `cargo xtask sharing`: how many cache lines an operation touches when 64 threads run it in turn,
//! and how many of them it takes from other threads.
//!
//! The program `siltdb-counts --sharing` runs under valgrind's tool lackey, which prints each
//! access to memory. This module simulates a cache without limit for each thread: a line is held by
//! those that have read it since it was last written, and a write takes it from all others. Lines
//! whose holders another thread changes are *taken*: they are what many processors would wait for.
//! Real machines add what this leaves out: caches that are full, and operations at the same time.

use crate::counts;
use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

/// The bytes of a cache line.
const LINE_BYTES: u64 = 64;

/// The threads of the program.
const THREADS: u64 = 64;

/// Operations that are simulated and not counted: each thread has run some.
const WARM_UP: u64 = 8 * THREADS;

/// Lines of the trace between two looks for the addresses of the marks.
const LOOK_EVERY: u64 = 1000;

/// Where the program marks the beginning and the end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marks {
    begun: u64,
    ended: u64,
}

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    address: u64,
    bytes: u64,
    writes: bool,
}

/// What operations have touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    operations: u64,
    /// Different lines of each operation.
    lines: u64,
    /// Of these, the lines that another thread wrote, and this one only read.
    read: u64,
    /// Of these, the lines that other threads held, and this one wrote.
    written: u64,
}

/// The caches of all threads.
#[derive(Debug, Default)]
struct Simulation {
    marks: Option<Marks>,
    /// By line: a bit for each thread that holds it.
    holders: HashMap<u64, u64>,
    /// The thread of the operation that runs.
    running: Option<u64>,
    /// By line of this operation: how it was taken, if it was.
    touched: HashMap<u64, Taken>,
    begun: u64,
    sum: Sum,
}

/// How an operation got a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Taken {
    /// It had it.
    Not,
    /// From the thread that wrote it, to read it.
    ToRead,
    /// From all that held it, to write it.
    ToWrite,
}

/// Builds the program, simulates each case and prints the table.
pub fn run(root: &Path) -> ExitCode {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed");
        return ExitCode::SUCCESS;
    }
    match simulate_all(root) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn simulate_all(root: &Path) -> Result<(), String> {
    let program = counts::build(root)?;
    let listed = Command::new(&program).arg("--sharing").output();
    let listed = listed.map_err(|error| format!("{}: {error}", program.display()))?;
    println!("{:<12} {:>6} {:>11} {:>14}", "operation", "lines", "taken: read", "taken: written");
    for case in String::from_utf8_lossy(&listed.stdout).lines() {
        let sum = simulate(&program, case, &root.join("target/sharing"))?;
        println!("{}", line(case, &sum));
    }
    Ok(())
}

fn line(case: &str, sum: &Sum) -> String {
    let each = |count: u64| count as f64 / sum.operations.max(1) as f64;
    format!(
        "{case:<12} {:>6.1} {:>11.1} {:>14.1}",
        each(sum.lines),
        each(sum.read),
        each(sum.written)
    )
}

/// Runs a case under valgrind and simulates its accesses.
fn simulate(program: &Path, case: &str, work: &Path) -> Result<Sum, String> {
    let said = |error: std::io::Error| format!("{}: {error}", work.display());
    if work.exists() {
        fs::remove_dir_all(work).map_err(said)?;
    }
    fs::create_dir_all(work).map_err(said)?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=lackey", "--trace-mem=yes", "--basic-counts=no", "--log-fd=2"]);
    valgrind.arg(program).arg("--sharing").arg(case).arg(work.join("db"));
    let mut child = valgrind
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("valgrind: {error}"))?;
    let marks = marks_of(&mut child);
    let trace = child.stderr.take().ok_or("valgrind has no trace")?;
    let mut simulation = Simulation::default();
    for (number, line) in (0..).zip(BufReader::with_capacity(1 << 20, trace).split(b'\n')) {
        let line = line.map_err(|error| format!("the trace: {error}"))?;
        if simulation.marks.is_none() {
            if number % LOOK_EVERY == 0 {
                simulation.marks = marks.try_recv().ok();
            }
        } else if let Some(access) = access(&line) {
            simulation.note(access);
        }
    }
    let status = child.wait().map_err(|error| format!("valgrind: {error}"))?;
    fs::remove_dir_all(work).map_err(said)?;
    match simulation.sum.operations {
        0 => Err(format!("{case}: no operation in the trace, {status}")),
        _ if !status.success() => Err(format!("{case}: {status}")),
        _ => Ok(simulation.sum),
    }
}

/// The addresses that the program prints first. The trace must be read meanwhile.
fn marks_of(child: &mut Child) -> Receiver<Marks> {
    let (sender, receiver) = channel();
    let output = child.stdout.take();
    thread::spawn(move || {
        let mut line = String::new();
        if let Some(output) = output
            && BufReader::new(output).read_line(&mut line).is_ok()
            && let Some(marks) = marks(&line)
        {
            let _ = sender.send(marks);
        }
    });
    receiver
}

fn marks(line: &str) -> Option<Marks> {
    let mut addresses = line.split_whitespace().map(|address| {
        let digits = address.trim_start_matches("0x");
        u64::from_str_radix(digits, 16).ok()
    });
    Some(Marks { begun: addresses.next()??, ended: addresses.next()?? })
}

/// The access in a line of the trace: a letter for its kind, the address, a comma and the bytes.
fn access(line: &[u8]) -> Option<Access> {
    let writes = match line.get(..3)? {
        b" L " => false,
        b" S " | b" M " => true,
        _ => return None,
    };
    let text = std::str::from_utf8(&line[3..]).ok()?;
    let (address, bytes) = text.trim().split_once(',')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    Some(Access { address, bytes: bytes.parse().ok()?, writes })
}

impl Simulation {
    fn note(&mut self, access: Access) {
        let Some(marks) = self.marks else { return };
        let begun = access.address.wrapping_sub(marks.begun) / LINE_BYTES;
        if access.writes && access.address >= marks.begun && begun < THREADS {
            self.running = Some(begun);
            self.begun += 1;
            self.touched.clear();
            return;
        }
        if access.writes && access.address == marks.ended {
            self.end();
            return;
        }
        let Some(thread) = self.running else { return };
        let first = access.address / LINE_BYTES;
        let last = (access.address + access.bytes.max(1) - 1) / LINE_BYTES;
        (first..=last).for_each(|line| self.touch(line, thread, access.writes));
    }

    fn touch(&mut self, line: u64, thread: u64, writes: bool) {
        let own = 1 << thread;
        let holders = self.holders.entry(line).or_insert(0);
        let taken = match (writes, *holders) {
            (true, held) if held & !own != 0 => Taken::ToWrite,
            (false, held) if held != 0 && held & own == 0 => Taken::ToRead,
            _ => Taken::Not,
        };
        *holders = if writes { own } else { *holders | own };
        let known = self.touched.entry(line).or_insert(Taken::Not);
        *known = taken.max(*known);
    }

    /// Ends the operation, and counts it if threads are warm.
    fn end(&mut self) {
        if self.running.take().is_none() || self.begun <= WARM_UP {
            return;
        }
        let count = |how: Taken| self.touched.values().filter(|taken| **taken == how).count();
        self.sum.operations += 1;
        self.sum.lines += self.touched.len() as u64;
        self.sum.read += count(Taken::ToRead) as u64;
        self.sum.written += count(Taken::ToWrite) as u64;
    }
}

#[cfg(test)]
mod tests;
