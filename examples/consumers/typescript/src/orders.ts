// Stores the newest state of each order, as a subscriber in another team would.
// Stop it, kill it, start it again: what it keeps is right. `--show` prints that.

import { parseArgs } from "node:util";

import { type EachBatchPayload, Kafka, type KafkaMessage, logLevel } from "kafkajs";

import { Kept, type OrderChanged } from "./kept.js";

const ORDER_CHANGED = "payfold.order.changed.v1";

const { values: options } = parseArgs({
  options: {
    brokers: { type: "string", default: "127.0.0.1:9092" },
    prefix: { type: "string", default: "payfold" },
    group: { type: "string", default: "example-orders" },
    state: { type: "string", default: "orders.json" },
    "until-end": { type: "boolean", default: false },
    show: { type: "boolean", default: false },
  },
});

const kept = new Kept(options.state);
if (options.show) {
  kept.show();
} else {
  await follow();
}

async function follow(): Promise<void> {
  const kafka = new Kafka({ brokers: options.brokers.split(","), clientId: "example-orders", logLevel: logLevel.ERROR });
  const topic = `${options.prefix}.orders`;
  const consumer = kafka.consumer({ groupId: options.group, sessionTimeout: 10_000 });
  const stop = () => void consumer.disconnect().then(() => process.exit(0));
  process.once("SIGINT", stop);
  process.once("SIGTERM", stop);
  const ends = options["until-end"] ? await endsOf(kafka, topic) : undefined;
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async (payload) => {
      const last = await take(payload);
      if (last !== undefined) {
        // Durable first, committed after: a kill in between repeats, and what repeats is dropped.
        kept.save();
        const offset = (BigInt(last) + 1n).toString();
        await consumer.commitOffsets([{ topic, partition: payload.batch.partition, offset }]);
        ends?.delete(ended(ends, payload.batch.partition, BigInt(offset)));
      }
      if (ends?.size === 0) {
        stop();
      }
    },
  });
}

/** Takes a batch; the offset of its last message that was taken, if there was one. */
async function take({ batch, heartbeat, isRunning, isStale, resolveOffset }: EachBatchPayload): Promise<string | undefined> {
  let last: string | undefined;
  for (const message of batch.messages) {
    if (!isRunning() || isStale()) {
      break;
    }
    const data = orderChanged(message);
    const key = message.key?.toString() ?? "";
    if (data !== undefined && kept.take(key, data)) {
      const attention = data.attention.length > 0 ? `  ! ${data.attention.join(" ")}` : "";
      console.log(`${key}  v${data.epoch}.${data.version}  ${data.state}${attention}`);
    }
    resolveOffset(message.offset);
    last = message.offset;
    await heartbeat();
  }
  return last;
}

/** The event's data; nothing for what is of another type. */
function orderChanged(message: KafkaMessage): OrderChanged | undefined {
  if (message.headers?.["ce_type"]?.toString() !== ORDER_CHANGED || message.value === null) {
    return undefined;
  }
  return JSON.parse(message.value.toString()) as OrderChanged;
}

/** Where each partition that holds anything ends now. */
async function endsOf(kafka: Kafka, topic: string): Promise<Map<number, bigint>> {
  const admin = kafka.admin();
  await admin.connect();
  const ends = await admin.fetchTopicOffsets(topic);
  await admin.disconnect();
  const some = ends.filter(({ low, high }) => low !== high);
  return new Map(some.map(({ partition, high }) => [partition, BigInt(high)]));
}

/** The partition, if it is read to the end it had; -1, which there is not, if not. */
function ended(ends: Map<number, bigint>, partition: number, next: bigint): number {
  return next >= (ends.get(partition) ?? 0n) ? partition : -1;
}
