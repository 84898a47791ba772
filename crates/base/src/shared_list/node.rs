//! The nodes of a shared list, and what an edit makes of them.
//!
//! A node knows neither its parent nor the list.

use crate::seeded_fault;
use std::{fmt, ops::Range, sync::Arc};

/// Parts of a node at most: a search reads few nodes, and an edit copies little.
pub(super) const PARTS_MAX: usize = 64;

/// A node with fewer parts is joined with a neighbour, if one node can hold both.
const PARTS_MIN: usize = 16;

/// Parts of the nodes that a larger one is cut into: they have room for more.
const PARTS_CUT: usize = 48;

/// What a node tells of the elements below it.
pub trait Sum<T>: Clone + PartialEq + fmt::Debug {
    /// The sum of elements in their order.
    fn of_elements(elements: &[T]) -> Self;

    /// The sum of neighbouring parts in their order.
    fn of_parts<'s>(parts: impl ExactSizeIterator<Item = &'s Self> + Clone) -> Self
    where
        Self: 's;
}

/// Of a list that is only searched.
impl<T> Sum<T> for () {
    fn of_elements(_: &[T]) -> Self {}

    fn of_parts<'s>(_: impl ExactSizeIterator<Item = &'s Self> + Clone) -> Self
    where
        Self: 's,
    {
    }
}

/// A node of a list, for searches that go down by its sum.
#[derive(Clone, Debug)]
pub struct ListNode<T, S> {
    pub(super) sum: S,
    pub(super) parts: Parts<T, S>,
}

#[derive(Clone, Debug)]
pub(super) enum Parts<T, S> {
    Elements(Vec<T>),
    Nodes {
        nodes: Vec<Arc<ListNode<T, S>>>,
        /// The number of elements up to and with each node.
        ends: Vec<usize>,
    },
}

/// What lies below a node.
#[derive(Debug)]
pub enum Below<'l, T, S> {
    /// It is a leaf of these elements.
    Elements(&'l [T]),
    /// It has these nodes.
    Nodes(&'l [Arc<ListNode<T, S>>]),
}

impl<T, S> ListNode<T, S> {
    /// The sum of all elements below it.
    #[inline]
    #[must_use]
    pub fn sum(&self) -> &S {
        &self.sum
    }

    /// What lies right below it.
    #[inline]
    #[must_use]
    pub fn below(&self) -> Below<'_, T, S> {
        match &self.parts {
            Parts::Elements(elements) => Below::Elements(elements),
            Parts::Nodes { nodes, .. } => Below::Nodes(nodes),
        }
    }

    /// The number of elements below it that lie before its part `index`.
    #[inline]
    #[must_use]
    pub fn elements_before(&self, index: usize) -> usize {
        match (&self.parts, index) {
            (Parts::Elements(_), _) => index,
            (Parts::Nodes { .. }, 0) => 0,
            (Parts::Nodes { ends, .. }, _) => ends[index - 1],
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.elements_before(self.parts_len())
    }

    #[inline]
    pub(super) fn parts_len(&self) -> usize {
        match &self.parts {
            Parts::Elements(elements) => elements.len(),
            Parts::Nodes { nodes, .. } => nodes.len(),
        }
    }

    /// The elements of the leaf that has the element at `index`, and the index of the first.
    #[inline]
    pub(super) fn leaf_of(&self, index: usize) -> Option<(&[T], usize)> {
        let (mut node, mut start) = (self, 0);
        loop {
            match &node.parts {
                Parts::Elements(elements) => return Some((elements, start)),
                Parts::Nodes { nodes, ends } => {
                    let part = ends.partition_point(|&end| start + end <= index);
                    let next = nodes.get(part)?;
                    start += node.elements_before(part);
                    node = next;
                }
            }
        }
    }

    /// The number of elements at the begin for which `is_before` holds. It must hold
    /// for none behind the first for which it does not.
    pub(super) fn partition_point(&self, mut is_before: impl FnMut(&T) -> bool) -> usize {
        let (mut node, mut start) = (self, 0);
        loop {
            match &node.parts {
                Parts::Elements(elements) => return start + elements.partition_point(is_before),
                Parts::Nodes { nodes, .. } => {
                    let part =
                        nodes.partition_point(|node| node.last().is_some_and(&mut is_before));
                    start += node.elements_before(part);
                    match nodes.get(part) {
                        Some(next) => node = next,
                        None => return start,
                    }
                }
            }
        }
    }

    fn last(&self) -> Option<&T> {
        let mut node = self;
        loop {
            match &node.parts {
                Parts::Elements(elements) => return elements.last(),
                Parts::Nodes { nodes, .. } => node = nodes.last()?,
            }
        }
    }
}

impl<T: Clone, S: Sum<T>> ListNode<T, S> {
    pub(super) fn leaf(elements: Vec<T>) -> Self {
        Self { sum: S::of_elements(&elements), parts: Parts::Elements(elements) }
    }

    pub(super) fn inner(nodes: Vec<Arc<Self>>) -> Self {
        let mut end = 0;
        let ends = nodes.iter().map(|node| {
            end += node.len();
            end
        });
        let ends = ends.collect();
        let sum = S::of_parts(nodes.iter().map(|node| &node.sum));
        Self { sum, parts: Parts::Nodes { nodes, ends } }
    }

    /// The nodes that take the place of this one, of which the first element has the index `start`.
    pub(super) fn edited(&self, start: usize, edit: Edit<'_, T>) -> Vec<Self> {
        match &self.parts {
            Parts::Elements(elements) => {
                let nodes = cut(edit.elements(start, elements)).map(Self::leaf);
                let mut nodes: Vec<Self> = nodes.collect();
                if seeded_fault!("sum_keeps_what_was_removed")
                    && edit.inserted.is_empty()
                    && let [node] = &mut nodes[..]
                {
                    node.sum = self.sum.clone();
                }
                nodes
            }
            Parts::Nodes { nodes, ends } => {
                let (mut begin, mut edit, mut edited) = (start, edit, Vec::new());
                for (index, node) in nodes.iter().enumerate() {
                    let end = start + ends[index];
                    let is_last = index + 1 == nodes.len();
                    let (here, later) = if is_last { (edit, Edit::NONE) } else { edit.split(end) };
                    match here.is_none() {
                        true => edited.push(Arc::clone(node)),
                        false => edited.extend(node.edited(begin, here).into_iter().map(Arc::new)),
                    }
                    (begin, edit) = (end, later);
                }
                cut(joined(edited)).map(Self::inner).collect()
            }
        }
    }

    /// One node of the parts of this one and the next.
    fn with(&self, next: &Self) -> Self {
        match (&self.parts, &next.parts) {
            (Parts::Elements(these), Parts::Elements(next)) => {
                Self::leaf([these.as_slice(), next].concat())
            }
            (Parts::Nodes { nodes: these, .. }, Parts::Nodes { nodes: next, .. }) => {
                Self::inner([these.as_slice(), next].concat())
            }
            _ => unreachable!("all leaves are equally deep"),
        }
    }

    /// Whether the invariants hold below it; its depth.
    pub(super) fn is_consistent(&self) -> (bool, usize) {
        match &self.parts {
            Parts::Elements(elements) => {
                (self.sum == S::of_elements(elements) && elements.len() <= PARTS_MAX, 0)
            }
            Parts::Nodes { nodes, ends } => {
                let below: Vec<_> = nodes.iter().map(|node| node.is_consistent()).collect();
                let mut end = 0;
                let are_ends = nodes.iter().zip(ends).all(|(node, &found)| {
                    end += node.len();
                    found == end
                });
                let depth = below.first().map_or(0, |(_, depth)| *depth);
                let are_wide = nodes.windows(2).all(|pair| !are_joined(&pair[0], &pair[1]));
                let is_consistent = below.iter().all(|&found| found == (true, depth))
                    && are_ends
                    && are_wide
                    && ends.len() == nodes.len()
                    && (1..=PARTS_MAX).contains(&nodes.len())
                    && nodes.iter().all(|node| node.parts_len() > 0)
                    && self.sum == S::of_parts(nodes.iter().map(|node| &node.sum));
                (is_consistent, depth + 1)
            }
        }
    }
}

/// Elements that leave and come in a part of a list.
#[derive(Debug)]
pub(super) struct Edit<'e, T> {
    /// Indexes, ascending.
    pub(super) removed: &'e [usize],
    /// Elements with the index of the old element that they come before, ascending.
    pub(super) inserted: &'e [(usize, T)],
}

impl<T> Clone for Edit<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Edit<'_, T> {}

impl<T> Edit<'_, T> {
    const NONE: Self = Self { removed: &[], inserted: &[] };

    pub(super) fn is_none(&self) -> bool {
        self.removed.is_empty() && self.inserted.is_empty()
    }

    /// What is before the index `end`, and the rest.
    fn split(self, end: usize) -> (Self, Self) {
        let removed = self.removed.partition_point(|&index| index < end);
        let inserted = self.inserted.partition_point(|(index, _)| *index < end);
        let (removed, inserted) =
            (self.removed.split_at(removed), self.inserted.split_at(inserted));
        (
            Self { removed: removed.0, inserted: inserted.0 },
            Self { removed: removed.1, inserted: inserted.1 },
        )
    }
}

impl<T: Clone> Edit<'_, T> {
    /// What the elements of a leaf become, of which the first has the index `start`.
    fn elements(&self, start: usize, elements: &[T]) -> Vec<T> {
        let mut edited = Vec::with_capacity(elements.len() + self.inserted.len());
        let mut inserted = self.inserted.iter().peekable();
        let mut removed = self.removed.iter().peekable();
        for (index, element) in (start..).zip(elements) {
            while let Some((_, new)) = inserted.next_if(|(before, _)| *before <= index) {
                edited.push(new.clone());
            }
            if removed.next_if(|gone| **gone == index).is_none() {
                edited.push(element.clone());
            }
        }
        edited.extend(inserted.map(|(_, new)| new.clone()));
        edited
    }
}

/// `parts` in pieces that a node can hold.
pub(super) fn cut<P>(parts: Vec<P>) -> impl Iterator<Item = Vec<P>> {
    let pieces = match parts.len() {
        0..=PARTS_MAX => 1,
        more => more.div_ceil(PARTS_CUT),
    };
    let (count, mut parts) = (parts.len(), parts.into_iter());
    let pieces = (0..pieces).map(move |piece| {
        let length = count * (piece + 1) / pieces - count * piece / pieces;
        parts.by_ref().take(length).collect::<Vec<_>>()
    });
    pieces.filter(|piece| !piece.is_empty())
}

fn are_joined<T, S>(node: &ListNode<T, S>, next: &ListNode<T, S>) -> bool {
    let (length, next) = (node.parts_len(), next.parts_len());
    length.min(next) < PARTS_MIN && length + next <= PARTS_MAX
}

/// The same nodes, by invariant (2).
pub(super) fn joined<T: Clone, S: Sum<T>>(
    nodes: Vec<Arc<ListNode<T, S>>>,
) -> Vec<Arc<ListNode<T, S>>> {
    let mut joined: Vec<Arc<ListNode<T, S>>> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let is_small = joined.last().is_some_and(|last| are_joined(last, &node));
        match joined.last_mut().filter(|_| is_small) {
            Some(last) => *last = Arc::new(last.with(&node)),
            None => joined.push(node),
        }
    }
    joined
}

pub(super) fn fold_node<T, S, A>(
    node: &ListNode<T, S>,
    range: Range<usize>,
    folded: A,
    add: &mut impl FnMut(A, Summand<'_, T, S>) -> A,
) -> A {
    if range.start == 0 && range.end >= node.len() {
        return add(folded, Summand::Sum(&node.sum));
    }
    match &node.parts {
        Parts::Elements(elements) => {
            let end = range.end.min(elements.len());
            let start = range.start.min(end);
            elements[start..end].iter().fold(folded, |folded, one| add(folded, Summand::One(one)))
        }
        Parts::Nodes { nodes, ends } => {
            let first = ends.partition_point(|&end| end <= range.start);
            let mut folded = folded;
            for (index, below) in nodes.iter().enumerate().skip(first) {
                let before = node.elements_before(index);
                if before >= range.end {
                    break;
                }
                let within = range.start.saturating_sub(before)..range.end - before;
                folded = fold_node(below, within, folded, add);
            }
            folded
        }
    }
}

/// What [`SharedList::fold`](super::SharedList::fold) adds next.
#[derive(Debug)]
pub enum Summand<'l, T, S> {
    /// An element.
    One(&'l T),
    /// The sum of all elements of a node.
    Sum(&'l S),
}
