//! Schemes with the partner's public key, or with several `[[sign]]` blocks.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::kinds::altered;
use super::*;

/// RSA over header and body, the payment itself encrypted.
const RSA_AND_AES: &str = r#"
exceptions = ["no_paid_at", "custom_ack"]
[notice]
content = "json"
[[document]]
name = "inner"
from = "{f.resource.ciphertext}"
decode = "base64"
content = "json"
decrypt = { algorithm = "aes-gcm", nonce = "{f.resource.nonce}", associated_data = "{f.resource.associated_data}" }
[key]
id = "{h.Wechatpay-Serial}"
[[sign]]
algorithm = "rsa-sha256"
text = "{h.Wechatpay-Timestamp}\n{h.Wechatpay-Nonce}\n{body}\n"
signature = "{h.Wechatpay-Signature}"
output = "base64"
[map]
merchant = "{inner.mchid}"
order = "{inner.out_trade_no}"
ref = "{inner.transaction_id}"
amount = "{inner.amount.total}"
currency = "{inner.amount.currency}"
[[event]]
when = [{ value = "{inner.trade_state}", is = "SUCCESS" }]
outcome = "SUCCESS"
[[event]]
outcome = "refuse"
[limits]
body_bytes = 16384
depth = 8
keys = 64
[time]
kind = "delivery"
value = "{h.Wechatpay-Timestamp}"
format = "unix_s"
skew_s = 300
[acks.accepted]
status = 200
content_type = "application/json"
body = '{"code":"SUCCESS"}'
"#;

/// The notice is encrypted, and signed with the RSA key that a header names.
#[test]
fn rsa_by_serial_around_aes_gcm() {
    let profile = HEAD.to_owned() + RSA_AND_AES;
    let pairs = [RsaKeyPair::generate, RsaKeyPair::generate]
        .map(|make| make(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap());
    let pem = |pair: &RsaKeyPair| {
        let der =
            AsDer::<aws_lc_rs::encoding::PublicKeyX509Der<'_>>::as_der(pair.public_key()).unwrap();
        format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            lines(&STANDARD.encode(der.as_ref()))
        )
    };
    let aes = *b"an AES key of thirty-two bytes!!";
    let directory = directory_of(
        &profile,
        vec![
            key("SERIAL-1", Channel::Ipn, pem(&pairs[0]).as_bytes()),
            key("SERIAL-2", Channel::Ipn, pem(&pairs[1]).as_bytes()),
            key("v3", Channel::Unwrap, &aes),
        ],
    );
    let inner = r#"{"mchid":"SHOP","out_trade_no":"o-1","transaction_id":"t-1","trade_state":"SUCCESS","amount":{"total":100,"currency":"CNY"}}"#;
    let seal = |inner: &str| {
        let payload = Payload { msg: inner.as_bytes(), aad: b"transaction" };
        let cipher = Aes256Gcm::new_from_slice(&aes).unwrap();
        STANDARD.encode(cipher.encrypt(Nonce::from_slice(b"twelve bytes"), payload).unwrap())
    };
    let body = |inner: &str| {
        format!(
            r#"{{"id":"n","resource":{{"ciphertext":"{}","nonce":"twelve bytes","associated_data":"transaction"}}}}"#,
            seal(inner)
        )
    };
    let sign = |pair: &RsaKeyPair, body: &str| {
        let mut signature = vec![0; pair.public_modulus_len()];
        let text = format!("1769853600\nnonce\n{body}\n");
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .unwrap();
        STANDARD.encode(signature)
    };
    let try_with = |serial: &str, signature: &str, body: &str| {
        let headers = [
            ("wechatpay-serial", serial),
            ("wechatpay-timestamp", "1769853600"),
            ("wechatpay-nonce", "nonce"),
            ("wechatpay-signature", signature),
        ];
        verdict(&directory, &post(body, &headers))
    };
    let good = body(inner);
    for (nth, serial) in ["SERIAL-1", "SERIAL-2"].into_iter().enumerate() {
        let signature = sign(&pairs[nth], &good);
        assert_eq!(try_with(serial, &signature, &good), "o-1 SUCCESS 100 CNY t-1");
        let other = ["SERIAL-2", "SERIAL-1"][nth];
        assert_eq!(try_with(other, &signature, &good), "unauthenticated");
        assert_eq!(try_with("SERIAL-9", &signature, &good), "unauthenticated");
    }
    let other = body(&altered(inner, "SHOP", "SHIP"));
    assert_eq!(try_with("SERIAL-1", &sign(&pairs[0], &other), &other), "unauthenticated");
    let broken = altered(&good, "twelve bytes", "eleven bytes");
    assert_eq!(try_with("SERIAL-1", &sign(&pairs[0], &broken), &broken), "unauthenticated");
}

fn lines(text: &str) -> String {
    text.as_bytes()
        .chunks(64)
        .map(|line| String::from_utf8_lossy(line).into_owned() + "\n")
        .collect::<String>()
        .trim_end()
        .to_owned()
}

#[test]
fn ed25519_and_several_sign_blocks() {
    let profile = HEAD.to_owned()
        + r#"
exceptions = ["no_time", "no_paid_at", "weak_algorithm", "plain_digest"]
[notice]
content = "form"
[[pairs]]
name = "all"
of = "f"
except = ["sign"]
[[sign]]
name = "new"
algorithm = "ed25519"
text = "{p.all}"
signature = "{f.sign}"
output = "base64"
[[sign]]
name = "old"
algorithm = "md5"
text = "{p.all}&key={secret}"
signature = "{f.sign}"
output = "hex-upper"
[map]
merchant = "{f.m}"
order = "{f.o}"
ref = "{f.r}"
amount = "{f.a}"
currency = "{f.c}"
"# + TAIL;
    let pair = Ed25519KeyPair::generate().unwrap();
    let public = STANDARD.encode(pair.public_key().as_ref());
    let info = [&hex::decode("302a300506032b6570032100").unwrap()[..], pair.public_key().as_ref()]
        .concat();
    assert_eq!(public.len(), 44);
    let keys = vec![
        key("ed", Channel::Ipn, STANDARD.encode(info).as_bytes()),
        key("shared", Channel::Ipn, SECRET.as_bytes()),
    ];
    let directory = directory_of(&profile, keys);
    let text = "a=100&c=VND&m=SHOP&o=o-1&r=r 1&state=paid";
    let escaped =
        |signature: &str| signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let body = |signature: &str| {
        format!("state=paid&m=SHOP&o=o-1&r=r+1&a=100&c=VND&sign={}", escaped(signature))
    };
    let ed = body(&STANDARD.encode(pair.sign(text.as_bytes())));
    let old = format!("{text}&key={SECRET}");
    let old = super::super::filter::Filter::parse("md5_hex").unwrap().apply(old.into_bytes());
    let old = body(&String::from_utf8(old).unwrap().to_uppercase());
    for (body, sign, key) in [(&ed, "new", "ed"), (&old, "old", "shared")] {
        let request = post(body, &[]);
        let notices = directory.verify_scheme("acme", &request, NOW).unwrap().notices;
        assert_eq!((notices[0].sign(), notices[0].key_id().as_str()), (Some(sign), key));
        assert_eq!(said(&notices[0]), "o-1 SUCCESS 100 VND r 1");
        assert_eq!(
            verdict(&directory, &post(&altered(body, "a=100", "a=101"), &[])),
            "unauthenticated"
        );
    }
    assert_eq!(verdict(&directory, &post(&old.to_lowercase(), &[])), "unauthenticated");
}
