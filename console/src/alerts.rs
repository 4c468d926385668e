//! Owns what needs somebody, by the names of the alerts that Prometheus has. The console sees what
//! is so now: alerts on a rate over time are Prometheus' alone.

use std::collections::BTreeMap;

use payfold_api::process::ProcessPhase;
use payfold_report::text::{count, counted};
use payfold_schemas::money::Currency;
use payfold_schemas::time::Time;
use payfold_views::quarantine::NoticePage;
use serde::Serialize;

use crate::orders::CRITICAL;
use crate::system::{Measured, Process, ProcessProblem, Silence, System};
use crate::text::{age, amount};

/// The name of what the console can't see.
const NOT_WATCHED: &str = "NotWatched";
/// What to do first about critical flags.
const FIND_CRITICAL: &str = "see which are still open, among the orders of the last eight days";
const DAY_S: f64 = 86_400.0;
/// A fold that is behind by more, in seconds, is an alert.
pub(crate) const LAG_MAX_S: f64 = 60.0;
/// A disk with fewer free bytes is an alert.
const DISK_FREE_MIN: f64 = 5e9;
/// A key that ends in less than this time, in seconds, is an alert: 7 days.
const KEY_END_S: f64 = 7.0 * DAY_S;
/// A log that was read whole longer ago, in seconds, is an alert: 2 days.
const VERIFIED_MAX_S: f64 = 2.0 * DAY_S;
/// Records that were compared longer ago, in seconds, are an alert: 36 h.
const COMPARED_MAX_S: f64 = 1.5 * DAY_S;
/// A copy that is behind by more events is an alert.
const LATEST_LAG_MAX: f64 = 10_000.0;

/// How soon somebody is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Urgency {
    /// At once: `severity: page`.
    Page,
    /// Today: `severity: ticket`.
    Ticket,
}

/// Something that needs somebody.
#[derive(Debug, Serialize)]
pub(crate) struct Alert {
    pub(crate) urgency: Urgency,
    /// Its name in Prometheus; `NotWatched` for what the console can't see.
    pub(crate) name: &'static str,
    /// What is so, and where.
    pub(crate) what: String,
    /// What to do first.
    pub(crate) first: &'static str,
    /// The page that shows more.
    pub(crate) page: Option<String>,
}

impl Alert {
    fn page(name: &'static str, what: String, first: &'static str) -> Self {
        Self { urgency: Urgency::Page, name, what, first, page: None }
    }

    fn ticket(name: &'static str, what: String, first: &'static str) -> Self {
        Self { urgency: Urgency::Ticket, ..Self::page(name, what, first) }
    }

    fn on(self, page: impl Into<String>) -> Self {
        Self { page: Some(page.into()), ..self }
    }
}

/// What is watched.
pub(crate) struct Watched<'s> {
    pub(crate) system: &'s System,
    /// Undecided notices in quarantine, the first of them; `None` if they can't be read.
    pub(crate) notices: Option<&'s NoticePage>,
    pub(crate) now: Time,
}

impl Watched<'_> {
    /// Everything that needs somebody, the most urgent first.
    pub(crate) fn alerts(&self) -> Vec<Alert> {
        let mut alerts = self.processes();
        alerts.extend(self.unseen());
        alerts.extend(self.logs());
        alerts.extend(self.projectors());
        alerts.extend(self.reconcilers());
        alerts.extend(self.partners());
        alerts.extend(self.capacity());
        alerts.extend(self.keys());
        alerts.extend(self.at_risk());
        alerts.extend(self.flags());
        alerts.extend(self.flags_raised());
        alerts.extend(self.quarantined());
        alerts.sort_by_key(|alert| alert.urgency);
        alerts
    }

    /// The seconds from a time that a metric has until now.
    fn since(&self, then: f64) -> f64 {
        self.now.unix_ms() as f64 / 1e3 - then
    }

    fn processes(&self) -> Vec<Alert> {
        let mut alerts = Vec::new();
        let skews = "payfold_ingest_own_clock_skew_seconds";
        for Measured { url, value, .. } in self.system.values(skews).filter(|one| one.value != 0.0)
        {
            let what = format!("The clock at {url} is off by {value:.0} s, as partners sign times");
            alerts.push(Alert::page("OwnClockOff", what, "run timedatectl on that machine"));
        }
        for Process { url, state, problem } in &self.system.processes {
            match problem {
                Some(ProcessProblem::NoAnswer(why)) => {
                    let what = format!("The process at {url} does not answer: {why}");
                    let first = "on its machine, see whether it runs; its last ERROR line says why";
                    alerts.push(Alert::page("Down", what, first));
                }
                Some(ProcessProblem::Refused(said)) => {
                    let what = format!("The process at {url} does not say how it is: {said}");
                    let first = "upgrade it, or let it have the vault with people's tokens";
                    alerts.push(Alert::ticket(NOT_WATCHED, what, first));
                }
                None => {}
            }
            let Some(state) = state else { continue };
            if state.phase == ProcessPhase::Broken {
                let what = format!("A role of the process at {url} has ended with an error");
                alerts.push(Alert::page("Down", what, "read the last ERROR line of its log"));
            }
            for trouble in &state.troubles {
                let what = format!("The process at {url} does not work: {trouble}");
                alerts.push(Alert::page("StorageRefusing", what, "run payfold check --connect"));
            }
        }
        alerts
    }

    /// What no process that says how it is has.
    fn unseen(&self) -> Vec<Alert> {
        let mut alerts = Vec::new();
        let mut all = self.system.processes.iter();
        let first = match all.any(|one| matches!(one.problem, Some(ProcessProblem::NoAnswer(_)))) {
            true => "begin with the process above that is down: it may be the one",
            false => "start it; if it runs, its admin listener is missing in console.admin_urls",
        };
        for (role, name, what) in [
            ("ingest", "Down", "takes notices: partners have to send them again"),
            (
                "projector",
                "ProjectorBehindOrHalted",
                "folds notices into orders: they stay as they are, and payers wait. What was \
                 taken is kept",
            ),
            (
                "reconciler",
                "NothingExpires",
                "watches deadlines: nothing expires, no partner is asked, no day is compared",
            ),
        ] {
            if self.system.lacks(role) {
                let what = format!("No process that answers {what}");
                alerts.push(Alert::page(name, what, first));
            }
        }
        if self.system.lacks("projector") {
            let what = "Critical flags can't be counted: no projector says how it is".to_owned();
            let alert = Alert::ticket(NOT_WATCHED, what, FIND_CRITICAL);
            alerts.push(alert.on(path_of_critical(self.now)));
        }
        if self.notices.is_none() {
            let what = "The quarantine can't be read".to_owned();
            alerts.push(Alert::ticket(NOT_WATCHED, what, "open it").on("/quarantine"));
        }
        alerts
    }

    fn logs(&self) -> Vec<Alert> {
        let mut alerts = Vec::new();
        for Measured { url, value, .. } in self.system.raised("payfold_engine_log_damaged_records")
        {
            let what = format!("{} records of the log of {url} can't be read", whole(value));
            alerts.push(Alert::page("LogDamaged", what, "run payfold log verify"));
        }
        let verified = "payfold_engine_log_verified_timestamp_seconds";
        for Measured { url, value, .. } in self.system.raised(verified) {
            let seconds = self.since(value);
            if seconds > VERIFIED_MAX_S {
                let what =
                    format!("The log of {url} was last read to its end {} ago", age(seconds));
                alerts.push(Alert::ticket("LogNotVerified", what, "run payfold check"));
            }
        }
        alerts
    }

    fn projectors(&self) -> Vec<Alert> {
        let mut alerts = Vec::new();
        let behind =
            |what: String| Alert::page("ProjectorBehindOrHalted", what, "run payfold log stats");
        for (partition, lag) in self.system.lags().into_iter().filter(|(_, lag)| *lag > LAG_MAX_S) {
            let what = format!("Facts of partition {partition} wait for {} to be folded", age(lag));
            alerts.push(behind(what));
        }
        for Measured { url, .. } in self.system.raised("payfold_projector_partitions_halted") {
            let what = format!("The projector at {url} has halted: its log says at which record");
            alerts.push(behind(what));
        }
        let idle = self.system.idle_partitions();
        if idle > 0.0 {
            let what =
                format!("No projector that answers folds {} partitions of intake", whole(idle));
            let first = "see that console.admin_urls names every projector, and that each runs";
            alerts.push(Alert::page("PartitionsIdle", what, first));
        }
        let latest = self.system.sums("payfold_projector_latest_lag_records", "", |_| true);
        if let Some(latest) = latest.get("").filter(|latest| **latest > LATEST_LAG_MAX) {
            let what = format!("orders.latest is {} events behind orders", whole(*latest));
            let first = "read the last WARN line about orders.latest in the projectors' logs";
            alerts.push(Alert::ticket("LatestBehind", what, first));
        }
        for failed in self.system.raised("payfold_projector_build_failed") {
            let (url, build) = (failed.url, failed.label("build"));
            let what = format!("The rebuild into build {build} has ended with an error at {url}");
            let first =
                "run payfold rebuild status with its --admin-url; mend, then resume it there";
            alerts.push(Alert::ticket("RebuildFailed", what, first));
        }
        alerts
    }

    fn reconcilers(&self) -> Vec<Alert> {
        let mut alerts = Vec::new();
        for Measured { url, .. } in self.system.raised("payfold_reconciler_halted") {
            let what = format!("The reconciler at {url} has ended with an error: nothing expires");
            let first = "read the last ERROR line of its log; then start it again";
            alerts.push(Alert::page("NothingExpires", what, first));
        }
        for (partner, then) in self.system.last_compared() {
            let seconds = self.since(then);
            if seconds > COMPARED_MAX_S {
                let what =
                    format!("The records of {partner} were last compared {} ago", age(seconds));
                let first = "compare the days that are missing";
                alerts.push(Alert::ticket("RecordsNotCompared", what, first).on("/days"));
            }
        }
        alerts
    }

    /// Partners that are silent: a ticket, because small partners sleep at night. Prometheus, which
    /// knows yesterday, pages.
    fn partners(&self) -> Vec<Alert> {
        let mut alerts = Vec::new();
        for traffic in self.system.traffic() {
            let Some(Silence { seconds, refused }) = Silence::of(&traffic, self.now) else {
                continue;
            };
            let (partner, mut silence) = (&traffic.partner, age(seconds as f64));
            if self.system.processes.iter().any(|process| process.state.is_none()) {
                silence += ", as far as processes answer";
            }
            let page = format!("/partners/{partner}");
            let (what, first) = match refused {
                0 => (
                    format!("{partner} was busy, and nothing of it has come for {silence}"),
                    "see when it was heard last; ask it whether it sends, and try from outside \
                     whether the public listener is reached",
                ),
                refused => (
                    format!(
                        "{partner} was busy, and nothing of it was accepted for {silence}; {} of \
                         its notices were refused",
                        count(refused)
                    ),
                    "see why they were refused",
                ),
            };
            alerts.push(Alert::ticket("PartnerSilent", what, first).on(page));
        }
        alerts
    }

    fn capacity(&self) -> Vec<Alert> {
        let mut alerts = Vec::new();
        for Measured { url, value, .. } in self.system.values("payfold_engine_disk_free_bytes") {
            // A log in Kafka is the brokers' to watch.
            let mut logs = self.system.values("payfold_engine_log_bytes");
            let has_log = logs.any(|log| log.url == url && log.label("topic") == "intake");
            if has_log && value < DISK_FREE_MIN {
                let what = format!("{:.1} GB are free for the log of {url}", value / 1e9);
                alerts.push(Alert::ticket("CapacityOrKeyEnding", what, "make room on that disk"));
            }
        }
        for Measured { url, .. } in self.system.raised("payfold_vault_stale") {
            let what = format!("The process at {url} can't take the vault's change");
            let first = "run payfold check on that machine";
            alerts.push(Alert::ticket("CapacityOrKeyEnding", what, first));
        }
        alerts
    }

    /// Accounts without a key of a channel soon, or now. Every process knows the same.
    fn keys(&self) -> Vec<Alert> {
        let mut ends = BTreeMap::new();
        for covered in self.system.values("payfold_key_covered_until_timestamp_seconds") {
            let of = ["channel", "partner", "merchant"].map(|label| covered.label(label));
            ends.insert(of, covered.value);
        }
        let alerts = ends.into_iter().filter_map(|([channel, partner, merchant], until)| {
            let left = -self.since(until);
            let when = match left > 0.0 {
                true => format!("ends in {}", age(left)),
                false => "has ended".to_owned(),
            };
            let what = format!("The last {channel} key of {partner}/{merchant} {when}");
            let alert = Alert::ticket("CapacityOrKeyEnding", what, "add the next key");
            (left < KEY_END_S).then(|| alert.on(format!("/partners/{partner}")))
        });
        alerts.collect()
    }

    fn at_risk(&self) -> Option<Alert> {
        let at_risk = self.system.largest("payfold_reconciler_money_at_risk_minor", "currency");
        let sums: Vec<_> = (at_risk.into_iter().filter(|(_, minor)| *minor > 0.0))
            .map(|(currency, minor)| amount(minor as i64, Currency::parse(currency).ok()))
            .collect();
        let what = format!("At risk by open findings: {}", sums.join(", "));
        let alert = Alert::ticket("MoneyAtRisk", what, "decide them").on("/findings");
        (!sums.is_empty()).then_some(alert)
    }

    fn flags(&self) -> Option<Alert> {
        let flags = self.system.largest("payfold_reconciler_flags_open", "flag");
        let flags: Vec<_> = (flags.into_iter().filter(|(_, open)| *open > 0.0))
            .map(|(flag, open)| format!("{} {flag}", whole(open)))
            .collect();
        let what = format!("Undecided flags of orders on compared days: {}", flags.join(", "));
        let alert = Alert::ticket("OrderFlagsOpen", what, "decide them");
        (!flags.is_empty()).then(|| alert.on("/findings?code=OPEN_FLAG"))
    }

    /// The critical flags of the last day.
    fn flags_raised(&self) -> Option<Alert> {
        let flags: Vec<_> = (self.system.flags_raised().into_iter())
            .map(|(flag, orders)| format!("{} {flag}", count(orders)))
            .collect();
        let what = format!("Critical flags that orders got in the last day: {}", flags.join(", "));
        let alert = Alert::ticket("OrderFlagsRaised", what, FIND_CRITICAL);
        (!flags.is_empty()).then(|| alert.on(path_of_critical(self.now)))
    }

    fn quarantined(&self) -> Option<Alert> {
        let page = self.notices?;
        let more = if page.next.is_some() { " or more" } else { "" };
        let many = counted(page.notices.len() as u64, "signed notice");
        let (what, first) = match page.notices.is_empty() {
            false => (
                format!("{many}{more} in quarantine, refused and not decided"),
                "release or dismiss each",
            ),
            true => (
                "The oldest notices in quarantine are all decided; newer ones were not counted"
                    .to_owned(),
                "see on the next pages whether one is not",
            ),
        };
        let alert = Alert::ticket("SignedQuarantine", what, first);
        (!page.notices.is_empty() || page.next.is_some()).then(|| alert.on("/quarantine"))
    }
}

/// The list of orders of the last eight days with an open critical flag. Orders are listed by when
/// they were seen first, and may be older than their flags.
pub(crate) fn path_of_critical(now: Time) -> String {
    let since = now.plus_ms(-8 * 86_400_000).to_rfc3339();
    format!("/orders?flag={CRITICAL}&since={since}")
}

/// A count that a metric has.
fn whole(value: f64) -> String {
    count(value as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use payfold_api::process::{MetricSample, PartnerTraffic, TrafficInterval};

    use super::*;
    use crate::system::Process;

    const RULES: &str = include_str!("../../deploy/prometheus/alerts.yaml");
    /// Alerts on a rate over time.
    const OVER_TIME: [&str; 3] = ["AckSlow", "QuarantineOverBudget", "SignatureFailuresHigh"];
    /// 100 days after the epoch.
    const NOW_MS: i64 = 8_640_000_000;

    /// A process that measures this: `name{label=value,…} number`, one a line.
    fn process(measured: &str) -> Process {
        let samples = measured.lines().map(|line| {
            let (name, value) = line.trim().rsplit_once(' ').unwrap();
            let (name, labels) = name.split_once('{').unwrap_or((name, "}"));
            let labels =
                labels.trim_end_matches('}').split(',').filter_map(|one| one.split_once('='));
            let labels = labels.map(|(label, value)| (label.to_owned(), value.to_owned()));
            let value = value.parse().unwrap();
            MetricSample { name: ["payfold", name].join("_"), labels: labels.collect(), value }
        });
        let mut process = Process::working(&["ingest", "projector", "reconciler"]);
        process.state_mut().samples = samples.collect();
        process
    }

    fn named(processes: Vec<Process>) -> Vec<(&'static str, String)> {
        let system = System { processes };
        let now = Time::from_unix_ms(NOW_MS);
        let notices = Some(&NoticePage::default());
        let alerts = Watched { system: &system, notices, now }.alerts();
        alerts.into_iter().map(|alert| (alert.name, alert.what)).collect()
    }

    const WELL: &str = "projector_lag_seconds{partition=0} 60
        projector_intake_partitions 1
        projector_partitions 1
        projector_partitions_halted 0
        projector_latest_lag_records 10000
        projector_build_failed{build=2} 0
        engine_log_damaged_records 0
        engine_log_verified_timestamp_seconds 0
        ingest_own_clock_skew_seconds 0
        engine_log_bytes{topic=intake} 1
        engine_disk_free_bytes 5000000000
        key_covered_until_timestamp_seconds{partner=p,merchant=M,channel=ipn} 9244801
        key_covered_until_timestamp_seconds{partner=p,merchant=M,channel=create} 99999999
        vault_stale 0
        reconciler_money_at_risk_minor{currency=VND} 0
        reconciler_flags_open{flag=PARTIAL_REFUND,severity=high} 0
        reconciler_flags_open{flag=PARTIAL_REFUND,severity=critical} 0
        reconciler_halted 0
        reconciler_last_complete_run_timestamp_seconds{partner=p} 8510400";

    #[test]
    fn each_measure_that_needs_somebody_is_one_alert() {
        assert_eq!(named(vec![process(WELL)]), []);
        for (line, name, what) in [
            (
                "projector_lag_seconds{partition=0} 61",
                "ProjectorBehindOrHalted",
                "partition 0 wait",
            ),
            ("projector_partitions_halted 1", "ProjectorBehindOrHalted", "http://a has halted"),
            ("projector_intake_partitions 3", "PartitionsIdle", "folds 2 partitions"),
            ("projector_latest_lag_records 10001", "LatestBehind", "10,001 events behind"),
            ("projector_build_failed{build=2} 1", "RebuildFailed", "build 2"),
            ("engine_log_damaged_records 2", "LogDamaged", "2 records"),
            ("engine_log_verified_timestamp_seconds 8467199", "LogNotVerified", "2 d 0 h ago"),
            ("ingest_own_clock_skew_seconds -90", "OwnClockOff", "off by -90 s"),
            ("engine_disk_free_bytes 4900000000", "CapacityOrKeyEnding", "4.9 GB are free"),
            (
                "key_covered_until_timestamp_seconds{partner=p,merchant=M,channel=ipn} 8726400",
                "CapacityOrKeyEnding",
                "The last ipn key of p/M ends in 1 d 0 h",
            ),
            (
                "key_covered_until_timestamp_seconds{partner=p,merchant=M,channel=ipn} 8640000",
                "CapacityOrKeyEnding",
                "The last ipn key of p/M has ended",
            ),
            ("vault_stale 1", "CapacityOrKeyEnding", "can't take the vault's change"),
            (
                "reconciler_money_at_risk_minor{currency=VND} 5000",
                "MoneyAtRisk",
                "findings: 5,000 VND",
            ),
            (
                "reconciler_flags_open{flag=PARTIAL_REFUND,severity=critical} 3",
                "OrderFlagsOpen",
                "on compared days: 3 PARTIAL_REFUND",
            ),
            ("reconciler_halted 1", "NothingExpires", "nothing expires"),
            (
                "reconciler_last_complete_run_timestamp_seconds{partner=p} 8510399",
                "RecordsNotCompared",
                "of p were last compared 1 d 12 h ago",
            ),
        ] {
            let (measure, _) = line.rsplit_once(' ').unwrap();
            let lines =
                WELL.lines().filter(|well| !well.trim().starts_with(&format!("{measure} ")));
            let measured: Vec<_> = lines.chain([line]).collect();
            let alerts = named(vec![process(&measured.join("\n"))]);
            let [(found, said)] = &*alerts else { panic!("{line}: {alerts:?}") };
            assert!(*found == name && said.contains(what), "{line}: {found}: {said}");
        }
    }

    #[test]
    fn processes_that_do_not_work_or_say_so_are_alerts() {
        let mut full = process(WELL);
        full.state_mut().troubles.push("no space".to_owned());
        let away = Process {
            url: "http://b".to_owned(),
            state: None,
            problem: Some(ProcessProblem::NoAnswer("refused".to_owned())),
        };
        let old = Process {
            url: "http://c".to_owned(),
            state: None,
            problem: Some(ProcessProblem::Refused("nothing at this path".to_owned())),
        };
        let alerts = named(vec![full, away, old]);
        let names: Vec<_> = alerts.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["StorageRefusing", "Down", "NotWatched"]);
        for (phase, names) in [
            (ProcessPhase::Starting, &[][..]),
            (ProcessPhase::Draining, &[]),
            (ProcessPhase::Broken, &["Down"]),
        ] {
            let mut one = process(WELL);
            one.state_mut().phase = phase;
            let alerts = named(vec![one]);
            let found: Vec<_> = alerts.iter().map(|(name, _)| *name).collect();
            assert_eq!(found, names, "{phase:?}");
        }
        let mut wrong = process("ingest_own_clock_skew_seconds 90");
        wrong.state_mut().troubles.push("the clock is off".to_owned());
        let alerts = named(vec![wrong]);
        let names: Vec<_> = alerts.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["OwnClockOff", "StorageRefusing"], "the disk may be full, too");
        let refused = Some(ProcessProblem::Refused("it does not know your token".to_owned()));
        let [(name, _)] = &*named(vec![Process { state: None, problem: refused, ..process("") }])
        else {
            panic!("it may have every role")
        };
        assert_eq!(*name, "NotWatched");
        let none = named(vec![Process { state: None, ..process("vault_stale 0") }]);
        let names: Vec<_> = none.iter().map(|(name, _)| *name).collect();
        let unseen = ["Down", "ProjectorBehindOrHalted", "NothingExpires", "NotWatched"];
        assert_eq!(names, unseen, "{none:?}");
    }

    #[test]
    fn a_busy_partner_that_stops_is_an_alert() {
        let last = Time::from_unix_ms(NOW_MS - 7_200_000);
        let silent = |refused| {
            let mut silent = process(WELL);
            let intervals = [(last, 10, 0), (last.plus_ms(3_600_000), 0, refused)];
            silent.state_mut().partners.push(PartnerTraffic {
                partner: "p".to_owned(),
                last_accepted: Some(last),
                intervals: intervals
                    .map(|(from, accepted, refused)| TrafficInterval { from, accepted, refused })
                    .to_vec(),
            });
            silent
        };
        for (refused, what) in [
            (0, "p was busy, and nothing of it has come for 2 h 0 min"),
            (3, "nothing of it was accepted for 2 h 0 min; 3 of its notices were refused"),
        ] {
            let [(name, said)] = &*named(vec![silent(refused)]) else { panic!("{refused}") };
            assert!(*name == "PartnerSilent" && said.contains(what), "{said}");
        }
        let away = Process { state: None, ..process(WELL) };
        let [(_, said)] = &*named(vec![silent(0), away]) else { panic!("it may be the other's") };
        assert!(said.ends_with("as far as processes answer"), "{said}");
    }

    #[test]
    fn processes_count_together() {
        let mut flagged = process(WELL);
        flagged.state_mut().flags_raised.insert("DOUBLE_PAYMENT".to_owned(), 1);
        let mut other = process(
            "reconciler_flags_open{flag=PARTIAL_REFUND,severity=high} 5
            reconciler_flags_open{flag=PARTIAL_REFUND,severity=critical} 3",
        );
        other.url = "http://b".to_owned();
        other.state_mut().flags_raised.insert("DOUBLE_PAYMENT".to_owned(), 2);
        let [(_, open), (_, raised)] = &*named(vec![flagged, other]) else { panic!("two") };
        assert!(open.ends_with("on compared days: 8 PARTIAL_REFUND"), "{open}");
        assert!(raised.ends_with("in the last day: 3 DOUBLE_PAYMENT"), "{raised}");
    }

    #[test]
    fn the_quarantine_is_counted_as_far_as_it_was_read() {
        let system = System { processes: vec![process(WELL)] };
        let now = Time::from_unix_ms(NOW_MS);
        let next = |next: &str| NoticePage { next: Some(next.to_owned()), ..Default::default() };
        for (notices, what) in [
            (None, "The quarantine can't be read"),
            (Some(next("0-1")), "The oldest notices in quarantine are all decided"),
        ] {
            let alerts = Watched { system: &system, notices: notices.as_ref(), now }.alerts();
            assert!(alerts[0].what.contains(what), "{alerts:?}");
        }
    }

    #[test]
    fn alerts_have_the_names_that_prometheus_has() {
        let rules: BTreeSet<_> =
            RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
        let (own, _) = include_str!("alerts.rs").split_once("mod tests").unwrap();
        let made_by = |call: &str| -> BTreeSet<_> {
            let made = own.split(call).skip(1);
            made.filter_map(|call| call.trim_start().strip_prefix('"')?.split('"').next()).collect()
        };
        let (pages, tickets) = (made_by("Alert::page("), made_by("Alert::ticket("));
        let made: BTreeSet<_> = pages.union(&tickets).copied().collect();
        let missing: Vec<_> = rules.difference(&made).copied().collect();
        assert_eq!(missing, OVER_TIME);
        assert!(made.is_subset(&rules), "{made:?}");
        for rule in RULES.split("- alert: ").skip(1) {
            let name = rule.lines().next().unwrap();
            let is_page = rule.contains("severity: page");
            let is_alike = pages.contains(name) == is_page && tickets.contains(name) != is_page;
            assert!(is_alike || OVER_TIME.contains(&name) || name == "PartnerSilent", "{name}");
        }
    }
}
