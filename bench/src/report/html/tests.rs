//! Tests of the page: well-formed, self-contained, safe against quoted text, and correct.

use super::*;
use crate::result::{CurvePoint, ShareOfLimit, Spread};

const RUN: &str = include_str!("../../../tests/data/run.json");
const VOID: [&str; 10] =
    ["!doctype", "meta", "input", "line", "rect", "path", "br", "hr", "img", "link"];

fn run() -> Results {
    Results::from_json(RUN).unwrap()
}

/// The card of the row with `id`.
fn card<'a>(page: &'a str, id: &str) -> &'a str {
    let start = page.find(&format!("<article class=card id=\"{id}\"")).unwrap();
    let end = page[start..].find("</article>").unwrap();
    &page[start..start + end]
}

/// Panics unless every element is closed in its parent; `path` may hold a title.
fn check_nesting(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for piece in page.split('<').skip(1) {
        let tag = piece.split('>').next().unwrap();
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "near <{piece}");
        } else if !tag.ends_with('/') && !VOID[..3].contains(&name) {
            open.push(name);
        } else {
            assert!(VOID.contains(&name), "<{name}> is not empty");
        }
    }
    assert_eq!(open, [""; 0]);
}

fn hostile() -> Results {
    let mut results = run();
    let evil = "\"><script>alert('x')</script>&";
    for row in &mut results.rows {
        row.engine = format!("{}{evil}", row.engine);
        row.row = format!("{}{evil}", row.row);
        row.reason = Some(evil.to_owned());
        row.extra.state = Some(evil.to_owned());
    }
    results.suites[0].about = evil.to_owned();
    results.engines[0].options = evil.to_owned();
    results.machine.cpu = evil.to_owned();
    results.options.command = evil.to_owned();
    results.limits[0].about = evil.to_owned();
    results
}

#[test]
fn elements_are_nested_whatever_is_quoted() {
    check_nesting(&render(&run()));
    let page = render(&hostile());
    check_nesting(&page);
    assert!(!page.contains("<script"));
    assert!(page.contains("&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;"));
}

#[test]
fn the_page_fetches_nothing_and_runs_nothing() {
    let page = render(&run());
    for part in ["http:", "https:", "src=", "@import", "url(", "<script", "<link", "onclick"] {
        assert!(!page.contains(part), "{part}");
    }
}

#[test]
fn each_link_has_its_target() {
    let page = render(&run());
    let links: Vec<&str> = page.split("href=\"#").skip(1).collect();
    assert!(links.len() >= 16);
    for link in links {
        let id = link.split('"').next().unwrap();
        assert_eq!(page.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
    }
}

#[test]
fn a_card_says_who_leads_and_what_was_published() {
    let page = render(&run());
    let won = card(&page, "tidesdb-v7--random-get");
    assert!(won.contains("badge ahead\"><b>▲ 1.51×</b> <span>siltdb to lmdb</span>"));
    assert!(won.contains("tidesdb 7.4 <b>1.01M</b> · rocksdb 10.9 <b>1.60M</b>"));
    let lost = card(&page, "tidesdb-v7--random-write-batch-1000");
    assert!(lost.contains("badge behind\"><b>▼ 0.89×</b> <span>siltdb to tidesdb</span>"));
    assert!(lost.contains("the limit is page-cache-write"));
    assert!(lost.contains("title=\"1,500,000 of 1,500,000\">✓ 1.50M"));
}

#[test]
fn an_engine_without_a_figure_has_a_reason_and_nothing_else() {
    let page = render(&run());
    let mixed = card(&page, "tidesdb-v7--mixed-batch-1");
    assert_eq!(mixed.matches("class=\"e e-tidesdb\"").count(), 1);
    assert!(mixed.contains("<em class=\"pill failed\">failed</em> verification: 3,122 of 250,000"));
    let ranges = card(&page, "range-delete--range-delete-1000");
    assert!(ranges.contains("not supported by siltdb yet: range deletes"));
    assert!(!ranges.contains("badge "));
}

#[test]
fn curves_stay_within_their_plots() {
    let page = render(&run());
    let mut points = 0;
    for line in page.split("points=\"").skip(1) {
        for point in line.split('"').next().unwrap().split(' ') {
            let (x, y) = point.split_once(',').unwrap();
            let inside = 0.0..=1000.0;
            assert!(inside.contains(&x.parse().unwrap()), "{point}");
            assert!(inside.contains(&y.parse().unwrap()), "{point}");
            points += 1;
        }
    }
    assert!(points > 500);
}

#[test]
fn runs_at_the_edges_draw_without_nonsense() {
    let mut results = run();
    results.rows.truncate(12);
    for row in &mut results.rows {
        let zero = Spread { median: 0.0, min: 0.0, max: 0.0 };
        row.ops_per_s = row.ops_per_s.map(|_| zero);
        row.ops_per_s_settled = row.ops_per_s;
        row.ops = 0;
        row.extra.samples = vec![0, 0];
        row.extra.curve = vec![CurvePoint { percentile: 100.0, ns: 0.0 }; 2];
    }
    let page = render(&results);
    check_nesting(&page);
    results.rows.clear();
    let empty = render(&results);
    for page in [page, empty] {
        assert!(!page.contains("NaN") && !page.contains("inf%") && !page.contains("inf×"));
    }
}

/// Results of one engine in rows of its own.
fn alone() -> Results {
    let mut results = run();
    results.rows.retain(|row| row.engine == "siltdb");
    results.engines.retain(|engine| engine.engine == "siltdb");
    results
}

#[test]
fn a_run_of_one_engine_has_a_page_without_comparisons() {
    let page = render(&alone());
    check_nesting(&page);
    assert!(!page.contains("won by siltdb") && !page.contains("of 0"), "nothing is won alone");
    assert!(!page.contains("class=\"balance") && page.contains("glance alone"));
    let glance = &page[page.find("id=glance").unwrap()..page.find("<article").unwrap()];
    for cell in ["data-l=\"ops/s\"", "data-l=\"p99\"", "data-l=\"peak memory\""] {
        assert!(glance.contains(cell), "{cell}");
    }
    // A failed row shows its reason.
    assert!(glance.contains("not supported by siltdb yet: range deletes"), "{glance}");
    let both = render(&run());
    assert!(both.contains("won by siltdb") && !both.contains("glance alone"));
}

#[test]
fn published_figures_stand_apart_with_threads_and_keys() {
    let mut results = run();
    for published in results
        .suites
        .iter_mut()
        .flat_map(|suite| &mut suite.rows)
        .flat_map(|row| row.published.iter_mut())
    {
        (published.threads, published.keys) = (Some(8), Some(10_000_000));
    }
    let page = render(&results);
    let read = card(&page, "tidesdb-v7--random-get");
    let wanted = "Published, on other machines, with 8 threads and 10,000,000 keys: tidesdb 7.4";
    assert!(read.contains("<p class=elsewhere>") && read.contains(wanted), "{read}");
    let older = render(&run());
    assert!(older.contains("Published, on other machines: "), "older files know neither");
}

#[test]
fn a_share_above_the_limit_is_not_shown() {
    let mut results = run();
    let of = |share| Some(ShareOfLimit { limit: "a-limit".to_owned(), share });
    results.rows.iter_mut().for_each(|row| row.extra.share_of_limit = of(1.02));
    for text in [render(&results), crate::report::markdown::render(&results)] {
        assert!(!text.contains("102 %") && !text.contains("a-limit"));
    }
    results.rows.iter_mut().for_each(|row| row.extra.share_of_limit = of(1.0));
    assert!(render(&results).contains("100 %"), "the limit itself can be reached");
}

#[test]
fn cells_say_what_they_are_where_a_table_becomes_blocks() {
    for page in [render(&run()), render(&alone())] {
        let cells = page.matches("<td").count();
        assert!(cells > 100, "{cells}");
        assert_eq!(page.matches("<td data-l=\"").count(), cells);
        assert!(!page.contains("<td data-l=\"\""), "each column has a name");
        let narrow = page.split("@media (max-width").nth(1).unwrap();
        assert!(narrow.contains("td::before { content: attr(data-l)"));
    }
}
