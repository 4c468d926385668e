//! Owns the warning about accounts that verify payers' returns with the keys of their notices. A
//! payer can post the fields of such a signed return as a notice.

use payfold_partners::directory::{Account, Directory};
use payfold_partners::keys::Channel;

/// The enabled accounts of the default scheme that verify returns with the keys of their notices.
/// Custom schemes are left out: they distinguish notices from returns by themselves.
pub(crate) fn sharing(directory: &Directory) -> Vec<&Account> {
    let shares = |account: &&Account| {
        let mut keys = account.keys_of(Channel::Return).keys().iter();
        account.is_enabled()
            && account.profile().is_default_scheme()
            && keys.any(|key| key.channel() == Channel::Ipn)
    };
    directory.accounts().iter().map(AsRef::as_ref).filter(shares).collect()
}

/// The warning in one sentence; `None` if there is no such account.
pub(crate) fn problem(sharing: &[&Account]) -> Option<String> {
    let names: Vec<String> = sharing.iter().map(|account| account.name()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "returns of {} are verified with the keys of their notices, so a payer can post a \
             signed return as a notice",
            names.join(", ")
        )
    })
}

/// The fix for the first of these accounts.
pub(crate) fn fix(sharing: &[&Account]) -> String {
    let command = sharing.first().map_or_else(String::new, |account| {
        format!(
            "payfold key add {} --merchant {} --channel return --secret-file FILE",
            account.partner(),
            account.merchant_code()
        )
    });
    format!(
        "if the partner can sign returns with a separate key: first {command} with the key in \
         force, then the new one (docs/how-to/rotate-keys.md); SECURITY.md says when one key for \
         both does no harm"
    )
}
