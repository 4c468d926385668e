//! Owns the texts of finding codes, severities and verdicts for readers of the report and the
//! console. Pure.

pub use payfold_reconcile::action::action_for_flag;
use payfold_schemas::fact::Verdict;
use payfold_schemas::finding::{Code, FindingChanged};
use payfold_schemas::order::{Flag, Severity};

/// The title of a finding code.
pub fn title(code: Code) -> &'static str {
    match code {
        Code::MissingHere => "Missing here",
        Code::MissingThere => "Missing at the partner",
        Code::StatusDiffers => "Status differs",
        Code::AmountDiffers => "Amount differs",
        Code::CurrencyDiffers => "Currency differs",
        Code::RefDiffers => "Payment ref differs",
        Code::TimeDiffers => "Time differs",
        Code::DuplicatedThere => "Twice at the partner",
        Code::CutOff => "Near midnight, next day's records",
        Code::OtherDay => "On another day",
        Code::ReferencePaidTwice => "Reference paid twice",
        Code::NonceReused => "Nonce used twice",
        Code::RefOnTwoOrders => "One ref, two orders",
        Code::PartnerSilent => "Partner sends no notices",
        Code::OpenFlag => "Flag of an order",
    }
}

/// The meaning of a finding code, in one sentence.
pub fn meaning(code: Code) -> &'static str {
    match code {
        Code::MissingHere => "The partner lists money that is not known here.",
        Code::MissingThere => "Money is known here that the partner does not list.",
        Code::StatusDiffers => "Both sides know the payment, with different results.",
        Code::AmountDiffers => "Both sides know the payment, with different amounts.",
        Code::CurrencyDiffers => "Both sides know the payment, in different currencies.",
        Code::RefDiffers => {
            "Both sides know the order, with different refs of its payment or names of its refund."
        }
        Code::TimeDiffers => "Both sides know the payment, at times too far apart.",
        Code::DuplicatedThere => {
            "The partner lists a payment or refund more often than it is known here."
        }
        Code::CutOff => {
            "Paid so near to the end of the partner's day that the next day's records may list it."
        }
        Code::OtherDay => "The partner lists the payment on another day than it was made on here.",
        Code::ReferencePaidTwice => "Two attempts of one reference of the shop are both paid.",
        Code::NonceReused => "Two notices have one nonce and different contents.",
        Code::RefOnTwoOrders => "Two orders have one ref of the partner.",
        Code::PartnerSilent => "The partner lists payments of the day and sent no notice of any.",
        Code::OpenFlag => {
            "The notices and answers of an order contradict each other, whatever the partner's \
             records say."
        }
    }
}

/// The title of a flag of an order.
pub fn flag_title(flag: Flag) -> &'static str {
    match flag {
        Flag::AmountMismatch => "Another amount was paid",
        Flag::CurrencyMismatch => "Another currency was paid",
        Flag::ContentVariant => "One notice, different contents",
        Flag::DoublePayment => "Paid twice",
        Flag::ProviderRefReused => "One reference, different orders",
        Flag::CreateConflict => "Asked for with different contents",
        Flag::SecondSession => "Second session",
        Flag::SuccessAndFailed => "Paid and failed",
        Flag::SuccessAndExpired => "Paid and expired",
        Flag::PaidAfterDeadline => "Paid too late",
        Flag::RefundWithoutSuccess => "Given back, never paid",
        Flag::RefundAndNegative => "Given back, and not paid",
        Flag::PartialRefund => "A part given back",
        Flag::UnknownOrder => "No shop asked for it",
        Flag::QueryDisagrees => "The answer is not the notice",
        Flag::Unconfirmed => "Not confirmed yet",
        Flag::SettledByQuery => "Settled by an answer",
        Flag::ProviderRefUnexpected => "Another reference than the session's",
        Flag::FactOverflow => "More than an order keeps",
        Flag::DecisionsConflict => "Decisions disagree",
    }
}

/// The meaning of a flag of an order, in one sentence.
pub fn flag_meaning(flag: Flag) -> &'static str {
    match flag {
        Flag::AmountMismatch => "The amount that was paid is not the one that was asked.",
        Flag::CurrencyMismatch => "What was paid is in another currency.",
        Flag::ContentVariant => "The partner sent one notice with different contents.",
        Flag::DoublePayment => "The order was paid more than once.",
        Flag::ProviderRefReused => "The partner used one reference for different orders.",
        Flag::CreateConflict => "The shop asked for this order with different contents.",
        Flag::SecondSession => "The partner opened a second session.",
        Flag::SuccessAndFailed => "The partner said both paid and failed.",
        Flag::SuccessAndExpired => "The partner said both paid and expired.",
        Flag::PaidAfterDeadline => "It was paid after the time to pay was over.",
        Flag::RefundWithoutSuccess => "Money was given back for a payment that no notice reported.",
        Flag::RefundAndNegative => "Money was given back, and the partner also said not paid.",
        Flag::PartialRefund => "A part of the money was given back.",
        Flag::UnknownOrder => {
            "The partner reports money for an order that the shop never asked for."
        }
        Flag::QueryDisagrees => "Asked, the partner answered something else than its notice says.",
        Flag::Unconfirmed => "A notice counts only once the partner confirms it when asked.",
        Flag::SettledByQuery => "The partner's answer settled it; its notice has not come.",
        Flag::ProviderRefUnexpected => "The notice has another reference than the session.",
        Flag::FactOverflow => "More was reported than an order keeps.",
        Flag::DecisionsConflict => "Two decisions about the same thing disagree.",
    }
}

/// The title of a finding: of one about a flag, the flag's.
pub fn title_of(finding: &FindingChanged) -> &'static str {
    finding.flag.map_or_else(|| title(finding.code), flag_title)
}

/// The meaning of a finding, in one sentence.
pub fn meaning_of(finding: &FindingChanged) -> &'static str {
    finding.flag.map_or_else(|| meaning(finding.code), flag_meaning)
}

/// What a severity asks of people.
pub fn severity_meaning(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "a decision takes two people",
        Severity::High => "a person should look",
        Severity::Warn => "odd, no money at stake by itself",
        Severity::Info => "worth knowing",
    }
}

/// What was decided, in words.
pub fn verdict_text(accept: Verdict) -> &'static str {
    match accept {
        Verdict::Ours => "ours stands",
        Verdict::Partner => "the partner's stands",
        Verdict::WriteOff => "written off",
    }
}
