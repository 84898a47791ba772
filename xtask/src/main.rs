//! SiltDB's own jobs: `cargo xtask tidy` checks the rules of the house that no compiler checks;
//! it builds nothing, formats nothing and changes no file. `cargo xtask words` and `cargo xtask
//! lines` measure the documents and the library. `cargo xtask peers` builds the workers
//! of the engines that silt-bench compares with, `cargo bench-all` runs them all.
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
mod peers;
mod bench_all;

use checkout::root;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy::run(),
        ["words", pages @ ..] => words::run(root(), pages),
        ["lines"] => lines::run(root(), None),
        ["lines", commit] => lines::run(root(), Some(commit)),
        ["peers"] => peers::run(),
        ["bench-all", arguments @ ..] => bench_all::run(arguments),
        _ => {
            eprintln!(
                "usage: cargo xtask tidy | words [PAGE…] | lines [COMMIT] | peers | \
                 bench-all [OPTIONS OF silt-bench run]"
            );
            ExitCode::from(2)
        }
    }
}
