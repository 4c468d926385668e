//! Owns the processes of the system as they answer, and what they measure together.

use std::collections::BTreeMap;
use std::time::Duration;

use payfold_api::process::{INTERVAL_S, PROCESS, PartnerTraffic, ProcessState, TrafficInterval};
use payfold_schemas::time::Time;
use serde::Serialize;

use crate::client::{CallError, PersonalClient};

/// A busy partner of which nothing is accepted for this time is silent: 30 min.
const SILENCE_S: i64 = 1_800;
/// The notices in half an hour that make a partner busy.
const BUSY: u64 = 10;

/// A process, as its admin listener answers.
#[derive(Debug, Serialize)]
pub(crate) struct Process {
    /// The address of its admin listener.
    pub(crate) url: String,
    /// Its state; `None` if it does not say.
    #[serde(flatten)]
    pub(crate) state: Option<ProcessState>,
    /// Why it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<ProcessProblem>,
}

/// Why a process does not say how it is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", tag = "problem", content = "detail")]
pub(crate) enum ProcessProblem {
    /// It does not answer.
    NoAnswer(String),
    /// It answers something else.
    Refused(String),
}

#[cfg(test)]
impl Process {
    /// One that works and has these roles.
    pub(crate) fn working(roles: &[&str]) -> Self {
        let state = ProcessState {
            version: "0.1.0".to_owned(),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            started_at: Time::from_unix_ms(0),
            phase: payfold_api::process::ProcessPhase::Working,
            troubles: Vec::new(),
            partners: Vec::new(),
            flags_raised: BTreeMap::new(),
            samples: Vec::new(),
        };
        Self { url: "http://a".to_owned(), state: Some(state), problem: None }
    }

    /// Its state.
    pub(crate) fn state_mut(&mut self) -> &mut ProcessState {
        self.state.as_mut().expect("it says how it is")
    }
}

/// The processes that the console asks.
#[derive(Debug, Serialize)]
pub(crate) struct System {
    pub(crate) processes: Vec<Process>,
}

/// A value of a metric in a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured<'s> {
    pub(crate) url: &'s str,
    labels: &'s BTreeMap<String, String>,
    pub(crate) value: f64,
}

impl<'s> Measured<'s> {
    /// The value of a label; empty without it.
    pub(crate) fn label(&self, label: &str) -> &'s str {
        self.labels.get(label).map_or("", String::as_str)
    }
}

impl System {
    /// Asks every process, which has so long to answer. Errors: the session is over: every process
    /// says that it does not know the person's token.
    pub(crate) async fn read(
        client: &PersonalClient<'_>,
        limit: Duration,
    ) -> Result<Self, CallError> {
        let (mut processes, mut is_over) = (Vec::new(), true);
        for (url, answer) in client.each(&PROCESS, limit).await {
            is_over &= matches!(answer, Err(CallError::NoSession));
            let (state, problem) = match answer {
                Ok(state) => (Some(state), None),
                Err(CallError::NoSession) => {
                    let said = "it does not know your token: its vault is another one".to_owned();
                    (None, Some(ProcessProblem::Refused(said)))
                }
                Err(CallError::NoAnswer(why)) => (None, Some(ProcessProblem::NoAnswer(why))),
                Err(CallError::Refused(_, problem)) => {
                    (None, Some(ProcessProblem::Refused(problem.detail)))
                }
            };
            processes.push(Process { url: url.to_owned(), state, problem });
        }
        if is_over { Err(CallError::NoSession) } else { Ok(Self { processes }) }
    }

    /// The admin listeners of the processes that say how they are.
    pub(crate) fn answering(&self) -> Vec<&str> {
        let answering = self.processes.iter().filter(|process| process.state.is_some());
        answering.map(|process| process.url.as_str()).collect()
    }

    /// The states of the processes that say how they are.
    pub(crate) fn states(&self) -> impl Iterator<Item = &ProcessState> {
        self.processes.iter().filter_map(|process| process.state.as_ref())
    }

    /// How many orders got each critical flag in the last day.
    pub(crate) fn flags_raised(&self) -> BTreeMap<&str, u64> {
        let mut raised = BTreeMap::new();
        for (flag, more) in self.states().flat_map(|state| &state.flags_raised) {
            *raised.entry(&**flag).or_default() += more;
        }
        raised
    }

    /// Whether every process that answers says how it is.
    pub(crate) fn all_say(&self) -> bool {
        let is_refused =
            |process: &Process| matches!(process.problem, Some(ProcessProblem::Refused(_)));
        !self.processes.iter().any(is_refused)
    }

    /// Whether a process that says how it is runs a role.
    pub(crate) fn runs(&self, role: &str) -> bool {
        self.states().any(|state| state.roles.iter().any(|known| known == role))
    }

    /// Whether no process runs a role. One that answers and does not say how it is may run it.
    pub(crate) fn lacks(&self, role: &str) -> bool {
        !self.runs(role) && self.all_say()
    }

    /// The values of a metric.
    pub(crate) fn values<'s>(&'s self, metric: &'s str) -> impl Iterator<Item = Measured<'s>> {
        let states = self.processes.iter().filter_map(|one| Some((&*one.url, one.state.as_ref()?)));
        states.flat_map(move |(url, state)| {
            let of_metric = state.samples.iter().filter(move |sample| sample.name == metric);
            of_metric.map(move |sample| Measured {
                url,
                labels: &sample.labels,
                value: sample.value,
            })
        })
    }

    /// The values of a metric above 0.
    pub(crate) fn raised<'s>(&'s self, metric: &'s str) -> impl Iterator<Item = Measured<'s>> {
        self.values(metric).filter(|measured| measured.value > 0.0)
    }

    /// A metric that several processes measure alike, for each value of a label: its sum in the
    /// process with the largest.
    pub(crate) fn largest<'s>(&'s self, metric: &'s str, label: &str) -> BTreeMap<&'s str, f64> {
        let mut sums = BTreeMap::<_, f64>::new();
        for measured in self.values(metric) {
            *sums.entry((measured.label(label), measured.url)).or_default() += measured.value;
        }
        let mut largest = BTreeMap::new();
        for ((label, _), sum) in sums {
            let known = largest.entry(label).or_insert(sum);
            *known = sum.max(*known);
        }
        largest
    }

    /// The sum of a metric over all processes, for each value of a label, of those above 0 that
    /// fit.
    pub(crate) fn sums<'s>(
        &'s self,
        metric: &'s str,
        label: &str,
        fits: impl Fn(&Measured<'s>) -> bool,
    ) -> BTreeMap<&'s str, f64> {
        let mut sums = BTreeMap::new();
        for measured in self.raised(metric).filter(|measured| fits(measured)) {
            *sums.entry(measured.label(label)).or_default() += measured.value;
        }
        sums
    }

    /// How long the oldest fact of each partition waits to be folded, in seconds.
    pub(crate) fn lags(&self) -> BTreeMap<&str, f64> {
        self.largest("payfold_projector_lag_seconds", "partition")
    }

    /// When the records of each partner were last compared whole, in seconds since 1970.
    pub(crate) fn last_compared(&self) -> BTreeMap<&str, f64> {
        self.largest("payfold_reconciler_last_complete_run_timestamp_seconds", "partner")
    }

    /// The partitions of intake that no projector folds, as far as processes say.
    pub(crate) fn idle_partitions(&self) -> f64 {
        let all = self.largest("payfold_projector_intake_partitions", "");
        let folded: f64 = self.sums("payfold_projector_partitions", "", |_| true).values().sum();
        all.get("").map_or(0.0, |all| (all - folded).max(0.0))
    }

    /// The traffic of each partner over all processes.
    pub(crate) fn traffic(&self) -> Vec<PartnerTraffic> {
        let mut partners = BTreeMap::<&str, PartnerTraffic>::new();
        for heard in self.states().flat_map(|state| &state.partners) {
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

/// How long nothing of a partner was accepted that was busy before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Silence {
    pub(crate) seconds: i64,
    /// The notices that were refused meanwhile.
    pub(crate) refused: u64,
}

impl Silence {
    /// The silence of a partner; `None` if it is heard, or was not busy before.
    pub(crate) fn of(traffic: &PartnerTraffic, now: Time) -> Option<Self> {
        let last = traffic.last_accepted?;
        let seconds = (now.unix_ms() - last.unix_ms()) / 1_000;
        let since = last.plus_ms(-(SILENCE_S + INTERVAL_S) * 1_000);
        let before = traffic.intervals.iter().filter(|interval| interval.from >= since);
        let heard: u64 = before.map(|interval| interval.accepted).sum();
        let after = traffic.intervals.iter().filter(|interval| interval.from > last);
        let refused = after.map(|interval| interval.refused).sum();
        (seconds > SILENCE_S && heard >= BUSY).then_some(Self { seconds, refused })
    }
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
            (&[(80, 5), (95, 5), (105, 0), (110, 0)][..], 131, Some((1_860, 2))),
            (&[(80, 5), (95, 5)], 130, None),
            (&[(80, 5), (95, 4)], 131, None),
            (&[(50, 50), (95, 1)], 131, None),
            (&[(95, 10)], 10_000, Some((594_000, 0))),
        ] {
            let silence = Silence::of(&heard(100, intervals), minute(now));
            let silence = silence.map(|silence| (silence.seconds, silence.refused));
            assert_eq!(silence, silent, "{intervals:?}");
        }
        let never = PartnerTraffic { last_accepted: None, ..heard(0, &[(95, 50)]) };
        assert_eq!(Silence::of(&never, minute(10_000)), None);
    }

    #[test]
    fn processes_add_up() {
        let hears = |partner| {
            let mut process = Process::working(&[]);
            process.state_mut().partners.push(partner);
            process
        };
        let system = System {
            processes: vec![
                hears(heard(10, &[(5, 1), (10, 2)])),
                hears(heard(15, &[(0, 4), (10, 8)])),
            ],
        };
        let [all] = &*system.traffic() else { panic!("one partner") };
        assert_eq!(all.last_accepted, Some(minute(15)));
        let counts: Vec<_> = all.intervals.iter().map(|one| (one.accepted, one.refused)).collect();
        assert_eq!(counts, [(4, 1), (1, 1), (10, 2)]);
    }
}
