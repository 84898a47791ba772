//! A large vector is a vector, wherever its values lie, and large ones go back to the system.

use super::*;

#[cfg(not(miri))]
const LARGE: usize = 300_000;
#[cfg(miri)]
const LARGE: usize = 20_000;

#[test]
fn values_are_those_of_a_vector_at_every_size() {
    let (mut large, mut plain) = (LargeVec::default(), Vec::new());
    for round in 0..LARGE as u64 {
        large.push(round);
        plain.push(round);
        if round.is_power_of_two() {
            large.extend_from_slice(&[round, round + 1, round + 2]);
            plain.extend_from_slice(&[round, round + 1, round + 2]);
            let end = plain.len();
            large.extend_from_within(end - 2..end);
            plain.extend_from_within(end - 2..end);
            large[0] = round;
            plain[0] = round;
            assert_eq!(large[..], plain[..]);
        }
    }
    assert!(large.memory_bytes() >= size_of_val(&plain[..]));
    large.shrink_to_fit();
    assert_eq!(large[..], plain[..]);
    let rest = large.memory_bytes() - size_of_val(&plain[..]);
    assert!(rest < 4 << 10, "{rest}");
    let moved = large;
    let shared = moved.share();
    let copy = shared.clone();
    drop(shared);
    assert_eq!(copy[..], plain[..]);
    std::thread::spawn(move || assert_eq!(copy.len(), plain.len())).join().unwrap();
}

#[test]
fn what_is_cleared_is_filled_again_and_small_again_if_asked() {
    let mut vec: LargeVec<u8> = (0..LARGE).map(|number| number as u8).collect();
    assert_eq!(vec.len(), LARGE);
    let before = vec.memory_bytes();
    vec.clear();
    assert!(vec.is_empty() && vec.memory_bytes() == before);
    vec.extend_from_slice(b"short");
    assert_eq!(&vec[..], b"short");
    vec.shrink_to_fit();
    assert_eq!((&vec[..], vec.memory_bytes()), (&b"short"[..], 5));
    vec.clear();
    vec.shrink_to_fit();
    assert_eq!((&vec[..], vec.memory_bytes()), (&b""[..], 0));
    assert!(LargeVec::<u64>::with_capacity(0).share().is_empty());
}

#[test]
fn values_lie_aligned() {
    #[derive(Clone, Copy)]
    #[repr(align(64))]
    struct Line([u8; 64]);
    for count in [1, 3, 5_000] {
        let lines: LargeVec<Line> = (0..count).map(|number| Line([number as u8; 64])).collect();
        assert!(lines.as_ptr().addr().is_multiple_of(64));
        assert!(lines.iter().enumerate().all(|(number, line)| line.0[63] == number as u8));
    }
}

#[test]
#[should_panic(expected = "a range beyond the values")]
fn what_is_not_there_is_not_copied() {
    let mut vec = LargeVec::with_capacity(10);
    vec.push(1_u8);
    vec.extend_from_within(0..2);
}

#[cfg(all(target_os = "linux", not(miri), not(loom)))]
#[test]
fn the_memory_of_a_large_vector_is_the_systems_after_its_drop() {
    let is_mapped = |page: usize| {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| {
            let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let address = |text| usize::from_str_radix(text, 16).unwrap();
            (address(start)..address(end)).contains(&page)
        })
    };
    // So few that the allocator of glibc would keep them in its heap.
    let is_given_back = || {
        let vec: LargeVec<u64> = (0..12_500).collect();
        let page = vec.as_ptr().addr() & !4095;
        assert!(is_mapped(page));
        drop(vec);
        !is_mapped(page)
    };
    // Another test may have got the same address meanwhile, but not each time.
    assert!((0..20).any(|_| is_given_back()));
}
