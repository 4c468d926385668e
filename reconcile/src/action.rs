//! Owns the next action for a person, by finding code and flag. Pure.

use payfold_schemas::finding::Code;
use payfold_schemas::ipn::Status;
use payfold_schemas::order::Flag;

/// The next action for a finding. `what` is its field and status, as `difference_name` makes it.
pub(super) fn action_for(code: Code, flag: Option<Flag>, what: &str) -> String {
    let is_refund = what.split(' ').nth(1) == Some(Status::Refunded.as_str());
    match code {
        Code::MissingHere if is_refund => {
            "ask the partner which refunds they made; a notice or a query's answer brings it here"
        }
        Code::MissingHere => {
            "look for the order in the shop and the partner's console; a notice or a query's \
             answer brings it here, else agree with the partner who owns the money"
        }
        Code::MissingThere if is_refund => {
            "ask the partner whether the refund was made; the payer may not have their money"
        }
        Code::MissingThere => {
            "ask the partner for the payment by its ref; goods may have gone out without money"
        }
        Code::StatusDiffers => {
            "compare the notices (`payfold order show --facts`) with the partner's console; a \
             query settles it if the partner takes queries"
        }
        Code::AmountDiffers | Code::CurrencyDiffers if is_refund => {
            "ask the partner with both values how much went back to the payer"
        }
        Code::AmountDiffers | Code::CurrencyDiffers => {
            "do not deliver before it is clear what was paid; ask the partner with both values"
        }
        Code::RefDiffers => {
            "check in the partner's console that both names are of one payment or refund"
        }
        Code::TimeDiffers => {
            "harmless for money; check zone and time format of the profile's [records]"
        }
        Code::DuplicatedThere if is_refund => {
            "ask whether they paid the refund out twice; the settlement may be too low"
        }
        Code::DuplicatedThere => {
            "ask the partner whether they collected twice; the settlement may be too high"
        }
        Code::CutOff => {
            "nothing: the next day's records should list it; if they don't, it becomes \
             MISSING_THERE"
        }
        Code::OtherDay => "check the day's control totals of both days; the payment itself agrees",
        Code::ReferencePaidTwice => "refund one of the attempts",
        Code::NonceReused => "ask the partner why two notices carry one nonce; one may be a replay",
        Code::RefOnTwoOrders => "ask the partner which order was paid; deliver neither before that",
        Code::OpenFlag => flag.map_or("look at the order's facts", action_for_flag),
        Code::PartnerSilent => {
            "check that the partner has the right IPN address and that nothing blocks it; then \
             ask for the notices again"
        }
    }
    .to_owned()
}

/// The next action for a flag. What is in backticks is a command.
pub fn action_for_flag(flag: Flag) -> &'static str {
    match flag {
        Flag::DoublePayment => {
            "ask the partner whether both payments have come; refund one, which clears it, or \
             decide the flag: ours if both are kept, the partner's if it has only one"
        }
        Flag::AmountMismatch | Flag::CurrencyMismatch | Flag::ContentVariant => {
            "ask the partner what was paid, deliver nothing before that, then decide the flag"
        }
        Flag::ProviderRefReused => {
            "ask the partner which order was paid, deliver neither before that, then decide the \
             flag"
        }
        Flag::CreateConflict | Flag::SecondSession => {
            "ask the shop which request it means, then decide the flag"
        }
        Flag::PaidAfterDeadline => {
            "ask the shop whether it still delivers; refund the payment if not, then decide the \
             flag"
        }
        Flag::RefundWithoutSuccess | Flag::RefundAndNegative => {
            "ask the partner for the payment that went back; its notice clears a missing payment, \
             else decide the flag"
        }
        Flag::PartialRefund => {
            "check that the shop knows which part went back, or whether all did; a refund of the \
             rest clears it, else decide the flag"
        }
        Flag::UnknownOrder => {
            "look for the order in the shop; its create request clears it, else agree who owns the \
             money and decide the flag"
        }
        Flag::QueryDisagrees => "ask the partner what became of the payment, then decide the flag",
        Flag::Unconfirmed => {
            "ask the partner what became of the payment; a matching answer clears it, else decide \
             the flag"
        }
        Flag::ProviderRefUnexpected => {
            "find the payment's order in the partner's console, then decide the flag"
        }
        Flag::FactOverflow => {
            "read all notices of the order in the log (`payfold trace`), then decide the flag"
        }
        Flag::DecisionsConflict => "agree on one decision and decide the flag again",
        Flag::SuccessAndFailed | Flag::SuccessAndExpired | Flag::SettledByQuery => {
            "look at the order's facts"
        }
    }
}
