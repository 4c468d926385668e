//! The interface as a whole: authentication, paths and methods, the limits of a body, and the
//! OpenAPI document.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::partner::Partner;
use crate::world::{Engines, TOKEN, World, payment_body, read_answer};

#[actix_web::test]
async fn the_openapi_document_and_the_routes_have_the_same_paths() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    let bare = world.client.get(format!("{}/openapi.json", world.url));
    let (status, document) = read_answer(bare.send().await.unwrap()).await;
    assert_eq!(status, 200, "it needs no key");
    let described = document["paths"].as_object().unwrap();
    let (mut paths, mut operations) = (Vec::new(), 0);
    for (path, item) in described {
        paths.push(path.as_str());
        let place = path
            .replace("{partner}", "acme")
            .replace("{merchantCode}", "SHOP")
            .replace("{orderId}", "o")
            .replace("{topic}", "orders");
        let mut methods: Vec<_> = item.as_object().unwrap().keys().cloned().collect();
        methods.retain(|method| method != "parameters");
        operations += methods.len();
        for method in ["get", "post", "put", "delete", "patch", "head", "options"] {
            let named = reqwest::Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let request = world.client.request(named, format!("{}{place}", world.url));
            let response = request.bearer_auth(TOKEN).send().await.unwrap();
            let is_described = methods.iter().any(|known| known == method);
            assert_eq!(response.status() != 405, is_described, "{method} {path}");
            if !is_described {
                let allow = response.headers()["allow"].to_str().unwrap().to_lowercase();
                let mut allowed: Vec<_> = allow.split(", ").collect();
                allowed.sort_unstable();
                assert_eq!(allowed, methods, "{path}");
            }
        }
    }
    paths.sort_unstable();
    let mut routes = payfold_checkout::paths::PATHS.to_vec();
    routes.sort_unstable();
    assert_eq!(paths, routes);
    assert_eq!(operations, 7);
}

#[actix_web::test]
async fn any_other_path_is_not_found() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    for path in
        ["/", "/v1", "/v1/payments/", "/v1/payments/acme", "/v1/payments/a/b/c/d", "/metrics", "//"]
    {
        for method in [reqwest::Method::GET, reqwest::Method::POST] {
            let request = world.client.request(method, format!("{}{path}", world.url));
            let (status, body) = read_answer(request.send().await.unwrap()).await;
            assert_eq!((status, body["code"].as_str()), (404, Some("not_found")), "{path}");
        }
    }
}

#[actix_web::test]
async fn every_request_needs_a_shops_key() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    let paths = [
        "/v1/payments?reference=cart",
        "/v1/payments/acme/SHOP/o",
        "/v1/payments/acme/SHOP/o/events",
        "/v1/partners",
        "/v1/topics/orders",
    ];
    let (bearer, basic) = (format!("Bearer {TOKEN}"), format!("Basic {TOKEN}"));
    for header in [
        None,
        Some(""),
        Some("Bearer"),
        Some("Bearer "),
        Some("Bearer x"),
        Some(TOKEN),
        Some(basic.as_str()),
    ] {
        let with = |request: reqwest::RequestBuilder| match header {
            Some(header) => request.header("Authorization", header),
            None => request,
        };
        let mut requests: Vec<_> =
            paths.iter().map(|path| world.client.get(format!("{}{path}", world.url))).collect();
        requests.push(world.client.post(format!("{}/v1/payments", world.url)).body("{}"));
        for request in requests {
            let response = with(request).send().await.unwrap();
            assert_eq!(response.headers()["www-authenticate"], "Bearer realm=\"payfold\"");
            let (status, body) = read_answer(response).await;
            assert_eq!(
                (status, body["code"].as_str()),
                (401, Some("unauthenticated")),
                "{header:?}"
            );
        }
    }
    let url = format!("{}/v1/partners", world.url);
    let twice =
        world.client.get(&url).header("Authorization", &bearer).header("Authorization", "Bearer x");
    assert_eq!(twice.send().await.unwrap().status(), 401);
    let other_case =
        world.client.get(&url).header("Authorization", bearer.replace("Bearer", "bearer"));
    assert_eq!(other_case.send().await.unwrap().status(), 200);
    assert_eq!(
        world.metric("payfold_checkout_requests_total", &["partners", "unauthenticated"]),
        8.0
    );
}

/// Sends bytes on a plain socket, and returns the response.
async fn exchange(world: &World, request: &[u8]) -> String {
    let address = world.url.trim_start_matches("http://");
    let mut socket = TcpStream::connect(address).await.unwrap();
    // The response may arrive, and the connection close, before all bytes are sent.
    let _ = socket.write_all(request).await;
    let (mut answer, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = socket.read(&mut chunk).await {
        answer.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&answer);
        if text.contains("\r\n\r\n{") && text.ends_with('}') {
            break;
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[actix_web::test]
#[ignore = "nightly: limits"]
async fn a_body_is_limited_in_type_size_and_time() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let limits = payfold_checkout::Limits {
        body_timeout: std::time::Duration::from_millis(300),
        ..Default::default()
    };
    let made = crate::world::WorldOptions { limits: Some(limits), ..Default::default() };
    let world = World::with_options(&engines, &partner.url, made).await;
    let head = |more: &str| {
        format!(
            "POST /v1/payments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\
             Idempotency-Key: k\r\n{more}\r\n"
        )
    };
    let json = "Content-Type: application/json\r\n";
    let chunked = format!("{json}Transfer-Encoding: chunked\r\n");
    let huge = format!("5000\r\n{}\r\n0\r\n\r\n", "x".repeat(0x5000));
    for (request, status, code) in [
        (head("Content-Length: 2\r\n") + "{}", 415, "unsupported_media_type"),
        (
            head("Content-Type: text/plain\r\nContent-Length: 2\r\n") + "{}",
            415,
            "unsupported_media_type",
        ),
        (
            head(&format!("{json}Content-Encoding: gzip\r\nContent-Length: 2\r\n")) + "{}",
            415,
            "unsupported_content_encoding",
        ),
        (head(&format!("{json}Content-Length: 16385\r\n")), 413, "body_too_large"),
        (head(&chunked) + &huge, 413, "body_too_large"),
        (head(&format!("{json}Content-Length: 100\r\n")) + "{", 408, "request_timeout"),
        (head(&chunked) + "1\r\n{\r\n", 408, "request_timeout"),
        (head(&chunked) + "zz\r\n{\r\n", 400, "bad_request"),
        (head(&format!("{json}Content-Length: 0\r\n")), 400, "empty_body"),
        (head(json), 400, "empty_body"),
        (head(&format!("{json}Content-Length: 2\r\n")) + "[]", 400, "not_an_object"),
        (head(&format!("{json}Content-Length: 1\r\n")) + "{", 400, "malformed_json"),
    ] {
        let answer = exchange(&world, request.as_bytes()).await;
        let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
        let problem: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"));
        assert_eq!(
            (problem["status"].as_u64(), problem["code"].as_str()),
            (Some(status), Some(code))
        );
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    assert_eq!(partner.request_count(), 0);
}

/// The unread body of a refused request is not read as the next request, and the listener does not
/// wait for its end: the connection is closed.
#[actix_web::test]
async fn a_refused_body_is_not_waited_for_nor_read_as_a_request() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    let address = world.url.trim_start_matches("http://");
    let smuggled = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n";
    for request in [
        format!(
            "POST /v1/payments HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n{smuggled}"
        ),
        format!("POST /nowhere HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n{smuggled}"),
        format!("PUT /v1/partners HTTP/1.1\r\nContent-Length: 4096\r\n\r\n{smuggled}"),
        format!(
            "GET /v1/partners HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n{smuggled}"
        ),
    ] {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let request = request.replacen("\r\n", "\r\nHost: x\r\n", 1);
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let closed = socket.read_to_end(&mut answer);
        let closed = tokio::time::timeout(std::time::Duration::from_secs(20), closed).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(closed.is_ok(), "[time] still open: {request} {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        assert!(answer.contains("application/problem+json"), "{answer}");
    }
}

#[actix_web::test]
async fn no_cross_origin_request_is_allowed() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    let response = world
        .post("k", &payment_body("cart"))
        .header("Origin", "https://shop.example")
        .send()
        .await
        .unwrap();
    assert!(!response.headers().keys().any(|name| name.as_str().starts_with("access-control")));
}
