//! SiltDB's own jobs: `cargo xtask tidy` checks the rules of the house that no compiler checks.
//! It builds nothing, formats nothing and changes no file.
#![forbid(unsafe_code)]

mod finding;
mod lexer;
mod items;
mod checkout;
mod rules;
mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy::run(),
        _ => {
            eprintln!("usage: cargo xtask tidy");
            ExitCode::from(2)
        }
    }
}
