//! The names that the code of a module uses, and the resulting dependencies between files.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, Block, Expr, ExprCall, ExprPath, Field, FieldValue, Generics, ImplItem, ImplItemFn, Item, ItemFn,
    ItemUse, Lit, Local, Macro, PatIdent, Path, Signature, Stmt, TraitItem, TraitItemFn, Variant, Visibility,
};

use super::cfg::is_for_tests;
use super::modules::{ModuleId, Modules, Space, attributes_of, imports, plain};
use super::resolve::{Answer, Found, Resolver};

/// The files that each file depends on, each with one name that causes the dependency.
pub(in crate::tidy) type Arrows = BTreeMap<String, BTreeMap<String, String>>;

/// The dependencies between the files of a target, and the paths that could not be followed.
#[derive(Default)]
pub(super) struct Uses {
    pub(super) arrows: Arrows,
    /// A file and a path in it that enters a module of the crate and finds no such name there.
    pub(super) lost: BTreeSet<(String, String)>,
}

/// Reads the code of every module.
pub(super) fn uses(modules: &Modules) -> Uses {
    let mut uses = Uses::default();
    for id in modules.ids() {
        let mut reader = Reader {
            modules,
            module: id,
            resolver: Resolver::new(modules),
            scopes: Vec::new(),
            variables: Vec::new(),
            uses: &mut uses,
        };
        for item in &modules.get(id).items {
            reader.visit_item(item);
        }
    }
    uses
}

struct Reader<'m> {
    modules: &'m Modules,
    module: ModuleId,
    resolver: Resolver<'m>,
    /// The declarations of the blocks and generics around the code.
    scopes: Vec<Scope>,
    /// The variables of each function around the code.
    variables: Vec<BTreeSet<String>>,
    uses: &'m mut Uses,
}

#[derive(Default)]
struct Scope {
    /// Imports by the name that they give.
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    /// Items of a block and generic parameters.
    own: BTreeSet<String>,
}

impl Reader<'_> {
    /// Records the target of a path in the code.
    fn note(&mut self, path: &[String], space: Space, is_certain: bool) {
        let Some((first, rest)) = path.split_first() else { return };
        for scope in self.scopes.iter().rev() {
            if scope.own.contains(first) {
                return;
            }
            if let Some(import) = scope.imports.get(first) {
                // The import itself is a use of its target; the rest may lead on from a module.
                let full: Vec<String> = import.iter().chain(rest).cloned().collect();
                self.note_resolved(&full, space, is_certain);
                return;
            }
        }
        if self.note_resolved(path, space, is_certain) {
            return;
        }
        let globs: Vec<Vec<String>> = self.scopes.iter().flat_map(|scope| scope.globs.iter().cloned()).collect();
        for glob in globs {
            let full: Vec<String> = glob.iter().chain(path).cloned().collect();
            self.note_resolved(&full, space, false);
        }
    }

    /// Whether the path leads into this crate. A token run that is certainly a path is reported if its target is not
    /// found.
    fn note_resolved(&mut self, path: &[String], space: Space, is_certain: bool) -> bool {
        match self.resolver.follow(self.module, path, space) {
            Answer::Found(places) => {
                for place in places {
                    if let Found::Item(definer) = place {
                        self.add_arrow(definer, path);
                    }
                }
                true
            }
            Answer::Elsewhere => false,
            Answer::Lost => {
                if is_certain {
                    let file = self.modules.get(self.module).file.clone();
                    self.uses.lost.insert((file, path.join("::")));
                }
                false
            }
        }
    }

    fn add_arrow(&mut self, definer: ModuleId, path: &[String]) {
        let from = &self.modules.get(self.module).file;
        let to = &self.modules.get(definer).file;
        if from != to {
            let names = self.uses.arrows.entry(from.clone()).or_default();
            names.entry(to.clone()).or_insert_with(|| path.join("::"));
        }
    }

    fn is_variable(&self, name: &str) -> bool {
        self.variables.iter().any(|names| names.contains(name))
    }

    /// A re-export of an item of a descendant module is part of that module's interface and not a use.
    fn note_import(&mut self, path: &[String], is_reexport: bool) {
        match self.resolver.follow(self.module, path, Space::Any) {
            Answer::Found(places) => {
                for place in places {
                    match place {
                        Found::Item(definer) if is_reexport && self.modules.is_within(definer, self.module) => {}
                        Found::Item(definer) => self.add_arrow(definer, path),
                        Found::Module(_) => {}
                    }
                }
            }
            Answer::Elsewhere => {}
            Answer::Lost => {
                let file = self.modules.get(self.module).file.clone();
                self.uses.lost.insert((file, path.join("::")));
            }
        }
    }

    fn read_use(&mut self, item: &ItemUse) {
        let is_reexport = !matches!(item.vis, Visibility::Inherited);
        for import in imports(item) {
            self.note_import(&import.path, is_reexport);
        }
    }

    fn in_scope(&mut self, scope: Scope, read: impl FnOnce(&mut Self)) {
        self.scopes.push(scope);
        read(self);
        self.scopes.pop();
    }

    fn in_function(&mut self, signature: &Signature, block: Option<&Block>, read: impl FnOnce(&mut Self)) {
        let mut names = Variables::default();
        names.visit_signature(signature);
        if let Some(block) = block {
            names.visit_block(block);
        }
        self.variables.push(names.0);
        self.in_scope(generic_scope(&signature.generics), read);
        self.variables.pop();
    }

    /// The tokens of a macro call or an attribute are not a syntax tree: each run `a::b::c` in them counts as a path.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.read_tokens(group.stream()),
                TokenTree::Ident(_) => {
                    let (path, end) = path_at(&tokens, at);
                    self.read_token_path(&path, &tokens, at, end);
                    at = end;
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn read_token_path(&mut self, path: &[String], tokens: &[TokenTree], start: usize, end: usize) {
        let before = |distance: usize| start.checked_sub(distance).and_then(|at| punctuation(&tokens[at]));
        let after = |distance: usize| tokens.get(end + distance).and_then(punctuation);
        let is_macro_variable = before(1) == Some('$') && path[0] != "crate";
        let continues_a_type = before(1) == Some(':') && before(2) == Some(':');
        let is_call =
            matches!(tokens.get(end), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
        let is_member = path.len() == 1
            && (before(1) == Some('.') && before(2) != Some('.')
                || after(0) == Some(':') && after(1) != Some(':')
                || after(0) == Some('=') && !matches!(after(1), Some('=' | '>'))
                || self.is_variable(&path[0]) && !is_call);
        if is_macro_variable || continues_a_type || is_member {
            return;
        }
        if path.len() == 1 && after(0) == Some('!') {
            self.note_macro(path);
        } else {
            self.note(path, Space::Any, false);
        }
    }

    /// A macro is found by its path, or, if it has a plain name, in the text before it in this or an outer module.
    fn note_macro(&mut self, path: &[String]) {
        if self.note_resolved(path, Space::Macro, false) || path.len() > 1 {
            return;
        }
        let outer = self.modules.with_ancestors(self.module).find(|id| {
            let bindings = self.modules.get(*id).names.get(&path[0]);
            bindings.is_some_and(|bindings| bindings.iter().any(|binding| binding.space == Space::Macro))
        });
        if let Some(outer) = outer {
            self.add_arrow(outer, path);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes_of(item)) {
            return;
        }
        let scope = match item {
            Item::Enum(item) => generic_scope(&item.generics),
            Item::Impl(item) => generic_scope(&item.generics),
            Item::Struct(item) => generic_scope(&item.generics),
            Item::Trait(item) => generic_scope(&item.generics),
            Item::Type(item) => generic_scope(&item.generics),
            Item::Union(item) => generic_scope(&item.generics),
            Item::Use(item) => return self.read_use(item),
            Item::Macro(item) if item.ident.is_some() => return self.read_tokens(item.mac.tokens.clone()),
            _ => Scope::default(),
        };
        self.in_scope(scope, |reader| visit::visit_item(reader, item));
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.in_function(&item.sig, Some(&item.block), |reader| visit::visit_item_fn(reader, item));
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => return,
        };
        if !is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.in_function(&item.sig, Some(&item.block), |reader| visit::visit_impl_item_fn(reader, item));
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        let attributes = match item {
            TraitItem::Const(item) => &item.attrs,
            TraitItem::Fn(item) => &item.attrs,
            TraitItem::Macro(item) => &item.attrs,
            TraitItem::Type(item) => &item.attrs,
            _ => return,
        };
        if !is_for_tests(attributes) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.in_function(&item.sig, item.default.as_ref(), |reader| visit::visit_trait_item_fn(reader, item));
    }

    fn visit_block(&mut self, block: &'ast Block) {
        let scope = block_scope(block);
        self.in_scope(scope, |reader| visit::visit_block(reader, block));
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        let attributes: &[Attribute] = match statement {
            Stmt::Expr(Expr::Block(block), _) => &block.attrs,
            Stmt::Expr(Expr::If(branch), _) => &branch.attrs,
            Stmt::Expr(Expr::Call(call), _) => &call.attrs,
            Stmt::Expr(Expr::MethodCall(call), _) => &call.attrs,
            Stmt::Macro(call) => &call.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if !is_for_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_field(&mut self, field: &'ast Field) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, field: &'ast FieldValue) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field_value(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'ast Variant) {
        if !is_for_tests(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        if !is_for_tests(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        // A called name is a function, also if a variable has the same name: `let now = now();`.
        match &*call.func {
            Expr::Path(function) => {
                if let Some(qself) = &function.qself {
                    self.visit_qself(qself);
                }
                self.visit_path(&function.path);
            }
            other => self.visit_expr(other),
        }
        for argument in &call.args {
            self.visit_expr(argument);
        }
    }

    fn visit_expr_path(&mut self, expression: &'ast ExprPath) {
        if expression.path.get_ident().is_some_and(|name| self.is_variable(&plain(name))) {
            return;
        }
        visit::visit_expr_path(self, expression);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        let name = plain(&pattern.ident);
        if names_a_constant(pattern) {
            self.note(&[name], Space::Value, false);
        }
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.leading_colon.is_none() {
            self.note(&names(path), Space::Any, true);
        }
        visit::visit_path(self, path);
    }

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_macro(&mut self, call: &'ast Macro) {
        if call.path.leading_colon.is_none() {
            self.note_macro(&names(&call.path));
        }
        self.read_tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let path = attribute.path();
        if let (Ok(list), false) = (attribute.meta.require_list(), path.is_ident("cfg") || path.is_ident("doc")) {
            self.read_tokens(list.tokens.clone());
            if path.is_ident("serde") {
                self.read_strings(list.tokens.clone());
            }
        }
    }
}

impl Reader<'_> {
    /// `serde` takes paths as strings: `#[serde(default = "ten", with = "duration_ns")]`.
    fn read_strings(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.read_strings(group.stream()),
                TokenTree::Literal(literal) => {
                    let Lit::Str(text) = Lit::new(literal) else { continue };
                    if let Ok(path) = text.parse::<Path>() {
                        self.note(&names(&path), Space::Value, false);
                    }
                }
                _ => {}
            }
        }
    }
}

/// The lower-case names that the patterns of a function bind.
#[derive(Default)]
struct Variables(BTreeSet<String>);

impl<'ast> Visit<'ast> for Variables {
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        if !names_a_constant(pattern) {
            self.0.insert(plain(&pattern.ident));
        }
        visit::visit_pat_ident(self, pattern);
    }
}

/// A pattern of one name binds a variable, or compares with a constant or a unit struct; the spelling decides.
fn names_a_constant(pattern: &PatIdent) -> bool {
    pattern.ident.to_string().starts_with(char::is_uppercase)
}

fn generic_scope(generics: &Generics) -> Scope {
    let types = generics.type_params().map(|parameter| plain(&parameter.ident));
    let constants = generics.const_params().map(|parameter| plain(&parameter.ident));
    Scope { own: types.chain(constants).collect(), ..Scope::default() }
}

fn block_scope(block: &Block) -> Scope {
    let mut scope = Scope::default();
    for statement in &block.stmts {
        let Stmt::Item(item) = statement else { continue };
        match item {
            Item::Use(item) => {
                for import in imports(item) {
                    match import.name {
                        Some(name) => drop(scope.imports.insert(name, import.path)),
                        None if import.is_glob => scope.globs.push(import.path),
                        None => {}
                    }
                }
            }
            Item::Const(item) => scope.own.extend([plain(&item.ident)]),
            Item::Enum(item) => scope.own.extend([plain(&item.ident)]),
            Item::Fn(item) => scope.own.extend([plain(&item.sig.ident)]),
            Item::Static(item) => scope.own.extend([plain(&item.ident)]),
            Item::Struct(item) => scope.own.extend([plain(&item.ident)]),
            Item::Trait(item) => scope.own.extend([plain(&item.ident)]),
            Item::Type(item) => scope.own.extend([plain(&item.ident)]),
            _ => {}
        }
    }
    scope
}

fn names(path: &Path) -> Vec<String> {
    path.segments.iter().map(|segment| plain(&segment.ident)).collect()
}

/// The longest `a::b::c` from this identifier on, and the index of the token behind it.
fn path_at(tokens: &[TokenTree], start: usize) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    let mut at = start;
    while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
        path.push(plain(ident));
        at += 1;
        let is_joined = tokens.get(at).and_then(punctuation) == Some(':')
            && tokens.get(at + 1).and_then(punctuation) == Some(':')
            && matches!(tokens.get(at + 2), Some(TokenTree::Ident(_)));
        if !is_joined {
            break;
        }
        at += 2;
    }
    (path, at)
}

fn punctuation(token: &TokenTree) -> Option<char> {
    match token {
        TokenTree::Punct(punct) => Some(punct.as_char()),
        _ => None,
    }
}
