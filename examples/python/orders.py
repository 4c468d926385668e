#!/usr/bin/env python3
"""Prints what becomes of orders, as a subscriber in another team would read it.

    pip install confluent-kafka
    python3 orders.py --brokers 127.0.0.1:9092 --prefix payfold

A subscriber has three rules to keep:

1. What is of a type it doesn't know, it ignores. Every partition begins with such a message, and types will be added.
2. An order is as its highest (generation, version) says. Events come at least once: what is not higher is dropped. Events
   of one order are in one partition and in order; between orders there is none.
3. A place in the topic is committed when the event has been dealt with, not when it has been read.

Here rule 2 is kept in memory, so after a restart everything that was not committed is printed once more. A real subscriber
keeps (generation, version) in the row it updates, and updates both at once.
"""

import argparse
import json
import signal
import sys

from confluent_kafka import Consumer, KafkaError, KafkaException

ORDER_CHANGED = "payfold.order.changed.v1"


def main():
    options = arguments()
    consumer = Consumer({
        "bootstrap.servers": options.brokers,
        "group.id": options.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "allow.auto.create.topics": False,
        "enable.partition.eof": options.until_end,
    })
    stopping = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.append(True))
    consumer.subscribe([options.prefix + ".orders"])
    try:
        follow(consumer, stopping, options.until_end)
    finally:
        consumer.close()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", required=True, help="host:port, several with commas")
    parser.add_argument("--prefix", default="payfold", help="what the topics' names begin with (default: payfold)")
    parser.add_argument("--group", default="example-orders", help="the consumer group (default: example-orders)")
    parser.add_argument("--until-end", action="store_true", help="stop at the end of all partitions")
    return parser.parse_args()


def follow(consumer, stopping, until_end):
    latest = {}
    ended = set()
    while not stopping:
        messages = consumer.consume(num_messages=500, timeout=0.5)
        for message in messages:
            if message.error() is None:
                ended.discard(message.partition())
                event = order_changed(message)
                if event is not None:
                    take(latest, message.key().decode(), event)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                # What mends itself, the library tries again by itself; what gets here needs a person.
                sys.exit("Kafka: %s" % message.error())
        if any(message.error() is None for message in messages):
            commit(consumer)
        if until_end and ended and len(ended) == len(consumer.assignment()):
            return


def commit(consumer):
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        # The next commit covers this one; after a restart the events between come again, and rule 2 drops them.
        print("not committed: %s" % error, file=sys.stderr)


def order_changed(message):
    """The event's data; None for what is of another type."""
    headers = dict(message.headers() or [])
    if headers.get("ce_type", b"").decode() != ORDER_CHANGED:
        return None
    return json.loads(message.value())


def take(latest, order, event):
    number = (event["generation"], event["version"])
    known = latest.get(order)
    if known is not None and number <= known:
        return
    if known is not None and number[0] == known[0] and number[1] != known[1] + 1:
        print("! %s went from version %d to %d: events are missing" % (order, known[1], number[1]), file=sys.stderr)
    latest[order] = number
    show(order, number, event)


def show(order, number, event):
    amount = "amount unknown" if event["amount"] is None else "%d %s" % (event["amount"], event["currency"])
    words = ["%s  v%d.%d" % (order, *number), "%s → %s" % (event["previousState"] or "new", event["state"]), amount]
    if event["fulfil"]:
        words.append("fulfil")
    if event["attention"]:
        words.append("! " + " ".join(event["attention"]))
    print("  ".join(words), flush=True)


if __name__ == "__main__":
    main()
