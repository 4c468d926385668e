//! Collects the log lines that the role writes during a test. The role's tasks run on the thread of
//! the test.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

/// The log lines of this thread since `start`.
pub struct LogLines {
    all: Arc<Mutex<Vec<String>>>,
    _guard: DefaultGuard,
    /// Keeps every line enabled. With a single subscriber, tracing caches for all threads what the
    /// first thread's subscriber says, and the threads of other tests have none. With two
    /// subscribers it asks both.
    _second: tracing::Dispatch,
}

impl LogLines {
    pub fn start() -> Self {
        let all = Arc::default();
        let _guard = tracing::subscriber::set_default(LineCollector { all: Arc::clone(&all) });
        let _second = tracing::Dispatch::new(LineCollector { all: Arc::default() });
        Self { all, _guard, _second }
    }

    /// The lines that contain this text. A line is its level and its `field=value` pairs.
    pub fn with(&self, text: &str) -> Vec<String> {
        let all = self.all.lock().unwrap();
        all.iter().filter(|line| line.contains(text)).cloned().collect()
    }
}

struct LineCollector {
    all: Arc<Mutex<Vec<String>>>,
}

impl Subscriber for LineCollector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("payfold_checkout")
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = LineText(event.metadata().level().to_string());
        event.record(&mut line);
        self.all.lock().unwrap().push(line.0);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

struct LineText(String);

impl Visit for LineText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}
