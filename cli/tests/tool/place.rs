//! A directory for one test, in which `silt` runs.
//!
//! It asserts only the exit code that the test gives.

use assert_cmd::Command;
use std::path::PathBuf;
use tempfile::TempDir;

/// A directory that is removed at the end. Its database is called `db`.
pub struct Place {
    directory: TempDir,
}

/// The output of a run of `silt`.
pub struct Run {
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// Stdout, each line of it parsed as JSON.
    pub fn json(&self) -> Vec<serde_json::Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        self.stdout.lines().map(parse).collect()
    }

    /// Asserts that stderr contains each of `parts`.
    pub fn says(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.stderr.contains(part), "no `{part}` in: {}", self.stderr);
        }
    }
}

impl Place {
    pub fn new() -> Self {
        Self { directory: TempDir::new().expect("a directory for the test") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).expect("the directory takes files");
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("the file is there")
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_silt"));
        command.current_dir(self.directory.path()).args(arguments).env_remove("SILT_DB");
        command
    }

    /// Runs `silt` with `input` as stdin and asserts its exit code.
    pub fn run_with(&self, arguments: &[&str], input: &[u8], exit_code: i32) -> Run {
        let output = self.command(arguments).write_stdin(input).output().expect("silt runs");
        let run = Run {
            stdout: String::from_utf8(output.stdout).expect("stdout is text"),
            stderr: String::from_utf8(output.stderr).expect("stderr is text"),
        };
        let found = output.status.code();
        assert_eq!(found, Some(exit_code), "{arguments:?}: {}{}", run.stdout, run.stderr);
        run
    }

    /// Runs `silt`, asserts its exit code and returns what it printed.
    pub fn run(&self, arguments: &[&str], exit_code: i32) -> Run {
        self.run_with(arguments, b"", exit_code)
    }

    /// Runs `silt`, asserts success, and returns stdout. Stderr may only report a new database.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments, 0);
        let mut lines = run.stderr.lines().filter(|line| !line.starts_with("created the database"));
        assert_eq!(lines.next(), None, "{arguments:?}");
        run.stdout
    }
}

/// The data set that comes with the project.
pub const AIRPORTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data/airports.csv");
