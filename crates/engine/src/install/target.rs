//! What an edit is applied to: the families, their files, and the code that options name.
//!
//! It decodes options and makes empty trees. It changes no family.

use crate::catalog::{family_map::Families, lazy_family::StoredFamily};
use siltdb_base::{error::Result, id::FamilyId};
use siltdb_tree::{
    files::{open_files::OpenFiles, version::Version},
    merge_operator::MergeOperator,
    options::TreeOptions,
    tree::Tree,
};
use std::sync::Arc;

/// What an edit is applied to, and what applying it needs.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The families.
    pub families: &'a Families,
    /// The table files.
    pub files: &'a Arc<OpenFiles>,
    /// The merge operators that families may name.
    pub operators: &'a [Arc<dyn MergeOperator>],
    /// The substitute for an operator that is not given, if substitutes are allowed.
    pub absent: fn(&str) -> Option<Arc<dyn MergeOperator>>,
}

impl Target<'_> {
    /// The options that `bytes` encode.
    ///
    /// # Errors
    /// `Corruption`; `InvalidArgument`, if they name an operator that is not given.
    pub(super) fn decode_options(&self, bytes: &[u8]) -> Result<TreeOptions> {
        // The last match: an operator that came with a creation precedes those given at open.
        let given =
            |name: &str| self.operators.iter().rev().find(|given| given.name() == name).cloned();
        TreeOptions::decode(bytes, &|name: &str| given(name).or_else(|| (self.absent)(name)))
    }

    /// The same for a family that gets them. Families with the same options share them.
    ///
    /// # Errors
    /// As [`Target::decode_options`].
    pub(super) fn share_options(&self, bytes: &[u8]) -> Result<Arc<TreeOptions>> {
        let options = self.families.options().share(bytes, || self.decode_options(bytes))?;
        self.families.usage().note_options(&options);
        Ok(options)
    }

    /// A family with this name, these options and these tables, to be made when it is used.
    pub(super) fn stored(
        &self,
        name: Arc<str>,
        options: Arc<TreeOptions>,
        version: Arc<Version>,
    ) -> StoredFamily {
        let (files, holders) = (Arc::clone(self.files), Arc::clone(self.families.holders()));
        StoredFamily { name, options, version, files, holders }
    }

    /// The empty tree of a family with these options.
    ///
    /// # Errors
    /// As [`Target::decode_options`].
    pub(crate) fn new_tree(&self, id: FamilyId, options: &[u8]) -> Result<Tree> {
        let options = self.share_options(options)?;
        let holders = Arc::clone(self.families.holders());
        Ok(Tree::new(id, options, Arc::clone(self.files)).with_holders(holders))
    }
}
