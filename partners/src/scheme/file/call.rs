//! Owns the TOML format of a call's request, which `[query]`, `[create]` and `[oauth]` have in
//! common.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::profile::spanned::Spanned;
use crate::scheme::call::rule::CallKey;
use crate::scheme::crypt::SignAlgorithm;
use crate::scheme::encoding::PairEncoding;
use crate::scheme::file::tables::{PairsFile, SpannedText, TextFile};
use crate::scheme::signature_encoding::SignatureEncoding;

/// The keys of a call; `sections` reads its parts one by one.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(in crate::scheme) struct CallFile {
    /// Where the section is in the file.
    #[schemars(skip)]
    pub(in crate::scheme) span: std::ops::Range<usize>,
    #[schemars(flatten)]
    pub(in crate::scheme) head: CallHeadFile,
    /// Named templates. They are sent where there is no body, and each is the token {s.name}.
    #[schemars(default)]
    pub(in crate::scheme) fields: BTreeMap<Spanned<String>, SpannedText>,
    /// A text that other templates use as {t.name}.
    #[schemars(rename = "text", default)]
    pub(in crate::scheme) texts: Vec<TextFile>,
    /// Lists of the fields for the signed text: of = "s".
    #[schemars(default)]
    pub(in crate::scheme) pairs: Vec<PairsFile>,
    /// Makes {sign}. The signed text can't include the part of the request that holds {sign}.
    pub(in crate::scheme) sign: Option<CallSignFile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(in crate::scheme) enum MethodFile {
    Get,
    Post,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::scheme) enum CredentialFile {
    #[default]
    None,
    Basic,
    Bearer,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::scheme) enum BodyFile {
    #[default]
    None,
    Json,
    Form,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::scheme) enum AnswerFile {
    #[default]
    Json,
    Form,
}

/// The plain keys of a call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct CallHeadFile {
    /// GET or POST.
    pub(in crate::scheme) method: Option<Spanned<MethodFile>>,
    /// Another base address than api_url: a text, or constants that an account may set.
    pub(in crate::scheme) base: Option<SpannedText>,
    /// A template that is appended to api_url, with a query if it has one.
    pub(in crate::scheme) path: SpannedText,
    /// Templates by name. Accept and Content-Type are set by default.
    #[serde(default)]
    pub(in crate::scheme) headers: BTreeMap<Spanned<String>, SpannedText>,
    /// Which key is {secret} and signs: shared (default), or own, which is a key of channel create.
    #[serde(default)]
    pub(in crate::scheme) key: CallKey,
    /// none (default), basic with user and password, bearer with token.
    pub(in crate::scheme) credential: Option<Spanned<CredentialFile>>,
    /// A template.
    pub(in crate::scheme) user: Option<SpannedText>,
    /// A template. Default: empty.
    pub(in crate::scheme) password: Option<SpannedText>,
    /// A template.
    pub(in crate::scheme) token: Option<SpannedText>,
    /// The format of the body. Default: none.
    #[serde(default)]
    pub(in crate::scheme) content: BodyFile,
    /// The template of the body. Values are escaped for its format.
    pub(in crate::scheme) body: Option<SpannedText>,
    /// How fields are encoded in a form or an address. Default: rfc3986.
    pub(in crate::scheme) encoding: Option<Spanned<PairEncoding>>,
    /// The format of {now}. Default: RFC 3339 in UTC.
    pub(in crate::scheme) now_format: Option<SpannedText>,
    /// The zone of a pattern without %z: a name or an offset.
    pub(in crate::scheme) now_zone: Option<SpannedText>,
}

impl CallHeadFile {
    /// The keys that are taken out of a section for the call.
    pub(in crate::scheme) const KEYS: [&str; 14] = [
        "method",
        "base",
        "path",
        "headers",
        "key",
        "credential",
        "user",
        "password",
        "token",
        "content",
        "body",
        "encoding",
        "now_format",
        "now_zone",
    ];
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct CallSignFile {
    /// An HMAC, a plain digest with {secret} in the text, rsa-sha256, rsa-sha512 or ed25519.
    pub(in crate::scheme) algorithm: Spanned<SignAlgorithm>,
    /// The template of the signed text.
    pub(in crate::scheme) text: SpannedText,
    /// The encoding of the signature.
    pub(in crate::scheme) output: SignatureEncoding,
    /// A mark that no signed value may hold. A call with such a value is not made. Default: none.
    pub(in crate::scheme) separator: Option<SpannedText>,
}
