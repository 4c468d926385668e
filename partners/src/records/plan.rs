//! Owns the texts and conditions of `[records]`. Every value location has a number, so that the
//! columns of a file are looked up once and not for each row. Templates, filters and conditions
//! are those of the profile language.

use std::borrow::Cow;

use super::row::{Row, ValueMode};
use crate::records::types::RowFault;
use crate::records::value_location::ValueLocation;
use crate::scheme::filter::Filter;
use crate::scheme::rules::ConditionTest;
use crate::scheme::template::{Template, TemplatePiece, TemplateToken, TokenSource};

/// A part of a text.
#[derive(Clone, Debug)]
enum TextPart {
    Literal(String),
    /// The value at the location of this number.
    Value(usize, Vec<Filter>),
    Optional(Vec<TextPart>),
}

/// A compiled template.
#[derive(Clone, Debug)]
pub(crate) struct RowText {
    parts: Vec<TextPart>,
    /// The names of its value locations, for messages.
    pub(crate) label: String,
}

/// A compiled condition.
#[derive(Clone, Debug)]
pub(crate) struct RowCondition {
    place: usize,
    filters: Vec<Filter>,
    test: ConditionTest,
}

/// Numbers the value locations of a section.
#[derive(Clone, Debug)]
pub(crate) struct ValuePlan {
    pub(crate) places: Vec<ValueLocation>,
    names: NameScope,
}

/// Whether a name is that of a column or of a member of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameScope {
    OfColumns,
    InObjects,
}

impl ValuePlan {
    pub(crate) fn new(names: NameScope) -> Self {
        Self { places: Vec::new(), names }
    }

    /// Compiles a template and numbers its locations. Tokens that are not locations are left out:
    /// the compiler of the profile has refused them.
    pub(crate) fn text(&mut self, template: &Template) -> RowText {
        let tokens = template.tokens();
        let labels: Vec<_> = tokens.iter().filter_map(|token| self.place(token)).collect();
        let label = labels.iter().map(ValueLocation::label).collect::<Vec<_>>().join(" and ");
        RowText { parts: self.parts(&template.pieces), label }
    }

    fn parts(&mut self, pieces: &[TemplatePiece]) -> Vec<TextPart> {
        let part = |piece: &TemplatePiece| match piece {
            TemplatePiece::Literal(literal) => Some(TextPart::Literal(literal.clone())),
            TemplatePiece::Token(token) => {
                Some(TextPart::Value(self.number(token)?, token.filters.clone()))
            }
            TemplatePiece::Optional(pieces) => Some(TextPart::Optional(self.parts(pieces))),
        };
        pieces.iter().filter_map(part).collect()
    }

    /// Compiles a condition and numbers its location; `None` if its value is not a location.
    pub(crate) fn condition(
        &mut self,
        condition: &crate::scheme::rules::MatchCondition,
    ) -> Option<RowCondition> {
        let place = self.number(&condition.value)?;
        let filters = condition.value.filters.clone();
        Some(RowCondition { place, filters, test: condition.test.clone() })
    }

    /// The location that a token names; `{n.3}` is the third column.
    pub(crate) fn place(&self, token: &TemplateToken) -> Option<ValueLocation> {
        match (&token.source, self.names) {
            (TokenSource::Field(NUMBERED, path), NameScope::OfColumns) => match path.as_slice() {
                [number] => {
                    number.parse::<usize>().ok()?.checked_sub(1).map(ValueLocation::Numbered)
                }
                _ => None,
            },
            (TokenSource::Field(0, path), NameScope::OfColumns) => {
                Some(ValueLocation::Named(path.join(".")))
            }
            (TokenSource::Field(0, path), NameScope::InObjects) => {
                Some(ValueLocation::Path(path.clone()))
            }
            _ => None,
        }
    }

    fn number(&mut self, token: &TemplateToken) -> Option<usize> {
        let place = self.place(token)?;
        let known = self.places.iter().position(|other| *other == place);
        Some(known.unwrap_or_else(|| {
            self.places.push(place);
            self.places.len() - 1
        }))
    }
}

/// The index of the document of numbered columns (`n`); names and objects (`r`) have index 0.
pub(crate) const NUMBERED: usize = 1;

impl RowText {
    /// The text for a row; `None` if it is empty. Errors: a value that can't be read.
    pub(super) fn write_for<'r>(&self, row: &Row<'r>) -> Result<Option<Cow<'r, str>>, RowFault> {
        let text = match self.parts.as_slice() {
            [TextPart::Value(place, filters)] => return value(row, *place, filters),
            parts => write(parts, row)?,
        };
        Ok(Some(text).filter(|text| !text.is_empty()).map(Cow::Owned))
    }
}

fn write(parts: &[TextPart], row: &Row<'_>) -> Result<String, RowFault> {
    let mut text = String::new();
    for part in parts {
        match part {
            TextPart::Literal(literal) => text.push_str(literal),
            TextPart::Value(place, filters) => {
                text.push_str(&value(row, *place, filters)?.unwrap_or_default());
            }
            TextPart::Optional(parts) => text.push_str(&optional(parts, row)?.unwrap_or_default()),
        }
    }
    Ok(text)
}

/// An optional part: `None` if a value in it is absent.
fn optional(parts: &[TextPart], row: &Row<'_>) -> Result<Option<String>, RowFault> {
    let mut text = String::new();
    for part in parts {
        match part {
            TextPart::Literal(literal) => text.push_str(literal),
            TextPart::Value(place, filters) => match value(row, *place, filters)? {
                Some(value) => text.push_str(&value),
                None => return Ok(None),
            },
            TextPart::Optional(parts) => text.push_str(&optional(parts, row)?.unwrap_or_default()),
        }
    }
    Ok(Some(text))
}

/// The value at a location after its filters; `None` if it is absent or empty.
fn value<'r>(
    row: &Row<'r>,
    place: usize,
    filters: &[Filter],
) -> Result<Option<Cow<'r, str>>, RowFault> {
    let raw = if filters.contains(&Filter::Raw) { ValueMode::Raw } else { ValueMode::Decoded };
    let Some(value) = row.value(place, raw)? else { return Ok(None) };
    if filters.is_empty() {
        return Ok(Some(value));
    }
    let bytes = filters.iter().fold(value.into_owned().into_bytes(), |v, filter| filter.apply(v));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Some(text).filter(|text| !text.is_empty()).map(Cow::Owned))
}

/// Whether all conditions hold. Errors: a value that can't be read.
pub(super) fn all_hold(when: &[RowCondition], row: &Row<'_>) -> Result<bool, RowFault> {
    for RowCondition { place, filters, test } in when {
        let is_presence = matches!(test, ConditionTest::Present | ConditionTest::Absent);
        let found = if is_presence && filters.is_empty() {
            row.value(*place, ValueMode::Raw)?
        } else {
            value(row, *place, filters)?
        };
        if !test.takes(found.as_deref()) {
            return Ok(false);
        }
    }
    Ok(true)
}
