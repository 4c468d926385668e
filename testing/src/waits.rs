//! Waits until a condition holds or its time is over, and measures promised times. Nothing sleeps
//! for luck. A failure begins with `[time]`, and says how long the machine stalled.

use std::fmt::Debug;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How much longer than on a quiet machine something may take: a time limit here finds what never
/// comes, and a machine with other work must not make it up.
const BUSY: u32 = 6;

/// The limit of `eventually`: what it waits for takes less than a second on a quiet machine.
const HANGS: Duration = Duration::from_secs(60);

/// How often a wait asks.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// Asks until there is something; fails when it is not there `BUSY` times its time on a quiet
/// machine.
pub fn until<T>(what: &str, quiet: Duration, ask: impl FnMut() -> Option<T>) -> T {
    let watch = Stopwatch::start();
    ask_until(|| watch.elapsed() >= quiet * BUSY, ask)
        .unwrap_or_else(|| panic!("[time] not {watch}: {what}"))
}

/// As `until`; a failure shows what `ask` saw instead.
pub fn until_seen<T, S: Debug>(
    what: &str,
    quiet: Duration,
    mut ask: impl FnMut() -> Result<T, S>,
) -> T {
    let watch = Stopwatch::start();
    let mut seen = None;
    let ask = || ask().map_err(|instead| seen = Some(instead)).ok();
    ask_until(|| watch.elapsed() >= quiet * BUSY, ask)
        .unwrap_or_else(|| panic!("[time] not {watch}: {what}, but {seen:?}"))
}

/// Asks until there is something; fails when it is not there within a time that was promised. The
/// time in which the machine stalled does not count.
pub fn within<T>(what: &str, time_max: Duration, ask: impl FnMut() -> Option<T>) -> T {
    let watch = Stopwatch::start();
    ask_until(|| !watch.is_within(time_max), ask)
        .unwrap_or_else(|| panic!("[time] {what}: promised within {time_max:?}, not {watch}"))
}

fn ask_until<T>(is_over: impl Fn() -> bool, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let mut found = ask();
    while found.is_none() && !is_over() {
        std::thread::sleep(ASK_EVERY);
        found = ask();
    }
    found
}

/// Asks within an asynchronous test until there is something; a failure shows what `ask` saw
/// instead. Its limit is of the real clock, also where the test stops that of Tokio.
pub async fn eventually<T, S: Debug>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, S>) -> T {
    let watch = Stopwatch::start();
    for pause_ms in [1, 2, 5, 10, 20].into_iter().chain(std::iter::repeat(50)) {
        match ask().await {
            Ok(found) => return found,
            Err(seen) if watch.elapsed() > HANGS => {
                panic!("[time] not {watch}: {what}, but {seen:?}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(pause_ms)).await,
        }
    }
    unreachable!("the pauses never end")
}

/// Measures how long something takes, and how much of that the machine stalled.
pub struct Stopwatch {
    begun: Instant,
    stalled_before: Duration,
}

impl Stopwatch {
    /// Begins to measure.
    pub fn start() -> Self {
        Self { begun: Instant::now(), stalled_before: stalled() }
    }

    /// Asserts that a promised time has not passed, without the time in which the machine stalled.
    #[track_caller]
    pub fn assert_within(&self, promised: Duration, what: &str) {
        let is_kept = self.is_within(promised);
        assert!(is_kept, "[time] {what}: promised within {promised:?}, not {self}");
    }

    /// How long it took until now, with the time in which the machine stalled.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    fn is_within(&self, promised: Duration) -> bool {
        self.elapsed().saturating_sub(self.stalled()) <= promised
    }

    fn stalled(&self) -> Duration {
        stalled() - self.stalled_before
    }
}

impl std::fmt::Display for Stopwatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "within {:.1?}, stalled {:.1?}", self.elapsed(), self.stalled())
    }
}

/// How long this process was not given a processor when it wanted one, since the first question: a
/// thread sums how much it oversleeps.
fn stalled() -> Duration {
    const TICK: Duration = Duration::from_millis(20);
    static OVERSLEPT_US: AtomicU64 = AtomicU64::new(0);
    static METER: OnceLock<()> = OnceLock::new();
    METER.get_or_init(|| {
        std::thread::spawn(|| {
            loop {
                let begun = Instant::now();
                std::thread::sleep(TICK);
                let overslept = begun.elapsed().saturating_sub(TICK).as_micros();
                OVERSLEPT_US.fetch_add(u64::try_from(overslept).unwrap_or(0), Ordering::Relaxed);
            }
        });
    });
    Duration::from_micros(OVERSLEPT_US.load(Ordering::Relaxed))
}
