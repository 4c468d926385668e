//! `payfold log verify --state`: the state digest of all orders, to be compared with another store's, or with itself
//! before and after a rebuild.

use payfold_engines::orders::{Progress, Scan};
use payfold_schemas::digest::Digest;
use payfold_schemas::record::Position;
use payfold_schemas::state::StateDigest;
use payfold_schemas::time::Time;
use serde_json::json;

use crate::args::{Form, OutputArgs};
use crate::output;
use crate::wiring::Engines;

const PAGE: usize = 1_000;

/// What a store held, and how far it was folded.
struct State {
    digest: Digest,
    orders: usize,
    folded: Vec<Position>,
    /// The store was folded on while it was read: the digest is of no one moment.
    moved: bool,
}

/// Reads every order and prints the digest. A store that is folded on meanwhile is said to be.
pub async fn print(engines: &Engines, output: &OutputArgs) -> anyhow::Result<()> {
    let state = read(engines).await?;
    let folded: Vec<_> = state.folded.iter().map(ToString::to_string).collect();
    match output.output {
        Form::Table => {
            output::line(&format!("stateDigest  {}", state.digest));
            output::line(&format!("orders       {}", state.orders));
            output::line(&format!("folded       {}", folded.join(" ")));
        }
        form => output::object(
            form,
            &json!({
                "stateDigest": state.digest.to_string(), "orders": state.orders, "folded": folded,
                "moved": state.moved,
            }),
        )?,
    }
    if state.moved {
        output::error_line(
            "orders changed while they were read: this digest is of no one moment; read it again when the projector rests",
        );
    }
    Ok(())
}

async fn read(engines: &Engines) -> anyhow::Result<State> {
    let store = engines.store()?;
    let before = store.progress().await?;
    let (mut sum, mut after) = (StateDigest::default(), None);
    let (from, until) = (Time::from_unix_nanos(i64::MIN), Time::from_unix_nanos(i64::MAX));
    loop {
        let page = store.scan(Scan::Created { from, until }, after, PAGE).await?;
        let keys = page.entries.into_iter().map(|(key, _)| key).collect();
        for order in store.load(keys).await?.iter().flatten() {
            sum.add(order);
        }
        match page.next {
            Some(cursor) => after = Some(cursor),
            None => break,
        }
    }
    let moved = store.progress().await? != before;
    let orders = sum.orders();
    Ok(State { digest: sum.finish(), orders, folded: positions(before), moved })
}

fn positions(progress: Option<Progress>) -> Vec<Position> {
    let folded = progress.into_iter().flat_map(|progress| progress.folded);
    folded.map(|one| one.position).collect()
}
