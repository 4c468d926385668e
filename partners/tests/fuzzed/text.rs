//! Owns the signing text of a known profile, read out of its TOML once more and by nothing that the program reads it
//! with: which values stand in it, and how a text is put together and taken apart again.

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256, Sha512};

use super::SECRET;

/// One piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Stands there as it is.
    Literal(String),
    /// A value, by its token without braces.
    Value(String),
}

/// The text of a profile's first sign block.
#[derive(Clone, Debug)]
pub struct Shape {
    /// What it is made of.
    pub pieces: Vec<Piece>,
    /// Where the signature stands, without braces.
    pub place: String,
    /// What stands before a signature.
    pub prefix: String,
    algorithm: String,
    output: String,
}

impl Shape {
    /// Of a profile's TOML; `None` for a text with filters or optional parts.
    pub fn of(profile: &toml::Table) -> Option<Self> {
        let sign = profile.get("sign")?.as_array()?.first()?.as_table()?;
        let said = |name: &str| sign.get(name).and_then(toml::Value::as_str).unwrap_or_default();
        let place = said("signature").trim_matches(['{', '}']).to_owned();
        Some(Self {
            pieces: pieces(said("text"))?,
            place,
            prefix: said("prefix").to_owned(),
            algorithm: said("algorithm").to_owned(),
            output: said("output").to_owned(),
        })
    }

    /// The values' tokens, in order.
    pub fn values(&self) -> Vec<&str> {
        let value = |piece: &'_ Piece| matches!(piece, Piece::Value(_));
        let all = self.pieces.iter().filter(|piece| value(piece));
        all.map(|piece| match piece {
            Piece::Literal(text) | Piece::Value(text) => text.as_str(),
        })
        .collect()
    }

    /// The text of these values.
    pub fn write(&self, values: &[String]) -> String {
        let mut values = values.iter();
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Value(_) => text.push_str(values.next().expect("as many as there are")),
            }
        }
        text
    }

    /// Other values of the same text: each choice says which of the places where a literal stands ends a value.
    pub fn read(&self, text: &str, choices: &[u8]) -> Option<Vec<String>> {
        let mut choices = choices.iter().copied().chain(std::iter::repeat(0));
        let mut values = Vec::new();
        let mut rest = text;
        let mut pieces = self.pieces.iter().peekable();
        while let Some(piece) = pieces.next() {
            let Piece::Value(_) = piece else {
                let Piece::Literal(literal) = piece else { return None };
                rest = rest.strip_prefix(literal.as_str())?;
                continue;
            };
            let next = match pieces.peek() {
                Some(Piece::Literal(literal)) => literal.as_str(),
                Some(Piece::Value(_)) => "",
                None => {
                    values.push(std::mem::take(&mut rest).to_owned());
                    continue;
                }
            };
            let ends: Vec<usize> = rest.match_indices(next).map(|(at, _)| at).collect();
            let chosen = usize::from(choices.next()?);
            let at = *ends.get(chosen % ends.len().max(1))?;
            values.push(rest[..at].to_owned());
            rest = &rest[at..];
        }
        rest.is_empty().then_some(values)
    }

    /// The signature of a text, as it is sent; `None` for an algorithm that isn't known here.
    pub fn sign(&self, text: &str) -> Option<String> {
        let key = SECRET.as_bytes();
        let bytes = match self.algorithm.as_str() {
            "hmac-sha256" => {
                let mac = Hmac::<Sha256>::new_from_slice(key).ok()?.chain_update(text);
                mac.finalize().into_bytes().to_vec()
            }
            "hmac-sha512" => {
                let mac = Hmac::<Sha512>::new_from_slice(key).ok()?.chain_update(text);
                mac.finalize().into_bytes().to_vec()
            }
            "sha256" => Sha256::digest(text).to_vec(),
            "sha512" => Sha512::digest(text).to_vec(),
            _ => return None,
        };
        let written = match self.output.as_str() {
            "hex-upper" => hex::encode_upper(bytes),
            "base64" => base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes),
            _ => hex::encode(bytes),
        };
        Some(written)
    }
}

fn pieces(text: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let Some(at) = rest.find('{') else {
            pieces.push(Piece::Literal(rest.to_owned()));
            break;
        };
        let end = at + rest[at..].find('}')?;
        let token = &rest[at + 1..end];
        if token.contains('|') {
            return None;
        }
        pieces.push(Piece::Literal(rest[..at].to_owned()));
        pieces.push(match token {
            "secret" => Piece::Literal(SECRET.to_owned()),
            _ if token.starts_with("c.") => Piece::Literal("A-7".to_owned()),
            _ => Piece::Value(token.to_owned()),
        });
        rest = &rest[end + 1..];
    }
    Some(joined(pieces))
}

/// With neighbouring literals as one, and none that is empty.
fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut whole: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (whole.last_mut(), piece) {
            (_, Piece::Literal(literal)) if literal.is_empty() => {}
            (Some(Piece::Literal(before)), Piece::Literal(literal)) => before.push_str(&literal),
            (_, piece) => whole.push(piece),
        }
    }
    whole
}
