//! The pages of the project with results: README, `docs/benchmarks.md`, the charts, and the index
//! of result files. They are written from one results file of the suite `claims`, and the table of
//! transactions from one of the suite `transactions`.
//!
//! In a page, the lines between `<!-- generated: NAME -->` and `<!-- /generated -->` are replaced
//! by the table of that name.

use crate::files::{self, Output};
use crate::report::chart::{ENGINES, Theme, bars, curves};
use crate::report::claims::Claims;
use crate::report::markdown::table;
use crate::report::numbers::date;
use crate::report::transactions::{self, TRANSACTIONS};
use crate::result::Results;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The file of the results that the pages cite.
pub const RESULTS: &str = "docs/results/claims.json.gz";
/// The file of the results of the suite `transactions`.
pub const OF_TRANSACTIONS: &str = "docs/results/transactions.json.gz";
/// The folder of results.
pub const FOLDER: &str = "docs/results";
const INDEX: &str = "docs/results/README.md";
/// The pages with tables.
const PAGES: [&str; 2] = ["README.md", "docs/benchmarks.md"];
const CHARTS: &str = "docs/charts";
const BEGIN: &str = "<!-- generated: ";
const BEGIN_END: &str = " -->";
const END: &str = "<!-- /generated -->";

/// Writes `results`, of the suite `claims` or of `transactions`, into the repository at `root`, and
/// all pages that depend on them and on the stored results of the other suite.
///
/// # Errors
/// A message that names the file, if one cannot be read or written or lacks a marker.
pub fn write(root: &Path, results: &Results) -> Result<(), String> {
    let is_other = results.rows.iter().any(|row| row.suite == TRANSACTIONS);
    let (pages, path) = if is_other {
        (pages(root, &files::read(&root.join(RESULTS))?, Some(results))?, OF_TRANSACTIONS)
    } else {
        (pages(root, results, stored_transactions(root)?.as_ref())?, RESULTS)
    };
    fs::create_dir_all(root.join(CHARTS)).map_err(|error| format!("{CHARTS}: {error}"))?;
    Output::open(&root.join(path))?.write(&results.to_json())?;
    let index = (root.join(INDEX), index(root)?);
    pages.iter().chain([&index]).try_for_each(|(path, text)| Output::open(path)?.write(text))
}

/// The stored results of the suite `transactions` below `root`, if there are any.
///
/// # Errors
/// As [`write()`].
pub fn stored_transactions(root: &Path) -> Result<Option<Results>, String> {
    let path = root.join(OF_TRANSACTIONS);
    path.exists().then(|| files::read(&path)).transpose()
}

/// Every page except the index, with the contents that these results require, and those of
/// transactions, if there are any.
///
/// # Errors
/// As [`write()`].
pub fn pages(
    root: &Path,
    results: &Results,
    of_transactions: Option<&Results>,
) -> Result<Vec<(PathBuf, String)>, String> {
    let claims = Claims::of(results)?;
    let mut tables = claims.tables();
    if let Some(results) = of_transactions {
        tables.push((TRANSACTIONS, transactions::render(results)?));
    }
    let mut pages = Vec::new();
    for page in PAGES {
        let path = root.join(page);
        let text = fs::read_to_string(&path).map_err(|error| format!("{page}: {error}"))?;
        let text = filled(&text, &tables).map_err(|message| format!("{page}: {message}"))?;
        pages.push((path, text));
    }
    let engines = ENGINES.map(str::to_owned);
    for (theme, name) in [(Theme::Light, "light"), (Theme::Dark, "dark")] {
        let path = |what: &str| root.join(CHARTS).join(format!("{what}-{name}.svg"));
        pages.push((path("workloads"), bars(results, &claims.charted(), &engines, theme)));
        if let Some(group) = claims.curve() {
            pages.push((path("sustained"), curves(results, group, &engines, theme)));
        }
    }
    Ok(pages)
}

/// `text` with the tables between its markers.
fn filled(text: &str, tables: &[(&str, String)]) -> Result<String, String> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(BEGIN_END).ok_or("a marker does not end")?;
        let unknown = || format!("no table is called `{name}`");
        let (_, table) = tables.iter().find(|(known, _)| *known == name).ok_or_else(unknown)?;
        let (_, after) = after.split_once(END).ok_or_else(|| format!("`{name}` has no end"))?;
        filled += &format!("{before}{BEGIN}{name}{BEGIN_END}\n{table}{END}");
        rest = after;
    }
    Ok(filled + rest)
}

/// The index of the results that are kept below `root`.
///
/// # Errors
/// A message that names the file that cannot be read.
pub fn index(root: &Path) -> Result<String, String> {
    let folder = fs::read_dir(root.join(FOLDER)).map_err(|error| format!("{FOLDER}: {error}"))?;
    let paths = folder.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "gz")).collect();
    paths.sort();
    let mut lines = Vec::new();
    for path in paths {
        let results = files::read(&path)?;
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let commit = if results.commit.is_empty() { "not kept" } else { &results.commit };
        lines.push(vec![
            format!("[{name}]({name})"),
            date(results.created),
            commit.to_owned(),
            format!("{} ({} cores)", results.machine.cpu, results.machine.cores),
            format!("`{}`", results.options.command),
        ]);
    }
    let table = table(&["file", "began", "commit", "machine", "command"], lines.into_iter());
    Ok(format!(
        "# Results\n\nEach file is what one `silt-bench run` wrote; `silt-bench report FILE` \
         shows it. `silt-bench report --into` writes this index.\n\n{table}"
    ))
}

#[cfg(test)]
mod tests;
