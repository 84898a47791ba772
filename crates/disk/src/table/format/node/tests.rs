//! Nodes that lie: a node is refused unless all of it agrees.

use super::*;

fn raw(level: u32, children: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = NodeBuilder::new(level);
    let mut before = None;
    for (number, (first, last)) in children.iter().enumerate() {
        let info = BlockInfo {
            first_key: first.as_bytes(),
            last_key: last.as_bytes(),
            last_sequence: SequenceNumber(50 - number as u64),
            sequence_max: SequenceNumber(60),
            expiry_min_ms: (number == 1).then_some(9),
            contents: Contents::PLAIN,
            entries: 3,
            offset: number as u64 * 100,
            bytes: 100,
        };
        let continues = before == Some(*first);
        if continues {
            builder.continue_last();
        }
        builder.add(&info, number as u64, if continues { CONTINUES } else { 0 });
        if level > 0 {
            let offset = 1_000 + 50 * number as u64;
            builder.place_last(&(offset..offset + 50), number as u64 + 1);
        }
        before = Some(*last);
    }
    builder.finish()
}

const CHILDREN: [(&str, &str); 4] =
    [("aa", "ab"), ("ab", "ab"), ("abc", "ax"), ("b", "cdefghijklmn")];

#[test]
fn a_node_is_read_back() {
    for level in [0, 1] {
        let raw = raw(level, &CHILDREN);
        let node = NodeView::at(&raw).unwrap();
        node.check().unwrap();
        for (at, (first, last)) in CHILDREN.iter().enumerate() {
            let info = node.info(at);
            assert_eq!((info.first_key, info.last_key), (first.as_bytes(), last.as_bytes()));
            assert_eq!((info.offset, info.bytes, info.entries), (100 * at as u64, 100, 3));
            assert_eq!(node.position_of(at as u64), at);
            assert_eq!(node.continues(at), at == 1);
            assert_eq!(node.is_plain(at), at > 1);
        }
        assert_eq!(node.position_of(4), 4);
        let all = node.beneath();
        assert_eq!((all.first_key, all.last_key), (&b"aa"[..], &b"cdefghijklmn"[..]));
        assert_eq!((all.bytes, all.entries, all.expiry_min_ms), (400, 12, Some(9)));
        let find = |key: &str, sequence| node.lower_bound(key.as_bytes(), SequenceNumber(sequence));
        assert_eq!([find("", 1), find("aa", 1), find("ab", 51), find("ab", 50)], [0; 4]);
        assert_eq!([find("ab", 49), find("ab", 48), find("abb", 1)], [1, 2, 2]);
        assert_eq!([find("ay", 1), find("cdefghijklmn", 47)], [3, 3]);
        assert_eq!([find("cdefghijklmn", 46), find("d", 1)], [4, 4]);
    }
}

#[test]
fn each_changed_byte_of_a_node_is_another_node_or_none() {
    for level in [0, 1] {
        let raw = raw(level, &CHILDREN);
        for at in 0..raw.len() {
            for flip in [1, 0x10, 0x80, 0xff] {
                let mut changed = raw.clone();
                changed[at] ^= flip;
                let Ok(node) = NodeView::at(&changed) else { continue };
                if node.check().is_err() {
                    continue;
                }
                // What passes can be looked at without a panic.
                let plain = (0..node.count()).filter(|&at| node.is_plain(at));
                assert!(plain.count() <= node.count() && node.beneath().entries > 0);
                for key in [&b""[..], b"ab", b"abz", b"zzz"] {
                    assert!(node.lower_bound(key, SequenceNumber(50)) <= node.count());
                }
            }
        }
        for end in 0..raw.len() {
            assert!(
                NodeView::at(&raw[..end]).and_then(|node| node.check()).is_err(),
                "cut at {end}"
            );
        }
    }
}

#[test]
fn a_node_out_of_order_is_refused() {
    let wrong: [&[(&str, &str)]; 3] =
        [&[("b", "a")], &[("a", "c"), ("b", "d")], &[("c", "d"), ("a", "b")]];
    for children in wrong {
        assert!(NodeView::at(&raw(0, children)).unwrap().check().is_err(), "{children:?}");
    }
}

#[test]
fn a_child_that_says_something_else_is_refused() {
    let child = raw(0, &CHILDREN);
    let child = NodeView::at(&child).unwrap();
    let all = child.beneath();
    let parent = |info: BlockInfo<'_>, end_block: u64, joins: u8| {
        let mut builder = NodeBuilder::new(1);
        builder.add(&info, 0, joins);
        builder.place_last(&(1_000..1_050), end_block);
        builder.finish()
    };
    let check = |info, end_block, joins| {
        let raw = parent(info, end_block, joins);
        let node = NodeView::at(&raw).unwrap();
        node.check_child(0, &child)
    };
    check(all, 4, 0).unwrap();
    let later = SequenceNumber(61);
    let wrong = [
        BlockInfo { first_key: b"a", ..all },
        BlockInfo { last_key: b"d", ..all },
        BlockInfo { last_sequence: SequenceNumber(1), ..all },
        BlockInfo { sequence_max: later, ..all },
        BlockInfo { expiry_min_ms: None, ..all },
        BlockInfo { contents: Contents::MERGES, ..all },
        BlockInfo { entries: 13, ..all },
        BlockInfo { offset: 1, ..all },
        BlockInfo { bytes: 401, ..all },
    ];
    for info in wrong {
        assert!(check(info, 4, 0).is_err(), "{info:?}");
    }
    assert!(check(all, 5, 0).is_err() && check(all, 4, CONTINUES).is_err());
    let raw = parent(all, 4, 0);
    let other_level = NodeView::at(&raw).unwrap();
    assert!(other_level.check_child(0, &other_level).is_err());
}
