//! Owns the agreeing replicas: which datacenters' replicas decide a claim, and which replicas a row
//! is read from and written to. Invariants: where several datacenters have replicas, a quorum of
//! all of them decides claims, because datacenters that decide separately would each grant the same
//! key; every start must use the replicas that the keyspace's first start used, until a person
//! confirms that nothing runs and the replicas are repaired, because replicas outside the old
//! quorum may lack claims and rows.

use scylla::statement::{Consistency, SerialConsistency};
use serde::{Deserialize, Serialize};

use super::claims::CqlClaims;
use super::database_schema;
use super::errors::StoreAddress;
use super::link::Link;
use super::settings::CqlSettings;
use crate::EngineError;
use crate::orders::{ClaimKey, Claimed};

/// The replicas that have to agree. Stored as JSON in the record of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct AgreeingReplicas {
    /// The datacenters with replicas, sorted. A quorum of all their replicas decides a claim.
    datacenters: Vec<String>,
    /// The only datacenter with replicas that serve rows; `None` where rows are read and written
    /// across datacenters.
    home: Option<String>,
}

impl AgreeingReplicas {
    /// The replicas that follow from keyspace and settings. Errors: `Invalid` for settings under
    /// which datacenters decide separately.
    fn required(
        address: &StoreAddress,
        datacenters: Vec<String>,
        settings: &CqlSettings,
    ) -> Result<Self, EngineError> {
        let [_, _, ..] = &datacenters[..] else {
            let home = datacenters.first().cloned();
            return Ok(Self { datacenters, home });
        };
        let named = joined(&datacenters);
        if settings.serial_consistency == SerialConsistency::LocalSerial {
            return Err(address.invalid(&format!(
                "cql.serial_consistency = LOCAL_SERIAL and the keyspace has replicas in {named}: \
                 each datacenter would grant the same Idempotency-Key, which is a second payment. \
                 Stop every process of this keyspace, run `nodetool repair --full {}` on every \
                 node, then set SERIAL for every process and start them \
                 (docs/how-to/run-at-scale.md, \"Several datacenters\")",
                settings.keyspace
            )));
        }
        let is_local =
            matches!(settings.consistency, Consistency::LocalQuorum | Consistency::LocalOne);
        if is_local && settings.datacenter.is_none() {
            return Err(address.invalid(&format!(
                "cql.consistency is local and the keyspace has replicas in {named}: a row written \
                 in one datacenter may be stale in another, and a fold over a stale row loses \
                 facts. Set cql.consistency = QUORUM, or name one datacenter as cql.datacenter, \
                 the same for every process"
            )));
        }
        let home = settings.datacenter.clone().filter(|_| is_local);
        Ok(Self { datacenters, home })
    }

    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it has string keys only")
    }

    fn describe(&self) -> String {
        let decide = joined(&self.datacenters);
        match &self.home {
            Some(home) => format!("replicas in {decide}, with rows read and written in {home}"),
            None => format!("replicas in {decide}, with rows read and written across them"),
        }
    }
}

/// Checks that a store is opened with the recorded replicas; the keyspace's first start records
/// them. Errors: `Invalid` for a change, `Unavailable`, `Corrupt`.
pub(super) async fn check_or_record(
    link: &Link,
    settings: &CqlSettings,
    claims: &CqlClaims,
) -> Result<(), EngineError> {
    let Some(required) = required(link, settings).await? else { return Ok(()) };
    loop {
        match stored(link, claims).await? {
            (_, Some(last)) => return compare(link, &required, &last),
            (next, None) if append(link, claims, next, &required).await? => return Ok(()),
            (_, None) => {}
        }
    }
}

/// As `check_or_record`, but records nothing. Errors: as `check_or_record`.
pub(super) async fn check(
    link: &Link,
    settings: &CqlSettings,
    claims: &CqlClaims,
) -> Result<(), EngineError> {
    let Some(required) = required(link, settings).await? else { return Ok(()) };
    match stored(link, claims).await?.1 {
        Some(last) => compare(link, &required, &last),
        None => Ok(()),
    }
}

/// Records the replicas that follow from keyspace and settings as the agreeing ones. Errors: as
/// `check_or_record`, except for a change.
pub(super) async fn record_change(
    link: &Link,
    settings: &CqlSettings,
    claims: &CqlClaims,
) -> Result<(), EngineError> {
    let Some(required) = required(link, settings).await? else { return Ok(()) };
    loop {
        let (next, last) = stored(link, claims).await?;
        if last.as_ref() == Some(&required) {
            return Ok(());
        }
        if append(link, claims, next, &required).await? {
            return Ok(());
        }
    }
}

/// Appends an entry with this number to the list. Returns whether it did; another process may have
/// appended the number first.
async fn append(
    link: &Link,
    claims: &CqlClaims,
    number: u32,
    copies: &AgreeingReplicas,
) -> Result<bool, EngineError> {
    let key = ClaimKey::agreeing_copies(number);
    Ok(claims.claim(link, &key, &copies.encode()).await? == Claimed::Mine)
}

/// Refuses settings under which datacenters decide separately. It works before the tables exist.
/// Errors: `Invalid`, `Unavailable`.
pub(super) async fn check_settings(link: &Link, settings: &CqlSettings) -> Result<(), EngineError> {
    required(link, settings).await.map(drop)
}

async fn required(
    link: &Link,
    settings: &CqlSettings,
) -> Result<Option<AgreeingReplicas>, EngineError> {
    let Some(datacenters) = database_schema::datacenters(link).await? else {
        return Ok(None);
    };
    AgreeingReplicas::required(&link.address, datacenters, settings).map(Some)
}

/// Reads the list: the number of the next entry, and the last entry.
async fn stored(
    link: &Link,
    claims: &CqlClaims,
) -> Result<(u32, Option<AgreeingReplicas>), EngineError> {
    let (mut next, mut last) = (1, None);
    while let Some(record) = claims.claimed(link, &ClaimKey::agreeing_copies(next)).await? {
        let entry = serde_json::from_slice(&record).map_err(|error| link.undecodable(&error))?;
        (next, last) = (next + 1, Some(entry));
    }
    Ok((next, last))
}

fn compare(
    link: &Link,
    required: &AgreeingReplicas,
    last: &AgreeingReplicas,
) -> Result<(), EngineError> {
    if required == last {
        return Ok(());
    }
    Err(link.address.invalid(&format!(
        "so far claims were decided by {}; with the present keyspace and settings they would be \
         decided by {}, where earlier claims and rows may be missing: a second payment, or lost \
         facts. Set cql.datacenter, cql.consistency and the keyspace's replication back; or stop \
         every process of this keyspace, run `nodetool repair --full {}` on every node, then \
         `payfold schema apply --copies-repaired` (docs/how-to/run-at-scale.md, \"Several \
         datacenters\")",
        last.describe(),
        required.describe(),
        link.keyspace
    )))
}

fn joined(names: &[String]) -> String {
    match names {
        [] => "no datacenter".to_owned(),
        [only] => only.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result for these datacenters and settings: `datacenters; home`, or the error's text.
    fn required_text(
        datacenters: &[&str],
        consistency: Consistency,
        (serial_consistency, datacenter): (SerialConsistency, Option<&str>),
    ) -> String {
        let datacenter = datacenter.map(str::to_owned);
        let settings =
            CqlSettings { consistency, serial_consistency, datacenter, ..CqlSettings::default() };
        let datacenters = datacenters.iter().map(|&one| one.to_owned()).collect();
        let address = StoreAddress("cql://n/payfold".to_owned());
        match AgreeingReplicas::required(&address, datacenters, &settings) {
            Ok(copies) => format!("{}; {:?}", copies.datacenters.join(" "), copies.home),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn several_datacenters_decide_claims_together_and_at_most_one_serves_rows() {
        use Consistency::{EachQuorum, LocalQuorum, Quorum};
        use SerialConsistency::{LocalSerial, Serial};
        let one = "dc1; Some(\"dc1\")";
        let apart = "LOCAL_SERIAL and the keyspace has replicas in dc1 and dc2";
        let nameless = "name one datacenter";
        for (datacenters, consistency, serial, says) in [
            (&["dc1"][..], LocalQuorum, (LocalSerial, None), one),
            (&["dc1"], Quorum, (Serial, None), one),
            (&["dc1"], LocalQuorum, (LocalSerial, Some("dc1")), one),
            (&["dc1", "dc2"], LocalQuorum, (LocalSerial, Some("dc1")), apart),
            (&["dc1", "dc2"], LocalQuorum, (LocalSerial, None), apart),
            (&["dc1", "dc2"], Quorum, (LocalSerial, None), apart),
            (&["dc1", "dc2"], EachQuorum, (LocalSerial, Some("dc2")), apart),
            (&["dc1", "dc2"], LocalQuorum, (Serial, None), nameless),
            (&["dc1", "dc2"], LocalQuorum, (Serial, Some("dc2")), "dc1 dc2; Some(\"dc2\")"),
            (&["dc1", "dc2"], Quorum, (Serial, Some("dc2")), "dc1 dc2; None"),
            (&["dc1", "dc2", "dc3"], Quorum, (LocalSerial, None), "in dc1, dc2 and dc3: each"),
        ] {
            let text = required_text(datacenters, consistency, serial);
            assert!(text.contains(says), "{datacenters:?} {consistency} {serial:?}: {text}");
        }
    }
}
