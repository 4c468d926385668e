//! Owns which roles a process takes, and the threads of those that serve nobody over HTTP.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc;

use crate::args::Role;
use crate::settings::Origin;
use crate::wiring::Need;

/// Roles of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// Takes notices and browser returns.
    pub ingest: bool,
    /// Serves shops.
    pub checkout: bool,
    /// Folds facts into orders.
    pub projector: bool,
    /// Watches deadlines and shared refs.
    pub reconciler: bool,
    /// Plays a partner.
    pub sandbox: bool,
}

impl Roles {
    /// The roles that are asked for. `all` is every role of a system; playing a partner belongs to the demo, and
    /// elsewhere it has to be asked for by name: an account of a real partner's sandbox is not ours to play.
    pub fn asked(asked: &[Role], origin: Origin) -> Self {
        let all = asked.contains(&Role::All);
        let has = |role| all || asked.contains(&role);
        Self {
            ingest: has(Role::Ingest),
            checkout: has(Role::Checkout),
            projector: has(Role::Projector),
            reconciler: has(Role::Reconciler),
            sandbox: asked.contains(&Role::Sandbox) || (all && origin == Origin::Demo),
        }
    }

    /// Which engines they need: who takes notices does without the orders, and the sandbox partner is not ours.
    pub fn need(self) -> Need {
        match self {
            Self { checkout: true, .. } | Self { projector: true, .. } => Need::Both,
            Self { reconciler: true, .. } => Need::Both,
            Self { ingest: true, .. } => Need::Log,
            _ => Need::Nothing,
        }
    }
}

/// A role on a thread and a runtime of its own.
pub struct RoleThread {
    name: &'static str,
    thread: thread::JoinHandle<()>,
}

impl RoleThread {
    /// Starts it; if it ends with an error, or panics, that goes to `failed` after `on_failure`.
    pub fn start<E>(
        name: &'static str,
        failed: mpsc::UnboundedSender<anyhow::Error>,
        on_failure: impl FnOnce() + Send + 'static,
        role: impl Future<Output = Result<(), E>> + Send + 'static,
    ) -> anyhow::Result<Self>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let runtime = runtime(name)?;
        let run = move || {
            let ran = catch_unwind(AssertUnwindSafe(|| runtime.block_on(role)));
            let error = match ran {
                Ok(Ok(())) => return,
                Ok(Err(error)) => anyhow::Error::new(error),
                Err(_) => anyhow::anyhow!("it panicked; the log has the place"),
            };
            on_failure();
            // The receiver is gone only when the process is ending anyway.
            let _ = failed.send(error.context(format!("the {name} has stopped")));
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self { name, thread })
    }

    /// Waits until it has ended.
    pub async fn join(self) -> anyhow::Result<()> {
        let (name, thread) = (self.name, self.thread);
        let joined = tokio::task::spawn_blocking(move || thread.join()).await?;
        joined.map_err(|_| anyhow::anyhow!("the {name} panicked; see the log"))
    }
}

/// The runtime of a role that is served on listeners. Dropping it never waits: what still runs on it is cut off, so
/// a drain comes before.
pub struct RoleRuntime(Option<Runtime>);

impl RoleRuntime {
    /// A runtime with threads of this name.
    pub fn new(name: &str) -> std::io::Result<Self> {
        runtime(name).map(|runtime| Self(Some(runtime)))
    }

    /// Where to spawn, and what to be inside of.
    pub fn handle(&self) -> &Handle {
        self.0.as_ref().expect("it is there until it is dropped").handle()
    }
}

impl Drop for RoleRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A role's own runtime. Its blocking threads are as many as the stages of two folds beside each other: each more would keep an allocator's
/// memory of its own, and with the default of 512 the process grew by 100 MB.
pub fn runtime(name: &str) -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(8)
        .thread_name(name)
        .enable_all()
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_plays_a_partner_in_the_demo_only() {
        let of = Roles::asked;
        let all = of(&[Role::All], Origin::Configured);
        assert!(all.ingest && all.checkout && all.projector && all.reconciler && !all.sandbox);
        assert!(of(&[Role::All], Origin::Demo).sandbox);
        assert!(of(&[Role::All, Role::Sandbox], Origin::Configured).sandbox);
        let alone = of(&[Role::Sandbox], Origin::Configured);
        assert!(alone.sandbox && alone.need() == Need::Nothing);
        let two = of(&[Role::Ingest, Role::Projector], Origin::Demo);
        assert_eq!(two, Roles { ingest: true, projector: true, ..Roles::default() });
    }
}
