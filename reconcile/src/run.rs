//! Owns the reconciliation loop: the service that works on requests, and beside it the loop that
//! surveys partners.

use payfold_kit::Halt;
use tokio::sync::mpsc;

use crate::question::PaymentQuestion;
use crate::service::{self, ServiceQueue};
use crate::setup::ReconcileSetup;
use crate::shared::SharedContext;
use crate::survey;

/// Works on the requests of this queue until the process is asked to stop. Without `questions` no
/// partner can be surveyed. Errors: the stop, or a permanent failure.
pub async fn run(
    shared: &SharedContext,
    setup: &ReconcileSetup,
    queue: ServiceQueue,
    questions: Option<mpsc::Sender<PaymentQuestion>>,
) -> Result<(), Halt> {
    let (tasks, surveys) = queue.split(setup);
    let compared = service::run_service(shared, setup, tasks);
    tokio::try_join!(compared, survey::run_surveys(shared, surveys, questions)).map(|_| ())
}
