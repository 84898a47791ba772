//! The tree of modules of one crate, without tests.

use crate::checkout::{Checkout, Source};
use crate::finding::Finding;
use crate::items::{blanked, imports, modules};
use std::ops::Range;

/// One module: a file or an inline block.
pub struct Module<'a> {
    /// The names from the root of the crate to here; empty for the root.
    pub path: Vec<String>,
    /// The file that contains it.
    pub source: &'a Source,
    /// Its own code, without inline submodules and tests. Offsets are the file's.
    pub code: String,
    /// Its submodules, in the order of their declarations.
    pub children: Vec<String>,
    /// The names it re-exports.
    pub reexports: Vec<String>,
}

impl Module<'_> {
    /// The position of `name` among the submodules.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.children.iter().position(|child| child == name)
    }
}

/// All modules of one crate, each after its parent.
pub struct Map<'a> {
    /// The modules; the first is the root.
    pub modules: Vec<Module<'a>>,
}

impl<'a> Map<'a> {
    /// Walks the modules from the file of the root. A `mod` line without a file is a finding,
    /// because the rule cannot judge a missing file.
    pub fn read(checkout: &'a Checkout, root: &'a Source, findings: &mut Vec<Finding>) -> Self {
        let mut map = Self { modules: Vec::new() };
        let whole = 0..root.production.len();
        map.add(checkout, root, &whole, (Vec::new(), root.module_folder()), findings);
        map
    }

    fn add(
        &mut self,
        checkout: &'a Checkout,
        source: &'a Source,
        region: &Range<usize>,
        (path, folder): (Vec<String>, String),
        findings: &mut Vec<Finding>,
    ) {
        let code =
            blanked(&source.production, &[0..region.start, region.end..source.production.len()]);
        let declared = modules(&code);
        let inline: Vec<_> = declared.iter().filter_map(|module| module.body.clone()).collect();
        let own = blanked(&code, &inline);
        let reexports = imports(&own).into_iter().filter_map(|import| import.reexport).collect();
        let mut children: Vec<String> = Vec::new();
        for module in &declared {
            // Two declarations of one name are the two sides of a `cfg`.
            if !children.contains(&module.name) {
                children.push(module.name.clone());
            }
        }
        self.modules.push(Module { path: path.clone(), source, code: own, children, reexports });
        for module in declared {
            let mut path = path.clone();
            path.push(module.name.clone());
            let below = (path, format!("{folder}/{}", module.name));
            if let Some(body) = &module.body {
                self.add(checkout, source, body, below, findings);
            } else if let Some(file) = checkout.module_file(&folder, &module.name) {
                self.add(checkout, file, &(0..file.production.len()), below, findings);
            } else {
                let message = format!("no file for `mod {}` where its name says", module.name);
                findings.push(source.finding(module.start, "modules", message));
            }
        }
    }

    /// The root of the crate.
    pub fn root(&self) -> &Module<'a> {
        &self.modules[0]
    }

    /// The module at exactly `path`.
    pub fn module(&self, path: &[String]) -> Option<&Module<'a>> {
        self.modules.iter().find(|module| module.path == path)
    }

    /// The deepest module on the way along `path`; the rest of the path is an item in it.
    pub fn nearest(&self, path: &[String]) -> &Module<'a> {
        let lengths = (0..=path.len()).rev();
        lengths.filter_map(|length| self.module(&path[..length])).next().unwrap_or(self.root())
    }
}
