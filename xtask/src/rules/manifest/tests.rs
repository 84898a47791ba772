//! Tests of reading manifests.

use super::parse;

#[test]
fn every_way_to_list_a_dependency_is_read() {
    let manifest = parse(
        "[package]\nname = \"siltdb-disk\" # the name\n\n[dependencies]\na.workspace = true\n\
         b = \"1\"\nc = { version = \"1\", package = \"real-c\" }\n\
         [target.'cfg(loom)'.dependencies]\nd = \"1\"\n[dev-dependencies.e]\n\
         package = \"real-e\"\n[build-dependencies]\nf = \"1\"\n[features]\nx = []\n",
    );
    assert_eq!(manifest.name, "siltdb-disk");
    let read = |d: &super::Dependency| (d.line, d.package.clone().unwrap_or(d.key.clone()));
    let found: Vec<_> = manifest.dependencies.iter().map(read).collect();
    let expected = [(5, "a"), (6, "b"), (7, "real-c"), (9, "d"), (10, "real-e"), (13, "f")];
    assert_eq!(found, expected.map(|(line, name)| (line, name.to_owned())));
}

#[test]
fn keys_of_the_package_are_read_and_no_others() {
    let manifest = parse("[package]\nname = \"a\"\nreadme.workspace = true\n[lib]\npath = \"b\"\n");
    assert_eq!(manifest.keys.iter().collect::<Vec<_>>(), ["name", "readme"]);
}

#[test]
fn renames_of_the_workspace_are_kept() {
    let manifest = parse("[workspace.dependencies]\nx = { package = \"y\" }\nz = { path = \"z\" }");
    assert_eq!(manifest.workspace["x"], "y");
    assert_eq!(manifest.workspace["z"], "z");
    assert!(manifest.dependencies.is_empty());
}
