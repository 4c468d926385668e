//! Owns the ACLs of Kafka that the roles need, as commands of Kafka's own tool. Invariant: what a
//! role does on the cluster is allowed here and nothing else. Several write `intake`: which record
//! is of which role only its MAC proves. Pure.

use payfold_schemas::record_mac::Writer;

use super::compacted::CompactedCopy;
use super::settings::KafkaSettings;
use crate::log::Topic;

/// Groups that store no position: a client asks for their coordinator all the same.
const PLACELESS_GROUPS: [&str; 4] = ["topics", "lookup", "terminal", "checkout-feed"];

/// What stands for the role in the name of a principal.
const ROLE_TOKEN: &str = "{role}";

/// Operations on resources that have these beginnings of names.
struct Grant {
    role: Writer,
    /// The option of the tool.
    resource: &'static str,
    names: Vec<String>,
    operations: &'static [&'static str],
}

/// The commands that allow each role what it does. `principal` is the name of its principal, with
/// `ROLE_TOKEN` for the role. Arguments of the script go to each command.
pub fn commands(settings: &KafkaSettings, principal: &str) -> String {
    let (grants, mut script) = (grants(settings), String::new());
    for role in Writer::ALL {
        script.push_str(&format!("# {role}\n"));
        let principal = principal.replace(ROLE_TOKEN, role.name());
        for grant in grants.iter().filter(|grant| grant.role == role) {
            script.push_str(&command(grant, &principal));
        }
    }
    script
}

fn command(grant: &Grant, principal: &str) -> String {
    let each = |option: &str, values: &mut dyn Iterator<Item = &str>| -> String {
        values.map(|value| format!(" --{option} '{value}'")).collect()
    };
    let names = each(grant.resource, &mut grant.names.iter().map(String::as_str));
    let operations = each("operation", &mut grant.operations.iter().copied());
    format!(
        "kafka-acls.sh \"$@\" --add --allow-principal '{principal}' --resource-pattern-type \
         prefixed{names}{operations}\n"
    )
}

/// What the roles do. Prefixes, because intake has a topic for each log epoch, orders its compacted
/// copy, and a group or a transaction a number.
fn grants(settings: &KafkaSettings) -> Vec<Grant> {
    let layout = settings.layout();
    let on_topics = |role, topics: &[Topic], operations| Grant {
        role,
        resource: "topic",
        names: topics.iter().map(|topic| layout.name(*topic, 0)).collect(),
        operations,
    };
    let on_own = |role, resource, names: &[&str], operations| Grant {
        role,
        resource,
        names: names.iter().map(|name| format!("{}.{name}", settings.prefix)).collect(),
        operations,
    };
    // A start reads the first message of every partition, and the settings of every topic.
    let reads = |role| on_topics(role, &Topic::ALL, &["Read", "DescribeConfigs"]);
    let describes = |role| on_own(role, "group", &PLACELESS_GROUPS, &["Describe"]);
    let mut all: Vec<Grant> = Writer::ALL.map(reads).into();
    all.extend(Writer::ALL.map(describes));
    all.extend([
        on_topics(Writer::Ingest, &[Topic::Intake, Topic::Quarantine], &["Write"]),
        // Findings: who reads raw bytes through the admin listener of a process is recorded by it.
        on_topics(Writer::Checkout, &[Topic::Intake, Topic::Findings], &["Write"]),
        on_topics(Writer::Projector, &[Topic::Intake, Topic::Orders, Topic::Findings], &["Write"]),
        on_own(Writer::Projector, "group", &["projector", CompactedCopy::GROUP], &["Read"]),
        on_own(
            Writer::Projector,
            "transactional-id",
            &[CompactedCopy::GROUP],
            &["Write", "Describe"],
        ),
        on_topics(Writer::Reconciler, &[Topic::Intake, Topic::Findings], &["Write"]),
        on_own(Writer::Reconciler, "group", &["reconciler"], &["Read"]),
        on_topics(Writer::Operator, &Topic::ALL, &["Create", "Write"]),
    ]);
    all
}
