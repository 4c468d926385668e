//! Owns what `orders.latest` has to be like, the compacted twin of `orders`. It begins with no marker: what it holds of
//! each order is that order's last event, and nothing of ours reads it.
//! Pure: from what was seen to findings and steps.

use super::TopicStep;
use super::rules::{APPLY, Finding, alter, copies};
use super::seen::{Seen, SeenTopic};
use super::wanted::{Footing, TopicsWanted};
use crate::log::Topic;
use crate::log::kafka::layout::Layout;
use crate::log::kafka::settings::MESSAGE_BYTES_MAX;

/// Everything that is not as it must be. That it is missing keeps nobody from starting: the log is whole without it.
pub(super) fn findings(layout: &Layout, footing: Footing, seen: &Seen) -> Vec<Finding> {
    if seen.latest.is_some() {
        let mut found = differing(layout, footing, seen);
        found.extend(added(layout, seen));
        return found;
    }
    let what = "there is no such topic: who is new has to read orders from its beginning, which does not hold them all";
    vec![Finding::refuse(&layout.latest(), what, APPLY).warn()]
}

/// What is not as it must be in what is there.
pub(super) fn differing(layout: &Layout, footing: Footing, seen: &Seen) -> Vec<Finding> {
    let Some(twin) = &seen.latest else { return Vec::new() };
    let name = layout.latest();
    let mut found = settings(&seen.brokers, &name, twin);
    if footing == Footing::Production {
        found.extend(copies(&seen.brokers, &name, twin));
    }
    if let Some((has, orders)) = partitions(seen)
        && has < orders
    {
        let what = format!(
            "it has {has} partitions and orders has {orders}: each holds what the same one of orders tells"
        );
        found.push(Finding::refuse(&name, what, anew(&seen.brokers, &name)));
    }
    found
}

/// Partitions that somebody gave it after it was made. They do no harm: each event is copied into the partition it has
/// in `orders`.
fn added(layout: &Layout, seen: &Seen) -> Option<Finding> {
    let (has, orders) = partitions(seen).filter(|(has, orders)| has > orders)?;
    let what = format!(
        "it has {has} partitions and orders has {orders}: nothing writes into those that were added"
    );
    let fix = "nothing is lost and nothing has to be done; partitions can't be taken back";
    Some(Finding::refuse(&layout.latest(), what, fix).warn())
}

/// How many partitions it has, and how many `orders` was made with.
fn partitions(seen: &Seen) -> Option<(u32, u32)> {
    let has = u32::try_from(seen.latest.as_ref()?.partitions.len()).unwrap_or(u32::MAX);
    Some((has, seen.get(Topic::Orders, 0)?.made_with()))
}

/// The step that makes it.
pub(super) fn missing(layout: &Layout, wanted: &TopicsWanted, seen: &Seen) -> Option<TopicStep> {
    if seen.latest.is_some() {
        return None;
    }
    let partitions = seen.get(Topic::Orders, 0).map(SeenTopic::made_with);
    Some(TopicStep::Make {
        name: layout.latest(),
        partitions: partitions.unwrap_or(wanted.partitions),
        replication: wanted.replication,
        settings: wanted.settings_of_latest(),
    })
}

/// How it is made anew: what was copied before is copied again, as far as orders holds it.
fn anew(brokers: &str, name: &str) -> String {
    format!(
        "kafka-topics.sh --bootstrap-server {brokers} --delete --topic {name}, start the projectors again, then {APPLY}"
    )
}

fn settings(brokers: &str, name: &str, twin: &SeenTopic) -> Vec<Finding> {
    let Some(settings) = &twin.settings else { return Vec::new() };
    let value = |setting: &str| settings.get(setting).map_or("", String::as_str);
    let mut found = Vec::new();
    let broken = |setting: &str, must: &str, breaks: &str| {
        let what = format!("{setting} is {}, must be {must}: {breaks}", value(setting));
        Finding::refuse(name, what, alter(brokers, name, setting, must))
    };
    if value("cleanup.policy") != "compact" {
        let breaks = "orders that don't change any more would go, or nothing ever would";
        found.push(broken("cleanup.policy", "compact", breaks));
    }
    if value("unclean.leader.election.enable") != "false" {
        let breaks = "messages that were acknowledged are lost with a broker";
        found.push(broken("unclean.leader.election.enable", "false", breaks));
    }
    let bytes = value("max.message.bytes").parse::<u32>();
    if bytes.is_ok_and(|bytes| bytes < MESSAGE_BYTES_MAX) {
        let must = MESSAGE_BYTES_MAX.to_string();
        found.push(broken("max.message.bytes", &must, "longer messages are refused").warn());
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::log::kafka::topics::Severity;
    use crate::log::kafka::topics::seen::First;

    fn seen(latest: Option<(i32, &str)>) -> Seen {
        let latest = latest.map(|(partitions, policy)| SeenTopic {
            partitions: (0..partitions).map(|one| (one, First::Nothing)).collect(),
            replication: 3,
            settings: Some(HashMap::from(
                [
                    ("cleanup.policy", policy),
                    ("unclean.leader.election.enable", "false"),
                    ("min.insync.replicas", "2"),
                ]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
            )),
            ..SeenTopic::default()
        });
        Seen { latest, ..Seen::default() }
    }

    #[test]
    fn it_is_compacted_and_nothing_else_and_may_be_missing() {
        let layout = Layout::new("pay", 0);
        for (latest, said) in [
            (None, Some((Severity::Warn, "there is no such topic"))),
            (Some((2, "compact")), None),
            (Some((2, "delete")), Some((Severity::Refuse, "cleanup.policy is delete"))),
            (Some((2, "compact,delete")), Some((Severity::Refuse, "cleanup.policy is compact,d"))),
        ] {
            let found = findings(&layout, Footing::Production, &seen(latest));
            let told = found.first().map(|one| (one.severity, one.what.as_str()));
            match (told, said) {
                (None, None) => {}
                (Some((severity, what)), Some((wanted, words))) => {
                    assert!(severity == wanted && what.starts_with(words), "{found:?}");
                }
                _ => panic!("{latest:?}: {found:?}"),
            }
        }
    }
}
