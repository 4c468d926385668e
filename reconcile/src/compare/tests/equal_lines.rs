//! Equal lines and equal payments or refunds: n of one against n of the other agree, whatever the
//! order of the lines.

use super::*;

/// Our side / the partner's lines => the result, at noon of the following day.
const TABLE: &str = "
    PAID r1 refunded 20 VND 11:00; r1 refunded 20 VND 12:00
    / REFUNDED r1 20 VND 12:00; REFUNDED r1 20 VND 12:00
    => matched 2

    PAID r1 refunded 20 VND 11:00; r1 refunded 20 VND 12:00
    / REFUNDED - 20 VND 12:00; REFUNDED - 20 VND 12:00
    => matched 2

    PAID r1 refunded 20 VND 11:00; r1 refunded 20 VND 12:00
    / REFUNDED r1 20 VND 12:00; REFUNDED r1 20 VND 12:00; REFUNDED r1 20 VND 12:00
    => matched 2; DUPLICATED_THERE 2 times|3 times risk 20

    PAID r1 refunded 20 VND 11:00; r1 refunded 20 VND 12:00
    / REFUNDED r1 20 VND 12:00
    => matched 1; MISSING_THERE REFUNDED 20 VND|nothing risk 20

    PAID r1 refunded 20 VND 11:00
    / REFUNDED r1 20 VND 12:00; REFUNDED r1 20 VND 12:00
    => matched 1; DUPLICATED_THERE once|2 times risk 20

    PAID r1 refunded 20 VND -2 11:00; r1 refunded 20 VND 12:00
    / REFUNDED r1 20 VND 12:00
    => matched 1

    PAID r1 paid 100 VND 10:05; r2 paid 100 VND 11:00
    / SUCCESS - 100 VND 10:05; SUCCESS - 100 VND 10:05
    => matched 2; TIME_DIFFERS 2026-01-31T11:00:00Z|2026-01-31T10:05:00Z risk 0

    PAID r1 paid 100 VND 10:05; r2 paid 100 VND 10:05
    / SUCCESS - 100 VND 10:05; SUCCESS - 100 VND 10:05
    => matched 2

    PAID r1 paid 100 VND 10:05; r2 paid 100 VND 10:05
    / SUCCESS - 100 VND 10:05; SUCCESS r1 100 VND 10:05
    => matched 2

    PAID r1 paid 100 VND 10:05; r2 paid 100 VND 10:05
    / SUCCESS - 100 VND 10:05; SUCCESS - 100 VND 10:05; SUCCESS - 100 VND 10:05
    => matched 2; DUPLICATED_THERE 2 times|3 times risk 100

    PAID r1 paid 100 VND 10:05; r2 paid 60 VND 10:05
    / SUCCESS - 60 VND 10:05; SUCCESS - 100 VND 10:05
    => matched 2

    PAID r1 paid 100 VND 10:05; r2 refunded 100 VND -2 12:00; r2 implied 100 VND; r2 returned
    / SUCCESS - 100 VND 10:05; SUCCESS - 100 VND 11:00
    => matched 2

    PAID r1 refunded 20 VND -1 23:20; r1 refunded 20 VND 12:00
    / REFUNDED r1 20 VND 12:00; REFUNDED r1 20 VND 12:00
    => matched 1; DUPLICATED_THERE once|2 times risk 20

    PAID r1 refunded 20 VND -1 23:50; r1 refunded 20 VND 12:00
    / REFUNDED r1 20 VND 12:00; REFUNDED r1 20 VND 12:00
    => matched 1; DUPLICATED_THERE once|2 times risk 20;
    left over MISSING_THERE REFUNDED 20 VND|nothing risk 20

    PAID r1 paid 100 VND -3 10:05; r2 paid 100 VND 10:05
    / SUCCESS - 100 VND 10:05; SUCCESS - 100 VND 10:05
    => matched 1; DUPLICATED_THERE once|2 times risk 100

    PAID r1 paid 100 VND -1 23:58; r2 paid 100 VND 10:05
    / SUCCESS - 100 VND 00:02
    => matched 1; cut off 1; MISSING_THERE SUCCESS 100 VND|nothing risk 100

    PAID r1 refunded 20 VND -1 23:58; r1 refunded 20 VND 23:20
    / REFUNDED r1 20 VND 00:02
    => matched 1; cut off 1; MISSING_THERE REFUNDED 20 VND|nothing risk 20

    PAID r1 paid 100 VND; r2 paid 100 VND +1 00:15
    / SUCCESS - 100 VND 10:05
    => matched 1

    PAID r0 refunded 20 VND 10:00; r1 refunded 20 VND 11:00; r1 refunded 30 VND 12:00
    / REFUNDED r1 20 VND 12:00; REFUNDED - 20 VND 11:00
    => matched 2; MISSING_THERE REFUNDED 30 VND|nothing risk 30

    PAID r1 refunded 20 VND 11:00 #e1; r2 refunded 20 VND 12:00 #e2
    / REFUNDED - 20 VND 12:00 #e1
    => matched 1; MISSING_THERE REFUNDED 20 VND|nothing risk 20

    PAID r1 refunded 20 VND 11:00 #e1
    / REFUNDED r1 20 VND 12:00 #e2
    => REF_DIFFERS e1|e2 risk 20

    PAID r1 refunded 20 VND 11:00 #e1
    / REFUNDED r1 30 VND 12:00 #e2
    => MISSING_THERE REFUNDED 20 VND|nothing risk 20; MISSING_HERE REFUNDED 20|REFUNDED 30 risk 30

    PAID r1 refunded 20 VND +1 00:20
    / REFUNDED r1 20 VND 12:00
    => MISSING_HERE REFUNDED 20, another refund|REFUNDED 20 risk 20

    PAID r1 refunded 20 VND +1 00:02
    / REFUNDED r1 20 VND 23:59
    => matched 1; cut off 1

    PAID r1 paid 100 VND -3 10:05
    / SUCCESS r2 100 VND 10:05
    => STATUS_DIFFERS PAID, with another ref|SUCCESS risk 100

    PAID r1 refunded 20 VND -3 11:00 #e1
    / REFUNDED r1 20 VND 12:00 #e2
    => MISSING_HERE REFUNDED 20, another refund|REFUNDED 20 risk 20

    PAID r1 paid 100 VND 10:05; r1 refunded 30 VND 11:00; r2 refunded 20 VND 12:00
    / SUCCESS r1 100 VND 10:05; REFUNDED - 20 VND 12:00; REFUNDED - 20 VND 12:00
    => matched 2; MISSING_THERE REFUNDED 30 VND|nothing risk 30;
    DUPLICATED_THERE once|2 times risk 20

    PAID r1 refunded 20 VND 11:00 #e1; r1 refunded 20 VND 12:00
    / REFUNDED r1 20 VND 12:00; REFUNDED r1 20 VND 12:30 #e9
    => matched 2

    PAID r1 refunded 20 VND 11:00 #e1
    / REFUNDED r1 30 VND 11:00 #e1; REFUNDED r1 20 VND 12:00 #e1
    => matched 1; MISSING_HERE REFUNDED 20|REFUNDED 30 risk 30

    PAID r1 refunded 20 VND 11:00; r1 refunded 20 VND 12:00 #e1
    / REFUNDED r1 20 VND 11:00 #e1; REFUNDED r1 20 VND 11:00
    => matched 2
";

#[test]
fn equal_lines_have_the_results_of_the_table() {
    for case in TABLE.split("\n\n") {
        let (given, expected) = case.split_once("=>").unwrap();
        let (order, records) = given.split_once('/').unwrap();
        let (order, mut lines) = (ours(order.trim()), lines(records));
        let outcome = compare(order.as_ref(), &lines, &rules("+1 12:00"));
        let expected: Vec<_> = expected.split_whitespace().collect();
        assert_eq!(describe(&outcome), expected.join(" "), "{case}");
        lines.reverse();
        assert_eq!(compare(order.as_ref(), &lines, &rules("+1 12:00")), outcome, "{case}");
    }
}

/// What is listed is this refund, and none that equals it.
#[test]
fn a_listed_refund_is_no_other_one_of_its_money() {
    let order = ours("PAID r1 refunded 20 VND 12:00; r1 refunded 20 VND -2 11:00");
    let first = compare(order.as_ref(), &[], &rules("+1 12:00")).differences;
    assert_eq!(first[0].part.as_deref(), Some("20 VND"), "however early the second is dated");
    let order = ours("PAID r1 refunded 20 VND -2 11:00; r1 refunded 20 VND 12:00");
    let missing = compare(order.as_ref(), &[], &rules("+1 12:00")).differences;
    let listed = lines("REFUNDED r1 20 VND 12:00");
    let outcome = compare(order.as_ref(), &listed, &rules("+1 12:00"));
    let parts: Vec<_> = outcome.listed.iter().map(|item| item.part.clone()).collect();
    assert_eq!(parts, [Some("20 VND, number 2".to_owned())]);
    assert_eq!(missing.iter().map(|found| found.part.clone()).collect::<Vec<_>>(), parts);
}

/// The notice of a second refund may be on its way.
#[test]
fn a_young_line_that_is_one_too_many_is_pending() {
    for (order, records, expected) in [
        (
            "PAID r1 paid 100 VND -3 10:05; r1 refunded 20 VND 10:20",
            "REFUNDED r1 20 VND 10:30; REFUNDED r1 20 VND 10:30",
            "matched 1; pending 1",
        ),
        (
            "PAID r1 paid 100 VND 10:05",
            "SUCCESS - 100 VND 10:05; SUCCESS - 100 VND 10:05",
            "matched 1; pending 1",
        ),
        ("PAID r1 refunded 20 VND 10:20 #e1", "REFUNDED r1 20 VND 10:30 #e2", "pending 2"),
    ] {
        let outcome = compare(ours(order).as_ref(), &lines(records), &rules("10:40"));
        assert_eq!(describe(&outcome), expected, "{records}");
    }
}

/// Records with dates only list what is of the day before what is near it.
#[test]
fn equal_lines_with_dates_only_are_of_the_day() {
    let rules = DayRules { time_tolerance_ms: None, ..rules("+1 12:00") };
    for (order, records, expected) in [
        (
            "PAID r1 paid 100 VND -1 23:58; r2 paid 100 VND 23:20",
            "SUCCESS - 100 VND 00:00",
            "matched 1; left over MISSING_THERE SUCCESS 100 VND|nothing risk 100",
        ),
        (
            "PAID r1 paid 100 VND -1 23:58; r2 paid 100 VND 23:20",
            "SUCCESS - 100 VND 00:00; SUCCESS - 100 VND 00:00",
            "matched 2; cut off 1",
        ),
    ] {
        let outcome = compare(ours(order).as_ref(), &lines(records), &rules);
        assert_eq!(describe(&outcome), expected, "{records}");
    }
}

/// Where the records list refunds on any day, equal lines are about refunds of any day.
#[test]
fn refunds_of_other_days_are_on_equal_lines_where_no_day_lists_its_own() {
    let lists = ListedStatuses { payments: true, refunds: false };
    let rules = DayRules { lists, ..rules("+1 12:00") };
    let records = lines("REFUNDED r1 20 VND 12:00; REFUNDED r1 20 VND 12:00");
    for (first, expected) in [("-4 11:00", "matched 2"), ("-1 23:50", "matched 2; cut off 1")] {
        let order = ours(&format!("PAID r1 refunded 20 VND {first}; r1 refunded 20 VND -3 12:00"));
        assert_eq!(describe(&compare(order.as_ref(), &records, &rules)), expected);
    }
}

/// What a naive count of equal lines and equal refunds comes to: how many agree, and the codes of
/// the others with the money at risk.
fn naive_count(refunds: &[i64], lines: &[i64]) -> (u64, Vec<(String, i64)>) {
    let (mut matched, mut found, mut left, mut alone) = (0, Vec::new(), Vec::new(), Vec::new());
    for amount in AMOUNTS {
        let count = |of: &[i64]| of.iter().filter(|other| **other == amount).count();
        let (known, listed) = (count(refunds), count(lines));
        matched += known.min(listed);
        left.extend(vec![amount; known.saturating_sub(listed)]);
        let mut surplus = listed.saturating_sub(known);
        if known == 0 && surplus > 0 {
            alone.push(amount);
            surplus -= 1;
        }
        if surplus > 0 {
            found.push(("DUPLICATED_THERE", amount, surplus));
        }
    }
    // Each refund of ours has a time, and is a finding of its own if it is missing.
    match (refunds, left.as_slice(), alone.as_slice()) {
        // One refund with two amounts.
        ([_], [ours], [theirs]) => found.push(("AMOUNT_DIFFERS", (ours - theirs).abs(), 1)),
        _ => {
            let code = if refunds.is_empty() { "STATUS_DIFFERS" } else { "MISSING_HERE" };
            found.extend(alone.iter().map(|amount| (code, *amount, 1)));
            found.extend(left.iter().map(|amount| ("MISSING_THERE", *amount, 1)));
        }
    }
    let risk = |times: usize| i64::try_from(times).unwrap();
    let mut found: Vec<_> = found
        .into_iter()
        .map(|(code, amount, times)| (code.to_owned(), amount * risk(times)))
        .collect();
    found.sort();
    (u64::try_from(matched).unwrap(), found)
}

const AMOUNTS: [i64; 3] = [10, 20, 30];

#[test]
fn equal_lines_are_matched_with_equal_refunds_one_by_one_in_any_order() {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};
    let some = || prop::collection::vec(prop::sample::select(&AMOUNTS[..]), 0..6);
    let worlds = (some(), some(), any::<u32>());
    let config = Config { cases: 10_000, failure_persistence: None, ..Config::default() };
    let law = |(refunds, listed, seed): (Vec<i64>, Vec<i64>, u32)| {
        let mut said = "PAID r1 paid 100 VND -3 10:05".to_owned();
        for (minute, amount) in (10..).zip(&refunds) {
            said.push_str(&format!("; r1 refunded {amount} VND 11:{minute}"));
        }
        let of = |amounts: &[i64]| {
            let line = |amount: &i64| format!("REFUNDED r1 {amount} VND 12:00");
            lines(&amounts.iter().map(line).collect::<Vec<_>>().join(";"))
        };
        let compared = |amounts: &[i64]| {
            let mut outcome = compare(ours(&said).as_ref(), &of(amounts), &rules("+1 12:00"));
            outcome.differences.iter_mut().for_each(|found| found.line = None);
            outcome
        };
        let outcome = compared(&listed);
        let mut found: Vec<_> =
            outcome.differences.iter().map(|d| (d.code.to_string(), d.at_risk)).collect();
        found.sort();
        prop_assert_eq!((outcome.matched, found), naive_count(&refunds, &listed));
        let (mut turned, mut seed) = (listed, seed);
        for place in (1..turned.len()).rev() {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            turned.swap(place, usize::try_from(seed >> 8).unwrap() % (place + 1));
        }
        prop_assert_eq!(compared(&turned), outcome);
        Ok(())
    };
    if let Err(broken) = TestRunner::new(config).run(&worlds, law) {
        panic!("{broken}");
    }
}

/// The most lines that can be about different refunds: a line is about one of its ref, or about any
/// of them if it names none, and of its amount. Each line looks for a refund that is free, or that
/// another line gives up because it finds another one.
fn most_matches(refunds: &[(usize, i64)], lines: &[(usize, i64)]) -> u64 {
    fn find(
        line: usize,
        fits: &impl Fn(usize, usize) -> bool,
        lines_of: &mut [Option<usize>],
        seen: &mut [bool],
    ) -> bool {
        for refund in 0..lines_of.len() {
            if !fits(line, refund) || std::mem::replace(&mut seen[refund], true) {
                continue;
            }
            let other = lines_of[refund];
            if other.is_none_or(|other| find(other, fits, lines_of, seen)) {
                lines_of[refund] = Some(line);
                return true;
            }
        }
        false
    }
    let fits = |line: usize, refund: usize| {
        let ((named, theirs), (of, ours)) = (lines[line], refunds[refund]);
        theirs == ours && (named == 0 || named == of)
    };
    let mut lines_of = vec![None; refunds.len()];
    let matched = (0..lines.len())
        .filter(|line| find(*line, &fits, &mut lines_of, &mut vec![false; refunds.len()]));
    u64::try_from(matched.count()).unwrap()
}

#[test]
fn as_many_lines_are_matched_with_refunds_of_several_refs_as_can_be() {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};
    let some = |refs: std::ops::Range<usize>| {
        prop::collection::vec((refs, prop::sample::select(&AMOUNTS[..])), 0..7)
    };
    let worlds = [some(1..4), some(0..4)];
    let config = Config { cases: 10_000, failure_persistence: None, ..Config::default() };
    let law = |[refunds, mut listed]: [Vec<(usize, i64)>; 2]| {
        let mut said = "PAID r1 paid 100 VND -3 10:05; r2 paid 100 VND -3 10:05".to_owned();
        said.push_str("; r3 paid 100 VND -3 10:05");
        for (minute, (of, amount)) in (10..).zip(&refunds) {
            said.push_str(&format!("; r{of} refunded {amount} VND 11:{minute}"));
        }
        let line = |(named, amount): &(usize, i64)| match named {
            0 => format!("REFUNDED - {amount} VND 12:00"),
            named => format!("REFUNDED r{named} {amount} VND 12:00"),
        };
        let matched = most_matches(&refunds, &listed);
        let mut outcomes = Vec::new();
        for _ in 0..2 {
            let text = listed.iter().map(line).collect::<Vec<_>>().join(";");
            let mut outcome = compare(ours(&said).as_ref(), &lines(&text), &rules("+1 12:00"));
            outcome.differences.iter_mut().for_each(|found| found.line = None);
            outcomes.push(outcome);
            listed.reverse();
        }
        prop_assert_eq!(outcomes[0].matched, matched);
        prop_assert_eq!(&outcomes[0], &outcomes[1]);
        Ok(())
    };
    if let Err(broken) = TestRunner::new(config).run(&worlds, law) {
        panic!("{broken}");
    }
}

#[test]
fn a_line_that_names_another_order_is_found_of_refunds_too() {
    let order = ours("PAID r1 paid 100 VND -3 10:05; r1 refunded 20 VND 11:00 #e1");
    let mut listed = lines("REFUNDED r1 20 VND 11:00 #e1");
    listed[0].order_id = Some(OrderId::parse("o2").unwrap());
    let outcome = compare(order.as_ref(), &listed, &rules("+1 12:00"));
    let found: Vec<_> = outcome.differences.iter().map(|d| (d.code, d.at_risk)).collect();
    assert_eq!(found, [(Code::RefOnTwoOrders, 20)]);
}
