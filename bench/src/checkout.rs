//! The checkout that this program was built from: its commit, and its folder of peers.
//!
//! The working directory does not matter, so a run from any directory finds the same workers and
//! notes the same commit.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// A file that only a checkout has.
const MARK: &str = "bench/suites/claims.toml";
/// The folder whose commits make figures old.
const LIBRARY: &str = "crates";

/// A directory with the sources of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    root: PathBuf,
}

impl Checkout {
    /// The checkout around this program's file, else the one that it was compiled in. `None` if
    /// neither is there, as on another machine.
    #[must_use]
    pub fn of_this_program() -> Option<Self> {
        let program = env::current_exe().and_then(|program| program.canonicalize()).ok();
        Self::of(program.as_deref(), Path::new(env!("CARGO_MANIFEST_DIR")))
    }

    /// The checkout at `root`.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    fn of(program: Option<&Path>, compiled: &Path) -> Option<Self> {
        let around = program.into_iter().flat_map(Path::ancestors).skip(1);
        let mut roots = around.chain(compiled.parent());
        roots.find(|root| root.join(MARK).is_file()).map(Self::at)
    }

    /// The folder of peers. Its workers may not be built.
    #[must_use]
    pub fn peers(&self) -> PathBuf {
        self.root.join("peers")
    }

    /// The commit, with `-dirty` if the checkout has changes; empty if git does not know it.
    #[must_use]
    pub fn commit(&self) -> String {
        self.git(&["describe", "--always", "--dirty", "--exclude=*"]).unwrap_or_default()
    }

    /// The number of commits of the library after `commit`. `None` if git does not know that
    /// commit, as in a shallow clone.
    #[must_use]
    pub fn commits_since(&self, commit: &str) -> Option<u64> {
        let measured = commit.trim_end_matches("-dirty");
        if measured.is_empty() {
            return None;
        }
        let range = format!("{measured}..HEAD");
        self.git(&["rev-list", "--count", &range, "--", LIBRARY])?.parse().ok()
    }

    /// Whether the current commit has the tag of a release.
    #[must_use]
    pub fn is_release(&self) -> bool {
        self.git(&["tag", "--points-at", "HEAD", "v*"]).is_some_and(|tags| !tags.is_empty())
    }

    /// The output of a command of git; `None` if it fails.
    fn git(&self, arguments: &[&str]) -> Option<String> {
        let told = Command::new("git").current_dir(&self.root).args(arguments).output().ok()?;
        let text = || String::from_utf8_lossy(&told.stdout).trim().to_owned();
        told.status.success().then(text)
    }
}

#[cfg(test)]
mod tests;
