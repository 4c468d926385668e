//! Owns how names and values are written into a list of pairs. Four ways of "form encoding" are about, which
//! differ in `*`, `~`, the blank and a few marks: a profile names its own.

use serde::Deserialize;

/// A way of writing text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Encoding {
    /// Decoded, as it is.
    #[default]
    None,
    /// As received, byte by byte.
    Raw,
    /// As browsers and Java write forms: blank `+`, `*` stays, `~` is `%7E`.
    Form,
    /// As PHP's `urlencode` does: blank `+`, `*` is `%2A`, `~` is `%7E`.
    FormPhp,
    /// As Python's `quote_plus` and Go's `QueryEscape` do: blank `+`, `*` is `%2A`, `~` stays.
    FormPython,
    /// As JavaScript's `encodeURIComponent` with blanks as `+`: `! ' ( ) * ~` stay.
    FormJs,
    /// As .NET's `HttpUtility.UrlEncode` does, but for the case of its digits: blank `+`, `! * ( )` stay, `~` is `%7E`.
    FormDotnet,
    /// RFC 3986: blank `%20`, only letters, digits and `- . _ ~` stay.
    Rfc3986,
    /// As JavaScript's `encodeURIComponent`: blank `%20`, `! ' ( ) * ~` stay.
    Js,
}

impl Encoding {
    /// What of the marks stays, and how a blank is written; `None` where nothing is encoded.
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

    /// Every way of encoding.
    pub(crate) const ALL: [Encoding; 9] = [
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

    /// Whether a value may still hold what separates values.
    pub(crate) const fn lets_marks_through(self) -> bool {
        matches!(self, Self::None | Self::Raw)
    }

    /// Writes `text`; for `Raw`, `received` instead.
    pub(crate) fn write(self, text: &str, received: &str, into: &mut Vec<u8>) {
        let Some((stay, blank)) = self.marks() else {
            let text = if self == Self::Raw { received } else { text };
            into.extend_from_slice(text.as_bytes());
            return;
        };
        for byte in text.bytes() {
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
    fn the_ways_differ_where_they_are_known_to() {
        let text = "a b*c~d(e)'f!-._é";
        for (encoding, expected) in [
            (Encoding::None, text),
            (Encoding::Raw, "as%20it~came"),
            (Encoding::Form, "a+b*c%7Ed%28e%29%27f%21-._%C3%A9"),
            (Encoding::FormPhp, "a+b%2Ac%7Ed%28e%29%27f%21-._%C3%A9"),
            (Encoding::FormPython, "a+b%2Ac~d%28e%29%27f%21-._%C3%A9"),
            (Encoding::FormJs, "a+b*c~d(e)'f!-._%C3%A9"),
            (Encoding::FormDotnet, "a+b*c%7Ed(e)%27f!-._%C3%A9"),
            (Encoding::Rfc3986, "a%20b%2Ac~d%28e%29%27f%21-._%C3%A9"),
            (Encoding::Js, "a%20b*c~d(e)'f!-._%C3%A9"),
        ] {
            let mut written = Vec::new();
            encoding.write(text, "as%20it~came", &mut written);
            assert_eq!(String::from_utf8(written).unwrap(), expected, "{encoding:?}");
        }
    }
}
