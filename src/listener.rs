//! Owns the listeners: their sockets and HTTP stacks. No listener waits for a peer without limit.
//! The HTTP library limits a connection's first request head and its idle time; `TimedConnection`
//! limits the rest. On the public listener it limits each whole exchange. On the others, where
//! answers may take long (event streams, long polls, runs), it limits each request head.

use std::future::ready;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use actix_http::HttpService;
use actix_server::Server as ActixServer;
use actix_service::{Service, ServiceFactoryExt, fn_service, map_config};
use actix_web::App;
use actix_web::dev::{AppConfig, ServerHandle};
use actix_web::rt::net::TcpStream;
use actix_web::web::ServiceConfig;

use crate::error::Fixable;
use crate::settings::Settings;
use crate::timed_connection::{OpenRequests, TimedConnection};

/// One worker, because admin requests are few; many blocking threads, because some read much.
const ADMIN_WORKERS: Workers = Workers { count: 1, blocking_max: 16 };
/// How long a listener waits for open connections after its requests are done, seconds.
const SHUTDOWN_S: u64 = 1;
/// How long a refused sender may keep sending before its connection is closed.
const DISCONNECT: Duration = Duration::from_secs(1);
/// Longest time to an answer once the request is complete: an append that is not durable after
/// 5 s, and 1 s to spare.
const ANSWER: Duration = Duration::from_secs(6);

/// A bound listener and its server.
pub struct Listener {
    /// `http://host:port`.
    pub url: String,
    /// Stops the listener.
    pub handle: ServerHandle,
}

/// Timeout of a request's head on listeners without a setting for it.
const HEAD: Duration = Duration::from_secs(5);
/// How long those listeners keep an idle connection.
const IDLE: Duration = Duration::from_secs(75);
/// How long a client of those listeners may leave written bytes unread: a stream's client may have
/// a bad connection.
const UNTAKEN: Duration = Duration::from_secs(30);

/// Blocking threads of each worker, which read rows. Each further thread would keep its own
/// allocator memory and a connection to the store.
const BLOCKING_PER_WORKER: usize = 4;

/// The threads of a listener.
struct Workers {
    count: usize,
    /// Maximum of blocking threads of each worker.
    blocking_max: usize,
}

/// What a listener serves.
pub(crate) type Routes = Arc<dyn Fn(&mut ServiceConfig) + Send + Sync>;

/// Binds the address. Errors: it is in use, or not an address of this host; the fix names the flag
/// and the variable that change it.
pub(crate) fn bind(address: &str, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let setting = flag.replace('-', "_");
        let variable = format!("PAYFOLD_{}", setting.to_uppercase());
        Fixable::error(
            format!("can't listen on {address}: {error}"),
            format!(
                "see what listens there (`ss -ltnp`): payfold may be running already; else choose \
                 another address with --{flag} ADDR, {variable} or {setting} in payfold.toml"
            ),
        )
    })
}

/// `http://host:port` of a socket.
pub(crate) fn url(socket: &TcpListener) -> anyhow::Result<String> {
    Ok(format!("http://{}", socket.local_addr()?))
}

/// The cores this process may use.
fn cores() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// The number of workers that receive notices. By default the threads of the Kafka client have a
/// core of their own.
fn ingest_workers(settings: &Settings, cores: usize) -> usize {
    match settings.ingest.workers {
        0 if settings.logs_to_kafka() => cores.saturating_sub(1).max(1),
        0 => cores,
        set => set,
    }
}

/// Serves routes with the HTTP stack and settings of the public listener. `bench ingest` measures
/// an empty handler on the same stack.
pub(crate) fn listen_public(
    socket: TcpListener,
    routes: Routes,
    settings: &Settings,
) -> anyhow::Result<Listener> {
    let (url, address) = (url(&socket)?, socket.local_addr()?);
    let ingest = &settings.ingest;
    let workers = ingest_workers(settings, cores());
    let [head, body, idle] =
        [ingest.head_timeout_ms, ingest.body_timeout_ms, ingest.idle_timeout_ms]
            .map(Duration::from_millis);
    let builder = ActixServer::build();
    let shutdown = builder.graceful_shutdown_signal();
    let server = builder
        .workers(workers)
        .max_concurrent_connections((ingest.connections_max / workers).max(1))
        .shutdown_timeout(SHUTDOWN_S)
        .disable_signals()
        .listen("public", socket, move || {
            let (routes, shutdown) = (Arc::clone(&routes), shutdown.clone());
            let app = App::new().configure(|config| routes(config));
            let http = HttpService::build()
                .graceful_shutdown_signal(move || {
                    let shutdown = shutdown.clone();
                    async move { shutdown.notified().await }
                })
                .keep_alive(idle)
                .client_request_timeout(head)
                .client_disconnect_timeout(DISCONNECT)
                .local_addr(address)
                .h1(map_config(app, |()| AppConfig::default()));
            let limit = head + body + ANSWER;
            fn_service(move |stream: TcpStream| {
                let peer = stream.peer_addr().ok();
                ready(Ok((TimedConnection::new(stream, limit), peer)))
            })
            .and_then(http)
        })?
        .run();
    Ok(spawn(url, server))
}

/// Serves routes with clients that may stay connected: shops that follow payments, browsers at the
/// sandbox. 0 workers is one per core.
pub(crate) fn listen(
    socket: TcpListener,
    routes: Routes,
    workers: usize,
) -> anyhow::Result<Listener> {
    let count = if workers == 0 { cores() } else { workers };
    serve(socket, routes, Workers { count, blocking_max: BLOCKING_PER_WORKER })
}

/// Serves probes and metrics, with or without admin calls.
pub(crate) fn listen_admin(socket: TcpListener, routes: Routes) -> anyhow::Result<Listener> {
    serve(socket, routes, ADMIN_WORKERS)
}

/// Serves routes with answers that may take long.
fn serve(socket: TcpListener, routes: Routes, workers: Workers) -> anyhow::Result<Listener> {
    let (url, address) = (url(&socket)?, socket.local_addr()?);
    let builder = ActixServer::build();
    let shutdown = builder.graceful_shutdown_signal();
    let server = builder
        .workers(workers.count)
        .worker_max_blocking_threads(workers.blocking_max)
        .shutdown_timeout(SHUTDOWN_S)
        .disable_signals()
        .listen("http", socket, move || {
            let (routes, shutdown) = (Arc::clone(&routes), shutdown.clone());
            let app = App::new().configure(|config| routes(config)).wrap_fn(|request, next| {
                let open = request.request().conn_data::<OpenRequests>().map(OpenRequests::begin);
                let answered = next.call(request);
                async move {
                    let answer = answered.await;
                    drop(open);
                    answer
                }
            });
            let http = HttpService::build()
                .graceful_shutdown_signal(move || {
                    let shutdown = shutdown.clone();
                    async move { shutdown.notified().await }
                })
                .keep_alive(IDLE)
                .client_request_timeout(HEAD)
                .client_disconnect_timeout(DISCONNECT)
                .local_addr(address)
                .on_connect_ext(|stream: &TimedConnection<TcpStream>, connection| {
                    connection.insert(stream.open_requests());
                })
                .h1(map_config(app, |()| AppConfig::default()));
            fn_service(move |stream: TcpStream| {
                let peer = stream.peer_addr().ok();
                // The library answers 408 to a late first head. `TimedConnection` closes the
                // connection for a late further head; its limit is longer than the library's.
                ready(Ok((TimedConnection::of_heads(stream, HEAD + DISCONNECT, UNTAKEN), peer)))
            })
            .and_then(http)
        })?
        .run();
    Ok(spawn(url, server))
}

fn spawn(url: String, server: ActixServer) -> Listener {
    let handle = server.handle();
    actix_web::rt::spawn(async move {
        if let Err(error) = server.await {
            tracing::error!(%error, "a listener stopped with an error; restart this process");
        }
    });
    Listener { url, handle }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kafka_client_gets_a_core_if_there_are_two() {
        let workers = |log: &str, set| {
            let mut settings = Settings { log: log.to_owned(), ..Settings::default() };
            settings.ingest.workers = set;
            [1, 2, 3, 16].map(|cores| ingest_workers(&settings, cores))
        };
        assert_eq!(workers("", 0), [1, 2, 3, 16]);
        assert_eq!(workers("kafka://127.0.0.1:9092/pay", 0), [1, 1, 2, 15]);
        assert_eq!(workers("kafka://127.0.0.1:9092/pay", 4), [4; 4]);
    }
}
