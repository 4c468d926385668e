//! Owns admission: is a verified notice what the contract says (2.3, 7)? Pure; `now` is passed in.
//! Strict shape first, in the order of the contract's table, then the clock. What the fold can judge
//! (amount against the create request, unknown order, contradictions) is not judged here.

use payfold_partners::notice::{Scalar, ScalarKind};
use payfold_partners::profile::{Field, NonceRule, Profile, TimeKind, TimeRule, UnknownFields};
use payfold_partners::verify::VerifiedIpn;
use payfold_schemas::ids::{Nonce, OrderId, OrderKey, ProviderRef};
use payfold_schemas::ipn::{Ipn, MoneyContent, Status};
use payfold_schemas::money::{Amount, AmountError, Currency};
use payfold_schemas::record::{NoticeRequest, NoticeSource};
use payfold_schemas::text::{Text, TextError, TextRule};
use payfold_schemas::time::Time;

use crate::intake;
use crate::refusal::{Code, Refusal};

/// What a genuine notice that is not refused is for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// A fact of an order.
    Admitted(Admitted),
    /// Of a kind that leaves nothing.
    Ignored,
    /// It tells of money and names no order of ours: kept whole in quarantine, and acknowledged.
    Kept,
}

/// A notice that is what the contract says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The order it names.
    pub order: OrderKey,
    /// The notice, normalised.
    pub ipn: Ipn,
}

impl Admitted {
    /// Puts where it came from beside it.
    pub fn with_source(self, source: NoticeSource) -> intake::Admitted {
        intake::Admitted { order: self.order, ipn: self.ipn, source }
    }
}

/// Where a verified notice came from: profile, key and request.
pub fn source(verified: &VerifiedIpn<'_>, request: NoticeRequest) -> NoticeSource {
    NoticeSource {
        profile: verified.profile().stamp().clone(),
        key_id: verified.key_id().clone(),
        request,
        released: None,
    }
}

/// Judges a verified notice. Errors: a refusal that names the field; the notice then goes to quarantine.
pub fn admit(verified: &VerifiedIpn<'_>, now: Time) -> Result<Admitted, Refusal> {
    let admitted = shape(verified)?;
    if let Some(timestamp) = admitted.ipn.timestamp {
        in_window(verified.profile().time(), timestamp, now)?;
    }
    Ok(admitted)
}

/// The same without the clock: is it what the contract says, whenever it came?
pub(crate) fn shape(verified: &VerifiedIpn<'_>) -> Result<Admitted, Refusal> {
    let profile = verified.profile();
    if profile.unknown_fields() == UnknownFields::Refuse && verified.unknown_fields() > 0 {
        return Err(Refusal::because(
            Code::UnknownField,
            "this partner's profile takes no fields of its own",
        ));
    }
    if let Some(field) = verified.separator_in_signed_value() {
        return Err(Refusal::because(Code::SeparatorInField, format!("in {}", field.name())));
    }
    text(verified, Field::MerchantCode)?;
    let order_id: OrderId = id(verified, Field::OrderId)?;
    let provider_ref: ProviderRef = id(verified, Field::ProviderRef)?;
    let status = text(verified, Field::Status)?;
    let status = Status::parse(status).ok_or_else(|| Refusal::new(Code::UnknownStatus))?;
    let amount = amount(verified)?;
    let currency = text(verified, Field::Currency)?;
    let currency = Currency::parse(currency).map_err(|_| Refusal::new(Code::UnknownCurrency))?;
    let paid_at = optional_time(verified, Field::PaidAt)?;
    if status == Status::Success && paid_at.is_none() {
        return Err(missing(Field::PaidAt));
    }
    let timestamp = timestamp(verified, profile.time())?;
    let nonce = nonce(verified, profile)?;
    let account = verified.account();
    let order = OrderKey {
        partner: account.partner().clone(),
        merchant_code: account.merchant_code().clone(),
        order_id,
    };
    let money = MoneyContent { amount, currency, paid_at, event_ref: None };
    let policy = profile.policy(provider_ref.as_str());
    let ipn = Ipn { provider_ref, status, money, timestamp, nonce, policy };
    Ok(Admitted { order, ipn })
}

/// The clock's word: 300 s either way pass, a nanosecond more does not (contract 7.1).
pub(crate) fn in_window(rule: &TimeRule, timestamp: Time, now: Time) -> Result<(), Refusal> {
    rule.judge(timestamp, now).map_err(|outside| {
        // An event may be of any age; only when this delivery was sent says something of our clock.
        let skew_ms = (rule.kind == TimeKind::Delivery)
            .then(|| now.unix_ms().saturating_sub(timestamp.unix_ms()));
        let refusal = Refusal::because(Code::TimestampOutOfWindow, outside.to_string());
        Refusal { skew_ms, ..refusal }
    })
}

/// The notice's own time, where the profile has one.
fn timestamp(verified: &VerifiedIpn<'_>, rule: &TimeRule) -> Result<Option<Time>, Refusal> {
    let Some(field) = rule.field else { return optional_time(verified, Field::Timestamp) };
    optional_time(verified, field)?.map(Some).ok_or_else(|| missing(field))
}

fn amount(verified: &VerifiedIpn<'_>) -> Result<Amount, Refusal> {
    let scalar = present(verified, Field::Amount)?;
    if scalar.kind != ScalarKind::Number {
        return Err(wrong_type(Field::Amount));
    }
    Amount::parse(scalar.text).map_err(|error| {
        Refusal::new(match error {
            AmountError::NotInteger => Code::AmountNotInteger,
            AmountError::OutOfRange => Code::AmountOutOfRange,
        })
    })
}

fn nonce(verified: &VerifiedIpn<'_>, profile: &Profile) -> Result<Option<Nonce>, Refusal> {
    match (verified.field(Field::Nonce), profile.nonce()) {
        (None, NonceRule::Required) => Err(missing(Field::Nonce)),
        (_, NonceRule::Unused) | (None, NonceRule::Optional) => Ok(None),
        (Some(_), NonceRule::Required | NonceRule::Optional) => {
            id(verified, Field::Nonce).map(Some)
        }
    }
}

fn optional_time(verified: &VerifiedIpn<'_>, field: Field) -> Result<Option<Time>, Refusal> {
    if verified.field(field).is_none() {
        return Ok(None);
    }
    let bad = || {
        let detail = format!("{} must be RFC 3339 with a zone", field.name());
        Refusal::because(Code::BadTimestamp, detail)
    };
    // Seconds since 1970 are a time, only not one of the contract's.
    if present(verified, field)?.kind == ScalarKind::Number {
        return Err(bad());
    }
    Time::parse(text(verified, field)?).map(Some).map_err(|_| bad())
}

fn id<R: TextRule>(verified: &VerifiedIpn<'_>, field: Field) -> Result<Text<R>, Refusal> {
    Text::parse(text(verified, field)?).map_err(|error| {
        let code = match error {
            TextError::Empty { .. } => Code::EmptyField,
            TextError::TooLong { .. } => Code::FieldTooLong,
            TextError::IllegalCharacter { .. } => Code::IllegalCharacter,
        };
        Refusal::because(code, error.to_string())
    })
}

/// A required string that is not blank.
fn text<'a>(verified: &'a VerifiedIpn<'_>, field: Field) -> Result<&'a str, Refusal> {
    let scalar = present(verified, field)?;
    if scalar.kind != ScalarKind::String {
        return Err(wrong_type(field));
    }
    let text = scalar.text;
    if text.trim().is_empty() {
        return Err(Refusal::because(Code::EmptyField, format!("{} is empty", field.name())));
    }
    Ok(text)
}

fn present<'a>(verified: &'a VerifiedIpn<'_>, field: Field) -> Result<Scalar<'a>, Refusal> {
    verified.field(field).ok_or_else(|| missing(field))
}

fn missing(field: Field) -> Refusal {
    Refusal::because(Code::MissingField, format!("{} is required", field.name()))
}

fn wrong_type(field: Field) -> Refusal {
    let wanted = if field == Field::Amount { "a JSON number" } else { "a JSON string" };
    Refusal::because(Code::WrongType, format!("{} must be {wanted}", field.name()))
}

#[cfg(test)]
mod tests {
    use payfold_partners::directory::Directory;
    use payfold_partners::document::{AccountEntry, NewKey, VaultDocument};
    use payfold_partners::mac::MacKey;
    use payfold_partners::profile::DEFAULT_PROFILE;
    use payfold_partners::secret::Secret;
    use payfold_partners::signing;
    use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};

    use super::*;

    const SECRET: &[u8] = b"a secret of the test, long enough";
    const SENT: &str = "2026-01-31T10:00:00Z";

    fn partner() -> PartnerCode {
        PartnerCode::parse("acme").unwrap()
    }

    /// acme/SHOP with one key, under the default profile with some of its text replaced.
    fn directory(changes: &[(&str, &str)]) -> Directory {
        let mut profile = DEFAULT_PROFILE.to_owned();
        for (from, to) in changes {
            assert!(profile.contains(from), "{from}");
            profile = profile.replacen(from, to, 1);
        }
        let mut account = AccountEntry::new(partner(), MerchantCode::parse("SHOP").unwrap());
        let key = NewKey {
            id: KeyId::parse("k").unwrap(),
            channel: payfold_partners::keys::Channel::Ipn,
            secret: Secret::from_bytes(SECRET.to_vec()),
            valid_from: Time::from_unix_nanos(i64::MIN),
            overlap_ms: 0,
            created_at: Time::from_unix_ms(0),
        };
        account.add_key(key).unwrap();
        let vault = VaultDocument { accounts: vec![account], ..VaultDocument::default() };
        Directory::build(vec![Profile::parse(&partner(), &profile).unwrap()], &vault).unwrap()
    }

    /// A signed body of a good notice with some fields' JSON replaced; an empty source leaves one out.
    fn body(changes: &[(Field, &str)]) -> String {
        let sent = format!("\"{SENT}\"");
        let source = |field: Field| {
            let good = match field {
                Field::MerchantCode => "\"SHOP\"",
                Field::OrderId | Field::ProviderRef => "\"a-1\"",
                Field::Status => "\"SUCCESS\"",
                Field::Amount => "150000",
                Field::Currency => "\"VND\"",
                Field::PaidAt | Field::Timestamp => &sent,
                Field::Nonce | Field::Signature => "",
            };
            let changed = changes.iter().find(|(other, _)| *other == field);
            changed.map_or(good.to_owned(), |(_, source)| (*source).to_owned())
        };
        let sources = Field::ALL.map(source);
        let texts = sources.clone().map(|source| match serde_json::from_str::<String>(&source) {
            Ok(text) => text,
            Err(_) if source == "null" => String::new(),
            Err(_) => source,
        });
        let value_of = |wanted| {
            let at = Field::ALL.iter().position(|field| *field == wanted)?;
            Some(texts[at].as_str()).filter(|text| !text.is_empty())
        };
        let profile = Profile::default_for(&partner());
        let signature = signing::sign(&profile, &MacKey::new(SECRET), value_of);
        let written = Field::ALL.iter().zip(&sources).filter(|(_, source)| !source.is_empty());
        let written: String =
            written.map(|(field, source)| format!("\"{field}\":{source},")).collect();
        format!("{{{written}\"signature\":\"{signature}\"}}")
    }

    fn judge(directory: &Directory, body: &str, now: Time) -> Result<Admitted, Refusal> {
        let verified = directory.verify(None, body.as_bytes(), now).expect("it is signed");
        admit(&verified, now)
    }

    /// `ok`, or the code and the detail.
    fn outcome(directory: &Directory, body: &str, now: Time) -> (&'static str, String) {
        match judge(directory, body, now) {
            Ok(_) => ("ok", String::new()),
            Err(refusal) => (refusal.code.as_str(), refusal.detail.unwrap_or_default()),
        }
    }

    fn sent() -> Time {
        Time::parse(SENT).unwrap()
    }

    fn plus_nanos(time: Time, nanos: i64) -> Time {
        Time::from_unix_nanos(time.unix_nanos() + nanos)
    }

    #[test]
    fn a_good_notice_is_normalised() {
        let admitted = judge(&directory(&[]), &body(&[]), sent()).unwrap();
        assert_eq!(admitted.order.to_string(), "acme/SHOP/a-1");
        assert_eq!(
            (admitted.ipn.status, admitted.ipn.money.amount.minor()),
            (Status::Success, 150_000)
        );
        assert_eq!(
            (admitted.ipn.timestamp, admitted.ipn.money.paid_at),
            (Some(sent()), Some(sent()))
        );
        assert_eq!(admitted.ipn.nonce, None);
    }

    #[test]
    fn exactly_300_seconds_pass_and_a_nanosecond_more_does_not() {
        let directory = directory(&[]);
        let window = "timestamp_out_of_window";
        for (now, expected, detail) in [
            (sent().plus_ms(300_000), "ok", ""),
            (plus_nanos(sent().plus_ms(300_000), 1), window, "the timestamp is 300 s old"),
            (sent().plus_ms(-300_000), "ok", ""),
            (plus_nanos(sent().plus_ms(-300_000), -1), window, "the timestamp is 300 s ahead"),
            (sent().plus_ms(3_600_000), window, "the timestamp is 3600 s old"),
        ] {
            assert_eq!(
                outcome(&directory, &body(&[]), now),
                (expected, detail.to_owned()),
                "{now}"
            );
        }
        let elsewhere = body(&[(Field::Timestamp, "\"2026-01-31T17:00:00+07:00\"")]);
        let borders = [300_000, -300_000].map(|ms| sent().plus_ms(ms));
        for now in borders {
            assert_eq!(outcome(&directory, &elsewhere, now).0, "ok", "{now}");
        }
    }

    #[test]
    fn an_event_time_may_be_as_old_as_its_profile_says_and_no_time_is_never_old() {
        let event = directory(&[
            ("kind = \"delivery\"", "kind = \"event\"\nmax_age_s = 86400"),
            ("field = \"timestamp\"", "field = \"paidAt\""),
        ]);
        let paid_then = |now| outcome(&event, &body(&[(Field::Timestamp, "")]), now).0;
        assert_eq!(paid_then(sent().plus_ms(86_400_000)), "ok");
        assert_eq!(paid_then(plus_nanos(sent().plus_ms(86_400_000), 1)), "timestamp_out_of_window");
        assert_eq!(paid_then(sent().plus_ms(-300_001)), "timestamp_out_of_window");
        let unpaid = body(&[(Field::Status, "\"FAILED\""), (Field::PaidAt, "")]);
        let missing = ("missing_field", "paidAt is required".to_owned());
        assert_eq!(outcome(&event, &unpaid, sent()), missing);
        let none = directory(&[
            ("kind = \"delivery\"", "kind = \"none\""),
            ("\nfield = \"timestamp\"\n", "\n"),
            ("skew_s = 300", ""),
        ]);
        assert_eq!(outcome(&none, &body(&[]), sent().plus_ms(1 << 40)).0, "ok");
    }

    #[test]
    fn the_first_thing_wrong_in_the_contracts_order_is_told() {
        let directory = directory(&[]);
        let mut changes = vec![];
        for (field, source, expected) in [
            (Field::Timestamp, "\"soon\"", "timestamp must be RFC 3339 with a zone"),
            (Field::PaidAt, "17", "paidAt must be RFC 3339 with a zone"),
            (Field::Currency, "true", "currency must be a JSON string"),
            (Field::Amount, "\"1\"", "amount must be a JSON number"),
            (Field::Status, "\" \"", "status is empty"),
            (Field::ProviderRef, "\"\u{e9}\"", "providerRef has an illegal character at byte 0"),
            (Field::OrderId, "", "orderId is required"),
        ] {
            changes.push((field, source));
            let (_, detail) = outcome(&directory, &body(&changes), sent().plus_ms(1 << 40));
            assert_eq!(detail, expected);
        }
        changes.push((Field::Currency, "\"a|b\""));
        changes.swap(0, 7);
        let (code, detail) = outcome(&directory, &body(&changes), sent());
        assert_eq!((code, detail.as_str()), ("separator_in_field", "in currency"));
    }

    #[test]
    fn a_profile_may_ask_for_more() {
        let strict = directory(&[("unknown_fields = \"allow\"", "unknown_fields = \"refuse\"")]);
        let extra = body(&[]).replacen('{', "{\"extra\":1,", 1);
        assert_eq!(outcome(&strict, &extra, sent()).0, "unknown_field");
        assert_eq!(outcome(&strict, &body(&[]), sent()).0, "ok");
        let nonce = directory(&[("nonce = \"optional\"", "nonce = \"required\"")]);
        let missing = ("missing_field", "nonce is required".to_owned());
        assert_eq!(outcome(&nonce, &body(&[]), sent()), missing);
        let with = judge(&nonce, &body(&[(Field::Nonce, "\"n-1\"")]), sent()).unwrap();
        assert_eq!(with.ipn.nonce.unwrap().as_str(), "n-1");
        assert!(with.ipn.policy.nonce_required);
    }
}
