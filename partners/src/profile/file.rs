//! Owns the parsing of a profile from TOML and its consistency checks. Unknown keys are refused.
//! Every error has its place and says what to do.

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::notice_source::ProfileStamp;

use super::Profile;
use super::create;
use super::default_scheme::DefaultScheme;
use super::query;
use super::written_out::written_out;
use crate::field::Field;
use crate::limits::BodyLimits;
use crate::profile::bounds::{self, MAX_AGE_S, SKEW_S};
use crate::profile::common::CommonRules;
use crate::profile::error::ProfileError;
use crate::profile::mistake::{ProfileMistake, within, wrong};
use crate::profile::rules::NonceRule;
use crate::profile::shipped::ShippedProfile;
use crate::profile::spanned::Spanned;
use crate::profile::tables::{DefaultTimeFile, ProfileFile};
use crate::profile::time::{TimeKind, TimeRule};
use crate::profile::{DEFAULT_PROFILE, SANDBOX_PROFILE};
use crate::scheme;
use crate::scheme::compile::lint_mode::LintMode;

/// The fields that a signature must cover. Without one of these a forger could change the order,
/// the payment or the amount.
const COVERED: [Field; 7] = [
    Field::MerchantCode,
    Field::OrderId,
    Field::ProviderRef,
    Field::Status,
    Field::Amount,
    Field::Currency,
    Field::PaidAt,
];

impl Profile {
    /// Parses `partner`'s profile from TOML. Errors: `ProfileError`, with every mistake and its
    /// place.
    pub fn parse(partner: &PartnerCode, text: &str) -> Result<Self, ProfileError> {
        parse(partner, text, LintMode::Checked)
    }

    /// Parses a profile that notices were admitted under, to verify those again. Rules that are
    /// newer than the profile do not apply; no new notice is admitted under it. Errors:
    /// `ProfileError`.
    pub fn parse_recorded(partner: &PartnerCode, text: &str) -> Result<Self, ProfileError> {
        parse(partner, text, LintMode::Skipped)
    }

    /// The default scheme (contract 5), as `partner`'s profile.
    pub fn default_for(partner: &PartnerCode) -> Self {
        Self::parse(partner, DEFAULT_PROFILE).expect("the shipped profile is tested")
    }

    /// The sandbox partner's scheme, as `partner`'s profile.
    pub fn sandbox_for(partner: &PartnerCode) -> Self {
        Self::parse(partner, SANDBOX_PROFILE).expect("the shipped profile is tested")
    }

    /// The shipped profile of this name, as `partner`'s; `None` for another name.
    pub fn shipped(name: &str, partner: &PartnerCode) -> Option<Self> {
        match name {
            "default" => Some(Self::default_for(partner)),
            "sandbox" => Some(Self::sandbox_for(partner)),
            _ => ShippedProfile::of(name).map(|shipped| {
                Self::parse(partner, shipped.profile).expect("the shipped profiles are tested")
            }),
        }
    }
}

/// Reads and checks a profile.
pub(super) fn parse(
    partner: &PartnerCode,
    text: &str,
    lint: LintMode,
) -> Result<Profile, ProfileError> {
    let read = |text| {
        let file: ProfileFile = toml::from_str(text).map_err(|error| ProfileMistake {
            span: error.span().unwrap_or(0..0),
            problem: error.message().to_owned(),
        })?;
        compile(partner, text, file)
    };
    let parsed = if scheme::file::is_custom_scheme(text) {
        scheme::compile::parse(partner, text, lint)
    } else {
        match (read(text), scheme::compile::records_of(text)) {
            (Ok(profile), Ok(records)) => Ok(profile.with_records(records)),
            (profile, records) => {
                Err(profile.err().into_iter().chain(records.err().into_iter().flatten()).collect())
            }
        }
    };
    parsed.map_err(|wrong| {
        let mut errors = wrong.into_iter().map(|wrong| placed(partner, text, wrong));
        let first = errors.next().expect("a file that is refused has a mistake");
        ProfileError { others: errors.collect(), ..first }
    })
}

/// Adds the line and column to a mistake.
fn placed(
    partner: &PartnerCode,
    text: &str,
    ProfileMistake { span, problem }: ProfileMistake,
) -> ProfileError {
    let before = text.get(..span.start).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    ProfileError {
        partner: partner.clone(),
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        problem,
        others: Vec::new(),
    }
}

fn compile(
    partner: &PartnerCode,
    text: &str,
    file: ProfileFile,
) -> Result<Profile, ProfileMistake> {
    if *file.version.get_ref() == 0 {
        return wrong(file.version.span(), "version starts at 1");
    }
    let limits = BodyLimits {
        body_bytes: within(
            "limits.body_bytes",
            &file.limits.body_bytes,
            bounds::DEFAULT_BODY_BYTES,
        )?,
        depth: within("limits.depth", &file.limits.depth, bounds::DEPTH)?,
        keys: within("limits.keys", &file.limits.keys, bounds::DEFAULT_KEYS)?,
    };
    if *file.signature.field.get_ref() != Field::Signature {
        return wrong(file.signature.field.span(), "signature.field must be \"signature\"");
    }
    let separator = separator(&file.signature.separator)?;
    let signed_fields = signed_fields(&file.signature.fields)?;
    let time = time_rule(&file.time, &signed_fields)?;
    if *file.nonce.get_ref() != NonceRule::Unused && !signed_fields.contains(&Field::Nonce) {
        let problem = "nonce is not in signature.fields; add it there or write nonce = \"unused\"";
        return wrong(file.nonce.span(), problem);
    }
    let common = CommonRules {
        stamp: ProfileStamp {
            partner: partner.clone(),
            version: file.version.into_inner(),
            digest: Digest::of_bytes(text.as_bytes()),
        },
        stage: file.stage,
        nonce: file.nonce.into_inner(),
        ref_is_session: file.ref_is_session,
        placeholder_refs: file.placeholder_refs,
        limits,
        time,
        retry_horizon_ms: i64::from(file.retry_horizon_s) * 1_000,
        client_certificate: file.client_certificate,
    };
    let default = DefaultScheme {
        unknown_fields: file.unknown_fields,
        output: file.signature.output,
        separator,
        signed_fields,
        create: file.create.as_ref().map(create::compile).transpose()?,
        query: file.query.as_ref().map(query::compile).transpose()?,
    };
    of_default(partner, common, default)
}

/// Compiles the default scheme, written out as a custom one. Errors: what the scheme language does
/// not accept, placed at the beginning of the file.
fn of_default(
    partner: &PartnerCode,
    common: CommonRules,
    default: DefaultScheme,
) -> Result<Profile, ProfileMistake> {
    let text = written_out(&common, &default);
    match scheme::compile::parse(partner, &text, LintMode::Skipped) {
        Ok(written) => Ok(written.of_default(common, default)),
        Err(mistakes) => {
            let problems: Vec<_> = mistakes.into_iter().map(|wrong| wrong.problem).collect();
            wrong(0..0, problems.join("; "))
        }
    }
}

/// Checks the separator. It is one character, because a longer one could begin inside a value. It
/// does not occur in ids, digits or times, because every notice would then be refused.
fn separator(text: &Spanned<String>) -> Result<u8, ProfileMistake> {
    match text.get_ref().as_bytes() {
        [c @ b' '..=b'~'] if !c.is_ascii_alphanumeric() && !b"._:-+".contains(c) => Ok(*c),
        _ => wrong(
            text.span(),
            "signature.separator must be one printable ASCII character that ids, digits and times \
             don't contain, such as \"|\"",
        ),
    }
}

fn signed_fields(list: &Spanned<Vec<Spanned<Field>>>) -> Result<Vec<Field>, ProfileMistake> {
    let mut fields = Vec::with_capacity(Field::COUNT);
    for item in list.get_ref() {
        let field = *item.get_ref();
        if field == Field::Signature {
            return wrong(item.span(), "the signature can't sign itself; remove it from the list");
        }
        if fields.contains(&field) {
            return wrong(item.span(), format!("{field} is listed twice; keep one"));
        }
        fields.push(field);
    }
    match COVERED.iter().find(|field| !fields.contains(field)) {
        None => Ok(fields),
        Some(field) => wrong(
            list.span(),
            format!("the signature must cover {field}, or it could be forged; add it to the list"),
        ),
    }
}

fn time_rule(
    time: &Spanned<DefaultTimeFile>,
    signed: &[Field],
) -> Result<TimeRule, ProfileMistake> {
    let DefaultTimeFile { kind, field, skew_s, max_age_s } = *time.get_ref();
    let span = time.span();
    if kind == TimeKind::None {
        if field.is_some() || skew_s.is_some() || max_age_s.is_some() {
            return wrong(span, "time.kind = \"none\" takes nothing else; remove the other lines");
        }
        return Ok(TimeRule { kind, field: None, skew_ms: 0, max_age_ms: None });
    }
    let Some(field) = field.filter(|field| matches!(field, Field::Timestamp | Field::PaidAt))
    else {
        return wrong(span, "time.field must be \"timestamp\" or \"paidAt\"");
    };
    if !signed.contains(&field) {
        return wrong(span, format!("{field} is not in signature.fields; add it there"));
    }
    let Some(skew_s) = skew_s.filter(|s| SKEW_S.contain(*s)) else {
        let problem = format!("time.skew_s must be {SKEW_S} seconds; the contract says 300");
        return wrong(span, problem);
    };
    let max_age_ms = match (kind, max_age_s) {
        (TimeKind::Event, Some(age_s)) if MAX_AGE_S.contain(age_s) => Some(age_s * 1_000),
        (TimeKind::Event, _) => {
            let problem = format!("time.kind = \"event\" needs max_age_s, {MAX_AGE_S} seconds");
            return wrong(span, problem);
        }
        (_, Some(_)) => return wrong(span, "time.max_age_s is for kind = \"event\"; remove it"),
        (_, None) => None,
    };
    Ok(TimeRule { kind, field: Some(field), skew_ms: skew_s * 1_000, max_age_ms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mac::HexCase;
    use crate::profile::DEFAULT_PROFILE;
    use crate::profile::rules::{Stage, UnknownFields};

    fn parse(partner: &PartnerCode, text: &str) -> Result<Profile, ProfileError> {
        super::parse(partner, text, LintMode::Checked)
    }

    fn partner() -> PartnerCode {
        PartnerCode::parse("acme").unwrap()
    }

    #[test]
    fn the_shipped_profile_is_the_default_of_the_contract() {
        let profile = parse(&partner(), DEFAULT_PROFILE).unwrap();
        assert_eq!(profile.limits(), BodyLimits { body_bytes: 16_384, depth: 8, keys: 64 });
        assert_eq!(profile.signed_fields(), &Field::ALL[..9]);
        assert_eq!((profile.separator(), profile.output()), (b'|', HexCase::Lower));
        assert_eq!((profile.stage(), profile.nonce()), (Stage::Draft, NonceRule::Optional));
        assert_eq!(profile.unknown_fields(), UnknownFields::Allow);
        let field = Some(Field::Timestamp);
        let rule = TimeRule { kind: TimeKind::Delivery, field, skew_ms: 300_000, max_age_ms: None };
        assert_eq!(*profile.time(), rule);
        assert_eq!(profile.policy("0"), payfold_schemas::ipn::IpnPolicy::default());
        assert_eq!(profile.digest(), Digest::of_bytes(DEFAULT_PROFILE.as_bytes()));
    }

    #[test]
    fn a_profiles_properties_reach_the_fold() {
        let text = DEFAULT_PROFILE
            .replace("placeholder_refs = []", "placeholder_refs = [\"0\"]")
            .replace("ref_is_session = false", "ref_is_session = true")
            .replace("nonce = \"optional\"", "nonce = \"required\"");
        let profile = parse(&partner(), &text).unwrap();
        assert_eq!(profile.retry_horizon_ms(), 0);
        let day = DEFAULT_PROFILE.replace("version = 1", "version = 1\nretry_horizon_s = 86400");
        assert_eq!(parse(&partner(), &day).unwrap().retry_horizon_ms(), 86_400_000);
        let (placeholder, other) = (profile.policy("0"), profile.policy("00"));
        assert!(placeholder.placeholder_ref && !other.placeholder_ref);
        assert!(other.ref_is_session && other.nonce_required && !other.unconfirmed);
        assert_ne!(profile.digest(), Digest::of_bytes(DEFAULT_PROFILE.as_bytes()));
    }

    #[test]
    fn times_of_other_kinds_are_read() {
        let event = "kind = \"event\"\nmax_age_s = 86400";
        let text = DEFAULT_PROFILE.replace("kind = \"delivery\"", event);
        let rule = *parse(&partner(), &text).unwrap().time();
        assert_eq!((rule.kind, rule.max_age_ms), (TimeKind::Event, Some(86_400_000)));
        let none = "[time]\nkind = \"none\"\n";
        let text = format!("{}{none}", DEFAULT_PROFILE.split("[time]").next().unwrap());
        let rule = *parse(&partner(), &text).unwrap().time();
        assert_eq!((rule.kind, rule.field), (TimeKind::None, None));
    }

    /// A line of the default profile => its replacement => the place and part of the error.
    const MISTAKES: &str = r#"
        version = 1             => version = 0              => 5:11 version starts at 1
        version = 1             => version = 1 2            => 5:11 must be quoted
        version = 1             => version = -1             => 5:11 invalid value
        version = 1             => versoin = 1              => 5:1 unknown field `versoin`
        stage = "draft"         => stage = "prod"           => 7:9 expected one of `draft`, `sandbox`, `frozen`, `live`
        stage = "draft"         => # none                   => 1:1 missing field `stage`
        nonce = "optional"      => nonce = "maybe"          => 9:9 unknown variant `maybe`
        "timestamp", "nonce",   => "timestamp",             => 9:9 nonce is not in signature.fields
        "timestamp", "nonce",   => "nonce",                 => 40:1 timestamp is not in signature.fields
        depth = 8               => depth = 0                => 22:9 limits.depth must be 1 to 32
        keys = 64               => keys = 9                 => 24:8 limits.keys must be 10 to 1024
        keys = 64               => keys = 64.0              => 24:8 invalid type
        body_bytes = 16384      => body_bytes = 2000000     => 20:14 limits.body_bytes must be 1024 to 1048576
        hmac-sha256"            => md5"                     => 29:13 expected `hmac-sha256`
        hex-lower"              => base64"                  => 31:10 expected `hex-lower` or `hex-upper`
        separator = "|"         => separator = ""           => 32:13 one printable ASCII character
        separator = "|"         => separator = "||"         => 32:13 one printable ASCII character
        separator = "|"         => separator = "-"          => 32:13 one printable ASCII character
        separator = "|"         => separator = "7"          => 32:13 one printable ASCII character
        separator = "|"         => separator = "¦"          => 32:13 one printable ASCII character
        field = "signature"     => field = "nonce"          => 33:9 signature.field must be
        "orderId",              => "orderID",               => 36:19 unknown variant `orderID`
        "orderId",              => "orderId", "signature",  => 36:30 the signature can't sign itself
        "orderId",              => "orderId", "orderId",    => 36:30 orderId is listed twice
        "status",               =>                          => 35:10 the signature must cover status
        "amount",               =>                          => 35:10 the signature must cover amount
        field = "timestamp"     => field = "status"         => 40:1 time.field must be
        skew_s = 300            => skew_s = 0               => 40:1 time.skew_s must be
        skew_s = 300            => max_age_s = 300          => 40:1 time.skew_s must be
        kind = "delivery"       => kind = "event"           => 40:1 needs max_age_s
        kind = "delivery"       => kind = "none"            => 40:1 takes nothing else
    "#;

    #[test]
    fn every_mistake_is_reported_with_its_place() {
        let mut missed = Vec::new();
        for case in MISTAKES.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let [from, to, expected] =
                case.split("=>").map(str::trim).collect::<Vec<_>>().try_into().unwrap();
            assert!(DEFAULT_PROFILE.contains(from), "{case}");
            let error = parse(&partner(), &DEFAULT_PROFILE.replacen(from, to, 1)).unwrap_err();
            let got = format!("{}:{} {}", error.line, error.column, error.problem);
            let (place, problem) = expected.split_once(' ').unwrap_or((expected, ""));
            if !got.starts_with(&format!("{place} ")) || !got.contains(problem) {
                missed.push(format!("{case}\n  {got}"));
            }
        }
        assert!(missed.is_empty(), "{}", missed.join("\n"));
    }
}
