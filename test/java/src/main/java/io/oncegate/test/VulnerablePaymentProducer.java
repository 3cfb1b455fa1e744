package io.oncegate.test;

import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A payment service as many are: idempotence off, acks=1, a few retries, and nothing of its own
 * against duplicates. When an acknowledgement gets lost, the customer pays twice.
 *
 * <p>topic, client, count; pace: milliseconds between payments (1). Payment n of the client has the
 * value "client:n", its account as the key, and its amount in cents in the header "amount".
 */
final class VulnerablePaymentProducer {
    private static final int ACCOUNTS = 50;

    private VulnerablePaymentProducer() {}

    static void run(Arguments arguments) throws InterruptedException {
        String topic = arguments.take("topic");
        String client = arguments.take("client");
        int count = arguments.take("count", 0);
        int pace = arguments.take("pace", 1);
        Events events = new Events();
        CountDownLatch unanswered = new CountDownLatch(count);
        Properties properties = arguments.properties(
                "client.id", client,
                "enable.idempotence", "false",
                "acks", "1",
                "retries", "3");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < count; i++) {
                int payment = i;
                ProducerRecord<String, String> record = new ProducerRecord<>(topic, "account-" + payment % ACCOUNTS, client + ":" + payment);
                record.headers().add("amount", Integer.toString(100 + payment % 900).getBytes(StandardCharsets.UTF_8));
                producer.send(record, (m, e) -> {
                    if (e == null) {
                        events.ack(client, payment, m);
                    } else {
                        events.failed(client, payment, e);
                    }
                    unanswered.countDown();
                });
                Thread.sleep(pace);
            }
            producer.flush();
            unanswered.await();
        }
        events.summary();
    }
}
