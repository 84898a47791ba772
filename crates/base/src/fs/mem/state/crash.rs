//! What a kill and a loss of power leave.

use super::{FsNode, ROOT, Seed, State, cut};
use crate::fs::mem::locks::Locks;
use std::collections::BTreeSet;

impl State {
    /// What a killed process leaves: no handles, no locks, of begun writes a part.
    pub(in super::super) fn kill(&mut self) {
        for (number, write) in std::mem::take(&mut self.in_flight) {
            let cut = cut(number, write.bytes.len());
            // Out of space cuts the write shorter, which a kill may do as well.
            let _ = self.write(write.node, write.offset, &write.bytes[..cut]);
        }
        self.locks = Locks::default();
        self.strays.clear();
        let is_file = |node: &FsNode| matches!(node, FsNode::File(_));
        let files: Vec<_> =
            self.nodes.iter().filter(|(_, node)| is_file(node)).map(|(&id, _)| id).collect();
        for id in files {
            self.count(id, |file| file.handles = 0);
        }
        self.sweep();
    }

    /// What a loss of power leaves, after [`State::kill`].
    pub(in super::super) fn lose_power(&mut self, seed: u64) {
        self.lose_names(&mut Seed::new(seed, ROOT));
        for (&id, node) in &mut self.nodes {
            match node {
                FsNode::File(file) => {
                    file.content.lose_power(&mut Seed::new(seed, id));
                    file.links = 0;
                }
                FsNode::Directory(directory) => directory.current.clone_from(&directory.durable),
                FsNode::Link(_) => {}
            }
        }
        let mut reached = BTreeSet::new();
        let mut open = vec![ROOT];
        while let Some(id) = open.pop() {
            let first = reached.insert(id);
            match self.node_mut(id) {
                FsNode::File(file) => file.links += 1,
                FsNode::Directory(directory) if first => open.extend(directory.current.values()),
                FsNode::Directory(_) | FsNode::Link(_) => {}
            }
        }
        self.nodes.retain(|id, _| reached.contains(id));
        if !self.nodes.contains_key(&self.working) {
            self.working = ROOT;
        }
        let lens = self.nodes.values().map(|node| match node {
            FsNode::File(file) => file.content.len(),
            FsNode::Directory(_) | FsNode::Link(_) => 0,
        });
        self.used = lens.sum();
    }

    /// Settles some of the pending changes of names and forgets the others.
    fn lose_names(&mut self, seed: &mut Seed) {
        let pending = std::mem::take(&mut self.pending);
        let count = pending.len() as u64;
        let (style, border) = (seed.below(6), seed.below(count + 1));
        for (index, operation) in pending.iter().enumerate() {
            let index = index as u64;
            let kept = match style {
                0 => false,
                1 => true,
                2 | 3 => index < border,
                4 => index != border,
                _ => seed.chance(1, 2),
            };
            if kept {
                operation.changes.iter().for_each(|change| self.settle(change));
            }
        }
    }
}
