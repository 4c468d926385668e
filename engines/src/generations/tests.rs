//! The journal over a real store: what is decided is known to everybody, once, and after opening again.

use super::*;
use crate::orders::sqlite::SqliteOrders;
use payfold_schemas::publication::Publication;

/// A create request as a shop claims it.
const CREATE_REQUESTED: &str = include_str!("../../../schemas/fixtures/create-requested.hex");

fn asked(n: u16) -> Asked {
    let id = format!("01939b1c-7a00-7000-8000-{n:012}");
    Asked {
        author: Author::parse("ann").unwrap(),
        reason: "a rule was wrong".to_owned(),
        request_id: id.parse().unwrap(),
        at: Time::from_unix_ms(i64::from(n)),
    }
}

fn make(known: &Generations) -> Result<Entry, String> {
    Ok(Entry::Made { tables: known.next_tables(), drill: false, facts_per_s: None })
}

#[tokio::test]
async fn what_is_decided_is_known_everywhere_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("orders.db");
    let store: Arc<dyn OrderStore> = Arc::new(SqliteOrders::open(&path).unwrap());
    let (one, other) = (Journal::new(Arc::clone(&store)), Journal::new(Arc::clone(&store)));
    assert_eq!(one.read().await, Ok(Generations::default()));
    one.decide(&asked(1), make).await.unwrap();
    // Decided knowing the first, though this journal has not read it.
    let known = other.decide(&asked(2), make).await.unwrap();
    assert_eq!(known.existing().map(|(tables, _)| tables).collect::<Vec<_>>(), [1, 2, 3]);
    let publication = Publication { tables: 2, number: 2 };
    other.decide(&asked(3), |_| Ok(Entry::Switched { publication })).await.unwrap();
    one.decide(&asked(4), |_| Ok(Entry::Dropped { tables: 3 })).await.unwrap();
    drop((one, other, store));
    for again in [
        Arc::new(SqliteOrders::open_read_only(&path).unwrap()),
        Arc::new(SqliteOrders::open(&path).unwrap()),
    ] {
        let known = Journal::new(again).read().await.unwrap();
        assert_eq!((known.told(), known.told_before()), (publication, Some(Publication::FIRST)));
        assert_eq!(known.unmarked().map(|switch| switch.at), Some(Time::from_unix_ms(3)));
        assert_eq!(known.leaving().collect::<Vec<_>>(), [3]);
        assert_eq!(known.next_tables(), 4, "numbers are not used twice");
        assert!(known.get(3).is_none() && known.get(2).unwrap().was_told);
    }
}

#[tokio::test]
async fn of_many_that_decide_at_once_each_knows_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn OrderStore> =
        Arc::new(SqliteOrders::open(dir.path().join("orders.db")).unwrap());
    let journals: Vec<_> = (0..12_u16).map(|n| (n, Journal::new(Arc::clone(&store)))).collect();
    let decided = journals.iter().map(async |(n, journal)| {
        // Only one may be in the making.
        let one = |known: &Generations| match known.existing().count() {
            1 => make(known),
            _ => Err("one is in the making".to_owned()),
        };
        journal.decide(&asked(*n), one).await
    });
    let decided = futures_util::future::join_all(decided).await;
    let made = decided.iter().filter(|one| one.is_ok()).count();
    assert_eq!(made, 1, "{decided:?}");
    let refused = |one: &Result<Generations, DecideError>| matches!(one, Err(DecideError::Refused(text)) if text == "one is in the making");
    assert_eq!(decided.iter().filter(|one| refused(one)).count(), 11, "{decided:?}");
}

#[test]
fn an_entry_is_read_back_and_never_guessed_at() {
    let entry = Entry::Made { tables: 2, drill: true, facts_per_s: Some(5_000) };
    let decided = Decided::new(entry, &asked(1));
    let bytes = decided.encode();
    assert_eq!(Decided::decode(1, &bytes), Ok(decided));
    let of_a_newer_program = [&[2], &bytes[1..]].concat();
    for bad in [&[][..], &of_a_newer_program, &bytes[..9]] {
        assert!(matches!(Decided::decode(1, bad), Err(EngineError::Corrupt(_))), "{bad:?}");
    }
}

/// What an earlier version let a shop named `generations` claim under the key `1`, and under `3`.
#[tokio::test]
async fn the_journal_goes_on_beside_claims_that_a_shop_made_under_its_keys() {
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
    journal.decide(&asked(1), make).await.unwrap();
    journal.decide(&asked(2), make).await.unwrap();
    let known = Journal::new(Arc::clone(&store)).read().await.unwrap();
    assert_eq!(known.existing().map(|(tables, _)| tables).collect::<Vec<_>>(), [1, 2, 3]);
    for number in [1, 3] {
        let stays = store.claimed(ClaimKey::journal_entry(number)).await;
        assert_eq!(stays, Ok(Some(create.clone())));
    }
    store.claim(ClaimKey::journal_entry(5), b"neither".to_vec()).await.unwrap();
    let refused = Journal::new(store).read().await;
    assert!(matches!(refused, Err(EngineError::Corrupt(_))), "{refused:?}");
}
