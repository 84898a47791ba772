//! A list of many elements that is never changed: an edit makes another one, which shares with it
//! all that it does not touch.
//!
//! It knows no order of the elements. Callers search, and say at which indexes elements leave and
//! come.
//!
//! A list is a B-tree by index. Each node has a *sum* of the elements below it, so that a search
//! for what few elements have skips the nodes without any, and the sum of a range of n elements
//! takes about log n additions. An edit of k elements makes k times log n nodes anew.
//!
//! # Invariants
//! 1. All leaves are equally deep, and no node but the root of an empty list is empty.
//! 2. Two neighbours below one node have more than 64 parts together, or each has at
//!    least 16.
//! 3. `ends` and `sum` of a node are those of its parts.
//!
//! # Seeded fault
//! `sum_keeps_what_was_removed`: a leaf from which elements only leave keeps its old sum.

mod node;
mod iter;

pub use iter::{ListIter, Matching};
pub use node::{Below, ListNode, Sum, Summand};

use crate::invariant;
use node::{Edit, Parts, cut, fold_node, joined};
use std::{ops::Range, sync::Arc};

/// An immutable list. See the [module](self).
#[derive(Clone, Debug)]
pub struct SharedList<T, S> {
    root: ListNode<T, S>,
}

impl<T: Clone, S: Sum<T>> SharedList<T, S> {
    /// A list of `elements`.
    #[must_use]
    pub fn new(elements: Vec<T>) -> Self {
        Self::over(cut(elements).map(ListNode::leaf).collect())
    }

    /// The list below `nodes`, which are equally deep.
    fn over(mut nodes: Vec<ListNode<T, S>>) -> Self {
        loop {
            match nodes.len() {
                0 => return Self { root: ListNode::leaf(Vec::new()) },
                1 => {
                    let Some(mut root) = nodes.pop() else { continue };
                    while let Parts::Nodes { nodes, .. } = &root.parts
                        && let [only] = &nodes[..]
                    {
                        root = ListNode::clone(only);
                    }
                    return Self { root };
                }
                _ => {
                    let below = joined(nodes.into_iter().map(Arc::new).collect());
                    nodes = cut(below).map(ListNode::inner).collect();
                }
            }
        }
    }

    /// The list without the elements at the indexes `removed`, and with others inserted, each
    /// before the element that has the index beside it in this list. Both ascend; what comes
    /// before the same element keeps its order.
    ///
    /// Cost: about the logarithm of the length for each.
    ///
    /// # Panics
    /// If an index is not in the list, or they do not ascend.
    #[must_use]
    pub fn edited(&self, removed: &[usize], inserted: &[(usize, T)]) -> Self {
        let length = self.len();
        assert!(removed.is_sorted_by(|a, b| a < b), "indexes of removed elements ascend");
        assert!(inserted.is_sorted_by_key(|(index, _)| *index), "indexes of new elements ascend");
        assert!(removed.last().is_none_or(|&last| last < length), "no such element to remove");
        assert!(inserted.last().is_none_or(|(last, _)| *last <= length), "no such place");
        let edit = Edit { removed, inserted };
        if edit.is_none() {
            return self.clone();
        }
        let edited = Self::over(self.root.edited(0, edit));
        assert_eq!(edited.len(), length + inserted.len() - removed.len(), "an element is lost");
        invariant!(edited.is_consistent(), "an edit leaves a list that is not consistent");
        edited
    }

    /// Whether the invariants hold.
    ///
    /// Cost: adds up everything anew.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.root.is_consistent().0
    }
}

impl<T, S> SharedList<T, S> {
    /// The sum of all elements.
    #[inline]
    #[must_use]
    pub fn sum(&self) -> &S {
        &self.root.sum
    }

    /// The topmost node.
    #[inline]
    #[must_use]
    pub fn root(&self) -> &ListNode<T, S> {
        &self.root
    }

    /// The number of elements.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.root.len()
    }

    /// Whether there is no element.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root.parts_len() == 0
    }

    /// The element at `index`.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        let (leaf, start) = self.root.leaf_of(index)?;
        leaf.get(index - start)
    }

    /// The number of elements at the begin of the list for which `is_before` holds. It must hold
    /// for none behind the first for which it does not.
    #[must_use]
    pub fn partition_point(&self, is_before: impl FnMut(&T) -> bool) -> usize {
        self.root.partition_point(is_before)
    }

    /// All elements.
    #[must_use]
    pub fn iter(&self) -> ListIter<'_, T, S> {
        self.range(0..self.len())
    }

    /// All elements, by leaves.
    #[inline]
    pub fn leaves(&self) -> impl Iterator<Item = &[T]> {
        let (mut next, length) = (0, self.len());
        std::iter::from_fn(move || {
            // Most lists are empty or one leaf: nothing is searched after it.
            if next == length {
                return None;
            }
            let (leaf, start) = self.root.leaf_of(next)?;
            let leaf = &leaf[next - start..];
            next += leaf.len();
            Some(leaf)
        })
    }

    /// The elements at the indexes `range`.
    ///
    /// # Panics
    /// If it is not within the list.
    #[must_use]
    pub fn range(&self, range: Range<usize>) -> ListIter<'_, T, S> {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} is not within");
        ListIter::new(&self.root, range)
    }

    /// Folds the elements at the indexes `range`: whole nodes by their sums, the others one by one.
    /// The range is cut off at the end of the list.
    pub fn fold<A>(
        &self,
        range: Range<usize>,
        folded: A,
        mut add: impl FnMut(A, Summand<'_, T, S>) -> A,
    ) -> A {
        fold_node(&self.root, range, folded, &mut add)
    }

    /// The elements that lie below nodes of which `may_hold` is true for every sum, with their
    /// indexes, in order.
    pub fn below<F: Fn(&S) -> bool>(&self, may_hold: F) -> Matching<'_, T, S, F> {
        Matching::new(&self.root, may_hold)
    }
}

#[cfg(test)]
mod tests;
