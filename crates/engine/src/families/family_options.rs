//! Changes the options of a family while it is in use.
//!
//! Later writes follow the new options; existing files do not change.

use crate::{
    catalog::family::FamilyData,
    database::installer::Installer,
    install::{install_with, options_change},
};
use siltdb_base::{
    error::{Error, Result},
    sync::lock,
};
use siltdb_tree::options::{BYTEWISE, TreeOptions};

/// The error for a key order other than that of the family.
#[must_use]
pub fn other_key_order(now: &str, given: &str) -> Error {
    Error::invalid("a family keeps its key order")
        .with_mismatch(now, given)
        .with_hint("its keys are encoded for the order that it was created with")
}

/// Sets the options of a family. Durable on return. Without a merge operator or a key order in
/// `options` the family keeps its own. Without a compaction filter it has none from now on.
///
/// # Errors
/// `InvalidArgument`, if an option is out of its range, the family has another merge operator or
/// key order, or the options name a compaction filter that was not given; `Unsupported`, for a
/// codec that this build cannot write; `NotFound`, if the family
/// was dropped; as [`install`](crate::install::install).
pub fn change_options(
    installer: &Installer<'_>,
    family: &FamilyData,
    options: TreeOptions,
) -> Result<()> {
    installer.health.check()?;
    let _changing = lock(&installer.catalog.changing_io);
    family.check()?;
    installer.catalog.check_operator(&options)?;
    installer.catalog.filters.check_given(options.compaction_filter.as_ref())?;
    let now = family.tree.options();
    let operator = match (&now.merge_operator, options.merge_operator) {
        (Some(now), Some(given)) if now.name() != given.name() => {
            return Err(Error::invalid("a family keeps its merge operator")
                .with_mismatch(now.name(), given.name())
                .with_hint("another operator cannot fold its operands"));
        }
        (Some(now), _) => Some(now.clone()),
        (None, given) => given,
    };
    let key_order = match (&now.key_order, options.key_order) {
        (now, Some(given)) if now.as_deref() != Some(&*given) => {
            return Err(other_key_order(now.as_deref().unwrap_or(BYTEWISE), &given));
        }
        (now, _) => now.clone(),
    };
    let options = TreeOptions { merge_operator: operator.clone(), key_order, ..options };
    options.check()?;
    options.check_writable()?;
    let manifest = lock(&installer.catalog.manifest_io);
    let changes = vec![options_change(family.id, &options)];
    let filter = |options: &TreeOptions| -> Option<String> {
        options.compaction_filter.as_ref().map(|filter| filter.name().to_owned())
    };
    let is_filtered_otherwise = filter(&now) != filter(&options);
    install_with(installer, manifest, changes, None, operator.as_slice())?;
    if is_filtered_otherwise {
        // Some may have been folded onto values that a filter has dropped.
        family.tree.folds().clear();
    }
    // A level may exceed its new size limit.
    installer.background.work.raise();
    Ok(())
}
