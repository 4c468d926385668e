//! A table of comparisons and their results; then grace period, undated payments and records that
//! list less.

use payfold_schemas::ids::{EventRef, MerchantCode};
use payfold_schemas::money::Currency;
use payfold_schemas::order::OrderState;
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

use super::super::day_rules::{DayRules, ListedStatuses};
use super::super::ours::{Money, Refund};
use super::*;

mod equal_lines;
mod other_records;

/// As if no other day was compared.
fn compare(ours: Option<&OurOrder>, lines: &[BookLine], rules: &DayRules) -> ComparisonOutcome {
    super::compare(ours, lines, rules, None)
}

/// `10:05` of the day, `-1 23:55` of the day before, `+1 00:05` of the day after, `-3 10:00` of
/// another one.
fn at(text: &str) -> Time {
    let (days, clock) = match text.split_once(' ') {
        Some((days, clock)) => (days.parse::<i64>().unwrap(), clock),
        None => (0, text),
    };
    Time::parse(&format!("2026-01-31T{clock}:00Z")).unwrap().plus_ms(days * 86_400_000)
}

fn rules(now: &str) -> DayRules {
    DayRules {
        zone: chrono_tz::Tz::UTC,
        day: "2026-01-31".parse().unwrap(),
        from: at("00:00"),
        until: at("+1 00:00"),
        now: at(now),
        grace_ms: 3_600_000,
        cut_off_ms: 1_800_000,
        time_tolerance_ms: Some(300_000),
        lists: ListedStatuses { payments: true, refunds: true },
        lookback_ms: 604_800_000,
    }
}

fn money(text: &str) -> Money {
    let (amount, rest) = text.split_once(' ').unwrap();
    let (currency, time) = rest.split_once(' ').unwrap_or((rest, ""));
    Money {
        amount: payfold_schemas::money::Amount::parse(amount).unwrap(),
        currency: Currency::parse(currency).unwrap(),
        at: (!time.is_empty()).then(|| at(time)),
    }
}

/// Splits off the partner's name of a refund: `… #e1`.
fn named(text: &str) -> (&str, Option<EventRef>) {
    match text.split_once(" #") {
        Some((rest, name)) => (rest, Some(EventRef::parse(name).unwrap())),
        None => (text, None),
    }
}

/// `PAID r1 paid 100 VND 10:05; r1 refunded 100 VND #e1; r2 claimed 90 VND; r1 shared o2;
/// r1 unnoticed; r1 implied 100 VND; r1 returned`; empty is no order.
fn ours(text: &str) -> Option<OurOrder> {
    let (state, rest) = text.split_once(' ').unwrap_or((text, ""));
    let mut order = OurOrder {
        merchant_code: MerchantCode::parse("M").unwrap(),
        order_id: OrderId::parse("o1").unwrap(),
        reference: None,
        state: OrderState::parse(state)?,
        first_seen: at("09:00"),
        refs: Vec::new(),
    };
    for said in rest.split(';').map(str::trim).filter(|said| !said.is_empty()) {
        let mut words = said.splitn(3, ' ');
        let provider_ref = ProviderRef::parse(words.next().unwrap()).unwrap();
        let (what, (value, event_ref)) =
            (words.next().unwrap(), named(words.next().unwrap_or_default()));
        if order.find(&provider_ref).is_none() {
            order.refs.push(OurRef {
                provider_ref: provider_ref.clone(),
                paid: Vec::new(),
                claimed: Vec::new(),
                refunds: Vec::new(),
                shared_with: None,
                noticed: true,
                implied: Vec::new(),
                is_returned: false,
                counts_since: None,
            });
        }
        let known = order.refs.iter_mut().find(|known| known.provider_ref == provider_ref).unwrap();
        match what {
            "paid" => known.paid.push(money(value)),
            "claimed" => known.claimed.push(money(value)),
            "refunded" => known.refunds.push(Refund {
                money: money(value),
                event_ref,
                position: Position { partition: 0, offset: known.refunds.len() as u64 },
            }),
            "shared" => known.shared_with = Some(OrderId::parse(value).unwrap()),
            "implied" => known.implied.push(money(value)),
            "returned" => known.is_returned = true,
            "unnoticed" => known.noticed = false,
            "failed" => {}
            other => panic!("{other:?} is nothing an order says"),
        }
    }
    // Nothing of an order is paid before it is known.
    let times = order.refs.iter().flat_map(|known| &known.paid).filter_map(|money| money.at);
    order.first_seen = times.chain([order.first_seen]).min().unwrap();
    Some(order)
}

/// `SUCCESS r1 100 VND 10:05; REFUNDED - 100 VND 10:05 #e1`, numbered from 1.
fn lines(text: &str) -> Vec<BookLine> {
    let line = |(said, number): (&str, u64)| {
        let mut words = said.trim().splitn(3, ' ');
        let status = Status::parse(words.next().unwrap()).unwrap();
        let provider_ref = words.next().filter(|word| *word != "-");
        let (value, event_ref) = named(words.next().unwrap());
        let money = money(value);
        BookLine {
            line: number,
            merchant_code: MerchantCode::parse("M").unwrap(),
            order_id: Some(OrderId::parse("o1").unwrap()),
            provider_ref: provider_ref.map(|word| ProviderRef::parse(word).unwrap()),
            status,
            amount: money.amount,
            currency: money.currency,
            at: money.at.unwrap(),
            paid_at: None,
            event_ref,
        }
    };
    text.split(';').filter(|said| !said.trim().is_empty()).zip(1..).map(line).collect()
}

/// `matched 1; AMOUNT_DIFFERS 100|90 risk 10`.
fn describe(outcome: &ComparisonOutcome) -> String {
    let mut actual = Vec::new();
    for (count, word) in
        [(outcome.matched, "matched"), (outcome.pending, "pending"), (outcome.cut_off, "cut off")]
    {
        if count > 0 {
            actual.push(format!("{word} {count}"));
        }
    }
    let word = |d: &Difference| format!("{} {}|{} risk {}", d.code, d.ours, d.partners, d.at_risk);
    actual.extend(outcome.differences.iter().map(word));
    actual.extend(outcome.left_over.iter().map(|(_, d)| format!("left over {}", word(d))));
    actual.join("; ")
}

/// Our side / the partner's lines => the result, at noon of the following day.
const TABLE: &str = "
    PAID r1 paid 100 VND 10:05 / SUCCESS r1 100 VND 10:06 => matched 1
    PAID r1 paid 100 VND 10:05 / SUCCESS - 100 VND 10:06 => matched 1
    PAID r1 paid 100 VND 10:05 / SUCCESS r1 90 VND 10:06 => AMOUNT_DIFFERS 100|90 risk 10
    PAID r1 paid 100 VND 10:05 / SUCCESS r1 100 EUR 10:06 => CURRENCY_DIFFERS VND|EUR risk 100
    PAID r1 paid 100 VND 10:05 / SUCCESS r1 90 EUR 10:06 => CURRENCY_DIFFERS VND|EUR risk 90; AMOUNT_DIFFERS 100|90 risk 90
    PAID r1 paid 100 VND 10:05 / SUCCESS r2 100 VND 10:06 => REF_DIFFERS r1|r2 risk 100
    PAID r1 paid 100 VND 10:05 / SUCCESS r2 90 VND 10:06 => REF_DIFFERS r1|r2 risk 90; AMOUNT_DIFFERS 100|90 risk 10
    PAID r1 paid 100 VND 10:05 / SUCCESS r1 100 VND 10:06; SUCCESS r2 100 VND 11:00 => matched 1; STATUS_DIFFERS PAID, with another ref|SUCCESS risk 100
    PAID r1 paid 100 VND 10:05; r2 paid 100 VND 11:00 / SUCCESS r1 100 VND 10:06; SUCCESS r2 100 VND 11:00 => matched 2
    PAID r1 paid 100 VND 10:05; r2 paid 100 VND 11:00 / SUCCESS r1 100 VND 10:06 => matched 1; MISSING_THERE SUCCESS 100 VND|nothing risk 100
    PAID r1 paid 100 VND 10:05 / SUCCESS r1 100 VND 10:11 => matched 1; TIME_DIFFERS 2026-01-31T10:05:00Z|2026-01-31T10:11:00Z risk 0
    PAID r1 paid 100 VND 10:05; r1 paid 100 VND 10:20 / SUCCESS r1 100 VND 10:20 => matched 1
    PAID r1 paid 100 VND / SUCCESS r1 100 VND 10:20 => matched 1
    PAID r1 paid 100 VND 10:05 / =>  MISSING_THERE SUCCESS 100 VND|nothing risk 100
    PAID r1 paid 100 VND / =>  MISSING_THERE SUCCESS 100 VND|nothing risk 100
    PAID r1 paid 100 VND -3 10:05 / =>
    PAID r1 paid 100 VND 23:45 / => CUT_OFF SUCCESS 100 VND|nothing risk 0
    PAID r1 paid 100 VND -1 23:45 / => left over MISSING_THERE SUCCESS 100 VND|nothing risk 100
    PAID r1 paid 100 VND 23:30 / => CUT_OFF SUCCESS 100 VND|nothing risk 0
    PAID r1 paid 100 VND -1 23:30 / => left over MISSING_THERE SUCCESS 100 VND|nothing risk 100
    PAID r1 paid 100 VND -1 23:29 / =>
    PAID r1 paid 100 VND +1 00:15 / =>
    PAID r1 paid 100 VND -1 23:45 / SUCCESS r1 100 VND 00:01 => matched 1; cut off 1; TIME_DIFFERS 2026-01-30T23:45:00Z|2026-01-31T00:01:00Z risk 0
    PAID r1 paid 100 VND -1 23:58 / SUCCESS r1 100 VND 00:01 => matched 1; cut off 1
    PAID r1 paid 100 VND +1 00:01 / SUCCESS r1 100 VND 23:59 => matched 1; cut off 1
    PAID r1 paid 100 VND -3 10:05 / SUCCESS r1 100 VND 10:05 => matched 1; OTHER_DAY 2026-01-28T10:05:00Z|2026-01-31T10:05:00Z risk 0
    / SUCCESS r1 100 VND 10:05 => MISSING_HERE nothing|SUCCESS risk 100
    / SUCCESS r1 100 VND 10:05; SUCCESS r1 100 VND 10:05 => DUPLICATED_THERE once|2 times risk 100; MISSING_HERE nothing|SUCCESS risk 100
    / REFUNDED r1 100 VND 10:05 => MISSING_HERE nothing|REFUNDED risk 100
    / SUCCESS r1 100 VND +365 10:05 => MISSING_HERE nothing|SUCCESS risk 100
    PENDING / SUCCESS r1 100 VND +365 10:05 => STATUS_DIFFERS PENDING|SUCCESS risk 100
    PAID r paid 9 VND -3 10:05 / REFUNDED r 9 VND +9 10:05 => STATUS_DIFFERS PAID|REFUNDED 9 risk 9
    / FAILED r1 100 VND 10:05 => matched 1
    PENDING / SUCCESS r1 100 VND 10:05 => STATUS_DIFFERS PENDING|SUCCESS risk 100
    EXPIRED / SUCCESS r1 100 VND 10:05 => STATUS_DIFFERS EXPIRED|SUCCESS risk 100
    FAILED r1 failed / SUCCESS r1 100 VND 10:05 => STATUS_DIFFERS FAILED|SUCCESS risk 100
    PENDING r1 claimed 101 VND 10:05 / SUCCESS r1 100 VND 10:05 => AMOUNT_DIFFERS 101|100 risk 1
    PENDING r1 claimed 100 EUR 10:05 / SUCCESS r1 100 VND 10:05 => CURRENCY_DIFFERS EUR|VND risk 100
    PENDING r1 claimed 101 VND 10:05 / SUCCESS r1 101 VND 10:05 => STATUS_DIFFERS PENDING|SUCCESS risk 101
    UNMATCHED r1 claimed 100 VND 10:05 / SUCCESS r1 100 VND 10:05 => STATUS_DIFFERS UNMATCHED|SUCCESS risk 100
    PENDING / FAILED r1 100 VND 10:05 => matched 1
    FAILED r1 failed / FAILED r1 100 VND 10:05 => matched 1
    PAID r1 paid 100 VND 10:05 / FAILED r1 100 VND 10:05 => STATUS_DIFFERS PAID|FAILED risk 100
    PAID r1 paid 100 VND 10:05 / SUCCESS r1 100 VND 10:05; FAILED r1 100 VND 10:06 => matched 2
    PAID r1 paid 100 VND 10:05 / FAILED r2 100 VND 09:55; SUCCESS r1 100 VND 10:05 => matched 2
    PAID r1 paid 100 VND 10:05 / SUCCESS r1 100 VND 10:05; SUCCESS r1 100 VND 10:05 => matched 1; DUPLICATED_THERE once|2 times risk 100
    PAID r1 paid 100 VND 10:05 / SUCCESS r1 100 VND 10:05; SUCCESS r1 100 VND 10:07 => matched 1; DUPLICATED_THERE once|2 times risk 100
    PAID r1 paid 100 VND 10:05 / SUCCESS r1 90 VND 10:05; SUCCESS r1 100 VND 10:05 => matched 1; DUPLICATED_THERE once|2 times risk 90
    PAID r1 paid 100 VND 10:05; r1 shared o2 / SUCCESS r1 100 VND 10:05 => matched 1; REF_ON_TWO_ORDERS also of order o2|of this order risk 100
    REFUNDED r1 paid 100 VND 10:05; r1 refunded 100 VND / SUCCESS r1 100 VND 10:05; REFUNDED r1 100 VND 12:00 => matched 2
    REFUNDED r1 refunded 100 VND; r1 implied 100 VND; r1 returned / SUCCESS r1 100 VND 10:05; REFUNDED r1 100 VND 12:00 => matched 2
    REFUNDED r1 refunded 100 VND; r1 implied 100 VND; r1 returned / SUCCESS r1 1 VND 10:05; REFUNDED r1 100 VND 12:00 => matched 1; AMOUNT_DIFFERS 100|1 risk 99
    REFUNDED r1 refunded 100 VND; r1 implied 100 VND; r1 returned / SUCCESS r1 100 EUR 10:05 => CURRENCY_DIFFERS VND|EUR risk 100
    REFUNDED r1 refunded 100 VND; r1 implied 100 VND; r1 returned; r1 claimed 90 VND / SUCCESS r1 100 VND 10:05 => AMOUNT_DIFFERS 90|100 risk 10
    REFUNDED r1 refunded 100 VND; r1 implied 100 VND; r1 returned / FAILED r1 100 VND 10:05 => STATUS_DIFFERS REFUNDED|FAILED risk 100
    REFUNDED r1 refunded 100 VND; r1 implied 100 VND; r1 returned; r1 implied 70 VND / SUCCESS r1 70 VND 10:05 => matched 1
    PENDING r1 refunded 40 VND; r1 implied 100 VND / SUCCESS r1 100 VND 10:05; REFUNDED r1 40 VND 12:00 => matched 1; STATUS_DIFFERS PENDING|SUCCESS risk 100
    PENDING r1 refunded 40 VND; r1 implied 100 VND / SUCCESS r1 40 VND 10:05; REFUNDED r1 40 VND 12:00 => matched 1; AMOUNT_DIFFERS 100|40 risk 60
    PENDING r1 refunded 40 VND; r1 implied 100 VND / FAILED r1 100 VND 10:05 => STATUS_DIFFERS PENDING|FAILED risk 40
    UNMATCHED r1 refunded 100 VND / SUCCESS r1 99 VND 10:05 => AMOUNT_DIFFERS 100|99 risk 1
    UNMATCHED r1 refunded 100 VND / SUCCESS r1 100 EUR 10:05 => CURRENCY_DIFFERS VND|EUR risk 100
    UNMATCHED r1 refunded 100 VND / SUCCESS r1 120 VND 10:05 => STATUS_DIFFERS UNMATCHED|SUCCESS risk 120
    REFUNDED r1 paid 100 VND -3 10:05; r1 refunded 100 VND / REFUNDED r1 100 VND 12:00 => matched 1
    REFUNDED r1 paid 100 VND -3 10:05; r1 refunded 100 VND 12:00 / => MISSING_THERE REFUNDED 100 VND|nothing risk 100
    REFUNDED r1 paid 100 VND -3 10:05; r1 refunded 100 VND -2 12:00 / =>
    REFUNDED r1 paid 100 VND -3 10:05; r1 refunded 100 VND / =>
    PAID r1 paid 100 VND 10:05 / SUCCESS r1 100 VND 10:05; REFUNDED r1 100 VND 12:00 => matched 1; STATUS_DIFFERS PAID|REFUNDED 100 risk 100
    PAID r1 paid 100 VND 10:05; r1 refunded 40 VND / SUCCESS r1 100 VND 10:05; REFUNDED r1 50 VND 12:00 => matched 1; AMOUNT_DIFFERS 40|50 risk 10
    PAID r1 paid 100 VND -3 10:05; r1 refunded 40 VND; r1 refunded 60 VND / REFUNDED r1 60 VND 12:00 => matched 1
    PAID r1 paid 100 VND -3 10:05; r1 refunded 50 VND / REFUNDED r1 50 VND 12:00; REFUNDED r1 50 VND 13:00 => matched 1; MISSING_HERE REFUNDED 50, another refund|REFUNDED 50 risk 50
    PAID r1 paid 100 VND -3 10:05; r1 refunded 40 VND 11:00; r1 refunded 60 VND 12:00 / REFUNDED r1 60 VND 12:00 => matched 1; MISSING_THERE REFUNDED 40 VND|nothing risk 40
    PAID r1 paid 100 VND -3 10:05; r1 refunded 40 VND 11:00; r1 refunded 60 VND 12:00 / => MISSING_THERE REFUNDED 40 VND|nothing risk 40; MISSING_THERE REFUNDED 60 VND|nothing risk 60
    PAID r1 paid 100 VND -3 10:05; r1 refunded 50 VND 11:00; r1 refunded 50 VND 12:00 / => MISSING_THERE REFUNDED 50 VND|nothing risk 50; MISSING_THERE REFUNDED 50 VND|nothing risk 50
    PAID r1 paid 100 VND 10:05 / SUCCESS r1 100 VND 10:05; REFUNDED r1 10 VND 12:00; REFUNDED r1 20 VND 12:00 => matched 1; STATUS_DIFFERS PAID|REFUNDED 10 risk 10; STATUS_DIFFERS PAID|REFUNDED 20 risk 20
    PAID r1 paid 100 VND -3 10:05; r1 refunded 100 VND / REFUNDED - 100 VND 12:00; REFUNDED r1 100 VND 12:00 => matched 1; MISSING_HERE REFUNDED 100, another refund|REFUNDED 100 risk 100
    REFUNDED r1 paid 100 VND -3 10:05; r1 refunded 100 VND -2 12:00 / REFUNDED r1 100 VND 12:00 => matched 1; OTHER_DAY 2026-01-29T12:00:00Z|2026-01-31T12:00:00Z risk 0
    REFUNDED r1 paid 100 VND -3 10:05; r1 refunded 100 VND -1 23:50 / REFUNDED r1 100 VND 00:01 => matched 1; cut off 1
    PAID r1 paid 100 VND 10:05 / SUCCESS r1 100 VND 10:05; SUCCESS r1 100 VND 10:05; SUCCESS r1 100 VND 10:07 => matched 1; DUPLICATED_THERE once|3 times risk 200
    PAID r1 paid 100 VND 10:05 / SUCCESS - 100 VND 10:05; SUCCESS r1 100 VND 10:05 => matched 1; DUPLICATED_THERE once|2 times risk 100
    PAID r1 paid 100 VND 10:05 / FAILED r1 100 VND 10:05; FAILED r1 100 VND 10:07 => STATUS_DIFFERS PAID|FAILED risk 100
";

#[test]
fn comparisons_have_the_results_of_the_table() {
    for case in TABLE.lines().map(str::trim).filter(|case| !case.is_empty()) {
        let (given, expected) = case.split_once("=>").unwrap();
        let (order, records) = given.split_once('/').unwrap();
        let (order, lines) = (ours(order.trim()), lines(records));
        let outcome = compare(order.as_ref(), &lines, &rules("+1 12:00"));
        assert_eq!(describe(&outcome), expected.trim(), "{case}");
        // The order of lines makes no difference.
        let mut reversed = lines;
        reversed.reverse();
        assert_eq!(compare(order.as_ref(), &reversed, &rules("+1 12:00")), outcome, "{case}");
    }
}

/// The records of its own day won't list it again.
#[test]
fn what_is_listed_on_another_day_is_remembered() {
    let item = |status, part: Option<&str>| {
        let provider_ref = ProviderRef::parse("r1").unwrap();
        ListedItem { provider_ref, status, part: part.map(str::to_owned) }
    };
    for (order, records, apart) in [
        ("PAID r1 paid 100 VND +1 00:01", "SUCCESS r1 100 VND 23:59", item(Status::Success, None)),
        ("PAID r1 paid 100 VND -1 23:59", "SUCCESS r1 100 VND 00:01", item(Status::Success, None)),
        (
            "PAID r1 paid 100 VND -3 10:00; r1 refunded 40 VND +1 00:01",
            "REFUNDED r1 40 VND 23:59",
            item(Status::Refunded, Some("40 VND")),
        ),
    ] {
        let outcome = compare(ours(order).as_ref(), &lines(records), &rules("+1 12:00"));
        assert_eq!(outcome.apart, [apart]);
    }
    let (order, records) = ("PAID r1 paid 100 VND 23:59", "SUCCESS r1 100 VND 00:01");
    assert_eq!(compare(ours(order).as_ref(), &lines(records), &rules("+1 12:00")).apart, []);
}

#[test]
fn a_ref_that_a_line_gives_another_order_is_a_difference() {
    let order = ours("PAID r1 paid 100 VND 10:05");
    let mut records = lines("SUCCESS r1 100 VND 10:06");
    records[0].order_id = Some(OrderId::parse("o9").unwrap());
    assert_eq!(
        describe(&compare(order.as_ref(), &records, &rules("+1 12:00"))),
        "matched 1; REF_ON_TWO_ORDERS of this order|of order o9 risk 100"
    );
}

/// In either order of the two lines.
#[test]
fn a_ref_that_lines_give_this_order_and_another_is_a_difference() {
    let order = ours("PAID r1 paid 100 VND 10:05");
    for (said, numbers) in [
        ("SUCCESS r1 100 VND 10:06; SUCCESS r1 100 VND 10:06", [1, 2]),
        ("SUCCESS r1 100 VND 10:06; SUCCESS r1 100 VND 10:06", [2, 1]),
        ("SUCCESS r1 100 VND 10:06; SUCCESS r1 100 VND 10:07", [1, 2]),
        ("SUCCESS r1 100 VND 10:07; SUCCESS r1 100 VND 10:06", [2, 1]),
    ] {
        let mut records = lines(said);
        records[1].order_id = Some(OrderId::parse("o9").unwrap());
        for (line, number) in records.iter_mut().zip(numbers) {
            line.line = number;
        }
        let outcome = compare(order.as_ref(), &records, &rules("+1 12:00"));
        let mut actual: Vec<_> = describe(&outcome).split("; ").map(str::to_owned).collect();
        actual.sort();
        let expected = [
            "DUPLICATED_THERE once|2 times risk 100",
            "REF_ON_TWO_ORDERS of this order|of order o9 risk 100",
            "matched 1",
        ];
        assert_eq!(actual, expected, "{said} as lines {numbers:?}");
    }
}

/// By our ref the run of its day knows that another day's records list it.
#[test]
fn what_another_day_lists_is_named_by_our_ref() {
    for (order, records) in [
        ("PAID r1 paid 100 VND -3 10:05", "SUCCESS - 100 VND 10:05"),
        (
            "REFUNDED r1 paid 100 VND -3 10:05; r1 refunded 100 VND -2 12:00",
            "REFUNDED - 100 VND 12:00",
        ),
    ] {
        let found = compare(ours(order).as_ref(), &lines(records), &rules("+1 12:00")).differences;
        let named: Vec<_> =
            found.iter().map(|found| (found.code, found.provider_ref.as_ref())).collect();
        assert_eq!(named, [(Code::OtherDay, ProviderRef::parse("r1").ok().as_ref())], "{order}");
    }
}

#[test]
fn payments_within_the_grace_period_are_pending() {
    for (order, records, now) in [
        ("PAID r1 paid 100 VND 10:05", "", "11:04"),
        ("", "SUCCESS r1 100 VND 10:05", "11:04"),
        ("PENDING", "SUCCESS r1 100 VND 10:05", "11:04"),
        ("PENDING r1 claimed 99 VND 10:05", "SUCCESS r1 100 VND 10:05", "11:04"),
        (
            "PAID r1 paid 100 VND 10:05",
            "SUCCESS r1 100 VND 10:05; REFUNDED r1 100 VND 10:30",
            "11:29",
        ),
        ("PAID r1 paid 100 VND 23:50", "", "+1 00:20"),
    ] {
        let (order, lines) = (ours(order), lines(records));
        let outcome = compare(order.as_ref(), &lines, &rules(now));
        assert_eq!((outcome.pending, outcome.differences.len()), (1, 0), "{records:?} at {now}");
        let later = compare(order.as_ref(), &lines, &rules("+1 12:00"));
        assert_eq!((later.pending, later.differences.len()), (0, 1), "{records:?} at noon after");
    }
}

#[test]
fn records_that_list_no_refunds_miss_none() {
    let order = ours("REFUNDED r1 paid 100 VND 10:05; r1 refunded 100 VND 12:00");
    let lists = ListedStatuses { payments: true, refunds: false };
    let rules = DayRules { lists, ..rules("+1 12:00") };
    assert_eq!(
        describe(&compare(order.as_ref(), &lines("SUCCESS r1 100 VND 10:05"), &rules)),
        "matched 1"
    );
    let lists = ListedStatuses { payments: false, refunds: true };
    let rules = DayRules { lists, ..rules };
    assert_eq!(
        describe(&compare(order.as_ref(), &lines("REFUNDED r1 100 VND 12:00"), &rules)),
        "matched 1"
    );
}

#[test]
fn records_with_dates_only_compare_no_times() {
    let rules = DayRules { time_tolerance_ms: None, ..rules("+1 12:00") };
    let order = ours("PAID r1 paid 100 VND 22:05");
    assert_eq!(
        describe(&compare(order.as_ref(), &lines("SUCCESS r1 100 VND 12:00"), &rules)),
        "matched 1"
    );
}

#[test]
fn a_payment_without_a_notice_is_counted() {
    let order = ours("PAID r1 paid 100 VND; r1 unnoticed");
    let outcome = compare(order.as_ref(), &lines("SUCCESS r1 100 VND 12:00"), &rules("+1 12:00"));
    assert_eq!((outcome.matched, outcome.payments, outcome.unnoticed), (1, 1, 1));
    // An order without a create request and without a notice counts too.
    let outcome =
        compare(ours("PENDING").as_ref(), &lines("SUCCESS r1 100 VND 12:00"), &rules("+1 12:00"));
    assert_eq!((outcome.payments, outcome.unnoticed), (1, 1));
}
