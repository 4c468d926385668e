#!/usr/bin/env python3
"""Stores the newest state of each order, as a subscriber in another team would.

    pip install -r requirements.txt
    python3 orders.py --brokers 127.0.0.1:9092 --prefix payfold --state orders.db

Stop it, kill it, start it again: what it keeps is right. `--show` prints that. With `--latest` it first reads the last event of
every order, also of those that did not change for longer than `orders` is kept.
"""

import argparse
import json
import signal
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from kept import Kept

ORDER_CHANGED = "payfold.order.changed.v1"
BATCH = 500


def main():
    options = arguments()
    kept = Kept(options.state)
    if options.show:
        kept.show()
        return
    if options.latest:
        begin(options, kept)
    consumer = Consumer({
        "bootstrap.servers": options.brokers,
        "group.id": options.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "allow.auto.create.topics": False,
        # After a kill its partitions have no reader for this long.
        "session.timeout.ms": 10_000,
        "enable.partition.eof": options.until_end,
    })
    stopping = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.append(True))
    consumer.subscribe([options.prefix + ".orders"])
    try:
        follow(consumer, kept, stopping, options.until_end)
    finally:
        consumer.close()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", default="127.0.0.1:9092", help="host:port, several with commas")
    parser.add_argument("--prefix", default="payfold", help="what the topics' names begin with (default: payfold)")
    parser.add_argument("--group", default="example-orders", help="the consumer group (default: example-orders)")
    parser.add_argument("--state", default="orders.db", help="where orders are kept (default: orders.db)")
    parser.add_argument("--until-end", action="store_true", help="stop at the end of all partitions")
    parser.add_argument("--latest", action="store_true", help="begin with the last event of every order")
    parser.add_argument("--show", action="store_true", help="only print what is kept")
    return parser.parse_args()


def begin(options, kept):
    """Takes the last event of every order, up to the ends that topic has now."""
    topic = options.prefix + ".orders.latest"
    consumer = Consumer({
        "bootstrap.servers": options.brokers,
        "group.id": options.group,
        "enable.auto.commit": False,
        "allow.auto.create.topics": False,
        # Messages of aborted transactions are not read.
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    })
    try:
        partitions = consumer.list_topics(topic, 10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
        ended, reached = set(), set()
        while len(reached) < len(partitions):
            batch = [message for message in consumer.consume(BATCH, timeout=0.2) if not is_end(message, ended)]
            for data in kept.keep(filter(None, map(order_changed, batch)), gaps=False):
                show_change(data)
            reached |= ended
    finally:
        consumer.close()


def follow(consumer, kept, stopping, until_end):
    ended = set()
    while not stopping:
        batch = [message for message in consumer.consume(BATCH, timeout=0.2) if not is_end(message, ended)]
        if batch:
            # Durable first, committed after: a kill in between repeats, and what repeats is dropped.
            for data in kept.keep(filter(None, map(order_changed, batch))):
                show_change(data)
            commit(consumer)
        owned = {(each.topic, each.partition) for each in consumer.assignment()}
        if until_end and owned and owned <= ended:
            return


def commit(consumer):
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        # The next commit covers this one; after a restart the events between come again, and are dropped.
        print(f"not committed: {error}", file=sys.stderr)


def is_end(message, ended):
    """Whether it is the end of a partition and no message. Any other error ends this program: start it again."""
    error = message.error()
    if error is None:
        ended.discard((message.topic(), message.partition()))
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        ended.add((message.topic(), message.partition()))
        return True
    raise KafkaException(error)


def order_changed(message):
    """The order's key and the event's data; None for a message of another type."""
    headers = dict(message.headers() or [])
    if headers.get("ce_type", b"").decode() != ORDER_CHANGED:
        return None
    return message.key().decode(), json.loads(message.value())


def show_change(data):
    attention = f"  ! {' '.join(data['attention'])}" if data["attention"] else ""
    order = "/".join(data[name] for name in ("partner", "merchantCode", "orderId"))
    print(f"{order}  v{data['epoch']}.{data['version']}  {data['state']}{attention}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KafkaException as error:
        sys.exit(f"kafka: {error}")
