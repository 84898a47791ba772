//! The jobs of SiltDB's checkout. `cargo xtask help` lists them and other useful commands.
//!
//! `tidy`, `words` and `lines` only read files: they build nothing, format nothing and change no
//! file. The others build and run the engines that silt-bench compares with.
#![forbid(unsafe_code)]

mod finding;
mod lexer;
mod items;
mod checkout;
mod markdown;
mod rules;
mod tidy;
mod words;
mod lines;
mod counts;
mod sharing;
mod peers;
mod bench_all;
mod help;

use checkout::root;
use std::process::ExitCode;

/// A job of this program.
struct Job {
    name: &'static str,
    arguments: &'static str,
    does: &'static str,
    /// Runs the job; `None` if it does not take these arguments.
    run: fn(&[&str]) -> Option<ExitCode>,
}

const JOBS: [Job; 8] = [
    Job {
        name: "help",
        arguments: "",
        does: "prints this list",
        run: |arguments| {
            arguments.is_empty().then(|| {
                print!("{}", help::menu(&jobs()));
                ExitCode::SUCCESS
            })
        },
    },
    Job {
        name: "tidy",
        arguments: "",
        does: "checks the rules that no compiler checks; CONTRIBUTING.md has them",
        run: |arguments| arguments.is_empty().then(tidy::run),
    },
    Job {
        name: "words",
        arguments: "[PAGE…]",
        does: "words and sentences of the pages, the longest sentences, and the bars",
        run: |pages| Some(words::run(root(), pages)),
    },
    Job {
        name: "lines",
        arguments: "[COMMIT]",
        does: "lines of code and assertions of the library by crate, or lines beside a commit's",
        run: |arguments| match arguments {
            [] => Some(lines::run(root(), None)),
            [commit] => Some(lines::run(root(), Some(commit))),
            _ => None,
        },
    },
    Job {
        name: "counts",
        arguments: "[--store]",
        does: "instructions of small operations under callgrind, beside the stored table",
        run: |arguments| match arguments {
            [] => Some(counts::run(root(), counts::Use::Compare)),
            ["--store"] => Some(counts::run(root(), counts::Use::Store)),
            _ => None,
        },
    },
    Job {
        name: "sharing",
        arguments: "",
        does: "cache lines that 64 threads take from each other in small operations, simulated",
        run: |arguments| arguments.is_empty().then(|| sharing::run(root())),
    },
    Job {
        name: "peers",
        arguments: "",
        does: "builds the workers of the engines that silt-bench compares with",
        run: |arguments| arguments.is_empty().then(peers::run),
    },
    Job {
        name: "bench-all",
        arguments: "[OPTION OF silt-bench run…]",
        does: "runs all rows on all engines that this machine can build",
        run: |arguments| Some(bench_all::run(arguments)),
    },
];

/// The usage and the summary of each job.
fn jobs() -> Vec<(String, &'static str)> {
    let usage = |job: &Job| format!("cargo xtask {} {}", job.name, job.arguments);
    JOBS.iter().map(|job| (usage(job).trim_end().to_owned(), job.does)).collect()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let chosen = arguments.split_first().and_then(|(name, rest)| {
        let job = JOBS.iter().find(|job| job.name == *name)?;
        (job.run)(rest)
    });
    chosen.unwrap_or_else(|| {
        eprint!("{}", help::menu(&jobs()));
        ExitCode::from(2)
    })
}
