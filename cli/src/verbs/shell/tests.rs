//! The parser of the shell's commands.

use super::*;

#[test]
fn the_command_is_well_formed() {
    Line::command().debug_assert();
}

#[test]
fn verbs_may_be_written_in_capitals_and_keys_stay_as_they_are() {
    let lowered = |words: &[&str]| {
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        lower_verbs(&mut words);
        words.join(" ")
    };
    assert_eq!(lowered(&["GET", "GET"]), "get GET");
    assert_eq!(lowered(&["--json", "Scan", "--prefix", "A"]), "--json scan --prefix A");
    assert_eq!(lowered(&["Families", "DROP", "Users"]), "families drop Users");
    assert_eq!(lowered(&["HELP", "Scan"]), "help scan");
    assert_eq!(lowered(&["Nonsense", "A"]), "Nonsense A");
}
