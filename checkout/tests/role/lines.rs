//! The log lines of the role, as far as a test looks at them. A role's jobs run on the test's own thread.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

/// The lines of this thread since it was made.
pub struct Lines {
    all: Arc<Mutex<Vec<String>>>,
    _guard: DefaultGuard,
    /// While there is but one subscriber, tracing asks the first thread at a line whether it is wanted, and other
    /// tests' threads want none; with two it asks the subscribers.
    _second: tracing::Dispatch,
}

impl Lines {
    pub fn start() -> Self {
        let all = Arc::default();
        let _guard = tracing::subscriber::set_default(Keeper { all: Arc::clone(&all) });
        let _second = tracing::Dispatch::new(Keeper { all: Arc::default() });
        Self { all, _guard, _second }
    }

    /// The lines that hold this text: level, then `field=value` each.
    pub fn with(&self, text: &str) -> Vec<String> {
        let all = self.all.lock().unwrap();
        all.iter().filter(|line| line.contains(text)).cloned().collect()
    }
}

struct Keeper {
    all: Arc<Mutex<Vec<String>>>,
}

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("payfold_checkout")
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.all.lock().unwrap().push(line.0);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}
