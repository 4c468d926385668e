//! Owns the traffic of partners in the last intervals and the flags of orders in the last day, as
//! the process itself has counted them. An interval without a notice is not kept, so that the last
//! ones before a silence stay.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use payfold_api::process::{INTERVAL_S, MetricSample, PartnerTraffic, TrafficInterval};
use payfold_engines::clock::Clock;
use payfold_schemas::time::Time;
use prometheus::Registry;
use prometheus::proto::MetricType;

/// How often the counters are read.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// Intervals that are kept of each partner: an hour of a busy one, and to spare.
const INTERVALS_MAX: usize = 24;
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// The codes of notices that are neither accepted nor refused.
const OTHER_CODES: [&str; 2] = ["duplicate", "ignored"];

/// The counts of a partner since the start.
#[derive(Clone, Copy, Default)]
struct Counts {
    accepted: u64,
    refused: u64,
}

/// What is known of a partner.
#[derive(Default)]
struct PartnerCounts {
    counted: Counts,
    intervals: VecDeque<TrafficInterval>,
}

/// The flags that were raised since the start, at a time.
struct Raised {
    at: Time,
    flags: BTreeMap<String, u64>,
}

/// The traffic of partners.
pub(crate) struct Traffic {
    registry: Registry,
    clock: Arc<dyn Clock>,
    counted: Mutex<Counted>,
}

/// What was counted.
struct Counted {
    partners: BTreeMap<String, PartnerCounts>,
    /// One for each hour of the last day, oldest first; the first has none.
    raised: VecDeque<Raised>,
}

/// The traffic as it is now.
pub(crate) struct TrafficNow {
    /// Every counter and gauge of the process.
    pub(crate) samples: Vec<MetricSample>,
    /// The partners with a notice.
    pub(crate) partners: Vec<PartnerTraffic>,
    /// The flags of the last day, each with their number.
    pub(crate) flags_raised: BTreeMap<String, u64>,
}

impl Traffic {
    /// The traffic as these metrics count it.
    pub(crate) fn new(registry: Registry, clock: Arc<dyn Clock>) -> Self {
        let raised = VecDeque::from([Raised { at: clock.now(), flags: BTreeMap::new() }]);
        let counted = Mutex::new(Counted { partners: BTreeMap::new(), raised });
        Self { registry, clock, counted }
    }

    /// Reads the counters from now on.
    pub(crate) fn follow(traffic: &Arc<Self>) {
        let traffic = Arc::clone(traffic);
        actix_web::rt::spawn(async move {
            let mut ticks = tokio::time::interval(SAMPLE_EVERY);
            loop {
                ticks.tick().await;
                traffic.now();
            }
        });
    }

    /// Reads the counters.
    pub(crate) fn now(&self) -> TrafficNow {
        // Inside the lock: what is read later must not be counted earlier.
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let samples = samples(&self.registry);
        let partners = counted.update_partners(&samples, self.clock.now());
        let flags_raised = counted.update_raised(&samples, self.clock.now());
        drop(counted);
        TrafficNow { samples, partners, flags_raised }
    }
}

impl Counted {
    /// The flags of the last day.
    fn update_raised(&mut self, samples: &[MetricSample], at: Time) -> BTreeMap<String, u64> {
        let of_flags =
            samples.iter().filter(|one| one.name == "payfold_projector_flags_raised_total");
        let flags = of_flags
            .filter_map(|one| Some((one.labels.get("flag")?.clone(), one.value as u64)))
            .collect::<BTreeMap<_, _>>();
        let raised = &mut self.raised;
        raised.retain(|known| at.unix_ms() - known.at.unix_ms() <= DAY_MS);
        if raised.back().is_none_or(|last| at.unix_ms() - last.at.unix_ms() >= HOUR_MS) {
            raised.push_back(Raised { at, flags: flags.clone() });
        }
        let before = raised.front().map(|oldest| &oldest.flags);
        let known = |flag: &str| before.and_then(|flags| flags.get(flag)).copied().unwrap_or(0);
        let since = flags.into_iter().map(|(flag, all)| (known(&flag), flag, all));
        let since = since.map(|(before, flag, all)| (flag, all.saturating_sub(before)));
        since.filter(|(_, raised)| *raised > 0).collect()
    }

    /// Adds what was counted since the last time to the interval that it is now. Returns the
    /// traffic of partners with a notice.
    fn update_partners(&mut self, samples: &[MetricSample], now: Time) -> Vec<PartnerTraffic> {
        let (mut counts, mut last) = (BTreeMap::<&str, Counts>::new(), BTreeMap::new());
        for sample in samples {
            let Some(partner) = sample.labels.get("partner") else { continue };
            match &*sample.name {
                "payfold_ingest_requests_total" => {
                    let counted = counts.entry(partner).or_default();
                    let code = sample.labels.get("code").map_or("", String::as_str);
                    match code {
                        "accepted" => counted.accepted += sample.value as u64,
                        other if OTHER_CODES.contains(&other) => {}
                        _ => counted.refused += sample.value as u64,
                    }
                }
                "payfold_ingest_last_accepted_timestamp_seconds" if sample.value > 0.0 => {
                    last.insert(partner.as_str(), Time::from_unix_ms((sample.value * 1e3) as i64));
                }
                _ => {}
            }
        }
        let from = interval_of(now);
        let partners = &mut self.partners;
        for (partner, counted) in counts {
            partners.entry(partner.to_owned()).or_default().add(counted, from);
        }
        let heard = partners.iter().filter(|(_, known)| !known.intervals.is_empty());
        let traffic = heard.map(|(partner, known)| PartnerTraffic {
            partner: partner.clone(),
            last_accepted: last.get(partner.as_str()).copied(),
            intervals: known.intervals.iter().copied().collect(),
        });
        traffic.collect()
    }
}

impl PartnerCounts {
    fn add(&mut self, counted: Counts, from: Time) {
        let accepted = counted.accepted.saturating_sub(self.counted.accepted);
        let refused = counted.refused.saturating_sub(self.counted.refused);
        self.counted = counted;
        if accepted == 0 && refused == 0 {
            return;
        }
        match self.intervals.back_mut() {
            Some(last) if last.from >= from => {
                last.accepted += accepted;
                last.refused += refused;
            }
            _ => self.intervals.push_back(TrafficInterval { from, accepted, refused }),
        }
        if self.intervals.len() > INTERVALS_MAX {
            self.intervals.pop_front();
        }
    }
}

/// When the interval of a time began.
fn interval_of(time: Time) -> Time {
    let length_ms = INTERVAL_S * 1_000;
    Time::from_unix_ms(time.unix_ms().div_euclid(length_ms) * length_ms)
}

/// Every counter and gauge with a finite value.
fn samples(registry: &Registry) -> Vec<MetricSample> {
    let mut samples = Vec::new();
    for family in registry.gather() {
        for metric in family.get_metric() {
            let value = match family.get_field_type() {
                MetricType::COUNTER => metric.get_counter().get_value(),
                MetricType::GAUGE => metric.get_gauge().get_value(),
                MetricType::HISTOGRAM | MetricType::SUMMARY | MetricType::UNTYPED => continue,
            };
            let labels = metric.get_label().iter();
            let labels =
                labels.map(|label| (label.name().to_owned(), label.value().to_owned())).collect();
            if value.is_finite() {
                samples.push(MetricSample { name: family.name().to_owned(), labels, value });
            }
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use payfold_engines::clock::FixedClock;
    use prometheus::{IntCounterVec, register_int_counter_vec_with_registry};

    use super::*;

    #[test]
    fn the_intervals_before_a_silence_stay() {
        let (registry, clock) = (Registry::new(), Arc::new(FixedClock::at(Time::from_unix_ms(0))));
        let requests: IntCounterVec = register_int_counter_vec_with_registry!(
            "payfold_ingest_requests_total",
            "Requests.",
            &["partner", "code"],
            registry
        )
        .unwrap();
        let traffic = Traffic::new(registry, Arc::<FixedClock>::clone(&clock));
        let count = |code: &str, by| requests.with_label_values(&["p", code]).inc_by(by);
        let shown = |traffic: &Traffic| {
            let now = traffic.now();
            let intervals = now.partners[0].intervals.iter();
            let minute = |time: Time| time.unix_ms() / 60_000;
            intervals.map(|one| (minute(one.from), one.accepted, one.refused)).collect::<Vec<_>>()
        };
        count("accepted", 3);
        count("duplicate", 5);
        count("unauthenticated", 1);
        assert_eq!(shown(&traffic), [(0, 3, 1)]);
        clock.set(Time::from_unix_ms(299_000));
        count("accepted", 1);
        assert_eq!(shown(&traffic), [(0, 4, 1)]);
        clock.set(Time::from_unix_ms(7_500_000));
        assert_eq!(shown(&traffic), [(0, 4, 1)], "two hours without a notice");
        count("bad_request", 2);
        assert_eq!(shown(&traffic), [(0, 4, 1), (125, 0, 2)]);
        for at in 1..=INTERVALS_MAX {
            clock.set(Time::from_unix_ms(7_500_000 + 300_000 * i64::try_from(at).unwrap()));
            count("accepted", 1);
            traffic.now();
        }
        assert_eq!((shown(&traffic).len(), shown(&traffic)[0]), (INTERVALS_MAX, (130, 1, 0)));
    }

    #[test]
    fn flags_of_the_last_day_are_counted() {
        let (registry, clock) = (Registry::new(), Arc::new(FixedClock::at(Time::from_unix_ms(0))));
        let raised: IntCounterVec = register_int_counter_vec_with_registry!(
            "payfold_projector_flags_raised_total",
            "Flags.",
            &["flag"],
            registry
        )
        .unwrap();
        let traffic = Traffic::new(registry, Arc::<FixedClock>::clone(&clock));
        // Folded before the first reading.
        raised.with_label_values(&["SECOND_SESSION"]).inc_by(0);
        raised.with_label_values(&["DOUBLE_PAYMENT"]).inc_by(2);
        for hour in 0..=24 {
            clock.set(Time::from_unix_ms(HOUR_MS * hour));
            let expected = BTreeMap::from([("DOUBLE_PAYMENT".to_owned(), 2)]);
            assert_eq!(traffic.now().flags_raised, expected, "{hour}");
        }
        clock.set(Time::from_unix_ms(HOUR_MS * 25));
        assert!(traffic.now().flags_raised.is_empty());
    }
}
