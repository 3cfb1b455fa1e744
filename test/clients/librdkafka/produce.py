"""Produces count records "client:seq" with librdkafka's defaults and prints
"ack seq partition offset" or "error seq message" for each.

Arguments: bootstrap topic client count partitions pace-in-milliseconds
"""

import sys
import time

from confluent_kafka import Producer

bootstrap, topic, client, count, partitions, pace = sys.argv[1:7]
producer = Producer(
    {
        "bootstrap.servers": bootstrap,
        "client.id": client,
        "linger.ms": 2,
        "batch.num.messages": 5,
        "reconnect.backoff.ms": 10,
        "retry.backoff.ms": 20,
        "message.timeout.ms": 60000,
        "log_level": 0,
    }
)


def report(seq):
    def answer(err, msg):
        if err is None:
            print("ack", seq, msg.partition(), msg.offset(), flush=False)
        else:
            print("error", seq, err, flush=False)

    return answer


for seq in range(int(count)):
    producer.produce(topic, value=f"{client}:{seq}", partition=seq % int(partitions), on_delivery=report(seq))
    producer.poll(0)
    if seq % 20 == 19:
        time.sleep(int(pace) / 1000)
producer.flush(90)
