//! The dialects of csv and tsv: quotes, delimiters, the files of spreadsheets, and gzip.

use crate::place::{Place, Run};
use flate2::{Compression, write::GzEncoder};
use std::fmt::Write as _;
use std::io::Write;

fn import(place: &Place, format: &str, more: &[&str], input: &[u8], exit_code: i32) -> Run {
    let arguments = [&["import", "db", "-", "--format", format], more].concat();
    place.run_with(&arguments, input, exit_code)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut compressed = GzEncoder::new(Vec::new(), Compression::default());
    compressed.write_all(text).expect("a Vec takes any bytes");
    compressed.finish().expect("a Vec takes any bytes")
}

#[test]
fn every_line_of_a_tsv_with_stray_quotes_arrives() {
    let place = Place::new();
    let mut text = "id\ttitle\n".to_owned();
    for n in 0..10_000 {
        let title = match n % 1000 {
            7 => "\"A title that begins with a quote",
            8 => "5\" disk",
            500 => "\"closed\" and more",
            _ => "plain",
        };
        writeln!(text, "{n}\t{title}").unwrap();
    }
    let run = import(&place, "tsv", &[], text.as_bytes(), 0);
    assert_eq!(run.stdout, "imported 10,000 records: 10,000 keys new\n");
    let value = place.ok(&["get", "db", "1007"]);
    assert_eq!(value, "{\"id\":\"1007\",\"title\":\"\\\"A title that begins with a quote\"}\n");
    place.ok(&["export", "db", "out.tsv"]);
    let mut lines: Vec<_> = text.lines().skip(1).collect();
    lines.sort_by_key(|line| line.split('\t').next().map(str::to_owned));
    assert_eq!(place.read("out.tsv"), format!("id\ttitle\n{}\n", lines.join("\n")));
}

#[test]
fn quotes_are_those_that_the_option_says() {
    let place = Place::new();
    import(&place, "tsv", &["--quote", "\""], b"id\ta\n1\t\"x\ty\"\n", 0);
    assert_eq!(place.ok(&["get", "db", "1"]), "{\"id\":\"1\",\"a\":\"x\\ty\"}\n");
    import(&place, "csv", &["--quote", "none"], b"id,a\n2,\"x\n3,y\"\n", 0);
    assert_eq!(place.ok(&["get", "db", "2"]), "{\"id\":\"2\",\"a\":\"\\\"x\"}\n");
    assert_eq!(place.ok(&["get", "db", "3"]), "{\"id\":\"3\",\"a\":\"y\\\"\"}\n");
    import(&place, "csv", &["--quote", "'"], b"id,a\n4,'x,''y'''\n5,\"z\n", 0);
    assert_eq!(place.ok(&["get", "db", "4"]), "{\"id\":\"4\",\"a\":\"x,'y'\"}\n");
    assert_eq!(place.ok(&["get", "db", "5"]), "{\"id\":\"5\",\"a\":\"\\\"z\"}\n");
    import(&place, "csv", &["--quote", "''"], b"", 2).says(&["--quote", "or `none`"]);
    import(&place, "csv", &["--quote", ";", "--delimiter", ";"], b"", 2)
        .says(&["--quote and --delimiter are the same character"]);
    import(&place, "jsonl", &["--quote", "none"], b"", 2).says(&["--quote is for csv and tsv"]);
    let run = import(&place, "csv", &[], b"id,a\n6,\"x\n", 2);
    run.says(&["the input ends inside quotes", "--quote none"]);
}

#[test]
fn fields_over_several_lines_are_counted_and_told() {
    let place = Place::new();
    let text = b"id,a\n1,\"x\r\ny\"\n2,z\n\"3\n\n\",w\n4,\"v\"\n";
    let run = import(&place, "csv", &["--json"], text, 0);
    assert_eq!(run.json()[0]["multiline"], 2);
    let told = "a field of 2 records span lines: 5 lines in all, the first at line 2; \
                --quote none takes quotes as text\n";
    let run = import(&place, "csv", &[], text, 0);
    assert!(run.stdout.ends_with("4 overwritten, 2 over several lines\n"), "{}", run.stdout);
    run.says(&[told]);
    let run = import(&place, "csv", &["--sorted", "--family", "f"], text, 0);
    run.says(&[told]);
    place.run_with(&["table", "-", "t", "--format", "csv"], text, 0).says(&[told]);
    // Records that are left out are not imported, so they are not counted.
    let run = import(&place, "csv", &["--skip", "2"], text, 0);
    run.says(&["a field of 1 record spans lines: 3 lines in all, the first at line 5"]);
    assert!(!import(&place, "csv", &[], b"id,a\n1,\"x\"\n", 0).stderr.contains("span"));
}

#[test]
fn a_tsv_holds_what_its_import_reads_or_is_refused() {
    let place = Place::new();
    place.ok(&["put", "db", "x", "y"]);
    for (key, value, what) in [
        ("k", "a\tb", "field `value` of the key `k` can only be written in quotes"),
        ("k", "a\nb", "field `value` of the key `k` can only be written in quotes"),
        ("a\tb", "v", "field `key` of the key `a\\x09b` can only be written in quotes"),
        ("k", "{\"a\\tb\":\"k\",\"c\":1}", "name `a\\x09b` can only be written in quotes"),
        ("", "{\"a\":\"\"}", "a row of one empty field"),
        ("k", "{\"a,b\":\"k\"}", "name `a,b` can only be written in quotes"),
    ] {
        place.ok(&["delete", "db", "--all"]);
        place.ok(&["put", "db", key, value]);
        let run = place.run(&["export", "db", "out.tsv"], 2);
        run.says(&[what, "--quote '\"'"]);
        assert!(!place.path("out.tsv").exists());
        place.ok(&["export", "db", "quoted.tsv", "--quote", "\""]);
        let quoted = ["import", "again", "quoted.tsv", "--quote", "\"", "--on-duplicate", "fail"];
        place.run(&quoted, 0);
        let found = place.ok(&["scan", "again", "--keys-only", "--escape"]);
        assert_eq!(
            found,
            place.ok(&["scan", "db", "--keys-only", "--escape"]),
            "{key:?} {value:?}"
        );
        place.run(&["destroy", "again", "--yes"], 0);
    }
}

#[test]
fn a_csv_of_a_spreadsheet_is_followed() {
    let place = Place::new();
    let text = "\u{feff}sep=;\r\nid;price;note\r\na;1,5;\"x;y\"\r\n";
    let run = import(&place, "csv", &[], text.as_bytes(), 0);
    run.says(&["fields stand between `;`"]);
    let expected = "{\"id\":\"a\",\"price\":\"1,5\",\"note\":\"x;y\"}\n";
    assert_eq!(place.ok(&["get", "db", "a"]), expected);
    // The line says it also where the fields do not, and in any case of letters.
    import(&place, "csv", &["--key-line"], b"SEP=:\nid,x:b\n1,2,3:4\n", 0);
    assert_eq!(place.ok(&["get", "db", "0000000003"]), "{\"id,x\":\"1,2,3\",\"b\":\"4\"}\n");
    import(&place, "csv", &["--delimiter", ","], b"sep=;\nid,c\nd,2\n", 0);
    assert_eq!(place.ok(&["get", "db", "d"]), "{\"id\":\"d\",\"c\":\"2\"}\n");
    // A column of such a name is exported so that it comes back as one.
    place.ok(&["delete", "db", "--all"]);
    place.ok(&["put", "db", "k", "{\"sep=:\":\"k\"}"]);
    place.ok(&["export", "db", "out.csv"]);
    place.ok(&["import", "again", "out.csv"]);
    assert_eq!(place.ok(&["scan", "again"]), "k\t{\"sep=:\":\"k\"}\n");
}

#[test]
fn a_header_of_another_delimiter_is_refused_by_name() {
    let place = Place::new();
    let text = b"id;a;b\n1;2;3;4\n";
    let hint = "the header is one column, but `;` splits it into 3; --delimiter ';' splits there";
    import(&place, "csv", &[], text, 2).says(&[hint, "--delimiter , takes it as one"]);
    assert!(!place.path("db").exists());
    import(&place, "csv", &["--delimiter", ","], text, 0);
    let run = import(&place, "tsv", &[], b"id,a\n1,2\n", 2);
    run.says(&["the header is one column, but `,` splits it into 2", "--delimiter tab takes it"]);
    import(&place, "tsv", &["--delimiter", ","], b"id,a\nz,2\n", 0);
    assert_eq!(place.ok(&["get", "db", "z"]), "{\"id\":\"z\",\"a\":\"2\"}\n");
    import(&place, "csv", &[], b"\"a;b\"\n1\n", 0);
}

#[test]
fn one_column_may_have_a_delimiter_in_its_name() {
    let place = Place::new();
    for (number, name) in ["a|b", "a;b", "a\tb"].iter().enumerate() {
        let text = format!("{name}\nx{number}\ny\n");
        import(&place, "csv", &[], text.as_bytes(), 0);
        let key = format!("x{number}");
        let value = serde_json::json!({ *name: key }).to_string();
        assert_eq!(place.ok(&["get", "db", &key]), format!("{value}\n"));
    }
}

#[test]
fn a_file_named_as_gzip_is_gzip_or_refused() {
    let place = Place::new();
    let hint = "`silt import DB - --format";
    for (name, content) in [
        ("text.csv.gz", &b"id,a\n1,2\n"[..]),
        ("text.CSV.GZ", b"id,a\n1,2\n"),
        ("text.jsonl.gz", b"{\"id\": \"1\"}\n"),
        ("text.json.gz", b"[]"),
        ("text.lines.gz", b"k\tv\n"),
        ("empty.csv.gz", b""),
        ("short.csv.gz", b"\x1f"),
        ("method.csv.gz", b"\x1f\x8b\x07......."),
    ] {
        place.write(name, content);
        let run = place.run(&["import", "db", name], 2);
        run.says(&[name, "not gzip, as the name of the file says", hint]);
        assert!(!place.path("db").exists());
    }
    place.run(&["import", "db", "text.csv.gz", "--format", "csv"], 2).says(&[hint]);
    place.run(&["table", "text.csv.gz", "out.table"], 2).says(&["not gzip"]);
    place.write("other.csv.gz", b"\x28\xb5\x2f\xfd....");
    place.run(&["import", "db", "other.csv.gz"], 2).says(&["compressed by zstd"]);
    // The way that the hint names.
    place.run_with(&["import", "db", "-", "--format", "csv"], b"id,a\n1,2\n", 0);
    // Gzip is read whatever the name says.
    for name in ["whole.csv.gz", "WHOLE.CSV.GZ", "whole.csv"] {
        place.write(name, [gzip(b"id,a\n3,4\n"), gzip(b"5,6\n")].concat());
        let run = place.run(&["import", "db", name], 0);
        assert!(run.stdout.starts_with("imported 2 records"), "{}", run.stdout);
    }
    // Lines hold any bytes, so that the name alone tells.
    place.write("whole.LINES.GZ", gzip(b"k\tv\n"));
    place.run(&["import", "db", "whole.LINES.GZ"], 0);
    assert_eq!(place.ok(&["get", "db", "k"]), "v\n");
    let whole = gzip(b"id,a\n7,8\n");
    for cut in 3..whole.len() {
        place.write("cut.csv.gz", &whole[..cut]);
        place.run(&["import", "db", "cut.csv.gz"], 1).says(&["cannot read cut.csv.gz"]);
    }
    place.write("none.jsonl.gz", gzip(b""));
    place.run(&["import", "db", "none.jsonl.gz"], 0);
    for name in ["out.csv.gz", "out.csv.GZ"] {
        place.ok(&["export", "db", name]);
        assert!(std::fs::read(place.path(name)).unwrap().starts_with(b"\x1f\x8b"));
    }
}

#[test]
fn other_encodings_and_compressions_are_refused_by_name() {
    let place = Place::new();
    let utf16: Vec<u8> = "id,a\n1,2\n".bytes().flat_map(|byte| [byte, 0]).collect();
    import(&place, "csv", &[], &utf16, 2).says(&["the text is UTF-16; convert it to UTF-8"]);
    import(&place, "csv", &[], &[&[0], &utf16[..]].concat(), 2).says(&["the text is UTF-16"]);
    let run = import(&place, "csv", &[], b"id,a\n1,caf\xe9\n", 2);
    run.says(&["line 2, column 2: not valid UTF-8", "iconv -f WINDOWS-1252 -t UTF-8"]);
    for (start, name) in [
        (&b"\x28\xb5\x2f\xfd...."[..], "zstd"),
        (b"\xfd7zXZ\0......", "xz"),
        (b"BZh91AY&SY......", "bzip2"),
        (b"PK\x03\x04........", "zip, as the workbooks of spreadsheets are"),
    ] {
        import(&place, "csv", &[], start, 2).says(&[&format!("the input is compressed by {name}")]);
    }
    import(&place, "csv", &[], b"id;;;\n1;;;\n", 2).says(&["columns 2 and 3 have no name"]);
}

#[test]
fn gzip_is_read_as_gunzip_reads_it() {
    let place = Place::new();
    let (first, second) = (gzip(b"id,a\n1,2\n"), gzip(b"3,4\n5,6\n"));
    let whole = [&first[..], &second].concat();
    let run = import(&place, "csv", &[], &whole, 0);
    assert_eq!(
        (run.stdout.as_str(), run.stderr.contains("warning")),
        ("imported 3 records: 3 keys new\n", false,)
    );
    // Padding by zeros, as tapes and block devices have it.
    let padded = [&whole[..], &[0; 1000]].concat();
    let run = import(&place, "csv", &[], &padded, 0);
    assert_eq!(
        (run.stdout.as_str(), run.stderr.as_str()),
        (
            "imported 3 records: 0 keys new, 3 overwritten\n",
            "warning: 3 of 3 records replaced a value that was there already\n",
        )
    );
    for garbage in [&b"garbage"[..], b"\0\0x", b"\x1f"] {
        let run = import(&place, "csv", &[], &[&whole[..], garbage].concat(), 0);
        assert!(run.stdout.starts_with("imported 3 records"), "{}", run.stdout);
        run.says(&["warning: bytes after the compressed data are ignored"]);
    }
    for cut in 3..whole.len() {
        // A cut between the members leaves the first one whole.
        if cut != first.len() && cut != first.len() + 1 {
            import(&place, "csv", &[], &whole[..cut], 1).says(&["cannot read stdin"]);
        }
    }
    let mut damaged = whole.clone();
    let checksum = first.len() - 8;
    damaged[checksum] ^= 1;
    import(&place, "csv", &[], &damaged, 1).says(&["cannot read stdin"]);
}
