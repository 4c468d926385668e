//! Owns the roles of a process, the threads of roles without a listener, and the runtimes of roles.

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
    /// Receives notices and browser returns.
    pub ingest: bool,
    /// Serves shops.
    pub checkout: bool,
    /// Folds facts into orders.
    pub projector: bool,
    /// Watches deadlines and shared refs.
    pub reconciler: bool,
    /// Serves the console.
    pub console: bool,
    /// Plays the sandbox partner.
    pub sandbox: bool,
}

impl Roles {
    /// The roles that `--roles` names. `all` includes the sandbox in the demo only. Elsewhere it
    /// must be named, because an account at a real partner's sandbox must not be played by this
    /// program.
    pub fn asked(asked: &[Role], origin: Origin) -> Self {
        let all = asked.contains(&Role::All);
        let has = |role| all || asked.contains(&role);
        Self {
            ingest: has(Role::Ingest),
            checkout: has(Role::Checkout),
            projector: has(Role::Projector),
            reconciler: has(Role::Reconciler),
            console: has(Role::Console),
            sandbox: asked.contains(&Role::Sandbox) || (all && origin == Origin::Demo),
        }
    }

    /// The names of these roles, as `--roles` takes them.
    pub(crate) fn names(self) -> Vec<&'static str> {
        let all = [
            (self.ingest, "ingest"),
            (self.checkout, "checkout"),
            (self.projector, "projector"),
            (self.reconciler, "reconciler"),
            (self.console, "console"),
            (self.sandbox, "sandbox"),
        ];
        all.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, name)| name).collect()
    }

    /// The engines that these roles need. Ingest works without the order store; the console reads
    /// through admin listeners; the sandbox needs no engines, because a real partner would not have
    /// them.
    pub fn need(self) -> Need {
        match self {
            Self { checkout: true, .. } | Self { projector: true, .. } => Need::Both,
            Self { reconciler: true, .. } => Need::Both,
            Self { ingest: true, .. } => Need::Log,
            _ => Need::Nothing,
        }
    }
}

/// A role that runs on its own thread and runtime.
pub(crate) struct RoleThread {
    name: &'static str,
    thread: thread::JoinHandle<()>,
}

impl RoleThread {
    /// Starts the role. If it returns an error or panics, `on_failure` is called and the error is
    /// sent to `failed`.
    pub(crate) fn start<E>(
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
                Err(_) => anyhow::anyhow!("it panicked; the log shows where"),
            };
            on_failure();
            // The receiver is dropped only when the process is ending.
            let _ = failed.send(error.context(format!("the {name} has stopped")));
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self { name, thread })
    }

    /// Waits until the role has ended.
    pub(crate) async fn join(self) -> anyhow::Result<()> {
        let (name, thread) = (self.name, self.thread);
        let joined = tokio::task::spawn_blocking(move || thread.join()).await?;
        joined.map_err(|_| anyhow::anyhow!("the {name} panicked; see the log"))
    }
}

/// The runtime of a role that is served on a listener. Dropping it aborts its tasks without
/// waiting, so the role must be drained first.
pub(crate) struct RoleRuntime(Option<Runtime>);

impl RoleRuntime {
    /// Makes a runtime. Its threads have this name.
    pub(crate) fn new(name: &str) -> std::io::Result<Self> {
        runtime(name).map(|runtime| Self(Some(runtime)))
    }

    /// The handle of the runtime, to spawn on it or to enter it.
    pub(crate) fn handle(&self) -> &Handle {
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

/// Makes a role's runtime. 8 blocking threads serve the stages of two folds that run at once. Each
/// further thread would keep its own allocator memory: with the default of 512 the process grew by
/// 100 MB.
pub(crate) fn runtime(name: &str) -> std::io::Result<Runtime> {
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
    fn all_includes_the_sandbox_in_the_demo_only() {
        let of = Roles::asked;
        let all = of(&[Role::All], Origin::Configured);
        assert!(all.ingest && all.checkout && all.projector && all.reconciler && !all.sandbox);
        assert!(all.console && of(&[Role::Console], Origin::Configured).need() == Need::Nothing);
        assert!(of(&[Role::All], Origin::Demo).sandbox);
        assert!(of(&[Role::All, Role::Sandbox], Origin::Configured).sandbox);
        let alone = of(&[Role::Sandbox], Origin::Configured);
        assert!(alone.sandbox && alone.need() == Need::Nothing);
        let two = of(&[Role::Ingest, Role::Projector], Origin::Demo);
        assert_eq!(two, Roles { ingest: true, projector: true, ..Roles::default() });
    }
}
