//! Owns the listeners: binding them, and the HTTP stack of each. None waits for a peer for ever: the library times a
//! connection's first head and its idleness, `Patient` what lies between. On the public listener that is the whole
//! exchange; elsewhere, where answers may take long (streams, long polls, runs), it is each head.

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
use actix_web::web::{Data, ServiceConfig};

use crate::admin::{self, Admin};
use crate::error::Fixable;
use crate::patience::{OpenRequests, Patient};
use crate::settings::Settings;

/// Admin requests are few, and some read much.
const ADMIN_WORKERS: Workers = Workers { count: 1, blocking_max: 16 };
/// How long a listener waits for its connections once its requests are done.
const SHUTDOWN_S: u64 = 1;
/// How long a refused sender may go on before it is cut off.
const DISCONNECT: Duration = Duration::from_secs(1);
/// What an answer may take once its request is there: an append that times out, and some air.
const ANSWER: Duration = Duration::from_secs(6);

/// A bound listener and its server.
pub struct Listener {
    /// `http://host:port`.
    pub url: String,
    /// Stops it.
    pub handle: ServerHandle,
}

/// Time for a request's head where no setting says another.
const HEAD: Duration = Duration::from_secs(5);
/// How long an idle connection is kept there.
const IDLE: Duration = Duration::from_secs(75);
/// How long an answer there may lie untaken: a stream's client may be on a bad line.
const UNTAKEN: Duration = Duration::from_secs(30);

/// Threads of a worker that read rows. Each more would keep an allocator's memory of its own and a connection to
/// the store.
const BLOCKING_PER_WORKER: usize = 4;

/// The threads of a listener.
struct Workers {
    count: usize,
    /// Threads of each for what blocks.
    blocking_max: usize,
}

/// What a listener serves.
pub type Routes = Arc<dyn Fn(&mut ServiceConfig) + Send + Sync>;

/// Takes the address. Errors: which flag and variable give it another.
pub fn bind(address: &str, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let variable = format!("PAYFOLD_{}", flag.to_uppercase().replace('-', "_"));
        Fixable::error(
            format!("can't listen on {address}: {error}"),
            format!(
                "choose another address with --{flag} ADDR, {variable} or {} in payfold.toml",
                flag.replace('-', "_")
            ),
        )
    })
}

/// `http://host:port` of a socket.
pub fn url(socket: &TcpListener) -> anyhow::Result<String> {
    Ok(format!("http://{}", socket.local_addr()?))
}

/// The cores this process may use.
fn cores() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// How many workers take notices. Unless it is set, the threads that speak with Kafka have a core for themselves.
fn ingest_workers(settings: &Settings, cores: usize) -> usize {
    match settings.ingest.workers {
        0 if settings.logs_to_kafka() => cores.saturating_sub(1).max(1),
        0 => cores,
        set => set,
    }
}

/// Serves on the public listener's HTTP stack and settings; `bench` measures an empty handler on the same.
pub fn listen_public(
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
            let patience = head + body + ANSWER;
            fn_service(move |stream: TcpStream| {
                let peer = stream.peer_addr().ok();
                ready(Ok((Patient::new(stream, patience), peer)))
            })
            .and_then(http)
        })?
        .run();
    Ok(spawn(url, server))
}

/// Serves those who may stay: shops that follow payments, and the sandbox's browsers. 0 workers is one per core.
pub fn listen(socket: TcpListener, routes: Routes, workers: usize) -> anyhow::Result<Listener> {
    let count = if workers == 0 { cores() } else { workers };
    serve(socket, routes, Workers { count, blocking_max: BLOCKING_PER_WORKER })
}

/// Serves probes, metrics and admin calls.
pub fn listen_admin(socket: TcpListener, admin: Data<Admin>) -> anyhow::Result<Listener> {
    let routes = move |config: &mut ServiceConfig| {
        config.app_data(admin.clone()).configure(admin::routes);
    };
    serve(socket, Arc::new(routes), ADMIN_WORKERS)
}

/// Serves routes whose answers may take long.
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
                .on_connect_ext(|stream: &Patient<TcpStream>, connection| {
                    connection.insert(stream.open_requests());
                })
                .h1(map_config(app, |()| AppConfig::default()));
            fn_service(move |stream: TcpStream| {
                let peer = stream.peer_addr().ok();
                // The library answers a first head that is late; the rest is cut off.
                ready(Ok((Patient::of_heads(stream, HEAD + DISCONNECT, UNTAKEN), peer)))
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
            tracing::error!(%error, "a listener has ended");
        }
    });
    Listener { url, handle }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_speaks_with_kafka_has_a_core_where_there_are_two() {
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
