//! Pieces do not overlap, sizes grow, and chunks are charged, released and used again.

use super::*;
use siltdb_base::{
    budget::{Budget, Part},
    memory::chunk::Pages,
};

fn pool(options: ArenaOptions) -> (Arc<Budget>, Arc<ArenaPool>) {
    let budget = Arc::new(Budget::new(1 << 30));
    (Arc::clone(&budget), ArenaPool::new(budget, options))
}

#[test]
fn pieces_are_aligned_and_disjoint() {
    let (_, pool) = pool(ArenaOptions::default());
    let arena = Arena::new(&pool);
    let mut pieces = Vec::new();
    for index in 0..if cfg!(miri) { 20 } else { 2_000 } {
        let bytes = 1 + (index * 37) % 700;
        let align = 1 << (index % 7);
        let piece = arena.carve(bytes, align);
        assert_eq!(piece.addr().get() % align, 0);
        // SAFETY: the piece has `bytes` bytes and is ours (2).
        unsafe { piece.write_bytes(index as u8, bytes) };
        pieces.push((piece, bytes, index as u8));
    }
    for (piece, bytes, fill) in pieces {
        // SAFETY: written above, and the arena is alive.
        let written = unsafe { std::slice::from_raw_parts(piece.as_ptr(), bytes) };
        assert!(written.iter().all(|&byte| byte == fill));
    }
}

#[test]
fn an_empty_arena_holds_nothing_and_the_first_chunk_is_small() {
    let (budget, pool) = pool(ArenaOptions::default());
    let arena = Arena::new(&pool);
    assert_eq!(arena.held(), 0);
    arena.carve(100, 8);
    assert_eq!(arena.held(), 4 << 10);
    assert_eq!(budget.used(Part::Memtables), 4 << 10);
    drop(arena);
    assert_eq!(budget.used(Part::Memtables), 0);
    assert_eq!(pool.idle_bytes(), 0);
}

#[test]
fn a_piece_larger_than_a_chunk_gets_its_own() {
    let (_, pool) = pool(ArenaOptions::default());
    let arena = Arena::new(&pool);
    arena.carve(8, 8);
    arena.carve(100_000, 64);
    assert_eq!(arena.held(), (4 << 10) + round_up(100_000));
    arena.carve(8, 8);
    assert_eq!(arena.held(), (4 << 10) + round_up(100_000));
}

#[test]
fn no_more_chunks_wait_for_their_next_use_than_are_in_use_and_no_more_than_the_bound() {
    const CHUNK: usize = 64 << 10;
    let options = ArenaOptions {
        chunk_bytes_first: CHUNK,
        chunk_bytes_max: CHUNK,
        idle_bytes_max: 3 * CHUNK,
        ..ArenaOptions::default()
    };
    let (budget, pool) = pool(options);
    let arena_of = |chunks: usize| {
        let arena = Arena::new(&pool);
        for _ in 0..2 * chunks {
            arena.carve(30 << 10, 8);
        }
        assert_eq!(arena.held(), chunks * CHUNK);
        arena
    };
    let state = || (budget.used(Part::Memtables) / CHUNK, pool.idle_bytes() / CHUNK);
    let (a, b, c) = (arena_of(5), arena_of(4), arena_of(2));
    assert_eq!(state(), (11, 0));
    drop(a);
    assert_eq!(state(), (6, 3), "no more than the bound");
    assert_eq!(budget.used(Part::IdleMemtables), 3 * CHUNK);
    drop(b);
    assert_eq!(state(), (2, 2), "no more than are in use");
    let d = arena_of(1);
    assert_eq!(state(), (3, 1), "used again");
    assert_eq!(budget.used(Part::IdleMemtables), CHUNK);
    drop((c, d));
    assert_eq!(state(), (0, 0), "nothing is kept when none is in use");
    assert_eq!(budget.total(), 0);
}

#[test]
fn idle_chunks_give_way_to_those_in_use() {
    const CHUNK: usize = 64 << 10;
    let options = ArenaOptions {
        chunk_bytes_first: CHUNK,
        chunk_bytes_max: CHUNK,
        pooled_bytes_max: 8 * CHUNK,
        ..ArenaOptions::default()
    };
    let (budget, pool) = pool(options);
    let arena_of = |piece_bytes: usize, pieces: usize| {
        let arena = Arena::new(&pool);
        for _ in 0..pieces {
            arena.carve(piece_bytes, 8);
        }
        arena
    };
    // Two small pieces fit into a chunk. A large one has its own, which is of no use to others.
    let (regular, large) = (30 << 10, 2 * CHUNK);
    let state = || (budget.used(Part::Memtables) / CHUNK, pool.idle_bytes() / CHUNK);
    let (a, b) = (arena_of(regular, 2 * 5), arena_of(regular, 2 * 4));
    assert_eq!(state(), (9, 0));
    drop(b);
    assert_eq!(state(), (5, 3), "four are idle, and eight are permitted");
    let c = arena_of(large, 1);
    assert_eq!(state(), (7, 1), "a chunk of two came, and none of the idle ones was of use");
    let d = arena_of(regular, 2 * 4);
    assert_eq!(state(), (11, 0));
    drop((a, c));
    assert_eq!(state(), (4, 2));
    drop(d);
    assert_eq!(state(), (0, 0));
}

#[test]
fn chunks_that_hardly_anybody_could_use_again_are_not_kept() {
    let (_, pool) = pool(ArenaOptions { chunk_bytes_max: 128 << 10, ..ArenaOptions::default() });
    let in_use = Arena::new(&pool);
    in_use.carve(1 << 20, 8);
    // The last has chunks of 4 to 128 KiB, each twice as large as the one before.
    for (pieces, bytes, kept) in
        [(1, 1, 0), (1, 100_000, 0), (1, 1 << 20, 0), (200, 1_000, (64 + 128) << 10)]
    {
        let arena = Arena::new(&pool);
        for _ in 0..pieces {
            arena.carve(bytes, 8);
        }
        assert_eq!(pool.idle_bytes(), 0);
        drop(arena);
        assert_eq!(pool.idle_bytes(), kept, "{pieces} of {bytes}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "too much memory to interpret")]
fn large_chunks_are_aligned_to_huge_pages_and_writable() {
    for pages in [Pages::Huge, Pages::Small] {
        let options = ArenaOptions { chunk_bytes_first: 2 << 20, pages, ..ArenaOptions::default() };
        let (_, pool) = pool(options);
        let arena = Arena::new(&pool);
        for bytes in [1 << 20, 3 << 20, (2 << 20) + 4096] {
            let piece = arena.carve(bytes, 64);
            // SAFETY: the piece has `bytes` bytes and is ours (2).
            unsafe { piece.write_bytes(1, bytes) };
        }
    }
}

#[test]
fn chunks_grow_with_the_arena_also_under_large_pieces() {
    let (_, pool) = pool(ArenaOptions::default());
    let arena = Arena::new(&pool);
    for _ in 0..if cfg!(miri) { 20 } else { 1_000 } {
        arena.carve(10_000, 8);
    }
    let chunks = lock(&arena).chunks.len();
    assert!(chunks < 20, "{chunks} chunks");
}

#[test]
fn blocks_grow_with_the_arena_up_to_a_bound() {
    let (_, pool) = pool(ArenaOptions::default());
    let arena = Arena::new(&pool);
    assert_eq!(arena.block_bytes(), 512);
    let mut blocks = Vec::new();
    while arena.held() < 1 << 20 {
        arena.carve(1_000, 8);
        blocks.push(arena.block_bytes());
    }
    assert!(blocks.is_sorted(), "blocks={blocks:?}");
    assert_eq!(blocks.first(), Some(&512));
    assert_eq!(blocks.last(), Some(&(16 << 10)), "not a sixteenth of 512 KiB");
}

fn lock(arena: &Arena) -> std::sync::MutexGuard<'_, State> {
    arena.state.lock().unwrap()
}
