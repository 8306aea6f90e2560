//! The modules of one crate target, as parsed from its files: the names that each module defines and imports.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::{Attribute, Expr, ForeignItem, Ident, Item, ItemMacro, ItemMod, ItemUse, Lit, Meta, UseTree, Visibility};

use super::cfg::is_for_tests;

/// The text of every file that a module may be in, by its path relative to the root of the workspace.
pub(super) type Sources<'a> = BTreeMap<&'a str, &'a str>;

/// All modules of a target. The first one is its root.
pub(super) struct Modules {
    pub(super) all: Vec<Module>,
    /// The other names of the root: `extern crate self as name`.
    pub(super) root_aliases: BTreeSet<String>,
    /// The identifiers in the body of each `macro_rules!`.
    macro_bodies: BTreeMap<String, BTreeSet<String>>,
}

/// The index of a module in [`Modules::all`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ModuleId(pub(super) usize);

pub(super) const ROOT: ModuleId = ModuleId(0);

pub(super) struct Module {
    pub(super) parent: Option<ModuleId>,
    /// The file that holds this module; several inline modules may share it.
    pub(super) file: String,
    /// All items except modules and items for tests only.
    pub(super) items: Vec<Item>,
    pub(super) names: BTreeMap<String, Vec<Binding>>,
    pub(super) globs: Vec<Glob>,
    /// The identifiers of macro calls among the items. Such a call may define any of them.
    macro_names: BTreeSet<String>,
    /// The types with a `#[derive(...)]`, which may define further types whose names begin with theirs.
    derived: BTreeSet<String>,
    /// The macros called among the items.
    called_macros: BTreeSet<String>,
}

/// One meaning of a name in a module.
pub(super) struct Binding {
    pub(super) space: Space,
    pub(super) target: Target,
    /// The module whose descendants see the name; `None` for the whole crate.
    pub(super) seen_in: Option<ModuleId>,
}

pub(super) enum Target {
    /// An item that this module defines.
    Item(ModuleId),
    Module(ModuleId),
    Import(Vec<String>),
}

pub(super) struct Glob {
    pub(super) path: Vec<String>,
    pub(super) seen_in: Option<ModuleId>,
}

/// The namespaces of Rust that this check distinguishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Space {
    /// Types, traits and modules.
    Type,
    Value,
    Macro,
    /// More than one of them: imports and structs.
    Any,
}

impl Space {
    pub(super) fn meets(self, other: Self) -> bool {
        self == Self::Any || other == Self::Any || self == other
    }
}

impl Modules {
    /// Parses the file `root` and every file that its `mod` declarations lead to, except those of tests.
    pub(super) fn parse(root: &str, sources: &Sources<'_>) -> Result<Self> {
        let mut modules = Self { all: Vec::new(), root_aliases: BTreeSet::new(), macro_bodies: BTreeMap::new() };
        modules.add_file(None, root, folder_of(root), sources)?;
        modules.add_names_of_macro_bodies();
        Ok(modules)
    }

    pub(super) fn get(&self, id: ModuleId) -> &Module {
        &self.all[id.0]
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = ModuleId> + use<> {
        (0..self.all.len()).map(ModuleId)
    }

    /// Whether `module` is `ancestor` or within it.
    pub(super) fn is_within(&self, module: ModuleId, ancestor: ModuleId) -> bool {
        self.with_ancestors(module).any(|id| id == ancestor)
    }

    /// The module itself, its parent, and so on up to the root.
    pub(super) fn with_ancestors(&self, module: ModuleId) -> impl Iterator<Item = ModuleId> + '_ {
        std::iter::successors(Some(module), |id| self.get(*id).parent)
    }

    /// `folder` is where the files of child modules are.
    fn add_file(
        &mut self,
        parent: Option<ModuleId>,
        file: &str,
        folder: &str,
        sources: &Sources<'_>,
    ) -> Result<ModuleId> {
        let text = sources.get(file).with_context(|| format!("{file}: this file does not exist"))?;
        let parsed = syn::parse_file(text).with_context(|| format!("cannot parse {file}"))?;
        self.add_module(parent, file, folder, parsed.items, sources)
    }

    fn add_module(
        &mut self,
        parent: Option<ModuleId>,
        file: &str,
        folder: &str,
        items: Vec<Item>,
        sources: &Sources<'_>,
    ) -> Result<ModuleId> {
        let id = ModuleId(self.all.len());
        self.all.push(Module {
            parent,
            file: file.to_owned(),
            items: Vec::new(),
            names: BTreeMap::new(),
            globs: Vec::new(),
            macro_names: BTreeSet::new(),
            derived: BTreeSet::new(),
            called_macros: BTreeSet::new(),
        });
        for item in items {
            if is_for_tests(attributes_of(&item)) {
                continue;
            }
            if let Item::Mod(declaration) = item {
                self.add_child(id, folder, declaration, sources)?;
            } else {
                if attributes_of(&item).iter().any(|attribute| attribute.path().is_ident("derive")) {
                    self.all[id.0].derived.extend(name_of_type(&item));
                }
                self.add_item(id, &item);
                self.all[id.0].items.push(item);
            }
        }
        Ok(id)
    }

    fn add_child(&mut self, parent: ModuleId, folder: &str, declaration: ItemMod, sources: &Sources<'_>) -> Result<()> {
        let file = self.get(parent).file.clone();
        let name = plain(&declaration.ident);
        let below = join(folder, &name);
        let child = if let Some((_, items)) = declaration.content {
            self.add_module(Some(parent), &file, &below, items, sources)?
        } else if let Some(path) = path_attribute(&declaration.attrs) {
            let path = join(folder_of(&file), &path);
            self.add_file(Some(parent), &path, folder_of(&path), sources)?
        } else {
            let candidates = [format!("{below}.rs"), format!("{below}/mod.rs")];
            let Some(path) = candidates.iter().find(|path| sources.contains_key(path.as_str())) else {
                bail!("{file}: `mod {name};` has no file; expected {}", candidates.join(" or "));
            };
            self.add_file(Some(parent), path, &below, sources)?
        };
        let seen_in = self.seen_in(parent, &declaration.vis);
        self.bind(parent, name, Binding { space: Space::Type, target: Target::Module(child), seen_in });
        Ok(())
    }

    fn add_item(&mut self, module: ModuleId, item: &Item) {
        match item {
            Item::Const(item) => self.define(module, &item.ident, Space::Value, &item.vis),
            Item::Enum(item) => self.define(module, &item.ident, Space::Type, &item.vis),
            Item::Fn(item) => self.define(module, &item.sig.ident, Space::Value, &item.vis),
            Item::Static(item) => self.define(module, &item.ident, Space::Value, &item.vis),
            Item::Struct(item) => self.define(module, &item.ident, Space::Any, &item.vis),
            Item::Trait(item) => self.define(module, &item.ident, Space::Type, &item.vis),
            Item::TraitAlias(item) => self.define(module, &item.ident, Space::Type, &item.vis),
            Item::Type(item) => self.define(module, &item.ident, Space::Type, &item.vis),
            Item::Union(item) => self.define(module, &item.ident, Space::Type, &item.vis),
            Item::ForeignMod(block) => {
                for item in &block.items {
                    match item {
                        ForeignItem::Fn(item) => self.define(module, &item.sig.ident, Space::Value, &item.vis),
                        ForeignItem::Static(item) => self.define(module, &item.ident, Space::Value, &item.vis),
                        _ => {}
                    }
                }
            }
            Item::ExternCrate(item) if item.ident == "self" => {
                self.root_aliases.extend(item.rename.iter().map(|(_, name)| plain(name)));
            }
            Item::Use(item) => self.add_imports(module, item),
            Item::Macro(item) => self.add_macro(module, item),
            _ => {}
        }
    }

    fn define(&mut self, module: ModuleId, name: &Ident, space: Space, visibility: &Visibility) {
        let seen_in = self.seen_in(module, visibility);
        self.bind(module, plain(name), Binding { space, target: Target::Item(module), seen_in });
    }

    fn add_imports(&mut self, module: ModuleId, item: &ItemUse) {
        let seen_in = self.seen_in(module, &item.vis);
        for import in imports(item) {
            match import.name {
                Some(name) => {
                    let target = Target::Import(import.path);
                    self.bind(module, name, Binding { space: Space::Any, target, seen_in });
                }
                None if import.is_glob => self.all[module.0].globs.push(Glob { path: import.path, seen_in }),
                None => {}
            }
        }
    }

    fn add_macro(&mut self, module: ModuleId, item: &ItemMacro) {
        let identifiers = identifiers(item.mac.tokens.clone());
        if let Some(name) = &item.ident {
            let name = plain(name);
            self.macro_bodies.entry(name.clone()).or_default().extend(identifiers);
            let binding = |seen_in| Binding { space: Space::Macro, target: Target::Item(module), seen_in };
            // `#[macro_export]` puts the macro's name into the root, wherever it is defined.
            if module != ROOT && item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export")) {
                self.bind(ROOT, name.clone(), binding(None));
            }
            self.bind(module, name, binding(Some(module)));
        } else {
            let module = &mut self.all[module.0];
            module.macro_names.extend(identifiers);
            module.called_macros.extend(item.mac.path.segments.last().map(|segment| plain(&segment.ident)));
        }
    }

    fn bind(&mut self, module: ModuleId, name: String, binding: Binding) {
        self.all[module.0].names.entry(name).or_default().push(binding);
    }

    /// The module whose descendants see what is declared in `module` with this visibility.
    fn seen_in(&self, module: ModuleId, visibility: &Visibility) -> Option<ModuleId> {
        match visibility {
            Visibility::Inherited => Some(module),
            Visibility::Restricted(restricted) if restricted.path.is_ident("self") => Some(module),
            Visibility::Restricted(restricted) if restricted.path.is_ident("super") => self.get(module).parent,
            // `pub(in path)` counts as `pub(crate)`: the compiler checks the difference.
            _ => None,
        }
    }

    fn add_names_of_macro_bodies(&mut self) {
        for module in &mut self.all {
            for body in module.called_macros.iter().filter_map(|name| self.macro_bodies.get(name)) {
                module.macro_names.extend(body.iter().cloned());
            }
        }
    }
}

impl Module {
    /// Whether code that a macro generates among the items may define this name. Only the text of the macro is known: a
    /// call may define any identifier in it, and a derive, also one in a macro, may define names that begin with the
    /// name of its type.
    pub(super) fn may_generate(&self, name: &str) -> bool {
        let types = self.macro_names.iter().filter(|name| name.starts_with(char::is_uppercase)).chain(&self.derived);
        self.macro_names.contains(name) || types.into_iter().any(|of_type| name.starts_with(of_type.as_str()))
    }
}

/// One leaf of a `use` tree.
pub(super) struct Import {
    /// Without a leading `::`, which only other crates need.
    pub(super) path: Vec<String>,
    /// The name that the import gives; `None` for a glob and for `as _`.
    pub(super) name: Option<String>,
    pub(super) is_glob: bool,
}

/// The leaves of a `use` declaration. A declaration that starts with `::` refers to other crates and has none.
pub(super) fn imports(item: &ItemUse) -> Vec<Import> {
    let mut found = Vec::new();
    if item.leading_colon.is_none() {
        add_leaves(&item.tree, &mut Vec::new(), &mut found);
    }
    found
}

fn add_leaves(tree: &UseTree, prefix: &mut Vec<String>, found: &mut Vec<Import>) {
    match tree {
        UseTree::Path(path) => {
            prefix.push(plain(&path.ident));
            add_leaves(&path.tree, prefix, found);
            prefix.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| add_leaves(tree, prefix, found)),
        UseTree::Glob(_) => found.push(Import { path: prefix.clone(), name: None, is_glob: true }),
        UseTree::Name(name) => found.push(leaf(prefix, &name.ident, &name.ident)),
        UseTree::Rename(rename) => found.push(leaf(prefix, &rename.ident, &rename.rename)),
    }
}

fn leaf(prefix: &[String], ident: &Ident, name: &Ident) -> Import {
    let mut path = prefix.to_vec();
    let mut name = Some(plain(name)).filter(|name| name != "_");
    if ident == "self" && !prefix.is_empty() {
        // `use a::b::{self}` names `b`.
        name = name.map(|name| if name == "self" { prefix[prefix.len() - 1].clone() } else { name });
    } else {
        path.push(plain(ident));
    }
    Import { path, name, is_glob: false }
}

/// An identifier without the `r#` of a raw one.
pub(super) fn plain(ident: &Ident) -> String {
    ident.unraw().to_string()
}

pub(super) fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of_type(item: &Item) -> Option<String> {
    match item {
        Item::Enum(item) => Some(plain(&item.ident)),
        Item::Struct(item) => Some(plain(&item.ident)),
        Item::Union(item) => Some(plain(&item.ident)),
        _ => None,
    }
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let Meta::NameValue(meta) = &attribute.meta else { return None };
        let Expr::Lit(value) = &meta.value else { return None };
        let Lit::Str(text) = &value.lit else { return None };
        meta.path.is_ident("path").then(|| text.value())
    })
}

/// Every identifier in the tokens, within groups too.
fn identifiers(tokens: TokenStream) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => found.extend([plain(&ident)]),
            TokenTree::Group(group) => found.extend(identifiers(group.stream())),
            _ => {}
        }
    }
    found
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Joins two relative paths and resolves `..` in the result.
fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}
