//! Owns the texts of finding codes, severities and verdicts for readers of the report and the
//! console. Pure.

use payfold_schemas::fact::Verdict;
use payfold_schemas::finding::Code;
use payfold_schemas::order::Severity;

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
