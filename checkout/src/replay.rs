//! Owns the answer under a key that was claimed before: from the order, as the first answer was, and without a call.
//! A claim whose C never became durable is repaired here, and its call is never made.

use payfold_partners::directory::Account;
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Create, Fact, Session};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::record::{Parts, Record};

use crate::answer::{Answer, Told};
use crate::checkout::STORAGE_PATIENCE;
use crate::create::{Job, folded};
use crate::metrics::Outcome;
use crate::payment;
use crate::problem::{Problem, kinds};
use crate::request::cleaned;
use crate::rows::Row;

/// What a key was claimed with.
struct Claim {
    key: OrderKey,
    create: Create,
    /// The canonical request.
    request: Vec<u8>,
}

impl Claim {
    fn read(record: &[u8]) -> Result<Self, Problem> {
        let unreadable = |reason: String| {
            tracing::error!(reason, "a claim can't be read");
            Problem::new(&kinds::INTERNAL)
        };
        let record = Record::decode(record).map_err(|error| unreadable(error.to_string()))?;
        match record.parts {
            Parts::Fact(fact) => match fact.fact {
                Fact::CreateRequested(create) => {
                    Ok(Self { key: fact.order, create, request: record.raw })
                }
                other => Err(unreadable(format!("it is a {} fact", other.letter()))),
            },
            Parts::Quarantine(_) => Err(unreadable("it is a quarantined notice".to_owned())),
            Parts::Switch(_) | Parts::Parked(_) => Err(unreadable("it is a marker".to_owned())),
        }
    }
}

impl Job {
    /// Answers from the order of a claim. Errors: the key was used with another body; its call failed.
    pub(crate) async fn replay(self, record: Vec<u8>) -> Result<Answer, Problem> {
        let Claim { key, create, request } = Claim::read(&record)?;
        if request != self.asked.canonical() {
            return Err(Problem::new(&kinds::IDEMPOTENCY_KEY_REUSED));
        }
        if !self.shop.may_see(&key.partner, &key.merchant_code) {
            return Err(Problem::at(&kinds::UNKNOWN_ACCOUNT, "/merchantCode"));
        }
        let checkout = &self.checkout;
        checkout.parts.metrics.created(&key.partner, Outcome::Replayed);
        let digest = create.digest();
        let mut watcher = checkout.watch(&key).ok();
        let row = checkout.row(&key).await?;
        if !row.is_some_and(|row| knows_create(&row, digest)) {
            // Once more is the same as once, and the first time may not have come through.
            checkout.facts.append(&key, record, STORAGE_PATIENCE).await?;
        }
        let settled =
            |row: &Row| session(row, digest).is_some() || !row.facts.create_failures.is_empty();
        let row = match folded(&mut watcher, settled).await {
            Some(row) => Some(row),
            None => checkout.row(&key).await?,
        };
        let row = row.as_ref();
        let told = Told { key: &key, create: &create, row, now: checkout.now() };
        if let Some(session) = row.and_then(|row| session(row, digest)) {
            return Ok(told.created(session, self.sent_description(&key)));
        }
        // A failed call that was paid for all the same is no reason to try anew.
        match row.and_then(|row| payment::failure(row)) {
            Some(code) => Err(Problem::create_failed(code, key.order_id.clone())),
            None => Ok(told.accepted()),
        }
    }

    /// The description as it was sent to the partner.
    fn sent_description(&self, key: &OrderKey) -> String {
        let directory = self.checkout.parts.directory.load();
        let is_its = |account: &&std::sync::Arc<Account>| {
            *account.partner() == key.partner && *account.merchant_code() == key.merchant_code
        };
        let account = directory.accounts().iter().find(is_its);
        let separator = account.and_then(|account| account.profile().text_separator());
        cleaned(&self.asked.description, separator)
    }
}

fn knows_create(row: &Order, digest: Digest) -> bool {
    row.facts.creates.iter().any(|known| known.content.digest() == digest)
}

/// The session that answered this create request.
fn session(row: &Order, digest: Digest) -> Option<&Session> {
    let mut sessions = row.facts.sessions.iter().map(|known| &known.content);
    sessions.find(|session| session.create == digest)
}
