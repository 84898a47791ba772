//! The parts of the page around the rows: the head, the choice of engines, all rows at a glance,
//! the limits of the machine, and the conditions of the run.

use crate::report::html::card::badge;
use crate::report::markup::{SWATCH, class, escape, slug, table};
use crate::report::numbers::{NONE, bytes, date, factor, or_none, percent, rate, time, whole};
use crate::report::ranking::{Contest, Group, Standing, Verdict, is_ours};
use crate::result::{Engine, Limit, LimitUnit, Machine, Options, Results, Row, Status};

/// The title of the page.
pub fn title(groups: &[Group<'_>]) -> String {
    let others = engines(groups).iter().filter(|engine| !is_ours(engine)).count();
    match others {
        0 => "SiltDB measured".to_owned(),
        1 => "SiltDB and one other engine, side by side".to_owned(),
        others => format!("SiltDB and {others} other engines, side by side"),
    }
}

/// Engines with at least one figure, in the order of the report.
fn engines<'a>(groups: &[Group<'a>]) -> Vec<&'a str> {
    let mut engines: Vec<&str> = Vec::new();
    for row in groups.iter().flat_map(|group| &group.entries) {
        if row.figure().is_some() && !engines.contains(&&row.engine[..]) {
            engines.push(&row.engine);
        }
    }
    engines
}

/// The head of the page: the machine, the run, and the outcome in four numbers.
pub fn head(results: &Results, groups: &[Group<'_>]) -> String {
    let (machine, options) = (&results.machine, &results.options);
    let runs = if options.repeat == 1 {
        "one run".to_owned()
    } else {
        format!("median of {} runs{}", options.repeat, options.run_once())
    };
    format!(
        "<header class=top><p class=over>silt-bench</p><h1>{}</h1><p class=meta>{} · {} · {} \
         cores · scale {} · {runs}</p>{}</header>",
        escape(&title(groups)),
        date(results.created),
        escape(&machine.cpu),
        machine.cores,
        options.scale,
        tiles(results, groups),
    )
}

fn tiles(results: &Results, groups: &[Group<'_>]) -> String {
    let contests: Vec<Contest<'_>> = groups.iter().flat_map(Group::contests).collect();
    let standings: Vec<Standing<'_>> = contests.iter().filter_map(Contest::standing).collect();
    let count = |verdict| standings.iter().filter(|of| of.verdict == verdict).count();
    let (ahead, level, behind) =
        (count(Verdict::Ahead), count(Verdict::Level), count(Verdict::Behind));
    let checked: u64 =
        results.rows.iter().filter_map(|row| row.verified).map(|of| of.checked).sum();
    let figures = results.rows.iter().filter(|row| row.figure().is_some()).count();
    let ended = |status| results.rows.iter().filter(|row| row.status == status).count();
    let tile = |figure: String, text: String| format!("<li><b>{figure}</b> {text}</li>");
    let first = match standings.len() {
        0 => tile(
            groups.len().to_string(),
            "rows, without another engine to compare with".to_owned(),
        ),
        compared => tile(
            format!("{ahead}<small> of {compared}</small>"),
            format!("comparisons won by siltdb; {level} level within noise, {behind} lost"),
        ),
    };
    [
        "<ul class=tiles>".to_owned(),
        first,
        tile(figures.to_string(), "figures, each of a run whose answers were all right".to_owned()),
        tile(rate(checked as f64), format!("answers checked <small>({})</small>", whole(checked))),
        tile(
            ended(Status::Failed).to_string(),
            format!(
                "failed; {} capped, {} not supported, {} not run",
                ended(Status::Capped),
                ended(Status::Unsupported),
                ended(Status::NotRun)
            ),
        ),
        "</ul>".to_owned(),
    ]
    .concat()
}

/// A check box for each engine: the legend, and the filter of the page.
pub fn chips(results: &Results, groups: &[Group<'_>]) -> String {
    let mut text = String::from("<nav class=chips aria-label=\"engines shown\">");
    for engine in engines(groups) {
        let known = results.engines.iter().find(|known| known.engine == engine);
        let version = known.map_or("", |known| &known.version);
        text += &format!(
            "<label class=\"c-{0}\"><input type=checkbox id=\"show-{0}\" checked>\
             <span class=\"e-{0}\">{SWATCH}</span>{1} <small>{2}</small></label>",
            slug(&[engine]),
            escape(engine),
            escape(version)
        );
    }
    text + "</nav>"
}

/// The CSS rules that hide an engine that is not checked.
pub fn filters(groups: &[Group<'_>]) -> String {
    let mut text = String::new();
    for engine in engines(groups) {
        let slug = slug(&[engine]);
        text += &format!("body:has(#show-{slug}:not(:checked)) .e.e-{slug}{{display:none}}\n");
    }
    text
}

/// All rows on one screen.
pub fn glance(groups: &[Group<'_>]) -> String {
    let has_standing =
        |group: &Group<'_>| group.contests().iter().any(|contest| contest.standing().is_some());
    if groups.iter().any(has_standing) { balances(groups) } else { figures(groups) }
}

/// A line for each figure, if there is no comparison.
fn figures(groups: &[Group<'_>]) -> String {
    let mut lines = Vec::new();
    for group in groups {
        for row in &group.entries {
            let (Some(figure), latency) = (row.figure(), row.latency_ns) else {
                lines.push((class(&row.engine), vec![link(group), why(row)]));
                continue;
            };
            let part = |part: Option<f64>| or_none(part, time);
            let size = |value: Option<u64>| or_none(value, |value| bytes(value as f64));
            let cells = vec![
                link(group),
                format!("<b>{}</b> <small>{}</small>", rate(figure.median), escape(&row.engine)),
                part(latency.map(|latency| latency.p50)),
                part(latency.and_then(|latency| latency.p99)),
                part(latency.map(|latency| latency.max)),
                size(row.peak_rss_bytes),
                size(row.db_bytes),
                or_none(row.share_of_limit(), |of| percent(of.share)),
            ];
            lines.push((class(&row.engine), cells));
        }
    }
    let header =
        ["row", "ops/s", "p50", "p99", "longest", "peak memory", "on disk", "of the limit"];
    format!(
        "<section><h2 id=glance>At a glance</h2><p class=about>Operations a second, how long a \
         call took, and what it needed. For other engines beside it: <code>silt-bench demo\
         </code>.</p><div class=\"glance alone\">{}</div></section>",
        table("All rows", &header, &lines)
    )
}

/// A row's name as a link to its card, and its size.
fn link(group: &Group<'_>) -> String {
    format!(
        "<a href=\"#{}\">{}</a> <small>{}{}</small>",
        slug(&[group.suite, group.row]),
        escape(group.row),
        escape(group.suite),
        group.size().map_or_else(String::new, |size| format!(" · {size}"))
    )
}

/// The reason why a row has no figure.
fn why(row: &Row) -> String {
    let word = row.status.word();
    format!(
        "<span class=why><em class=\"pill {word}\">{}</em> <small>{}</small></span>",
        word.replace('_', " "),
        escape(row.reason.as_deref().unwrap_or(NONE))
    )
}

/// SiltDB against the best other of its class, in each row.
fn balances(groups: &[Group<'_>]) -> String {
    let contests: Vec<Contest<'_>> = groups.iter().flat_map(Group::contests).collect();
    let distances = contests.iter().filter_map(|of| Some(of.standing()?.ratio.log2().abs()));
    let doublings = distances.fold(1.0, f64::max).ceil().min(10.0);
    let mut lines = Vec::new();
    for group in groups {
        let contests = group.contests();
        let standing = contests.iter().find_map(|of| Some((of, of.standing()?)));
        let cells = match standing {
            Some((contest, standing)) => compared(link(group), contest, standing, doublings),
            None => alone(link(group), group, &contests),
        };
        lines.push((String::new(), cells));
    }
    let header = ["row", "siltdb to the best other", "siltdb", "best other", "leader", "class"];
    format!(
        "<section><h2 id=glance>At a glance</h2><p class=about>SiltDB against the best other \
         engine in the same run; in rows that write, the best of the same \
         durability class. Each step to the left or right of \
         the middle is a doubling.</p><div class=glance>{}</div></section>",
        table("All rows", &header, &lines)
    )
}

fn compared(
    link: String,
    contest: &Contest<'_>,
    standing: Standing<'_>,
    doublings: f64,
) -> Vec<String> {
    let figure = |row: &Row| or_none(row.figure(), |of| rate(of.median));
    let leader = contest.lead().map_or_else(String::new, |(_, lead)| factor(lead));
    vec![
        link,
        balance(standing, doublings),
        figure(standing.ours),
        format!("{} <small>{}</small>", figure(standing.other), escape(&standing.other.engine)),
        format!("{} <small>{leader}</small>", escape(&contest.winner().engine)),
        contest.class().to_owned(),
    ]
}

/// A row without a figure of SiltDB, or without another engine of its class.
fn alone(link: String, group: &Group<'_>, contests: &[Contest<'_>]) -> Vec<String> {
    let ours = group.entries.iter().find(|row| is_ours(&row.engine));
    let words = |words: &str| format!("<span class=why>{words}</span>");
    let status = match ours {
        Some(row) if row.figure().is_some() => words("no other engine in its class"),
        Some(row) => why(row),
        None => words("siltdb took no part"),
    };
    let figure = ours.and_then(|row| row.figure());
    let winner = contests.first();
    vec![
        link,
        status,
        or_none(figure, |of| rate(of.median)),
        NONE.to_owned(),
        or_none(winner, |contest| escape(&contest.winner().engine)),
        or_none(winner, |contest| contest.class().to_owned()),
    ]
}

/// A bar from the middle: to the right faster, to the left slower; `doublings` fill a half.
fn balance(standing: Standing<'_>, doublings: f64) -> String {
    let (class, mark) = badge(standing.verdict);
    let each = 50.0 / doublings;
    let reach = (standing.ratio.log2() * each).clamp(-50.0, 50.0);
    let (from, width) = if reach < 0.0 { (50.0 + reach, -reach) } else { (50.0, reach) };
    let mut grid = String::new();
    for step in 1..=doublings as u32 {
        for at in [50.0 - f64::from(step) * each, 50.0 + f64::from(step) * each] {
            grid += &format!("<line class=g x1=\"{at:.2}%\" x2=\"{at:.2}%\" y1=0 y2=18 />");
        }
    }
    format!(
        "<span class=\"balance {class}\"><svg width=\"100%\" height=18 aria-hidden=true>{grid}\
         <rect x=\"{from:.2}%\" y=4 width=\"{width:.2}%\" height=10 />\
         <line class=m x1=\"50%\" x2=\"50%\" y1=0 y2=18 /></svg><b>{mark} {}</b></span>",
        factor(standing.ratio)
    )
}

/// The physical limits of the machine.
pub fn limits(limits: &[Limit]) -> String {
    if limits.is_empty() {
        return String::new();
    }
    let line = |limit: &Limit| {
        let write = |value: f64| match limit.unit {
            LimitUnit::BytesPerS => format!("{}/s", bytes(value)),
            LimitUnit::Ns => time(value),
        };
        let cells = vec![
            escape(&limit.limit),
            format!("<b>{}</b>", write(limit.value.median)),
            format!("{} – {}", write(limit.value.min), write(limit.value.max)),
            format!("<span class=words>{}</span>", escape(&limit.about)),
        ];
        (String::new(), cells)
    };
    let lines: Vec<_> = limits.iter().map(line).collect();
    format!(
        "<section><h2 id=limits>What this machine can do</h2><p class=about>Physical limits, \
         measured by <code>silt-bench limits</code>; “of the limit” in the rows refers to these.\
         </p>{}</section>",
        table("Limits", &["limit", "median", "min – max", "what"], &lines)
    )
}

/// The machine, the options and the engines.
pub fn conditions(results: &Results) -> String {
    let header = ["engine", "version", "build", "options", "durability"];
    let line = |engine: &Engine| {
        let words = |text: &str| match text {
            "" => NONE.to_owned(),
            text => format!("<span class=words>{}</span>", escape(text)),
        };
        let cells = vec![
            format!("{SWATCH}{}", escape(&engine.engine)),
            words(&engine.version),
            words(&engine.build),
            words(&engine.options),
            words(&engine.durability),
        ];
        // The line stays when the engine is not checked, because the engine took part.
        (class(&engine.engine).replacen("e ", "", 1), cells)
    };
    let lines: Vec<_> = results.engines.iter().map(line).collect();
    format!(
        "<section><h2 id=conditions>How this was measured</h2><p class=about>Throughput, latency \
         and verification are separate passes over the same operations. Every answer was checked; \
         an engine with a wrong one shows no figure. Each engine ran in a process of its own, and \
         engines took turns. Rows that write count the time until background work has settled. \
         Where they write, engines compete within their durability class: <i>memory</i> is \
         acknowledged in user \
         space, <i>process</i> survives kill -9, <i>power</i> survives power loss. A difference \
         counts if no run of the one overlaps the runs of the other.</p><dl>{}</dl>{}</section>",
        facts(&results.machine, &results.options),
        table("Engines", &header, &lines)
    )
}

fn facts(machine: &Machine, options: &Options) -> String {
    let memory = bytes(machine.memory_bytes as f64);
    let facts = [
        ("command", format!("<code>{}</code>", escape(&options.command))),
        ("processor", format!("{}, {} cores", escape(&machine.cpu), machine.cores)),
        ("memory", memory),
        ("system", escape(&format!("{}, {}", machine.os, machine.kernel))),
        ("file system", escape(&format!("{} on {}", machine.file_system, machine.device))),
        ("page cache", escape(&machine.page_cache)),
        ("build", escape(&machine.build)),
        ("time limit of a row", or_none(options.row_seconds_max, |limit| format!("{limit} s"))),
        ("shapes", if options.published { "as published" } else { "our own" }.to_owned()),
    ];
    facts.map(|(name, text)| format!("<div><dt>{name}</dt><dd>{text}</dd></div>")).concat()
}
