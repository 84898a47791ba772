//! A bar for each engine of a row, with whiskers from the slowest to the fastest run.
//!
//! The list reads as text without the bars: name, figure, range.

use crate::report::markup::{SWATCH, class, escape, name};
use crate::report::numbers::{factor, rate, whole};
use crate::report::ranking::{Contest, Group, is_ours};
use crate::result::{Arm, Definition, Durability, Published, Row, Spread, Status};

/// The bars of all contests of a row, then the engines without a bar.
pub fn render(group: &Group<'_>) -> String {
    let contests = group.contests();
    let scale = group.figure_max();
    let mut text = String::from("<div class=bars>");
    for contest in &contests {
        if contests.len() > 1 {
            text += &format!("<h4>{}</h4>", heading(contest));
        }
        text += "<ol>";
        for (index, (row, figure)) in contest.ranked.iter().enumerate() {
            let mark =
                if index == 0 && contest.ranked.len() > 1 { lead(contest) } else { String::new() };
            text += &bar(row, *figure, scale, group.definition, &mark);
        }
        text += "</ol>";
    }
    text += &format!("</div><p class=key>{}</p>", key(group));
    text + &elsewhere(group) + &without(group)
}

/// The meaning of the bars.
fn key(group: &Group<'_>) -> &'static str {
    let figures = || group.entries.iter().filter(|row| row.figure().is_some());
    if figures().next().is_none() {
        return "No engine has a figure.";
    }
    if group.writes() {
        return "Operations a second until background work has settled; whiskers from the slowest \
                to the fastest run.";
    }
    "Operations a second; whiskers from the slowest to the fastest run."
}

/// The common properties of the engines of a contest.
fn heading(contest: &Contest<'_>) -> String {
    let class = match contest.durability {
        None => "reads <span>– durability plays no part</span>",
        Some(Durability::Memory) => "memory <span>– acknowledged in user space</span>",
        Some(Durability::Process) => "process <span>– survives kill -9</span>",
        Some(Durability::Power) => "power <span>– survives power loss</span>",
    };
    match contest.arm {
        Arm::Equal => class.to_owned(),
        Arm::Defaults => format!("{class} <span>– each engine’s own defaults</span>"),
    }
}

fn lead(contest: &Contest<'_>) -> String {
    let lead = contest.lead().map(|(_, ratio)| factor(ratio));
    lead.map_or_else(String::new, |lead| {
        format!("<b class=lead title=\"leads the second by {lead}\"><span>leads </span>{lead}</b>")
    })
}

fn bar(
    row: &Row,
    figure: Spread,
    scale: f64,
    definition: Option<&Definition>,
    mark: &str,
) -> String {
    let at = |value: f64| if scale > 0.0 { 100.0 * value / scale } else { 0.0 };
    let Spread { median, min, max } = figure;
    let range = format!("{}–{}", rate(min), rate(max));
    let ours = if is_ours(&row.engine) { " ours" } else { "" };
    let arm = if row.arm == Arm::Defaults { " defaults" } else { "" };
    let mut shapes =
        format!("<rect class=f x=0 y=5 width=\"{:.2}%\" height=14 rx=2 />", at(median));
    if max > min {
        let (low, high) = (at(min), at(max));
        shapes += &format!(
            "<g class=w><line x1=\"{low:.2}%\" x2=\"{high:.2}%\" y1=12 y2=12 />\
             <line x1=\"{low:.2}%\" x2=\"{low:.2}%\" y1=8 y2=16 />\
             <line x1=\"{high:.2}%\" x2=\"{high:.2}%\" y1=8 y2=16 /></g>"
        );
    }
    for (value, label) in published(definition, &row.engine) {
        if value <= scale {
            shapes += &format!(
                "<svg x=\"{:.2}%\" y=12 overflow=visible><path class=p \
                 d=\"M0-7L5 0L0 7L-5 0Z\"><title>{label}</title></path></svg>",
                at(value)
            );
        }
    }
    let capped = if row.status == Status::Capped { "<em class=pill>capped</em>" } else { "" };
    format!(
        "<li class=\"{}{ours}{arm}\"><span class=n>{SWATCH}{}</span>\
         <span class=t title=\"{range}\"><svg width=\"100%\" height=24 aria-hidden=true>{shapes}\
         </svg></span><span class=v><b>{}</b> <span class=r>{range}</span>{capped}{mark}\
         </span></li>",
        class(&row.engine),
        name(row),
        rate(median),
    )
}

/// Published figures of `engine`: value and escaped label.
fn published(definition: Option<&Definition>, engine: &str) -> Vec<(f64, String)> {
    let all = definition.map_or(&[][..], |definition| &definition.published);
    all.iter()
        .filter(|published| published.engine == engine)
        .map(|published| {
            let label =
                format!("published: {} {} {}", published.engine, published.version, published.part);
            (
                published.ops_per_s,
                escape(&format!("{} {}", label.trim(), rate(published.ops_per_s))),
            )
        })
        .collect()
}

/// Published figures, also of engines that took no part.
fn elsewhere(group: &Group<'_>) -> String {
    let Some(definition) = group.definition.filter(|known| !known.published.is_empty()) else {
        return String::new();
    };
    let one = |published: &Published| {
        let of = [&published.engine, &published.version, &published.part].map(|part| escape(part));
        let words: Vec<String> = of.into_iter().filter(|part| !part.is_empty()).collect();
        format!("{} <b>{}</b>", words.join(" "), rate(published.ops_per_s))
    };
    let all: Vec<String> = definition.published.iter().map(one).collect();
    let size = definition.published.first().map_or_else(String::new, size);
    format!(
        "<p class=elsewhere><svg width=12 height=14 aria-hidden=true><path class=p \
         d=\"M6 0L11 7L6 14L1 7Z\" /></svg> Published, on other machines{size}: {}</p>",
        all.join(" · ")
    )
}

/// The threads and keys of a published figure, if known.
fn size(published: &Published) -> String {
    let threads = published.threads.map(|threads| match threads {
        1 => "1 thread".to_owned(),
        more => format!("{more} threads"),
    });
    let keys = published.keys.map(|keys| format!("{} keys", whole(keys)));
    let parts: Vec<String> = threads.into_iter().chain(keys).collect();
    if parts.is_empty() { String::new() } else { format!(", with {}", parts.join(" and ")) }
}

/// Engines without a figure or with a partial one, and the reasons.
fn without(group: &Group<'_>) -> String {
    let mut text = String::new();
    for row in group.entries.iter().filter(|row| row.status != Status::Ok) {
        let reason = row.reason.as_deref().unwrap_or("no reason given");
        text += &format!(
            "<li class=\"{}\"><span class=n>{SWATCH}{}</span><span><em class=\"pill {}\">{}</em> \
             {}</span></li>",
            class(&row.engine),
            name(row),
            row.status.word(),
            row.status.word().replace('_', " "),
            escape(reason)
        );
    }
    if text.is_empty() { text } else { format!("<ul class=without>{text}</ul>") }
}
