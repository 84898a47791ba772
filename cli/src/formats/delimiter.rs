//! The delimiter of the fields in csv and tsv, given or detected.
//!
//! It does not split fields itself; see `fields`.

use super::fields::{Fields, Splitter};

#[cfg(test)]
mod tests;

/// Size of the sample for detection, in bytes.
pub const SAMPLE_BYTES: u64 = 16 << 10;

/// Most records of the sample that are examined.
const SAMPLE_RECORDS: usize = 10;

/// The character that separates the fields of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delimiter(u8);

impl Delimiter {
    /// The delimiter of csv.
    pub const COMMA: Self = Self(b',');
    /// The delimiter of tsv.
    pub const TAB: Self = Self(b'\t');
    /// Candidates for detection, in order of preference.
    pub const FOUND_OUT: [Self; 4] = [Self::COMMA, Self::TAB, Self(b';'), Self(b'|')];

    /// Parses a delimiter: an ASCII character, `tab` or `\t`.
    ///
    /// # Errors
    /// A message that says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            b"tab" | b"\\t" => Ok(Self::TAB),
            [b'"' | b'\n' | b'\r'] => {
                Err("a quotation mark or line end cannot separate fields".to_owned())
            }
            [byte] if byte.is_ascii() => Ok(Self(*byte)),
            _ => Err("expected one ASCII character, or `tab`".to_owned()),
        }
    }

    /// Returns the delimiter as a byte.
    pub fn byte(self) -> u8 {
        self.0
    }

    /// Returns the name of the delimiter in messages.
    pub fn name(self) -> String {
        if self == Self::TAB { "tab".to_owned() } else { format!("`{}`", char::from(self.0)) }
    }

    /// Detects the delimiter of the input that begins with `sample`, which may end anywhere:
    ///
    /// 1. Each candidate splits the header and at most nine records after it.
    /// 2. The candidate with the most fields wins, if it has at least two, and the same number in
    ///    each record. Among equals, the first in [`Delimiter::FOUND_OUT`] wins.
    /// 3. Otherwise the same rule applies to candidates that give no record more fields than the
    ///    header.
    /// 4. Otherwise it is a comma.
    pub fn find(sample: &[u8]) -> Self {
        let is_whole = (sample.len() as u64) < SAMPLE_BYTES;
        let counts: Vec<(Self, Vec<usize>)> = Self::FOUND_OUT
            .into_iter()
            .map(|candidate| (candidate, field_counts(candidate, sample, is_whole)))
            .collect();
        let most = |fits: fn(usize, usize) -> bool| {
            let mut best: Option<(Self, usize)> = None;
            for (candidate, counts) in &counts {
                let Some((&header, records)) = counts.split_first() else { continue };
                let is_better = best.is_none_or(|(_, most)| header > most);
                if header >= 2 && is_better && records.iter().all(|count| fits(*count, header)) {
                    best = Some((*candidate, header));
                }
            }
            best.map(|(candidate, _)| candidate)
        };
        let equal = most(|count, header| count == header);
        equal.or_else(|| most(|count, header| count <= header)).unwrap_or(Self::COMMA)
    }
}

/// Counts the fields of the first records in `sample`.
fn field_counts(delimiter: Delimiter, sample: &[u8], is_whole: bool) -> Vec<usize> {
    let mut splitter = Splitter::new(delimiter.byte());
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
