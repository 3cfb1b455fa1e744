package io.oncegate.test;

import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Reads a topic from its start and prints each record. With a group.id it is a member of that group
 * and commits what it has read.
 *
 * <p>topic; count: records after which it ends; idle: milliseconds without a record after which it
 * gives up (20000).
 */
final class Consume {
    private Consume() {}

    static void run(Arguments arguments) {
        String topic = arguments.take("topic");
        int count = arguments.take("count", 0);
        int idle = arguments.take("idle", 20_000);
        Events events = new Events();
        Properties properties = arguments.properties("auto.offset.reset", "earliest", "enable.auto.commit", "false");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            boolean group = properties.containsKey("group.id");
            if (group) {
                consumer.subscribe(List.of(topic));
            } else {
                consumer.assign(consumer.partitionsFor(topic).stream().map(p -> new TopicPartition(topic, p.partition())).collect(Collectors.toList()));
            }
            int read = 0;
            long last = System.nanoTime();
            while (read < count) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
                for (ConsumerRecord<String, String> r : records) {
                    events.read(r.partition(), r.offset(), r.value());
                    read++;
                    last = System.nanoTime();
                }
                if (group && !records.isEmpty()) {
                    consumer.commitSync();
                }
                if (System.nanoTime() - last > idle * 1_000_000L) {
                    throw new IllegalStateException("only " + read + " of " + count + " records came");
                }
            }
        }
    }
}
