//! Owns the waiting for storage that is unavailable. The caller repeats an operation, with growing
//! pauses, until the operation succeeds, fails for good, or the role is signalled to stop. An
//! outage writes one log line when it begins and one when it ends.

use std::time::Duration;

use payfold_engines::{EngineError, SeamFuture};
use tokio::sync::watch;

use crate::halt::{Halt, RunError};
use crate::stop::wait_for_stop;

/// The pauses between two tries of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The first pause, ms; each further pause is twice as long.
    pub ms_min: u64,
    /// The longest pause, ms.
    pub ms_max: u64,
}

impl Retry {
    /// The pause that follows `pauses` earlier ones.
    fn pause(self, pauses: u32) -> Duration {
        Duration::from_millis(self.ms_min.saturating_mul(1_u64 << pauses.min(16)).min(self.ms_max))
    }
}

/// One operation on storage that its caller repeats until it succeeds.
pub struct Outage<'a> {
    retry: Retry,
    stop: &'a watch::Receiver<bool>,
    what: &'static str,
    /// How many pauses there were; 0 while the operation has not failed.
    pauses: u32,
}

impl<'a> Outage<'a> {
    /// An operation that has not failed yet. `what` follows "can't" in messages.
    pub fn new(retry: Retry, stop: &'a watch::Receiver<bool>, what: &'static str) -> Self {
        Self { retry, stop, what, pauses: 0 }
    }

    /// Repeats a call of an engine until it answers. Errors: as `wait`.
    pub async fn ask<'e, T>(
        mut self,
        ask: impl Fn() -> SeamFuture<'e, T, EngineError>,
    ) -> Result<T, Halt> {
        loop {
            match ask().await {
                Ok(answer) => {
                    self.over();
                    return Ok(answer);
                }
                Err(error) => self.wait(error).await?,
            }
        }
    }

    /// Handles an error of the operation: returns when the caller should try again. Errors:
    /// `Stopped`, or `Failed` for an error that trying again can't mend.
    pub async fn wait(&mut self, error: EngineError) -> Result<(), Halt> {
        match error {
            EngineError::Unavailable(_) => {}
            error @ (EngineError::Invalid(_) | EngineError::Corrupt(_)) => {
                return Err(Halt::Failed(RunError::Engine { what: self.what, error }));
            }
        }
        // One line an outage, not one a try: an outage may last for hours.
        if self.pauses == 0 {
            tracing::warn!(error = %error, "can't {}, trying again until it works", self.what);
        }
        let pause = self.retry.pause(self.pauses);
        self.pauses = self.pauses.saturating_add(1);
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            () = wait_for_stop(self.stop) => Err(Halt::Stopped),
        }
    }

    /// The operation succeeded: logs that an outage has ended, if there was one.
    pub fn over(self) {
        if self.pauses > 0 {
            tracing::info!(tries = self.pauses, "storage is back: can {} again", self.what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let retry = Retry { ms_min: 50, ms_max: 5_000 };
        let pauses = [0, 1, 6, 7, 100].map(|pauses| retry.pause(pauses).as_millis());
        assert_eq!(pauses, [50, 100, 3_200, 5_000, 5_000]);
    }

    #[tokio::test]
    async fn only_an_unavailable_engine_is_waited_for() {
        let (stop, stopped) = watch::channel(false);
        let retry = Retry { ms_min: 1, ms_max: 1 };
        let mut outage = Outage::new(retry, &stopped, "read");
        let unavailable = || EngineError::Unavailable("away".to_owned());
        assert!(outage.wait(unavailable()).await.is_ok());
        let corrupt = EngineError::Corrupt("torn".to_owned());
        let ended = outage.wait(corrupt.clone()).await;
        let error = RunError::Engine { what: "read", error: corrupt };
        assert!(matches!(ended, Err(Halt::Failed(ended)) if ended == error));
        stop.send_replace(true);
        let mut outage = Outage::new(Retry { ms_min: 60_000, ms_max: 60_000 }, &stopped, "read");
        assert!(matches!(outage.wait(unavailable()).await, Err(Halt::Stopped)));
    }
}
