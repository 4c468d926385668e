#!/usr/bin/env python3
"""The small way: the same without Kafka and without a library, over the shop listener's lines.

    PAYFOLD_SHOP_KEY=… python3 small.py --url http://127.0.0.1:8081 --state orders.db

It works on any engine. A shop sees the orders of its own accounts. The place is kept with the orders, in one transaction.
"""

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

from kept import Kept

ORDER_CHANGED = "payfold.order.changed.v1"


def main():
    options = arguments()
    kept = Kept(options.state)
    if options.show:
        kept.show()
        return
    key = os.environ.get("PAYFOLD_SHOP_KEY") or sys.exit("PAYFOLD_SHOP_KEY is not set: `payfold shop add` prints one")
    while True:
        try:
            events, position = read(options, key, kept.position())
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                sys.exit(f"{error.code}: {error.read().decode()}")
            time.sleep(2)
            continue
        except OSError as error:
            print(f"not reached: {error}", file=sys.stderr)
            time.sleep(2)
            continue
        orders = [(event["subject"], event["data"]) for event in events if event["type"] == ORDER_CHANGED]
        for data in kept.keep(orders, position):
            print(f"{data['partner']}/{data['merchantCode']}/{data['orderId']}  {data['state']}", flush=True)
        if options.until_end and not events:
            return


def read(options, key, after):
    """Some events and the place behind them; none after 30 seconds without any."""
    query = {"limit": 500, "wait": 0 if options.until_end else 30, **({"after": after} if after else {})}
    url = f"{options.url}/v1/topics/orders?{urllib.parse.urlencode(query)}"
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return [json.loads(line) for line in answer], answer.headers["Payfold-Next"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8081", help="the shop listener")
    parser.add_argument("--state", default="orders.db", help="where orders are kept (default: orders.db)")
    parser.add_argument("--until-end", action="store_true", help="stop when nothing new is there")
    parser.add_argument("--show", action="store_true", help="only print what is kept")
    return parser.parse_args()


if __name__ == "__main__":
    main()
