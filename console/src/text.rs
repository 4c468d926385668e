//! Owns the text of money, times and ids on pages. maud escapes.

use maud::{Markup, html};
use payfold_report::money::major_named;
use payfold_report::text::isolated;
use payfold_schemas::ids::Author;
use payfold_schemas::money::Currency;
use payfold_schemas::order::OrderState;
use payfold_schemas::time::Time;

/// An amount in major units; the minor units on hover. An amount without a currency is in minor
/// units.
pub(crate) fn money(minor: i64, currency: Option<Currency>) -> Markup {
    let on_hover = currency.map(|_| format!("{minor} minor units"));
    html! { span.money title=[on_hover] { (amount(minor, currency)) } }
}

/// The same as text.
pub(crate) fn amount(minor: i64, currency: Option<Currency>) -> String {
    match currency {
        Some(currency) => major_named(i128::from(minor), currency),
        None => format!("{minor} minor units"),
    }
}

/// A time, to the second.
pub(crate) fn moment(time: Time) -> Markup {
    let exact = time.to_rfc3339();
    html! { time datetime=(exact) title=(exact) { (clock(time)) } }
}

/// A time as text: `2026-01-31 23:59:12 UTC`.
pub(crate) fn clock(time: Time) -> String {
    let exact = time.to_rfc3339();
    let second = exact.get(..19).unwrap_or(&exact);
    format!("{} UTC", second.replace('T', " "))
}

/// Who decided, and who agreed.
pub(crate) fn people(author: &Author, second: Option<&Author>) -> Markup {
    html! {
        (isolated(author.as_str()))
        @if let Some(second) = second { " and " (isolated(second.as_str())) }
    }
}

/// A state as a badge.
pub(crate) fn state(state: OrderState) -> Markup {
    html! { span.badge.(state.as_str().to_lowercase()) { (state) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_and_times_are_for_people() {
        let vnd = Currency::parse("VND").unwrap();
        let shown = money(150_000, Some(vnd)).into_string();
        assert_eq!(shown, "<span class=\"money\" title=\"150000 minor units\">150,000 VND</span>");
        assert_eq!(money(5, None).into_string(), "<span class=\"money\">5 minor units</span>");
        let time = Time::parse("2026-01-31T23:59:12.5Z").unwrap();
        assert_eq!(clock(time), "2026-01-31 23:59:12 UTC");
    }
}
