//! Flat types of every kind in every extensibility, with code that reads and builds each of them member by member. Used
//! by the fuzz target `flat_view` and the tests of `xtypes`.

use std::collections::BTreeMap;

use peregrine_xtypes::flat::{Flat, FlatError, FlatType};
use peregrine_xtypes::{BoundedMap, BoundedString, BoundedVec, BoundedWString, Char8, DdsType, WString, Wchar};

/// A type that is read through its view and built by its builder.
pub trait Sample: FlatType {
    /// The value that the view shows, read by every accessor.
    fn read(view: Self::View<'_>) -> Self;
    /// The value, built member by member.
    fn build(&self) -> Result<Flat<Self>, FlatError>;
    /// Changes everything that can be changed in place, identically in the value and in the view.
    fn change(&mut self, view: Self::ViewMut<'_>);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, DdsType)]
#[dds(bit_bound = 8, flat)]
pub enum Level {
    Low = -1,
    #[dds(default_literal)]
    Middle,
    High = 100,
}

#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(bitmask, bit_bound = 12, flat)]
pub struct Flags(pub u16);

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(flat)]
pub struct Name(pub String);

/// A type of fixed size, with padding that depends on where a value begins.
#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final", flat)]
pub struct Fixed {
    pub octet: u8,
    pub short: i16,
    pub level: Level,
    pub word: u32,
    pub two: [u8; 2],
}

/// A type whose memory is its encoding.
#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final", flat)]
#[repr(C)]
pub struct Plain {
    pub id: u32,
    pub values: [i16; 2],
}

fn read_fixed(view: FixedView<'_>) -> Fixed {
    let two = view.two().to_vec().try_into().expect("two bytes");
    Fixed { octet: view.octet(), short: view.short(), level: view.level(), word: view.word(), two }
}

fn read_plain(view: PlainView<'_>) -> Plain {
    Plain { id: view.id(), values: view.values().to_vec().try_into().expect("two numbers") }
}

macro_rules! types {
    ($module:ident, $extensibility:literal) => {
        pub mod $module {
            use super::*;

            #[derive(Clone, Debug, PartialEq, DdsType)]
            #[dds(extensibility = $extensibility, flat)]
            pub enum Choice {
                #[dds(case = 1, 7)]
                Number(u16),
                #[dds(case = -2)]
                Texts(Vec<String>),
                #[dds(case = 3)]
                Nothing,
                #[dds(default)]
                Other(Box<Part>),
            }

            #[derive(Clone, Debug, PartialEq, DdsType)]
            #[dds(extensibility = $extensibility, discriminator = "Level", flat)]
            pub enum ByLevel {
                #[dds(case = Level::Low)]
                Low(u8),
                #[dds(case = Level::High, default)]
                Others(f64),
            }

            #[derive(Clone, Debug, PartialEq, DdsType)]
            #[dds(extensibility = $extensibility, flat)]
            pub struct Part {
                pub octet: u8,
                pub long: i64,
                #[dds(key, id = 9)]
                pub text: String,
                #[dds(key, id = 4)]
                pub short: u16,
            }

            #[derive(Clone, Debug, PartialEq, DdsType)]
            #[dds(extensibility = $extensibility, flat)]
            pub struct Tree {
                pub id: u16,
                pub children: Vec<Tree>,
                pub choice: Option<Choice>,
            }

            /// A type of which only lengths need a check.
            #[derive(Clone, Debug, PartialEq, DdsType)]
            #[dds(extensibility = $extensibility, flat)]
            pub struct Numbers {
                #[dds(key)]
                pub key: [u8; 4],
                pub octet: u8,
                pub three: [u16; 3],
                #[dds(must_understand)]
                pub double: f64,
                pub words: BoundedVec<u32, 9>,
                pub last: i16,
                pub octets: Vec<u8>,
            }

            #[derive(Clone, Debug, PartialEq, DdsType)]
            #[dds(extensibility = $extensibility, flat)]
            pub struct Everything {
                pub a: i8,
                pub b: u64,
                pub flag: bool,
                pub fixed: Fixed,
                pub octets: [u8; 5],
                pub longs: [u64; 2],
                #[dds(key)]
                pub part: Part,
                pub c: i16,
                pub char8: Char8,
                pub wchar: Wchar,
                pub text: Name,
                pub wide: WString,
                pub bounded: BoundedString<40>,
                pub bounded_wide: BoundedWString<40>,
                pub data: Vec<u8>,
                pub numbers: Vec<i16>,
                pub doubles: BoundedVec<f64, 3>,
                pub flags: Vec<bool>,
                pub matrix: [[i32; 2]; 3],
                pub fixeds: Vec<Fixed>,
                pub plains: Vec<Plain>,
                pub parts: Vec<Part>,
                pub two: [Part; 2],
                pub names: Vec<String>,
                pub level: Level,
                #[dds(must_understand)]
                pub mask: Flags,
                pub masks: Vec<Flags>,
                #[dds(key, id = 0x3f80)]
                pub choice: Choice,
                pub by_level: ByLevel,
                pub map: BTreeMap<u8, u64>,
                pub levels: BoundedMap<String, Level, 4>,
                pub optional_long: Option<i64>,
                pub optional_text: Option<String>,
                pub optional_part: Option<Box<Part>>,
                pub optional_fixed: Option<Fixed>,
                pub tree: Tree,
                pub r#type: u8,
            }

            fn read_choice(view: ChoiceView<'_>) -> Choice {
                match view {
                    ChoiceView::Number(number) => Choice::Number(number),
                    ChoiceView::Texts(texts) => Choice::Texts(texts.iter().map(str::to_owned).collect()),
                    ChoiceView::Nothing => Choice::Nothing,
                    ChoiceView::Other(part) => Choice::Other(Box::new(read_part(part))),
                }
            }

            fn read_by_level(view: ByLevelView<'_>) -> ByLevel {
                match view {
                    ByLevelView::Low(value) => ByLevel::Low(value),
                    ByLevelView::Others(value) => ByLevel::Others(value),
                }
            }

            fn read_part(view: PartView<'_>) -> Part {
                Part { octet: view.octet(), long: view.long(), text: view.text().to_owned(), short: view.short() }
            }

            fn read_tree(view: TreeView<'_>) -> Tree {
                Tree {
                    id: view.id(),
                    children: view.children().iter().map(read_tree).collect(),
                    choice: view.choice().map(read_choice),
                }
            }

            fn build_part<'w>(
                part: &Part,
                builder: PartBuilder<'w>,
            ) -> Result<peregrine_xtypes::flat::Done<'w, Part>, FlatError> {
                builder.octet(part.octet)?.long(part.long)?.text(&part.text)?.short(part.short)?.finish()
            }

            fn build_tree<'w>(
                tree: &Tree,
                builder: TreeBuilder<'w>,
            ) -> Result<peregrine_xtypes::flat::Done<'w, Tree>, FlatError> {
                builder
                    .id(tree.id)?
                    .children_with(|mut children| {
                        for child in &tree.children {
                            children.push_with(|builder| build_tree(child, builder))?;
                        }
                        children.finish()
                    })?
                    .choice(tree.choice.as_ref())?
                    .finish()
            }

            impl Sample for Tree {
                fn read(view: TreeView<'_>) -> Self {
                    read_tree(view)
                }

                fn build(&self) -> Result<Flat<Self>, FlatError> {
                    Flat::<Self>::build(|builder| build_tree(self, builder))
                }

                fn change(&mut self, mut view: TreeViewMut<'_>) {
                    if let Ok(mut id) = view.id_mut() {
                        id.set(99);
                        self.id = 99;
                    }
                    if let Ok(mut children) = view.children_mut()
                        && let Some(last) = children.len().checked_sub(1)
                        && let (Some(child), Some(view)) = (self.children.last_mut(), children.get_mut(last))
                    {
                        child.change(view);
                    }
                }
            }

            impl Sample for Numbers {
                fn read(view: NumbersView<'_>) -> Self {
                    Self {
                        key: view.key().to_vec().try_into().expect("four bytes"),
                        octet: view.octet(),
                        three: view.three().to_vec().try_into().expect("three numbers"),
                        double: view.double(),
                        words: view.words().iter().collect::<Vec<_>>().try_into().expect("checked"),
                        last: view.last(),
                        octets: view.octets().as_slice().expect("bytes").to_vec(),
                    }
                }

                fn build(&self) -> Result<Flat<Self>, FlatError> {
                    Flat::<Self>::build(|builder| {
                        builder
                            .key(&self.key)?
                            .octet(self.octet)?
                            .three(&self.three)?
                            .double(self.double)?
                            .words(&self.words)?
                            .last(self.last)?
                            .octets_with(|mut octets| {
                                octets.fill(self.octets.len(), |octets| octets.copy_from_slice(&self.octets))?;
                                octets.finish()
                            })?
                            .finish()
                    })
                }

                fn change(&mut self, mut view: NumbersViewMut<'_>) {
                    if let Ok(mut octet) = view.octet_mut() {
                        octet.set(77);
                        self.octet = 77;
                    }
                    if let Ok(mut last) = view.last_mut() {
                        last.set(-78);
                        self.last = -78;
                    }
                    if let Ok(mut octets) = view.octets_mut()
                        && let Some(octets) = octets.as_mut_slice()
                    {
                        octets.reverse();
                        self.octets.reverse();
                    }
                }
            }

            impl Sample for Everything {
                fn read(view: EverythingView<'_>) -> Self {
                    let matrix = view.matrix();
                    let row = |i| matrix.get(i).expect("three rows").to_vec().try_into().expect("two columns");
                    let two = view.two();
                    Self {
                        a: view.a(),
                        b: view.b(),
                        flag: view.flag(),
                        fixed: read_fixed(view.fixed()),
                        octets: view.octets().to_vec().try_into().expect("five bytes"),
                        longs: [view.longs().get(0).expect("two"), view.longs().get(1).expect("two")],
                        part: read_part(view.part()),
                        c: view.c(),
                        char8: view.char8(),
                        wchar: view.wchar(),
                        text: Name(view.text().to_owned()),
                        wide: view.wide().to_string().into(),
                        bounded: view.bounded().try_into().expect("checked"),
                        bounded_wide: view.bounded_wide().to_string().try_into().expect("checked"),
                        data: view.data().as_slice().expect("bytes").to_vec(),
                        numbers: view.numbers().iter().collect(),
                        doubles: view.doubles().to_vec().try_into().expect("checked"),
                        flags: view.flags().iter().collect(),
                        matrix: [row(0), row(1), row(2)],
                        fixeds: read_backwards(view.fixeds(), read_fixed),
                        plains: match view.plains().as_slice() {
                            Some(plains) => plains.to_vec(),
                            None => view.plains().iter().map(read_plain).collect(),
                        },
                        parts: read_backwards(view.parts(), read_part),
                        two: [0, 1].map(|i| read_part(two.get(i).expect("two parts"))),
                        names: view.names().iter().map(str::to_owned).collect(),
                        level: view.level(),
                        mask: view.mask(),
                        masks: view.masks().iter().collect(),
                        choice: read_choice(view.choice()),
                        by_level: read_by_level(view.by_level()),
                        map: view.map().iter().collect(),
                        levels: view
                            .levels()
                            .iter()
                            .map(|(name, level)| (name.to_owned(), level))
                            .collect::<BTreeMap<_, _>>()
                            .try_into()
                            .expect("checked"),
                        optional_long: view.optional_long(),
                        optional_text: view.optional_text().map(str::to_owned),
                        optional_part: view.optional_part().map(|part| Box::new(read_part(part))),
                        optional_fixed: view.optional_fixed().map(read_fixed),
                        tree: read_tree(view.tree()),
                        r#type: view.r#type(),
                    }
                }

                fn build(&self) -> Result<Flat<Self>, FlatError> {
                    Flat::<Self>::build(|builder| {
                        let builder = builder
                            .a(self.a)?
                            .b_with(|b| b.put(self.b))?
                            .flag(self.flag)?
                            .fixed_with(|fixed| {
                                let Fixed { octet, short, level, word, two } = &self.fixed;
                                fixed.octet(*octet)?.short(*short)?.level(*level)?.word(*word)?.two(two)?.finish()
                            })?
                            .octets_with(|mut octets| {
                                octets.fill(5, |octets| octets.copy_from_slice(&self.octets))?;
                                octets.finish()
                            })?
                            .longs(&self.longs)?
                            .part_with(|builder| build_part(&self.part, builder))?
                            .c(self.c)?
                            .char8(self.char8)?
                            .wchar(self.wchar)?
                            .text(&self.text.0)?
                            .wide(&self.wide)?
                            .bounded(&self.bounded)?
                            .bounded_wide(&self.bounded_wide)?;
                        let builder = builder
                            .data_with(|mut data| {
                                data.fill(self.data.len(), |octets| octets.copy_from_slice(&self.data))?;
                                data.finish()
                            })?
                            .numbers_with(|mut numbers| {
                                self.numbers.iter().try_for_each(|number| numbers.push(*number))?;
                                numbers.finish()
                            })?
                            .doubles_with(|mut doubles| {
                                let len = self.doubles.len();
                                doubles.fill(len, |doubles| doubles.copy_from_slice(&self.doubles))?;
                                doubles.finish()
                            })?
                            .flags_with(|mut flags| {
                                flags.fill(self.flags.len(), |flags| flags.copy_from_slice(&self.flags))?;
                                flags.finish()
                            })?
                            .matrix_with(|mut rows| {
                                rows.push(&self.matrix[0])?;
                                rows.push_with(|mut row| {
                                    row.extend_from_slice(&self.matrix[1])?;
                                    row.finish()
                                })?;
                                rows.extend_from_slice(&self.matrix[2..])?;
                                rows.finish()
                            })?
                            .fixeds(&self.fixeds)?
                            .plains_with(|mut plains| {
                                let len = self.plains.len();
                                plains.fill(len, |plains| plains.copy_from_slice(&self.plains))?;
                                plains.finish()
                            })?
                            .parts_with(|mut parts| {
                                for part in &self.parts {
                                    parts.push_with(|builder| build_part(part, builder))?;
                                }
                                parts.finish()
                            })?
                            .two_with(|mut two| {
                                self.two.iter().try_for_each(|part| two.push(part))?;
                                two.finish()
                            })?
                            .names_with(|mut names| {
                                self.names.iter().try_for_each(|name| names.push(name))?;
                                names.finish()
                            })?;
                        let builder = builder
                            .level(self.level)?
                            .mask(self.mask)?
                            .masks(&self.masks)?
                            .choice(&self.choice)?
                            .by_level_with(|by_level| by_level.put(&self.by_level))?
                            .map(&self.map)?
                            .levels(&self.levels)?
                            .optional_long(self.optional_long)?
                            .optional_text(self.optional_text.as_deref())?;
                        let builder = match &self.optional_part {
                            Some(part) => builder.optional_part_with(|builder| build_part(part, builder))?,
                            None => builder.optional_part(None)?,
                        };
                        builder
                            .optional_fixed(self.optional_fixed.as_ref())?
                            .tree_with(|builder| build_tree(&self.tree, builder))?
                            .r#type(self.r#type)?
                            .finish()
                    })
                }

                fn change(&mut self, mut view: EverythingViewMut<'_>) {
                    if let Ok(mut b) = view.b_mut() {
                        b.set(b.get() ^ 0x0102_0304_0506_0708);
                        self.b ^= 0x0102_0304_0506_0708;
                    }
                    if let Ok(mut fixed) = view.fixed_mut() {
                        fixed.word_mut().expect("final").set(77);
                        fixed.level_mut().expect("final").set(Level::High);
                        (self.fixed.word, self.fixed.level) = (77, Level::High);
                    }
                    if let Ok(mut data) = view.data_mut()
                        && let Some(octets) = data.as_mut_slice()
                    {
                        octets.reverse();
                        self.data.reverse();
                    }
                    if let Ok(mut fixeds) = view.fixeds_mut()
                        && let Some(last) = self.fixeds.last_mut()
                    {
                        let index = fixeds.len() - 1;
                        let mut view = fixeds.get_mut(index).expect("as many");
                        view.short_mut().expect("final").set(-5);
                        last.short = -5;
                    }
                    if let Ok(mut parts) = view.parts_mut()
                        && let Some(last) = self.parts.last_mut()
                        && let Some(mut view) = parts.get_mut(parts.len() - 1)
                        && let Ok(mut short) = view.short_mut()
                    {
                        short.set(4321);
                        last.short = 4321;
                    }
                    if let (Ok(mut long), Some(value)) = (view.optional_long_mut(), &mut self.optional_long) {
                        long.set(-1);
                        *value = -1;
                    }
                    if let Ok(tree) = view.tree_mut() {
                        self.tree.change(tree);
                    }
                    if let Ok(mut last) = view.type_mut() {
                        last.set(200);
                        self.r#type = 200;
                    }
                }
            }
        }
    };
}

/// Reads the elements one by one from the last to the first.
fn read_backwards<'a, T: FlatType>(
    elements: peregrine_xtypes::flat::Elements<'a, T>,
    read: impl Fn(T::View<'a>) -> T,
) -> Vec<T> {
    let mut values: Vec<T> = (0..elements.len()).rev().map(|i| read(elements.get(i).expect("in bounds"))).collect();
    values.reverse();
    values
}

types!(finals, "final");
types!(appendables, "appendable");
types!(mutables, "mutable");

/// Calls a generic function for each type.
#[macro_export]
macro_rules! for_each_flat_type {
    ($check:ident, $data:expr) => {
        $check::<flat_types::finals::Everything>($data);
        $check::<flat_types::finals::Tree>($data);
        $check::<flat_types::finals::Numbers>($data);
        $check::<flat_types::appendables::Everything>($data);
        $check::<flat_types::appendables::Tree>($data);
        $check::<flat_types::appendables::Numbers>($data);
        $check::<flat_types::mutables::Everything>($data);
        $check::<flat_types::mutables::Tree>($data);
        $check::<flat_types::mutables::Numbers>($data);
    };
}
