//! A visible function takes an enum instead of a bool, so that a call shows the meaning of its
//! arguments.

use crate::checkout::{Checkout, Source};
use crate::finding::Finding;
use crate::items::{Block, Function, blocks, functions, split_commas};

/// Appends a finding for each bool parameter of a visible function. A setter of a type named
/// `…Options` with itself and one bool is permitted, because its name gives the bool's meaning.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    for source in checkout.rust() {
        let impls = blocks(&source.production, "impl");
        let traits = blocks(&source.production, "trait");
        for function in functions(&source.production) {
            let seen = visible(source, &function) || belongs_to_visible_trait(&traits, &function);
            let parameters = split_commas(&source.production[function.parameters.clone()]);
            let bools: Vec<_> = parameters.iter().filter(|parameter| is_bool(parameter)).collect();
            if !seen || bools.is_empty() || sets_an_option(&impls, &function, &parameters) {
                continue;
            }
            let name = bools[0].split(':').next().unwrap_or("").trim();
            let message = format!("`{}` takes the bool `{name}`: make it an enum", function.name);
            findings.push(source.finding(function.start, "signatures", message));
        }
    }
}

fn visible(source: &Source, function: &Function) -> bool {
    let before = &source.production[..function.start];
    let item = before.rfind(['\n', ';', '{', '}']).map_or(0, |at| at + 1);
    before[item..].trim_start().starts_with("pub")
}

fn belongs_to_visible_trait(traits: &[Block], function: &Function) -> bool {
    let holds = |block: &&Block| block.body.contains(&function.start);
    traits.iter().find(holds).is_some_and(|block| block.prefix.starts_with("pub"))
}

fn is_bool(parameter: &str) -> bool {
    let kind = parameter.split_once(": ").map_or("", |(_, kind)| kind.trim());
    matches!(kind.trim_start_matches('&').trim_start_matches("mut "), "bool")
}

fn sets_an_option(impls: &[Block], function: &Function, parameters: &[&str]) -> bool {
    let holds = |block: &&Block| block.body.contains(&function.start);
    let of_options = impls.iter().find(holds).is_some_and(|block| block.name.ends_with("Options"));
    let by_value = matches!(parameters.first().map(|p| p.trim()), Some("mut self" | "self"));
    of_options && by_value && parameters.len() == 2
}

#[cfg(test)]
mod tests;
