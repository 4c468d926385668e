//! The journal over a real store: every process knows each decision once, also after a restart.

use payfold_engines::orders::sqlite::SqliteOrders;
use payfold_schemas::ids::Author;
use payfold_schemas::publication::Publication;
use payfold_schemas::time::Time;

use super::*;

/// A create request as a shop claims it.
const CREATE_REQUESTED: &str = include_str!("../../../schemas/fixtures/create-requested.hex");

fn request(n: u16) -> DecisionRequest {
    let id = format!("01939b1c-7a00-7000-8000-{n:012}");
    DecisionRequest {
        author: Author::parse("ann").unwrap(),
        reason: "a rule was wrong".to_owned(),
        request_id: id.parse().unwrap(),
        at: Time::from_unix_ms(i64::from(n)),
    }
}

fn start_build(known: &Builds) -> Result<JournalEntry, DecideError> {
    Ok(JournalEntry::BuildStarted { build: known.next_build(), drill: false, facts_per_s: None })
}

#[tokio::test]
async fn decisions_are_known_to_every_process_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("orders.db");
    let store: Arc<dyn OrderStore> = Arc::new(SqliteOrders::open(&path).unwrap());
    let (one, other) = (Journal::new(Arc::clone(&store)), Journal::new(Arc::clone(&store)));
    assert_eq!(one.read().await, Ok(Builds::default()));
    one.decide(&request(1), start_build).await.unwrap();
    // The second decision knows the first one, although `other` has read no entry before.
    let known = other.decide(&request(2), start_build).await.unwrap();
    assert_eq!(known.existing().map(|(build, _)| build).collect::<Vec<_>>(), [1, 2, 3]);
    let publication = Publication { build: 2, epoch: 2 };
    other.decide(&request(3), |_| Ok(JournalEntry::SwitchDecided { publication })).await.unwrap();
    one.decide(&request(4), |_| Ok(JournalEntry::DropDecided { build: 3 })).await.unwrap();
    drop((one, other, store));
    for reopened in [
        Arc::new(SqliteOrders::open_read_only(&path).unwrap()),
        Arc::new(SqliteOrders::open(&path).unwrap()),
    ] {
        let known = Journal::new(reopened).read().await.unwrap();
        assert_eq!(
            (known.published(), known.previously_published()),
            (publication, Some(Publication::FIRST))
        );
        assert_eq!(known.unmarked_switch().map(|switch| switch.at), Some(Time::from_unix_ms(3)));
        assert_eq!(known.builds_to_drop().collect::<Vec<_>>(), [3]);
        assert_eq!(known.next_build(), 4, "no number is used twice");
        assert!(known.get(3).is_none() && known.get(2).unwrap().was_published);
    }
}

#[tokio::test]
async fn processes_that_decide_at_once_know_of_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn OrderStore> =
        Arc::new(SqliteOrders::open(dir.path().join("orders.db")).unwrap());
    let journals: Vec<_> = (0..12_u16).map(|n| (n, Journal::new(Arc::clone(&store)))).collect();
    let decided = journals.iter().map(async |(n, journal)| {
        // Only one unpublished build may exist.
        let one = |known: &Builds| match known.existing().count() {
            1 => start_build(known),
            _ => Err(DecideError::Refused("an unpublished build exists".to_owned())),
        };
        journal.decide(&request(*n), one).await
    });
    let decided = futures_util::future::join_all(decided).await;
    let made = decided.iter().filter(|one| one.is_ok()).count();
    assert_eq!(made, 1, "{decided:?}");
    let text = "an unpublished build exists".to_owned();
    let refused =
        |one: &Result<Builds, DecideError>| *one == Err(DecideError::Refused(text.clone()));
    assert_eq!(decided.iter().filter(|one| refused(one)).count(), 11, "{decided:?}");
}

#[test]
fn an_entry_is_read_back_and_other_bytes_are_corrupt() {
    let entry = JournalEntry::BuildStarted { build: 2, drill: true, facts_per_s: Some(5_000) };
    let decided = JournalRecord::new(entry, &request(1));
    let bytes = decided.encode();
    assert_eq!(JournalRecord::decode(1, &bytes), Ok(decided));
    let newer_version = [&[2], &bytes[1..]].concat();
    for bad in [&[][..], &newer_version, &bytes[..9]] {
        assert!(matches!(JournalRecord::decode(1, bad), Err(EngineError::Corrupt(_))), "{bad:?}");
    }
}

/// An earlier version let a shop with the journal's name claim the keys `1` and `3`.
#[tokio::test]
async fn the_journal_skips_claims_that_a_shop_made_under_its_keys() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("orders.db");
    let store: Arc<dyn OrderStore> = Arc::new(SqliteOrders::open(&path).unwrap());
    let create: String = CREATE_REQUESTED.split_whitespace().collect();
    let create = hex::decode(create).unwrap();
    for number in [1, 3] {
        store.claim(ClaimKey::journal_entry(number), create.clone()).await.unwrap();
    }
    let journal = Journal::new(Arc::clone(&store));
    assert_eq!(journal.read().await.map(|known| known.existing().count()), Ok(1));
    journal.decide(&request(1), start_build).await.unwrap();
    journal.decide(&request(2), start_build).await.unwrap();
    let known = Journal::new(Arc::clone(&store)).read().await.unwrap();
    assert_eq!(known.existing().map(|(build, _)| build).collect::<Vec<_>>(), [1, 2, 3]);
    for number in [1, 3] {
        let stays = store.claimed(ClaimKey::journal_entry(number)).await;
        assert_eq!(stays, Ok(Some(create.clone())));
    }
    store.claim(ClaimKey::journal_entry(5), b"neither".to_vec()).await.unwrap();
    let refused = Journal::new(store).read().await;
    assert!(matches!(refused, Err(EngineError::Corrupt(_))), "{refused:?}");
}
