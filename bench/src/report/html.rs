//! Results as one self-contained page of HTML: charts are inline SVG, and no script runs.
//!
//! Text is HTML, and shapes are SVG with coordinates that are percentages or stretch, so that
//! letters keep their size on a phone. Each chart has a table beside it with the same figures.

mod bars;
mod lines;
mod tables;
mod card;
mod overview;

use crate::report::markup::{escape, slug};
use crate::report::ranking::{groups, suites};
use crate::result::Results;

const STYLE: &str = include_str!("html/style.css");

/// Renders the whole page.
pub fn render(results: &Results) -> String {
    let groups = groups(results);
    let mut body = overview::head(results, &groups);
    body += &overview::chips(results, &groups);
    body += "<main>";
    body += &overview::glance(&groups);
    for (suite, rows) in suites(&groups) {
        let known = results.suites.iter().find(|known| known.suite == suite);
        let about = known.map_or("", |known| &known.about);
        body += &format!(
            "<section class=suite><h2 id=\"{}\">{}</h2><p class=about>{}</p>",
            slug(&[suite]),
            escape(suite),
            escape(about)
        );
        rows.iter().for_each(|group| body += &card::render(group));
        body += "</section>";
    }
    body += &overview::limits(&results.limits);
    body += &overview::conditions(results);
    body += "</main>";
    format!(
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
         <meta name=color-scheme content=\"light dark\">\n\
         <title>silt-bench: {}</title>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n{body}\n\
         </body>\n</html>\n",
        escape(&overview::title(&groups)),
        overview::filters(&groups),
    )
}

#[cfg(test)]
mod tests;
