//! Tests of the menu.

use super::menu;
use crate::checkout::{Checkout, root};
use crate::jobs;

#[test]
fn every_job_has_a_line() {
    let menu = menu(&jobs());
    let checkout = Checkout::read(root()).unwrap();
    let scripts: Vec<_> = checkout.files.keys().filter(|path| path.starts_with(".ci/")).collect();
    assert!(scripts.len() >= 4);
    for script in scripts {
        assert!(menu.lines().any(|line| line.starts_with(script)), "{script}");
    }
    let aliases = &checkout.source(".cargo/config.toml").unwrap().text;
    let names = aliases.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
    for name in names {
        assert!(menu.contains(&format!("cargo {name}")), "{name}");
    }
}

#[test]
fn named_scripts_and_examples_exist() {
    let checkout = Checkout::read(root()).unwrap();
    for (command, does) in super::OTHER_JOBS {
        if command.starts_with(".ci/") {
            assert!(checkout.files.contains_key(*command), "{command}");
        }
        let words = command.split(' ').skip_while(|word| *word != "--example").skip(1);
        let more = does.split("also ").skip(1).flat_map(|names| names.split(", "));
        for example in words.chain(more) {
            assert!(checkout.files.contains_key(&format!("examples/{example}.rs")), "{example}");
        }
    }
}
