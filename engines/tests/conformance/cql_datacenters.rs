//! Tests of a CQL store on a keyspace with replicas in several datacenters. The test has one node,
//! so one datacenter, and Cassandra refuses a keyspace in a datacenter without nodes. So the tests
//! alter the keyspace's row in the node's system table, and the replicas stay where they are.

use payfold_engines::EngineError;
use payfold_engines::orders::cql::{
    Consistency, CqlOrders, CqlSettings, SerialConsistency, schema,
};
use payfold_engines::orders::{ClaimKey, OrderStore};

use crate::cql::Keyspace;

/// Makes the node report three replicas of the keyspace in each of these datacenters.
async fn place_copies(bed: &Keyspace, datacenters: &[&str]) {
    let of = |name: &&str| format!(", '{name}': '3'");
    let copies: String = datacenters.iter().map(of).collect();
    let statement = format!(
        "UPDATE system_schema.keyspaces SET replication = {{'class': \
         'org.apache.cassandra.locator.NetworkTopologyStrategy'{copies}}} WHERE keyspace_name = \
         '{}'",
        bed.settings.keyspace
    );
    bed.session().await.query_unpaged(statement, ()).await.expect("the node takes it");
}

fn invalid(error: Option<EngineError>) -> String {
    match error {
        Some(EngineError::Invalid(text)) => text,
        other => panic!("expected to be refused: {other:?}"),
    }
}

fn strict(bed: &Keyspace, consistency: Consistency, serial: SerialConsistency) -> CqlSettings {
    let serial_consistency = serial;
    CqlSettings { dev: false, consistency, serial_consistency, ..bed.settings.clone() }
}

/// Local claims are refused: each datacenter would grant the same Idempotency-Key.
#[tokio::test]
async fn claims_within_a_datacenter_are_refused_where_several_have_copies() {
    let Some(bed) = Keyspace::made().await else { return };
    place_copies(&bed, &["datacenter1", "dc2"]).await;
    for datacenter in [None, Some("datacenter1")] {
        for consistency in [Consistency::Quorum, Consistency::LocalQuorum] {
            let settings = strict(&bed, consistency, SerialConsistency::LocalSerial);
            let settings = CqlSettings { datacenter: datacenter.map(str::to_owned), ..settings };
            let refused = [
                CqlOrders::open(settings.clone()).await.err(),
                schema::plan(&settings).await.err(),
                schema::apply(&settings).await.err(),
            ];
            for text in refused.map(invalid) {
                for part in ["LOCAL_SERIAL", "datacenter1 and dc2", "SERIAL for every process"] {
                    assert!(text.contains(part), "{part:?}: {text}");
                }
            }
        }
    }
    let agreed = strict(&bed, Consistency::Quorum, SerialConsistency::Serial);
    CqlOrders::open(agreed).await.map(drop).expect("all replicas decide together");
}

/// The recorded replicas hold until a person confirms that the replicas are repaired.
#[tokio::test]
async fn other_replicas_decide_only_after_a_person_confirms() {
    let Some(bed) = Keyspace::made().await else { return };
    bed.open().await;
    let local = bed.settings.clone();
    let across =
        CqlSettings { serial_consistency: SerialConsistency::Serial, ..bed.settings.clone() };
    CqlOrders::open(across.clone()).await.map(drop).expect("one datacenter is one either way");
    for (datacenters, settings, said) in [
        (
            &["dc2"][..],
            &local,
            "would be decided by replicas in dc2, with rows read and written in dc2",
        ),
        (&["datacenter1", "dc2"], &across, "name one datacenter"),
    ] {
        place_copies(&bed, datacenters).await;
        let refused = [
            CqlOrders::open(settings.clone()).await.err(),
            schema::plan(settings).await.err(),
            schema::apply(settings).await.err(),
        ];
        for text in refused.map(invalid) {
            assert!(text.contains(said), "{text}");
        }
    }
    let agreed = CqlSettings { consistency: Consistency::Quorum, ..across };
    let text = invalid(CqlOrders::open(agreed.clone()).await.err());
    for part in [
        "decided by replicas in datacenter1, with rows read and written in datacenter1",
        "replicas in datacenter1 and dc2, with rows read and written across them",
        "nodetool repair --full",
        "payfold schema apply --copies-repaired",
    ] {
        assert!(text.contains(part), "{part:?}: {text}");
    }
    for _ in 0..2 {
        schema::change_copies(&agreed).await.expect("a person confirmed it");
        CqlOrders::open(agreed.clone()).await.map(drop).expect("the replicas decide together");
    }
    let back = CqlSettings { datacenter: Some("datacenter1".to_owned()), ..agreed };
    let back = CqlSettings { consistency: Consistency::LocalQuorum, ..back };
    let text = invalid(CqlOrders::open(back).await.err());
    assert!(text.contains("with rows read and written in datacenter1, where"), "{text}");
}

/// Opening for listings records nothing; the first start that can claim does.
#[tokio::test]
async fn a_read_only_store_does_not_record_the_agreeing_replicas() {
    let Some(bed) = Keyspace::made().await else { return };
    let reader =
        CqlOrders::open_read_only(bed.settings.clone()).await.expect("the tables are there");
    place_copies(&bed, &["datacenter1", "dc2"]).await;
    let agreed = strict(&bed, Consistency::Quorum, SerialConsistency::Serial);
    CqlOrders::open_read_only(agreed.clone()).await.map(drop).expect("nothing is decided");
    CqlOrders::open(agreed.clone()).await.map(drop).expect("nothing was decided before");
    let home = CqlSettings { datacenter: Some("datacenter1".to_owned()), ..agreed };
    let home = CqlSettings { consistency: Consistency::LocalQuorum, ..home };
    let text = invalid(CqlOrders::open_read_only(home).await.err());
    assert!(text.contains("with rows read and written in datacenter1, where"), "{text}");
    let key = ClaimKey::journal_entry(1);
    let claimed = reader.claim(key, b"record".to_vec()).await;
    assert!(matches!(claimed, Err(EngineError::Invalid(_))), "{claimed:?}");
}
