//! Owns the processes of the system as they answer, and what they measure together.

use std::collections::BTreeMap;

use payfold_api::process::{INTERVAL_S, PROCESS, PartnerTraffic, ProcessState, TrafficInterval};
use payfold_schemas::time::Time;
use serde::Serialize;

use crate::client::{CallError, PersonalClient};

/// A partner that is not heard for this time, though it was busy before, is silent: 30 min.
const SILENCE_S: i64 = 1_800;
/// The notices in half an hour that make a partner busy.
const BUSY: u64 = 10;

/// A process, as its admin listener answers.
#[derive(Debug, Serialize)]
pub(crate) struct Process {
    /// The address of its admin listener.
    pub(crate) url: String,
    /// Its state; `None` if it does not answer.
    #[serde(flatten)]
    pub(crate) state: Option<ProcessState>,
    /// Why it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

/// The processes that the console asks.
#[derive(Debug, Serialize)]
pub(crate) struct System {
    pub(crate) processes: Vec<Process>,
}

impl System {
    /// Asks every process. Errors: the session is over.
    pub(crate) async fn read(client: &PersonalClient<'_>) -> Result<Self, CallError> {
        let mut processes = Vec::new();
        for (url, answer) in client.each(&PROCESS).await {
            let url = url.to_owned();
            processes.push(match answer {
                Ok(state) => Process { url, state: Some(state), problem: None },
                Err(CallError::NoSession) => return Err(CallError::NoSession),
                Err(CallError::NoAnswer(why)) => Process { url, state: None, problem: Some(why) },
                Err(CallError::Refused(_, problem)) => {
                    Process { url, state: None, problem: Some(problem.detail) }
                }
            });
        }
        Ok(Self { processes })
    }

    /// The values of a metric, each with its process and a label; empty without the label.
    pub(crate) fn values<'s>(
        &'s self,
        metric: &'s str,
        label: &'s str,
    ) -> impl Iterator<Item = Measured<'s>> {
        let states = self.processes.iter().filter_map(|one| Some((&*one.url, one.state.as_ref()?)));
        states.flat_map(move |(url, state)| {
            let of_metric = state.samples.iter().filter(move |sample| sample.name == metric);
            of_metric.map(move |sample| Measured {
                url,
                label: sample.labels.get(label).map_or("", String::as_str),
                value: sample.value,
            })
        })
    }

    /// The largest value of a metric for each value of a label: several processes measure the same.
    pub(crate) fn largest<'s>(&'s self, metric: &'s str, label: &'s str) -> BTreeMap<&'s str, f64> {
        let mut largest = BTreeMap::new();
        for Measured { label, value, .. } in self.values(metric, label) {
            let known = largest.entry(label).or_insert(value);
            *known = value.max(*known);
        }
        largest
    }

    /// What a process measures of what several measure alike: the largest sum of a metric in one.
    pub(crate) fn total(&self, metric: &str) -> f64 {
        let mut totals = BTreeMap::<&str, f64>::new();
        for Measured { url, value, .. } in self.values(metric, "") {
            *totals.entry(url).or_default() += value;
        }
        totals.into_values().fold(0.0, f64::max)
    }

    /// The sums of a metric of a partner over all processes, by a label, without those that are 0.
    pub(crate) fn of_partner<'s>(
        &'s self,
        metric: &str,
        partner: &str,
        label: &str,
    ) -> BTreeMap<&'s str, f64> {
        let states = self.processes.iter().filter_map(|one| one.state.as_ref());
        let samples = states.flat_map(|state| &state.samples);
        let mut sums = BTreeMap::new();
        for sample in samples.filter(|sample| sample.name == metric && sample.value > 0.0) {
            let of_partner = sample.labels.get("partner").is_some_and(|known| known == partner);
            if let Some(name) = sample.labels.get(label).filter(|_| of_partner) {
                *sums.entry(name.as_str()).or_default() += sample.value;
            }
        }
        sums
    }

    /// The sum of a metric over all processes; `None` if none has it.
    pub(crate) fn sum(&self, metric: &str) -> Option<f64> {
        self.values(metric, "").map(|one| one.value).reduce(|sum, value| sum + value)
    }

    /// The traffic of each partner over all processes.
    pub(crate) fn traffic(&self) -> Vec<PartnerTraffic> {
        let mut partners = BTreeMap::<&str, PartnerTraffic>::new();
        let states = self.processes.iter().filter_map(|one| one.state.as_ref());
        for heard in states.flat_map(|state| &state.partners) {
            let all = partners.entry(&heard.partner).or_default();
            all.partner.clone_from(&heard.partner);
            all.last_accepted = all.last_accepted.max(heard.last_accepted);
            for interval in &heard.intervals {
                add(&mut all.intervals, interval);
            }
        }
        partners.into_values().collect()
    }
}

/// A value of a metric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured<'s> {
    pub(crate) url: &'s str,
    pub(crate) label: &'s str,
    pub(crate) value: f64,
}

/// Adds an interval of another process.
fn add(all: &mut Vec<TrafficInterval>, more: &TrafficInterval) {
    match all.binary_search_by_key(&more.from, |known| known.from) {
        Ok(at) => {
            all[at].accepted += more.accepted;
            all[at].refused += more.refused;
        }
        Err(at) => all.insert(at, *more),
    }
}

/// The seconds since a partner that was busy was heard last; `None` if it is heard, or was not busy
/// before.
pub(crate) fn silent_for(traffic: &PartnerTraffic, now: Time) -> Option<i64> {
    let last = traffic.last_accepted?;
    let silence_s = (now.unix_ms() - last.unix_ms()) / 1_000;
    let since = last.plus_ms(-(SILENCE_S + INTERVAL_S) * 1_000);
    let before = traffic.intervals.iter().filter(|interval| interval.from >= since);
    let heard: u64 = before.map(|interval| interval.accepted).sum();
    (silence_s > SILENCE_S && heard >= BUSY).then_some(silence_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(minute: i64) -> Time {
        Time::from_unix_ms(minute * 60_000)
    }

    fn interval(at: i64, accepted: u64) -> TrafficInterval {
        TrafficInterval { from: minute(at), accepted, refused: 1 }
    }

    fn heard(last: i64, intervals: &[(i64, u64)]) -> PartnerTraffic {
        PartnerTraffic {
            partner: "p".to_owned(),
            last_accepted: Some(minute(last)),
            intervals: intervals.iter().map(|&(at, accepted)| interval(at, accepted)).collect(),
        }
    }

    #[test]
    fn a_busy_partner_that_stops_is_silent() {
        for (intervals, now, silent) in [
            (&[(80, 5), (95, 5)][..], 131, Some(1_860)),
            (&[(80, 5), (95, 5)], 130, None),
            (&[(80, 5), (95, 4)], 131, None),
            (&[(50, 50), (95, 1)], 131, None),
            (&[(95, 10)], 10_000, Some(594_000)),
        ] {
            assert_eq!(silent_for(&heard(100, intervals), minute(now)), silent, "{intervals:?}");
        }
        let never = PartnerTraffic { last_accepted: None, ..heard(0, &[(95, 50)]) };
        assert_eq!(silent_for(&never, minute(10_000)), None);
    }

    #[test]
    fn processes_add_up() {
        let state = |partner: PartnerTraffic| ProcessState {
            version: String::new(),
            roles: Vec::new(),
            started_at: minute(0),
            troubles: Vec::new(),
            partners: vec![partner],
            flags_raised: BTreeMap::new(),
            samples: Vec::new(),
        };
        let process = |state| Process { url: String::new(), state: Some(state), problem: None };
        let system = System {
            processes: vec![
                process(state(heard(10, &[(5, 1), (10, 2)]))),
                process(state(heard(15, &[(0, 4), (10, 8)]))),
            ],
        };
        let [all] = &*system.traffic() else { panic!("one partner") };
        assert_eq!(all.last_accepted, Some(minute(15)));
        let counts: Vec<_> = all.intervals.iter().map(|one| (one.accepted, one.refused)).collect();
        assert_eq!(counts, [(4, 1), (1, 1), (10, 2)]);
    }
}
