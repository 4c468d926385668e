//! Payments created in partners' own schemes on the real binary: a shop creates them, the partner
//! is a server of this test that answers as the gateway's documents show, and its notices end them.

use hmac::Hmac;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::profile::ShippedProfile;
use serde_json::{Value, json};
use sha2::{Sha256, Sha512};

use crate::support::notice::hmac;
use crate::support::system::{Home, System};
use crate::support::wire::get_request;

mod gateway;
mod played;
mod proofs;
use self::gateway::Gateway;

const IPN_KEY: &str = "key2 of these tests, worth nothing at all";
const CREATE_KEY: &str = "key1 of these tests, worth nothing at all";
const PAIRS: &str = include_str!("../../partners/profiles/templates/sorted-pairs.toml");

/// A system with partner acme under this profile, called at this address, and a shop that may use
/// it.
struct World {
    system: System,
    token: String,
}

impl World {
    fn boot(profile: &str, api_url: &str) -> Self {
        let home = Home::configured(&format!(
            "[partners.acme]\nprofile = \"acme.toml\"\napi_url = \"{api_url}\"\n"
        ));
        home.write("acme.toml", &profile.replace("stage = \"draft\"", "stage = \"sandbox\""));
        home.add_key("acme", IPN_KEY, &["--merchant", "SHOP"]);
        home.add_key("acme", CREATE_KEY, &["--merchant", "SHOP", "--channel", "create"]);
        let token = home.add_shop("acme/SHOP");
        Self { system: home.boot(), token }
    }

    /// `POST /v1/payments`: status and body.
    fn create(&self, key: &str, members: &Value) -> (u16, Value) {
        let mut body = json!({
            "partner": "acme", "reference": key, "amount": 150_000, "currency": "VND",
            "description": "Two tickets & more",
        });
        let into = body.as_object_mut().expect("an object");
        into.extend(members.as_object().expect("an object").clone());
        let answer = self.system.create_payment(&self.token, key, &body);
        (answer.status, answer.json())
    }

    fn order_when(&self, order: &str, state: &str) -> Value {
        self.system.order_when(["acme", "SHOP", order], |order| order["state"] == state)
    }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value}"))
}

pub(crate) fn shipped(name: &str) -> &'static str {
    ShippedProfile::of(name).expect("it is shipped").profile
}

/// A form's value.
fn field(form: &str, name: &str) -> String {
    let mut pairs = url::form_urlencoded::parse(form.as_bytes());
    let found = pairs.find(|(other, _)| other == name);
    found.unwrap_or_else(|| panic!("{name} in {form}")).1.into_owned()
}

/// ZaloPay: the order travels under another name, the create and the notice are signed with
/// different keys.
#[test]
fn a_payment_is_created_shown_and_paid_in_a_scheme_of_its_own() {
    let order_url = "https://qcgateway.zalopay.vn/openinapp?order=e";
    let gateway = Gateway::start(&json!({
        "return_code": 1, "return_message": "Giao dịch thành công", "sub_return_code": 1,
        "zp_trans_token": "t", "order_url": order_url, "order_token": "o", "qr_code": "000201",
    }));
    let world = World::boot(shipped("zalopay"), &gateway.url);
    let (status, payment) = world.create("cart-1", &json!({}));
    assert_eq!(status, 201, "{payment}");
    let order = text(&payment, "orderId").to_owned();
    assert_eq!(
        [text(&payment, "state"), text(&payment, "redirectUrl"), text(&payment, "providerRef")],
        ["PENDING", order_url, &order]
    );
    // The same request again is answered from the order, and the partner is not called again.
    let (again, same) = world.create("cart-1", &json!({}));
    assert_eq!((again, text(&same, "orderId")), (201, order.as_str()));
    let asked = gateway.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let (first, form) = &asked[0];
    assert_eq!(first, "POST /v2/create HTTP/1.1");
    let trans = field(form, "app_trans_id");
    assert_eq!(trans.len(), 39, "ZaloPay takes 40 at most: {trans}");
    let ipn_url = field(form, "callback_url");
    assert!(ipn_url.ends_with("/api/payment/ipn/acme"), "{ipn_url}");
    let signed: Vec<_> =
        ["app_id", "app_trans_id", "app_user", "amount", "app_time", "embed_data", "item"]
            .map(|name| field(form, name))
            .into();
    assert_eq!(field(form, "mac"), hmac::<Hmac<Sha256>>(CREATE_KEY, &signed.join("|")));
    assert_eq!(
        (field(form, "amount").as_str(), field(form, "description").as_str()),
        ("150000", "Two tickets & more")
    );

    assert_eq!(field(form, "expire_duration_seconds"), "900", "all the profile gives");

    let data = json!({
        "app_id": "SHOP", "app_trans_id": trans, "app_user": "payer", "amount": 150_000,
        "zp_trans_id": 240_331_000_000_175_u64, "server_time": SystemClock.now().unix_ms(),
    })
    .to_string();
    let notice = json!({"data": data, "mac": hmac::<Hmac<Sha256>>(IPN_KEY, &data), "type": 1});
    let answer = world.system.post("/api/payment/ipn/acme", notice.to_string().as_bytes());
    assert_eq!(answer.json()["return_code"], 1, "{}", answer.text());
    let paid = world.order_when(&order, "PAID");
    assert_eq!((&paid["paymentRef"], &paid["fulfil"]), (&"240331000000175".into(), &true.into()));
    assert_eq!(paid["flags"], json!([]), "{paid}");
    let metrics = world.system.get("/metrics").text();
    assert!(
        metrics.contains("payfold_checkout_creates_total{outcome=\"opened\",partner=\"acme\"} 1")
    );
}

#[test]
fn a_refusal_of_the_gateway_is_answered_and_an_impossible_request_is_not_sent() {
    let gateway = Gateway::start(&json!({"return_code": 2, "sub_return_code": -401}));
    let world = World::boot(shipped("zalopay"), &gateway.url);
    let create = |key: &str, members: Value| {
        let (status, body) = world.create(key, &members);
        (status, text(&body, "code").to_owned())
    };
    assert_eq!(create("no", json!({})), (502, "partner_refused".to_owned()));
    gateway.script_answer("400 Bad Request", &json!({}));
    assert_eq!(create("bad", json!({})), (502, "partner_refused".to_owned()));
    gateway.script_answer("200 OK", &json!({"return_code": 1, "order_url": "http://zalopay.vn/x"}));
    let not_https = (502, "contract_violation.redirect_url_not_https".to_owned());
    assert_eq!(create("http", json!({})), not_https);
    let asked = gateway.asked().len();
    assert_eq!(asked, 3);
    let other = create("usd", json!({"currency": "USD"}));
    assert_eq!(other, (422, "currency_not_supported".to_owned()));
    assert_eq!(gateway.asked().len(), asked, "the gateway was not called");
    gateway.script_answer("500 Oops", &json!({}));
    let (status, body) = world.create("unknown", &json!({}));
    assert_eq!((status, text(&body, "state")), (202, "REQUESTED"));
    // A page or a code, as the shop wants it.
    gateway.script_answer(
        "200 OK",
        &json!({"return_code": 1, "order_url": "https://z.vn/", "qr_code": "0002"}),
    );
    let (status, body) = world.create("qr", &json!({"presentation": "qr"}));
    assert_eq!((status, text(&body, "qrPayload"), body.get("redirectUrl")), (201, "0002", None));
    let (home, _) = world.system.stop();
    let log = home.log();
    assert!(log.contains("2 -401"), "the partner's code is logged: {log}");
    assert!(!log.contains(CREATE_KEY) && !log.contains(IPN_KEY), "the log holds no secret");
}

/// A partner like VNPay: the payer is sent to an address only we can have signed.
#[test]
fn a_signed_address_is_paid_for_by_a_signed_query() {
    // No server listens there, and none is called.
    let world = World::boot(PAIRS, "http://127.0.0.1:9");
    let (status, payment) = world.create("cart-1", &json!({}));
    assert_eq!(status, 201, "{payment}");
    let order = text(&payment, "orderId").to_owned();
    let url = url::Url::parse(text(&payment, "redirectUrl")).expect("an address");
    assert_eq!(url.path(), "/pay");
    let mut pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let signature = pairs.pop().expect("the signature stands last");
    pairs.sort();
    let mut signed = url::form_urlencoded::Serializer::new(String::new());
    let signed = signed.extend_pairs(&pairs).finish();
    assert_eq!(signature, ("signature".to_owned(), hmac::<Hmac<Sha512>>(CREATE_KEY, &signed)));
    let shown = |name: &str| pairs.iter().find(|(other, _)| other == name).map(|(_, v)| v.as_str());
    assert_eq!((shown("order_id"), shown("amount")), (Some(order.as_str()), Some("150000")));

    let at = payfold_schemas::time::Time::from_unix_ms(SystemClock.now().unix_ms())
        .plus_ms(7 * 3_600_000)
        .to_rfc3339();
    let at: String = at.chars().filter(char::is_ascii_digit).take(14).collect();
    let notice = format!(
        "amount=150000&created_at={at}&currency=VND&merchant_id=SHOP\
         &order_id={order}&status=paid&transaction_id=t-1"
    );
    let notify = |notice: &str| {
        let signature = hmac::<Hmac<Sha512>>(IPN_KEY, notice);
        let target = format!("/api/payment/ipn/acme?{notice}&signature={signature}");
        assert_eq!(world.system.ask(&get_request(&target)).status, 200);
    };
    notify(&notice);
    let paid = world.order_when(&order, "PAID");
    assert_eq!((&paid["paymentRef"], &paid["fulfil"]), (&"t-1".into(), &true.into()), "{paid}");

    // The profile maps no event ref, so each refund states the total that went back so far.
    let refunded = notice.replace("status=paid", "status=refunded");
    for (total, version) in [(1_000, 4), (3_000, 5), (2_000, 6)] {
        notify(&refunded.replace("150000", &total.to_string()));
        let key = ["acme", "SHOP", &order];
        let shown = world.system.order_when(key, |order| order["version"] == version);
        let most = total.max(if version == 6 { 3_000 } else { 0 });
        let went_back = (&shown["refundedAmount"], &shown["refundedAtLeast"]);
        assert_eq!(went_back, (&most.into(), &false.into()), "{shown}");
        assert_eq!(shown["flags"][0]["flag"], "PARTIAL_REFUND", "{shown}");
    }
    notify(&refunded);
    let whole = world.order_when(&order, "REFUNDED");
    assert_eq!(
        (&whole["refundedAmount"], &whole["flags"]),
        (&150_000.into(), &json!([])),
        "{whole}"
    );
    let shows = world.system.payfold(&["partner", "show", "acme"]).ok();
    assert!(shows.contains("creates       a signed address, any currency"), "{shows}");
}

/// Some gateways want the payer's address: the shop sends it, the partner gets it, and Payfold does
/// not store it.
#[test]
fn the_payers_address_is_passed_on_and_not_kept() {
    let profile = PAIRS.replace("[create.fields]", "[create.fields]\nip = \"{payer_ip}\"");
    let world = World::boot(&profile, "http://127.0.0.1:9");
    let (status, refused) = world.create("cart-1", &json!({}));
    let refusal = (status, text(&refused, "code"), text(&refused, "pointer"));
    assert_eq!(refusal, (422, "missing_field", "/payerIp"), "{refused}");
    let (status, refused) = world.create("cart-1", &json!({"payerIp": "example.com"}));
    assert_eq!((status, text(&refused, "code")), (422, "wrong_value"), "{refused}");
    let (status, payment) = world.create("cart-1", &json!({"payerIp": "198.51.100.23"}));
    assert_eq!(status, 201, "{payment}");
    assert!(text(&payment, "redirectUrl").contains("ip=198.51.100.23&"), "{payment}");
    let (status, again) = world.create("cart-1", &json!({"payerIp": "198.51.100.99"}));
    assert_eq!((status, &again["orderId"]), (201, &payment["orderId"]), "{again}");
    let order = text(&payment, "orderId");
    world.order_when(order, "PENDING");
    // The redirect URL holds the payer's address; the recorded request does not.
    let show = ["order", "show", "acme", "SHOP", order, "--facts"];
    let facts = world.system.payfold(&[show.as_slice(), &["--output", "json"]].concat()).json();
    let raw =
        world.system.payfold(&[show.as_slice(), &["--raw", "--reason", "to see"]].concat()).ok();
    for asked in [facts[0].to_string(), raw] {
        assert!(asked.contains("cart-1") && !asked.contains("198.51.100"), "{asked}");
    }
    let draft =
        ["partner", "draft", "acme", "--amount", "150000", "--currency", "VND", "--payer-ip"];
    let shown = world.system.payfold(&[draft.as_slice(), &["2001:db8::7"]].concat()).ok();
    assert!(shown.contains("ip=2001%3Adb8%3A%3A7&"), "{shown}");
}

/// A partner with a page that is opened by a POST: the payer gets a page of ours, and the browser
/// posts its fields.
#[test]
fn the_browser_posts_the_signed_fields() {
    let gateway = Gateway::start(&json!({}));
    let profile =
        PAIRS.replace("kind = \"signed_url\"", "kind = \"form_post\"\ncontent = \"form\"");
    let world = World::boot(&profile, &gateway.url);
    let (status, payment) = world.create("cart-1", &json!({}));
    assert_eq!(status, 201, "{payment}");
    assert_eq!(gateway.asked(), [], "the gateway was not called");
    let url = url::Url::parse(text(&payment, "redirectUrl")).expect("an address");
    assert_eq!(url.path(), "/api/payment/form/acme");
    let get = |target: &str| world.system.ask(&get_request(target));
    let target = format!("{}?{}", url.path(), url.query().expect("fields"));
    let answer = get(&target);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let policy = answer.header("content-security-policy").expect("a policy").to_owned();
    assert!(policy.starts_with("default-src 'none'") && policy.contains("sha256-"), "{policy}");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let page = answer.text();
    assert!(page.contains(&format!("action=\"{}/pay\"", gateway.url)), "{page}");
    // As a browser reads it.
    let plain =
        |text: &str| text.replace("&quot;", "\"").replace("&lt;", "<").replace("&amp;", "&");
    let inputs = page.split("<input type=\"hidden\" name=\"").skip(1).map(|input| {
        let (name, rest) = input.split_once("\" value=\"").expect("a value");
        (plain(name), plain(rest.split('"').next().expect("its end")))
    });
    let mut fields: Vec<(String, String)> = inputs.collect();
    ureq::post(format!("{}/pay", gateway.url)).send_form(fields.clone()).expect("an answer");
    let (first, form) = &gateway.asked()[0];
    assert_eq!(first, "POST /pay HTTP/1.1");
    assert_eq!(field(form, "order_id"), text(&payment, "orderId"));
    let signature = fields.pop().expect("the signature stands last");
    fields.sort();
    let mut signed = url::form_urlencoded::Serializer::new(String::new());
    let signed = signed.extend_pairs(&fields).finish();
    assert_eq!(signature, ("signature".to_owned(), hmac::<Hmac<Sha512>>(CREATE_KEY, &signed)));

    let certify = ["partner", "certify", "acme", "--report", "r.json"];
    world.system.payfold(&certify).fails(&["is paid with a form", "payfold partner draft acme"]);

    let one_more = format!("{target}&action=https%3A%2F%2Fevil.example");
    let one_less = target.rsplit_once('&').expect("fields").0.to_owned();
    let elsewhere = target.replace("/form/acme", "/form/bolt");
    for other in [&one_more, &one_less, &elsewhere, &"/api/payment/form/acme".to_owned()] {
        let refused = get(other);
        assert_eq!(refused.status, 404, "{other}: {}", refused.text());
    }
    let escaped = get(&target.replacen("=", "=%22%3E%3Cscript%3E", 1));
    assert!(!escaped.text().contains("\"><script>"), "{}", escaped.text());
    assert_eq!(world.system.post(&target, b"").status, 405);
    let shows = world.system.payfold(&["partner", "show", "acme"]).ok();
    assert!(shows.contains("creates       a signed form, any currency"), "{shows}");
}

#[test]
fn a_draft_shows_what_would_be_sent_and_no_secret() {
    let home = Home::configured("[partners.acme]\nprofile = \"zalopay\"\n");
    for (secret, channel) in [(IPN_KEY, "ipn"), (CREATE_KEY, "create")] {
        home.add_key("acme", secret, &["--merchant", "2553", "--channel", channel]);
    }
    let draft = ["partner", "draft", "acme", "--amount", "150000", "--currency", "VND"];
    home.payfold(&draft).fails(&["--url"]);
    let draft = [draft.as_slice(), &["--url", "https://openapi.zalopay.vn"]].concat();
    let drafted = home.payfold(&[draft.as_slice(), &["--output", "json"]].concat()).json();
    assert_eq!(
        (text(&drafted, "method"), text(&drafted, "url")),
        ("POST", "https://openapi.zalopay.vn/v2/create")
    );
    let signing_text = text(&drafted, "signingText");
    assert!(signing_text.starts_with("2553|") && signing_text.ends_with("|[]"), "{signing_text}");
    let mac = hmac::<Hmac<Sha256>>(CREATE_KEY, signing_text);
    assert_eq!(
        (text(&drafted, "signature"), field(text(&drafted, "body"), "mac")),
        (mac.as_str(), mac.clone())
    );
    let shown = home.payfold(&draft).ok();
    assert!(shown.contains("content-type: application/x-www-form-urlencoded"), "{shown}");
    let usd = home.payfold(&[&draft[..6], &["USD"], &draft[7..]].concat());
    usd.fails(&["takes no such currency"]);

    // A credential is masked, also where it is the secret itself.
    home.write(
        "payfold.toml",
        "[partners.acme]\nprofile = \"razorpay\"\napi_url = \"https://api.razorpay.com\"\n",
    );
    let drafted =
        home.payfold(&["partner", "draft", "acme", "--amount", "5000", "--currency", "INR"]).ok();
    // base64 of {secret}
    assert!(drafted.contains("Authorization: Basic e3NlY3JldH0="), "{drafted}");
    // The default scheme is drafted as any other.
    home.write("payfold.toml", "[partners.acme]\nprofile = \"default\"\n");
    let drafted = home.payfold(&[draft.as_slice(), &["--output", "json"]].concat()).json();
    assert_eq!(text(&drafted, "url"), "https://openapi.zalopay.vn/payments");
    let signing_text = text(&drafted, "signingText");
    assert!(signing_text.contains("|150000|VND|"), "{signing_text}");
    let mac = hmac::<Hmac<Sha256>>(CREATE_KEY, signing_text);
    let body: serde_json::Value = serde_json::from_str(text(&drafted, "body")).expect("JSON");
    assert_eq!(text(&body, "signature"), mac);
    assert!(text(&body, "ipnUrl").ends_with("/api/payment/ipn"), "{body}");
}
