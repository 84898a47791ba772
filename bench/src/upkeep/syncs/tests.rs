//! Tests of reading a summary of `strace`.

use super::calls;

#[test]
fn calls_that_sync_are_summed_with_and_without_errors() {
    let summary = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 70.00    0.000700           7       100           fdatasync
 20.00    0.000200          10        20         3 fsync
 10.00    0.000100          50         2           msync
------ ----------- ----------- --------- --------- ----------------
100.00    0.001000           8       122         3 total
";
    assert_eq!(calls(summary).unwrap(), 122);
    assert!(calls("").is_err(), "an empty summary is no count");
}
