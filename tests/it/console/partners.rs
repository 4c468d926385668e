//! Partners in the console: accounts and keys without a secret, and what notices were answered.

use super::{Visitor, token_of};
use crate::support::demo::Demo;
use crate::support::notice::Notice;

#[test]
fn an_engineer_sees_keys_and_answers_of_a_partner() {
    let demo = Demo::boot();
    let system = &demo.system;
    let vic = Visitor::log_in(system, &token_of(system, "vic", "viewer"));
    system.payfold(&["demo", "pay", "--count", "2"]).ok();
    let [order, provider_ref] = demo.open_order();
    let notice = Notice::paid("DEMO", &order, &provider_ref);
    let refused = system.post_ipn(&notice.sent(-3_600).signed(&demo.secret));
    assert_eq!(refused.status, 403, "{}", refused.text());
    let partners = vic.json("/partners").json();
    let account = &partners["sandbox"]["accounts"][0];
    assert_eq!((&account["merchantCode"], &account["enabled"]), (&"DEMO".into(), &true.into()));
    let key = &account["keys"][0];
    assert_eq!((&key["id"], &key["channel"]), (&"sandbox-1".into(), &"ipn".into()), "{account}");
    for path in ["/partners", "/partners/sandbox"] {
        let (json, page) = (vic.json(path).text(), vic.get(path).text());
        for secret in [&*demo.secret, &*system.home().data_file("admin.token")] {
            assert!(!json.contains(secret) && !page.contains(secret), "{path} shows a secret");
        }
    }
    let page = vic.get("/partners/sandbox").text();
    for said in [
        "Account DEMO",
        "<code>sandbox-1</code>",
        "<span class=\"badge paid\">current</span>",
        "<bdi>accepted</bdi></th><td class=\"num\">2</td>",
        "<bdi>timestamp_out_of_window</bdi></th><td class=\"num\">1</td>",
        "<bdi>opened</bdi></th><td class=\"num\">",
        "/quarantine?partner=sandbox",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    for path in ["/partners/none", "/partners/..%2Forders"] {
        assert_eq!(vic.get(path).status, 404, "{path}");
    }
}
