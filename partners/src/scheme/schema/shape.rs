//! Owns the shape of what the profile parser takes, asked of the parser's own types: a deserializer without a document
//! that notes which keys a type reads, of what kind each is, and which it can't do without. So a key that is added to
//! a type is in the schema, and none that the parser refuses can be there.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::de::value::{BorrowedStrDeserializer, Error, UsizeDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};

/// What stands in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Flag,
    /// A whole number in these bounds.
    Number(i64, i64),
    /// One of these words.
    Words(Vec<&'static str>),
    /// The element's path has `[]` behind this one.
    List,
    /// Names of the writer's own; a value's path has `{}` behind this one.
    Map,
    /// Its keys' paths have `.key` behind this one.
    Table,
    /// Read by somebody else.
    Unread,
}

/// Every place of a profile by its path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    pub(super) kinds: BTreeMap<String, Kind>,
    pub(super) required: BTreeSet<String>,
}

impl Shape {
    /// Adds what `T` reads at `path`; `""` is the whole file.
    pub(crate) fn add<T: DeserializeOwned>(&mut self, path: &str) {
        let found = read::<T>(path, None).expect("a type of the parser reads what it asks for");
        for (place, kind) in found {
            // An element of a list and a value of a map are there or not; a key may be missing.
            let is_key = place != path && !place.ends_with([']', '}']);
            if is_key && read::<T>(path, Some(&place)).is_err() {
                self.required.insert(place.clone());
            }
            self.kinds.insert(place, kind);
        }
    }

    /// Says more of a place than its type does.
    pub(super) fn refine(&mut self, path: &str, kind: Kind) {
        let known = self.kinds.insert(path.to_owned(), kind);
        assert!(known.is_some(), "the parser reads nothing at {path}");
    }

    /// Takes out what a type has and the parser refuses in this place.
    pub(super) fn remove(&mut self, path: &str) {
        let known = self.kinds.remove(path);
        assert!(known.is_some(), "the parser reads nothing at {path}");
    }

    /// Says that a key can't be left out.
    pub(super) fn require(&mut self, path: &str) {
        assert!(self.kinds.contains_key(path), "the parser reads nothing at {path}");
        self.required.insert(path.to_owned());
    }

    /// A table whose keys are added one by one.
    pub(super) fn table(&mut self, path: &str) {
        self.kinds.insert(path.to_owned(), Kind::Table);
    }

    /// The keys of a table.
    pub(super) fn keys(&self, path: &str) -> Vec<(&str, &str)> {
        let start = if path.is_empty() { String::new() } else { format!("{path}.") };
        let all = self.kinds.keys().filter_map(|place| {
            let name = place.strip_prefix(&start).filter(|_| place != path)?;
            (!name.contains(['.', '[', '{']) && !name.is_empty()).then_some((name, place.as_str()))
        });
        all.collect()
    }
}

/// What a type reads, with one place left out. Errors: it can't do without that.
fn read<T: DeserializeOwned>(
    path: &str,
    without: Option<&str>,
) -> Result<Vec<(String, Kind)>, Error> {
    let notes = RefCell::new(Vec::new());
    T::deserialize(Probe { path: path.to_owned(), notes: Some(&notes), without })?;
    Ok(notes.into_inner())
}

/// Stands for a value at a path; nothing is noted of names.
struct Probe<'n> {
    path: String,
    notes: Option<&'n RefCell<Vec<(String, Kind)>>>,
    without: Option<&'n str>,
}

impl<'n> Probe<'n> {
    fn note(&self, kind: Kind) {
        if let Some(notes) = self.notes {
            notes.borrow_mut().push((self.path.clone(), kind));
        }
    }

    /// The value that stands `behind` this one in the path.
    fn inside(&self, behind: &str) -> Probe<'n> {
        let path = format!("{}{behind}", self.path);
        Probe { path, notes: self.notes, without: self.without }
    }

    fn number<'de, V: Visitor<'de>>(
        &self,
        (min, max): (i64, i64),
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note(Kind::Number(min, max));
        visitor.visit_u8(1)
    }
}

/// How the parser's library names a value that knows where it stands.
const SPANNED: &str = "$__";

impl<'de, 'n> Deserializer<'de> for Probe<'n> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(serde::de::Error::custom(format!("{} may be anything, so it has no shape", self.path)))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.note(Kind::Flag);
        visitor.visit_bool(true)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.number((0, i64::from(u16::MAX)), visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.number((0, i64::from(u32::MAX)), visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.number((0, i64::MAX), visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.number((i64::MIN, i64::MAX), visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.note(Kind::Text);
        visitor.visit_str("")
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.note(Kind::List);
        visitor.visit_seq(One(Some(self.inside("[]"))))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.note(Kind::Map);
        visitor.visit_map(Entry(Some(self.inside("{}"))))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name.starts_with(SPANNED) {
            let at = 0;
            return visitor.visit_map(Spanned { fields, at, value: Some(self) });
        }
        self.note(Kind::Table);
        visitor.visit_map(Keys { fields, at: 0, table: self })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note(Kind::Words(variants.to_vec()));
        visitor.visit_enum(variants[0].into_deserializer())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.note(Kind::Unread);
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}

/// A list of one element.
struct One<'n>(Option<Probe<'n>>);

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        self.0.take().map(|probe| seed.deserialize(probe)).transpose()
    }
}

/// A map with one name of the writer's own.
struct Entry<'n>(Option<Probe<'n>>);

impl<'de> MapAccess<'de> for Entry<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some(value) = &self.0 else { return Ok(None) };
        let name = Probe { path: value.path.clone(), notes: None, without: None };
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let value = self.0.take().expect("a value is asked for once, behind its name");
        seed.deserialize(value)
    }
}

/// Every key of a struct but the one that is left out.
struct Keys<'n> {
    fields: &'static [&'static str],
    at: usize,
    table: Probe<'n>,
}

impl Keys<'_> {
    fn path_of(&self, field: &str) -> String {
        if self.table.path.is_empty() {
            field.to_owned()
        } else {
            format!("{}.{field}", self.table.path)
        }
    }
}

impl<'de> MapAccess<'de> for Keys<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        while let Some(field) = self.fields.get(self.at) {
            self.at += 1;
            if self.table.without != Some(self.path_of(field).as_str()) {
                return seed.deserialize(BorrowedStrDeserializer::new(field)).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let path = self.path_of(self.fields[self.at - 1]);
        let Probe { notes, without, .. } = self.table;
        seed.deserialize(Probe { path, notes, without })
    }
}

/// A value that knows where it stands: start, end, and the value behind them.
struct Spanned<'n> {
    fields: &'static [&'static str],
    at: usize,
    value: Option<Probe<'n>>,
}

impl<'de> MapAccess<'de> for Spanned<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some(field) = self.fields.get(self.at) else { return Ok(None) };
        self.at += 1;
        seed.deserialize(BorrowedStrDeserializer::new(field)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        match self.value.take() {
            Some(value) if self.at == self.fields.len() => seed.deserialize(value),
            value => {
                self.value = value;
                seed.deserialize(UsizeDeserializer::new(0))
            }
        }
    }
}
