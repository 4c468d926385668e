//! Owns whether orders are up to date: what is said above them while notices wait to be folded.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use actix_web::Error;
use futures_util::future;
use maud::{Markup, html};
use payfold_api::call::Call;
use payfold_schemas::time::Time;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::alerts::LAG_MAX_S;
use crate::system::System;
use crate::text::age;
use crate::visit::Visit;

/// That orders are up to date is asked for anew after this time.
const KEPT_MS: i64 = 5_000;
/// Anything else is, after this time.
const KEPT_STALE_MS: i64 = 1_000;
/// A page does not wait longer for a process that hangs. One that only reads its log slowly answers
/// within 3 s.
const ASKED_MAX: Duration = Duration::from_secs(4);

/// How orders stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    UpToDate,
    /// Nothing folds a part of them.
    Partly,
    /// Nothing folds, as far as processes answer.
    Stopped,
    /// The oldest notice that waits has waited for so many seconds.
    Behind(u64),
}

/// How orders stood a moment ago, for everybody.
#[derive(Default)]
pub(crate) struct LastFreshness(Mutex<Option<(Time, Freshness)>>);

impl Freshness {
    fn of(system: &System) -> Self {
        let lags = system.lags();
        let has_halted = system.raised("payfold_projector_partitions_halted").next().is_some();
        let is_unfolded = lags.is_empty() || system.idle_partitions() > 0.0;
        let lag = lags.into_values().fold(0.0, f64::max);
        if system.lacks("projector") {
            Self::Stopped
        } else if has_halted || (is_unfolded && system.all_say()) {
            Self::Partly
        } else if lag > LAG_MAX_S {
            Self::Behind(lag as u64)
        } else {
            Self::UpToDate
        }
    }

    /// What pages of orders begin with; nothing while they are up to date.
    pub(crate) fn render(&self) -> Markup {
        let (tone, said) = match self {
            Self::UpToDate => return html! {},
            Self::Partly => (
                "bad",
                "A part of the orders is not up to date: no projector that answers folds notices \
                 into it now. What came since is missing there, and is kept."
                    .to_owned(),
            ),
            Self::Stopped => (
                "bad",
                "Orders are not up to date: nothing that answers folds notices into them now. What \
                 came since is missing here, and is kept."
                    .to_owned(),
            ),
            Self::Behind(seconds) => (
                "open",
                format!(
                    "Orders are not up to date: notices of the last {} are not in them yet.",
                    age(*seconds as f64)
                ),
            ),
        };
        html! {
            section.verdict.(tone) role="alert" { p { (said) " " a href="/" { "Overview" } } }
        }
    }
}

impl Visit {
    /// Makes a call about orders with the person's token; the answer, and how orders stand. Errors:
    /// the page that says why there is no answer.
    pub(crate) async fn call_of_orders<Q: Serialize, A: DeserializeOwned>(
        &self,
        call: &Call<Q, A>,
        names: &[&str],
        request: &Q,
    ) -> Result<(A, Freshness), Error> {
        let (answer, freshness) =
            future::join(self.call(call, names, request), self.freshness()).await;
        Ok((answer?, freshness))
    }

    /// How orders stand.
    async fn freshness(&self) -> Freshness {
        let now = (self.console.now)();
        let last = &self.console.freshness.0;
        let known = last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((at, known)) = known {
            let kept_ms = if known == Freshness::UpToDate { KEPT_MS } else { KEPT_STALE_MS };
            if now.unix_ms() - at.unix_ms() < kept_ms {
                return known;
            }
        }
        // The page's own call says that a session is over.
        let Ok(system) = System::read(&self.client(), ASKED_MAX).await else {
            return Freshness::UpToDate;
        };
        let found = Freshness::of(&system);
        // What one process keeps from this person may be known to the next one.
        if system.all_say() {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, found.clone()));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use payfold_api::process::MetricSample;

    use super::*;
    use crate::system::{Process, ProcessProblem};

    fn process(roles: &[&str], samples: &[(&str, f64)]) -> Process {
        let sample = |&(name, value): &(&str, f64)| MetricSample {
            name: name.to_owned(),
            labels: BTreeMap::new(),
            value,
        };
        let mut process = Process::working(roles);
        process.state_mut().samples = samples.iter().map(sample).collect();
        process
    }

    #[test]
    fn orders_are_up_to_date_while_a_projector_keeps_up() {
        let lag = "payfold_projector_lag_seconds";
        let halted = "payfold_projector_partitions_halted";
        let all = "payfold_projector_intake_partitions";
        let own = "payfold_projector_partitions";
        let refused = Some(ProcessProblem::Refused("another vault".to_owned()));
        let silent = Process { state: None, problem: refused, ..process(&[], &[]) };
        let away = ProcessProblem::NoAnswer("refused".to_owned());
        let away = Process { state: None, problem: Some(away), ..process(&[], &[]) };
        for (processes, freshness) in [
            (vec![process(&["projector"], &[(lag, 2.0)])], Freshness::UpToDate),
            (vec![process(&["projector"], &[(lag, 90.0)])], Freshness::Behind(90)),
            (vec![process(&["projector"], &[(halted, 1.0)])], Freshness::Partly),
            (vec![process(&["projector"], &[])], Freshness::Partly),
            (
                vec![process(&["projector"], &[(lag, 2.0), (all, 3.0), (own, 3.0)])],
                Freshness::UpToDate,
            ),
            (
                vec![process(&["projector"], &[(lag, 2.0), (all, 3.0), (own, 2.0)])],
                Freshness::Partly,
            ),
            (vec![process(&["ingest"], &[])], Freshness::Stopped),
            (vec![process(&["ingest"], &[]), away], Freshness::Stopped),
            (vec![process(&["ingest"], &[]), silent], Freshness::UpToDate),
        ] {
            let system = System { processes };
            assert_eq!(Freshness::of(&system), freshness, "{system:?}");
        }
    }
}
