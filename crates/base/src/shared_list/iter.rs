//! Walks over a shared list: neighbouring elements, and what lies below some of its nodes.

use super::node::{ListNode, Parts};
use std::{fmt, iter::FusedIterator, ops::Range, slice};

/// An iterator over neighbouring elements.
#[derive(Debug)]
pub struct ListIter<'l, T, S> {
    root: &'l ListNode<T, S>,
    range: Range<usize>,
    /// Elements from the start of `range` on, which may reach beyond its end.
    front: slice::Iter<'l, T>,
    /// Elements up to the end of `range`, which may begin before its start.
    back: slice::Iter<'l, T>,
}

impl<'l, T, S> ListIter<'l, T, S> {
    pub(super) fn new(root: &'l ListNode<T, S>, range: Range<usize>) -> Self {
        Self { root, range, front: [].iter(), back: [].iter() }
    }
}

impl<T: Clone, S> ListIter<'_, T, S> {
    /// The elements, copied.
    #[must_use]
    pub fn to_vec(&self) -> Vec<T> {
        self.clone().cloned().collect()
    }
}

impl<T, S> Clone for ListIter<'_, T, S> {
    fn clone(&self) -> Self {
        let (front, back) = (self.front.clone(), self.back.clone());
        Self { root: self.root, range: self.range.clone(), front, back }
    }
}

impl<'l, T, S> Iterator for ListIter<'l, T, S> {
    type Item = &'l T;

    #[inline]
    fn next(&mut self) -> Option<&'l T> {
        if self.range.is_empty() {
            return None;
        }
        if self.front.as_slice().is_empty() {
            let (leaf, start) = self.root.leaf_of(self.range.start)?;
            self.front = leaf[self.range.start - start..].iter();
        }
        self.range.start += 1;
        self.front.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.range.len(), Some(self.range.len()))
    }
}

impl<T, S> DoubleEndedIterator for ListIter<'_, T, S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.range.is_empty() {
            return None;
        }
        self.range.end -= 1;
        if self.back.as_slice().is_empty() {
            let (leaf, start) = self.root.leaf_of(self.range.end)?;
            self.back = leaf[..=self.range.end - start].iter();
        }
        self.back.next_back()
    }
}

impl<T, S> ExactSizeIterator for ListIter<'_, T, S> {}

impl<T, S> FusedIterator for ListIter<'_, T, S> {}

/// An iterator over the elements below some nodes, with their indexes.
pub struct Matching<'l, T, S, F> {
    may_hold: F,
    /// Nodes to look at, the next one last, each with the index of its first element.
    nodes: Vec<(&'l ListNode<T, S>, usize)>,
    elements: slice::Iter<'l, T>,
    /// That of the next of `elements`.
    index: usize,
}

impl<'l, T, S, F: Fn(&S) -> bool> Matching<'l, T, S, F> {
    pub(super) fn new(root: &'l ListNode<T, S>, may_hold: F) -> Self {
        let mut matching = Self { may_hold, nodes: Vec::new(), elements: [].iter(), index: 0 };
        matching.enter(root, 0);
        matching
    }

    /// Goes on below a node, of which the first element has the index `start`. Allocates nothing
    /// unless there are nodes below it.
    fn enter(&mut self, node: &'l ListNode<T, S>, start: usize) {
        if !(self.may_hold)(&node.sum) {
            return;
        }
        match &node.parts {
            Parts::Elements(elements) => (self.elements, self.index) = (elements.iter(), start),
            Parts::Nodes { nodes, .. } => {
                let below = nodes.iter().enumerate().rev();
                let below =
                    below.map(|(part, below)| (&**below, start + node.elements_before(part)));
                self.nodes.extend(below);
            }
        }
    }
}

impl<T, S, F> fmt::Debug for Matching<'_, T, S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matching").field("index", &self.index).finish_non_exhaustive()
    }
}

impl<'l, T, S, F: Fn(&S) -> bool> Iterator for Matching<'l, T, S, F> {
    type Item = (usize, &'l T);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(element) = self.elements.next() {
                self.index += 1;
                return Some((self.index - 1, element));
            }
            let (node, start) = self.nodes.pop()?;
            self.enter(node, start);
        }
    }
}
