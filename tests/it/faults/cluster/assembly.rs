//! Owns the cluster as a whole: servers, proxies, partner and pods, put together and waited for.
//! Invariant: the second pod of each role reaches its engines through the proxies, the first does
//! not.

use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

use payfold_partners::profile::{Profile, SANDBOX_PROFILE};
use payfold_sandbox::{RetrySchedule, Sandbox, SandboxSettings};
use tempfile::TempDir;

use crate::faults::child::output_of;
use crate::faults::load::World;
use crate::faults::trial;
use crate::support::sandbox;
use crate::support::stack::Stack;
use crate::support::waits::until;

use super::client::Answers;
use super::load::Scene;
use super::pods::{Pod, Role, Ways};
use super::proxy::Proxy;
use super::view::View;

/// After a fault the cluster makes progress at least this often until it has recovered: a busy
/// machine is slow, not stuck.
const RECOVER_MAX: Duration = Duration::from_secs(150);
/// The whole recovery takes at most this many of them: progress may go back and forth for ever.
const RECOVER_TIMES: u32 = 6;

/// A cluster that runs, and all around it. Fields are dropped in this order.
pub struct Cluster {
    pub scene: Scene,
    pub projectors: Vec<Arc<Pod>>,
    /// Projectors that come and go.
    pub guests: [Pod; 2],
    reconciler: Pod,
    pub kafka_proxies: Vec<Proxy>,
    pub cql_proxy: Proxy,
    pub partner: Sandbox,
    pub view: View,
    ways: Ways,
    pub stack: Stack,
    folder: Option<TempDir>,
}

impl Cluster {
    /// Starts all of it.
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map(Arc::new)
            .expect("a runtime can be made");
        let begun = Instant::now();
        let kafka_proxies: Vec<_> = (0..3).map(|_| Proxy::listen(&runtime)).collect();
        let cql_proxy = Proxy::listen(&runtime);
        let stack = start_stack(&kafka_proxies, &cql_proxy);
        let folder = trial::folder();
        let (straight, through) = ways(&folder, &stack, (&kafka_proxies, &cql_proxy));
        let pods = |role| [(1, &straight), (2, &through)].map(|(n, ways)| pod(role, n, ways));
        let ingests = pods(Role::Ingest);
        let partner = configure(&folder, &ingests[0].address);
        make_topics_and_tables(&straight);
        let cluster = Self {
            scene: Scene {
                world: Arc::new(World::with(sandbox::SECRET, "")),
                answers: Arc::new(Answers::default()),
                ingests: ingests.into(),
                checkouts: pods(Role::Checkout).into(),
            },
            projectors: pods(Role::Projector).into(),
            guests: [3, 4].map(|number| Pod::new(Role::Projector, number, straight.clone())),
            reconciler: Pod::new(Role::Reconciler, 1, straight.clone()),
            view: View::open(&runtime, &straight),
            ways: straight,
            kafka_proxies,
            cql_proxy,
            partner,
            stack,
            folder: Some(folder),
        };
        // The first makes the vault's token, so it comes alone.
        cluster.scene.ingests[0].start();
        cluster.scene.ingests[0].ready();
        cluster.all().skip(1).for_each(Pod::start);
        cluster.all().for_each(Pod::ready);
        trial::print_line(&format!(
            "3 brokers, a database and 7 processes serve after {:.1?}",
            begun.elapsed()
        ));
        cluster
    }

    /// Every pod that has to run.
    fn all(&self) -> impl Iterator<Item = &Pod> {
        let scene = self.scene.ingests.iter().chain(&self.scene.checkouts);
        let pods = scene.chain(&self.projectors).map(|pod| &**pod);
        pods.chain([&self.reconciler])
    }

    /// How often starts failed and were begun again.
    pub fn restarts(&self) -> u64 {
        self.all().chain(&self.guests).map(Pod::restarts).sum()
    }

    /// Panics if one ended by itself.
    pub fn assert_runs(&self) {
        self.all().for_each(Pod::assert_runs);
    }

    /// Waits until everything works at all, and the proxies are in use.
    pub fn warm_up(&self) {
        self.recover("the start");
        let carried = self.kafka_proxies.iter().chain([&self.cql_proxy]).map(Proxy::carried);
        let carried: Vec<_> = carried.collect();
        assert!(carried.iter().all(|count| *count > 0), "connections by proxy: {carried:?}");
    }

    /// Waits until every pod does again what it is for, by itself; how long that took.
    pub fn recover(&self, from: &str) -> Duration {
        let begun = Instant::now();
        let heads =
            until(&format!("the log's ends after {from}"), RECOVER_MAX, || self.view.heads());
        let mut reported = Duration::ZERO;
        let (mut before, mut moved) = (Vec::new(), Instant::now());
        loop {
            self.assert_runs();
            let pods = self.scene.ingests.iter().chain(&self.scene.checkouts);
            let silent = pods.filter(|pod| pod.served_at() < begun).map(|pod| pod.name.clone());
            let mut missing: Vec<String> = silent.collect();
            missing.extend(self.view.behind(&heads));
            missing.extend(self.unshared(heads.len()));
            if missing.is_empty() {
                return begun.elapsed();
            }
            assert!(
                moved.elapsed() < RECOVER_MAX && begun.elapsed() < RECOVER_MAX * RECOVER_TIMES,
                "[time] {:?} after {from} these have not recovered: {missing:?}; {}",
                begun.elapsed(),
                self.scene.answers
            );
            if missing != before {
                (before, moved) = (missing.clone(), Instant::now());
            }
            if begun.elapsed() > reported + Duration::from_secs(10) {
                reported = begun.elapsed();
                trial::print_line(&format!("{reported:.0?} after {from}: {missing:?}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Why the partitions are not fully assigned; `None` if each has one owner and every projector
    /// owns some. A projector that lost its partitions without noticing still counts them.
    fn unshared(&self, partitions: usize) -> Option<String> {
        let owned = |pod: &Arc<Pod>| pod.metric("payfold_projector_partitions").unwrap_or(0.0);
        let owned: Vec<_> = self.projectors.iter().map(owned).collect();
        let shared = owned.iter().all(|count| *count > 0.0)
            && owned.iter().sum::<f64>() == partitions as f64;
        (!shared).then(|| format!("the projectors own {owned:?} of {partitions} partitions"))
    }

    /// Stops every process that appends to intake in order, and waits until all of it is folded. A
    /// session that expires during the checks would otherwise append one more record.
    pub fn quiet(&self, time_max: Duration) {
        let scene = self.scene.ingests.iter().chain(&self.scene.checkouts);
        scene.map(|pod| &**pod).chain([&self.reconciler]).for_each(Pod::stop);
        self.settle(time_max);
    }

    /// Waits until everything in the log is folded.
    fn settle(&self, time_max: Duration) {
        let heads = until("the log's ends", time_max, || self.view.heads());
        until("everything is folded", time_max, || {
            self.view.behind(&heads).is_empty().then_some(())
        });
    }

    /// `payfold log verify`.
    pub fn verify(&self) -> Output {
        let mut command = self.ways.command();
        output_of(command.args(["log", "verify"]))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(folder) = self.folder.take()
        {
            trial::print_line(&format!("the pods' logs are kept in {}", folder.keep().display()));
        }
    }
}

fn pod(role: Role, number: u32, ways: &Ways) -> Arc<Pod> {
    Arc::new(Pod::new(role, number, ways.clone()))
}

/// Three brokers that know of the proxies before them, and a database.
fn start_stack(kafka_proxies: &[Proxy], cql_proxy: &Proxy) -> Stack {
    let ports: Vec<_> =
        kafka_proxies.iter().map(|proxy| proxy.address().port().to_string()).collect();
    let mut flags =
        vec!["--brokers", "3", "--cassandra", "1", "--cassandra-sync", "batch", "--detour"];
    flags.extend(ports.iter().map(String::as_str));
    let stack = Stack::start(&flags);
    assert_eq!(stack.kafka_detour.len(), kafka_proxies.len(), "each broker has its proxy");
    kafka_proxies.iter().zip(&stack.kafka_detour).for_each(|(proxy, broker)| proxy.lead_to(broker));
    cql_proxy.lead_to(&stack.cql[0]);
    stack
}

/// The way straight to the engines, and the one through the proxies.
fn ways(
    folder: &TempDir,
    stack: &Stack,
    (kafka_proxies, cql_proxy): (&[Proxy], &Proxy),
) -> (Ways, Ways) {
    let way = |brokers: &[String], node: &str| Ways {
        folder: folder.path().to_owned(),
        log: format!("kafka://{}/faults", brokers.join(",")),
        orders: format!("cql://{node}/faults"),
    };
    let proxies: Vec<_> = kafka_proxies.iter().map(|proxy| proxy.address().to_string()).collect();
    let straight = way(&stack.kafka, &stack.cql[0]);
    (straight, way(&proxies, &cql_proxy.address().to_string()))
}

/// Writes configuration and vault, and starts the partner.
fn configure(folder: &TempDir, public: &str) -> Sandbox {
    let profile = Profile::parse(&sandbox::code(), SANDBOX_PROFILE).expect("a profile");
    // Short pauses and many attempts: every notice is sent soon after a fault.
    let retry = RetrySchedule { first_ms: 200, longest_ms: 2_000, attempts_max: 500 };
    let (partner, url) = sandbox::serve(|url| SandboxSettings {
        retry,
        ..SandboxSettings::new(profile, vec![sandbox::account()], url)
    });
    let settings = format!(
        "dev = true\npublic_url = \"http://{public}\"\n[kafka]\nreplication = 3\n\
         [partners.sandbox]\nprofile = \"sandbox\"\napi_url = \"{url}\"\n"
    );
    std::fs::write(folder.path().join("payfold.toml"), settings)
        .expect("the folder can be written");
    sandbox::fill_vault(&folder.path().join("data"));
    partner
}

fn make_topics_and_tables(ways: &Ways) {
    for what in ["topics", "schema"] {
        let mut command = ways.command();
        let done = output_of(command.args([what, "apply"]));
        assert!(done.status.success(), "{what} apply: {done:?}");
        let said = String::from_utf8_lossy(&done.stdout);
        let in_sync = what == "schema" || said.contains("min.insync.replicas=2");
        assert!(in_sync, "two brokers have to have what is acknowledged: {said}");
    }
}
