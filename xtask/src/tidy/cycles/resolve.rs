//! From a path in a module to the module that defines its name: through imports, globs and re-exports.

use std::cell::RefCell;

use super::modules::{ModuleId, Modules, ROOT, Space, Target};

/// The target of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Module(ModuleId),
    /// An item that this module defines, or a part of the item such as a variant.
    Item(ModuleId),
}

/// The result of following a path.
pub(super) enum Answer {
    /// All possible targets: one item, or several under different `cfg`.
    Found(Vec<Found>),
    /// A name of another crate, of the language, or of a local scope.
    Elsewhere,
    /// The path enters a module of this crate, and that module has no such name.
    Lost,
}

/// Names that every module has from the language and its prelude. A glob never leads to them.
const PRELUDE: &[&str] = &[
    "bool",
    "char",
    "str",
    "u8",
    "u16",
    "u32",
    "u64",
    "u128",
    "usize",
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "isize",
    "f32",
    "f64",
    "Box",
    "Clone",
    "Copy",
    "Debug",
    "Default",
    "Drop",
    "Eq",
    "Err",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "Hash",
    "Into",
    "Iterator",
    "None",
    "Ok",
    "Option",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Result",
    "Self",
    "Send",
    "Sized",
    "Some",
    "String",
    "Sync",
    "ToString",
    "Vec",
    "crate",
    "self",
    "super",
];

pub(super) struct Resolver<'m> {
    modules: &'m Modules,
    /// The imports and globs that are being followed, so that a circular one ends.
    followed: RefCell<Vec<(ModuleId, String, Step)>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Binding(usize),
    Glob(usize),
}

impl<'m> Resolver<'m> {
    pub(super) fn new(modules: &'m Modules) -> Self {
        Self { modules, followed: RefCell::default() }
    }

    /// Follows a path in `module`.
    pub(super) fn follow(&self, module: ModuleId, path: &[String], space: Space) -> Answer {
        let Some((first, mut rest)) = path.split_first() else { return Answer::Elsewhere };
        let mut found = match first.as_str() {
            "crate" => vec![Found::Module(ROOT)],
            "self" => vec![Found::Module(module)],
            "super" => {
                let Some(mut parent) = self.modules.get(module).parent else { return Answer::Elsewhere };
                while let Some((next, behind)) = rest.split_first().filter(|(next, _)| *next == "super") {
                    debug_assert_eq!(next, "super");
                    let Some(grandparent) = self.modules.get(parent).parent else { return Answer::Elsewhere };
                    parent = grandparent;
                    rest = behind;
                }
                vec![Found::Module(parent)]
            }
            first => match self.look_up(module, first, if rest.is_empty() { space } else { Space::Type }, module) {
                Some(found) => found,
                None if self.modules.root_aliases.contains(first) => vec![Found::Module(ROOT)],
                None => return Answer::Elsewhere,
            },
        };
        while let Some((next, behind)) = rest.split_first() {
            let wanted = if behind.is_empty() { space } else { Space::Type };
            let mut after = Vec::new();
            let mut is_elsewhere = found.is_empty();
            for place in found {
                match place {
                    Found::Item(_) => after.push(place),
                    Found::Module(inner) => match self.look_up(inner, next, wanted, module) {
                        Some(more) if more.is_empty() => is_elsewhere = true,
                        Some(more) => after.extend(more),
                        None => {}
                    },
                }
            }
            if after.is_empty() {
                return if is_elsewhere { Answer::Elsewhere } else { Answer::Lost };
            }
            found = after;
            rest = behind;
        }
        if found.is_empty() { Answer::Elsewhere } else { Answer::Found(found) }
    }

    /// The targets of `name` in `module` for code in `viewer`. `None` if the module has no such name; an empty list for
    /// a name of another crate.
    fn look_up(&self, module: ModuleId, name: &str, space: Space, viewer: ModuleId) -> Option<Vec<Found>> {
        let sees = |seen_in: Option<ModuleId>| seen_in.is_none_or(|scope| self.modules.is_within(viewer, scope));
        let here = self.modules.get(module);
        let mut found = None;
        for (index, binding) in here.names.get(name).into_iter().flatten().enumerate() {
            if !binding.space.meets(space) || !sees(binding.seen_in) {
                continue;
            }
            let places = match &binding.target {
                Target::Item(definer) => Some(vec![Found::Item(*definer)]),
                Target::Module(child) => Some(vec![Found::Module(*child)]),
                Target::Import(path) => {
                    self.once(module, name, Step::Binding(index), || match self.follow(module, path, space) {
                        Answer::Found(places) => Some(places),
                        Answer::Elsewhere => Some(Vec::new()),
                        Answer::Lost => None,
                    })
                }
            };
            if let Some(places) = places {
                found.get_or_insert_with(Vec::new).extend(places);
            }
        }
        if found.is_some() {
            return found;
        }
        if PRELUDE.contains(&name) && module != viewer {
            return None;
        }
        let by_glob = here.globs.iter().enumerate().filter(|(_, glob)| sees(glob.seen_in)).find_map(|(index, glob)| {
            self.once(module, name, Step::Glob(index), || {
                let Answer::Found(places) = self.follow(module, &glob.path, Space::Type) else { return None };
                places.into_iter().find_map(|place| match place {
                    Found::Module(inner) => self.look_up(inner, name, space, module),
                    Found::Item(_) => None,
                })
            })
        });
        by_glob.or_else(|| here.may_generate(name).then(|| vec![Found::Item(module)]))
    }

    /// Follows an import or glob unless this is being done already.
    fn once<T>(&self, module: ModuleId, name: &str, step: Step, follow: impl FnOnce() -> Option<T>) -> Option<T> {
        let key = (module, name.to_owned(), step);
        if self.followed.borrow().contains(&key) {
            return None;
        }
        self.followed.borrow_mut().push(key);
        let found = follow();
        self.followed.borrow_mut().pop();
        found
    }
}
