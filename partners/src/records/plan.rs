//! Owns the texts and conditions of `[records]`, with every place numbered, so that a file's columns are looked up once
//! and not for each row. Templates, filters and conditions are those of the profile language.

use std::borrow::Cow;

use super::Fault;
use super::row::{Raw, Row};
use crate::scheme::filter::Filter;
use crate::scheme::template::{Piece, Source, Template, Token};
use crate::scheme::{self, Test};

/// Where a value stands in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the column of this name.
    Named(String),
    /// In this column, from 0.
    Numbered(usize),
    /// In an object.
    Path(Vec<String>),
}

impl Place {
    /// As a person knows it.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Named(name) => name.clone(),
            Self::Numbered(column) => format!("column {}", column + 1),
            Self::Path(path) => path.join("."),
        }
    }
}

/// A piece of a text.
#[derive(Clone, Debug)]
enum Part {
    Literal(String),
    /// The value at the place of this number.
    Value(usize, Vec<Filter>),
    Optional(Vec<Part>),
}

/// What a template became.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    parts: Vec<Part>,
    /// The places it is made of, for messages.
    pub(crate) label: String,
}

/// What a condition became.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    place: usize,
    filters: Vec<Filter>,
    test: Test,
}

/// Every place of a section.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) places: Vec<Place>,
    names: Names,
}

/// What a name is the name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    OfColumns,
    InObjects,
}

impl Plan {
    pub(crate) fn new(names: Names) -> Self {
        Self { places: Vec::new(), names }
    }

    /// Numbers the places of a template. What is no place is none of a text here: the compiler has refused it.
    pub(crate) fn text(&mut self, template: &Template) -> Text {
        let tokens = template.tokens();
        let labels: Vec<_> = tokens.iter().filter_map(|token| self.place(token)).collect();
        let label = labels.iter().map(Place::label).collect::<Vec<_>>().join(" and ");
        Text { parts: self.parts(&template.pieces), label }
    }

    fn parts(&mut self, pieces: &[Piece]) -> Vec<Part> {
        let part = |piece: &Piece| match piece {
            Piece::Literal(literal) => Some(Part::Literal(literal.clone())),
            Piece::Token(token) => Some(Part::Value(self.number(token)?, token.filters.clone())),
            Piece::Optional(pieces) => Some(Part::Optional(self.parts(pieces))),
        };
        pieces.iter().filter_map(part).collect()
    }

    /// Numbers the place of a condition; `None` if it is about none.
    pub(crate) fn condition(&mut self, condition: &scheme::Condition) -> Option<Condition> {
        let place = self.number(&condition.value)?;
        let filters = condition.value.filters.clone();
        Some(Condition { place, filters, test: condition.test.clone() })
    }

    /// The place a token stands for; `{n.3}` is the third column.
    pub(crate) fn place(&self, token: &Token) -> Option<Place> {
        match (&token.source, self.names) {
            (Source::Field(NUMBERED, path), Names::OfColumns) => match path.as_slice() {
                [number] => number.parse::<usize>().ok()?.checked_sub(1).map(Place::Numbered),
                _ => None,
            },
            (Source::Field(0, path), Names::OfColumns) => Some(Place::Named(path.join("."))),
            (Source::Field(0, path), Names::InObjects) => Some(Place::Path(path.clone())),
            _ => None,
        }
    }

    fn number(&mut self, token: &Token) -> Option<usize> {
        let place = self.place(token)?;
        let known = self.places.iter().position(|other| *other == place);
        Some(known.unwrap_or_else(|| {
            self.places.push(place);
            self.places.len() - 1
        }))
    }
}

/// The number of the document of numbered columns; that of names and objects is 0.
pub(crate) const NUMBERED: usize = 1;

impl Text {
    /// What it becomes in a row; `None` where that is nothing. Errors: a value that can't be read.
    pub(super) fn of<'r>(&self, row: &Row<'r>) -> Result<Option<Cow<'r, str>>, Fault> {
        let text = match self.parts.as_slice() {
            [Part::Value(place, filters)] => return value(row, *place, filters),
            parts => write(parts, row)?,
        };
        Ok(Some(text).filter(|text| !text.is_empty()).map(Cow::Owned))
    }
}

fn write(parts: &[Part], row: &Row<'_>) -> Result<String, Fault> {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Literal(literal) => text.push_str(literal),
            Part::Value(place, filters) => {
                text.push_str(&value(row, *place, filters)?.unwrap_or_default());
            }
            Part::Optional(parts) => text.push_str(&optional(parts, row)?.unwrap_or_default()),
        }
    }
    Ok(text)
}

/// A part that is left out when a value in it is nothing.
fn optional(parts: &[Part], row: &Row<'_>) -> Result<Option<String>, Fault> {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Literal(literal) => text.push_str(literal),
            Part::Value(place, filters) => match value(row, *place, filters)? {
                Some(value) => text.push_str(&value),
                None => return Ok(None),
            },
            Part::Optional(parts) => text.push_str(&optional(parts, row)?.unwrap_or_default()),
        }
    }
    Ok(Some(text))
}

/// The value at a place after its filters; `None` for nothing.
fn value<'r>(
    row: &Row<'r>,
    place: usize,
    filters: &[Filter],
) -> Result<Option<Cow<'r, str>>, Fault> {
    let raw = if filters.contains(&Filter::Raw) { Raw::Yes } else { Raw::No };
    let Some(value) = row.value(place, raw)? else { return Ok(None) };
    if filters.is_empty() {
        return Ok(Some(value));
    }
    let bytes = filters.iter().fold(value.into_owned().into_bytes(), |v, filter| filter.apply(v));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Some(text).filter(|text| !text.is_empty()).map(Cow::Owned))
}

/// Whether all conditions hold. Errors: a value that can't be read.
pub(super) fn hold(when: &[Condition], row: &Row<'_>) -> Result<bool, Fault> {
    for Condition { place, filters, test } in when {
        let is_presence = matches!(test, Test::Present | Test::Absent);
        let found = if is_presence && filters.is_empty() {
            row.value(*place, Raw::Yes)?
        } else {
            value(row, *place, filters)?
        };
        if !test.takes(found.as_deref()) {
            return Ok(false);
        }
    }
    Ok(true)
}
