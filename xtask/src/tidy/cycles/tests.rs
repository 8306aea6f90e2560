use super::graph::cycles;
use super::modules::{Modules, Sources};
use super::uses::uses;

/// The arrows `from -> to (name)` of a crate with these files; its root is `src/lib.rs`.
fn arrows(files: &[(&str, &str)]) -> Vec<String> {
    let sources: Sources<'_> = files.iter().copied().collect();
    let found = uses(&Modules::parse("src/lib.rs", &sources).unwrap());
    assert!(found.lost.is_empty(), "{:?}", found.lost);
    let short = |file: &str| file.trim_start_matches("src/").trim_end_matches(".rs").to_owned();
    let targets = found.arrows.iter().flat_map(|(from, targets)| targets.iter().map(move |target| (from, target)));
    targets.map(|(from, (to, name))| format!("{} -> {} ({name})", short(from), short(to))).collect()
}

/// The arrows from `src/user.rs` with this text, in a crate with the modules `def` and `facade`.
///
/// `facade` defines `Own` and re-exports `Deep` and `function` of its child `facade::deep`.
fn from_user(text: &str) -> Vec<String> {
    let mut found = arrows(&[
        ("src/lib.rs", "mod def; pub mod facade; mod user; pub use facade::Deep as Renamed; pub(crate) fn root() {}"),
        (
            "src/def.rs",
            "pub struct Type; impl Type { pub const N: u8 = 1; } pub fn function() {} pub enum Kind { A } pub trait Act {} pub mod inline { pub const LIMIT: u8 = 1; }",
        ),
        (
            "src/facade/mod.rs",
            "mod deep; pub use deep::{Deep, function}; pub struct Own; pub mod all { pub use super::deep::*; }",
        ),
        (
            "src/facade/deep.rs",
            "pub struct Deep; pub fn function() {} pub const DEPTH: u8 = 1; #[macro_export] macro_rules! deep { () => {} }",
        ),
        ("src/user.rs", text),
        ("src/user/inner.rs", ""),
    ]);
    found.retain(|arrow| arrow.starts_with("user ->"));
    found
}

#[test]
fn module_without_code_has_no_arrows() {
    assert!(from_user("").is_empty());
    assert!(arrows(&[("src/lib.rs", "mod a;"), ("src/a.rs", "pub struct A;")]).is_empty());
}

#[test]
fn every_kind_of_path_leads_to_the_definition() {
    for (text, expected) in [
        // Imports: plain, nested, renamed, anonymous, of a module.
        ("use crate::def::Type;", "user -> def (crate::def::Type)"),
        ("use crate::{def::{self, Type as T}, facade};", "user -> def (crate::def::Type)"),
        ("use crate::def::Act as _;", "user -> def (crate::def::Act)"),
        ("use crate::def; fn f(x: def::Type) {}", "user -> def (def::Type)"),
        ("use crate::def::{self as d}; fn f() { d::function() }", "user -> def (d::function)"),
        ("use super::def::Kind::A;", "user -> def (super::def::Kind::A)"),
        // Inline paths: of types, of expressions, of patterns, of traits, in generics.
        ("struct S { x: crate::def::Type }", "user -> def (crate::def::Type)"),
        ("fn f() { super::def::function() }", "user -> def (super::def::function)"),
        ("fn f() -> u8 { crate::def::Type::N }", "user -> def (crate::def::Type::N)"),
        ("fn f() -> u8 { crate::def::inline::LIMIT }", "user -> def (crate::def::inline::LIMIT)"),
        (
            "fn f(x: u8) { match x { crate::def::inline::LIMIT => {} _ => {} } }",
            "user -> def (crate::def::inline::LIMIT)",
        ),
        ("fn f(x: impl crate::def::Act) {}", "user -> def (crate::def::Act)"),
        ("fn f(x: Vec<Option<&crate::def::Type>>) {}", "user -> def (crate::def::Type)"),
        ("impl crate::def::Act for u8 {}", "user -> def (crate::def::Act)"),
        ("impl crate::def::Type { fn more() {} }", "user -> def (crate::def::Type)"),
        ("fn f() { <u8 as crate::def::Act>::act() }", "user -> def (crate::def::Act::act)"),
        // The file of an inline module is that of its parent.
        ("mod inside { use super::super::def::Type; }", "user -> def (super::super::def::Type)"),
        ("mod inside { fn f() { self::g() } fn g() { crate::def::function() } }", "user -> def (crate::def::function)"),
        // Globs.
        ("use crate::def::*; fn f(x: Type) {}", "user -> def (Type)"),
        ("use crate::def::Kind::*; fn f() { A; }", "user -> def (crate::def::Kind)"),
        ("fn f() { use crate::def::*; function() }", "user -> def (crate::def::function)"),
        // Imports of a block.
        ("fn f() { use crate::def::Type; }", "user -> def (crate::def::Type)"),
        ("fn f() { use crate::def; def::function() }", "user -> def (crate::def::function)"),
        // The root.
        ("fn f() { crate::root() }", "user -> lib (crate::root)"),
    ] {
        assert_eq!(from_user(text), [expected], "{text}");
    }
}

#[test]
fn reexports_are_followed_to_the_definition() {
    for (text, expected) in [
        ("use crate::facade::Deep;", "user -> facade/deep (crate::facade::Deep)"),
        ("use crate::Renamed;", "user -> facade/deep (crate::Renamed)"),
        ("fn f() { crate::facade::function() }", "user -> facade/deep (crate::facade::function)"),
        ("use crate::facade::all::DEPTH;", "user -> facade/deep (crate::facade::all::DEPTH)"),
        ("use crate::facade::*; fn f(x: Deep) {}", "user -> facade/deep (Deep)"),
        ("use crate::facade::Own;", "user -> facade/mod (crate::facade::Own)"),
        ("use crate::deep; fn f() { deep!() }", "user -> facade/deep (crate::deep)"),
        ("fn f() { crate::deep!() }", "user -> facade/deep (crate::deep)"),
    ] {
        assert_eq!(from_user(text), [expected], "{text}");
    }
}

#[test]
fn macro_calls_and_attributes_are_read_as_tokens() {
    for (text, expected) in [
        ("fn f() { assert!(crate::def::function() == 1) }", "user -> def (crate::def::function)"),
        ("use crate::def::*; fn f() { vec![Some(function())]; }", "user -> def (function)"),
        ("use crate::def::*; fn f() { matches!(1, Kind::A) }", "user -> def (Kind::A)"),
        ("macro_rules! m { () => { $crate::def::function() } }", "user -> def (crate::def::function)"),
        ("#[serde(default = \"crate::def::function\")] struct S;", "user -> def (crate::def::function)"),
        ("#[arg(parser = crate::def::function)] struct S;", "user -> def (crate::def::function)"),
    ] {
        assert_eq!(from_user(text), [expected], "{text}");
    }
}

#[test]
fn unused_name_makes_no_dependency() {
    for text in [
        // Modules and names of other crates, of the language, and of the file itself.
        "use crate::def;",
        "use std::fmt; fn f(x: fmt::Error, y: ::def::Type) {}",
        "struct Type; fn f(x: Type) { function() } fn function() {}",
        "pub(in crate::def) struct S;",
        // Variables, fields, generics and items of a block with the name of something else.
        "use crate::def::*; fn f(function: u8) -> u8 { function }",
        "use crate::def::*; fn f(x: S) { x.function; assert!(x.function()); S { function: 1 }; format!(\"{}\", function = 1); }",
        "use crate::def::*; fn f<Type>(x: Type) {}",
        "use crate::def::*; struct S<Type>(Type); impl<Type> S<Type> { fn f(x: Type) {} }",
        "use crate::def::*; fn f() { struct Type; let x = Type; }",
        // Tests.
        "#[cfg(test)] use crate::def::Type;",
        "#[cfg(test)] mod tests { use crate::def::Type; }",
        "#[cfg(all(test, unix))] fn f() { crate::def::function() }",
        "struct S { #[cfg(test)] x: crate::def::Type }",
        "fn f() { #[cfg(test)] crate::def::function(); }",
        "impl S { #[cfg(test)] fn f() { crate::def::function() } }",
        // Text.
        "/// [`crate::def::Type`]\n// crate::def::Type\nfn f() { \"crate::def::Type\"; }",
    ] {
        assert!(from_user(text).is_empty(), "{text}: {:?}", from_user(text));
    }
}

#[test]
fn called_name_is_a_function_where_a_variable_has_it_too() {
    assert_eq!(from_user("use crate::def::*; fn f() { let function = function(); }"), ["user -> def (function)"]);
}

#[test]
fn name_in_capitals_in_a_pattern_is_a_constant() {
    let text = "use crate::def::inline::*; fn f(x: u8) { match x { LIMIT => {} other => {} } }";
    assert_eq!(from_user(text), ["user -> def (LIMIT)"]);
}

#[test]
fn parent_depends_on_a_child_by_its_own_code_only() {
    let with = |parent: &str| arrows(&[("src/lib.rs", parent), ("src/child.rs", "pub struct Name; pub fn new() {}")]);
    assert!(with("mod child; pub use child::Name;").is_empty());
    assert!(with("mod child; pub(crate) use child::*;").is_empty());
    assert_eq!(with("mod child; pub use child::Name; struct S(Name);"), ["lib -> child (Name)"]);
    assert_eq!(with("mod child; use child::Name;"), ["lib -> child (child::Name)"]);
    assert_eq!(with("mod child; fn f() { child::new() }"), ["lib -> child (child::new)"]);
}

#[test]
fn reexport_of_a_non_descendant_is_a_use() {
    let found = arrows(&[
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a.rs", "pub use crate::b::Name;"),
        ("src/b.rs", "pub struct Name;"),
    ]);
    assert_eq!(found, ["a -> b (crate::b::Name)"]);
}

#[test]
fn names_are_private_to_the_module_that_imports_them() {
    let found = arrows(&[
        ("src/lib.rs", "mod a; mod b; mod c;"),
        ("src/a.rs", "use crate::b::Name; pub struct Other(Name);"),
        ("src/b.rs", "pub struct Name;"),
        ("src/c.rs", "use crate::a::*; fn f(x: Name, y: Other) {}"),
    ]);
    assert_eq!(found, ["a -> b (crate::b::Name)", "c -> a (Other)"]);
}

#[test]
fn child_follows_the_private_import_of_its_parent() {
    let found = arrows(&[
        ("src/lib.rs", "mod b; mod parent;"),
        ("src/b.rs", "pub struct Name;"),
        ("src/parent.rs", "mod child; use crate::b::Name;"),
        ("src/parent/child.rs", "use super::Name;"),
    ]);
    assert_eq!(found, ["parent -> b (crate::b::Name)", "parent/child -> b (super::Name)"]);
}

#[test]
fn names_that_a_macro_call_defines_are_those_of_its_file() {
    let found = arrows(&[
        ("src/lib.rs", "mod ids; mod user; mod views;"),
        ("src/ids.rs", "macro_rules! ids { ($($n:ident)*) => { pub struct Fixed; } } ids! { First Second }"),
        ("src/views.rs", "#[derive(Views)] pub struct Point; make! { Line }"),
        ("src/user.rs", "use crate::ids::{Second, Fixed}; use crate::views::{PointView, LineView};"),
    ]);
    assert_eq!(found, ["user -> ids (crate::ids::Second)", "user -> views (crate::views::PointView)"]);
}

#[test]
fn macro_of_an_outer_module_is_found_by_its_plain_name() {
    let found = arrows(&[
        ("src/lib.rs", "macro_rules! outer { () => {} } mod a;"),
        ("src/a.rs", "mod b;"),
        ("src/a/b.rs", "outer!();"),
    ]);
    assert_eq!(found, ["a/b -> lib (outer)"]);
}

#[test]
fn files_of_modules_are_found_by_all_three_rules() {
    let found = arrows(&[
        ("src/lib.rs", "mod plain; mod folder; #[path = \"../other/named.rs\"] mod given; mod inline { mod deep; }"),
        ("src/plain.rs", "mod child;"),
        ("src/plain/child.rs", "use crate::folder::F;"),
        ("src/folder/mod.rs", "mod child; pub struct F;"),
        ("src/folder/child.rs", "use crate::given::G;"),
        ("other/named.rs", "pub struct G;"),
        ("src/inline/deep.rs", "use crate::folder::F;"),
    ]);
    assert_eq!(
        found,
        [
            "folder/child -> other/named (crate::given::G)",
            "inline/deep -> folder/mod (crate::folder::F)",
            "plain/child -> folder/mod (crate::folder::F)",
        ]
    );
}

#[test]
fn modules_of_one_name_under_different_conditions_are_all_followed() {
    let found = arrows(&[
        ("src/lib.rs", "mod sys; mod user;"),
        (
            "src/sys.rs",
            "#[cfg(unix)] mod a; #[cfg(not(unix))] mod b; #[cfg(unix)] pub use a::X; #[cfg(not(unix))] pub use b::X;",
        ),
        ("src/sys/a.rs", "pub struct X;"),
        ("src/sys/b.rs", "pub struct X;"),
        ("src/user.rs", "use crate::sys::X;"),
    ]);
    assert_eq!(found, ["user -> sys/a (crate::sys::X)", "user -> sys/b (crate::sys::X)"]);
}

#[test]
fn crate_that_names_itself_is_followed() {
    let found = arrows(&[
        ("src/lib.rs", "extern crate self as me; mod a; mod b;"),
        ("src/a.rs", "use me::b::B;"),
        ("src/b.rs", "pub struct B;"),
    ]);
    assert_eq!(found, ["a -> b (me::b::B)"]);
}

#[test]
fn circular_imports_and_globs_terminate() {
    let found = arrows(&[
        ("src/lib.rs", "mod a; mod b; mod error;"),
        ("src/a.rs", "pub use crate::b::*; use error::error; fn f(x: Nothing) {}"),
        ("src/b.rs", "pub use crate::a::*; use crate::error::error;"),
        ("src/error.rs", "pub fn error() {}"),
    ]);
    assert_eq!(found, ["b -> error (crate::error::error)"]);
}

#[test]
fn path_that_gets_lost_in_the_crate_is_reported() {
    let sources: Sources<'_> =
        [("src/lib.rs", "mod a; use a::Missing; fn f() { self::a::gone() }"), ("src/a.rs", "")].into_iter().collect();
    let found = uses(&Modules::parse("src/lib.rs", &sources).unwrap());
    let lost: Vec<&str> = found.lost.iter().map(|(_, path)| path.as_str()).collect();
    assert_eq!(lost, ["a::Missing", "self::a::gone"]);
}

#[test]
fn missing_file_and_bad_syntax_are_errors() {
    for files in [&[("src/lib.rs", "mod gone;")][..], &[("src/lib.rs", "fn (")], &[]] {
        let sources: Sources<'_> = files.iter().copied().collect();
        assert!(Modules::parse("src/lib.rs", &sources).is_err());
    }
}

#[test]
fn cycle_through_a_reexport_is_found() {
    let sources: Sources<'_> = [
        ("src/lib.rs", "mod wire; mod other;"),
        ("src/wire/mod.rs", "mod data; mod kind; pub use data::Data; pub use kind::Kind;"),
        ("src/wire/data.rs", "use super::Kind; pub struct Data(Kind);"),
        ("src/wire/kind.rs", "pub enum Kind { Data(crate::wire::Data) }"),
        ("src/other.rs", "use crate::wire::Data;"),
    ]
    .into_iter()
    .collect();
    let found = uses(&Modules::parse("src/lib.rs", &sources).unwrap());
    let cycles = cycles(&found.arrows);
    assert_eq!(cycles.len(), 1);
    assert_eq!(cycles[0].files.iter().collect::<Vec<_>>(), ["src/wire/data.rs", "src/wire/kind.rs"]);
}
