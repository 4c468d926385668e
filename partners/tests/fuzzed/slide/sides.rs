//! Owns the two sides of a signature: the values an honest partner signs, and the same text read as other values, each
//! as the request that would carry them. For texts of listed values; `members` knows those of a list of pairs.

use serde_json::{Map, Value, json};

use super::super::known::MERCHANT;
use super::super::text::Shape;
use super::super::wire::Wire;

/// Whether digits stand in JSON as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// What is a number stands as one.
    Numbers,
    /// All are strings.
    Strings,
}

impl Spelling {
    /// By a bit.
    pub fn of(bits: u8) -> Self {
        if bits & 1 == 0 { Self::Numbers } else { Self::Strings }
    }

    fn value(self, text: &str) -> Value {
        let number: Option<i64> = text.parse().ok();
        match number.filter(|number| number.to_string() == text) {
            Some(number) if self == Self::Numbers => json!(number),
            _ => json!(text),
        }
    }
}

/// Whether a value is one that a partner's system or ours gives out: no separator stands in it.
pub fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// One known profile's signing text and what has to stand beside it.
#[derive(Debug)]
pub struct Sides {
    shape: Shape,
    /// Tokens outside the text that the notice needs, and what stands there.
    beside: Vec<(String, String)>,
    /// What stands at each value of the text unless the bytes say otherwise.
    usual: Vec<String>,
    /// Which of the values decide.
    deciding: Vec<usize>,
}

impl Sides {
    /// Of a profile's TOML; `None` for texts of other kinds.
    pub fn of(text: &str) -> Option<Self> {
        let profile: toml::Table = toml::from_str(text).ok()?;
        let shape = Shape::of(&profile)?;
        let needed = needed(&profile);
        let tokens = shape.values();
        let is_read = |token: &str| {
            ["f.", "q.", "h.", "i.", "sig."].iter().any(|from| token.starts_with(from))
        };
        let all = tokens.iter().copied().chain(needed.iter().map(|(token, _)| token.as_str()));
        let mut all = all.filter(|token| *token != "body");
        if tokens.len() < 2 || !all.all(is_read) {
            return None;
        }
        let beside: Vec<_> =
            needed.iter().filter(|(token, _)| !tokens.contains(&token.as_str())).cloned().collect();
        let usual = |token: &&str| match needed.iter().find(|(other, _)| other == token) {
            Some((_, value)) => value.clone(),
            None if *token == "body" => json_of(&beside, Spelling::Numbers).to_string(),
            None => "1769853600".to_owned(),
        };
        let usual = tokens.iter().map(usual).collect();
        let decides = |at: &usize| needed.iter().any(|(token, _)| token == tokens[*at]);
        let deciding = (0..tokens.len()).filter(decides).collect();
        Some(Self { beside, usual, deciding, shape })
    }

    /// Values for the text, and the bytes behind them. A byte above ASCII stands for a word of the profile.
    pub fn values<'b>(&self, bytes: &'b [u8]) -> (Vec<String>, &'b [u8]) {
        let mut rest = bytes;
        let mut values = Vec::new();
        for usual in &self.usual {
            let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
            let said: String = rest[..end].iter().map(|byte| self.word(*byte, usual)).collect();
            values.push(if said.is_empty() { usual.clone() } else { said });
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        (values, rest)
    }

    fn word(&self, byte: u8, usual: &str) -> String {
        let Some(number) = byte.checked_sub(0x80) else { return char::from(byte).to_string() };
        let number = usize::from(number);
        let pieces = &self.shape.pieces;
        match number {
            0 => usual.to_owned(),
            1 => String::new(),
            2..64 => match &pieces[(number - 2) % pieces.len()] {
                super::super::text::Piece::Literal(text) => text.clone(),
                super::super::text::Piece::Value(_) => "7".to_owned(),
            },
            _ => self.usual[(number - 64) % self.usual.len()].clone(),
        }
    }

    /// The values that decide order, money and status.
    pub fn deciding<'v>(&self, values: &'v [String]) -> Vec<&'v str> {
        self.deciding.iter().map(|at| values[*at].as_str()).collect()
    }

    /// Text and signature of these values.
    pub fn sign(&self, values: &[String]) -> Option<(String, String)> {
        let text = self.shape.write(values);
        let signature = self.shape.sign(&text)?;
        Some((text, signature))
    }

    /// Other values of one text.
    pub fn read(&self, text: &str, choices: &[u8]) -> Option<Vec<String>> {
        self.shape.read(text, choices)
    }

    /// The request that carries these values.
    pub fn wire(&self, values: &[String], signature: &str, spelling: Spelling) -> Wire {
        let tokens = self.shape.values();
        let mut all: Vec<(String, String)> =
            tokens.iter().map(|token| (*token).to_owned()).zip(values.iter().cloned()).collect();
        all.extend(self.beside.iter().cloned());
        let signature = format!("{}{signature}", self.shape.prefix);
        all.push((self.shape.place.clone(), signature.clone()));
        let mut wire = Wire { method: "POST".to_owned(), ..Wire::default() };
        for (token, value) in &all {
            if let Some(name) = token.strip_prefix("h.") {
                wire.headers.push((name.to_owned(), value.clone()));
            }
        }
        if let Some((_, time)) = all.iter().find(|(token, _)| token == "sig.t") {
            wire.headers.push(("X-Signature".to_owned(), format!("t={time},v1={signature}")));
        }
        wire.body = match all.iter().find(|(token, _)| token == "body") {
            Some((_, body)) => body.clone().into_bytes(),
            None => json_of(&all, spelling).to_string().into_bytes(),
        };
        wire
    }
}

/// The tokens the notice's meaning is read from, each with a value that a SUCCESS has.
fn needed(profile: &toml::Table) -> Vec<(String, String)> {
    let mut needed = Vec::new();
    let mut add = |token: &str, value: &str| {
        let bare = token.strip_prefix('{').and_then(|token| token.strip_suffix('}'));
        if let Some(bare) = bare.filter(|bare| !bare.contains(['{', '|'])) {
            needed.push((bare.to_owned(), value.to_owned()));
        }
    };
    let map = profile.get("map").and_then(toml::Value::as_table);
    let of_map = |name: &str| map.and_then(|map| map.get(name)).and_then(toml::Value::as_str);
    for (name, value) in [
        ("merchant", MERCHANT),
        ("order", "o-1"),
        ("ref", "77"),
        ("amount", "1000"),
        ("currency", "VND"),
    ] {
        add(of_map(name).unwrap_or_default(), value);
    }
    let events = profile.get("event").and_then(toml::Value::as_array).into_iter().flatten();
    for test in events.filter_map(|event| event.get("when")?.as_array()).flatten() {
        let said = |name: &str| test.get(name).and_then(toml::Value::as_str);
        let is_first = said("value").is_some();
        if let (true, Some(token), Some(word)) = (is_first, said("value"), said("is")) {
            add(token, word);
        }
    }
    needed.sort_by(|(a, _), (b, _)| a.cmp(b));
    needed.dedup_by(|(later, _), (first, _)| later == first);
    needed
}

/// The fields among these, nested as their tokens say; items are one item.
fn json_of(all: &[(String, String)], spelling: Spelling) -> Value {
    let mut fields = Map::new();
    let mut item = Map::new();
    for (token, value) in all {
        let (into, path) = match (token.strip_prefix("f."), token.strip_prefix("i.")) {
            (Some(path), _) => (&mut fields, path),
            (_, Some(path)) => (&mut item, path),
            (None, None) => continue,
        };
        put(into, path, spelling.value(value));
    }
    if !item.is_empty() {
        fields.insert("items".to_owned(), json!([item]));
    }
    Value::Object(fields)
}

fn put(into: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            into.insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = into.entry(first.to_owned()).or_insert_with(|| json!({}));
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}
