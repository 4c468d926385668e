//! Owns admission: whether a verified notice becomes a fact of an order. Pure; `now` is passed in.
//! The notice's fields are checked during authentication (`partners::default_notice`,
//! `partners::scheme::map`). Admission turns a fault of a field into a refusal first, then checks
//! the time (contract 7.1). The projector's fold checks the amount against the create request,
//! unknown orders and contradictory notices.

use payfold_partners::notice_content::{ContentFault, FaultKind, NoticeContent};
use payfold_partners::profile::{TimeKind, TimeRule};
use payfold_partners::verified::VerifiedNotice;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::ipn::Ipn;
use payfold_schemas::time::Time;

use crate::refusal::{Refusal, RefusalCode};

/// What an authenticated notice that is not refused becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// A fact of an order.
    Admitted(AdmittedNotice),
    /// Nothing: the profile ignores notices of its type.
    Ignored,
    /// A quarantine record, and it is acknowledged: it reports money and names no order of ours.
    NoOrder,
}

/// A notice that keeps the contract and its profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmittedNotice {
    /// The order that the notice names.
    pub order: OrderKey,
    /// The notice, normalised.
    pub ipn: Ipn,
}

/// Admits a verified notice. Errors: a refusal that names the field, the time, or the key that is
/// not valid yet; the notice then goes to quarantine.
pub(crate) fn admit_notice(notice: &VerifiedNotice, now: Time) -> Result<Admission, Refusal> {
    let admission = admit_at_any_time(notice);
    let in_time = match &admission {
        Ok(Admission::Admitted(AdmittedNotice {
            ipn: Ipn { timestamp: Some(sent), .. }, ..
        })) => check_window(notice.profile().time(), *sent, now),
        _ => Ok(()),
    };
    if let Some(begins) = notice.key_begins() {
        let early = format!("the key that signed it begins at {begins}");
        let skew_ms = in_time.err().and_then(|stale| stale.skew_ms);
        let refusal = Refusal::with_detail(RefusalCode::TimestampOutOfWindow, early);
        return Err(Refusal { skew_ms, ..refusal });
    }
    in_time.and(admission)
}

/// Admits a verified notice by its fields alone, without checking its time. Errors: a refusal that
/// names the field.
pub(crate) fn admit_at_any_time(notice: &VerifiedNotice) -> Result<Admission, Refusal> {
    let mapped = match notice.content().map_err(refuse_fault)? {
        NoticeContent::Ignored => return Ok(Admission::Ignored),
        NoticeContent::NoOrder => return Ok(Admission::NoOrder),
        NoticeContent::Event(mapped) => mapped,
    };
    let account = notice.account();
    let order = OrderKey {
        partner: account.partner().clone(),
        merchant_code: account.merchant_code().clone(),
        order_id: mapped.order_id.clone(),
    };
    let ipn = Ipn {
        provider_ref: mapped.provider_ref.clone(),
        status: mapped.status,
        money: mapped.money.clone(),
        timestamp: mapped.timestamp,
        nonce: mapped.nonce.clone(),
        policy: mapped.policy,
    };
    Ok(Admission::Admitted(AdmittedNotice { order, ipn }))
}

fn refuse_fault(fault: &ContentFault) -> Refusal {
    Refusal { detail: fault.detail.clone(), ..Refusal::new(code_of(fault.kind)) }
}

fn code_of(kind: FaultKind) -> RefusalCode {
    match kind {
        FaultKind::Missing => RefusalCode::MissingField,
        FaultKind::Empty => RefusalCode::EmptyField,
        FaultKind::WrongType => RefusalCode::WrongType,
        FaultKind::UnknownStatus => RefusalCode::UnknownStatus,
        FaultKind::AmountNotInteger => RefusalCode::AmountNotInteger,
        FaultKind::AmountOutOfRange => RefusalCode::AmountOutOfRange,
        FaultKind::UnknownCurrency => RefusalCode::UnknownCurrency,
        FaultKind::TooLong => RefusalCode::FieldTooLong,
        FaultKind::IllegalCharacter => RefusalCode::IllegalCharacter,
        FaultKind::BadTimestamp => RefusalCode::BadTimestamp,
        FaultKind::Repeated => RefusalCode::DuplicateField,
        FaultKind::NotText => RefusalCode::InvalidEncoding,
        FaultKind::Ambiguous => RefusalCode::SeparatorInField,
        FaultKind::UnknownField => RefusalCode::UnknownField,
    }
}

/// Checks the timestamp against the profile's window. In the default scheme a timestamp of exactly
/// 300 s before or after `now` passes, and one nanosecond more does not (contract 7.1).
fn check_window(rule: &TimeRule, timestamp: Time, now: Time) -> Result<(), Refusal> {
    rule.judge(timestamp, now).map_err(|outside| {
        // An event's timestamp may be old. Only the time of this delivery is evidence about this
        // host's clock.
        let skew_ms = (rule.kind == TimeKind::Delivery)
            .then(|| now.unix_ms().saturating_sub(timestamp.unix_ms()));
        let refusal = Refusal::with_detail(RefusalCode::TimestampOutOfWindow, outside.to_string());
        Refusal { skew_ms, ..refusal }
    })
}

#[cfg(test)]
mod tests {
    use payfold_partners::directory::Directory;
    use payfold_partners::document::{AccountEntry, NewKey, VaultDocument};
    use payfold_partners::mac::MacKey;
    use payfold_partners::profile::{DEFAULT_PROFILE, Field, Profile};
    use payfold_partners::scheme::NoticeRequest;
    use payfold_partners::secret::Secret;
    use payfold_partners::signing;
    use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
    use payfold_schemas::ipn::Status;

    use super::*;

    const SECRET: &[u8] = b"a secret of the test, long enough";
    const SENT: &str = "2026-01-31T10:00:00Z";

    fn partner() -> PartnerCode {
        PartnerCode::parse("acme").unwrap()
    }

    /// The account acme/SHOP with one key, under the default profile with `changes` applied.
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

    /// The signed body of a valid notice with the JSON of some fields replaced. An empty JSON
    /// leaves the field out.
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

    fn judge(directory: &Directory, body: &str, now: Time) -> Result<AdmittedNotice, Refusal> {
        let request = NoticeRequest { body: body.as_bytes(), ..NoticeRequest::default() };
        let verified = directory.authenticate(None, &request, now).expect("it is signed");
        match admit_notice(&verified.notices[0], now)? {
            Admission::Admitted(admitted) => Ok(admitted),
            other => panic!("{other:?}"),
        }
    }

    /// `ok` and an empty text, or the code and the detail of the refusal.
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
    fn a_valid_notice_is_normalised() {
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
        let other_zone = body(&[(Field::Timestamp, "\"2026-01-31T17:00:00+07:00\"")]);
        let borders = [300_000, -300_000].map(|ms| sent().plus_ms(ms));
        for now in borders {
            assert_eq!(outcome(&directory, &other_zone, now).0, "ok", "{now}");
        }
    }

    #[test]
    fn an_event_may_be_as_old_as_its_profile_allows() {
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
    fn the_first_fault_in_the_contracts_order_is_reported() {
        let directory = directory(&[]);
        let mut changes = vec![];
        for (field, source, expected) in [
            (
                Field::Timestamp,
                "\"soon\"",
                "timestamp must be RFC 3339 with a zone, in the years 1678 to 2261",
            ),
            (Field::PaidAt, "17", "paidAt must be RFC 3339 with a zone, in the years 1678 to 2261"),
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
    fn a_profile_may_require_more() {
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
