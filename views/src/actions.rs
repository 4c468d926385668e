//! Owns what people did as rows, the newest first: decisions, comparisons, closed days, bytes read,
//! tokens and builds.

use payfold_engines::EngineError;
use payfold_projector::journal::{JournalEntry, JournalRecord};
use payfold_reconcile::findings_store::ActionFilter;
pub use payfold_reconcile::person_action::{ActionKind, Done, PersonAction};
use payfold_schemas::ids::Author;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ReadError;
use crate::listing::Row;
use crate::reader::Reader;

/// The most actions of one page.
pub const ACTIONS_MAX: usize = 500;

impl Row for PersonAction {
    const COLUMNS: &'static str = "at author done kind on detail reason";
}

/// Which actions to list, the newest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListActions {
    /// Only actions of this person.
    pub author: Option<Author>,
    /// The most actions, 1 to 500.
    pub limit: Option<usize>,
    /// `next` of the previous page.
    pub before: Option<String>,
}

/// A page of actions.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ActionPage {
    /// The actions.
    pub actions: Vec<PersonAction>,
    /// Where the next page starts; absent at the end.
    pub next: Option<String>,
}

impl Reader {
    /// Lists what people did, the newest first. Errors: the log's; `Invalid` for a page that does
    /// not begin where another one ended.
    pub async fn actions(&self, asked: &ListActions) -> Result<ActionPage, ReadError> {
        let limit = asked.limit.unwrap_or(ACTIONS_MAX).clamp(1, ACTIONS_MAX);
        let before = asked.before.as_deref().map(cursor_of).transpose()?;
        let author = asked.author.as_ref();
        // One more says whether there is another page.
        let filter = ActionFilter { author, before, limit: limit + 1 };
        let mut actions = self.ledger(|ledger| Ok(ledger.actions(filter)?)).await?;
        let builds = self.journal.records().await?;
        actions.extend(builds.iter().filter_map(of_build).filter(|action| {
            before.is_none_or(|before| key_of(action) < before)
                && author.is_none_or(|author| action.author.as_ref() == Some(author))
        }));
        actions.sort_by(|one, other| key_of(other).cmp(&key_of(one)));
        let has_more = actions.len() > limit;
        actions.truncate(limit);
        let next = actions.last().filter(|_| has_more).map(|last| {
            let (at, id) = key_of(last);
            format!("{at}-{id}")
        });
        Ok(ActionPage { actions, next })
    }
}

/// Where an action is in the list.
fn key_of(action: &PersonAction) -> (i64, &str) {
    (action.at.unix_nanos(), &action.id)
}

fn cursor_of(text: &str) -> Result<(i64, &str), EngineError> {
    let key = text.split_once('-').and_then(|(at, id)| Some((at.parse().ok()?, id)));
    key.ok_or_else(|| EngineError::Invalid(format!("`{text}` is not the `next` of a page")))
}

/// What the author of a decision about a build did; `None` for what a process did.
pub(crate) fn of_build(record: &JournalRecord) -> Option<PersonAction> {
    let speed = |facts_per_s: Option<u32>| facts_per_s.map(|most| format!("{most} facts/s"));
    let (build, done, detail) = match &record.entry {
        JournalEntry::BuildStarted { build, drill, facts_per_s } => {
            let drill = drill.then(|| "a drill".to_owned());
            (*build, Done::Started, drill.or_else(|| speed(*facts_per_s)))
        }
        JournalEntry::SpeedSet { build, paused, facts_per_s } => {
            let pace = if *paused { "paused" } else { "resumed" };
            let limit = speed(*facts_per_s).map_or(String::new(), |speed| format!(", {speed}"));
            (*build, Done::Paced, Some(format!("{pace}{limit}")))
        }
        JournalEntry::SwitchDecided { publication } => (publication.build, Done::Published, None),
        JournalEntry::DropDecided { build } => (*build, Done::Dropped, None),
        JournalEntry::MarkersWritten { .. } | JournalEntry::TablesDropped { .. } => return None,
    };
    Some(PersonAction {
        id: format!("build/{}", record.request_id),
        at: record.at,
        author: Some(Author::parse(&record.author).ok()?),
        done,
        kind: ActionKind::Build,
        on: build.to_string(),
        detail,
        reason: Some(record.reason.clone()),
    })
}
