//! Owns `Digest`: the SHA-256 of a content's canonical encoding, with a tag for the kind of
//! content. Equal tags and digests mean equal content; ids and evidence are built on that.

use std::fmt;

use minicbor::Encode;
use sha2::{Digest as _, Sha256};

/// A SHA-256, shown as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Wraps 32 bytes that are a digest already.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest of plain bytes, untagged (a file, a record's stored value).
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of everything that `reader` yields, untagged, and the number of bytes. Errors:
    /// the reader's.
    pub fn of_reader(reader: &mut impl std::io::Read) -> std::io::Result<(Self, u64)> {
        let mut hasher = Sha256::new();
        let bytes = std::io::copy(reader, &mut hasher)?;
        Ok((Self(hasher.finalize().into()), bytes))
    }

    /// The digest of `content`'s encoding under `tag`; equal encodings of different kinds differ by
    /// it.
    pub fn of_content<T: Encode<()>>(tag: &str, content: &T) -> Self {
        let encoded = minicbor::to_vec(content).expect("encoding into memory can't fail");
        Self(
            Sha256::new()
                .chain_update(tag)
                .chain_update([0])
                .chain_update(encoded)
                .finalize()
                .into(),
        )
    }

    /// The digest of a set of digests under `tag`; their order doesn't matter.
    pub fn of_set(tag: &str, mut members: Vec<Digest>) -> Self {
        members.sort_unstable();
        members.dedup();
        let mut hasher = Sha256::new().chain_update(tag).chain_update([0]);
        for member in &members {
            hasher.update(member.0);
        }
        Self(hasher.finalize().into())
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not 64 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 hex digits")]
pub struct DigestError;

impl std::str::FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| DigestError)?;
        Ok(Self(bytes))
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl<C> Encode<C> for Digest {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.bytes(&self.0)?.ok()
    }
}

impl<'b, C> minicbor::Decode<'b, C> for Digest {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        d.bytes()?
            .try_into()
            .map(Self)
            .map_err(|_| minicbor::decode::Error::message("a digest has 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_digests_has_one_digest_in_any_order() {
        let (a, b) = (Digest::of_bytes(b"a"), Digest::of_bytes(b"b"));
        assert_eq!(Digest::of_set("t", vec![a, b]), Digest::of_set("t", vec![b, a, a]));
        assert_ne!(Digest::of_set("t", vec![a, b]), Digest::of_set("u", vec![a, b]));
        assert_eq!(a.to_string().parse(), Ok(a));
    }
}
