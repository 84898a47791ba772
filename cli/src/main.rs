//! `silt`: fill, query, check and look into a SiltDB database.
//!
//! It reports how a verb ended; the rest is in the modules, each using only those above it.
#![forbid(unsafe_code)]

mod failure;
mod text;
mod json;
mod formats;
mod output;
mod progress;
mod source;
mod bounds;
mod session;
mod argument;
mod verbs;
mod command_line;

use clap::Parser;
use command_line::CommandLine;
use std::process::ExitCode;

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    let style = command_line.style();
    match command_line.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            output::report(&failure, style);
            ExitCode::from(failure.exit_code())
        }
    }
}
