//! A reader of `orders`: stores the newest state of each order, as a subscriber in another team
//! would. It may be stopped, killed and started again at any time: the stored state is right.

mod kept;

use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};

use crate::kept::Kept;

const ORDER_CHANGED: &str = "payfold.order.changed.v1";
const BATCH: usize = 500;
const POLL: Duration = Duration::from_millis(200);

/// Stores the newest state of each order.
#[derive(Parser)]
struct Options {
    /// host:port, several with commas
    #[arg(long, default_value = "127.0.0.1:9092")]
    brokers: String,
    /// What the topics' names begin with
    #[arg(long, default_value = "payfold")]
    prefix: String,
    /// The consumer group
    #[arg(long, default_value = "example-orders")]
    group: String,
    /// Where orders are kept
    #[arg(long, default_value = "orders.db")]
    state: PathBuf,
    /// Stop at the end of all partitions
    #[arg(long)]
    until_end: bool,
    /// Only print what is kept
    #[arg(long)]
    show: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let options = Options::parse();
    let mut kept = Kept::open(&options.state)?;
    if options.show {
        for line in kept.lines()? {
            writeln!(std::io::stdout(), "{line}")?;
        }
        return Ok(());
    }
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &options.brokers)
        .set("group.id", &options.group)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .set("allow.auto.create.topics", "false")
        .set("enable.partition.eof", options.until_end.to_string())
        .create()?;
    consumer.subscribe(&[&format!("{}.orders", options.prefix)])?;
    let mut ended = BTreeSet::new();
    loop {
        let (events, read) = batch(&consumer, &mut ended)?;
        if read {
            // Durable first, committed after: a kill in between repeats, and what repeats is
            // dropped.
            for (key, data) in kept.keep(&events)? {
                let (epoch, version) = (data.epoch, data.version);
                writeln!(std::io::stdout(), "{key}  v{epoch}.{version}  {}", data.state)?;
            }
            if let Err(error) = consumer.commit_consumer_state(CommitMode::Sync) {
                tracing::warn!(%error, "not committed: the next commit covers it");
            }
        }
        let owned = consumer.assignment()?.count();
        if options.until_end && owned > 0 && ended.len() >= owned {
            return Ok(());
        }
    }
}

/// Reads the events that are there; the flag says whether any message was read. Errors: those
/// that the library can't recover from by itself.
fn batch(
    consumer: &BaseConsumer,
    ended: &mut BTreeSet<i32>,
) -> Result<(Vec<(String, String)>, bool), KafkaError> {
    let (mut events, mut read) = (Vec::new(), false);
    while events.len() < BATCH {
        match consumer.poll(POLL) {
            None => break,
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                ended.insert(partition);
            }
            Some(Err(error)) => return Err(error),
            Some(Ok(message)) => {
                ended.remove(&message.partition());
                events.extend(order_changed(&message));
                read = true;
            }
        }
    }
    Ok((events, read))
}

/// The order's key and the event's data; `None` for a message of another type.
fn order_changed(message: &BorrowedMessage<'_>) -> Option<(String, String)> {
    let mut headers = message.headers()?.iter();
    let kind = headers.find(|header| header.key == "ce_type")?.value?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    (kind == ORDER_CHANGED.as_bytes())
        .then(|| Some((text(message.key()?)?, text(message.payload()?)?)))?
}
