//! Owns the answer to a request with a key that was claimed before. The answer shows the order as
//! it is now, and no call is made. If the claim's `CreateRequested` never became durable, it is
//! appended here, and its call is never made.

use payfold_partners::directory::Account;
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Create, Fact, Session};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::record::{Parts, Record};

use crate::answer::CreateAnswer;
use crate::checkout::STORAGE_TIMEOUT;
use crate::create::{CreateJob, wait_for_row};
use crate::metrics::CreateResult;
use crate::payment::{self, AttemptView};
use crate::payment_request::clean_description;
use crate::problem::{Problem, kinds};
use crate::rows::OrderRow;

/// The create request that a key was claimed for.
struct ClaimedCreate {
    key: OrderKey,
    create: Create,
    /// The canonical bytes of the shop's request.
    request: Vec<u8>,
}

impl ClaimedCreate {
    fn decode(record: &[u8]) -> Result<Self, Problem> {
        let unreadable = |reason: String| {
            tracing::error!(reason, "a claim can't be read: its create request is answered 500");
            Problem::new(&kinds::INTERNAL)
        };
        let record = Record::decode(record).map_err(|error| unreadable(error.to_string()))?;
        match record.parts {
            Parts::Fact(fact) => match fact.fact {
                Fact::CreateRequested(create) => {
                    Ok(Self { key: fact.order, create, request: record.raw })
                }
                other => Err(unreadable(format!("it is a {} fact", other.kind()))),
            },
            Parts::Quarantine(_) => Err(unreadable("it is a quarantined notice".to_owned())),
            Parts::Switch(_) | Parts::Parked(_) | Parts::ParkingProposed(_) => {
                Err(unreadable("it is a marker".to_owned()))
            }
        }
    }
}

impl CreateJob {
    /// Answers from the order of a claim. Errors: `idempotency_key_reused`, for another body;
    /// `unknown_account`, where the shop no longer sees the order's account; the failure of its
    /// call; `storage_unavailable`; `internal_error`, where the claim can't be read.
    pub(crate) async fn replay(self, record: Vec<u8>) -> Result<CreateAnswer, Problem> {
        let ClaimedCreate { key, create, request } = ClaimedCreate::decode(&record)?;
        if request != self.wanted.canonical_bytes() {
            return Err(Problem::new(&kinds::IDEMPOTENCY_KEY_REUSED));
        }
        if !self.shop.may_see(&key.partner, &key.merchant_code) {
            return Err(Problem::at_field(&kinds::UNKNOWN_ACCOUNT, "/merchantCode"));
        }
        let checkout = &self.checkout;
        checkout.parts.metrics.count_create(&key.partner, CreateResult::Replayed);
        let digest = create.digest();
        let mut watcher = checkout.watch_row(&key).ok();
        let row = checkout.load_row(&key).await?;
        if !row.is_some_and(|row| has_create(&row, digest)) {
            // The first append may have failed. If it succeeded, the fold ignores the second.
            checkout.fact_log.append_within(STORAGE_TIMEOUT, &key, record).await?;
        }
        let settled = |row: &OrderRow| {
            session_of(row, digest).is_some() || !row.facts.create_failures.is_empty()
        };
        let row = match wait_for_row(&mut watcher, settled).await {
            Some(row) => Some(row),
            None => checkout.load_row(&key).await?,
        };
        let (row, now, sent) = (row.as_ref(), checkout.now(), self.sent_description(&key));
        let view = AttemptView { key: &key, create: &create, description: &sent, row, now };
        if let Some(session) = row.and_then(|row| session_of(row, digest)) {
            return Ok(CreateAnswer::created(&view, session));
        }
        // If the order was paid although the call failed, the shop must not make a new attempt.
        match row.and_then(|row| payment::failure_code(row)) {
            Some(code) => Err(Problem::create_failed(code, key.order_id.clone())),
            None => Ok(CreateAnswer::accepted(&view)),
        }
    }

    /// The description as it was sent to the partner.
    fn sent_description(&self, key: &OrderKey) -> String {
        let directory = self.checkout.parts.directory.load();
        let is_same = |account: &&std::sync::Arc<Account>| {
            *account.partner() == key.partner && *account.merchant_code() == key.merchant_code
        };
        let account = directory.accounts().iter().find(is_same);
        let separator = account.and_then(|account| account.profile().text_separator());
        clean_description(&self.wanted.description, separator)
    }
}

fn has_create(row: &Order, digest: Digest) -> bool {
    row.facts.creates.iter().any(|known| known.content.digest() == digest)
}

/// The session that the partner opened for this create request.
fn session_of(row: &Order, digest: Digest) -> Option<&Session> {
    let mut sessions = row.facts.sessions.iter().map(|known| &known.content);
    sessions.find(|session| session.create == digest)
}
