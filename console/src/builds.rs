//! Owns the page of projection builds: how far each is, and the forms that start, pause, resume,
//! publish and drop one, each with what will happen.

use actix_web::web::Form;
use actix_web::{Error, HttpResponse};
use maud::{Markup, html};
use payfold_api::call::Nothing;
use payfold_api::rebuild::{
    BUILDS, BuildStatus, Builds, DROP, DropBuild, MovePublication, PAUSE, PaceBuild, RESUME,
    ROLL_BACK, START, SWITCH, StartBuild,
};
use payfold_report::text::{count, whole};
use serde::{Deserialize, Serialize};

use crate::decide::reason_field;
use crate::failure;
use crate::field::lines_of;
use crate::session::Session;
use crate::table::{Head, table};
use crate::text::{age, moment};
use crate::visit::Visit;

/// The path of the page, and of what people send from it.
pub(crate) const BUILDS_PATH: &str = "/builds";

/// What a person does with builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum BuildAction {
    Start,
    Pause,
    Resume,
    Switch,
    RollBack,
    Drop,
}

/// What a form of the page sends.
#[derive(Debug, Deserialize)]
pub(crate) struct BuildFields {
    post_token: String,
    action: BuildAction,
    build: u32,
    reason: String,
    /// Facts a second at most; empty for no limit, or as before.
    #[serde(default)]
    throttle: String,
}

/// What was decided.
#[derive(Debug, Serialize)]
struct DecidedAction {
    action: BuildAction,
    /// What it comes to.
    said: String,
}

impl BuildAction {
    /// The actions on a build in a state.
    fn of(build: &BuildStatus) -> &'static [Self] {
        match (build.state.as_str(), build.was_published) {
            ("building", _) => &[Self::Pause, Self::Drop],
            ("paused", _) | ("failed", false) => &[Self::Resume, Self::Drop],
            ("ready", _) => &[Self::Switch, Self::Drop],
            ("standby", _) => &[Self::RollBack, Self::Drop],
            ("failed", true) => &[Self::Drop],
            _ => &[],
        }
    }

    /// The actions on all of them: a build is started when no other is in the making.
    fn on(all: &Builds) -> Vec<(Self, u32)> {
        let of_each = all
            .builds
            .iter()
            .flat_map(|build| Self::of(build).iter().map(|action| (*action, build.build)));
        let mut actions: Vec<_> = of_each.collect();
        if all.builds.iter().all(|build| build.was_published) {
            actions.push((Self::Start, 0));
        }
        actions
    }

    fn label(self, build: u32) -> String {
        match self {
            Self::Start => "Start a build".to_owned(),
            Self::Pause => format!("Pause build {build}"),
            Self::Resume => format!("Resume build {build}"),
            Self::Switch => format!("Publish from build {build}"),
            Self::RollBack => format!("Go back to build {build}"),
            Self::Drop => format!("Drop build {build}"),
        }
    }

    /// What will happen.
    fn consequence(self) -> &'static str {
        match self {
            Self::Start => {
                "The whole log is folded into new tables, beside live traffic; they need about as \
                 much room as the present ones. Nothing is published from them until you say so."
            }
            Self::Pause => "It stands still until it is resumed. Published orders go on.",
            Self::Resume => "It goes on where it stands, also after an error.",
            Self::Switch | Self::RollBack => {
                "All orders of both builds are compared first. Each that differs gets one event; \
                 shops and topics follow this build then. Events of orders wait for some seconds \
                 for each million orders; notices are taken all the while."
            }
            Self::Drop => "Its tables are deleted for good: it can't be gone back to.",
        }
    }
}

/// Shows the builds.
pub(crate) async fn show(visit: Visit) -> Result<HttpResponse, Error> {
    let builds = visit.call(&BUILDS, &[], &Nothing {}).await?;
    Ok(visit.answer("Builds", &builds, || render(&builds, &visit.session)))
}

fn render(all: &Builds, session: &Session) -> Markup {
    let heads = [
        Head::Text("Build"),
        Head::Text("State"),
        Head::Number("Folded"),
        Head::Number("Behind"),
        Head::Text("Left"),
        Head::Text("Since"),
        Head::Number("Facts a second at most"),
    ];
    let rows = html! {
        @for build in &all.builds {
            tr {
                th scope="row" { (build.build) }
                td {
                    span.badge { (build.state.as_str()) }
                    @if build.drill { small { "a rule is broken on purpose" } }
                    @if let Some(error) = &build.error { small { (whole(error)) } }
                }
                td.num { (count(build.folded)) small { "of " (count(build.of)) } }
                td.num { (count(build.behind())) }
                td { @if let Some(left) = build.seconds_left { (age(left)) } @else { "–" } }
                td { @if let Some(made) = build.made_at { (moment(made)) }
                    @else { "the first start" } }
                td.num { @if let Some(most) = build.throttle { (count(u64::from(most))) }
                    @else { "–" } }
            }
        }
    };
    html! {
        h1 { "Builds" }
        p { "A build is one fold of the whole log into tables of orders. One is published; another \
            is made when a rule of the fold has changed." }
        div #builds data-live { (table("Builds", &heads, &rows)) }
        p.hint { "What can be done is shown as it was when you opened the page." }
        @if session.may(&START) {
            @for (action, build) in BuildAction::on(all) { (action_fields(action, build, session)) }
        }
    }
}

fn action_fields(action: BuildAction, build: u32, session: &Session) -> Markup {
    let label = action.label(build);
    let value = serde_json::to_value(action).unwrap_or_default();
    html! {
        details {
            summary { (label) }
            form.decide method="post" action=(BUILDS_PATH) {
                input type="hidden" name="post_token" value=(session.post_token);
                input type="hidden" name="action" value=(value.as_str().unwrap_or_default());
                input type="hidden" name="build" value=(build);
                fieldset {
                    legend { (label) }
                    p.hint { (action.consequence()) }
                    @if matches!(action, BuildAction::Start | BuildAction::Resume) {
                        label {
                            "Facts a second at most, if it should spare the machine"
                            @if action == BuildAction::Resume { " (empty: as before)" }
                            " " input type="number" name="throttle" min="1";
                        }
                    }
                    (reason_field(""))
                    button type="submit" { (label) }
                }
            }
        }
    }
}

/// Does what a form of the page says.
pub(crate) async fn change(visit: Visit, fields: Form<BuildFields>) -> Result<HttpResponse, Error> {
    visit.assert_own_page(&fields.post_token)?;
    let BuildFields { action, build, reason, throttle, .. } = fields.into_inner();
    let reason = lines_of(&reason);
    let unfit = |said: &str| failure::unfit(&visit.request, said);
    if reason.trim().is_empty() {
        return Err(unfit("There is no reason. Nothing has changed."));
    }
    let throttle = match throttle.trim() {
        "" => None,
        text => Some(text.parse().map_err(|_| unfit("The facts a second are no number."))?),
    };
    // Some calls name no build: they mean the one in the making, which may be another by now.
    let builds = visit.call(&BUILDS, &[], &Nothing {}).await?;
    if !BuildAction::on(&builds).contains(&(action, build)) {
        return Err(unfit(
            "The builds have changed since you saw them. Nothing has changed by you.",
        ));
    }
    let said = match action {
        BuildAction::Start => {
            let request = StartBuild { reason, drill: false, throttle };
            format!("Build {} has started.", visit.call(&START, &[], &request).await?.build)
        }
        BuildAction::Pause => {
            let request = PaceBuild { reason, throttle };
            format!("Build {} is paused.", visit.call(&PAUSE, &[], &request).await?.build)
        }
        BuildAction::Resume => {
            let request = PaceBuild { reason, throttle };
            format!("Build {} goes on.", visit.call(&RESUME, &[], &request).await?.build)
        }
        BuildAction::Switch | BuildAction::RollBack => {
            let call = if action == BuildAction::Switch { &SWITCH } else { &ROLL_BACK };
            let request = MovePublication { reason, build: Some(build), force: false };
            let decided = visit.call(call, &[], &request).await?;
            format!(
                "Build {} is published from now on. Of {} orders {} differ, and each of these gets \
                 an event. The page of builds shows when every partition has followed.",
                decided.publication.build,
                count(decided.tally.orders),
                count(decided.tally.differing)
            )
        }
        BuildAction::Drop => {
            let request = DropBuild { reason, build };
            format!("Build {} is dropped.", visit.call(&DROP, &[], &request).await?.build)
        }
    };
    let decided = DecidedAction { action, said };
    Ok(visit.answer("Builds", &decided, || {
        html! {
            h1 { "Builds" }
            p { (decided.said) }
            p { a href=(BUILDS_PATH) { "Back to the builds" } }
        }
    }))
}
