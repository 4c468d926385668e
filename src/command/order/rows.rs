//! Owns the columns of `payfold order list` and `payfold order show --facts`.

use payfold_report::money::{major, plain};
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::ProviderRef;
use payfold_schemas::money::{Amount, Currency};
use payfold_views::facts::FactRow;
use payfold_views::orders::OrderRow;
use serde_json::{Value, json};

use crate::args::OutputFormat;
use crate::listing::{Row, show_money};

impl Row for OrderRow {
    const COLUMNS: &'static str = "created:firstSeen partner merchant:merchantCode order:orderId \
        state amount currency attention";
    /// `amount` is in major units, `amount_minor` (JSON's `amount`) in minor units.
    const CSV_COLUMNS: &'static str = "created:firstSeen partner merchant:merchantCode \
        order:orderId state amount amount_minor:amount currency attention";

    fn shown(&self, column: &str, format: OutputFormat) -> Option<Value> {
        let write = if format == OutputFormat::Csv { plain } else { major };
        let money = self.summary.amount.zip(self.summary.currency);
        let amount = || money.map(|(minor, currency)| write(minor.into(), currency));
        (column == "amount").then(|| json!(amount()))
    }
}

impl Row for FactRow {
    const COLUMNS: &'static str =
        "position received:receivedAt fact ref amount effect flags request_id";
    /// The currency and the minor units have columns of their own.
    const CSV_COLUMNS: &'static str = "position received:receivedAt fact ref amount amount_minor \
        currency effect flags request_id";

    fn shown(&self, column: &str, format: OutputFormat) -> Option<Value> {
        match column {
            "fact" => Some(self.fact.letter().into()),
            "ref" => Some(json!(ref_of(&self.fact))),
            _ => show_money(column, money_of(&self.fact), format),
        }
    }
}

/// The provider reference in a fact.
fn ref_of(fact: &Fact) -> Option<&ProviderRef> {
    match fact {
        Fact::SessionOpened(session) => Some(&session.provider_ref),
        Fact::Ipn(ipn) => Some(&ipn.provider_ref),
        Fact::QueryAnswered(answer) => Some(&answer.provider_ref),
        Fact::RefShared(shared) => Some(&shared.provider_ref),
        Fact::CreateRequested(_)
        | Fact::CreateFailed(_)
        | Fact::DeadlinePassed { .. }
        | Fact::Decided(_) => None,
    }
}

/// The amount in a fact.
fn money_of(fact: &Fact) -> Option<(Amount, Currency)> {
    match fact {
        Fact::CreateRequested(create) => Some((create.amount, create.currency)),
        Fact::Ipn(ipn) => Some((ipn.money.amount, ipn.money.currency)),
        Fact::QueryAnswered(answer) => Some((answer.amount, answer.currency)),
        Fact::SessionOpened(_)
        | Fact::RefShared(_)
        | Fact::CreateFailed(_)
        | Fact::DeadlinePassed { .. }
        | Fact::Decided(_) => None,
    }
}
