//! Owns the check of `demo pay` that every notice answered 200 is in the log. An identical
//! repetition of a notice is no new record; a notice with a new timestamp is another notice.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use payfold_engines::log::walk::Walk;
use payfold_engines::log::{EventLog, Topic};
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::position::Position;
use payfold_schemas::record::IntakeRecord;

use super::shop::NoticeContent;

const PAGE: usize = 1_024;

/// For each order, how often each notice was acknowledged.
pub(crate) type AckedCounts = HashMap<OrderKey, BTreeMap<NoticeContent, usize>>;

/// For each order, its notices in the log.
pub(crate) type StoredNotices = HashMap<OrderKey, BTreeSet<NoticeContent>>;

/// The notices of these orders that are in the log after these positions.
pub(crate) async fn taken(
    log: &dyn EventLog,
    places: Vec<Position>,
    of: &AckedCounts,
) -> anyhow::Result<StoredNotices> {
    let mut stored = StoredNotices::new();
    let mut walk = Walk::from(log, Topic::Intake, places);
    while let Some(page) = walk.next(PAGE).await? {
        for message in &page {
            let IntakeRecord::Fact(record) = message.intake_record()? else { continue };
            let Fact::Ipn(ipn) = record.fact else { continue };
            if !of.contains_key(&record.order) {
                continue;
            }
            let said = NoticeContent {
                provider_ref: ipn.provider_ref,
                status: ipn.status,
                amount: ipn.money.amount,
                currency: ipn.money.currency,
                paid_at: ipn.money.paid_at,
                timestamp: ipn.timestamp,
            };
            stored.entry(record.order).or_default().insert(said);
        }
    }
    Ok(stored)
}

/// The number of acknowledged notices, and how many of them are missing in the log.
pub(crate) fn lost(acked: &AckedCounts, stored: &StoredNotices) -> (usize, usize) {
    let mut acknowledged = 0;
    let mut lost = 0;
    for (order, said) in acked {
        for (said, count) in said {
            let is_stored = stored.get(order).is_some_and(|stored| stored.contains(said));
            acknowledged += count;
            lost += if is_stored { 0 } else { *count };
        }
    }
    (acknowledged, lost)
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::ProviderRef;
    use payfold_schemas::ipn::Status;
    use payfold_schemas::money::{Amount, Currency};
    use payfold_schemas::time::Time;

    use super::*;

    #[test]
    fn a_notice_missing_in_the_log_is_lost_and_a_new_timestamp_makes_another_notice() {
        let order = OrderKey::parse("sandbox/DEMO/a").expect("a key");
        let said = |(status, second): &(&str, i64)| NoticeContent {
            provider_ref: ProviderRef::parse("r").unwrap(),
            status: Status::parse(status).unwrap(),
            amount: Amount::from_minor(1).unwrap(),
            currency: Currency::parse("VND").unwrap(),
            paid_at: None,
            timestamp: Some(Time::from_unix_ms(1_000 * second)),
        };
        let sent = [(("SUCCESS", 1), 3), (("SUCCESS", 2), 1), (("REFUNDED", 1), 1)];
        let sent = sent.iter().map(|(notice, count)| (said(notice), *count)).collect();
        let acked = AckedCounts::from([(order.clone(), sent)]);
        let stored = |all: &[(&str, i64)]| {
            StoredNotices::from([(order.clone(), all.iter().map(said).collect::<BTreeSet<_>>())])
        };
        let all = [("SUCCESS", 1), ("SUCCESS", 2), ("REFUNDED", 1), ("FAILED", 9)];
        assert_eq!(lost(&acked, &stored(&all)), (5, 0));
        assert_eq!(lost(&acked, &stored(&all[1..])), (5, 3));
        assert_eq!(lost(&acked, &stored(&[("SUCCESS", 3)])), (5, 5));
        assert_eq!(lost(&acked, &StoredNotices::new()), (5, 5));
    }
}
