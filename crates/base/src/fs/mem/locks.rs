//! Which files and directories are locked, and by how many holders.

use super::place::NodeId;
use crate::fs::LockKind;
use std::collections::BTreeMap;

/// The locks of a memory file system.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    held: BTreeMap<NodeId, Holders>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holders {
    One,
    Shared(usize),
}

impl Locks {
    /// Whether nothing is locked.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether a file or directory is locked.
    pub(super) fn hold(&self, node: NodeId) -> bool {
        self.held.contains_key(&node)
    }

    /// Whether a lock of all of `nodes` would be given.
    pub(super) fn is_free(&self, nodes: &[NodeId], kind: LockKind) -> bool {
        nodes.iter().all(|node| match (self.held.get(node), kind) {
            (None, _) => true,
            (Some(holders), LockKind::Shared) => *holders != Holders::One,
            (Some(_), LockKind::Exclusive) => false,
        })
    }

    /// Takes the lock of all of `nodes`, or none; says whether they were free.
    pub(super) fn take(&mut self, nodes: &[NodeId], kind: LockKind) -> bool {
        if !self.is_free(nodes, kind) {
            return false;
        }
        for &node in nodes {
            let holders = match (self.held.get(&node), kind) {
                (_, LockKind::Exclusive) => Holders::One,
                (Some(Holders::Shared(count)), _) => Holders::Shared(count + 1),
                _ => Holders::Shared(1),
            };
            self.held.insert(node, holders);
        }
        true
    }

    /// Gives back a lock once.
    pub(super) fn give_back(&mut self, node: NodeId) {
        match self.held.get_mut(&node) {
            Some(Holders::Shared(count)) if *count > 1 => *count -= 1,
            _ => drop(self.held.remove(&node)),
        }
    }
}
