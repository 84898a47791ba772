//! Arrays and sequences of objects, good and bad, also in pieces.

use super::*;

/// Returns one byte per read.
struct Drops(io::Cursor<Vec<u8>>);

impl Read for Drops {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(1);
        self.0.read(&mut buffer[..count])
    }
}

/// Returns the records up to the first error; a bad record is given as its position and reason.
fn read(rule: &KeyRule, text: &str) -> (Vec<String>, Option<String>) {
    let run = |input: Box<dyn Read>| {
        let mut reader = Reader::new(input, rule.clone(), 1 << 20);
        let (mut record, mut found) = (Record::default(), Vec::new());
        loop {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            match reader.read(&mut record) {
                Ok(true) => found.push(format!("{}={}", text(&record.key), text(&record.value))),
                Ok(false) => return (found, None),
                Err(ReadError::Bad(bad)) => found.push(bad.to_string()),
                Err(ReadError::Broken(bad)) => return (found, Some(bad.to_string())),
                Err(ReadError::Io(error)) => return (found, Some(error.to_string())),
            }
        }
    };
    let whole = run(Box::new(io::Cursor::new(text.as_bytes().to_vec())));
    let pieces = run(Box::new(Drops(io::Cursor::new(text.as_bytes().to_vec()))));
    assert_eq!(whole, pieces, "{text}");
    whole
}

fn good(text: &str) -> Vec<String> {
    let (records, error) = read(&KeyRule::First, text);
    assert_eq!(error, None, "{text}");
    records
}

#[test]
fn arrays_and_sequences_give_their_objects() {
    let expected = [r#"1={"id":1,"a":"x \" ]} y"}"#, r#"b={"id":"b","n":[1,{"m":2}]}"#];
    let first = "{ \"id\": 1,\n  \"a\": \"x \\\" ]} y\" }";
    let second = "{\"id\":\"b\",\t\"n\":[1, {\"m\" : 2}]}";
    for text in [
        format!("[{first},{second}]"),
        format!(" [\n  {first} ,\n  {second}\n]\n"),
        format!("{first}\n{second}\n"),
        format!("{first}{second}"),
    ] {
        assert_eq!(good(&text), expected, "{text}");
    }
    for text in ["", " \n", "[]", "[ ]\n"] {
        assert!(good(text).is_empty());
    }
}

#[test]
fn a_bad_element_is_named_and_the_next_one_is_read() {
    let text = "[{\"id\":1},\n  7,\n  \"]\",\n  [1,2], null,{\"id\":}, {}, {\"id\":2}]";
    let found = good(text);
    assert_eq!(found[0], "1={\"id\":1}");
    for (index, start) in [
        (1, "line 2, column 3: "),
        (2, "line 3, column 3: "),
        (3, "line 4, column 3: "),
        (4, "line 4, column 10: "),
    ] {
        assert!(
            found[index].starts_with(start) && found[index].contains("JSON object"),
            "{found:?}"
        );
    }
    assert!(found[5].starts_with("line 4, column 21: expected value"), "{found:?}");
    assert!(found[6].contains("no field to take the key from"), "{found:?}");
    assert_eq!(found[7], "2={\"id\":2}");
}

#[test]
fn what_is_no_array_ends_where_it_breaks() {
    for (text, records, error) in [
        ("[{\"id\":1}", 1, "line 1, column 10: the input ends inside the array"),
        ("[{\"id\":1},", 1, "line 1, column 11: the input ends inside the array"),
        ("[{\"id\":1},]", 1, "line 1, column 11: expected a JSON object"),
        ("[{\"id\":1}\n{\"id\":2}]", 1, "line 2, column 1: expected `,` or `]`"),
        ("[{\"id\":1}] x", 1, "line 1, column 12: text after the array"),
        ("[{\"id\":1},{\"id\":\"", 1, "line 1, column 18: the input ends inside a value"),
        ("{\"id\":1},{\"id\":2}", 1, "line 1, column 9: expected a JSON object"),
    ] {
        let (found, broken) = read(&KeyRule::First, text);
        assert_eq!((found.len(), broken.as_deref()), (records, Some(error)), "{text}");
    }
}

#[test]
fn a_record_is_bounded() {
    let text = format!("[{{\"id\":\"{}\"}}]", "x".repeat(1 << 21));
    let (found, error) = read(&KeyRule::First, &text);
    assert!(found.is_empty() && error.unwrap().contains("longer than"));
}

#[test]
fn the_line_as_a_key_is_the_number_of_the_record() {
    let (found, _) = read(&KeyRule::Line, "[{},{}\n,{}]");
    assert_eq!(found, ["0000000001={}", "0000000002={}", "0000000003={}"]);
}
