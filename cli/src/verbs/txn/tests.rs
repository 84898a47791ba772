//! The lines of a script.

use super::*;

fn parsed(words: &[&str]) -> Result<Operation> {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    parse(Command { words, glued: None }, Form::Plain)
}

#[test]
fn the_line_is_well_formed() {
    Line::command().debug_assert();
}

#[test]
fn a_condition_takes_a_value_where_it_compares_with_one() {
    for good in [
        &["check", "k", "=", ""][..],
        &["CHECK", "k", "!=", "x y"],
        &["check", "k", ">=", "-1"],
        &["check", "k", "ABSENT"],
        &["check", "-1", "present", "--family", "f"],
    ] {
        assert!(matches!(parsed(good), Ok(Operation::Check(_))), "{good:?}");
    }
    for (bad, reason) in [
        (&["check", "k", "="][..], "no value after `=`"),
        (&["check", "k", "absent", "x"], "`absent` takes no value"),
        (&["check", "k", "<", "ten"], "`ten` is no decimal number"),
        (&["check", "k", "<", "9223372036854775808"], "is no decimal number"),
        (&["check", "k", "~", "x"], "expected one of = != < <= > >= absent present"),
    ] {
        let message = parsed(bad).expect_err("it is bad").to_string();
        assert!(message.contains(reason), "{bad:?}: {message}");
    }
}
