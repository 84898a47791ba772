//! Lists beside vectors: random edits, searches, sums, and what two lists share.

use super::{node::PARTS_MAX, *};

/// Count, sum and largest of numbers, and whether they ascend from the first to the last.
#[derive(Clone, Debug, PartialEq)]
struct Numbers {
    count: usize,
    total: u64,
    largest: u64,
    order: Option<(u64, u64, bool)>,
}

impl Numbers {
    fn joined(self, next: &Self) -> Self {
        let order = match (self.order, next.order) {
            (Some((first, end, these)), Some((begin, last, those))) => {
                Some((first, last, these && those && end <= begin))
            }
            (order, None) | (None, order) => order,
        };
        Self {
            count: self.count + next.count,
            total: self.total + next.total,
            largest: self.largest.max(next.largest),
            order,
        }
    }

    fn of(number: u64) -> Self {
        Self { count: 1, total: number, largest: number, order: Some((number, number, true)) }
    }

    fn none() -> Self {
        Self { count: 0, total: 0, largest: 0, order: None }
    }
}

impl Sum<u64> for Numbers {
    fn of_elements(elements: &[u64]) -> Self {
        elements.iter().fold(Self::none(), |sum, &number| sum.joined(&Self::of(number)))
    }

    fn of_parts<'s>(parts: impl ExactSizeIterator<Item = &'s Self> + Clone) -> Self {
        parts.fold(Self::none(), Self::joined)
    }
}

type List = SharedList<u64, Numbers>;

/// A pseudo-random sequence; tests print its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound.max(1)
    }
}

fn nodes<T, S>(node: &ListNode<T, S>, found: &mut Vec<*const ListNode<T, S>>) {
    if let Below::Nodes(below) = node.below() {
        for node in below {
            found.push(Arc::as_ptr(node));
            nodes(node, found);
        }
    }
}

/// Nodes of `list` that `other` does not have.
fn unshared(list: &List, other: &List) -> usize {
    let (mut of_list, mut of_other) = (Vec::new(), Vec::new());
    nodes(list.root(), &mut of_list);
    nodes(other.root(), &mut of_other);
    of_list.iter().filter(|node| !of_other.contains(node)).count()
}

fn is_as(list: &List, model: &[u64]) {
    assert!(list.is_consistent());
    assert_eq!(*list.sum(), Numbers::of_elements(model));
    assert_eq!((list.len(), list.is_empty()), (model.len(), model.is_empty()));
    assert!(list.iter().eq(model));
    assert!(list.leaves().flatten().eq(model));
    assert!(list.iter().rev().eq(model.iter().rev()));
}

#[test]
fn random_edits_make_of_a_list_what_they_make_of_a_vector() {
    for seed in 1..=12 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut model: Vec<u64> = (0..random.below(9_000) as u64).collect();
        let mut list = List::new(model.clone());
        for _ in 0..60 {
            // Growth, shrinking to nothing, small edits and large ones.
            let most = [3, 3, 200, 6_000][random.below(4)];
            let mut removed: Vec<usize> =
                (0..random.below(most)).map(|_| random.below(model.len())).collect();
            removed.sort_unstable();
            removed.dedup();
            removed.retain(|&index| index < model.len());
            let mut inserted: Vec<(usize, u64)> = (0..random.below(most))
                .map(|_| (random.below(model.len() + 1), random.below(1 << 20) as u64))
                .collect();
            inserted.sort_by_key(|(index, _)| *index);
            let before = (list.clone(), model.clone());
            list = list.edited(&removed, &inserted);
            for (index, number) in inserted.iter().rev() {
                model.insert(*index, *number);
            }
            for &index in removed.iter().rev() {
                let shift = inserted.partition_point(|(before, _)| *before <= index);
                model.remove(index + shift);
            }
            is_as(&list, &model);
            assert!(before.0.iter().eq(&before.1), "an edit changes the list that was");
        }
    }
}

#[test]
fn searches_find_what_linear_ones_find() {
    let mut random = Random(5);
    for length in [0, 1, 63, 64, 65, 500, 10_000] {
        let mut model: Vec<u64> = (0..length).map(|_| random.below(5_000) as u64).collect();
        model.sort_unstable();
        let list = List::new(model.clone());
        for _ in 0..200 {
            let bound = random.below(5_100) as u64;
            let place = model.partition_point(|&number| number < bound);
            assert_eq!(list.partition_point(|&number| number < bound), place);
            let index = random.below(length as usize + 2);
            assert_eq!(list.get(index), model.get(index));
            let end = random.below(length as usize + 1);
            let start = random.below(end + 1);
            assert!(list.range(start..end).eq(&model[start..end]));
            let mut both = list.range(start..end);
            let (mut ahead, mut behind): (Vec<&u64>, Vec<&u64>) = (Vec::new(), Vec::new());
            while both.len() > 0 {
                match random.below(2) {
                    0 => ahead.extend(both.next()),
                    _ => behind.extend(both.next_back()),
                }
            }
            behind.reverse();
            assert!(ahead.into_iter().chain(behind).eq(&model[start..end]));
            let total = list.fold(start..end, 0, |total, added| match added {
                Summand::One(number) => total + number,
                Summand::Sum(sum) => total + sum.total,
            });
            assert_eq!(total, model[start..end].iter().sum::<u64>());
            let large = list.below(|sum| sum.largest >= bound);
            let large = large.filter(|(_, number)| **number >= bound);
            assert!(large.eq(model.iter().enumerate().filter(|(_, number)| **number >= bound)));
        }
    }
}

#[test]
fn an_edit_shares_all_nodes_but_those_on_the_way_to_its_elements() {
    let list = List::new((0..100_000).collect());
    for edits in [1_usize, 4] {
        let removed: Vec<usize> = (0..edits).map(|edit| edit * 20_000 + 700).collect();
        let inserted: Vec<(usize, u64)> = removed.iter().map(|index| (*index, 7)).collect();
        for edited in [
            list.edited(&removed, &[]),
            list.edited(&[], &inserted),
            list.edited(&removed, &inserted),
        ] {
            // A leaf and a node above it below the root, which may be cut in two.
            assert!(unshared(&edited, &list) <= 4 * edits, "{}", unshared(&edited, &list));
        }
    }
    // A sum over many elements reads few of them.
    let mut added = 0;
    list.fold(1..99_999, (), |(), _| added += 1);
    assert!(added < 6 * PARTS_MAX, "{added}");
    let mut read = 0;
    assert_eq!(list.below(|sum| sum.largest >= 99_999).inspect(|_| read += 1).count(), read);
    assert!(read <= PARTS_MAX, "{read}");
}

#[test]
fn a_list_that_shrinks_has_few_nodes() {
    let mut list = List::new((0..50_000).collect());
    while list.len() > 100 {
        let removed: Vec<usize> = (0..list.len()).filter(|index| index % 3 != 0).collect();
        list = list.edited(&removed, &[]);
    }
    let mut found = Vec::new();
    nodes(list.root(), &mut found);
    assert!(found.len() <= 8, "{} nodes for {} elements", found.len(), list.len());
    assert!(list.edited(&(0..list.len()).collect::<Vec<_>>(), &[]).is_empty());
}

#[test]
#[should_panic(expected = "no such element")]
fn what_is_not_there_is_not_removed() {
    let _ = List::new(vec![1, 2]).edited(&[2], &[]);
}

#[test]
#[should_panic(expected = "is not within")]
fn a_range_beyond_the_end_is_refused() {
    let _ = List::new(vec![1, 2]).range(1..3);
}
