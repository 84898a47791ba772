//! `cargo xtask tidy`: runs every rule over the checkout and prints the findings.

use crate::checkout::{Checkout, root};
use crate::finding::Finding;
use crate::items::functions;
use crate::rules::dependencies::{self, Graph};
use crate::rules::{
    assertions, calls, documents, files, floors, glossary, headers, modules, names, packages,
    pages, paths, rooms, signatures, sizes, tuples, types, unit_tests, unsafety, unused,
};
use std::process::ExitCode;

/// Every rule that needs only the files.
const RULES: [fn(&Checkout, &mut Vec<Finding>); 20] = [
    files::check,
    sizes::check,
    headers::check,
    unit_tests::check,
    calls::check,
    unsafety::check,
    names::check,
    paths::check,
    signatures::check,
    tuples::check,
    assertions::check,
    modules::check,
    rooms::check,
    floors::check,
    packages::check,
    documents::check,
    unused::check,
    types::check,
    pages::check,
    glossary::check,
];

/// Prints findings and one line of summary. Exit code 1 if a rule is broken, 2 if tidy itself
/// could not run.
pub fn run() -> ExitCode {
    match judge() {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            eprintln!("tidy: {error}");
            ExitCode::from(2)
        }
    }
}

fn judge() -> Result<Vec<Finding>, String> {
    let root = root();
    // Cargo resolves while the files are read.
    let graphs = dependencies::GRAPHS.map(|limits| Graph::start(root, limits));
    let checkout = Checkout::read(root)?;
    let mut findings = Vec::new();
    for rule in RULES {
        rule(&checkout, &mut findings);
    }
    for graph in graphs {
        dependencies::check(&graph?.finish()?, &mut findings);
    }
    findings.sort();
    findings.dedup();
    findings.iter().for_each(|finding| println!("{finding}"));
    let files = checkout.sources.len();
    let count: usize = checkout.rust().map(|source| functions(&source.code).len()).sum();
    match findings.len() {
        0 => println!("tidy: {files} files, {count} functions, ok"),
        broken => println!("tidy: {files} files, {count} functions, {broken} findings"),
    }
    Ok(findings)
}
