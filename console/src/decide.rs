//! Owns deciding: the form that pages have for it, what it sends, and the page with what came of
//! it. What a person typed stays in the form while something is missing.

use std::collections::BTreeSet;

use actix_web::web::Form;
use actix_web::{Error, HttpResponse};
use maud::{Markup, html};
use payfold_report::text::{isolated, whole};
use payfold_schemas::fact::Verdict;
use payfold_schemas::ids::Author;
use payfold_schemas::order::Severity;
use serde::Serialize;

use crate::choice::Choice;
use crate::failure;
use crate::field::lines_of;
use crate::page::local;
use crate::session::Session;
use crate::subject::{Change, Outcome, Subject};
use crate::text::typed;
use crate::visit::Visit;

/// The path that decisions are sent to.
pub(crate) const DECISIONS: &str = "/decisions";
/// The path that withdrawals are sent to.
pub(crate) const WITHDRAWALS: &str = "/withdrawals";
/// The longest reason, in characters.
const REASON_CHARS: usize = 1_000;
/// What a person reads if a decision was sent and nothing came back.
const NO_ANSWER: &str = "There is no answer, so it may be taken or not: open it before you decide \
    again.";

/// What a person fills in to decide, and where they came from.
#[derive(Debug, Default)]
pub(crate) struct DecisionFields {
    /// What they can choose.
    choices: &'static [Choice],
    /// Whether it takes two people.
    takes_two: bool,
    chosen: Option<Choice>,
    reason: String,
    /// The address of the page that they decide on.
    back: String,
}

impl DecisionFields {
    /// An empty form with these choices, on the page at this address.
    pub(crate) fn on(back: String, choices: &'static [Choice]) -> Self {
        Self { back, choices, ..Self::default() }
    }

    /// The same, to decide something of this severity.
    pub(crate) fn of_severity(self, severity: Severity) -> Self {
        Self { takes_two: severity == Severity::Critical, ..self }
    }

    /// The form's fields, without those that say what is decided.
    pub(crate) fn fields(&self, session: &Session) -> Markup {
        html! {
            input type="hidden" name="post_token" value=(session.post_token);
            input type="hidden" name="back" value=(self.back);
            fieldset {
                @if let [only] = self.choices {
                    legend { "Agree with those that are ticked: " (only.label()) }
                    input type="hidden" name="choice" value=(only.as_str());
                    (reason_field(&self.reason))
                    button type="submit" { "Agree" }
                } @else {
                    legend { "Decide" }
                    @for choice in self.choices {
                        label.choice {
                            input type="radio" name="choice" value=(choice.as_str()) required
                                checked[self.chosen == Some(*choice)];
                            " " (choice.label())
                        }
                    }
                    @if self.choices.contains(&Choice::Accept(Verdict::Ours)) {
                        p.hint {
                            "A decision says which side counts. Of a flag, our record is the order \
                             as it is here; whichever side counts, a critical flag then no longer \
                             keeps its order from being delivered. A decision moves no money: what \
                             has to be given back or claimed, and by whom, belongs into the reason."
                        }
                    }
                    (reason_field(&self.reason))
                    button type="submit" { "Decide" }
                }
            }
        }
    }

    /// The box that ticks all of these.
    pub(crate) fn tick_all(subjects: &[Subject]) -> Markup {
        let all: Vec<_> = subjects.iter().map(Subject::to_string).collect();
        html! {
            @if all.len() > 1 {
                label.choice {
                    input type="checkbox" name="on" value=(all.join(","));
                    " all " (all.len()) " of these"
                }
            }
        }
    }

    /// The form that decides a subject; the author of a first decision takes it back instead.
    pub(crate) fn offered(
        &self,
        subject: &Subject,
        first: Option<&Author>,
        session: &Session,
    ) -> Markup {
        html! {
            @if first == Some(&session.person.name) {
                p { "Another person has to decide the same." }
                (self.withdrawal(subject, session))
            } @else {
                @if let Some(first) = first {
                    p { "If you agree with " (isolated(first.as_str()))
                        ", decide the same: it is final then. Anything else replaces it." }
                } @else if self.takes_two {
                    p.hint { "It takes two people: another person has to decide the same." }
                }
                (self.of(subject, session))
            }
        }
    }

    /// A form that decides one subject.
    fn of(&self, subject: &Subject, session: &Session) -> Markup {
        html! {
            form.decide method="post" action=(DECISIONS) {
                input type="hidden" name="on" value=(subject);
                (self.fields(session))
            }
        }
    }

    /// A form that takes the person's first decision back.
    fn withdrawal(&self, subject: &Subject, session: &Session) -> Markup {
        html! {
            form.decide method="post" action=(WITHDRAWALS) {
                input type="hidden" name="on" value=(subject);
                input type="hidden" name="post_token" value=(session.post_token);
                input type="hidden" name="back" value=(self.back);
                fieldset {
                    legend { "Take your decision back" }
                    (reason_field(&self.reason))
                    button type="submit" { "Take it back" }
                }
            }
        }
    }
}

/// The field for a reason.
pub(crate) fn reason_field(reason: &str) -> Markup {
    html! {
        label {
            "Why, for those who read it later"
            textarea name="reason" required maxlength=(REASON_CHARS) rows="2" { (reason) }
        }
    }
}

/// What came of a request.
#[derive(Debug, Default, Serialize)]
struct Outcomes {
    outcomes: Vec<SubjectOutcome>,
    /// Why nothing was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'static str>,
}

/// What came of one subject.
#[derive(Debug, Serialize)]
struct SubjectOutcome {
    /// Its page.
    path: String,
    /// What a person knows it by.
    on: String,
    #[serde(flatten)]
    outcome: Outcome,
}

impl Outcomes {
    /// Nothing was sent, because of this.
    fn none(missing: &'static str) -> Self {
        Self { outcomes: Vec::new(), missing: Some(missing) }
    }

    fn add(&mut self, subject: &Subject, outcome: Outcome) {
        let (path, on) = (subject.path(), subject.name());
        self.outcomes.push(SubjectOutcome { path, on, outcome });
    }

    fn title(&self) -> String {
        if self.outcomes.iter().any(|one| matches!(one.outcome, Outcome::Withdrawn)) {
            return "Your decision is taken back".to_owned();
        }
        let all = self.outcomes.len();
        let taken = all - self.outcomes.iter().filter(|one| one.is_refused()).count();
        if self.outcomes.iter().any(|one| matches!(one.outcome, Outcome::Unknown)) {
            return format!("{taken} of {all} are taken, of one it is not known");
        }
        let taken = match taken {
            0 => return "Nothing is taken".to_owned(),
            1 if all == 1 => "Your decision is taken".to_owned(),
            taken if taken == all => format!("Your {all} decisions are taken"),
            taken => format!("{taken} of {all} decisions are taken"),
        };
        let waiting = self.outcomes.iter().filter(|one| one.is_waiting()).count();
        match waiting {
            0 => taken,
            waiting => format!("{taken}, {waiting} waiting for a second person"),
        }
    }

    fn list(&self) -> Markup {
        html! {
            ul.outcomes {
                @for SubjectOutcome { path, on, outcome } in &self.outcomes {
                    li {
                        a href=(path) { (on) } ": "
                        @match outcome {
                            Outcome::Decided { author, seconded_by } => {
                                "decided by " (isolated(author))
                                @if let Some(second) = seconded_by { " and " (isolated(second)) }
                            }
                            Outcome::Waits { replaces } => {
                                "waits for a second person"
                                @if let Some(first) = replaces {
                                    ", in place of what " (isolated(first)) " had decided"
                                }
                            }
                            Outcome::Withdrawn => { "taken back; it stays in the history" }
                            Outcome::Refused { detail } => {
                                b { "not taken. " } (whole(detail))
                            }
                            Outcome::Unknown => { b { "perhaps not taken. " } (NO_ANSWER) }
                            Outcome::NotSent => b { "not sent" },
                        }
                    }
                }
            }
        }
    }
}

impl SubjectOutcome {
    /// Whether what follows it is not sent.
    fn is_unanswered(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown | Outcome::NotSent)
    }

    fn is_waiting(&self) -> bool {
        matches!(self.outcome, Outcome::Waits { .. })
    }

    fn is_refused(&self) -> bool {
        matches!(self.outcome, Outcome::Refused { .. } | Outcome::Unknown | Outcome::NotSent)
    }
}

/// The fields of a form as a browser sends them: some of them more than once.
type Fields = Form<Vec<(String, String)>>;

/// What a form sent.
struct Posted {
    post_token: String,
    subjects: Vec<Subject>,
    form: DecisionFields,
}

impl Posted {
    /// Reads what a form sent. A subject that is named twice is decided once. Errors: a field with
    /// a value that no form has.
    fn parse(fields: Vec<(String, String)>) -> Result<Self, &'static str> {
        let (mut names, mut subjects) = (BTreeSet::new(), Vec::new());
        let (mut post_token, mut form) = (String::new(), DecisionFields::default());
        for (field, value) in fields {
            match &*field {
                "post_token" => post_token = value,
                "reason" => form.reason = lines_of(&value),
                "back" => form.back = value,
                "choice" => {
                    form.chosen = Some(Choice::parse(&value).ok_or("there is no such choice")?);
                }
                "on" => {
                    for name in value.split(',') {
                        let subject = Subject::parse(name).ok_or("on names nothing to decide")?;
                        if names.insert(name.to_owned()) {
                            subjects.push(subject);
                        }
                    }
                }
                _ => {}
            }
        }
        form.choices = subjects.first().map_or(&[], Subject::choices);
        Ok(Self { post_token, subjects, form })
    }

    /// Reads what one of the session's own forms sent. Errors: it is another session's, or no form
    /// of the console.
    fn of(visit: &Visit, fields: Fields) -> Result<Self, Error> {
        let posted = Self::parse(fields.into_inner());
        let posted = posted.map_err(|problem| failure::unfit(&visit.request, problem))?;
        visit.assert_own_page(&posted.post_token)?;
        Ok(posted)
    }

    /// Makes a change of every subject, up to the first without an answer. Errors: the session is
    /// over.
    async fn send(&self, visit: &Visit, change: Change) -> Result<HttpResponse, Error> {
        if self.subjects.is_empty() {
            return Ok(self.page(visit, &Outcomes::none("Nothing is ticked.")));
        }
        if self.form.reason.trim().is_empty() {
            return Ok(self.page(visit, &Outcomes::none("There is no reason.")));
        }
        let client = visit.client();
        let mut outcomes = Outcomes::default();
        for subject in &self.subjects {
            let is_over = outcomes.outcomes.iter().any(SubjectOutcome::is_unanswered);
            let outcome = match is_over {
                true => Outcome::NotSent,
                false => match subject.change(&client, change, &self.form.reason).await {
                    Ok(outcome) => outcome,
                    // What was taken before is not to be lost sight of.
                    Err(_) if !outcomes.outcomes.is_empty() => Outcome::NotSent,
                    Err(error) => return Err(failure::failed(&visit.request, &error)),
                },
            };
            outcomes.add(subject, outcome);
        }
        Ok(self.page(visit, &outcomes))
    }

    /// The form with what the person typed.
    fn refilled(&self, visit: &Visit) -> Markup {
        html! {
            @if visit.request.path() == WITHDRAWALS {
                @for subject in &self.subjects {
                    (self.form.withdrawal(subject, &visit.session))
                }
            } @else if !self.subjects.is_empty() {
                form.decide method="post" action=(DECISIONS) {
                    @for subject in &self.subjects {
                        input type="hidden" name="on" value=(subject);
                    }
                    (self.form.fields(&visit.session))
                }
            }
        }
    }

    /// The page with what came of it; with the form again, if nothing was sent.
    fn page(&self, visit: &Visit, outcomes: &Outcomes) -> HttpResponse {
        let title = outcomes.title();
        visit.answer(&title, outcomes, || {
            html! {
                h1 { (title) }
                @if let Some(missing) = outcomes.missing {
                    p.said role="alert" { (missing) " Nothing has changed." }
                    (self.refilled(visit))
                }
                (outcomes.list())
                @if outcomes.outcomes.iter().any(SubjectOutcome::is_refused) {
                    (typed(&self.form.reason))
                }
                p { a href=(local(&self.form.back)) { "Back to where you were" } }
            }
        })
    }
}

/// Decides what a person ticked, one after the other.
pub(crate) async fn decide(visit: Visit, fields: Fields) -> Result<HttpResponse, Error> {
    let posted = Posted::of(&visit, fields)?;
    let Some(choice) = posted.form.chosen else {
        return Ok(posted.page(&visit, &Outcomes::none("Nothing is chosen.")));
    };
    posted.send(&visit, Change::Decide(choice)).await
}

/// Takes a person's first decision back.
pub(crate) async fn withdraw(visit: Visit, fields: Fields) -> Result<HttpResponse, Error> {
    Posted::of(&visit, fields)?.send(&visit, Change::Withdraw).await
}
