//! Owns what a difference is called and what it stands on: the finding's id, its evidence, the money at risk and what a
//! person should do next. Pure. Invariant: id and evidence depend on what differs alone, never on the run, the time or the
//! place in a file, so every run and every instance finds the same finding.

use minicbor::Encode;
use payfold_schemas::digest::Digest;
use payfold_schemas::finding::{BookLine, Code, FindingChanged, FindingStatus, Side};
use payfold_schemas::ids::{MerchantCode, OrderId, OrderKey, PartnerCode, ProviderRef, Reference};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use payfold_schemas::order::{Flag, OrderState, Severity};
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

use super::compare::{Difference, Spoken};
use super::flags;
use super::survey::QUERIES;

/// What a finding is about, as far as that makes it the same one again.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Serialize, Deserialize)]
pub struct About {
    /// Whose records.
    #[n(0)]
    pub partner: PartnerCode,
    /// Which account; none for the partner as a whole.
    #[n(1)]
    pub merchant_code: Option<MerchantCode>,
    /// Which order.
    #[n(2)]
    pub order_id: Option<OrderId>,
    /// Which transaction.
    #[n(3)]
    pub provider_ref: Option<ProviderRef>,
    /// The code's word.
    #[n(4)]
    pub code: String,
    /// Field and status.
    #[n(5)]
    pub what: String,
    /// Of which day's records, where it is about what one of their lines says: each day's speak for themselves. None where
    /// it is about what is not there, which another day's records may have.
    #[n(6)]
    pub day: Option<String>,
}

impl About {
    /// The finding's id, 32 hex digits.
    pub fn id(&self) -> String {
        let mut id = Digest::of_content("finding", self).to_string();
        id.truncate(32);
        id
    }

    /// The order it is about, if one is named.
    pub(crate) fn order(&self) -> Option<OrderKey> {
        let (merchant_code, order_id) = self.merchant_code.clone().zip(self.order_id.clone())?;
        Some(OrderKey { partner: self.partner.clone(), merchant_code, order_id })
    }
}

/// Field, status and which refund in one word: one payment may differ in several.
fn what(field: &str, status: Status, part: Option<&str>) -> String {
    let part = part.map_or_else(String::new, |part| format!(" {part}"));
    format!("{field} {status}{part}")
}

/// A difference with everything the finding tells of it, but its version and its times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Its id.
    pub id: String,
    /// What differs.
    pub code: Code,
    /// How loud it is.
    pub severity: Severity,
    /// The order's flag it is about, if it is about one.
    pub flag: Option<Flag>,
    /// What it is about.
    pub about: About,
    /// The shop's reference.
    pub reference: Option<Reference>,
    /// The field.
    pub field: String,
    /// What is known here.
    pub ours: Side,
    /// What the partner says.
    pub partners: Side,
    /// Minor units at risk.
    pub at_risk: i64,
    /// Of them.
    pub currency: Option<Currency>,
    /// The partner's lines of that order or ref.
    pub lines: Vec<BookLine>,
    /// The digest of what it stands on.
    pub evidence: Digest,
}

/// Whose order a difference is of, and where the lines come from.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// Whose records.
    pub partner: &'a PartnerCode,
    /// Which account.
    pub merchant_code: &'a MerchantCode,
    /// Which order, as the records or this system name it.
    pub order_id: Option<&'a OrderId>,
    /// The shop's reference.
    pub reference: Option<&'a Reference>,
    /// The records' day.
    pub day: &'a str,
    /// What the records are called.
    pub file: &'a str,
    /// The partner's lines of it.
    pub lines: &'a [BookLine],
}

/// How many lines a finding carries with it.
pub(crate) const LINES_MAX: usize = 16;

impl Subject<'_> {
    fn about(&self, code: Code, field: &str, (provider_ref, status, part): Named<'_>) -> About {
        About {
            partner: self.partner.clone(),
            merchant_code: Some(self.merchant_code.clone()),
            order_id: self.order_id.cloned(),
            provider_ref: provider_ref.cloned(),
            code: code.to_string(),
            what: what(field, status, part),
            day: None,
        }
    }

    /// The id of the finding that these records don't list what they list.
    pub(crate) fn id_of_missing(&self, code: Code, spoken: &Spoken) -> String {
        let (provider_ref, status, part) = spoken;
        self.about(code, "status", (Some(provider_ref), *status, part.as_deref())).id()
    }
}

type Named<'a> = (Option<&'a ProviderRef>, Status, Option<&'a str>);

impl Found {
    /// The finding of a difference.
    pub fn of(subject: &Subject<'_>, difference: Difference) -> Self {
        let Difference { provider_ref, status, part, .. } = &difference;
        let named = (provider_ref.as_ref(), *status, part.as_deref());
        let about = About {
            day: difference.line.map(|_| subject.day.to_owned()),
            ..subject.about(difference.code, difference.field, named)
        };
        let ours_source = match subject.order_id {
            Some(order_id) => {
                format!("{}/{}/{order_id}", subject.partner, subject.merchant_code)
            }
            None => format!("{}/{}", subject.partner, subject.merchant_code),
        };
        let partners_source = match difference.line {
            Some(line) if subject.file != QUERIES => format!("{} line {line}", subject.file),
            Some(_) | None => subject.file.to_owned(),
        };
        let evidence = Digest::of_content(
            "finding evidence",
            &(
                &about,
                as_evidence(&difference.ours),
                &difference.partners,
                difference.at_risk,
                difference.currency,
            ),
        );
        Self {
            id: about.id(),
            code: difference.code,
            severity: difference.code.severity(),
            flag: None,
            about,
            reference: subject.reference.cloned(),
            field: difference.field.to_owned(),
            ours: Side { value: difference.ours, source: ours_source },
            partners: Side { value: difference.partners, source: partners_source },
            at_risk: difference.at_risk,
            currency: Some(difference.currency),
            lines: subject.lines.iter().take(LINES_MAX).cloned().collect(),
            evidence,
        }
    }

    /// The line's order is not known, but its ref is another order's.
    pub(crate) fn is_of_another_order(&mut self, other: &OrderId) {
        self.code = Code::RefOnTwoOrders;
        self.severity = self.code.severity();
        self.about.code = self.code.to_string();
        "providerRef".clone_into(&mut self.field);
        self.ours.value = format!("of order {other}");
        self.id = self.about.id();
        self.evidence = Digest::of_content("finding evidence", &(&self.about, &self.ours.value));
    }

    /// The finding as it is opened, or opened again.
    pub fn opened(
        self,
        version: u32,
        (day, run): (&str, Option<&str>),
        first_seen: Time,
    ) -> FindingChanged {
        let action = action(self.code, self.flag, &self.about);
        FindingChanged {
            finding_id: self.id,
            version,
            status: FindingStatus::Open,
            code: self.code,
            severity: self.severity,
            partner: self.about.partner,
            merchant_code: self.about.merchant_code,
            order_id: self.about.order_id,
            reference: self.reference,
            payment_ref: self.about.provider_ref,
            field: Some(self.field).filter(|field| !field.is_empty()),
            flag: self.flag,
            ours: self.ours,
            partners: self.partners,
            money_at_risk: self.at_risk,
            currency: self.currency,
            day: day.to_owned(),
            first_seen,
            run: run.map(str::to_owned),
            evidence: self.evidence,
            lines: self.lines,
            decision: None,
            earlier_decisions: Vec::new(),
            action,
        }
    }
}

/// An order that nobody paid stays that whether its session is still open or not: time passing changes no decision.
fn as_evidence(ours: &str) -> &str {
    match OrderState::parse(ours) {
        Some(OrderState::Requested | OrderState::Pending | OrderState::Expired) => "unpaid",
        Some(_) | None => ours,
    }
}

/// What a person should do next.
fn action(code: Code, flag: Option<Flag>, about: &About) -> String {
    let is_refund = about.what.split(' ').nth(1) == Some(Status::Refunded.as_str());
    match code {
        Code::MissingHere if is_refund => {
            "ask the partner which refunds they made; a notice or a query's answer brings it here"
        }
        Code::MissingHere => {
            "look for the order in the shop and the partner's console; a notice or a query's answer brings it here, else \
             agree with the partner whose money it is"
        }
        Code::MissingThere if is_refund => {
            "ask the partner whether the refund was made; the payer may not have their money"
        }
        Code::MissingThere => {
            "ask the partner for the payment by its ref; goods may have gone out without money"
        }
        Code::StatusDiffers => {
            "compare the notices (`payfold order show --facts`) with the partner's console; a query settles it if the \
             partner takes queries"
        }
        Code::AmountDiffers | Code::CurrencyDiffers => {
            "do not deliver before it is clear what was paid; ask the partner with both values"
        }
        Code::RefDiffers => "check in the partner's console that both refs are one payment",
        Code::TimeDiffers => "harmless for money; check zone and time format of the profile's [records]",
        Code::DuplicatedThere => {
            "ask the partner whether they collected twice; the settlement may be too high"
        }
        Code::CutOff => "nothing: the next day's records should list it; if they don't, it becomes MISSING_THERE",
        Code::OtherDay => "check the day's control totals of both days; the payment itself agrees",
        Code::ReferencePaidTwice => "refund one of the attempts",
        Code::NonceReused => "ask the partner why two notices carry one nonce; one may be a replay",
        Code::RefOnTwoOrders => "ask the partner which order was paid; deliver neither before that",
        Code::OpenFlag => flag.map_or("look at the order's facts", flags::action),
        Code::PartnerSilent => {
            "check that the partner has the right IPN address and that nothing blocks it; then ask for the notices again"
        }
    }
    .to_owned()
}
