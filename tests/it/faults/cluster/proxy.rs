//! Owns a proxy between pods and a server that does to connections what networks do. Invariant:
//! bytes are carried on whole and in order, or not at all: a connection that swallowed bytes stays
//! deaf.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// How late bytes come through a delayed connection.
const DELAY: Duration = Duration::from_millis(300);
/// How late answers come after the client has stopped waiting: longer than a member of a group
/// waits (the dev stack's `group.consumer.heartbeat.interval.ms`, 1 s).
const TOO_LATE: Duration = Duration::from_millis(1_500);

/// What is done to connections.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    /// Connections that are older than this many cuts are closed.
    cuts: u64,
    /// Connections that are older than this many spells of deafness stay deaf.
    deaf: u64,
    /// New connections are taken and never answered.
    deaf_now: bool,
    delay: Duration,
    /// Of what the server says, beyond that.
    answers_delay: Duration,
}

impl Weather {
    /// How late a client's bytes come.
    fn there(&self) -> Duration {
        self.delay
    }

    /// How late a server's bytes come.
    fn back(&self) -> Duration {
        self.delay + self.answers_delay
    }
}

/// One listener before one server.
pub struct Proxy {
    address: SocketAddr,
    target: Arc<OnceLock<SocketAddr>>,
    weather: watch::Sender<Weather>,
    /// Connections carried so far.
    carried: Arc<AtomicU64>,
    _runtime: Arc<tokio::runtime::Runtime>,
}

impl Proxy {
    /// Listens; what comes is carried once `lead_to` said where.
    pub fn listen(runtime: &Arc<tokio::runtime::Runtime>) -> Self {
        let socket = StdListener::bind("127.0.0.1:0").expect("a port is free");
        socket.set_nonblocking(true).expect("a socket can be set so");
        let address = socket.local_addr().expect("it is bound");
        let (weather, current) = watch::channel(Weather::default());
        let (target, carried) = (Arc::new(OnceLock::new()), Arc::new(AtomicU64::new(0)));
        let (where_to, count) = (Arc::clone(&target), Arc::clone(&carried));
        runtime.spawn(async move {
            let listener = TcpListener::from_std(socket).expect("inside a runtime");
            while let Ok((client, _)) = listener.accept().await {
                if let Some(target) = where_to.get() {
                    count.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(carry(client, *target, current.clone()));
                }
            }
        });
        Self { address, target, weather, carried, _runtime: Arc::clone(runtime) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whom it stands before. Once.
    pub fn lead_to(&self, target: &str) {
        let target = target.parse().expect("an address");
        self.target.set(target).expect("a proxy leads to one server");
    }

    /// How many connections were carried so far.
    pub fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }

    /// Closes every connection; new ones are carried.
    pub fn cut(&self) {
        self.weather.send_modify(|weather| weather.cuts += 1);
    }

    /// From now on every connection is read and never answered, and never closed.
    pub fn deafen(&self) {
        self.weather.send_modify(|weather| {
            (weather.deaf, weather.deaf_now) = (weather.deaf + 1, true);
        });
    }

    /// From now on bytes come late.
    pub fn delay(&self) {
        self.weather.send_modify(|weather| weather.delay = DELAY);
    }

    /// From now on the server receives bytes in time, and its answers come too late.
    pub fn delay_answers(&self) {
        self.weather.send_modify(|weather| weather.answers_delay = TOO_LATE);
    }

    /// New connections are carried as they should be. A deaf one stays deaf until its client closes
    /// it.
    pub fn calm(&self) {
        self.weather.send_modify(|weather| {
            weather.deaf_now = false;
            (weather.delay, weather.answers_delay) = (Duration::ZERO, Duration::ZERO);
        });
    }
}

/// Carries a connection until it ends or is cut.
async fn carry(client: TcpStream, target: SocketAddr, weather: watch::Receiver<Weather>) {
    let born = *weather.borrow();
    let mut cut = weather.clone();
    let ended = async {
        // The proxy lives longer than its connections, or everything ends.
        let _ = cut.wait_for(|now| now.cuts > born.cuts).await;
    };
    tokio::select! {
        () = ended => {}
        () = through(client, target, born, weather) => {}
    }
}

async fn through(
    client: TcpStream,
    target: SocketAddr,
    born: Weather,
    weather: watch::Receiver<Weather>,
) {
    // Half-open from its start: there is no other side at all.
    let server = if born.deaf_now { None } else { Some(TcpStream::connect(target).await) };
    let (client_in, client_out) = client.into_split();
    match server {
        None => swallow(client_in).await,
        Some(Err(_)) => {}
        Some(Ok(server)) => {
            // Without delay a carried connection has to be as quick as a direct one.
            let _ = server.set_nodelay(true);
            let _ = client_out.as_ref().set_nodelay(true);
            let (server_in, server_out) = server.into_split();
            let there = pump(client_in, server_out, born, (weather.clone(), Weather::there));
            let back = pump(server_in, client_out, born, (weather, Weather::back));
            // The first to end ends both: no program here closes one direction only.
            tokio::select! { () = there => {} () = back => {} }
        }
    }
}

/// Reads until the other side gives up.
async fn swallow(mut from: OwnedReadHalf) {
    let mut chunk = vec![0; 16 << 10];
    while matches!(from.read(&mut chunk).await, Ok(1..)) {}
}

/// One direction: bytes are read and written, each with the delay that was set when it was read. A
/// deaf connection ends only when it is cut, or when its client closes it.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    born: Weather,
    (weather, late): (watch::Receiver<Weather>, fn(&Weather) -> Duration),
) {
    let (queue, mut queued) = mpsc::channel::<(Instant, Vec<u8>)>(256);
    let is_deaf = |weather: &watch::Receiver<Weather>| weather.borrow().deaf > born.deaf;
    let reading = async {
        let mut chunk = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            let due = Instant::now() + late(&weather.borrow());
            if !is_deaf(&weather) && queue.send((due, chunk[..count].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let writing = async {
        while let Some((due, bytes)) = queued.recv().await {
            sleep_until(due).await;
            if !is_deaf(&weather) && to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! { () = reading => {} () = writing => {} }
}
