//! What the start of a csv or tsv input says of its layout.
//!
//! It reads a sample; `csv` reads the records.

use super::dialect::{Delimiter, Dialect, Quote};
use super::fields::{Fields, Splitter};
use super::input::UTF_16;

#[cfg(test)]
mod tests;

/// Size of the sample for detection, in bytes.
pub const SAMPLE_BYTES: u64 = 16 << 10;

/// Most records of the sample that are examined.
const SAMPLE_RECORDS: usize = 10;

/// Start of a first line that names the delimiter, in any case: `sep=;`. Spreadsheets write and
/// follow it.
const SEPARATOR_LINE: &[u8] = b"sep=";

/// Bytes at the start of the sample that tell UTF-16 without a mark.
const UTF_16_BYTES: usize = 8;

/// How an input holds its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The delimiter and the quotes.
    pub dialect: Dialect,
    /// What precedes the header.
    pub preamble: Preamble,
}

/// What precedes the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preamble {
    /// Nothing.
    None,
    /// A line that names the delimiter.
    SeparatorLine,
}

impl Layout {
    /// Detects the layout of a csv input that begins with `sample`, which may end anywhere. A
    /// delimiter that is `given` stays.
    ///
    /// # Errors
    /// The reason, if the text is UTF-16, or the header uses no delimiter but a usual one that does
    /// not fit.
    pub fn of_csv(sample: &[u8], given: Option<Delimiter>, quote: Quote) -> Result<Self, String> {
        refuse_utf_16(sample)?;
        if let Some(delimiter) = separator_line(sample) {
            let dialect = Dialect { delimiter: given.unwrap_or(delimiter), quote };
            return Ok(Self { dialect, preamble: Preamble::SeparatorLine });
        }
        let delimiter = match given {
            Some(delimiter) => delimiter,
            None => find(sample, quote),
        };
        let layout = Self { dialect: Dialect { delimiter, quote }, preamble: Preamble::None };
        if given.is_none() { layout.checked(sample) } else { Ok(layout) }
    }

    /// Returns the layout of a tsv input that begins with `sample`.
    ///
    /// # Errors
    /// As [`Layout::of_csv`].
    pub fn of_tsv(sample: &[u8], given: Option<Delimiter>, quote: Quote) -> Result<Self, String> {
        refuse_utf_16(sample)?;
        let dialect = Dialect { delimiter: given.unwrap_or(Delimiter::TAB), quote };
        let layout = Self { dialect, preamble: Preamble::None };
        if given.is_none() { layout.checked(sample) } else { Ok(layout) }
    }

    /// Refuses a header of one column that another delimiter splits, if it also splits a record.
    fn checked(self, sample: &[u8]) -> Result<Self, String> {
        let counts = |delimiter| {
            let dialect = Dialect { delimiter, ..self.dialect };
            field_counts(dialect, sample)
        };
        if counts(self.dialect.delimiter).first() != Some(&1) {
            return Ok(self);
        }
        for other in Delimiter::DETECTED {
            let counts = counts(other);
            let Some((&count @ 2.., records)) = counts.split_first() else { continue };
            // Where no record has it, it is a character of the name.
            if !records.is_empty() && split(records) == 0 {
                continue;
            }
            let (name, word, own) = (other.name(), other.word(), self.dialect.delimiter.word());
            return Err(format!(
                "the header is one column, but {name} splits it into {count}; --delimiter {word} \
                 splits there, --delimiter {own} takes it as one"
            ));
        }
        Ok(self)
    }
}

/// Returns whether a column of this `name` needs quotes, so that an import of a file in `dialect`
/// with `columns` columns detects this layout. Without them, it would find another delimiter, or
/// take a part of the name for a mark.
pub fn is_unclear(name: &str, dialect: Dialect, columns: usize) -> bool {
    // In tsv the delimiter is not detected, but a header of one column is checked.
    let is_examined = dialect.delimiter != Delimiter::TAB || columns == 1;
    let delimiters = Delimiter::DETECTED.map(|delimiter| char::from(delimiter.byte()));
    (is_examined && name.contains(delimiters))
        || name.starts_with('\u{feff}')
        || separator_line(format!("{name}\n").as_bytes()).is_some()
        || refuse_utf_16(name.as_bytes()).is_err()
}

fn refuse_utf_16(sample: &[u8]) -> Result<(), String> {
    let start = &sample[..sample.len().min(UTF_16_BYTES)];
    let is_zero_at = |parity: usize| {
        start.iter().enumerate().all(|(index, byte)| (*byte == 0) == (index % 2 == parity))
    };
    if start.len() >= UTF_16_BYTES / 2 && (is_zero_at(0) || is_zero_at(1)) {
        return Err(UTF_16.to_owned());
    }
    Ok(())
}

/// Returns the delimiter that the first line of `sample` names.
fn separator_line(sample: &[u8]) -> Option<Delimiter> {
    let (start, rest) = sample.split_at_checked(SEPARATOR_LINE.len())?;
    let [delimiter, b'\n' | b'\r', ..] = rest else { return None };
    let delimiter = std::str::from_utf8(std::slice::from_ref(delimiter)).ok()?;
    let is_named = start.eq_ignore_ascii_case(SEPARATOR_LINE);
    if is_named { Delimiter::parse(delimiter).ok() } else { None }
}

/// Detects the delimiter of the input that begins with `sample`, which may end anywhere:
///
/// 1. Each candidate splits the header and at most nine records after it.
/// 2. The candidate with the most fields wins, if it has at least two, and the same number in
///    each record. Among equals, the first in [`Delimiter::DETECTED`] wins.
/// 3. Otherwise the same rule applies to candidates that give no record more fields than the
///    header, and split at least half of the records. One that the records lack is a character in
///    a name of the header: `name|alias`, then `Ada`, is one column.
/// 4. Otherwise it is a comma.
fn find(sample: &[u8], quote: Quote) -> Delimiter {
    let counts = Delimiter::DETECTED
        .map(|delimiter| (delimiter, field_counts(Dialect { delimiter, quote }, sample)));
    let most = |fit: fn(&[usize], usize) -> bool| {
        let mut best: Option<(Delimiter, usize)> = None;
        for (candidate, counts) in &counts {
            let Some((&header, records)) = counts.split_first() else { continue };
            let is_better = best.is_none_or(|(_, most)| header > most);
            if header >= 2 && is_better && fit(records, header) {
                best = Some((*candidate, header));
            }
        }
        best.map(|(candidate, _)| candidate)
    };
    let equal = most(|records, header| records.iter().all(|count| *count == header));
    let short = |records: &[usize], header| {
        records.iter().all(|count| *count <= header) && 2 * split(records) >= records.len()
    };
    equal.or_else(|| most(short)).unwrap_or(Delimiter::COMMA)
}

/// Counts the records with at least two fields.
fn split(records: &[usize]) -> usize {
    records.iter().filter(|count| **count >= 2).count()
}

/// Counts the fields of the first records in `sample`.
fn field_counts(dialect: Dialect, sample: &[u8]) -> Vec<usize> {
    let is_whole = (sample.len() as u64) < SAMPLE_BYTES;
    let mut splitter = Splitter::new(dialect);
    let (mut rest, mut counts, mut record) = (sample, Vec::new(), Fields::default());
    while counts.len() < SAMPLE_RECORDS {
        record.clear();
        let (used, ended) = splitter.split(rest, &mut record);
        rest = &rest[used..];
        if ended || (is_whole && splitter.finish(&mut record)) {
            counts.push(record.len());
        } else {
            break;
        }
    }
    counts
}
