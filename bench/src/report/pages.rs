//! The pages of the project with results: README, `docs/benchmarks.md`,
//! `docs/benchmarks-published.md`, the charts, and the index of result files. They are written from
//! stored results: of the suite `claims`, of `transactions`, and of published comparisons.
//!
//! In a page, the lines between `<!-- generated: NAME -->` and `<!-- /generated -->` are replaced
//! by the table of that name.

use crate::checkout::Checkout;
use crate::files::{self, Output};
use crate::report::chart::{ENGINES, Theme, bars, curves};
use crate::report::claims::Claims;
use crate::report::markdown::table;
use crate::report::numbers::date;
use crate::report::published::{Comparison, PUBLISHED};
use crate::report::transactions::{self, TRANSACTIONS};
use crate::result::Results;
use crate::suite::CLAIMS;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The file of the results that the pages cite.
pub const RESULTS: &str = "docs/results/claims.json.gz";
/// The file of the results of the suite `transactions`.
pub const OF_TRANSACTIONS: &str = "docs/results/transactions.json.gz";
/// The file of the results of the published comparisons.
pub const OF_PUBLISHED: &str = "docs/results/published.json.gz";
/// The folder of results.
pub const FOLDER: &str = "docs/results";
const INDEX: &str = "docs/results/README.md";
/// The pages with tables of claims and transactions.
const PAGES: [&str; 2] = ["README.md", "docs/benchmarks.md"];
/// The page of the published comparisons.
const PUBLISHED_PAGE: &str = "docs/benchmarks-published.md";
const CHARTS: &str = "docs/charts";
const THEMES: [(Theme, &str); 2] = [(Theme::Light, "light"), (Theme::Dark, "dark")];
const BEGIN: &str = "<!-- generated: ";
const BEGIN_END: &str = " -->";
const END: &str = "<!-- /generated -->";

/// The results that the pages show.
#[derive(Debug)]
pub struct Stored {
    /// Those of the suite `claims`.
    pub claims: Results,
    /// Those of the suite `transactions`, if there are any.
    pub transactions: Option<Results>,
    /// Those of the published comparisons, if there are any.
    pub published: Option<Results>,
}

impl Stored {
    /// Reads the results below `root`. `new` replaces those of its suite, and its path is returned.
    ///
    /// # Errors
    /// A message that names the file that cannot be read.
    fn with(root: &Path, new: &Results) -> Result<(Self, &'static str), String> {
        let has = |suite: &str| new.rows.iter().any(|row| row.suite == suite);
        let path = if has(TRANSACTIONS) {
            OF_TRANSACTIONS
        } else if !has(CLAIMS) && PUBLISHED.iter().any(|suite| has(suite)) {
            OF_PUBLISHED
        } else {
            RESULTS
        };
        let read = |stored: &str| -> Result<Option<Results>, String> {
            if stored == path {
                return Ok(Some(new.clone()));
            }
            let stored = root.join(stored);
            stored.exists().then(|| files::read(&stored)).transpose()
        };
        let claims = match read(RESULTS)? {
            Some(claims) => claims,
            None => return Err(format!("{RESULTS} is missing, and comes first")),
        };
        let (transactions, published) = (read(OF_TRANSACTIONS)?, read(OF_PUBLISHED)?);
        Ok((Self { claims, transactions, published }, path))
    }

    /// Asks the checkout how old each of them is.
    fn date(&mut self, checkout: &Checkout) {
        for results in self.each_mut() {
            results.commits_since = checkout.commits_since(&results.commit);
        }
    }

    fn each_mut(&mut self) -> impl Iterator<Item = &mut Results> {
        let others = self.transactions.iter_mut().chain(&mut self.published);
        std::iter::once(&mut self.claims).chain(others)
    }
}

/// Writes `results` into the repository at `root`, and all pages that depend on them and on the
/// stored results of other suites. Figures that are old are marked in these pages.
///
/// # Errors
/// A message that names the file, if one cannot be read or written or lacks a marker.
pub fn write(root: &Path, results: &Results) -> Result<(), String> {
    let (mut stored, path) = Stored::with(root, results)?;
    stored.date(&Checkout::at(root));
    let pages = pages(root, &stored)?;
    fs::create_dir_all(root.join(CHARTS)).map_err(|error| format!("{CHARTS}: {error}"))?;
    Output::open(&root.join(path))?.write(&results.to_json())?;
    let index = (root.join(INDEX), index(root)?);
    pages.iter().chain([&index]).try_for_each(|(path, text)| Output::open(path)?.write(text))
}

/// Every page except the index, with the contents that these results require.
///
/// # Errors
/// As [`write()`].
pub fn pages(root: &Path, stored: &Stored) -> Result<Vec<(PathBuf, String)>, String> {
    let claims = Claims::of(&stored.claims)?;
    let mut tables = claims.tables();
    if let Some(results) = &stored.transactions {
        tables.push((TRANSACTIONS, transactions::render(results)?));
    }
    let mut pages = PAGES
        .map(|page| page_of(root, page, &tables))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let engines = ENGINES.map(str::to_owned);
    for (theme, name) in THEMES {
        let results = &stored.claims;
        pages.push((
            chart(root, "workloads", name),
            bars(results, &claims.charted(), &engines, theme),
        ));
        if let Some(group) = claims.curve() {
            pages.push((chart(root, "sustained", name), curves(results, group, &engines, theme)));
        }
    }
    if let Some(results) = &stored.published {
        pages.extend(published(root, results)?);
    }
    Ok(pages)
}

/// The page of the published comparisons, and a chart of each.
fn published(root: &Path, results: &Results) -> Result<Vec<(PathBuf, String)>, String> {
    let comparisons = Comparison::all(results);
    let tables: Vec<_> = comparisons.iter().map(|one| (one.suite, one.render())).collect();
    let mut pages = vec![page_of(root, PUBLISHED_PAGE, &tables)?];
    for one in &comparisons {
        let groups: Vec<_> = one.groups.iter().collect();
        pages.extend(THEMES.map(|(theme, name)| {
            (chart(root, one.suite, name), bars(results, &groups, &one.engines(), theme))
        }));
    }
    Ok(pages)
}

/// The path of a picture in a theme.
fn chart(root: &Path, what: &str, theme: &str) -> PathBuf {
    root.join(CHARTS).join(format!("{what}-{theme}.svg"))
}

/// A page with the tables between its markers.
fn page_of(
    root: &Path,
    page: &str,
    tables: &[(&str, String)],
) -> Result<(PathBuf, String), String> {
    let path = root.join(page);
    let text = fs::read_to_string(&path).map_err(|error| format!("{page}: {error}"))?;
    let text = filled(&text, tables).map_err(|message| format!("{page}: {message}"))?;
    Ok((path, text))
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
