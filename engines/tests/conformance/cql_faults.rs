//! Tests of a CQL store while its database is killed, halted or inaccessible, and of its errors.

use std::net::TcpListener;
use std::time::Duration;

use payfold_engines::EngineError;
use payfold_engines::orders::cql::{CqlOrders, CqlPassword, CqlSettings, CqlTls, schema};
use payfold_engines::orders::{Claimed, Commit, OrderStore};
use payfold_testing::waits::{Stopwatch, eventually};

use crate::bed::{claim_key, key, order, soon};
use crate::cql::Keyspace;
use crate::stack::{Stack, is_available};

fn commit(offset: u64) -> Commit {
    let row = order("p/M/a", offset);
    Commit { orders: vec![row.into()], log_id: [7; 16], ..Commit::default() }
}

/// Asserts that every call fails with `Unavailable` within `limit`.
async fn is_unavailable(store: &CqlOrders, limit: Duration) {
    let watch = Stopwatch::start();
    let claim = soon(store.claim(claim_key("shop/during"), b"x".to_vec()));
    let answers = tokio::join!(
        async { soon(store.load(vec![key("p/M/a")])).await.map(|_| ()) },
        soon(store.commit(Commit { orders: vec![order("p/M/b", 1).into()], ..Commit::default() })),
        async { claim.await.map(|_| ()) },
        async { soon(store.claimed(claim_key("shop/k"))).await.map(|_| ()) },
        async { soon(store.progress()).await.map(|_| ()) },
    );
    for answer in [answers.0, answers.1, answers.2, answers.3, answers.4] {
        assert!(matches!(answer, Err(EngineError::Unavailable(_))), "{answer:?}");
    }
    watch.assert_within(limit, "every call fails");
}

/// Waits until the same store works again; the acknowledged commit at `offset` must be there.
async fn recovers(store: &CqlOrders, offset: u64) {
    let watch = Stopwatch::start();
    let loaded = eventually("the store works again", async || {
        let loaded = soon(store.load(vec![key("p/M/a")])).await;
        assert!(matches!(loaded, Ok(_) | Err(EngineError::Unavailable(_))), "{loaded:?}");
        loaded
    })
    .await;
    // The driver pauses up to 10 s between two attempts to connect.
    watch.assert_within(Duration::from_secs(20), "the store works again");
    assert_eq!(loaded, [Some(order("p/M/a", offset))]);
    let claimed = soon(store.claimed(claim_key("shop/k"))).await;
    assert_eq!(claimed, Ok(Some(b"mine".to_vec())));
    soon(store.commit(commit(offset + 1))).await.expect("committed");
}

/// The database uses TLS and a password, so that reconnecting with both is tested, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "nightly: servers"]
async fn a_store_survives_a_killed_and_a_halted_database() {
    if !is_available() {
        return;
    }
    // By default Cassandra syncs its commit log some time after it has answered, and a kill loses
    // the acknowledged writes of the last tenth of a second.
    let flags =
        ["--brokers", "0", "--cassandra", "1", "--cassandra-sync", "batch", "--secure"].as_slice();
    let stack = tokio::task::spawn_blocking(|| Stack::start(flags)).await.expect("started");
    let said = |name: &str| stack.description[name].as_str().expect("it is secure").to_owned();
    let url = format!("cql+ssl://{}/payfold", stack.cql[0]);
    let mut settings = CqlSettings::parse_url(&url).expect("a URL");
    settings.dev = true;
    settings.tls = Some(CqlTls { ca_file: Some(said("ca").into()) });
    let text = invalid(CqlOrders::open(settings.clone()).await.err());
    assert!(text.contains("set a user name and a password"), "{text}");
    settings.username = Some(said("cqlUser"));
    settings.password = Some(CqlPassword::new("hunter2".to_owned()));
    let text = invalid(CqlOrders::open(settings.clone()).await.err());
    assert!(text.contains(&stack.cql[0]) && !text.contains('\n'), "{text}");
    assert!(text.contains("refuses the user name or password"), "{text}");
    assert!(!format!("{text} {settings:?}").contains("hunter2"), "{text}");
    settings.password = Some(CqlPassword::new(said("cqlPassword")));
    let strangers = CqlSettings { tls: Some(CqlTls::default()), ..settings.clone() };
    let text = match CqlOrders::open(strangers).await.err() {
        Some(EngineError::Unavailable(text) | EngineError::Invalid(text)) => text,
        other => panic!("a node without a trusted certificate is refused: {other:?}"),
    };
    assert!(text.contains("UnknownIssuer") || text.contains("no certificate authority"), "{text}");

    schema::apply(&settings).await.expect("made");
    // Requests to a halted database fail after this timeout.
    settings.request_timeout = Duration::from_secs(3);
    let store = CqlOrders::open(settings).await.expect("it opens");
    soon(store.commit(commit(1))).await.expect("committed");
    let mine = soon(store.claim(claim_key("shop/k"), b"mine".to_vec())).await;
    assert_eq!(mine, Ok(Claimed::Mine));
    for (down, up, last) in [("kill", "start", 1), ("pause", "resume", 2), ("kill", "start", 3)] {
        stack.send_command(&format!("{down} cassandra"));
        is_unavailable(&store, Duration::from_secs(10)).await;
        stack.send_command(&format!("{up} cassandra"));
        recovers(&store, last).await;
    }
}

fn invalid(error: Option<EngineError>) -> String {
    match error {
        Some(EngineError::Invalid(text)) => text,
        other => panic!("expected to be refused: {other:?}"),
    }
}

#[tokio::test]
async fn the_error_of_a_missing_store_names_the_command_that_makes_it() {
    let Some(bed) = Keyspace::unmade() else { return };
    let name = bed.settings.keyspace.clone();
    let text = invalid(CqlOrders::open(bed.settings.clone()).await.err());
    for part in [format!("/{name}: "), format!("keyspace {name}"), "payfold schema apply".into()] {
        assert!(text.contains(&part), "{text}");
    }
    bed.make_tables().await;
    bed.session().await.query_unpaged("DROP TABLE claims", ()).await.expect("dropped");
    let text = invalid(CqlOrders::open(bed.settings.clone()).await.err());
    assert!(text.contains(": table claims missing: run `payfold schema apply`"), "{text}");
}

#[tokio::test]
async fn apply_is_idempotent_and_does_not_change_what_differs() {
    let Some(bed) = Keyspace::unmade() else { return };
    let plan = schema::plan(&bed.settings).await.expect("planned");
    assert_eq!(plan.len(), 11);
    assert!(plan.iter().all(|step| step.state == schema::State::Missing));
    let printed = plan[1].to_string();
    assert!(printed.starts_with("table claims: missing\nCREATE TABLE IF NOT EXISTS"), "{printed}");
    assert_eq!(schema::apply(&bed.settings).await, Ok(plan));
    for again in [schema::apply(&bed.settings).await, schema::plan(&bed.settings).await] {
        let again = again.expect("nothing to do");
        assert!(again.iter().all(|step| step.state == schema::State::Present), "{again:?}");
    }

    let session = bed.session().await;
    for statement in [
        "DROP TABLE claims",
        "CREATE TABLE claims (key text, kind int, record text, PRIMARY KEY (key, kind))",
        "ALTER TABLE buckets_g1 WITH default_time_to_live = 60",
        "ALTER TABLE orders_g1 ADD note text",
        "DROP TABLE view_nonce_g1",
    ] {
        session.query_unpaged(statement, ()).await.expect(statement);
    }
    let mut strict = bed.settings.clone();
    strict.dev = false;
    for refused in [schema::apply(&strict).await.err(), CqlOrders::open(strict).await.err()] {
        let text = invalid(refused);
        for part in [
            "datacenter1 has 1 replicas, needs at least 3",
            "table claims: differs: column record is regular text, must be regular blob, \
             column kind is clustering int at 0, must not be in the key",
            "table buckets_g1: differs: its rows have a default time to live",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("orders_g1") && !text.contains('\n'), "{text}");
    }
    let left = schema::plan(&bed.settings).await.expect("planned");
    let nonce = left.iter().find(|step| step.name == "table view_nonce_g1").expect("planned");
    assert_eq!(nonce.state, schema::State::Missing, "where something differs nothing is made");
}

#[tokio::test]
async fn unreachable_nodes_are_unavailable_and_wrong_settings_are_invalid() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    for node in [free.to_string(), "no.such.node.invalid:9042".to_owned()] {
        let settings = CqlSettings::parse_url(&format!("cql://{node}/payfold")).unwrap();
        match soon(CqlOrders::open(settings)).await.err() {
            Some(EngineError::Unavailable(text)) => assert!(text.contains(&node), "{text}"),
            other => panic!("{node}: {other:?}"),
        }
    }
    if let Some(bed) = Keyspace::unmade() {
        let elsewhere = Some("nowhere".to_owned());
        let settings = CqlSettings { datacenter: elsewhere, ..bed.settings.clone() };
        match soon(CqlOrders::open(settings)).await.err() {
            Some(EngineError::Unavailable(text)) => assert!(text.contains("datacenter"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    let mut settings = CqlSettings::parse_url(&format!("cql+ssl://{free}/payfold")).unwrap();
    settings.tls = Some(CqlTls { ca_file: Some("no/such.pem".into()) });
    let text = invalid(CqlOrders::open(settings).await.err());
    assert!(text.contains("no/such.pem"), "{text}");
}
