//! Owns what is remembered of the latest tickets: of what takes longer than a request should.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The latest tickets, each with what it stands for.
#[derive(Clone)]
pub(super) struct Tickets<T> {
    known: Arc<Mutex<VecDeque<(String, T)>>>,
    most: usize,
}

impl<T: Clone> Tickets<T> {
    /// Remembers as many tickets as this.
    pub(super) fn of(most: usize) -> Self {
        Self { known: Arc::new(Mutex::new(VecDeque::new())), most }
    }

    /// Remembers what a ticket stands for now.
    pub(super) fn set(&self, ticket: &str, value: T) {
        let mut known = self.known();
        known.retain(|(other, _)| other != ticket);
        known.push_back((ticket.to_owned(), value));
        while known.len() > self.most {
            known.pop_front();
        }
    }

    /// What a ticket stands for; `None` if it is unknown or forgotten.
    pub(super) fn get(&self, ticket: &str) -> Option<T> {
        self.known().iter().find(|(known, _)| known == ticket).map(|(_, value)| value.clone())
    }

    /// Forgets a ticket.
    pub(super) fn forget(&self, ticket: &str) {
        self.known().retain(|(known, _)| known != ticket);
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<(String, T)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICKETS: usize = 3;

    #[test]
    fn the_latest_tickets_are_remembered_and_no_more() {
        let tickets = Tickets::of(TICKETS);
        let value = Arc::new(());
        for number in 0..=TICKETS {
            tickets.set(&number.to_string(), Arc::clone(&value));
            tickets.set(&number.to_string(), Arc::clone(&value));
        }
        assert_eq!(tickets.get("0"), None);
        assert!(tickets.get("1").is_some());
        assert_eq!(Arc::strong_count(&value), TICKETS + 1, "what is forgotten is let go");
        tickets.forget("1");
        assert_eq!(tickets.get("1"), None);
        assert_eq!(Arc::strong_count(&value), TICKETS);
    }
}
