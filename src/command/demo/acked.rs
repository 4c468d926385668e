//! Owns the proof of `demo pay`: every notice the partner was told 200 for is in the log, once or more.

use std::collections::{BTreeMap, HashMap};

use payfold_engines::log::{EventLog, Topic};
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::record::{IntakeRecord, Position, decode_intake};

use super::shop::Said;
use crate::walk::Walk;

const PAGE: usize = 1_024;

/// How often each thing was said of each order.
pub type Counts = HashMap<OrderKey, BTreeMap<Said, usize>>;

/// What the log took of these orders from these places on.
pub async fn taken(
    log: &dyn EventLog,
    places: Vec<Position>,
    of: &Counts,
) -> anyhow::Result<Counts> {
    let mut counts = Counts::new();
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
            };
            *counts.entry(record.order).or_default().entry(said).or_default() += 1;
        }
    }
    Ok(counts)
}

/// How many acknowledged notices there are, and how many of them the log has not.
pub fn lost(acked: &Counts, taken: &Counts) -> (usize, usize) {
    let mut told = 0;
    let mut lost = 0;
    for (order, said) in acked {
        for (said, count) in said {
            let kept = taken.get(order).and_then(|kept| kept.get(said)).copied().unwrap_or(0);
            told += count;
            lost += count.saturating_sub(kept);
        }
    }
    (told, lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_log_has_less_of_is_lost() {
        let order = OrderKey::parse("sandbox/DEMO/a").expect("a key");
        let said = |status: &str| Said {
            provider_ref: "r".to_owned(),
            status: status.to_owned(),
            amount: 1,
            currency: "VND".to_owned(),
            paid_at: None,
        };
        let counts = |all: &[(&str, usize)]| {
            let said = all.iter().map(|(status, count)| (said(status), *count)).collect();
            Counts::from([(order.clone(), said)])
        };
        let acked = counts(&[("SUCCESS", 3), ("REFUNDED", 1)]);
        assert_eq!(lost(&acked, &acked), (4, 0));
        assert_eq!(lost(&acked, &counts(&[("SUCCESS", 4), ("REFUNDED", 1)])), (4, 0));
        assert_eq!(lost(&acked, &counts(&[("SUCCESS", 2), ("FAILED", 1)])), (4, 2));
        assert_eq!(lost(&acked, &Counts::new()), (4, 4));
    }
}
