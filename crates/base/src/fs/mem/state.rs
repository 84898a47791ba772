//! Directories, the names in them, and the files they name: everything a memory file system holds.
//!
//! Errors are the system's here; the callers add action and path.
//!
//! # Invariants
//! 1. `current` of a directory is its `durable` with its part of `pending` applied in order.
//! 2. `links` of a file counts its `current` names. A file with neither link nor handle takes no
//!    space; it is kept as long as a durable or pending name could bring it back.
//! 3. `used` is the sum of the lengths of all files that take space.

mod crash;
mod remove_dir;
mod strays;

use super::{
    content::Content,
    locks::Locks,
    place::{MemPlace, NamePlace, NodeId, ROOT, Start, names},
    seed::{Seed, cut},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

type Names = BTreeMap<OsString, NodeId>;

/// A file, a directory or a symbolic link.
#[derive(Clone, Debug)]
pub(super) enum FsNode {
    File(FileNode),
    Directory(Directory),
    /// It leads here, from the directory that it lies in.
    Link(PathBuf),
}

/// Links that are followed on the way to one file.
const LINKS_MAX: usize = 40;

/// A file, whatever its names.
#[derive(Clone, Debug, Default)]
pub(super) struct FileNode {
    pub(super) content: Content,
    pub(super) links: u32,
    handles: u32,
}

impl FileNode {
    fn takes_space(&self) -> bool {
        self.links > 0 || self.handles > 0
    }
}

/// The names of a directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    pub(super) current: Names,
    durable: Names,
}

/// A change of names that is not durable yet; it happens as a whole.
#[derive(Clone, Debug)]
struct Operation {
    changes: Vec<Change>,
    /// The directory whose sync makes all of it durable: where a rename takes a name away. A file
    /// system logs a rename whole, so a file never vanishes between its two names.
    whole_with: NodeId,
}

#[derive(Clone, Debug)]
struct Change {
    directory: NodeId,
    name: OsString,
    node: Option<NodeId>,
}

/// A fill or write that was begun and has not returned.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub(super) node: NodeId,
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

/// Everything a memory file system holds.
#[derive(Clone, Debug)]
pub(super) struct State {
    nodes: BTreeMap<NodeId, FsNode>,
    next: NodeId,
    pending: Vec<Operation>,
    pub(super) locks: Locks,
    working: NodeId,
    /// Names that were changed or opened outside the locked directories, while there were any.
    pub(super) strays: Vec<PathBuf>,
    /// By the number of the call.
    pub(super) in_flight: BTreeMap<u64, InFlight>,
    used: u64,
    pub(super) limit: Option<u64>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            nodes: BTreeMap::from([(ROOT, FsNode::Directory(Directory::default()))]),
            next: ROOT + 1,
            pending: Vec::new(),
            locks: Locks::default(),
            working: ROOT,
            strays: Vec::new(),
            in_flight: BTreeMap::new(),
            used: 0,
            limit: None,
        }
    }
}

impl State {
    /// Bytes taken by all files.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    fn start(&self, place: MemPlace<'_>) -> NodeId {
        match place.from {
            _ if place.path.is_absolute() => ROOT,
            Start::Working => self.working,
            Start::Held(node) => node,
            Start::Named(path) => {
                let place = MemPlace { from: Start::Working, path };
                self.find(place).unwrap_or(ROOT)
            }
        }
    }

    /// Follows names and links; `links` is the count of links followed before.
    fn walk(&self, start: NodeId, way: &[&OsStr], links: usize) -> io::Result<NodeId> {
        let mut node = start;
        for &name in way {
            let next = *self.directory(node)?.current.get(name).ok_or(io::ErrorKind::NotFound)?;
            node = match self.node(next) {
                FsNode::Link(_) if links == LINKS_MAX => return Err(io::Error::other("a circle")),
                FsNode::Link(target) => {
                    let place = MemPlace { from: Start::Held(node), path: target };
                    self.walk(self.start(place), &names(target), links + 1)?
                }
                FsNode::File(_) | FsNode::Directory(_) => next,
            };
        }
        Ok(node)
    }

    /// What a path names, links followed.
    pub(super) fn find(&self, place: MemPlace<'_>) -> io::Result<NodeId> {
        self.walk(self.start(place), &names(place.path), 0)
    }

    /// The file that a path names.
    pub(super) fn find_file(&self, place: MemPlace<'_>) -> io::Result<NodeId> {
        let node = self.find(place)?;
        match self.node(node) {
            FsNode::File(_) => Ok(node),
            FsNode::Directory(_) | FsNode::Link(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    /// The directory that a path lies in, and its name there, which may be that of a link.
    pub(super) fn parent(&self, place: MemPlace<'_>) -> io::Result<NamePlace> {
        let names = names(place.path);
        let (name, parents) = names.split_last().ok_or(io::ErrorKind::IsADirectory)?;
        let parent = self.walk(self.start(place), parents, 0)?;
        self.directory(parent)?;
        Ok(NamePlace { directory: parent, name: (*name).to_owned() })
    }

    /// What a name itself is, without following it.
    fn named(&self, place: &NamePlace) -> io::Result<NodeId> {
        let names = &self.directory(place.directory)?.current;
        names.get(&place.name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The directory that a path lies in.
    pub(super) fn directory_of(&self, place: MemPlace<'_>) -> io::Result<NodeId> {
        Ok(self.parent(place)?.directory)
    }

    /// Whether there is something of this name, if only a link that leads nowhere.
    pub(super) fn is_named(&self, place: MemPlace<'_>) -> bool {
        self.parent(place).and_then(|named| self.named(&named)).is_ok()
    }

    /// Makes a directory the working one.
    pub(super) fn work_in(&mut self, place: MemPlace<'_>) -> io::Result<()> {
        let node = self.find(place)?;
        self.directory(node)?;
        self.working = node;
        Ok(())
    }

    pub(super) fn node(&self, node: NodeId) -> &FsNode {
        self.nodes.get(&node).expect("a node is kept while a name or handle refers to it")
    }

    fn node_mut(&mut self, node: NodeId) -> &mut FsNode {
        self.nodes.get_mut(&node).expect("a node is kept while a name or handle refers to it")
    }

    /// The directory behind `node`.
    pub(super) fn directory(&self, node: NodeId) -> io::Result<&Directory> {
        match self.node(node) {
            FsNode::Directory(directory) => Ok(directory),
            FsNode::File(_) | FsNode::Link(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn directory_mut(&mut self, node: NodeId) -> &mut Directory {
        match self.node_mut(node) {
            FsNode::Directory(directory) => directory,
            FsNode::File(_) | FsNode::Link(_) => {
                unreachable!("names are changed only in what was found a directory")
            }
        }
    }

    /// The file behind `node`, which was found to be one.
    pub(super) fn file(&self, node: NodeId) -> &FileNode {
        match self.node(node) {
            FsNode::File(file) => file,
            FsNode::Directory(_) | FsNode::Link(_) => {
                unreachable!("handles and file names refer to files")
            }
        }
    }

    fn file_mut(&mut self, node: NodeId) -> &mut FileNode {
        match self.node_mut(node) {
            FsNode::File(file) => file,
            FsNode::Directory(_) | FsNode::Link(_) => {
                unreachable!("handles and file names refer to files")
            }
        }
    }

    /// The bytes of a file, for changes that keep its length or go past the limit.
    pub(super) fn content_mut(&mut self, node: NodeId) -> &mut Content {
        &mut self.file_mut(node).content
    }

    /// Changes a file's bytes and keeps the account.
    pub(super) fn damage(
        &mut self,
        node: NodeId,
        change: impl FnOnce(&mut super::pages::MemPages),
    ) {
        let file = self.file_mut(node);
        let before = file.content.len();
        file.content.damage(change);
        let (after, counts) = (file.content.len(), file.takes_space());
        if counts {
            self.used = self.used - before + after;
        }
    }

    /// The end up to which a file may grow, at most `end`, within the limit.
    fn room(&self, node: NodeId, end: u64) -> u64 {
        let len = self.file(node).content.len();
        match self.limit {
            Some(limit) => end.min(len + limit.saturating_sub(self.used)).max(end.min(len)),
            None => end,
        }
    }

    /// Writes what there is room for.
    pub(super) fn write(&mut self, node: NodeId, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset + bytes.len() as u64;
        let room = self.room(node, end);
        let fitting = room.saturating_sub(offset) as usize;
        let content = self.content_mut(node);
        let before = content.len();
        content.write(offset, &bytes[..fitting]);
        self.used += self.file(node).content.len() - before;
        if room < end { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Grows a file with zeros to `len`, or not at all.
    pub(super) fn grow(&mut self, node: NodeId, len: u64) -> io::Result<()> {
        if self.room(node, len) < len {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let content = self.content_mut(node);
        let before = content.len();
        content.grow(len);
        self.used += self.file(node).content.len() - before;
        Ok(())
    }

    /// Cuts a file to `len`, if it is longer.
    pub(super) fn shorten(&mut self, node: NodeId, len: u64) {
        let content = self.content_mut(node);
        let before = content.len();
        content.shorten(len);
        self.used -= before - self.file(node).content.len();
    }

    /// Opens a handle on a file.
    pub(super) fn hold(&mut self, node: NodeId) {
        self.count(node, |file| file.handles += 1);
    }

    /// Closes a handle on a file.
    pub(super) fn let_go(&mut self, node: NodeId) {
        self.count(node, |file| file.handles -= 1);
        self.sweep();
    }

    /// Changes links or handles of a file and keeps the account, by (3).
    fn count(&mut self, node: NodeId, change: impl FnOnce(&mut FileNode)) {
        let file = self.file_mut(node);
        let (len, before) = (file.content.len(), file.takes_space());
        change(file);
        match (before, file.takes_space()) {
            (false, true) => self.used += len,
            (true, false) => self.used -= len,
            _ => {}
        }
    }

    fn link_count(&mut self, node: NodeId, change: impl FnOnce(&mut u32)) {
        if matches!(self.node(node), FsNode::File(_)) {
            self.count(node, |file| change(&mut file.links));
        }
    }

    /// Carries out a change of names, which is pending from now on.
    fn apply(&mut self, changes: Vec<Change>, whole_with: NodeId) {
        for change in &changes {
            let names = &mut self.directory_mut(change.directory).current;
            let before = match change.node {
                Some(node) => names.insert(change.name.clone(), node),
                None => names.remove(&change.name),
            };
            if let Some(node) = change.node {
                self.link_count(node, |links| *links += 1);
            }
            if let Some(node) = before {
                self.link_count(node, |links| *links -= 1);
            }
        }
        self.pending.push(Operation { changes, whole_with });
    }

    fn change_one(&mut self, place: NamePlace, node: Option<NodeId>) {
        let NamePlace { directory, name } = place;
        self.apply(vec![Change { directory, name, node }], directory);
    }

    fn add_node(&mut self, node: FsNode) -> NodeId {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        id
    }

    /// Creates an empty file.
    pub(super) fn create(&mut self, place: MemPlace<'_>) -> io::Result<NodeId> {
        self.add(place, FsNode::File(FileNode::default()))
    }

    /// Creates a directory.
    pub(super) fn create_dir(&mut self, place: MemPlace<'_>) -> io::Result<()> {
        self.add(place, FsNode::Directory(Directory::default()))?;
        Ok(())
    }

    /// Creates a symbolic link, or switches one.
    pub(super) fn symlink(&mut self, target: &Path, place: MemPlace<'_>) -> io::Result<()> {
        let named = self.parent(place)?;
        if self.named(&named).is_ok_and(|node| matches!(self.node(node), FsNode::Link(_))) {
            let node = self.add_node(FsNode::Link(target.to_owned()));
            self.change_one(named, Some(node));
            return Ok(());
        }
        self.add(place, FsNode::Link(target.to_owned()))?;
        Ok(())
    }

    fn add(&mut self, place: MemPlace<'_>, node: FsNode) -> io::Result<NodeId> {
        let named = self.parent(place)?;
        if self.named(&named).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let node = self.add_node(node);
        self.change_one(named, Some(node));
        Ok(node)
    }

    /// Gives a file a second name.
    pub(super) fn link(&mut self, from: MemPlace<'_>, to: MemPlace<'_>) -> io::Result<()> {
        let node = self.find(from)?;
        let named = self.parent(to)?;
        if self.named(&named).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if matches!(self.node(node), FsNode::Directory(_)) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.change_one(named, Some(node));
        Ok(())
    }

    /// Removes the name of a file or link.
    pub(super) fn remove(&mut self, place: MemPlace<'_>) -> io::Result<()> {
        let named = self.parent(place)?;
        let node = self.named(&named)?;
        if matches!(self.node(node), FsNode::Directory(_)) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        self.change_one(named, None);
        Ok(())
    }

    /// Renames a file or directory, replacing a file or an empty directory.
    pub(super) fn rename(&mut self, from: MemPlace<'_>, to: MemPlace<'_>) -> io::Result<()> {
        let (source, target) = (self.parent(from)?, self.parent(to)?);
        let node = self.named(&source)?;
        let is_directory = matches!(self.node(node), FsNode::Directory(_));
        if is_directory && self.lies_within(target.directory, node) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if let Some(&replaced) = self.directory(target.directory)?.current.get(&target.name) {
            // Two names of one file: POSIX asks for nothing to happen.
            if replaced == node {
                return Ok(());
            }
            match (self.node(replaced), is_directory) {
                (FsNode::Directory(_), false) => return Err(io::ErrorKind::IsADirectory.into()),
                (FsNode::File(_) | FsNode::Link(_), true) => {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
                (FsNode::Directory(directory), true) if !directory.current.is_empty() => {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
                _ => {}
            }
        }
        let whole_with = source.directory;
        let add = Change { directory: target.directory, name: target.name, node: Some(node) };
        let take = Change { directory: source.directory, name: source.name, node: None };
        self.apply(vec![add, take], whole_with);
        Ok(())
    }

    /// Whether one directory is another or lies in it, however deep.
    fn lies_within(&self, directory: NodeId, other: NodeId) -> bool {
        directory == other
            || self.directory(other).is_ok_and(|names| {
                names.current.values().any(|&below| self.lies_within(directory, below))
            })
    }

    /// Makes the names of a directory durable.
    pub(super) fn sync_dir(&mut self, directory: NodeId) {
        let mut left = Vec::new();
        for mut operation in std::mem::take(&mut self.pending) {
            let whole = operation.whole_with == directory;
            let (done, rest): (Vec<_>, Vec<_>) = (operation.changes.drain(..))
                .partition(|change| whole || change.directory == directory);
            for change in done {
                self.settle(&change);
                // Older changes of that name can no longer surface.
                for older in &mut left {
                    let Operation { changes, .. } = older;
                    changes.retain(|c| (c.directory, &c.name) != (change.directory, &change.name));
                }
            }
            left.push(Operation { changes: rest, ..operation });
        }
        left.retain(|operation| !operation.changes.is_empty());
        self.pending = left;
        self.sweep();
    }

    fn settle(&mut self, change: &Change) {
        let names = &mut self.directory_mut(change.directory).durable;
        match change.node {
            Some(node) => names.insert(change.name.clone(), node),
            None => names.remove(&change.name),
        };
    }

    /// Forgets files that no name, durable name, pending change or handle refers to.
    fn sweep(&mut self) {
        let orphaned = |node: &FsNode| match node {
            FsNode::File(file) => !file.takes_space(),
            FsNode::Directory(_) | FsNode::Link(_) => false,
        };
        if !self.nodes.values().any(orphaned) {
            return;
        }
        let mut named = BTreeSet::new();
        for node in self.nodes.values() {
            if let FsNode::Directory(directory) = node {
                named.extend(directory.durable.values());
            }
        }
        let changes = self.pending.iter().flat_map(|operation| &operation.changes);
        named.extend(changes.filter_map(|change| change.node));
        self.nodes.retain(|id, node| !orphaned(node) || named.contains(id));
    }

    /// Makes the file at `path`, its bytes and its name durable, with these bytes.
    pub(super) fn replace(&mut self, place: MemPlace<'_>, bytes: &[u8]) -> io::Result<()> {
        let node = match self.find_file(place) {
            Ok(node) => node,
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(place)?,
            Err(error) => return Err(error),
        };
        let directory = self.parent(place)?.directory;
        self.damage(node, |pages| {
            pages.set_len(0);
            pages.write(0, bytes);
        });
        self.sync_dir(directory);
        Ok(())
    }
}
