//! What is touched outside the locked directories (law F12).

use super::{FsNode, MemPlace, NamePlace, NodeId, State};

impl State {
    /// Notes that a name was changed or opened, if that is outside every locked directory.
    pub(in super::super) fn note_touched(&mut self, place: MemPlace<'_>) {
        let is_locked = |name: NamePlace| self.locks.hold(name.directory);
        if !self.locks.is_empty() && !self.parent(place).is_ok_and(is_locked) {
            self.strays.push(place.path.to_owned());
        }
    }

    /// Notes both names of a rename, unless the renamed directory is itself locked. A checkpoint
    /// renames such a directory, which gets its name once it is whole.
    pub(in super::super) fn note_renamed(&mut self, from: MemPlace<'_>, to: MemPlace<'_>) {
        let node = self.parent(from).and_then(|named| self.named(&named));
        let is_own =
            |node: NodeId| matches!(self.node(node), FsNode::Directory(_)) && self.locks.hold(node);
        if !node.is_ok_and(is_own) {
            self.note_touched(from);
            self.note_touched(to);
        }
    }
}
