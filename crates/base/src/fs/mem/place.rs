//! Where a path starts, and the names on its way.
//!
//! What the names lead to is the state's to say.

use std::{
    ffi::{OsStr, OsString},
    path::{Component, Path},
};

/// Names a file, a directory or a link for its whole life.
pub(super) type NodeId = u64;

/// The directory that absolute paths start at.
pub(super) const ROOT: NodeId = 0;

/// Where relative paths start.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start<'p> {
    /// At the working directory.
    Working,
    /// At a directory that is held open.
    Held(NodeId),
    /// At what has this name now: the fault that a held directory keeps out.
    Named(&'p Path),
}

/// A path and where it starts, unless it is absolute.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemPlace<'p> {
    pub(super) from: Start<'p>,
    pub(super) path: &'p Path,
}

/// A name in a directory, which may be that of a link.
#[derive(Clone, Debug)]
pub(super) struct NamePlace {
    /// The directory.
    pub(super) directory: NodeId,
    /// The name there.
    pub(super) name: OsString,
}

/// The names on the way to `path`; `..` goes back one name.
pub(super) fn names(path: &Path) -> Vec<&OsStr> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => {
                names.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    names
}
