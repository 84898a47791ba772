//! SiltDB's own jobs: `cargo xtask tidy` checks the rules of the house that no compiler checks;
//! it builds nothing, formats nothing and changes no file. `cargo xtask peers` builds the workers
//! of the engines that silt-bench compares with, `cargo bench-all` runs them all.
#![forbid(unsafe_code)]

mod finding;
mod lexer;
mod items;
mod checkout;
mod rules;
mod tidy;
mod peers;
mod bench_all;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy::run(),
        ["peers"] => peers::run(),
        ["bench-all", arguments @ ..] => bench_all::run(arguments),
        _ => {
            eprintln!("usage: cargo xtask tidy | peers | bench-all [OPTIONS OF silt-bench run]");
            ExitCode::from(2)
        }
    }
}
