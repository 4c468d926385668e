//! Owns the text on when keys are valid, for messages about a missing valid key. A message that has
//! it should show the clock's time, too: a wrong clock looks like an ended key.

use payfold_schemas::ids::KeyId;
use payfold_schemas::time::Time;

use crate::document::KeyEntry;
use crate::keys::Key;

/// When each of these keys is valid, such as `k1 from … until …, k2 from …`; `no key` where there
/// is none.
pub fn of_keys<'a>(keys: impl Iterator<Item = &'a Key>) -> String {
    list(keys.map(|key| one(key.id(), key.valid_from(), key.valid_until())))
}

/// When each of these keys of the vault is valid, in the same format.
pub fn of_entries<'a>(entries: impl Iterator<Item = &'a KeyEntry>) -> String {
    list(entries.map(|entry| one(&entry.id, entry.valid_from, entry.ends())))
}

fn one(id: &KeyId, from: Time, until: Option<Time>) -> String {
    until.map_or(format!("{id} from {from}"), |until| format!("{id} from {from} until {until}"))
}

fn list(keys: impl Iterator<Item = String>) -> String {
    let keys: Vec<String> = keys.collect();
    if keys.is_empty() { "no key".to_owned() } else { keys.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn each_key_is_listed_with_its_times() {
        let key = |id: &str, until: Option<i64>| {
            let secret = Secret::from_bytes(b"a secret of enough bytes".to_vec());
            let until = until.map(Time::from_unix_ms);
            Key::new(KeyId::parse(id).unwrap(), &secret, Time::from_unix_ms(0), until).unwrap()
        };
        let keys = [key("k1", Some(86_400_000)), key("k2", None)];
        let (begin, end) = (Time::from_unix_ms(0), Time::from_unix_ms(86_400_000));
        assert_eq!(of_keys(keys.iter()), format!("k1 from {begin} until {end}, k2 from {begin}"));
        assert_eq!(of_keys([].iter()), "no key");
    }
}
