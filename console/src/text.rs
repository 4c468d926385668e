//! Owns the text of money, times and ids on pages. maud escapes.

use maud::{Markup, html};
use payfold_report::money::major_named;
use payfold_report::text::{isolated, on_one_line, whole};
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

/// A button that copies the text of the element before it. Only our script shows it.
pub(crate) fn copy_button(what: &str) -> Markup {
    html! {
        " " button.copy type="button" hidden {
            "Copy" span.unseen { " " (what) }
        }
    }
}

/// A reason as a person typed it, to be copied.
pub(crate) fn typed(reason: &str) -> Markup {
    let lines: Vec<_> = reason.lines().map(on_one_line).collect();
    html! {
        p {
            "Your reason was: “" span.typed { (lines.join("\n")) } "”"
            (copy_button("your reason"))
        }
    }
}

/// A length of time in its largest units: `3 d 2 h`, `2 h 5 min`, `12 min`, `40 s`.
pub(crate) fn age(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// Who decided, and who agreed.
pub(crate) fn people(author: &Author, second: Option<&Author>) -> Markup {
    html! {
        (isolated(author.as_str()))
        @if let Some(second) = second { " and " (isolated(second.as_str())) }
    }
}

/// Why it was decided so, in the words of each.
pub(crate) fn reasons(first: &str, second: Option<&str>) -> Markup {
    html! {
        "“" (whole(first)) "”"
        @if let Some(second) = second { " and “" (whole(second)) "”" }
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
        for (seconds, text) in [
            (-1.0, "0 s"),
            (59.9, "59 s"),
            (3_599.0, "59 min"),
            (7_500.0, "2 h 5 min"),
            (266_400.0, "3 d 2 h"),
        ] {
            assert_eq!(age(seconds), text);
        }
        let time = Time::parse("2026-01-31T23:59:12.5Z").unwrap();
        assert_eq!(clock(time), "2026-01-31 23:59:12 UTC");
    }
}
