//! Writes quantities for display: three significant digits, a unit, a dash for an unknown value.
//!
//! It does not round compared values; verdicts use the figures themselves.

/// The text for a value that was not measured.
pub const NONE: &str = "–";

const RATES: [(f64, &str); 4] = [(1e9, "G"), (1e6, "M"), (1e3, "K"), (1.0, "")];
const BYTES: [(f64, &str); 5] =
    [(1e12, " TB"), (1e9, " GB"), (1e6, " MB"), (1e3, " KB"), (1.0, " B")];
const TIMES: [(f64, &str); 4] = [(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")];

/// A rate a second, such as `1.62M`.
pub fn rate(value: f64) -> String {
    scaled(value, &RATES)
}

/// A size in bytes, in powers of 1,000.
pub fn bytes(value: f64) -> String {
    scaled(value, &BYTES)
}

/// A time given in nanoseconds.
pub fn time(ns: f64) -> String {
    scaled(ns, &TIMES)
}

/// A factor, such as `1.62×`.
pub fn factor(value: f64) -> String {
    format!("{}×", digits(value))
}

/// A share of one as a percentage.
pub fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// A whole number with separators.
pub fn whole(value: u64) -> String {
    let plain = value.to_string();
    let mut text = String::new();
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `value` written by `write`, or a dash.
pub fn or_none<T>(value: Option<T>, write: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), write)
}

/// A duration in words.
#[must_use]
pub fn words(seconds: u64) -> String {
    match seconds {
        0..90 => format!("{seconds} s"),
        90..5400 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

/// The day and minute of a time in seconds since 1970-01-01 UTC.
///
/// The calendar is Howard Hinnant's `civil_from_days`.
pub fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", rest / 3600, rest % 3600 / 60)
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    // A value that rounds up to 1,000 of a unit is 1 of the next.
    let fits = |(unit, _): &&(f64, &str)| value.abs() >= unit * 0.9995;
    let (unit, name) = units.iter().find(fits).unwrap_or(&units[units.len() - 1]);
    format!("{}{name}", digits(value / unit))
}

/// Three significant digits, without zeros at the end.
#[must_use]
pub fn digits(value: f64) -> String {
    let size = value.abs();
    let places = match size {
        _ if size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.01 || size == 0.0 => 2,
        _ => 4,
    };
    let text = format!("{value:.places$}");
    if !text.contains('.') {
        return text;
    }
    if value.fract() == 0.0 { format!("{value:.0}") } else { text }
}

#[cfg(test)]
mod tests;
