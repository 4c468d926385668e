//! Owns which accounts verify payers' returns with the keys of their notices, and what is said of them: a payer who holds
//! such a return can post its fields as a notice.

use payfold_partners::directory::{Account, Directory};
use payfold_partners::keys::Channel;

/// The enabled accounts whose returns are verified with the keys of their notices. A custom scheme says by itself what a
/// notice is; its returns are not verified.
pub fn sharing(directory: &Directory) -> Vec<&Account> {
    let shares = |account: &&Account| {
        let mut keys = account.keys_of(Channel::Return).keys().iter();
        account.is_enabled()
            && account.profile().scheme().is_none()
            && keys.any(|key| key.channel() == Channel::Ipn)
    };
    directory.accounts().iter().map(AsRef::as_ref).filter(shares).collect()
}

/// What is so, in one sentence; none if no account is concerned.
pub fn problem(sharing: &[&Account]) -> Option<String> {
    let names: Vec<String> = sharing.iter().map(|account| account.name()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "returns of {} are verified with the keys of their notices: a payer can post a signed return as a notice",
            names.join(", ")
        )
    })
}

/// What mends it, for the first of them.
pub fn fix(sharing: &[&Account]) -> String {
    let command = sharing.first().map_or_else(String::new, |account| {
        format!(
            "payfold key add {} --merchant {} --channel return --secret-file FILE",
            account.partner(),
            account.merchant_code()
        )
    });
    format!(
        "{command}, if the partner can sign returns with a key of their own; SECURITY.md says when it does no harm"
    )
}
