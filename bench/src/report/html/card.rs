//! The card of a row: its description, its leader, bars, curves and tables.

use crate::report::html::{bars, lines, tables};
use crate::report::markup::{escape, slug};
use crate::report::numbers::{factor, whole};
use crate::report::ranking::{Group, Verdict};
use crate::result::Row;

/// The card of `group`.
pub fn render(group: &Group<'_>) -> String {
    let id = slug(&[group.suite, group.row]);
    let about = group.definition.map_or("", |definition| &definition.about);
    let curves = lines::latency(group) + &lines::throughput(group);
    let curves =
        if curves.is_empty() { curves } else { format!("<div class=plots>{curves}</div>") };
    format!(
        "<article class=card id=\"{id}\"><header><div><h3><a href=\"#{id}\">{}</a> \
         <small>{}</small></h3><p>{}</p></div>{}</header><p class=meta>{}</p>{}{curves}{}{}\
         </article>",
        escape(group.row),
        group.size().unwrap_or_default(),
        escape(about),
        verdict(group),
        meta(group),
        bars::render(group),
        tables::cost(group),
        tables::rest(group),
    )
}

/// The verdict on SiltDB, as a badge for each class that it takes part in.
fn verdict(group: &Group<'_>) -> String {
    let mut text = String::new();
    for contest in group.contests() {
        let Some(standing) = contest.standing() else { continue };
        let (class, mark) = badge(standing.verdict);
        text += &format!(
            "<p class=\"badge {class}\"><b>{mark} {}</b> <span>{} to {}</span></p>",
            factor(standing.ratio),
            escape(&standing.ours.engine),
            escape(&standing.other.engine),
        );
    }
    format!("<div class=badges>{text}</div>")
}

/// The CSS class and the sign of a verdict, so that colour is never the only mark.
pub fn badge(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Ahead => ("ahead", "▲"),
        Verdict::Level => ("level", "≈"),
        Verdict::Behind => ("behind", "▼"),
    }
}

fn meta(group: &Group<'_>) -> String {
    let measured = |row: &&&Row| row.figure().is_some();
    let Some(row) = group.entries.iter().find(measured).or(group.entries.first()) else {
        return String::new();
    };
    let mut facts = vec![
        match row.threads {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        },
        format!("batch {}", whole(u64::from(row.batch))),
        format!("{} operations", whole(row.ops)),
    ];
    if let (Some(key), Some(value)) = (row.extra.key_bytes, row.extra.value_bytes) {
        facts.push(format!("{key} + {} bytes", whole(u64::from(value))));
    }
    if let Some(state) = &row.extra.state {
        facts.push(escape(state));
    }
    facts.join(" · ")
}
