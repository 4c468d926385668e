//! Owns the profiles that come with the program: gateways' own, and those a new partner is begun with.

/// A gateway's profile that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// The name in `profile = "…"`.
    pub name: &'static str,
    /// The TOML.
    pub profile: &'static str,
    /// Its test vectors, with published keys that are worth nothing.
    pub vectors: &'static str,
}

/// Every gateway's profile that comes with the program, beside `default` and `sandbox`.
pub const SHIPPED: [Shipped; 5] = [
    Shipped {
        name: "momo",
        profile: include_str!("../../profiles/momo.toml"),
        vectors: include_str!("../../profiles/vectors/momo.json"),
    },
    Shipped {
        name: "zalopay",
        profile: include_str!("../../profiles/zalopay.toml"),
        vectors: include_str!("../../profiles/vectors/zalopay.json"),
    },
    Shipped {
        name: "midtrans",
        profile: include_str!("../../profiles/midtrans.toml"),
        vectors: include_str!("../../profiles/vectors/midtrans.json"),
    },
    Shipped {
        name: "square",
        profile: include_str!("../../profiles/square.toml"),
        vectors: include_str!("../../profiles/vectors/square.json"),
    },
    Shipped {
        name: "razorpay",
        profile: include_str!("../../profiles/razorpay.toml"),
        vectors: include_str!("../../profiles/vectors/razorpay.json"),
    },
];

impl Shipped {
    /// The one of this name.
    pub fn of(name: &str) -> Option<Self> {
        SHIPPED.into_iter().find(|shipped| shipped.name == name)
    }
}

/// A commented profile to begin a new partner with.
#[derive(Clone, Copy, Debug)]
pub struct Starter {
    /// Its name.
    pub name: &'static str,
    /// The TOML.
    pub profile: &'static str,
    /// A vector that fits it, with a published key.
    pub vectors: &'static str,
}

/// Every one of them, beside the contract's own scheme.
pub const STARTERS: [Starter; 5] = [
    Starter {
        name: "hmac-body",
        profile: include_str!("../../profiles/templates/hmac-body.toml"),
        vectors: include_str!("../../profiles/templates/hmac-body.vectors.json"),
    },
    Starter {
        name: "hmac-fields",
        profile: include_str!("../../profiles/templates/hmac-fields.toml"),
        vectors: include_str!("../../profiles/templates/hmac-fields.vectors.json"),
    },
    Starter {
        name: "sorted-pairs",
        profile: include_str!("../../profiles/templates/sorted-pairs.toml"),
        vectors: include_str!("../../profiles/templates/sorted-pairs.vectors.json"),
    },
    Starter {
        name: "structured-header",
        profile: include_str!("../../profiles/templates/structured-header.toml"),
        vectors: include_str!("../../profiles/templates/structured-header.vectors.json"),
    },
    Starter {
        name: "rsa",
        profile: include_str!("../../profiles/templates/rsa.toml"),
        vectors: include_str!("../../profiles/templates/rsa.vectors.json"),
    },
];

impl Starter {
    /// The one of this name.
    pub fn of(name: &str) -> Option<Self> {
        STARTERS.into_iter().find(|starter| starter.name == name)
    }
}
