//! Owns detected findings: a finding's id, its evidence, the money at risk and the action for a
//! person. Pure. Invariant: id and evidence depend on what differs, never on the run, the time or
//! the line number, so every run and every process detects the same finding.

use minicbor::Encode;
use payfold_schemas::digest::Digest;
use payfold_schemas::finding::{BookLine, Code, FindingChanged, FindingStatus, Side};
use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode, ProviderRef, Reference};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use payfold_schemas::order::{Flag, OrderState, Severity};
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

use super::action::action_for;
use super::difference::{Difference, DoubledItem};
use super::other_days::{IdHash, ItemIds, ListedItem};
use super::request::QUERIES;

/// The identity of a finding: findings with equal fields are the same finding. The field numbers
/// and their order are part of the digest, so they never change.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Serialize, Deserialize)]
pub(crate) struct FindingIdentity {
    /// The partner.
    #[n(0)]
    pub partner: PartnerCode,
    /// The account; `None` for the partner as a whole.
    #[n(1)]
    pub merchant_code: Option<MerchantCode>,
    /// The order.
    #[n(2)]
    pub order_id: Option<OrderId>,
    /// The transaction.
    #[n(3)]
    pub provider_ref: Option<ProviderRef>,
    /// The finding's code as text.
    #[n(4)]
    pub code: String,
    /// The field, the status, and the name of a refund; see `difference_name`.
    #[n(5)]
    pub what: String,
    /// The day of the records, if the finding is about the content of a line. Each day's records
    /// make findings of their own. `None` if the finding is about a missing line, because another
    /// day's records may have the line.
    #[n(6)]
    pub day: Option<String>,
}

impl FindingIdentity {
    /// The finding's id, 32 hex digits.
    pub(crate) fn id(&self) -> String {
        let mut id = Digest::of_content("finding", self).to_string();
        id.truncate(32);
        id
    }
}

/// Field, status and refund as one text. Differences of one payment have different texts.
fn difference_name(field: &str, status: Status, part: Option<&str>) -> String {
    let part = part.map_or_else(String::new, |part| format!(" {part}"));
    format!("{field} {status}{part}")
}

/// A detected finding: all of a `FindingChanged` but its version and its times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DetectedFinding {
    /// The finding's id.
    pub id: String,
    /// What differs.
    pub code: Code,
    /// The severity of its code or flag.
    pub severity: Severity,
    /// The order's flag, if the finding is about one.
    pub flag: Option<Flag>,
    /// Its identity.
    pub(crate) identity: FindingIdentity,
    /// The shop's reference.
    pub(crate) reference: Option<Reference>,
    /// The field that differs; empty if none does.
    pub field: String,
    /// What is known here.
    pub ours: Side,
    /// What the partner says.
    pub partners: Side,
    /// Minor units at risk.
    pub(crate) at_risk: i64,
    /// The currency of the money at risk.
    pub currency: Option<Currency>,
    /// The partner's lines of that order or ref.
    pub(crate) lines: Vec<BookLine>,
    /// The digest of the evidence: a decision holds for exactly this evidence.
    pub evidence: Digest,
}

/// The order of a difference, and the records it was detected in.
#[derive(Clone, Debug)]
pub struct FindingContext<'a> {
    /// The partner.
    pub partner: &'a PartnerCode,
    /// The account.
    pub merchant_code: &'a MerchantCode,
    /// The order, as the records or this system name it.
    pub order_id: Option<&'a OrderId>,
    /// The shop's reference.
    pub(crate) reference: Option<&'a Reference>,
    /// The day of the records.
    pub day: &'a str,
    /// The name of the records.
    pub file: &'a str,
    /// The partner's lines of the order or ref.
    pub(crate) lines: &'a [BookLine],
}

/// Lines that a finding carries, at most.
pub(crate) const LINES_MAX: usize = 16;

impl FindingContext<'_> {
    fn identity(&self, code: Code, field: &str, item: DifferenceItem<'_>) -> FindingIdentity {
        FindingIdentity {
            partner: self.partner.clone(),
            merchant_code: Some(self.merchant_code.clone()),
            order_id: self.order_id.cloned(),
            provider_ref: item.provider_ref.cloned(),
            code: code.to_string(),
            what: difference_name(field, item.status, item.part),
            day: None,
        }
    }

    /// The ids of the findings that say of an item that no records list it.
    pub(crate) fn ids_of(&self, item: &ListedItem) -> ItemIds {
        let id = |code| IdHash::of(&self.id_of_missing(code, item));
        ItemIds { missing: id(Code::MissingThere), cut_off: id(Code::CutOff) }
    }

    /// The id of the finding that these records would have if they did not list this item.
    pub(crate) fn id_of_missing(&self, code: Code, item: &ListedItem) -> String {
        let provider_ref = Some(&item.provider_ref);
        let part = item.part.as_deref();
        self.identity(code, "status", DifferenceItem { provider_ref, status: item.status, part })
            .id()
    }
}

/// The payment, refund or end that a difference is about.
#[derive(Clone, Copy)]
struct DifferenceItem<'a> {
    provider_ref: Option<&'a ProviderRef>,
    status: Status,
    /// Which refund of the transaction.
    part: Option<&'a str>,
}

impl DetectedFinding {
    /// The finding of a difference.
    pub(crate) fn of(context: &FindingContext<'_>, difference: Difference) -> Self {
        let day = difference.line.map(|_| context.day.to_owned());
        Self::of_day(context, difference, day)
    }

    /// The finding of a difference, which another day's records make, too.
    pub(crate) fn of_day(
        context: &FindingContext<'_>,
        difference: Difference,
        day: Option<String>,
    ) -> Self {
        let Difference { provider_ref, status, part, .. } = &difference;
        let item = DifferenceItem {
            provider_ref: provider_ref.as_ref(),
            status: *status,
            part: part.as_deref(),
        };
        let identity =
            FindingIdentity { day, ..context.identity(difference.code, difference.field, item) };
        let ours_source = match context.order_id {
            Some(order_id) => {
                format!("{}/{}/{order_id}", context.partner, context.merchant_code)
            }
            None => format!("{}/{}", context.partner, context.merchant_code),
        };
        let partners_source = match difference.line {
            Some(line) if context.file != QUERIES => format!("{} line {line}", context.file),
            Some(_) | None => context.file.to_owned(),
        };
        let evidence = Digest::of_content(
            "finding evidence",
            &(
                &identity,
                as_evidence(&difference.ours),
                &difference.partners,
                difference.at_risk,
                difference.currency,
            ),
        );
        Self {
            id: identity.id(),
            code: difference.code,
            severity: difference.code.severity(),
            flag: None,
            identity,
            reference: context.reference.cloned(),
            field: difference.field.to_owned(),
            ours: Side { value: difference.ours, source: ours_source },
            partners: Side { value: difference.partners, source: partners_source },
            at_risk: difference.at_risk,
            currency: Some(difference.currency),
            lines: context.lines.iter().take(LINES_MAX).cloned().collect(),
            evidence,
        }
    }

    /// Makes a `MISSING_HERE` finding `REF_ON_TWO_ORDERS`: the line's order is not known, but its
    /// ref is another order's.
    pub(crate) fn set_other_order(&mut self, other: &OrderId) {
        self.code = Code::RefOnTwoOrders;
        self.severity = self.code.severity();
        self.identity.code = self.code.to_string();
        "providerRef".clone_into(&mut self.field);
        self.ours.value = format!("of order {other}");
        self.id = self.identity.id();
        self.evidence = Digest::of_content("finding evidence", &(&self.identity, &self.ours.value));
    }

    /// The event that opens the finding, or opens it again.
    pub(crate) fn into_opened(
        self,
        version: u32,
        (day, run): (&str, Option<&str>),
        first_seen: Time,
    ) -> FindingChanged {
        let action = action_for(self.code, self.flag, &self.identity.what);
        FindingChanged {
            finding_id: self.id,
            version,
            status: FindingStatus::Open,
            code: self.code,
            severity: self.severity,
            partner: self.identity.partner,
            merchant_code: self.identity.merchant_code,
            order_id: self.identity.order_id,
            reference: self.reference,
            payment_ref: self.identity.provider_ref,
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

/// What the records of two days list, and what is found instead if they turn out not to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DoubledFinding {
    pub(crate) found: DetectedFinding,
    /// The day of the finding.
    pub(crate) day: String,
    /// The other day, if its run has only not missed the item.
    pub(crate) inferred_from: Option<String>,
    /// The record of `intake` since which it counts.
    pub(crate) counts_since: Option<Position>,
    pub(crate) otherwise: Option<DetectedFinding>,
}

impl DoubledFinding {
    pub(crate) fn of(context: &FindingContext<'_>, doubled: DoubledItem) -> Self {
        let DoubledItem { counts_since, day, inferred_from, found, otherwise } = doubled;
        let day = day.to_string();
        Self {
            found: DetectedFinding::of_day(context, found, Some(day.clone())),
            day,
            inferred_from: inferred_from.map(|day| day.to_string()),
            counts_since,
            otherwise: otherwise.map(|otherwise| DetectedFinding::of(context, otherwise)),
        }
    }

    /// The one of both findings that is known, on this day.
    pub(crate) fn known(
        self,
        day: &str,
        is_known: impl Fn(&DetectedFinding) -> bool,
    ) -> Option<DetectedFinding> {
        let double = (self.day == day).then_some(self.found);
        double.filter(&is_known).or_else(|| self.otherwise.filter(&is_known))
    }
}

/// The evidence of our side: all states of an unpaid order are the same evidence, so the end of a
/// session changes no decision; nor does a note for people.
fn as_evidence(ours: &str) -> &str {
    let ours = ours.split_once(", ").map_or(ours, |(value, _note)| value);
    match OrderState::parse(ours) {
        Some(OrderState::Requested | OrderState::Pending | OrderState::Expired) => "unpaid",
        Some(_) | None => ours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_the_end_of_a_session_nor_a_note_changes_the_evidence() {
        for (ours, evidence) in [
            ("PAID", "PAID"),
            ("PAID, with another ref", "PAID"),
            ("PENDING", "unpaid"),
            ("EXPIRED", "unpaid"),
            ("REFUNDED 20 + 30, another refund", "REFUNDED 20 + 30"),
        ] {
            assert_eq!(as_evidence(ours), evidence, "{ours}");
        }
    }
}
