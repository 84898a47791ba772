//! Merge operators made from functions: their laws and their errors.

use super::*;
use siltdb_base::error::Error;

fn joined() -> Arc<dyn MergeOperator> {
    associative("joined", |_, older, newer| match newer {
        b"bad" => Err(Error::invalid("a bad operand")),
        _ => Ok([older, b",", newer].concat()),
    })
}

#[test]
fn an_associative_operator_keeps_the_order_with_and_without_a_value() {
    let operator = joined();
    let full = |base| operator.full(b"k", base, &[b"1", b"2", b"3"]).unwrap();
    assert_eq!(full(None), b"1,2,3");
    assert_eq!(full(Some(&b"0"[..])), b"0,1,2,3");
    let partial = operator.partial_many(b"k", &[b"1", b"2", b"3"]).unwrap();
    assert_eq!(operator.full(b"k", Some(b"0"), &[&partial]).unwrap(), b"0,1,2,3");
    assert_eq!(operator.full(b"k", None, &[b"1"]).unwrap(), b"1");
    assert_eq!(operator.name(), "joined");
}

#[test]
fn what_a_function_fails_with_reaches_the_reader_and_keeps_operands_apart() {
    let operator = joined();
    assert_eq!(operator.full(b"k", Some(b"0"), &[b"bad"]).unwrap_err().message(), "a bad operand");
    assert_eq!(operator.partial(b"k", b"1", b"bad"), None);
}

#[test]
fn a_full_operator_is_called_with_key_value_and_operands() {
    let operator = full("shown", |key, base, operands| {
        Ok([key, base.unwrap_or(b"none"), &operands.concat()].join(&b'|'))
    });
    assert_eq!(operator.full(b"k", Some(b"0"), &[b"1", b"2"]).unwrap(), b"k|0|12");
    assert_eq!(operator.full(b"k", None, &[b"1"]).unwrap(), b"k|none|1");
    assert_eq!(operator.partial(b"k", b"1", b"2"), None);
}
