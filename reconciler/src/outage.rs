//! Owns the waiting for storage that is unavailable: what is asked is asked again, with growing pauses,
//! until it succeeds, fails for good, or the role is told to stop. Logged when it starts and when it ends.

use std::time::Duration;

use payfold_engines::{EngineError, SeamFuture};

use crate::run::{Halt, RunError, Shared};

/// One thing that is asked of storage until it succeeds.
pub(crate) struct Outage<'a> {
    shared: &'a Shared,
    what: &'static str,
    /// The pauses so far; 0 while all is well.
    pauses: u32,
}

impl<'a> Outage<'a> {
    /// Nothing failed yet. `what` follows "can't" in messages.
    pub(crate) fn none(shared: &'a Shared, what: &'static str) -> Self {
        Self { shared, what, pauses: 0 }
    }

    /// What to do about an error: returns when to ask again. Errors: stop, or a failure for good.
    pub(crate) async fn wait(&mut self, error: EngineError) -> Result<(), Halt> {
        match error {
            EngineError::Unavailable(_) => {}
            error @ (EngineError::Invalid(_) | EngineError::Corrupt(_)) => {
                return Err(Halt::Failed(RunError::Engine { what: self.what, error }));
            }
        }
        if self.pauses == 0 {
            tracing::warn!(error = %error, "can't {}, trying again until it works", self.what);
        }
        let (min, max) = (self.shared.settings.retry_ms_min, self.shared.settings.retry_ms_max);
        let pause_ms = min.saturating_mul(1_u64 << self.pauses.min(16)).min(max);
        self.pauses = self.pauses.saturating_add(1);
        self.shared.pause(Duration::from_millis(pause_ms)).await
    }

    /// It succeeded.
    pub(crate) fn over(self) {
        if self.pauses > 0 {
            tracing::info!(tries = self.pauses, "storage is back: can {} again", self.what);
        }
    }
}

impl Shared {
    /// Asks until there is an answer.
    pub(crate) async fn ask<'a, T>(
        &'a self,
        what: &'static str,
        ask: impl Fn() -> SeamFuture<'a, T, EngineError>,
    ) -> Result<T, Halt> {
        let mut outage = Outage::none(self, what);
        loop {
            match ask().await {
                Ok(answer) => {
                    outage.over();
                    return Ok(answer);
                }
                Err(error) => outage.wait(error).await?,
            }
        }
    }

    /// Waits so long. Errors: told to stop meanwhile.
    pub(crate) async fn pause(&self, pause: Duration) -> Result<(), Halt> {
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            () = self.stopped() => Err(Halt::Stopped),
        }
    }

    /// Resolves when the role is told to stop.
    pub(crate) async fn stopped(&self) {
        // Nobody left to tell it is as good as being told.
        let _ = self.stop.clone().wait_for(|stop| *stop).await;
    }
}
