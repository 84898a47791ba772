//! Tests of pages: markers are filled, and the repository's pages agree with its results.

use super::*;
use crate::report::age::{self, Commit};
use crate::report::claims::tests::claimed;
use crate::report::published::tests::repeated;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

#[test]
fn what_stands_between_markers_is_replaced_and_nothing_else() {
    let tables = [("one", "1\n".to_owned()), ("two", "2\n".to_owned())];
    let text = "a\n<!-- generated: two -->\nold\n<!-- /generated -->\nb\n\
                <!-- generated: one -->\n<!-- /generated -->\nc\n";
    let wanted = "a\n<!-- generated: two -->\n2\n<!-- /generated -->\nb\n\
                  <!-- generated: one -->\n1\n<!-- /generated -->\nc\n";
    assert_eq!(filled(text, &tables).unwrap(), wanted);
    assert_eq!(filled(wanted, &tables).unwrap(), wanted, "again it changes nothing");
    assert_eq!(filled("plain", &tables).unwrap(), "plain");
}

#[test]
fn a_marker_that_is_unknown_or_has_no_end_is_an_error() {
    let tables = [("one", String::new())];
    let message = |text: &str| filled(text, &tables).unwrap_err();
    let unknown = "<!-- generated: three -->\n<!-- /generated -->";
    assert_eq!(message(unknown), "no table is called `three`");
    assert_eq!(message("<!-- generated: one -->\n"), "`one` has no end");
}

#[test]
fn results_are_written_into_a_repository_with_their_pages() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join(FOLDER)).unwrap();
    let page = "x\n<!-- generated: claims -->\n<!-- /generated -->\n";
    PAGES.iter().for_each(|name| fs::write(dir.path().join(name), page).unwrap());
    let results = claimed();
    write(dir.path(), &results).unwrap();
    assert_eq!(files::read(&dir.path().join(RESULTS)).unwrap(), results);
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(read(PAGES[1]).contains("| What get does |") && read(PAGES[1]).starts_with("x\n"));
    assert!(read(INDEX).contains("| [claims.json.gz](claims.json.gz) | 2026-"), "{}", read(INDEX));
    assert!(read("docs/charts/workloads-dark.svg").contains("Commit abc1234"));
}

#[test]
fn results_of_transactions_are_written_beside_those_of_claims() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join(FOLDER)).unwrap();
    let claims = "x\n<!-- generated: claims -->\n<!-- /generated -->\n";
    PAGES.iter().for_each(|name| fs::write(dir.path().join(name), claims).unwrap());
    let results = transactions::tests::measured();
    assert!(write(dir.path(), &results).unwrap_err().contains(RESULTS), "claims come first");
    write(dir.path(), &claimed()).unwrap();
    let both = format!("{claims}<!-- generated: transactions -->\n<!-- /generated -->\n");
    fs::write(dir.path().join(PAGES[1]), both).unwrap();
    write(dir.path(), &results).unwrap();
    assert_eq!(files::read(&dir.path().join(OF_TRANSACTIONS)).unwrap(), results);
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let page = read(PAGES[1]);
    assert!(page.contains("| What get does |") && page.contains("| `counters` |"), "{page}");
    // The other way round nothing is lost.
    write(dir.path(), &claimed()).unwrap();
    assert_eq!(read(PAGES[1]), page);
}

#[test]
fn results_of_published_comparisons_have_a_page_and_charts_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join(FOLDER)).unwrap();
    PAGES.iter().for_each(|name| fs::write(dir.path().join(name), "x\n").unwrap());
    write(dir.path(), &claimed()).unwrap();
    let results = repeated();
    let page = "<!-- generated: thunder -->\n<!-- /generated -->\n";
    fs::write(dir.path().join(PUBLISHED_PAGE), page).unwrap();
    write(dir.path(), &results).unwrap();
    assert_eq!(files::read(&dir.path().join(OF_PUBLISHED)).unwrap(), results);
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(read(PUBLISHED_PAGE).contains("| `load` |"), "{}", read(PUBLISHED_PAGE));
    assert!(read("docs/charts/thunder-light.svg").contains("ThunderDB"));
    assert_eq!(files::read(&dir.path().join(RESULTS)).unwrap(), claimed(), "claims stay");
}

#[test]
fn pages_of_the_repository_say_what_its_results_say_and_how_old_they_are() {
    let root = root();
    let claims = files::read(&root.join(RESULTS)).unwrap();
    let (mut stored, _) = Stored::with(&root, &claims).unwrap();
    let said: String = PAGES
        .iter()
        .chain([&PUBLISHED_PAGE])
        .filter_map(|page| fs::read_to_string(root.join(page)).ok())
        .collect();
    let checkout = Checkout::at(&root);
    let again = format!("silt-bench report {RESULTS} --into .");
    for results in stored.each_mut() {
        results.commits_since = age::marked(&said, &results.commit);
        // A copy without the history of git does not know.
        if let Some(age) = checkout.commits_since(&results.commit) {
            let commit = if checkout.is_release() { Commit::Release } else { Commit::Between };
            let checked = age::check(results.commits_since, age, commit);
            assert_eq!(checked, Ok(()), "commit {}: {again}", results.commit);
        }
    }
    let mut pages = pages(&root, &stored).unwrap();
    pages.push((root.join(INDEX), index(&root).unwrap()));
    for (path, wanted) in pages {
        let found = fs::read_to_string(&path).unwrap_or_default();
        let name = path.strip_prefix(&root).unwrap().display();
        assert!(found == wanted, "{name} is old: {again}");
    }
}
