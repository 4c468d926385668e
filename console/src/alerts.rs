//! Owns what needs somebody, by the names of the alerts that Prometheus has. The console sees what
//! is so now: alerts on a rate over time are Prometheus' alone.

use std::collections::BTreeMap;

use payfold_report::text::{count, counted};
use payfold_schemas::money::Currency;
use payfold_schemas::time::Time;
use payfold_views::quarantine::NoticePage;
use serde::Serialize;

use crate::orders::ATTENTION;
use crate::system::{Measured, System, silent_for};
use crate::text::{age, amount};

const DAY_S: f64 = 86_400.0;
/// A fold that is behind by more, in seconds, is an alert.
const LAG_MAX_S: f64 = 60.0;
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
    /// Its name in Prometheus.
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
        alerts.extend(self.logs());
        alerts.extend(self.projectors());
        alerts.extend(self.partners());
        alerts.extend(self.capacity());
        alerts.extend(self.money());
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
        for process in &self.system.processes {
            let url = &process.url;
            if let Some(problem) = &process.problem {
                let what = format!("The process at {url} does not answer: {problem}");
                alerts.push(Alert::page("Down", what, "read the last ERROR line of its log"));
            }
            for trouble in process.state.iter().flat_map(|state| &state.troubles) {
                let what = format!("The process at {url} does not work: {trouble}");
                alerts.push(Alert::page("StorageRefusing", what, "run payfold check --connect"));
            }
        }
        let skews = self.system.values("payfold_ingest_own_clock_skew_seconds", "");
        for Measured { url, value, .. } in skews.filter(|skew| skew.value != 0.0) {
            let what = format!("The clock at {url} is off by {value:.0} s, as partners sign times");
            alerts.push(Alert::page("OwnClockOff", what, "run timedatectl on that machine"));
        }
        alerts
    }

    fn logs(&self) -> Vec<Alert> {
        let mut alerts = Vec::new();
        let damaged = self.system.values("payfold_engine_log_damaged_records", "");
        for Measured { url, value, .. } in damaged.filter(|damaged| damaged.value > 0.0) {
            let what = format!("{} records of the log of {url} can't be read", whole(value));
            alerts.push(Alert::page("LogDamaged", what, "run payfold log verify"));
        }
        let verified = self.system.values("payfold_engine_log_verified_timestamp_seconds", "");
        for Measured { url, value, .. } in verified.filter(|verified| verified.value > 0.0) {
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
        let lags = self.system.largest("payfold_projector_lag_seconds", "partition");
        if lags.is_empty() {
            alerts.push(behind("No process that answers folds facts into orders".to_owned()));
        }
        for (partition, lag) in lags.into_iter().filter(|(_, lag)| *lag > LAG_MAX_S) {
            let what = format!("Facts of partition {partition} wait for {} to be folded", age(lag));
            alerts.push(behind(what));
        }
        let halted = self.system.values("payfold_projector_partitions_halted", "");
        for Measured { url, .. } in halted.filter(|halted| halted.value > 0.0) {
            let what = format!("The projector at {url} has halted: its log says at which record");
            alerts.push(behind(what));
        }
        let partitions = self.system.largest("payfold_projector_intake_partitions", "");
        let folded = self.system.sum("payfold_projector_partitions").unwrap_or_default();
        if let Some(idle) = partitions.get("").map(|all| all - folded).filter(|idle| *idle > 0.0) {
            let what =
                format!("No projector that answers folds {} of intake's partitions", whole(idle));
            let first = "see that console.admin_urls names every projector, and that each runs";
            alerts.push(Alert::page("PartitionsIdle", what, first));
        }
        let latest = self.system.sum("payfold_projector_latest_lag_records").unwrap_or_default();
        if latest > LATEST_LAG_MAX {
            let what = format!("orders.latest is {} events behind orders", whole(latest));
            let first = "read the last WARN line about orders.latest in the projectors' logs";
            alerts.push(Alert::ticket("LatestBehind", what, first));
        }
        let failed = self.system.largest("payfold_projector_build_failed", "build");
        for (build, _) in failed.into_iter().filter(|(_, failed)| *failed > 0.0) {
            let what = format!("The rebuild into build {build} has ended with an error");
            alerts.push(Alert::ticket("RebuildFailed", what, "see why").on("/builds"));
        }
        alerts
    }

    fn partners(&self) -> Vec<Alert> {
        let mut alerts = Vec::new();
        for traffic in self.system.traffic() {
            if let Some(seconds) = silent_for(&traffic, self.now) {
                let silence = age(seconds as f64);
                let what =
                    format!("{} was busy, and has sent nothing for {silence}", traffic.partner);
                let first = "ask the partner; see that its notices reach the public listener";
                alerts.push(Alert::page("PartnerSilent", what, first));
            }
        }
        let compared = self
            .system
            .largest("payfold_reconciler_last_complete_run_timestamp_seconds", "partner");
        for (partner, then) in compared {
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

    fn capacity(&self) -> Vec<Alert> {
        let name = "CapacityOrKeyEnding";
        let mut alerts = Vec::new();
        let logs: Vec<_> = self.system.values("payfold_engine_log_bytes", "topic").collect();
        for Measured { url, value, .. } in self.system.values("payfold_engine_disk_free_bytes", "")
        {
            // A log in Kafka is the brokers' to watch.
            let has_log = logs.iter().any(|log| log.url == url && log.label == "intake");
            if has_log && value < DISK_FREE_MIN {
                let what = format!("{:.1} GB are free for the log of {url}", value / 1e9);
                alerts.push(Alert::ticket(name, what, "make room on that disk"));
            }
        }
        let mut ends = BTreeMap::new();
        let covered = "payfold_key_covered_until_timestamp_seconds";
        for Measured { label: partner, value, .. } in self.system.values(covered, "partner") {
            let first = ends.entry(partner).or_insert(value);
            *first = value.min(*first);
        }
        for (partner, until) in ends {
            let left = -self.since(until);
            if left < KEY_END_S {
                let what = match left > 0.0 {
                    true => {
                        format!("The last key of an account at {partner} ends in {}", age(left))
                    }
                    false => format!("The last key of an account at {partner} has ended"),
                };
                alerts.push(Alert::ticket(
                    name,
                    what,
                    "run payfold key list, and add the next key",
                ));
            }
        }
        let stale = self.system.values("payfold_vault_stale", "");
        for Measured { url, .. } in stale.filter(|stale| stale.value > 0.0) {
            let what = format!("The process at {url} can't take the vault's change");
            alerts.push(Alert::ticket(name, what, "run payfold check on that machine"));
        }
        alerts
    }

    fn money(&self) -> Vec<Alert> {
        let mut alerts = Vec::new();
        let at_risk = self.system.largest("payfold_reconciler_money_at_risk_minor", "currency");
        let at_risk = at_risk.into_iter().filter(|(_, minor)| *minor > 0.0);
        let sums: Vec<_> = at_risk
            .map(|(currency, minor)| amount(minor as i64, Currency::parse(currency).ok()))
            .collect();
        if !sums.is_empty() {
            let what = format!("At risk by open findings: {}", sums.join(", "));
            alerts.push(Alert::ticket("MoneyAtRisk", what, "decide them").on("/findings"));
        }
        let flags = self.system.largest("payfold_reconciler_flags_open", "flag");
        let flags = flags.into_iter().filter(|(_, open)| *open > 0.0);
        let flags: Vec<_> = flags.map(|(flag, open)| format!("{} {flag}", whole(open))).collect();
        if !flags.is_empty() {
            let what = format!("Undecided flags of orders on compared days: {}", flags.join(", "));
            let page = "/findings?code=OPEN_FLAG";
            alerts.push(Alert::ticket("OrderFlagsOpen", what, "decide them").on(page));
        }
        alerts.extend(self.raised());
        alerts
    }

    /// The flags of the last day.
    fn raised(&self) -> Option<Alert> {
        let mut raised = BTreeMap::<&str, u64>::new();
        let states = self.system.processes.iter().filter_map(|one| one.state.as_ref());
        for (flag, more) in states.flat_map(|state| &state.flags_raised) {
            *raised.entry(flag).or_default() += more;
        }
        let flags: Vec<_> =
            raised.into_iter().map(|(flag, orders)| format!("{} {flag}", count(orders))).collect();
        let what = format!("Flags that orders got in the last day: {}", flags.join(", "));
        let alert = Alert::ticket("OrderFlagsRaised", what, "see which are still open");
        let since = self.now.plus_ms(-86_400_000).to_rfc3339();
        let page = format!("/orders?flag={ATTENTION}&since={since}");
        (!flags.is_empty()).then(|| alert.on(page))
    }

    fn quarantined(&self) -> Option<Alert> {
        let page = self.notices?;
        let more = if page.next.is_some() { " or more" } else { "" };
        let many = counted(page.notices.len() as u64, "signed notice");
        let what = format!("{many}{more} in quarantine, refused and not decided");
        let alert = Alert::ticket("SignedQuarantine", what, "release or dismiss each");
        (!page.notices.is_empty() || page.next.is_some()).then(|| alert.on("/quarantine"))
    }
}

/// A count that a metric has.
fn whole(value: f64) -> String {
    count(value as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use payfold_api::process::{MetricSample, PartnerTraffic, ProcessState, TrafficInterval};

    use super::*;
    use crate::system::Process;

    const RULES: &str = include_str!("../../deploy/prometheus/alerts.yaml");
    /// Alerts on a rate over time.
    const OVER_TIME: [&str; 3] = ["AckSlow", "SignatureFailuresHigh", "QuarantineOverBudget"];
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
        let state = ProcessState {
            version: "0.1.0".to_owned(),
            roles: Vec::new(),
            started_at: Time::from_unix_ms(0),
            troubles: Vec::new(),
            partners: Vec::new(),
            flags_raised: BTreeMap::new(),
            samples: samples.collect(),
        };
        Process { url: "http://a".to_owned(), state: Some(state), problem: None }
    }

    fn named(processes: Vec<Process>) -> Vec<(&'static str, String)> {
        let system = System { processes };
        let now = Time::from_unix_ms(NOW_MS);
        let alerts = Watched { system: &system, notices: None, now }.alerts();
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
        reconciler_flags_open{flag=DOUBLE_PAYMENT,severity=critical} 0
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
            ("projector_intake_partitions 3", "PartitionsIdle", "folds 2 of intake's"),
            ("projector_latest_lag_records 10001", "LatestBehind", "10,001 events behind"),
            ("projector_build_failed{build=2} 1", "RebuildFailed", "build 2"),
            ("engine_log_damaged_records 2", "LogDamaged", "2 records"),
            ("engine_log_verified_timestamp_seconds 8467199", "LogNotVerified", "2 d 0 h ago"),
            ("ingest_own_clock_skew_seconds -90", "OwnClockOff", "off by -90 s"),
            ("engine_disk_free_bytes 4900000000", "CapacityOrKeyEnding", "4.9 GB are free"),
            (
                "key_covered_until_timestamp_seconds{partner=p,merchant=M,channel=ipn} 8726400",
                "CapacityOrKeyEnding",
                "at p ends in 1 d 0 h",
            ),
            (
                "key_covered_until_timestamp_seconds{partner=p,merchant=M,channel=ipn} 8640000",
                "CapacityOrKeyEnding",
                "at p has ended",
            ),
            ("vault_stale 1", "CapacityOrKeyEnding", "can't take the vault's change"),
            (
                "reconciler_money_at_risk_minor{currency=VND} 5000",
                "MoneyAtRisk",
                "findings: 5,000 VND",
            ),
            (
                "reconciler_flags_open{flag=DOUBLE_PAYMENT,severity=critical} 3",
                "OrderFlagsOpen",
                "on compared days: 3 DOUBLE_PAYMENT",
            ),
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
    fn processes_and_partners_that_are_silent_are_alerts() {
        let mut silent = process(WELL);
        let state = silent.state.as_mut().unwrap();
        state.troubles.push("no space".to_owned());
        let last = Time::from_unix_ms(NOW_MS - 7_200_000);
        state.partners.push(PartnerTraffic {
            partner: "p".to_owned(),
            last_accepted: Some(last),
            intervals: vec![TrafficInterval { from: last, accepted: 10, refused: 0 }],
        });
        let away = Process {
            url: "http://b".to_owned(),
            state: None,
            problem: Some("refused".to_owned()),
        };
        let alerts = named(vec![silent, away]);
        let names: Vec<_> = alerts.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["StorageRefusing", "Down", "PartnerSilent"]);
        assert!(alerts[2].1.contains("nothing for 2 h 0 min"), "{}", alerts[2].1);
        let mut flagged = process(WELL);
        flagged.state.as_mut().unwrap().flags_raised.insert("DOUBLE_PAYMENT".to_owned(), 1);
        let mut other = process("vault_stale 0");
        other.state.as_mut().unwrap().flags_raised.insert("DOUBLE_PAYMENT".to_owned(), 2);
        let raised = named(vec![flagged, other]);
        assert_eq!(raised[0].0, "OrderFlagsRaised");
        assert!(raised[0].1.ends_with("last day: 3 DOUBLE_PAYMENT"), "{raised:?}");
        let none = named(vec![process("vault_stale 0")]);
        assert_eq!(none[0].0, "ProjectorBehindOrHalted", "no process has a projector");
    }

    #[test]
    fn alerts_have_the_names_that_prometheus_has() {
        let rules: BTreeSet<_> =
            RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
        let (own, _) = include_str!("alerts.rs").split_once("mod tests").unwrap();
        for name in rules {
            let is_known = own.contains(&format!("\"{name}\""));
            assert!(is_known || OVER_TIME.contains(&name), "{name}");
        }
    }
}
