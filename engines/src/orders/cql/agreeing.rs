//! Owns which copies have to agree, for a claim and for a row: the datacenters that have some, and the one that is read
//! and written alone where the consistency is local.
//! Invariants: where several datacenters have copies, claims are decided by all of them together, for each by itself
//! would grant a key another has granted; what a keyspace began with holds at every start until a person says that
//! nothing runs and the copies are repaired, because copies that never had to agree may lack claims and rows.

use scylla::statement::{Consistency, SerialConsistency};
use serde::{Deserialize, Serialize};

use super::claims::Claims;
use super::errors::Place;
use super::found;
use super::link::Link;
use super::settings::CqlSettings;
use crate::EngineError;
use crate::orders::{ClaimKey, Claimed};

/// The copies that have to agree. Stored as JSON, under a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct AgreeingCopies {
    /// The datacenters with copies, in order: most of all copies decide a claim.
    datacenters: Vec<String>,
    /// The datacenter whose copies are enough for a row; none where rows are read and written across datacenters.
    home: Option<String>,
}

impl AgreeingCopies {
    /// What keyspace and settings come to. Errors: `Invalid` for settings under which datacenters decide apart.
    fn required(
        place: &Place,
        datacenters: Vec<String>,
        settings: &CqlSettings,
    ) -> Result<Self, EngineError> {
        let [_, _, ..] = &datacenters[..] else {
            let home = datacenters.first().cloned();
            return Ok(Self { datacenters, home });
        };
        let named = joined(&datacenters);
        if settings.serial_consistency == SerialConsistency::LocalSerial {
            return Err(place.invalid(&format!(
                "cql.serial_consistency = LOCAL_SERIAL and the keyspace has copies in {named}: each datacenter would \
                 grant the same Idempotency-Key, which is a second payment. Stop every process of this keyspace, run \
                 `nodetool repair --full {}` on every node, then set SERIAL for every process and start them \
                 (docs/operations.md, \"Several datacenters\")",
                settings.keyspace
            )));
        }
        let is_local =
            matches!(settings.consistency, Consistency::LocalQuorum | Consistency::LocalOne);
        if is_local && settings.datacenter.is_none() {
            return Err(place.invalid(&format!(
                "cql.consistency is local and the keyspace has copies in {named}: a row written in one may be old in \
                 another, and a fold over an old row loses facts. Set cql.consistency = QUORUM, or name one \
                 datacenter as cql.datacenter, the same for every process"
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
            Some(home) => format!("copies in {decide}, with rows read and written in {home}"),
            None => format!("copies in {decide}, with rows read and written across them"),
        }
    }
}

/// Holds a store that is opened to what its keyspace began with; the first one to open it writes that down.
/// Errors: `Invalid` for a change, `Unavailable`, `Corrupt`.
pub(super) async fn hold(
    link: &Link,
    settings: &CqlSettings,
    claims: &Claims,
) -> Result<(), EngineError> {
    let Some(required) = required(link, settings).await? else { return Ok(()) };
    loop {
        match stored(link, claims).await? {
            (_, Some(last)) => return compared(link, &required, &last),
            (next, None) if append(link, claims, next, &required).await? => return Ok(()),
            (_, None) => {}
        }
    }
}

/// Refuses what `hold` would refuse, and writes nothing. Errors: as `hold`.
pub(super) async fn check(
    link: &Link,
    settings: &CqlSettings,
    claims: &Claims,
) -> Result<(), EngineError> {
    let Some(required) = required(link, settings).await? else { return Ok(()) };
    match stored(link, claims).await?.1 {
        Some(last) => compared(link, &required, &last),
        None => Ok(()),
    }
}

/// From now on other copies have to agree: those that keyspace and settings come to. Errors: as `hold`, but for a change.
pub(super) async fn change(
    link: &Link,
    settings: &CqlSettings,
    claims: &Claims,
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

/// Appends an entry with this number. Returns whether it did: another process may have been first.
async fn append(
    link: &Link,
    claims: &Claims,
    number: u32,
    copies: &AgreeingCopies,
) -> Result<bool, EngineError> {
    let key = ClaimKey::agreeing_copies(number);
    Ok(claims.claim(link, &key, &copies.encode()).await? == Claimed::Mine)
}

/// Refuses settings under which datacenters decide apart, where there may be no tables yet.
/// Errors: `Invalid`, `Unavailable`.
pub(super) async fn refuse_apart(link: &Link, settings: &CqlSettings) -> Result<(), EngineError> {
    required(link, settings).await.map(drop)
}

async fn required(
    link: &Link,
    settings: &CqlSettings,
) -> Result<Option<AgreeingCopies>, EngineError> {
    let Some(datacenters) = found::datacenters(link).await? else { return Ok(None) };
    AgreeingCopies::required(&link.place, datacenters, settings).map(Some)
}

/// The number of the next entry, and the last one there is.
async fn stored(
    link: &Link,
    claims: &Claims,
) -> Result<(u32, Option<AgreeingCopies>), EngineError> {
    let (mut next, mut last) = (1, None);
    while let Some(record) = claims.claimed(link, &ClaimKey::agreeing_copies(next)).await? {
        let entry = serde_json::from_slice(&record).map_err(|error| link.undecodable(&error))?;
        (next, last) = (next + 1, Some(entry));
    }
    Ok((next, last))
}

fn compared(
    link: &Link,
    required: &AgreeingCopies,
    last: &AgreeingCopies,
) -> Result<(), EngineError> {
    if required == last {
        return Ok(());
    }
    Err(link.place.invalid(&format!(
        "so far claims were decided by {}; as keyspace and settings are now it would be {}, where what was claimed and \
         written before may be missing: a second payment, or lost facts. Set cql.datacenter, cql.consistency and the \
         keyspace's replication back; or stop every process of this keyspace, run `nodetool repair --full {}` on every \
         node, then `payfold schema apply --copies-repaired` (docs/operations.md, \"Several datacenters\")",
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

    /// What two datacenters, or one, come to: `decides; home` or the words of the refusal.
    fn comes_to(
        datacenters: &[&str],
        consistency: Consistency,
        (serial_consistency, datacenter): (SerialConsistency, Option<&str>),
    ) -> String {
        let datacenter = datacenter.map(str::to_owned);
        let settings =
            CqlSettings { consistency, serial_consistency, datacenter, ..CqlSettings::default() };
        let datacenters = datacenters.iter().map(|&one| one.to_owned()).collect();
        let place = Place("cql://n/payfold".to_owned());
        match AgreeingCopies::required(&place, datacenters, &settings) {
            Ok(copies) => format!("{}; {:?}", copies.datacenters.join(" "), copies.home),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn several_datacenters_decide_claims_together_and_one_of_them_is_home_or_none() {
        use Consistency::{EachQuorum, LocalQuorum, Quorum};
        use SerialConsistency::{LocalSerial, Serial};
        let one = "dc1; Some(\"dc1\")";
        let apart = "LOCAL_SERIAL and the keyspace has copies in dc1 and dc2";
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
            let come_to = comes_to(datacenters, consistency, serial);
            assert!(come_to.contains(says), "{datacenters:?} {consistency} {serial:?}: {come_to}");
        }
    }
}
