package io.oncegate.test;

import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces records "client:seq" and prints each acknowledgement.
 *
 * <p>topic, client, count; first: the first number (0); partitions: number n goes to partition n
 * modulo this, or with 0 where the key, which is the value, leads; pace: milliseconds between
 * bursts of records (1).
 */
final class Produce {
    private static final int BURST = 20;

    private Produce() {}

    static void run(Arguments arguments) throws InterruptedException {
        String topic = arguments.take("topic");
        String client = arguments.take("client");
        int count = arguments.take("count", 0);
        int first = arguments.take("first", 0);
        int partitions = arguments.take("partitions", 0);
        int pace = arguments.take("pace", 1);
        Events events = new Events();
        CountDownLatch unanswered = new CountDownLatch(count);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties(arguments, client), new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < count; i++) {
                int seq = first + i;
                String value = client + ":" + seq;
                Integer partition = partitions == 0 ? null : seq % partitions;
                producer.send(new ProducerRecord<>(topic, partition, value, value), (m, e) -> {
                    if (e == null) {
                        events.ack(client, seq, m);
                    } else {
                        events.failed(client, seq, e);
                    }
                    unanswered.countDown();
                });
                if (i % BURST == BURST - 1) {
                    Thread.sleep(pace);
                }
            }
            producer.flush();
            unanswered.await();
        }
        events.summary();
    }

    /** Small batches, so that many are in flight, and quick retries. */
    static Properties properties(Arguments arguments, String client) {
        return arguments.properties(
                "client.id", client,
                "acks", "all",
                "linger.ms", "2",
                "batch.size", "512",
                "max.in.flight.requests.per.connection", "5",
                "retry.backoff.ms", "20",
                "retry.backoff.max.ms", "200",
                "reconnect.backoff.ms", "10",
                "reconnect.backoff.max.ms", "100",
                "delivery.timeout.ms", "120000");
    }
}
