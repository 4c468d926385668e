//! A payment that differs from the partner's records is pending while it is younger than the grace
//! period. An older payment gets the finding of its story.

use super::*;

/// The run is in the middle of a day, with a grace period of an hour.
#[test]
fn payments_within_the_grace_period_are_pending() {
    const KINDS: [Kind; 7] = [
        Kind::Agrees,
        Kind::LineDropped,
        Kind::OrderDropped,
        Kind::SaysPaidOfFailed,
        Kind::SaysPaidOfPending,
        Kind::NeverRequested,
        Kind::OtherAmountNotified,
    ];
    check_worlds(40, async |world: &World| {
        let stories: Vec<_> = world
            .stories
            .iter()
            .map(|(_, dice)| (KINDS[(*dice >> 7) as usize % KINDS.len()], *dice))
            .collect();
        let stage = TestStage::set(&World { stories, ..world.clone() }).await;
        let running = stage.bed.start();
        let mut expected = Vec::new();
        for day in 0..DAYS {
            let date = stage.calendar.date(day).to_string();
            let now = stage.calendar.at(day, 13 * HOUR + 10 * story::MINUTE);
            stage.bed.clock.set(now);
            let mut pending = 0;
            for plot in &stage.plots {
                let Some(found) = plot.expect.first().filter(|found| found.day == date) else {
                    continue;
                };
                // The line decides whether it is young; without one, our payment does.
                let at =
                    plot.lines.first().map_or_else(|| plot.orders[0].facts[2].0, |(_, l)| l.at);
                let at = if plot.lines.is_empty() { at.plus_ms(-1_500) } else { at };
                match at.plus_ms(HOUR) > now {
                    true => pending += 1,
                    false => expected.push(found.clone()),
                }
            }
            let request = stage.bed.request(&date, &stage.lines(day, LineVariant::Original));
            let ended = running.service.run(request).await.unwrap();
            assert_eq!(ended.compared.pending, pending, "pending on day {day}");
        }
        let mut found = all_as_expectations(&stage.bed.uncleared().await);
        found.retain(|found| found.code != Code::PartnerSilent);
        expected.sort();
        assert_eq!(found, expected);
        running.stop().await.unwrap();
    });
}
