//! XML elements that are read strictly: each part of a document is either known or refused.

use core::cell::RefCell;
use core::fmt::Display;
use core::str::FromStr;

use roxmltree::{Node, ParsingOptions};

use super::error::{Document, DocumentError, Position, Warning};
use crate::limits::{DOCUMENT_DEPTH, DOCUMENT_NODES, ELEMENT_ATTRIBUTES};

/// Elements of other namespaces are extensions.
const NAMESPACE_OF_THE_STANDARD: &str = "http://www.omg.org/";
/// States whether an extension may be ignored (DDS Security 1.2 §10.4.1.3).
const MUST_INTERPRET: &str = "must_interpret";

/// Reads the root element of a document, and returns the warnings too.
pub(super) fn read<T>(
    document: Document,
    text: &str,
    read: impl FnOnce(Element<'_, '_>) -> Result<T, DocumentError>,
) -> Result<(T, Vec<Warning>), DocumentError> {
    if let Some(at) = element_with_many_attributes(text) {
        let what = format!("an element has more than {ELEMENT_ATTRIBUTES} attributes");
        return Err(DocumentError { document, at: Some(at), what });
    }
    let options = ParsingOptions { allow_dtd: false, nodes_limit: DOCUMENT_NODES, ..ParsingOptions::default() };
    let parsed = roxmltree::Document::parse_with_options(text, options).map_err(|error| {
        let at = error.pos();
        let at = Some(Position { line: at.row, column: at.col });
        DocumentError { document, at, what: format!("not well-formed XML: {error}") }
    })?;
    let warnings = RefCell::new(Vec::new());
    let root = Element { document, node: parsed.root_element(), warnings: &warnings };
    if let Some(deep) = parsed.descendants().find(|node| node.ancestors().nth(DOCUMENT_DEPTH + 1).is_some()) {
        let deep = Element { node: deep, ..root };
        return Err(deep.error(format!("elements are nested in more than {DOCUMENT_DEPTH} levels")));
    }
    let value = read(root)?;
    Ok((value, warnings.into_inner()))
}

/// The place of the first element with too many attributes, before the parser compares each with all others.
fn element_with_many_attributes(text: &str) -> Option<Position> {
    let mut start = 0;
    for part in text.split('<') {
        if attributes_of(part) > ELEMENT_ATTRIBUTES {
            let before = text.get(..start).unwrap_or_default();
            let line = before.lines().count().max(1);
            let column = before.lines().last().unwrap_or_default().chars().count().max(1);
            let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
            return Some(Position { line: number(line), column: number(column) });
        }
        start += part.len() + 1;
    }
    None
}

/// The number of equals signs outside of values, from the start of an element on. A value contains no start of another.
fn attributes_of(element: &str) -> usize {
    let (mut quote, mut count) = (None, 0);
    for byte in element.bytes().filter(|_| !element.starts_with("!--")) {
        match (quote, byte) {
            (Some(open), _) if open == byte => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'=') => count += 1,
            (None, b'>') => break,
            _ => {}
        }
    }
    count
}

/// An element of a document.
#[derive(Clone, Copy)]
pub(super) struct Element<'a, 'input> {
    document: Document,
    node: Node<'a, 'input>,
    warnings: &'a RefCell<Vec<Warning>>,
}

impl<'a, 'input> Element<'a, 'input> {
    pub(super) fn name(&self) -> &'input str {
        self.node.tag_name().name()
    }

    pub(super) fn at(&self) -> Position {
        let at = self.node.document().text_pos_at(self.node.range().start);
        Position { line: at.row, column: at.col }
    }

    pub(super) fn error(&self, what: impl Into<String>) -> DocumentError {
        DocumentError { document: self.document, at: Some(self.at()), what: what.into() }
    }

    pub(super) fn warn(&self, what: impl Into<String>) {
        self.warnings.borrow_mut().push(Warning { at: self.at(), what: what.into() });
    }

    /// Requires this name, for the root.
    pub(super) fn named(self, name: &str) -> Result<Self, DocumentError> {
        if self.name() == name {
            Ok(self)
        } else {
            Err(self.error(format!("expected <{name}>, not <{}>", self.name())))
        }
    }

    /// The child elements, which must have one of these names. Ignores what the document permits to ignore.
    pub(super) fn children(&self, known: &[&str]) -> Result<Vec<Self>, DocumentError> {
        self.attributes(&[])?;
        self.children_with(known)
    }

    fn children_with(&self, known: &[&str]) -> Result<Vec<Self>, DocumentError> {
        let mut children = Vec::new();
        for node in self.node.children() {
            if node.is_text() && node.text().is_some_and(|text| !text.trim_ascii().is_empty()) {
                return Err(Self { node, ..*self }.error(format!("text is not permitted in <{}>", self.name())));
            }
            if !node.is_element() {
                continue;
            }
            let child = Self { node, ..*self };
            let is_ours = node.tag_name().namespace().is_none_or(|uri| uri.starts_with(NAMESPACE_OF_THE_STANDARD));
            if is_ours && known.contains(&child.name()) {
                children.push(child);
            } else if child.must_interpret()? {
                let expected = known.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(", ");
                let (name, parent) = (child.name(), self.name());
                return Err(child.error(format!("unknown element <{name}> in <{parent}>; expected {expected}")));
            }
        }
        Ok(children)
    }

    /// Children of which each name occurs at most once.
    pub(super) fn fields(&self, known: &[&str]) -> Result<Fields<'a, 'input>, DocumentError> {
        let children = self.children(known)?;
        Fields::new(*self, children)
    }

    /// As [`Self::fields`], with an attribute that is required.
    pub(super) fn named_children(
        &self,
        attribute: &str,
        known: &[&str],
    ) -> Result<(&'a str, Vec<Self>), DocumentError> {
        self.attributes(&[attribute])?;
        let value = self.node.attribute(attribute);
        let value = value.ok_or_else(|| self.error(format!("<{}> has no attribute `{attribute}`", self.name())))?;
        Ok((value, self.children_with(known)?))
    }

    fn attributes(&self, known: &[&str]) -> Result<(), DocumentError> {
        // Attributes of namespaces, such as the place of a schema, mean nothing here.
        let unknown = self.node.attributes().find(|attribute| {
            let name = attribute.name();
            attribute.namespace().is_none() && name != MUST_INTERPRET && !known.contains(&name)
        });
        match unknown {
            Some(attribute) if self.must_interpret()? => {
                Err(self.error(format!("unknown attribute `{}` of <{}>", attribute.name(), self.name())))
            }
            _ => Ok(()),
        }
    }

    fn must_interpret(&self) -> Result<bool, DocumentError> {
        match self.node.attribute(MUST_INTERPRET) {
            None | Some("true" | "TRUE") => Ok(true),
            Some("false" | "FALSE") => Ok(false),
            Some(other) => Err(self.error(format!("`{MUST_INTERPRET}` is `{other}`; expected true or false"))),
        }
    }

    /// The text of an element without children, without blanks around it.
    pub(super) fn text(&self) -> Result<String, DocumentError> {
        self.attributes(&[])?;
        let mut text = String::new();
        for node in self.node.children() {
            if node.is_element() {
                let child = Self { node, ..*self };
                return Err(child.error(format!("element <{}> is not permitted in <{}>", child.name(), self.name())));
            }
            // Comments and CDATA may divide the text.
            if node.is_text() {
                text.push_str(node.text().unwrap_or_default());
            }
        }
        Ok(text.trim_ascii().to_owned())
    }

    /// A value of a type whose texts are stated as `expected`.
    pub(super) fn value<T>(
        &self,
        expected: impl Display,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, DocumentError> {
        let text = self.text()?;
        parse(&text).ok_or_else(|| self.error(format!("<{}> is `{text}`; expected {expected}", self.name())))
    }

    pub(super) fn number<T: FromStr>(&self) -> Result<T, DocumentError> {
        let parse = |text: &str| text.bytes().all(|octet| octet.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        self.value("a number from 0 to 4294967295", parse)
    }

    pub(super) fn boolean(&self) -> Result<bool, DocumentError> {
        self.value("true or false", |text| match text {
            "true" | "TRUE" | "1" => Some(true),
            "false" | "FALSE" | "0" => Some(false),
            _ => None,
        })
    }
}

/// Children of an element by their names.
pub(super) struct Fields<'a, 'input> {
    parent: Element<'a, 'input>,
    children: Vec<Element<'a, 'input>>,
}

impl<'a, 'input> Fields<'a, 'input> {
    fn new(parent: Element<'a, 'input>, children: Vec<Element<'a, 'input>>) -> Result<Self, DocumentError> {
        for (index, child) in children.iter().enumerate() {
            if children.iter().take(index).any(|before| before.name() == child.name()) {
                return Err(child.error(format!("<{}> occurs twice in <{}>", child.name(), parent.name())));
            }
        }
        Ok(Self { parent, children })
    }

    pub(super) fn optional(&self, name: &str) -> Option<Element<'a, 'input>> {
        self.children.iter().find(|child| child.name() == name).copied()
    }

    pub(super) fn required(&self, name: &str) -> Result<Element<'a, 'input>, DocumentError> {
        self.optional(name).ok_or_else(|| self.parent.error(format!("<{}> has no <{name}>", self.parent.name())))
    }
}

/// Requires at least one element with this name.
pub(super) fn not_empty<T>(parent: Element<'_, '_>, name: &str, list: Vec<T>) -> Result<Vec<T>, DocumentError> {
    if list.is_empty() { Err(parent.error(format!("<{}> has no <{name}>", parent.name()))) } else { Ok(list) }
}
