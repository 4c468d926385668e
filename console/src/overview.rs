//! Owns the first page: what needs somebody, the figures behind it, and how partners and processes
//! are.

use actix_web::{Error, HttpResponse};
use maud::{Markup, html};
use payfold_api::process::{INTERVAL_S, PartnerTraffic, ProcessPhase, TrafficInterval};
use payfold_api::reads::NOTICES;
use payfold_report::text::{count, isolated, whole};
use payfold_schemas::time::Time;
use payfold_views::quarantine::{ListNotices, NoticePage};
use serde::Serialize;
use tokio::time::timeout;

use crate::alerts::{Alert, Urgency, Watched, path_of_critical};
use crate::client::EACH_MAX;
use crate::failure;
use crate::help::runbook;
use crate::stuck::STUCK_PATH;
use crate::system::{Process, ProcessProblem, Silence, System};
use crate::table::{Head, table};
use crate::text::{age, moment};
use crate::visit::Visit;

/// The intervals of an hour.
const HOUR_INTERVALS: i64 = 3_600 / INTERVAL_S;
/// Notices that are counted for the page.
const NOTICES_MAX: usize = 50;

/// What the page has.
#[derive(Debug, Serialize)]
struct Overview {
    alerts: Vec<Alert>,
    traffic: Vec<PartnerTraffic>,
    #[serde(flatten)]
    system: System,
    #[serde(skip)]
    now: Time,
}

/// Shows how the system is.
pub(crate) async fn show(visit: Visit) -> Result<HttpResponse, Error> {
    let client = visit.client();
    let failed = |error| failure::failed(&visit.request, &error);
    let of_undecided =
        ListNotices { open: true, limit: Some(NOTICES_MAX), ..ListNotices::default() };
    let system = System::read(&client, EACH_MAX).await.map_err(failed)?;
    // A page is no use to anybody who waits for one process that hangs.
    let answering = client.only(&system.answering());
    let notices = timeout(EACH_MAX, answering.call(&NOTICES, &[], &of_undecided)).await;
    let notices: Option<NoticePage> = notices.ok().and_then(Result::ok);
    let now = (visit.console.now)();
    let alerts = Watched { system: &system, notices: notices.as_ref(), now }.alerts();
    let overview = Overview { alerts, traffic: system.traffic(), system, now };
    let title = match overview.alerts.len() {
        0 => "Overview".to_owned(),
        needs => format!("Overview ({needs})"),
    };
    Ok(visit.answer(&title, &overview, || overview.render()))
}

impl Overview {
    fn render(&self) -> Markup {
        html! {
            h1 { "Overview" }
            div #overview data-live {
                (self.needs())
                p.hint { "As of " (moment(self.now)) }
                (self.figures())
                h2 { "Partners" }
                p.hint { "As the processes have counted since each started." }
                (self.partners())
                h2 { "Processes" }
                (self.processes())
            }
        }
    }

    /// What needs somebody.
    fn needs(&self) -> Markup {
        let tone = match self.alerts.first().map(|alert| alert.urgency) {
            Some(Urgency::Page) => "bad",
            Some(Urgency::Ticket) => "open",
            None => "good",
        };
        html! {
            section.verdict.(tone) aria-label="What needs somebody" {
                @if self.alerts.is_empty() {
                    h2 { "Nothing needs anybody now" }
                } @else {
                    h2 { "What needs somebody" }
                    ul.alerts {
                        @for alert in &self.alerts { li { (needed(alert)) } }
                    }
                }
                p.hint { "What shows only over time, Prometheus alone sees: AckSlow, \
                    SignatureFailuresHigh, QuarantineOverBudget, failures that repeat." }
            }
        }
    }

    fn figures(&self) -> Markup {
        // What is none has no series.
        let known = |role: &str, value: String| match self.system.runs(role) {
            true => html! { (value) },
            false => html! { "unknown" small { "no " (role) " says how it is" } },
        };
        let of_reconcilers = |metric: &str| {
            let sum = self.system.largest(metric, "").into_values().sum::<f64>();
            known("reconciler", count(sum as u64))
        };
        let lag = self.system.lags().into_values().reduce(f64::max);
        let is_compared = !self.system.last_compared().is_empty();
        let (mut accepted, mut refused) = (0, 0);
        let named = self.traffic.iter().filter(|traffic| !traffic.partner.is_empty());
        for interval in named.flat_map(|traffic| self.last_hour(traffic)) {
            accepted += interval.accepted;
            refused += interval.refused;
        }
        html! {
            dl.facts {
                div {
                    dt { "Notices of partners in the last hour" }
                    dd {
                        (known("ingest", format!(
                            "{} accepted, {} refused", count(accepted), count(refused)
                        )))
                    }
                }
                div {
                    dt { "Critical flags of the last day" }
                    dd {
                        (known("projector", count(self.system.flags_raised().into_values().sum())))
                        small {
                            a href=(path_of_critical(self.now)) {
                                "orders with an open one"
                            }
                        }
                    }
                }
                div {
                    dt { "Open findings" }
                    dd {
                        a href="/findings" { (of_reconcilers("payfold_reconciler_findings_open")) }
                        small {
                            a href="/findings?status=waiting" {
                                (of_reconcilers("payfold_reconciler_decisions_waiting"))
                                " waiting for a second person"
                            }
                        }
                        @if self.system.runs("reconciler") && !is_compared {
                            small { a href="/days" { "no day was compared whole yet" } }
                        }
                    }
                }
                div {
                    dt { "Facts wait to be folded for" }
                    dd {
                        (known("projector", lag.map_or("not known yet".to_owned(), age)))
                    }
                }
                div {
                    dt { "Unanswered questions to partners" }
                    dd {
                        (of_reconcilers("payfold_reconciler_queries_waiting"))
                        small { a href=(STUCK_PATH) { "all stuck orders" } }
                    }
                }
            }
        }
    }

    fn partners(&self) -> Markup {
        let heads = [
            Head::Text("Partner"),
            Head::Text("Last notice"),
            Head::Number("Accepted in the last hour"),
            Head::Number("Refused"),
            Head::Text("The last hour"),
        ];
        let rows = html! {
            @for traffic in &self.traffic { (self.partner(traffic)) }
        };
        html! {
            @if self.traffic.is_empty() {
                p { "No process that answers receives notices." }
            } @else {
                (table("Partners", &heads, &rows))
            }
        }
    }

    fn partner(&self, traffic: &PartnerTraffic) -> Markup {
        let hour = self.last_hour(traffic);
        let sum = |part: fn(&TrafficInterval) -> u64| count(hour.iter().map(part).sum());
        html! {
            tr {
                th scope="row" {
                    @if traffic.partner.is_empty() { "no known partner" }
                    @else { a href={ "/partners/" (traffic.partner) } { (traffic.partner) } }
                }
                td { (last_notice(traffic, self.now)) }
                td.num { (sum(|interval| interval.accepted)) }
                td.num { (sum(|interval| interval.refused)) }
                td { (self.bars(&hour)) }
            }
        }
    }

    /// The intervals of the last hour.
    fn last_hour(&self, traffic: &PartnerTraffic) -> Vec<TrafficInterval> {
        let first = self.now.plus_ms(-3_600_000);
        traffic.intervals.iter().filter(|interval| interval.from > first).copied().collect()
    }

    /// A bar for each five minutes of the last hour, as high as its notices: refused ones on top.
    fn bars(&self, hour: &[TrafficInterval]) -> Markup {
        let most = hour.iter().map(|one| one.accepted + one.refused).max().unwrap_or(1).max(1);
        let bars = hour.iter().map(|interval| {
            let ago = self.now.nanos_since(interval.from) / 1_000_000_000 / INTERVAL_S;
            let height = |notices: u64| (notices * 20).div_ceil(most);
            let (accepted, refused) = (height(interval.accepted), height(interval.refused));
            ((HOUR_INTERVALS - 1 - ago) * 8, accepted, refused)
        });
        html! {
            svg.bars viewBox="0 0 96 40" width="96" height="40" role="img"
                aria-label="notices by five minutes" {
                @for (x, accepted, refused) in bars {
                    rect.accepted x=(x) y=(40 - accepted) width="7" height=(accepted) {}
                    rect.refused x=(x) y=(40 - accepted - refused) width="7" height=(refused) {}
                }
            }
        }
    }

    fn processes(&self) -> Markup {
        let heads = ["Admin listener", "Version", "Roles", "Up since", "State"].map(Head::Text);
        let rows = html! { @for process in &self.system.processes { (self.process(process)) } };
        table("Processes", &heads, &rows)
    }

    /// A process, with what keeps it from working.
    fn process(&self, process: &Process) -> Markup {
        let halted = [
            ("payfold_projector_partitions_halted", "the projector has halted"),
            ("payfold_reconciler_halted", "the reconciler has ended"),
        ];
        let halted = halted.into_iter().filter(|(metric, _)| {
            self.system.raised(metric).any(|measured| measured.url == process.url)
        });
        html! {
            tr {
                th scope="row" { (isolated(&process.url)) }
                @match (&process.state, &process.problem) {
                    (Some(state), _) => {
                        td { (isolated(&state.version)) }
                        td { (state.roles.join(", ")) }
                        td { (moment(state.started_at)) }
                        td {
                            (phase(state.phase))
                            @for (_, said) in halted {
                                " " span.badge.critical { (said) }
                            }
                            @for trouble in &state.troubles { small { (whole(trouble)) } }
                        }
                    },
                    (None, Some(ProcessProblem::Refused(said))) => td colspan="4" {
                        span.badge.high { "unknown" } " " (whole(said))
                    },
                    (None, problem) => td colspan="4" {
                        span.badge.critical { "does not answer" }
                        @if let Some(ProcessProblem::NoAnswer(why)) = problem { " " (whole(why)) }
                    },
                }
            }
        }
    }
}

/// When a partner was heard last.
pub(crate) fn last_notice(traffic: &PartnerTraffic, now: Time) -> Markup {
    html! {
        @match traffic.last_accepted {
            Some(last) => {
                (age(now.nanos_since(last) as f64 / 1e9)) " ago" small { (moment(last)) }
            },
            None => "none since the processes started",
        }
        @if Silence::of(traffic, now).is_some() { " " span.badge.high { "silent" } }
    }
}

/// One thing that needs somebody.
fn needed(alert: &Alert) -> Markup {
    html! {
        @match alert.urgency {
            Urgency::Page => span.badge.critical { "now" },
            Urgency::Ticket => span.badge.high { "today" },
        }
        " " (whole(&alert.what)) ". "
        b { "Do: " }
        @match &alert.page {
            Some(page) => a href=(page) { (alert.first) },
            None => (alert.first),
        }
        ". " small { @match runbook(alert.name) {
            Some(help) => a href=(help) { (alert.name) },
            None => (alert.name),
        } }
    }
}

fn phase(phase: ProcessPhase) -> Markup {
    html! {
        @match phase {
            ProcessPhase::Starting => span.badge { "starting" },
            ProcessPhase::Working => span.badge.paid { "works" },
            ProcessPhase::Draining => span.badge { "ends" },
            ProcessPhase::Broken => span.badge.critical { "broken" },
        }
    }
}
