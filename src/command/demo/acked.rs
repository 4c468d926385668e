//! Owns the proof of `demo pay`: every notice that was answered 200 is in the log. A notice that came again as it
//! was is one record; one that was stamped anew is another notice.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use payfold_engines::log::{EventLog, Topic};
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::record::{IntakeRecord, Position, decode_intake};

use super::shop::Said;
use crate::walk::Walk;

const PAGE: usize = 1_024;

/// How often each thing was said of each order.
pub type Counts = HashMap<OrderKey, BTreeMap<Said, usize>>;

/// The notices of each order that are in the log.
pub type Stored = HashMap<OrderKey, BTreeSet<Said>>;

/// What the log took of these orders from these places on.
pub async fn taken(
    log: &dyn EventLog,
    places: Vec<Position>,
    of: &Counts,
) -> anyhow::Result<Stored> {
    let mut stored = Stored::new();
    let mut walk = Walk::from(log, Topic::Intake, places);
    while let Some(page) = walk.next(PAGE).await? {
        for message in &page {
            let IntakeRecord::Fact(record) = decode_intake(&message.value)? else { continue };
            let Fact::Ipn(ipn) = record.fact else { continue };
            if !of.contains_key(&record.order) {
                continue;
            }
            let said = Said {
                provider_ref: ipn.provider_ref.to_string(),
                status: ipn.status.as_str().to_owned(),
                amount: ipn.money.amount.minor(),
                currency: ipn.money.currency.code().to_owned(),
                paid_at: ipn.money.paid_at,
                timestamp: ipn.timestamp,
            };
            stored.entry(record.order).or_default().insert(said);
        }
    }
    Ok(stored)
}

/// How many acknowledged notices there are, and how many of them the log has not.
pub fn lost(acked: &Counts, stored: &Stored) -> (usize, usize) {
    let mut told = 0;
    let mut lost = 0;
    for (order, said) in acked {
        for (said, count) in said {
            let is_stored = stored.get(order).is_some_and(|stored| stored.contains(said));
            told += count;
            lost += if is_stored { 0 } else { *count };
        }
    }
    (told, lost)
}

#[cfg(test)]
mod tests {
    use payfold_schemas::time::Time;

    use super::*;

    #[test]
    fn what_the_log_has_not_is_lost_and_a_new_stamp_is_another_notice() {
        let order = OrderKey::parse("sandbox/DEMO/a").expect("a key");
        let said = |(status, second): &(&str, i64)| Said {
            provider_ref: "r".to_owned(),
            status: (*status).to_owned(),
            amount: 1,
            currency: "VND".to_owned(),
            paid_at: None,
            timestamp: Some(Time::from_unix_ms(1_000 * second)),
        };
        let sent = [(("SUCCESS", 1), 3), (("SUCCESS", 2), 1), (("REFUNDED", 1), 1)];
        let sent = sent.iter().map(|(notice, count)| (said(notice), *count)).collect();
        let acked = Counts::from([(order.clone(), sent)]);
        let stored = |all: &[(&str, i64)]| {
            Stored::from([(order.clone(), all.iter().map(said).collect::<BTreeSet<_>>())])
        };
        let all = [("SUCCESS", 1), ("SUCCESS", 2), ("REFUNDED", 1), ("FAILED", 9)];
        assert_eq!(lost(&acked, &stored(&all)), (5, 0));
        assert_eq!(lost(&acked, &stored(&all[1..])), (5, 3));
        assert_eq!(lost(&acked, &stored(&[("SUCCESS", 3)])), (5, 5));
        assert_eq!(lost(&acked, &Stored::new()), (5, 5));
    }
}
