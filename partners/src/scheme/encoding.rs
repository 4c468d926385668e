//! Owns how names and values are encoded in a list of pairs. The "form encodings" of browsers, PHP,
//! Python, JavaScript and .NET differ in `*`, `~`, the blank and a few marks, so a profile names
//! one.

use schemars::JsonSchema;
use serde::Deserialize;

/// An encoding of names and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PairEncoding {
    /// The decoded text, not encoded.
    #[default]
    None,
    /// The text as received, byte by byte.
    Raw,
    /// As browsers and Java write forms: a blank is `+`, `*` is kept, `~` is `%7E`.
    Form,
    /// As PHP's `urlencode`: a blank is `+`, `*` is `%2A`, `~` is `%7E`.
    FormPhp,
    /// As Python's `quote_plus` and Go's `QueryEscape`: a blank is `+`, `*` is `%2A`, `~` is kept.
    FormPython,
    /// As JavaScript's `encodeURIComponent` with a blank as `+`: `! ' ( ) * ~` are kept.
    FormJs,
    /// As .NET's `HttpUtility.UrlEncode`, with upper-case hex digits: a blank is `+`, `! * ( )` are
    /// kept, `~` is `%7E`.
    FormDotnet,
    /// RFC 3986: a blank is `%20`; only letters, digits and `- . _ ~` are kept.
    Rfc3986,
    /// As JavaScript's `encodeURIComponent`: a blank is `%20`, `! ' ( ) * ~` are kept.
    Js,
}

impl PairEncoding {
    /// The marks that are kept, and how a blank is written. `None` if nothing is encoded.
    const fn marks(self) -> Option<(&'static [u8], &'static str)> {
        match self {
            Self::None | Self::Raw => None,
            Self::Form => Some((b"-._*", "+")),
            Self::FormPhp => Some((b"-._", "+")),
            Self::FormPython => Some((b"-._~", "+")),
            Self::FormJs => Some((b"-._~!'()*", "+")),
            Self::FormDotnet => Some((b"-._!*()", "+")),
            Self::Rfc3986 => Some((b"-._~", "%20")),
            Self::Js => Some((b"-._~!'()*", "%20")),
        }
    }

    /// All encodings.
    pub(crate) const ALL: [PairEncoding; 9] = [
        Self::None,
        Self::Raw,
        Self::Form,
        Self::FormPhp,
        Self::FormPython,
        Self::FormJs,
        Self::FormDotnet,
        Self::Rfc3986,
        Self::Js,
    ];

    /// The name in a profile.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Raw => "raw",
            Self::Form => "form",
            Self::FormPhp => "form-php",
            Self::FormPython => "form-python",
            Self::FormJs => "form-js",
            Self::FormDotnet => "form-dotnet",
            Self::Rfc3986 => "rfc3986",
            Self::Js => "js",
        }
    }

    /// Whether an encoded value may still hold the marks that separate values.
    pub(crate) const fn lets_marks_through(self) -> bool {
        matches!(self, Self::None | Self::Raw)
    }

    /// Appends `text` encoded; for `Raw`, appends `received`.
    pub(crate) fn write(self, text: &[u8], received: &[u8], into: &mut Vec<u8>) {
        let Some((stay, blank)) = self.marks() else {
            let text = if self == Self::Raw { received } else { text };
            into.extend_from_slice(text);
            return;
        };
        for &byte in text {
            match byte {
                b' ' => into.extend_from_slice(blank.as_bytes()),
                _ if byte.is_ascii_alphanumeric() || stay.contains(&byte) => into.push(byte),
                _ => {
                    into.push(b'%');
                    for digit in [byte >> 4, byte & 15] {
                        into.push(b"0123456789ABCDEF"[usize::from(digit)]);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_differ_in_the_known_marks() {
        let text = "a b*c~d(e)'f!-._é";
        for (encoding, expected) in [
            (PairEncoding::None, text),
            (PairEncoding::Raw, "as%20it~came"),
            (PairEncoding::Form, "a+b*c%7Ed%28e%29%27f%21-._%C3%A9"),
            (PairEncoding::FormPhp, "a+b%2Ac%7Ed%28e%29%27f%21-._%C3%A9"),
            (PairEncoding::FormPython, "a+b%2Ac~d%28e%29%27f%21-._%C3%A9"),
            (PairEncoding::FormJs, "a+b*c~d(e)'f!-._%C3%A9"),
            (PairEncoding::FormDotnet, "a+b*c%7Ed(e)%27f!-._%C3%A9"),
            (PairEncoding::Rfc3986, "a%20b%2Ac~d%28e%29%27f%21-._%C3%A9"),
            (PairEncoding::Js, "a%20b*c~d(e)'f!-._%C3%A9"),
        ] {
            let mut written = Vec::new();
            encoding.write(text.as_bytes(), b"as%20it~came", &mut written);
            assert_eq!(String::from_utf8(written).unwrap(), expected, "{encoding:?}");
        }
    }
}
