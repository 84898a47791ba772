//! The figures that the project has set itself, each against a yardstick of the same run.
//!
//! `cargo bench -p siltdb --bench numbers -- [ROW ...] [--scale F] [--repeat N] [--dir D]`; without
//! a row, all of them. Progress goes to standard error, a Markdown table to standard output. A bar
//! that is missed does not fail the run; a wrong value does.

mod data;
mod run;
mod put;
mod batch;
mod read;
mod open;

use data::Result;
use run::{Contestant, Job, Plan};
use std::{path::PathBuf, process::ExitCode};

/// A row and how it is measured.
struct Row {
    name: &'static str,
    run: fn(&Plan) -> Result<()>,
}

const ROWS: [Row; 6] = [
    Row { name: "put-calls", run: put::calls },
    Row { name: "put-map-against-write", run: put::map_against_write },
    Row { name: "batch-1000-random", run: batch::random },
    Row { name: "get-random", run: read::get },
    Row { name: "scan", run: read::scan },
    Row { name: "open-log", run: open::log },
];

/// What the arguments say.
struct Arguments {
    rows: Vec<String>,
    child: Option<String>,
    count: u64,
    plan: Plan,
}

fn arguments() -> Result<Arguments> {
    let plan = Plan { scale: 1.0, repeat: 5, dir: std::env::temp_dir() };
    let mut arguments = Arguments { rows: Vec::new(), child: None, count: 0, plan };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--scale" => arguments.plan.scale = value()?.parse()?,
            "--repeat" => arguments.plan.repeat = value()?.parse::<usize>()?.max(1),
            "--dir" => arguments.plan.dir = PathBuf::from(value()?),
            "--child" => arguments.child = Some(value()?),
            "--count" => arguments.count = value()?.parse()?,
            // Cargo adds it.
            "--bench" => {}
            row if ROWS.iter().any(|known| known.name == row) => arguments.rows.push(argument),
            other => {
                let rows = ROWS.map(|row| row.name).join(", ");
                return Err(format!("no row or option {other}; rows: {rows}").into());
            }
        }
    }
    Ok(arguments)
}

fn compete(name: &str, job: &Job) -> Result<()> {
    let contestants =
        [&put::CONTESTANTS[..], &batch::CONTESTANTS, &read::CONTESTANTS, &open::CONTESTANTS];
    let find = |contestant: &&Contestant| contestant.name == name;
    let contestant = contestants.into_iter().flatten().find(find).ok_or("no such contestant")?;
    for (name, figure) in (contestant.run)(job)? {
        println!("{name}={figure}");
    }
    Ok(())
}

fn measure() -> Result<()> {
    let Arguments { rows, child, count, plan } = arguments()?;
    if let Some(name) = child {
        return compete(&name, &Job { count, dir: plan.dir });
    }
    run::print_head();
    for row in ROWS.iter().filter(|row| rows.is_empty() || rows.iter().any(|name| name == row.name))
    {
        eprintln!("{}", row.name);
        let scratch = run::scratch(&plan.dir)?;
        let plan = Plan { dir: scratch.path().to_owned(), ..plan.clone() };
        (row.run)(&plan).map_err(|error| format!("{}: {error}", row.name))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
