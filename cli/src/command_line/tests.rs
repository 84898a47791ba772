//! What holds for each verb and each option.

use super::*;
use std::any::TypeId;

/// Calls `visit` with each verb that has no verbs below it, and its words.
fn each_verb(
    command: &clap::Command,
    words: &[&str],
    visit: &mut dyn FnMut(&clap::Command, &[&str]),
) {
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        let words = [words, &[verb.get_name()]].concat();
        if verb.get_subcommands().next().is_none() || verb.get_positionals().next().is_some() {
            visit(verb, &words);
        }
        each_verb(verb, &words, visit);
    }
}

#[test]
fn every_option_with_a_number_says_its_range() {
    let mut command = CommandLine::full_command();
    command.build();
    let mut options = 0;
    let numbers = [TypeId::of::<u64>(), TypeId::of::<usize>(), TypeId::of::<i64>()];
    each_verb(&command, &["silt"], &mut |verb, words| {
        for argument in verb.get_arguments() {
            let is_number = |id: &TypeId| argument.get_value_parser().type_id() == *id;
            let Some(name) = argument.get_long().filter(|_| numbers.iter().any(is_number)) else {
                continue;
            };
            if !argument.get_action().takes_values() {
                continue;
            }
            options += 1;
            for bad in ["x", "99999999999999999999999"] {
                let words = words.iter().map(|word| (*word).to_owned());
                let words = words.chain([format!("--{name}={bad}")]);
                let failed = CommandLine::full_command().try_get_matches_from(words);
                let text = failed.expect_err("it is no number").to_string();
                assert!(text.contains(&format!("invalid value '{bad}' for '--{name}")), "{text}");
                let says = ["expected a", "from ", "a rate is a number of bytes"];
                assert!(says.iter().any(|said| text.contains(said)), "{text}");
                assert!(!text.contains("invalid digit"), "{text}");
            }
        }
    });
    assert!(options >= 12, "{options}");
}
