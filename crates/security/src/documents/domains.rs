//! Sets of domains.

use core::fmt;

use super::error::DocumentError;
use super::xml::{Element, not_empty};
use crate::pattern::Pattern;

/// The domains of a rule: those with one of its ids and one of its tags (DDS Security 1.2 §10.4.1.2.5.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DomainSet {
    /// First and last id of each range.
    ids: Vec<(u32, u32)>,
    /// Without any, only the empty tag is in the set.
    tags: Vec<Tag>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Tag {
    Text(String),
    Expression(Pattern),
}

impl DomainSet {
    pub(super) fn read(element: Element<'_, '_>) -> Result<Self, DocumentError> {
        let mut set = Self { ids: Vec::new(), tags: Vec::new() };
        for child in element.children(&["id", "id_range", "tag", "tag_expression"])? {
            match child.name() {
                "id" => {
                    let id = child.number()?;
                    set.ids.push((id, id));
                }
                "id_range" => set.ids.push(range(child)?),
                "tag" => set.tags.push(Tag::Text(child.text()?)),
                _ => set.tags.push(Tag::Expression(Pattern::new(&child.text()?))),
            }
        }
        set.ids = not_empty(element, "id> or <id_range", set.ids)?;
        Ok(set)
    }

    /// Whether a domain with this id, and some tag, is in this set.
    #[must_use]
    pub fn has_id(&self, id: u32) -> bool {
        self.ids.iter().any(|(first, last)| (*first..=*last).contains(&id))
    }

    /// Whether a domain is in this set.
    #[must_use]
    pub fn contains(&self, id: u32, tag: &str) -> bool {
        let has_tag = self.tags.iter().any(|known| match known {
            Tag::Text(text) => text == tag,
            Tag::Expression(pattern) => pattern.matches(tag),
        });
        self.has_id(id) && (has_tag || (self.tags.is_empty() && tag.is_empty()))
    }
}

fn range(element: Element<'_, '_>) -> Result<(u32, u32), DocumentError> {
    let fields = element.fields(&["min", "max"])?;
    let number = |name| fields.optional(name).map(|field| field.number::<u32>()).transpose();
    match (number("min")?, number("max")?) {
        (Some(min), Some(max)) if min > max => {
            Err(element.error(format!("<id_range> is empty: <min> {min} exceeds <max> {max}")))
        }
        (Some(min), Some(max)) => Ok((min, max)),
        (None, Some(max)) => Ok((0, max)),
        (Some(min), None) => {
            element.warn(format!(
                "<id_range> has no <max>: all domains from {min} on; some implementations read it as domain {min} only"
            ));
            Ok((min, u32::MAX))
        }
        (None, None) => Err(element.error("<id_range> has neither <min> nor <max>")),
    }
}

impl fmt::Display for DomainSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ids.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            match (*first, *last) {
                (first, last) if first == last => write!(f, "{comma}{first}")?,
                (first, u32::MAX) => write!(f, "{comma}{first} and above")?,
                (first, last) => write!(f, "{comma}{first} to {last}")?,
            }
        }
        for tag in &self.tags {
            match tag {
                Tag::Text(text) => write!(f, ", tag `{text}`")?,
                Tag::Expression(pattern) => write!(f, ", tags `{pattern}`")?,
            }
        }
        Ok(())
    }
}
