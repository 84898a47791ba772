//! The files of the repository, read once for all rules. It does not judge them; a rule sees only
//! these files.

use crate::finding::Finding;
use crate::items::{Module, blanked, modules, test_regions};
use crate::lexer;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Whether code is released or only tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Released code.
    Production,
    /// A test or a benchmark.
    Test,
}

/// One text file. The views are empty for files that are not Rust.
pub struct Source {
    /// Path from the root of the repository, with `/`.
    pub path: String,
    /// The whole file.
    pub text: String,
    /// Code without comments and literals, see [`lexer::Views`].
    pub code: String,
    /// Comments only.
    pub comments: String,
    /// `code` without parts that exist in tests only.
    pub production: String,
    /// The role of the whole file.
    pub role: Role,
}

impl Source {
    fn new(path: &str, text: String) -> Self {
        let views = if path.ends_with(".rs") {
            lexer::split(&text)
        } else {
            lexer::Views { code: String::new(), comments: String::new() }
        };
        let segments: Vec<_> = path.split('/').collect();
        let (name, folders) = segments.split_last().expect("split yields at least one part");
        let test = *name == "tests.rs" || folders.iter().any(|f| matches!(*f, "tests" | "benches"));
        Self {
            path: path.to_owned(),
            production: blanked(&views.code, &test_regions(&views.code, &text)),
            text,
            code: views.code,
            comments: views.comments,
            role: if test { Role::Test } else { Role::Production },
        }
    }

    /// Whether this is a Rust file.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The line, counted from 1, that holds `offset`.
    pub fn line(&self, offset: usize) -> usize {
        1 + self.text[..offset].matches('\n').count()
    }

    /// A finding at `offset`.
    pub fn finding(&self, offset: usize, rule: &'static str, message: String) -> Finding {
        self.finding_at_line(self.line(offset), rule, message)
    }

    /// A finding at `line`.
    pub fn finding_at_line(&self, line: usize, rule: &'static str, message: String) -> Finding {
        Finding { path: self.path.clone(), line, rule, message }
    }

    /// The folder in which the files of this file's submodules lie.
    pub fn module_folder(&self) -> String {
        let (folder, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        match name {
            "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
            _ => self.path.trim_end_matches(".rs").to_owned(),
        }
    }
}

/// The root of the checkout that cargo runs this program in; without cargo, of the one that it was
/// built in. A copied target folder has the program of another checkout.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let folder = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let mut root = folder.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
        assert!(root.pop(), "xtask is a folder of the checkout");
        root
    })
}

/// All text files that git knows or would add.
pub struct Checkout {
    /// The text files, ordered by path.
    pub sources: Vec<Source>,
    /// The sizes in bytes of all files by path, binary ones included.
    pub files: BTreeMap<String, usize>,
}

impl Checkout {
    /// Reads the repository at `root`.
    ///
    /// # Errors
    /// If git cannot list the files or one of them cannot be read.
    pub fn read(root: &Path) -> Result<Self, String> {
        let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = git(root, &arguments)?;
        let mut files = Vec::new();
        for path in String::from_utf8_lossy(&listed).split('\0') {
            let file = root.join(path);
            // A deleted file stays listed until the deletion is committed.
            if path.is_empty() || !file.is_file() {
                continue;
            }
            let bytes = std::fs::read(&file).map_err(|e| format!("{path}: {e}"))?;
            files.push((path.to_owned(), bytes));
        }
        Ok(Self::new(files))
    }

    /// Reads the crates of the library at `commit`.
    ///
    /// # Errors
    /// If git does not know the commit.
    pub fn at(root: &Path, commit: &str) -> Result<Self, String> {
        let listed = git(root, &["ls-tree", "-r", "-z", "--name-only", commit, "crates/"])?;
        let mut files = Vec::new();
        for path in String::from_utf8_lossy(&listed).split('\0').filter(|path| !path.is_empty()) {
            let bytes = git(root, &["cat-file", "blob", &format!("{commit}:{path}")])?;
            files.push((path.to_owned(), bytes));
        }
        Ok(Self::new(files))
    }

    /// A checkout of the given files.
    pub fn new(mut files: Vec<(String, Vec<u8>)>) -> Self {
        files.sort();
        files.dedup();
        let lengths = files.iter().map(|(path, bytes)| (path.clone(), bytes.len())).collect();
        let text = |(path, bytes): (String, Vec<u8>)| {
            Some(Source::new(&path, String::from_utf8(bytes).ok()?))
        };
        let sources = files.into_iter().filter_map(text).collect();
        let mut checkout = Self { sources, files: lengths };
        checkout.mark_test_modules();
        checkout
    }

    /// A checkout of samples, for the tests of the rules.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let owned = files.iter().map(|(p, t)| ((*p).to_owned(), t.as_bytes().to_vec()));
        Self::new(owned.collect())
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|source| source.is_rust())
    }

    /// The file at `path`.
    pub fn source(&self, path: &str) -> Option<&Source> {
        let at = self.sources.binary_search_by(|source| source.path.as_str().cmp(path)).ok()?;
        Some(&self.sources[at])
    }

    /// The file of a module declared as `mod name;`. The files of its parent lie in `folder`.
    pub fn module_file(&self, folder: &str, name: &str) -> Option<&Source> {
        let name = name.trim_start_matches("r#");
        self.source(&format!("{folder}/{name}.rs"))
            .or_else(|| self.source(&format!("{folder}/{name}/mod.rs")))
    }

    /// A file whose `mod` line exists in tests only is a test, and so are its submodules.
    fn mark_test_modules(&mut self) {
        let mut files = BTreeSet::new();
        let mut folders = Vec::new();
        for source in self.rust() {
            let shipped = modules(&source.production);
            let all = modules(&source.code).into_iter().filter(|module| module.body.is_none());
            let only_test = |m: &Module| shipped.iter().all(|shipped| shipped.name != m.name);
            for module in all.filter(only_test) {
                let folder = source.module_folder();
                if let Some(file) = self.module_file(&folder, &module.name) {
                    files.insert(file.path.clone());
                    folders.push(format!("{folder}/{}/", module.name));
                }
            }
        }
        for source in &mut self.sources {
            let below = folders.iter().any(|folder| source.path.starts_with(folder));
            if below || files.contains(&source.path) {
                source.role = Role::Test;
            }
            if source.role == Role::Test {
                source.production = lexer::blank(&source.code);
            }
        }
    }
}

/// The output of git.
fn git(root: &Path, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let mut command = Command::new("git");
    let output = command.args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests;
