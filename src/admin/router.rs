//! Owns the routes of the admin listener and their descriptions. Invariant: every route has a
//! description and every description a route, because both are added together.

use actix_web::body::BoxBody;
use actix_web::dev::{Handler, ServiceRequest, ServiceResponse};
use actix_web::http::header;
use actix_web::middleware::{Next, from_fn};
use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{Error, FromRequest, HttpMessage, Responder, Route};
use payfold_partners::token::Permission;
use schemars::JsonSchema;

use super::answer::{Refusal, problem};
use super::host::name_of;
use super::operation::Operation;
use super::state::Admin;
use crate::body;
use payfold_api::call::{Call, CallMethod};

/// A path and its routes.
struct Path {
    path: &'static str,
    routes: Vec<Route>,
    takes_file: bool,
}

/// The routes, and their descriptions.
#[derive(Default)]
pub(super) struct Router {
    paths: Vec<Path>,
    operations: Vec<Operation>,
}

impl Router {
    /// Routes a call to its handler, which gets the call's author as `ReqData<Author>`. Before
    /// anything else of a request is read, its token has to permit the call.
    pub(super) fn call<Q, A, F, Args>(&mut self, call: &Call<Q, A>, handler: F)
    where
        Q: JsonSchema,
        A: JsonSchema,
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.operations.push(Operation::of_call(call));
        let method = if call.method == CallMethod::Get { web::get() } else { web::post() };
        let permission = call.permission;
        let route = method.to(handler).wrap(from_fn(move |request, next| async move {
            authorized(permission, request, next).await
        }));
        match self.paths.iter_mut().find(|known| known.path == call.path) {
            Some(known) => known.routes.push(route),
            None => {
                let (path, takes_file) = (call.path, call.method == CallMethod::Upload);
                self.paths.push(Path { path, routes: vec![route], takes_file });
            }
        }
    }

    /// Routes a page, which needs no token.
    pub(super) fn page<F, Args>(&mut self, path: &'static str, summary: &'static str, handler: F)
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.operations.push(Operation::of_page(path, summary));
        self.paths.push(Path { path, routes: vec![web::get().to(handler)], takes_file: false });
    }

    /// The descriptions of the routes.
    pub(super) fn operations(self) -> Vec<Operation> {
        self.operations
    }

    /// Adds the routes to a server. Another method of a path is answered with 405. A body has a
    /// timeout, and an upload has one for each part.
    pub(super) fn serve(self, config: &mut ServiceConfig) {
        for Path { path, routes, takes_file } in self.paths {
            let resource = routes.into_iter().fold(web::resource(path), actix_web::Resource::route);
            let resource = resource.default_service(web::to(|| async {
                problem(405, "method_not_allowed", "this path takes another method")
            }));
            if takes_file {
                config.service(resource.wrap(from_fn(body::without_pauses)));
            } else {
                config.service(resource.wrap(from_fn(body::in_time)));
            }
        }
    }
}

/// Lets a request pass that is addressed to a name of this listener. Errors: it is addressed to
/// another name.
pub(super) async fn addressed_here(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let admin = request.app_data::<Data<Admin>>().expect("the admin listener has its state");
    for host in request.headers().get_all(header::HOST) {
        let host = String::from_utf8_lossy(host.as_bytes());
        match name_of(&host) {
            Some(name) if admin.hosts.has(&name) => {}
            name => return Err(Refusal::Misdirected(name.unwrap_or(host.into_owned())).into()),
        }
    }
    next.call(request).await
}

/// Lets a request pass if its token permits it, with its author. Errors: no valid token, or its
/// role may not make the call.
async fn authorized(
    permission: Permission,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let admin = request.app_data::<Data<Admin>>().expect("the admin listener has its state");
    let person = admin.authorize(&request, permission)?;
    request.extensions_mut().insert(person.name.clone());
    request.extensions_mut().insert(person);
    next.call(request).await
}
