//! Owns the description of a call of the admin listener: its path, method, request and answer.

use std::marker::PhantomData;

use payfold_partners::token::Permission;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A call that takes a `Q` and answers with an `A`, both JSON.
pub struct Call<Q, A> {
    /// The path, with names such as `{partner}` to be filled in.
    pub path: &'static str,
    /// What the call does, for its description.
    pub summary: &'static str,
    /// The HTTP method, and where the request is.
    pub method: CallMethod,
    /// The status of its success.
    pub status: u16,
    /// What its author needs.
    pub permission: Permission,
    /// Whether every order, or a whole topic, may be read before it is answered.
    pub is_slow: bool,
    types: PhantomData<fn(Q) -> A>,
}

/// The HTTP method of a call, and where its request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallMethod {
    /// In the query of a GET.
    Get,
    /// In the body of a POST.
    Post,
    /// In the query of a POST without a body.
    PostQuery,
    /// In the query of a POST that has a file as its body.
    Upload,
}

impl<Q, A> Call<Q, A> {
    /// A GET with the request in its query, which needs the permission to read.
    pub const fn get(path: &'static str, summary: &'static str) -> Self {
        Self::new(CallMethod::Get, path, summary, Permission::Read)
    }

    /// A POST with the request in its body.
    pub const fn post(permission: Permission, path: &'static str, summary: &'static str) -> Self {
        Self::new(CallMethod::Post, path, summary, permission)
    }

    /// A POST with the request in its query.
    pub const fn post_query(
        permission: Permission,
        path: &'static str,
        summary: &'static str,
    ) -> Self {
        Self::new(CallMethod::PostQuery, path, summary, permission)
    }

    /// A POST of a file, with the request in its query.
    pub const fn upload(permission: Permission, path: &'static str, summary: &'static str) -> Self {
        Self::new(CallMethod::Upload, path, summary, permission)
    }

    const fn new(
        method: CallMethod,
        path: &'static str,
        summary: &'static str,
        permission: Permission,
    ) -> Self {
        Self { path, summary, method, status: 200, permission, is_slow: false, types: PhantomData }
    }

    /// A call that is answered with another status.
    pub const fn answered_with(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// A call that may read every order, or a whole topic, before it is answered.
    pub const fn slow(self) -> Self {
        Self { is_slow: true, ..self }
    }

    /// The path with these names filled in, in their order; `None` if one of them can't be a part
    /// of a path: it would lead to another call.
    pub fn path_of(&self, names: &[&str]) -> Option<String> {
        let leads_away = |name: &&str| {
            matches!(*name, "" | "." | "..")
                || name.contains(['/', '\\', '?', '#', '%'])
                || !name.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if names.iter().any(leads_away) {
            return None;
        }
        let mut names = names.iter();
        let parts = self.path.split('/').map(|part| match part.starts_with('{') {
            true => names.next().copied().unwrap_or_default(),
            false => part,
        });
        Some(parts.collect::<Vec<_>>().join("/"))
    }
}

/// A request without members.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct Nothing {}

/// A problem document (RFC 9457): why a call was refused.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct Problem {
    /// `urn:payfold:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code in words.
    pub title: String,
    /// The status of the answer.
    pub status: u16,
    /// A stable name of the problem.
    pub code: String,
    /// What is wrong, and what to do.
    pub detail: String,
}

/// The members of a request as query parameters, without those that are null.
pub fn query_of(request: &impl Serialize) -> Vec<(String, String)> {
    let object = serde_json::to_value(request).unwrap_or_default();
    let members = object.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    members.map(|(name, value)| (name.clone(), text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fill_a_path_and_lead_nowhere_else() {
        let call = Call::<Nothing, Nothing>::get("/v1/orders/{partner}/{order}/facts", "");
        assert_eq!(call.path_of(&["p", "o:1"]).as_deref(), Some("/v1/orders/p/o:1/facts"));
        for name in ["", ".", "..", "a/b", "a\\b", "a?b", "a#b", "%2e%2e", ".\t.", ".. "] {
            assert_eq!(call.path_of(&["p", name]), None, "{name}");
        }
    }
}
