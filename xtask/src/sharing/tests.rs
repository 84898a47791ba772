//! What a line of the trace says, and who has a cache line.

use super::*;

const MARKS: Marks = Marks { begun: 0x10_0000, ended: 0x20_0000 };

#[test]
fn a_line_of_the_trace_is_an_access_or_none() {
    let load = Access { address: 0x1ffe_ffe7, bytes: 8, writes: false };
    assert_eq!(access(b" L 1ffeffe7,8"), Some(load));
    assert_eq!(access(b" S 1ffeffe7,8"), Some(Access { writes: true, ..load }));
    assert_eq!(access(b" M 1ffeffe7,8"), Some(Access { writes: true, ..load }));
    for other in [&b"I  04016ba0,3"[..], b"==12== Lackey", b"", b" L xyz,8", b" L 12"] {
        assert_eq!(access(other), None);
    }
    assert_eq!(marks("0x100000 0x200000\n"), Some(MARKS));
    assert_eq!(marks("0x100000\n"), None);
}

fn simulation() -> Simulation {
    Simulation { marks: Some(MARKS), begun: WARM_UP, ..Simulation::default() }
}

/// An operation of a thread with these accesses: an address, and whether it writes.
fn operate(simulation: &mut Simulation, thread: u64, accesses: &[(u64, bool)]) {
    let write = |address| Access { address, bytes: 8, writes: true };
    simulation.note(write(MARKS.begun + thread * LINE_BYTES));
    for &(address, writes) in accesses {
        simulation.note(Access { address, bytes: 8, writes });
    }
    simulation.note(write(MARKS.ended));
}

#[test]
fn what_all_read_is_taken_once_and_what_all_write_each_time() {
    let mut simulation = simulation();
    let (read, written) = (0x1000, 0x2000);
    operate(&mut simulation, 0, &[(read, true), (written, true)]);
    assert_eq!(simulation.sum, Sum { operations: 1, lines: 2, read: 0, written: 0 });
    operate(&mut simulation, 1, &[(read, false), (read + 8, false), (written, true)]);
    assert_eq!(simulation.sum, Sum { operations: 2, lines: 4, read: 1, written: 1 });
    operate(&mut simulation, 1, &[(read, false), (written, true)]);
    assert_eq!(simulation.sum, Sum { operations: 3, lines: 6, read: 1, written: 1 }, "both held");
    // A line that was read and then written counts as written.
    operate(&mut simulation, 0, &[(written, false), (written, true), (read, false)]);
    assert_eq!(simulation.sum, Sum { operations: 4, lines: 8, read: 1, written: 2 });
}

#[test]
fn an_access_over_a_border_touches_two_lines_and_what_lies_between_operations_none() {
    let mut simulation = simulation();
    operate(&mut simulation, 0, &[(0x103c, false)]);
    assert_eq!(simulation.sum.lines, 2);
    simulation.note(Access { address: 0x1000, bytes: 8, writes: true });
    operate(&mut simulation, 0, &[(0x1000, false)]);
    assert_eq!(simulation.sum, Sum { operations: 2, lines: 3, read: 0, written: 0 });
}

#[test]
fn the_first_operations_are_not_counted() {
    let mut simulation = Simulation { marks: Some(MARKS), ..Simulation::default() };
    for number in 0..WARM_UP + 2 {
        operate(&mut simulation, number % THREADS, &[(0x1000, true)]);
    }
    assert_eq!(simulation.sum, Sum { operations: 2, lines: 2, read: 0, written: 2 });
}
