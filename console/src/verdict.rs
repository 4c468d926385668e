//! Owns the verdict on an order: what is so in a sentence, what is to be done, and an answer for
//! the payer. Pure.

use payfold_schemas::fact::Verdict;
use payfold_schemas::finding::{Code, FindingChanged, FindingStatus};
use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::Status;
use payfold_schemas::order::{KnownFacts, OrderState, Severity, Summary};
use payfold_views::orders::OrderRow;

use crate::freshness::Freshness;
use crate::text::{amount, clock};

/// How the heading of an order ends that is to be delivered.
const DELIVER: &str = ": deliver.";

/// What is so with an order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OrderVerdict {
    /// `good`, `open` or `bad`.
    pub(crate) tone: &'static str,
    pub(crate) heading: String,
    /// What a person has to do.
    pub(crate) todos: Vec<&'static str>,
    pub(crate) for_payer: String,
}

impl OrderVerdict {
    /// The verdict on an order, with the uncleared findings about it; `None` if they can't be read.
    pub(crate) fn of<'f>(
        order: &OrderRow,
        findings: Option<impl Iterator<Item = &'f FindingChanged>>,
    ) -> Self {
        let mut verdict = Self::of_facts(order);
        let Some(findings) = findings else {
            verdict.hold("open");
            verdict.todos.push("Whether the partner's records agree can't be read now.");
            return verdict;
        };
        match findings.map(Against::of).max() {
            Some(Against::Open) => {
                verdict.hold("bad");
                verdict.tone = "bad";
                verdict.todos.push(
                    "The comparison with the partner's records speaks against it, below: do not \
                     deliver, and promise nothing, before that is decided.",
                );
                "Your payment is being checked; keep the receipt."
                    .clone_into(&mut verdict.for_payer);
            }
            Some(Against::Decided) => {
                verdict.todos.push(
                    "It was decided that the partner's record is right, below: read why before \
                     anything is delivered or answered.",
                );
                if verdict.tone == "good" {
                    "Your payment was checked; please contact us with its receipt."
                        .clone_into(&mut verdict.for_payer);
                }
                verdict.hold("open");
            }
            Some(Against::Nothing) | None => {}
        }
        verdict
    }

    /// The same as far as orders are up to date: nothing is delivered or promised on what may have
    /// changed since.
    pub(crate) fn held_unless(mut self, freshness: &Freshness) -> Self {
        if *freshness != Freshness::UpToDate {
            self.hold("open");
            self.todos.insert(
                0,
                "More may be known of this order than is in it yet: deliver nothing, and promise \
                 nothing, before orders are up to date.",
            );
            "We can't see the latest payments at this moment, and will answer you soon; keep the \
             receipt."
                .clone_into(&mut self.for_payer);
        }
        self
    }

    /// Takes back that the order is to be delivered.
    fn hold(&mut self, tone: &'static str) {
        if self.tone == "good" {
            self.tone = tone;
        }
        if let Some(paid) = self.heading.strip_suffix(DELIVER) {
            self.heading = format!("{paid}, by what was reported here.");
        }
    }

    /// The verdict by the order's own facts.
    fn of_facts(order: &OrderRow) -> Self {
        let summary = &order.summary;
        let is_held = summary
            .flags
            .iter()
            .any(|raised| raised.is_open() && raised.severity == Severity::Critical);
        let is_settled = order.attention.is_empty();
        let is_partly_back = summary.state == OrderState::Paid && given_back(summary).is_some();
        let todo = match (is_held, is_settled) {
            _ if is_settled && is_partly_back => Some(
                "Read below what was decided about the money that went back, before the shop \
                 delivers.",
            ),
            _ if is_settled && summary.overpaid > 0 => Some(
                "More was paid than asked, and not all of it was given back: see below what was \
                 decided about it.",
            ),
            (true, _) => Some(
                "Two people with the role finance or admin have to decide what is critical below \
                 before the shop delivers.",
            ),
            (false, false) => Some("A person should check what does not fit below."),
            (false, true) => None,
        };
        let todos = Vec::from_iter(todo);
        let tone = match summary.state {
            _ if is_held => "bad",
            OrderState::Unmatched => "bad",
            OrderState::Paid if summary.fulfil && !is_partly_back => "good",
            _ => "open",
        };
        if is_reported(order) {
            return Self {
                tone: "bad",
                heading: "A payment was reported that does not count: see what does not fit."
                    .to_owned(),
                todos,
                for_payer: match is_settled {
                    true => {
                        "A payment was reported for your order that does not count for it; \
                             please contact us with its receipt."
                    }
                    false => "A payment for your order is being checked; keep the receipt.",
                }
                .to_owned(),
            };
        }
        Self { tone, heading: heading(summary), todos, for_payer: for_payer(summary) }
    }
}

/// What a finding says against its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Against {
    Nothing,
    /// The partner's record was taken as right.
    Decided,
    /// It is open, and a person should look at it.
    Open,
}

impl Against {
    fn of(finding: &FindingChanged) -> Self {
        let accept = finding.decision.as_ref().map(|decision| decision.accept);
        match (finding.status, accept) {
            _ if !is_about_the_money(finding.code) => Self::Nothing,
            (FindingStatus::Open, _) if finding.severity >= Severity::High => Self::Open,
            (FindingStatus::Decided, Some(Verdict::Partner)) => Self::Decided,
            _ => Self::Nothing,
        }
    }
}

/// Whether a finding of this code says that the order's money is not what its facts say.
fn is_about_the_money(code: Code) -> bool {
    match code {
        Code::MissingHere
        | Code::MissingThere
        | Code::StatusDiffers
        | Code::AmountDiffers
        | Code::CurrencyDiffers
        | Code::ReferencePaidTwice
        | Code::NonceReused
        | Code::RefOnTwoOrders => true,
        // A flag is in the order itself.
        Code::OpenFlag
        | Code::RefDiffers
        | Code::TimeDiffers
        | Code::DuplicatedThere
        | Code::CutOff
        | Code::OtherDay
        | Code::PartnerSilent => false,
    }
}

/// Whether the partner reported a payment, and the order is none of those that were paid.
fn is_reported(order: &OrderRow) -> bool {
    let is_unpaid = match order.summary.state {
        OrderState::Requested
        | OrderState::Pending
        | OrderState::Expired
        | OrderState::Failed
        | OrderState::Unconfirmed => true,
        OrderState::Paid | OrderState::Refunded | OrderState::Unmatched => false,
    };
    is_unpaid && paid_refs(&order.facts).next().is_some()
}

/// The reference of each payment that notices and answers report, some of them twice.
pub(crate) fn paid_refs(facts: &KnownFacts) -> impl Iterator<Item = &ProviderRef> {
    let KnownFacts { ipns, query_answers, .. } = facts;
    let notices = ipns.iter().map(|known| (known.content.status, &known.content.provider_ref));
    let answers =
        query_answers.iter().map(|known| (known.content.status, &known.content.provider_ref));
    let all = notices.chain(answers);
    all.filter(|(status, _)| *status == Status::Success).map(|(_, paid)| paid)
}

/// What was paid, and when; with what is more than was asked.
fn payment(summary: &Summary) -> String {
    let on = summary.paid_at.map_or_else(String::new, |at| format!(" on {}", clock(at)));
    let more = match summary.overpaid {
        0 => String::new(),
        more => format!(", {} more than was asked", amount(more, summary.currency)),
    };
    format!("{}{on}{more}", amount(summary.paid_amount, summary.currency))
}

/// What was given back; `None` if nothing was.
fn given_back(summary: &Summary) -> Option<String> {
    let at_least = if summary.refunded_at_least { "at least " } else { "" };
    (summary.refunded_amount != 0 || summary.refunded_at_least)
        .then(|| format!("{at_least}{}", amount(summary.refunded_amount, summary.currency)))
}

fn heading(summary: &Summary) -> String {
    match summary.state {
        OrderState::Paid if summary.fulfil => match given_back(summary) {
            Some(back) => format!("Paid {}; {back} was given back.", payment(summary)),
            None => format!("Paid {}{DELIVER}", payment(summary)),
        },
        OrderState::Paid => {
            format!("Paid {}, but something does not fit: do not deliver yet.", payment(summary))
        }
        OrderState::Pending => match summary.deadline {
            Some(at) => format!("Not paid yet: the payer has time until {}.", clock(at)),
            None => "Not paid yet.".to_owned(),
        },
        OrderState::Requested => {
            "Not paid yet: the partner has not answered whether the payer can pay.".to_owned()
        }
        OrderState::Unconfirmed => {
            "Not paid yet: a notice counts only once the partner confirms it.".to_owned()
        }
        OrderState::Expired => "Not paid: the time to pay is over.".to_owned(),
        OrderState::Failed => "Not paid: the payment failed.".to_owned(),
        OrderState::Refunded if summary.paid_amount == 0 => {
            let back = amount(summary.refunded_amount, summary.currency);
            format!("Given back: {back}, though no payment of it was reported here.")
        }
        OrderState::Refunded => {
            format!("Paid, and given back: {}.", amount(summary.refunded_amount, summary.currency))
        }
        OrderState::Unmatched => {
            "The partner reports a payment for an order that no shop asked for.".to_owned()
        }
    }
}

fn for_payer(summary: &Summary) -> String {
    let received = || format!("We have received your payment of {}.", payment(summary));
    match summary.state {
        OrderState::Paid if summary.fulfil => match given_back(summary) {
            Some(back) => format!("{} Of it {back} was given back.", received()),
            None => received(),
        },
        OrderState::Paid => format!("{} It is being checked.", received()),
        OrderState::Pending | OrderState::Requested | OrderState::Unconfirmed => {
            "Your payment has not reached us yet. If your bank shows it, keep the receipt: we see \
             the payment as soon as our payment partner confirms it."
                .to_owned()
        }
        OrderState::Expired | OrderState::Failed => {
            "We have received no payment for this order. If your bank shows one, send us its \
             receipt."
                .to_owned()
        }
        OrderState::Refunded => {
            format!(
                "Your payment was given back: {}.",
                amount(summary.refunded_amount, summary.currency)
            )
        }
        OrderState::Unmatched => {
            "We are finding out which order your payment is for; keep the receipt.".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::digest::Digest;
    use payfold_schemas::fact::QueryAnswer;
    use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode, ProviderRef};
    use payfold_schemas::money::{Amount, Currency};
    use payfold_schemas::order::{Flag, Known, RaisedFlag};
    use payfold_schemas::position::Position;
    use payfold_schemas::time::Time;

    use super::*;

    fn order(state: OrderState) -> OrderRow {
        let mut summary = Summary::new(state);
        summary.currency = Currency::parse("EUR").ok();
        summary.amount = Some(1_250);
        OrderRow {
            summary,
            partner: PartnerCode::parse("acme").unwrap(),
            merchant_code: MerchantCode::parse("SHOP").unwrap(),
            order_id: OrderId::parse("o-1").unwrap(),
            version: 1,
            first_seen: Time::from_unix_ms(0),
            position: "0-1".to_owned(),
            attention: Vec::new(),
            exponent: Some(2),
            facts: KnownFacts::default(),
        }
    }

    fn flagged(mut order: OrderRow, severity: Severity, decided_by: Option<String>) -> OrderRow {
        let (flag, evidence) = (Flag::DoublePayment, Digest::of_bytes(b"evidence"));
        order.summary.flags = vec![RaisedFlag { flag, severity, evidence, decided_by }];
        order.attention = order.summary.attention().collect();
        order
    }

    #[test]
    fn a_paid_order_is_delivered_unless_something_is_critical() {
        let mut paid = order(OrderState::Paid);
        paid.summary.paid_amount = 1_250;
        paid.summary.paid_at = Time::parse("2026-01-31T10:00:00Z").ok();
        let held = flagged(paid.clone(), Severity::Critical, None);
        paid.summary.fulfil = true;
        let verdict = OrderVerdict::of_facts(&paid);
        assert_eq!((verdict.tone, verdict.todos), ("good", vec![]));
        assert_eq!(verdict.heading, "Paid 12.50 EUR on 2026-01-31 10:00:00 UTC: deliver.");
        let verdict = OrderVerdict::of_facts(&held);
        assert_eq!(verdict.tone, "bad");
        assert!(verdict.heading.contains("do not deliver yet"), "{}", verdict.heading);
        assert!(verdict.todos[0].contains("decide what is critical"));
        assert!(verdict.for_payer.ends_with("It is being checked."), "{}", verdict.for_payer);
        let decided = flagged(paid, Severity::Critical, Some("ann".to_owned()));
        assert_eq!(
            (OrderVerdict::of_facts(&decided).tone, OrderVerdict::of_facts(&decided).todos),
            ("good", vec![])
        );
    }

    /// A payment of another amount leaves an order unpaid.
    #[test]
    fn no_payer_reads_that_nothing_came_when_a_payment_was_reported() {
        let content = QueryAnswer {
            provider_ref: ProviderRef::parse("r").unwrap(),
            status: Status::Success,
            amount: Amount::from_minor(1).unwrap(),
            currency: Currency::parse("EUR").unwrap(),
        };
        for state in OrderState::ALL {
            let mut reported = order(state);
            let position = Position { partition: 0, offset: 1 };
            reported.facts.query_answers.push(Known { content: content.clone(), position });
            let verdict = OrderVerdict::of_facts(&reported);
            for wrong in ["received no payment", "has not reached us"] {
                assert!(!verdict.for_payer.contains(wrong), "{state}: {}", verdict.for_payer);
            }
        }
    }

    #[test]
    fn no_payer_reads_of_money_that_has_not_come() {
        for state in OrderState::ALL {
            let verdict = OrderVerdict::of_facts(&order(state));
            let says_received = verdict.for_payer.contains("We have received your payment");
            assert_eq!(says_received, state == OrderState::Paid, "{state}");
            assert_ne!(verdict.tone, "good", "{state}: nothing may be delivered");
        }
        let expired = flagged(order(OrderState::Expired), Severity::High, None);
        let verdict = OrderVerdict::of_facts(&expired);
        assert_eq!(verdict.todos, ["A person should check what does not fit below."]);
        assert_eq!(verdict.tone, "open");
    }

    #[test]
    fn money_that_went_back_and_money_beyond_the_price_are_named() {
        let mut paid = order(OrderState::Paid);
        (paid.summary.paid_amount, paid.summary.fulfil) = (2_500, true);
        paid.summary.overpaid = 1_250;
        let verdict = OrderVerdict::of_facts(&paid);
        assert_eq!(verdict.heading, "Paid 25.00 EUR, 12.50 EUR more than was asked: deliver.");
        assert!(verdict.for_payer.contains("12.50 EUR more than was asked"));
        assert!(verdict.todos[0].starts_with("More was paid than asked"));
        let mut returned = order(OrderState::Paid);
        (returned.summary.paid_amount, returned.summary.fulfil) = (1_250, true);
        (returned.summary.refunded_amount, returned.summary.refunded_at_least) = (500, true);
        let verdict = OrderVerdict::of_facts(&returned);
        assert_eq!(verdict.heading, "Paid 12.50 EUR; at least 5.00 EUR was given back.");
        assert_eq!(verdict.tone, "open");
        assert!(verdict.for_payer.ends_with("Of it at least 5.00 EUR was given back."));
        assert!(verdict.todos[0].contains("before the shop delivers"));
    }

    #[test]
    fn nothing_is_delivered_or_promised_while_orders_are_not_up_to_date() {
        for state in OrderState::ALL {
            let mut stale = order(state);
            stale.summary.fulfil = state == OrderState::Paid;
            let of = |freshness| OrderVerdict::of_facts(&stale).held_unless(&freshness);
            assert_eq!(of(Freshness::UpToDate), OrderVerdict::of_facts(&stale));
            for freshness in [Freshness::Partly, Freshness::Stopped, Freshness::Behind(90)] {
                let verdict = of(freshness);
                assert!(!verdict.heading.contains("deliver."), "{}", verdict.heading);
                assert!(verdict.for_payer.starts_with("We can't see"), "{}", verdict.for_payer);
                assert!(verdict.todos[0].contains("deliver nothing"), "{:?}", verdict.todos);
                assert_ne!(verdict.tone, "good");
            }
        }
    }

    #[test]
    fn the_partners_records_stop_a_delivery() {
        let mut paid = order(OrderState::Paid);
        (paid.summary.paid_amount, paid.summary.fulfil) = (1_250, true);
        let sample: serde_json::Value =
            serde_json::from_str(include_str!("../../report/src/tests/sample.json")).unwrap();
        let finding_of = |code: &str, (status, severity, accept): (&str, &str, &str)| {
            let mut finding = sample["findings"][0].clone();
            (finding["status"], finding["severity"]) = (status.into(), severity.into());
            (finding["code"], finding["flag"]) = (code.into(), serde_json::Value::Null);
            finding["decision"] = serde_json::json!({ "accept": accept, "author": "ann",
                "reason": "asked", "at": "2026-01-31T10:00:00Z", "evidence": finding["evidence"] });
            serde_json::from_value::<FindingChanged>(finding).unwrap()
        };
        let finding =
            |status, severity, accept| finding_of("MISSING_THERE", (status, severity, accept));
        let delivers = |findings: &[FindingChanged]| {
            let verdict = OrderVerdict::of(&paid, Some(findings.iter()));
            assert_eq!(verdict.heading.contains("deliver"), verdict.tone == "good", "{verdict:?}");
            assert_eq!(verdict.for_payer.contains("received"), verdict.tone == "good");
            verdict.tone == "good"
        };
        assert!(delivers(&[]));
        for (status, severity, accept, is_delivered) in [
            ("open", "critical", "ours", false),
            ("open", "warn", "ours", true),
            ("decided", "critical", "ours", true),
            ("decided", "critical", "write-off", true),
            ("decided", "critical", "partner", false),
            ("cleared", "critical", "partner", true),
        ] {
            let finding = finding(status, severity, accept);
            assert_eq!(delivers(&[finding]), is_delivered, "{status} {severity} {accept}");
        }
        let both = [finding("decided", "critical", "partner"), finding("open", "high", "ours")];
        let verdict = OrderVerdict::of(&paid, Some(both.iter()));
        assert_eq!(verdict.tone, "bad", "what is open counts first");
        for code in ["TIME_DIFFERS", "DUPLICATED_THERE", "REF_DIFFERS", "OTHER_DAY"] {
            for standing in [("open", "high", "ours"), ("decided", "warn", "partner")] {
                assert!(delivers(&[finding_of(code, standing)]), "{code}: the money has come");
            }
        }
        let unread = OrderVerdict::of(&paid, None::<std::iter::Empty<&FindingChanged>>);
        assert_eq!((unread.tone, unread.heading.contains("deliver")), ("open", false));
        let mut held = flagged(paid.clone(), Severity::Critical, None);
        held.summary.fulfil = false;
        let decided = [finding("decided", "critical", "partner")];
        let verdict = OrderVerdict::of(&held, Some(decided.iter()));
        assert_eq!(
            (verdict.tone, verdict.todos.len()),
            ("bad", 2),
            "the flag is open: {verdict:?}"
        );
        assert!(verdict.for_payer.ends_with("It is being checked."), "{}", verdict.for_payer);
    }
}
