//! The number of third-party crates in a build is limited, and none compiles C. `deny.toml` judges
//! the crates themselves.

use crate::finding::Finding;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A build, and its limit of third-party crates.
#[derive(Clone, Copy)]
pub struct Limits {
    /// The package, or nothing for the default members of the workspace.
    pub package: Option<&'static str>,
    /// Largest number of distinct crates from outside the workspace.
    pub crates_max: usize,
}

/// The limited builds: the library alone, and `cargo build`.
pub const GRAPHS: [Limits; 2] =
    [Limits { package: Some("siltdb"), crates_max: 40 }, Limits { package: None, crates_max: 60 }];

/// Crates with which a build script compiles C.
const COMPILERS: [&str; 4] = ["cc", "cmake", "bindgen", "autotools"];

/// A dependency graph that cargo is resolving.
pub struct Graph {
    limits: Limits,
    child: Child,
}

/// The third-party crates in a graph, `name version` each.
pub struct Crates {
    limits: Limits,
    names: BTreeSet<String>,
}

impl Graph {
    /// Asks cargo for the graph, without tests and without the network.
    ///
    /// # Errors
    /// If cargo cannot be started.
    pub fn start(root: &Path, limits: Limits) -> Result<Self, String> {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        command.args(["tree", "--locked", "--offline", "--edges", "normal,build"]);
        command.args(["--prefix", "none", "--format", "{p}"]);
        if let Some(package) = limits.package {
            command.args(["--package", package]);
        }
        command.current_dir(root).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| format!("cargo tree: {error}"))?;
        Ok(Self { limits, child })
    }

    /// Waits for cargo's answer.
    ///
    /// # Errors
    /// If cargo fails, for example because `Cargo.lock` is out of date.
    pub fn finish(self) -> Result<Crates, String> {
        let output = self.child.wait_with_output().map_err(|e| format!("cargo tree: {e}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("cargo tree: {}", text.trim()));
        }
        Ok(Crates::parse(self.limits, &String::from_utf8_lossy(&output.stdout)))
    }
}

impl Crates {
    fn parse(limits: Limits, tree: &str) -> Self {
        let name = |line: &str| {
            let mut words = line.split_whitespace();
            let crate_name = format!("{} {}", words.next()?, words.next()?);
            // A crate of this workspace is listed with its folder.
            let ours = words.next().is_some_and(|word| word.starts_with("(/"));
            (!ours).then_some(crate_name)
        };
        Self { limits, names: tree.lines().filter_map(name).collect() }
    }
}

/// Appends findings for a graph that is too large or compiles C.
pub fn check(crates: &Crates, findings: &mut Vec<Finding>) {
    let what = crates.limits.package.unwrap_or("the default members");
    let mut report = |message| {
        findings.push(Finding {
            path: "Cargo.toml".to_owned(),
            line: 1,
            rule: "dependencies",
            message,
        });
    };
    let (count, most) = (crates.names.len(), crates.limits.crates_max);
    if count > most {
        report(format!("{what}: {count} crates of others, at most {most}"));
    }
    for name in &crates.names {
        if COMPILERS.iter().any(|compiler| name.split(' ').next() == Some(compiler)) {
            report(format!("{what}: `{name}` compiles C in a build script"));
        }
    }
}

#[cfg(test)]
mod tests;
